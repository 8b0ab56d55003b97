"""`audit_files`: the audit of scores in many files, of any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from equipoise.auditing import Audit, Audits
from equipoise.auditing.assess import audit_of, audits_of
from equipoise.auditing.inputs import (
    AuditData,
    AuditSettings,
    read_data,
    read_outcome,
)
from equipoise.cluster import connected
from equipoise.distributed.counting import (
    MOST_LEVELS,
    AuditColumns,
    Cells,
    Counted,
    Grid,
    Profile,
    count,
    grids_of,
    profile_of,
)
from equipoise.distributed.sources import FilePart, FileRun, Table, files_of, runs_of
from equipoise.errors import InputError, check_choice, check_number, did_you_mean
from equipoise.files.columns import as_names
from equipoise.files.contents import label_of
from equipoise.metrics.arrays import Integers
from equipoise.metrics.outcome import outcome_kind
from equipoise.metrics.sample import Repeats, of_equal_weight
from equipoise.tables import Kind, SensitiveColumn, SensitiveTable
from equipoise.tables.columns import whole
from equipoise.tables.sensitive_table import check_types


@overload
def audit_files(paths: Table, *, score: str, **options: Any) -> Audit: ...


@overload
def audit_files(paths: Table, *, score: Sequence[str], **options: Any) -> Audit | Audits: ...


def audit_files(  # type: ignore[misc]  # overloads need not repeat every option
    paths: Table,
    *,
    score: str | Sequence[str],
    sensitive: str | Sequence[str],
    target: str | None = None,
    weight: str | None = None,
    engine: Literal["ray"] = "ray",
    workers: int | None = None,
    sensitive_types: Mapping[str, Kind] | None = None,
    missing_sensitive: Literal["error", "skip"] = "error",
    **options: Any,
) -> Audit | Audits:
    """Assess scores in Parquet or Arrow files of any number of rows, on a Ray cluster.

    Every row is counted; memory does not grow with their number. Counts and rates are exact, and so
    is every number where the score has at most 4,096 distinct values. Otherwise scores are counted
    in as many bins. What that can change in a distance is computed, lies inside the intervals, and
    is noted. A continuous attribute of more than 198 distinct values is divided at its percentiles.
    Measures of dependence and permutation tests use 50,000 rows, drawn by a hash of their place.

    Parameters
    ----------
    paths : path, glob or several of them, or ray.data.Dataset
        The files of one table. A dataset is run once and written to temporary files.
    score : str or sequence of str
        Column of scores. Several are audited side by side, and read together.
    target : str
        Column of true outcomes, which has classes. Without it only independence is assessed.
    sensitive : str or sequence of str
        Sensitive columns.
    weight : str, optional
        Column that says how much each row counts, as ``sample_weight`` of `equipoise.audit`.
    engine : {"ray"}
        Uses the cluster that the process is connected to, else that of RAY_ADDRESS, else the cores
        of this machine.
    workers : int, optional
        Files read at a time; by default one for each core of the cluster.
    sensitive_types, missing_sensitive, **options
        As in `equipoise.audit`.

    Returns
    -------
    Audit, or Audits of several columns of scores

    Examples
    --------
    >>> found = audit_files("scores/*.parquet", score="risk", sensitive="age")  # doctest: +SKIP
    """
    check_choice("engine", engine, ("ray",))
    check_choice("missing_sensitive", missing_sensitive, ("error", "skip"))
    settings = _settings(options)
    settings.notions(outcome_given=target is not None)
    scores = as_names("score", score)
    roles = AuditColumns(
        scores, target, as_names("sensitive", sensitive), missing_sensitive, weight
    )
    _check_roles(roles)
    types = {} if sensitive_types is None else sensitive_types
    check_types(types, roles.sensitive)
    with files_of(paths, roles.names) as files, connected(workers) as cluster:
        return audit_streams(cluster.in_order, files, roles, settings, types)


def audit_streams(
    in_order: Callable[[Callable[[FileRun], Any], Sequence[FileRun]], Iterable[Any]],
    files: Sequence[FilePart],
    roles: AuditColumns,
    settings: AuditSettings,
    types: Mapping[str, Kind],
) -> Audit | Audits:
    """Audit files in two passes; `in_order` applies a function to each run, as ``map`` does."""
    runs = runs_of(files)
    profile = Profile.of(in_order(partial(profile_of, roles), runs))
    kinds = {name: _kind(profile, name, types.get(name)) for name in roles.sensitive}
    if roles.target is not None and settings.positive is not None:
        labels = profile.columns[roles.target].distinct or ()
        settings = replace(settings, positive=label_of(settings.positive, labels))
    _check_outcome(profile, roles.target, settings)
    cut = _given_threshold(settings)
    grids = [g for name in roles.scores for g in grids_of(profile, roles, name, kinds, cut)]
    counted = Counted.of(in_order(partial(count, grids), runs), grids)
    data: dict[str, list[AuditData]] = {name: [] for name in roles.scores}
    for grid, each in zip(grids, counted, strict=True):
        data[grid.score.name].append(_audit_data(grid, each, types, settings))
    single = {
        name: _drawn(profile, roles, name, kinds, each[0], settings) for name, each in data.items()
    }
    repeat = "audit_files(paths, score=, target=, sensitive=)"
    if len(data) > 1:
        several = audits_of(data, settings, single)
        found = {name: replace(each, repeat=repeat) for name, each in several.items()}
        return replace(several, audits=found)
    ((name, alone),) = data.items()
    return replace(audit_of(alone, settings, single[name]), repeat=repeat)


def _settings(options: Mapping[str, Any]) -> AuditSettings:
    known = [each.name for each in fields(AuditSettings)]
    for name in options:
        if name not in known:
            raise InputError(
                f"options of audit_files must be among {', '.join(known)}, got {name!r}"
                f"{did_you_mean(name, known)}"
            )
    return AuditSettings(**options)


def _check_roles(roles: AuditColumns) -> None:
    for role, names in (("score", roles.scores), ("sensitive", roles.sensitive)):
        if not names:
            raise InputError(f"{role} must name at least one column, got none; name one")
    twice = next((name for name in roles.names if roles.names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"score, target, sensitive and weight must name different columns, got {twice!r} "
            "twice; name it once"
        )


def _given_threshold(settings: AuditSettings) -> float | None:
    """The threshold, unless it is to be found."""
    given = settings.threshold
    return None if given is None or isinstance(given, str) else check_number("threshold", given)


def _kind(profile: Profile, name: str, override: Kind | None) -> Kind:
    """The kind of a sensitive column, by the rules of `SensitiveTable`."""
    values = profile.columns[name]
    where = f"sensitive column {name!r}"
    if values.distinct is None:
        if values.kind == "number" and override != "discrete":
            return "continuous"
        raise InputError(
            f"{where} must have at most {MOST_LEVELS:,} categories, got more; leave it out, or "
            "merge categories"
        )
    if len(values.distinct) < 2:
        found = repr(values.distinct[0]) if values.distinct else "no value"
        raise InputError(
            f"{where} must have at least two distinct values, got {found} in all "
            f"{profile.rows:,} rows; no score can depend on a constant, so leave it out"
        )
    return _column(Cells(name, levels=values.distinct), override).kind


def _column(cells: Cells, override: Kind | None) -> SensitiveColumn:
    """A sensitive column with one row for each cell."""
    values = cells.levels or cells.tops
    types = {} if override is None else {cells.name: override}
    # Twice, because a column of categories that all differ would be an identifier.
    typed = SensitiveTable.from_data({cells.name: [*values, *values]}, types=types)
    column = typed[cells.name].take(np.arange(len(values)))
    if cells.tops and override is None:
        return replace(column, rule="numbers, divided at quantiles")
    return column


def _check_outcome(profile: Profile, target: str | None, settings: AuditSettings) -> None:
    """Refuse an outcome without classes: its strata would need all rows at once."""
    if target is None:
        return
    distinct = profile.columns[target].distinct
    if distinct is not None and settings.outcome != "continuous":
        if settings.positive is not None:
            return
        if outcome_kind(np.array(distinct), settings.outcome) != "continuous":
            return
    raise InputError(
        f"target must hold classes to be counted, got the continuous {target!r}; leave it out to "
        "assess independence, or audit a part of the rows without engine='ray'"
    )


def _audit_data(
    grid: Grid,
    counted: Counted,
    types: Mapping[str, Kind],
    settings: AuditSettings,
) -> AuditData:
    """The cells as rows of an audit that stand for many."""
    number, total, *of_weights = counted.sums
    weight, squares = of_weights or (number, number)
    cell, people, weights = of_equal_weight(number, weight, squares)
    place, outcome, *codes = np.unravel_index(counted.cells[cell], grid.shape)
    low, high = counted.low[place], counted.high[place]
    # Rounding must not move the mean of a bin beyond its scores.
    scores = np.where(low == high, low, np.clip((total / weight)[cell], low, high))
    table = SensitiveTable(
        tuple(
            _taken(_column(cells, types.get(cells.name)), np.where(code < len(cells), code, -1))
            for cells, code in zip(grid.attributes, codes, strict=True)
        )
    )
    y, kind, words = None, None, "none given"
    if grid.target is not None:
        levels = [whole(each) if isinstance(each, float) else each for each in grid.target.levels]
        y, kind, words = read_outcome(np.array(levels)[outcome], len(outcome), settings)
    weights = weights * number.sum() / weight.sum()
    repeats = Repeats(people, low, counted.coarse[place])
    own = None if np.allclose(weights, 1, rtol=1e-6, atol=0) else weights
    return AuditData(scores, y, kind, words, table, own, repeats)


def _taken(column: SensitiveColumn, codes: Integers) -> SensitiveColumn:
    """The rows of these cells (m,); -1 is a missing value."""
    taken = column.take(np.maximum(codes, 0))
    if taken.codes is not None:
        return replace(taken, codes=np.where(codes < 0, -1, taken.codes))
    assert taken.values is not None
    return replace(taken, values=np.where(codes < 0, np.nan, taken.values), scores=None)


def _drawn(
    profile: Profile,
    roles: AuditColumns,
    score: str,
    kinds: Mapping[str, Kind],
    data: AuditData,
    settings: AuditSettings,
) -> AuditData:
    """Rows that stand for themselves, for numbers that need single rows."""
    rows = profile.drawn.reset_index(drop=True)
    return read_data(
        rows[score],
        None if roles.target is None else rows[roles.target],
        rows[list(roles.sensitive)],
        replace(settings, outcome=data.outcome),
        types=kinds,
        missing=roles.missing,
        sample_weight=None if roles.weight is None else rows[roles.weight],
    )
