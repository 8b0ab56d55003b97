"""What two passes over files learn of scores, outcomes and attributes, in bounded memory.

The first pass sees which values there are. If a column has few, they are kept; else its quantiles
come from rows that a hash of their place draws (`Profile.drawn`). The second pass counts the rows
of every cell: a bin of the score, an outcome, and a level or range of every attribute. Both are
merged file by file, in order, so that the numbers do not depend on the number of workers.

Counts of cells are exact. A bin of several scores hides how they lie inside it; the metrics add
what that can change to their intervals (`equipoise.metrics.sample.Repeats`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
import pandas as pd

from equipoise.distributed.sources import FilePart, FileRun, hashed
from equipoise.errors import InputError
from equipoise.metrics.arrays import Floats, Integers, Mask
from equipoise.tables import Kind
from equipoise.tables.columns import REFUSED, kind_of

#: Where a continuous attribute of many values is divided: at its percentiles, each in two steps.
ATTRIBUTE_CUTS = tuple(k / 100 for k in range(1, 100))
ENDS = (0.0025, 0.005)
#: Most bins of the score, and most cells in all: with many groups there are fewer bins.
SCORE_BINS = 4096
CELLS = 2**22
#: Fewer bins than this would say too little.
FEWEST_BINS = 80
#: Rows drawn for quantiles, and for numbers that need single rows.
DRAWN = 50_000
#: Most categories of a column.
MOST_LEVELS = 10_000


@dataclass(frozen=True)
class AuditColumns:
    """Columns of an audit."""

    scores: tuple[str, ...]
    target: str | None
    sensitive: tuple[str, ...]
    missing: Literal["error", "skip"]  # what to do with missing sensitive values
    weight: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        optional = (name for name in (self.target, self.weight) if name is not None)
        return (*self.scores, *self.sensitive, *optional)


@dataclass(frozen=True)
class Values:
    """The distinct values of a column, as long as there are few."""

    kind: str  # "number", "boolean", "text"; "empty" where all are missing
    distinct: tuple[Any, ...] | None  # sorted; None: too many
    low: float  # of numbers, else infinite
    high: float
    missing: int

    def merged(self, other: Values) -> Values:
        """What both columns hold together."""
        kind = other.kind if self.kind == "empty" else self.kind
        distinct = None
        if self.distinct is not None and other.distinct is not None:
            both = sorted({*self.distinct, *other.distinct})
            distinct = tuple(both) if len(both) <= MOST_LEVELS else None
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Values(kind, distinct, low, high, self.missing + other.missing)


@dataclass(frozen=True)
class Profile:
    """What the first pass knows of some files."""

    columns: Mapping[str, Values]
    drawn: pd.DataFrame  # at most `DRAWN` rows, those of the smallest hashes; the index is the hash
    rows: int

    @classmethod
    def of(cls, parts: Iterable[Profile]) -> Profile:
        """What several know together; there is at least one."""
        return reduce(cls.merged, parts)

    def merged(self, other: Profile) -> Profile:
        """What both know together."""
        columns = {name: each.merged(other.columns[name]) for name, each in self.columns.items()}
        drawn = pd.concat([self.drawn, other.drawn]).sort_index(kind="stable").iloc[:DRAWN]
        return Profile(columns, drawn, self.rows + other.rows)


def profile_of(roles: AuditColumns, run: FileRun) -> Profile:
    """Look at some files; refuse what no row may hold."""
    return Profile.of(each for file in run.files for each in _profiles(roles, file))


def _profiles(roles: AuditColumns, file: FilePart) -> Iterator[Profile]:
    """What each frame of a file says."""
    for before, frame in file.frames(roles.names):
        columns = {name: _usable(frame[name], name, roles, file, before) for name in roles.names}
        hashes = hashes_of(file, before, len(frame))
        kept = np.argpartition(hashes, DRAWN)[:DRAWN] if len(frame) > DRAWN else slice(None)
        drawn = pd.DataFrame(columns).iloc[kept].set_axis(hashes[kept], axis=0)
        seen = {name: _values_of(each) for name, each in columns.items() if name != roles.weight}
        yield Profile(seen, drawn, len(frame))


def hashes_of(file: FilePart, before: int, rows: int) -> Any:
    """A number for each row that looks random and depends only on its place; uint64 (rows,)."""
    return hashed(np.arange(before, before + rows, dtype=np.uint64) + np.uint64(file.number << 40))


def _usable(
    values: pd.Series[Any], name: str, roles: AuditColumns, file: FilePart, before: int
) -> pd.Series[Any]:
    """Numbers as float64, other values as they are; an error names file and row."""
    missing = values.isna().to_numpy()
    where = f"data file {file} column {name!r}"
    sensitive = name in roles.sensitive
    if missing.any() and not (sensitive and roles.missing == "skip"):
        rule, remedy = "must have a value in every row", "fill it in, or leave the row out"
        if sensitive:
            remedy += ", or set missing_sensitive='skip' (--missing-sensitive skip)"
        row = before + int(missing.argmax()) + 1
        raise InputError(f"{where} {rule}, got none in row {row:,}; {remedy}")
    kind = kind_of(values)
    if kind in REFUSED:
        raise InputError(f"{where} must not hold {REFUSED[kind][0]}; {REFUSED[kind][1]}")
    score = name in roles.scores
    if score and kind not in ("number", "boolean"):
        raise InputError(f"{where} must hold numbers to be a score, got {kind}; convert it")
    if name == roles.weight and kind != "number":
        raise InputError(f"{where} must hold numbers to be weights, got {kind}; name another one")
    if kind != "number" and not score:
        return values
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    infinite = np.isinf(numbers)
    if infinite.any():
        place = int(infinite.argmax())
        raise InputError(
            f"{where} must hold finite numbers, got {numbers[place]} in row "
            f"{before + place + 1:,}; correct it"
        )
    if name == roles.weight and (numbers <= 0).any():
        place = int((numbers <= 0).argmax())
        raise InputError(
            f"{where} must hold weights above 0, got {numbers[place]:g} in row "
            f"{before + place + 1:,}; leave rows that do not count out"
        )
    return pd.Series(numbers, name=name)


def _values_of(values: pd.Series[Any]) -> Values:
    missing = int(values.isna().sum())
    distinct = pd.unique(values.dropna())
    kind = kind_of(values)
    if isinstance(values.dtype, pd.CategoricalDtype):
        distinct, kind = distinct.astype(object), "text"
    shown = np.asarray(distinct, dtype=None if kind == "number" else object)
    few = tuple(sorted(shown.tolist())) if len(shown) <= MOST_LEVELS else None
    low, high = (
        (shown.min(), shown.max()) if kind == "number" and len(shown) else (math.inf, -math.inf)
    )
    return Values(kind, few, float(low), float(high), missing)


@dataclass(frozen=True)
class Cells:
    """How the values of one column are divided into cells."""

    name: str
    levels: tuple[Any, ...] = ()  # cells of single values
    starts: tuple[float, ...] = ()  # or ranges of numbers, by their lowest values
    tops: tuple[float, ...] = ()  # or by their highest values

    def __len__(self) -> int:
        return len(self.levels) or len(self.starts) or len(self.tops)

    def codes(self, values: pd.Series[Any]) -> Integers:
        """Cell of each value (n,), -1 where it is missing."""
        if not self.levels:
            numbers = values.to_numpy(np.float64)
            below = np.searchsorted(self.starts, numbers, side="right") - 1
            found = below if self.starts else np.searchsorted(self.tops, numbers)
            return np.where(np.isnan(numbers), -1, found)
        codes, distinct = pd.factorize(values)
        place = pd.Index(self.levels, dtype=object).get_indexer(pd.Index(distinct, dtype=object))
        return np.append(place, -1)[codes].astype(np.int64)


@dataclass(frozen=True)
class Grid:
    """The cells that rows are counted in."""

    roles: AuditColumns
    score: Cells
    target: Cells | None
    attributes: tuple[Cells, ...]
    gaps: tuple[bool, ...]  # whether an attribute has missing values: a cell of their own

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Cells of the score, the outcome and every attribute."""
        attributes = (len(c) + gap for c, gap in zip(self.attributes, self.gaps, strict=True))
        return (len(self.score), len(self.target or (0,)), *attributes)


def grids_of(
    profile: Profile,
    roles: AuditColumns,
    score: str,
    kinds: Mapping[str, Kind],
    threshold: float | None,
) -> tuple[Grid, ...]:
    """Cells of one score: discrete attributes are crossed, each continuous one is by itself.

    All have the same bins of the score, with an edge at the threshold of decisions.
    """
    target = None
    if roles.target is not None:
        target = Cells(roles.target, levels=profile.columns[roles.target].distinct or ())
    discrete = tuple(name for name in roles.sensitive if kinds[name] == "discrete")
    alone = [(name,) for name in roles.sensitive if name not in discrete]
    grids = []
    for names in [*([discrete] if discrete else []), *alone]:
        attributes = tuple(_attribute_cells(profile, name, kinds[name]) for name in names)
        gaps = tuple(profile.columns[name].missing > 0 for name in names)
        grids.append(Grid(roles, Cells(score, levels=(0,)), target, attributes, gaps))
    most = max(grids, key=lambda grid: math.prod(grid.shape))
    cells = math.prod(most.shape)  # with a single bin
    bins = min(SCORE_BINS, CELLS // cells)
    if bins < FEWEST_BINS:
        sizes = ", ".join(f"{each.name!r} {len(each)}" for each in most.attributes)
        raise InputError(
            f"sensitive must have at most {CELLS // FEWEST_BINS:,} combinations of categories "
            f"and outcomes to count, got {cells:,} ({sizes}); audit fewer columns at a time"
        )
    cells_of_score = _score_cells(profile, score, bins, threshold)
    return tuple(replace(grid, score=cells_of_score) for grid in grids)


def _attribute_cells(profile: Profile, name: str, kind: Kind) -> Cells:
    values = profile.columns[name]
    few = len(ENDS) * len(ATTRIBUTE_CUTS)
    if kind == "discrete" or (values.distinct and len(values.distinct) <= few):
        return Cells(name, levels=values.distinct or ())
    # Quantiles of the drawn rows differ from those of all by about 0.2 % of the people. So the
    # first end is nearly always above the cut; the second says where the next range begins.
    ends = np.add.outer(ATTRIBUTE_CUTS, ENDS).ravel().clip(max=1)
    tops = np.quantile(profile.drawn[name].dropna(), ends, method="higher")
    return Cells(name, tops=tuple(np.unique([values.low, *tops, values.high]).tolist()))


def _score_cells(profile: Profile, name: str, bins: int, threshold: float | None) -> Cells:
    values = profile.columns[name]
    if values.distinct is not None and len(values.distinct) <= bins:
        starts = np.array(values.distinct, dtype=np.float64)
    else:
        drawn = profile.drawn[name].to_numpy(np.float64)
        starts = np.quantile(drawn, np.arange(1, bins) / bins, method="higher")
    # A decision is score > threshold: the next number begins a bin.
    above = [] if threshold is None else [np.nextafter(threshold, math.inf)]
    above = [edge for edge in above if values.low < edge <= values.high]
    return Cells(name, starts=tuple(np.unique([values.low, *starts, *above]).tolist()))


@dataclass(frozen=True, eq=False)
class Counted:
    """Rows of each cell that has any, and the scores in each bin."""

    cells: Integers  # (m,): number of the cell in `Grid.shape`, ascending
    #: (2, m): rows, and the sum of their scores, each times its weight. With weights (4, m): then
    #: also the sum of the weights, and that of their squares.
    sums: Floats
    low: Floats  # (bins,): lowest score of each bin; infinite where it has none
    high: Floats

    @classmethod
    def of(cls, parts: Iterable[Sequence[Counted]], grids: Sequence[Grid]) -> tuple[Counted, ...]:
        """The sums of counts of every grid, added in their order."""
        kept = 2 if grids[0].roles.weight is None else 4
        sums = [np.zeros((kept, math.prod(grid.shape))) for grid in grids]
        ends = [np.full((2, len(grid.score)), math.inf) for grid in grids]  # the lowest; -highest
        for part in parts:
            for all_cells, end, each in zip(sums, ends, part, strict=True):
                all_cells[:, each.cells] += each.sums
                np.minimum(end, (each.low, -each.high), out=end)
        used = [np.flatnonzero(all_cells[0]) for all_cells in sums]
        return tuple(
            cls(cells, all_cells[:, cells], end[0], -end[1])
            for cells, all_cells, end in zip(used, sums, ends, strict=True)
        )

    @property
    def number(self) -> Floats:
        """Rows of each cell, (m,)."""
        return np.asarray(self.sums[0])

    @property
    def coarse(self) -> Mask:
        """Which bins hold several distinct scores, (bins,)."""
        return self.low < self.high


def count(grids: Sequence[Grid], run: FileRun) -> tuple[Counted, ...]:
    """Count the rows of some files, in every grid."""
    return Counted.of((each for file in run.files for each in _counts(grids, file)), grids)


def _counts(grids: Sequence[Grid], file: FilePart) -> Iterator[tuple[Counted, ...]]:
    """Counts of the rows of each frame of a file."""
    roles, targets = grids[0].roles, [g.target for g in grids if g.target is not None]
    parts = [*(g.score for g in grids), *targets, *(c for g in grids for c in g.attributes)]
    divided = {cells.name: cells for cells in parts}
    for before, frame in file.frames(roles.names):
        columns = {name: _usable(frame[name], name, roles, file, before) for name in roles.names}
        codes = {name: cells.codes(columns[name]) for name, cells in divided.items()}
        scores = {name: columns[name].to_numpy(np.float64) for name in roles.scores}
        ends = {name: _ends(each, codes[name], len(divided[name])) for name, each in scores.items()}
        weights = None if roles.weight is None else columns[roles.weight].to_numpy(np.float64)
        found = []
        for grid in grids:
            name = grid.score.name
            outcome = 0 if grid.target is None else codes[grid.target.name]
            places = [codes[name], np.broadcast_to(outcome, len(frame))]
            for cells in grid.attributes:
                code = codes[cells.name]
                places.append(np.where(code < 0, len(cells), code))  # missing: the last cell
            number = np.ravel_multi_index(tuple(places), grid.shape)
            used, rows = np.unique(number, return_inverse=True)
            added = [None, scores[name]]
            if weights is not None:
                added = [None, weights * scores[name], weights, weights**2]
            sums = np.array([np.bincount(rows, each) for each in added], dtype=np.float64)
            found.append(Counted(used, sums, *ends[name]))
        yield tuple(found)


def _ends(scores: Floats, place: Integers, bins: int) -> tuple[Floats, Floats]:
    """The lowest and the highest score of each bin."""
    low, high = np.full(bins, math.inf), np.full(bins, -math.inf)
    np.minimum.at(low, place, scores)
    np.maximum.at(high, place, scores)
    return low, high
