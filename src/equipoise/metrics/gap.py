"""The gap: the largest difference between a group and all others, beyond what chance explains.

**Distance.** D(g) is the largest |P(score > t | g) - P(score > t | not g)| over all thresholds t:
the two-sample Kolmogorov-Smirnov distance. It lies in [0, 1] and is a difference in percentage
points of people selected, so it can be compared between attributes.

**Groups.** The groups of a discrete attribute are its levels. Those of a continuous attribute are
all ranges of consecutive twentieths of the people, and the tails beyond the 1st, 2nd, 98th and 99th
percentiles. A group is judged if it and its complement have at least `SMALL_GROUP` rows.

**Chance.** Among many groups, some differ by chance alone. If the score does not depend on A, any
assignment of the values of A to the rows is as likely as any other. So permutations of A show how
large D(g) / s(g) becomes over all groups, with the scale s(g) = sqrt(1 / n(g) + 1 / n(not g)). If q
is the 95 % quantile of the largest one, c(g) = q s(g) is the chance level of the group, and
sqrt(max(0, D(g)^2 - c(g)^2)) is its excess over chance. The **gap** is the largest excess. If the
score is fair, it is 0 in 95 % of samples.

**Given Y.** Among people of equal outcome, it is the largest gap over the classes of Y; the chance
level is for all classes together. For a continuous Y, the rank of the score among people of nearly
equal Y replaces the score (`rank_among_alike`), and A is permuted among these people.

Rows of unequal weight count as (sum w)^2 / sum w^2 rows (Kish 1965, Survey Sampling, section 11.7).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from equipoise.metrics.arrays import Floats, Integers
from equipoise.metrics.outcome import OutcomeKind, equal_frequency, range_label, ranks_within
from equipoise.metrics.partition import Ranking, quantiles, rank
from equipoise.metrics.registry import Computed, Metric, register_metric
from equipoise.metrics.sample import SMALL_GROUP, Sample
from equipoise.notions import Notion
from equipoise.tables import SensitiveColumn

#: Probability with which a fair score has no gap.
LEVEL = 0.95
PERMUTATIONS = 999
# Shares of the people at which a continuous attribute is divided.
_TWENTIETHS = tuple(k / 20 for k in range(1, 20))
_TAILS = (0.01, 0.02, 0.98, 0.99)
_CUTS = tuple(sorted((*_TWENTIETHS, *_TAILS)))
# Numbers in memory at once: 2 MiB of float64 fit into the processor's cache.
_BLOCK = 2**18
# Number of places at which the limiting process is read. The maximum of a random walk at this
# number of steps is below that of the limiting Brownian motion by 0.5826 / sqrt(steps) (Chernoff
# 1965; Broadie, Glasserman and Kou 1997, A continuity correction for discrete barrier options).
_PLACES = 256
_SHORTFALL = 0.5826
# A score with more distinct values is treated as if it had no ties. That raises the chance level a
# little.
_MOST_TIED = 64
# With more rows, draws come from the limit of the distribution under permutations.
_EXACT_ROWS = 1_000


@dataclass(frozen=True)
class Spans:
    """Groups of consecutive cells: group g has the cells `first[g]`, ..., `last[g] - 1`."""

    cells: int
    first: tuple[int, ...]
    last: tuple[int, ...]
    levels: bool  # whether every group is one cell

    @property
    def inner(self) -> list[int]:
        """First and last cells of the groups that reach neither end."""
        pairs = zip(self.first, self.last, strict=True)
        return sorted(
            {each for pair in pairs if pair[0] > 0 and pair[1] < self.cells for each in pair}
        )

    def sums(self, by_cell: Tensor) -> Tensor:
        """Turn sums by cell (..., C) into sums by group (..., G)."""
        below = torch.nn.functional.pad(by_cell.cumsum(-1), (1, 0))
        return below[..., list(self.last)] - below[..., list(self.first)]

    def take(self, groups: Integers) -> Spans:
        """These groups (positions) only."""
        first, last = (tuple(each[g] for g in groups) for each in (self.first, self.last))
        return Spans(self.cells, first, last, self.levels)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows by one attribute."""

    codes: Tensor  # int64 (n,): cell of each row
    spans: Spans
    labels: tuple[str, ...]  # G, in words

    def __len__(self) -> int:
        return len(self.labels)

    def sizes(self, weights: Tensor) -> Tensor:
        """Weight (..., G) of the rows in each group, for weights (..., n)."""
        by_cell = weights.new_zeros((*weights.shape[:-1], self.spans.cells))
        return self.spans.sums(by_cell.index_add_(-1, self.codes, weights))

    def take(self, groups: Integers) -> Groups:
        """These groups (positions) only."""
        labels = tuple(self.labels[g] for g in groups)
        return Groups(self.codes, self.spans.take(groups), labels)


def groups_of(column: SensitiveColumn, people: Tensor, weights: Tensor) -> Groups:
    """All groups of a column among the rows with people, including small ones; both (n,).

    If two groups are complements of each other, only the smaller one is listed.
    """
    rows = people > 0
    if column.codes is not None:
        cells = len(column.categories)
        codes = torch.from_numpy(np.maximum(column.codes, 0)).to(rows.device)
        spans = Spans(cells, tuple(range(cells)), tuple(range(1, cells + 1)), levels=True)
        labels = tuple(level_label(column, number) for number in range(cells))
    else:
        assert column.values is not None
        values = torch.from_numpy(np.nan_to_num(column.values)).to(rows.device)
        inside, weighed = values[rows], weights[rows] * (people.sum() / weights[rows].sum())
        cuts = quantiles(inside, weighed, _CUTS)
        codes = torch.searchsorted(cuts, values)
        spans = _ranges(cuts)
        labels = _range_labels(column.name, inside, codes[rows], spans)
    found = Groups(codes, spans, labels)
    sizes, n = found.sizes(people.to(torch.int64)).tolist(), int(people.sum())
    kept = []
    for g, (size, first, last) in enumerate(zip(sizes, spans.first, spans.last, strict=True)):
        # The complement of a group at one end is the group at the other end.
        paired = (first == 0) != (last == spans.cells) if not spans.levels else spans.cells == 2
        mirrored = paired and (2 * size > n or (2 * size == n and first > 0))
        if 0 < size < n and not mirrored:
            kept.append(g)
    return found.take(np.array(kept, dtype=np.int64))


def _ranges(cuts: Tensor) -> Spans:
    """Ranges of consecutive twentieths, and tails, between the quantiles at `_CUTS`."""
    cells = len(cuts) + 1
    # Equal quantiles count as one; the cells between them are empty.
    same = [0, *(torch.searchsorted(cuts, cuts) + 1).tolist(), cells]
    twentieths = [0, *(1 + _CUTS.index(cut) for cut in _TWENTIETHS), cells]
    pairs = {(same[i], same[j]) for i in twentieths for j in twentieths if i < j}
    tails = [same[1 + _CUTS.index(cut)] for cut in _TAILS]
    pairs |= {(0, tails[0]), (0, tails[1]), (tails[2], cells), (tails[3], cells)}
    first, last = zip(*sorted(pairs), strict=True)
    return Spans(cells, first, last, levels=False)


def level_label(column: SensitiveColumn, number: int) -> str:
    """A level in words, such as "sex = F"; "sex = F, race = Black" for crossed columns."""
    category = column.categories[number]
    names = column.name.split(" x ")
    if isinstance(category, tuple) and len(category) == len(names):
        pairs = zip(names, category, strict=True)
        return ", ".join(f"{name} = {each}" for name, each in pairs)
    return f"{column.name} = {category}"


def _range_labels(name: str, values: Tensor, codes: Tensor, spans: Spans) -> tuple[str, ...]:
    """Ranges in words, from their smallest to their largest value, such as "age 61 to 83"."""
    ordered, cell = values.sort().values, codes.sort().values
    bounds = torch.arange(spans.cells + 1, device=codes.device)
    begin = torch.searchsorted(cell, bounds).tolist()
    pairs = [(begin[i], begin[j]) for i, j in zip(spans.first, spans.last, strict=True)]
    smallest = ordered[[min(i, len(ordered) - 1) for i, _ in pairs]].tolist()
    largest = ordered[[max(j - 1, 0) for _, j in pairs]].tolist()
    ends = zip(smallest, largest, strict=True)
    return tuple(f"{name} {range_label(low, high, 6)}" for low, high in ends)


def rank_among_alike(scores: Tensor, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rank of each score among people of nearly equal y, in (0, 1): an estimate of F(score | y).

    Under separation it does not depend on A. People of nearly equal y are strata of about
    sqrt(n) rows, at least 10 and at most 50. Before ranking, what y explains inside a stratum is
    removed: a straight line, fitted to the ranks of the scores there.

    scores: (K, n); y: (n,); rows: boolean (n,). Returns ranks (K, n), 1/2 for other rows, and the
    stratum of each row (n,).
    """
    known_scores, known_y = scores[:, rows].cpu().numpy(), y[rows].cpu().numpy()
    m = len(known_y)
    size = min(max(math.sqrt(m), 10), 50)
    strata = equal_frequency(known_y, max(1, round(m / size)))
    score_ranks, y_ranks = (
        ranks_within(values, np.zeros_like(strata)) for values in (known_scores, known_y[None])
    )
    residuals = _residuals(score_ranks, y_ranks, strata)
    # If y determines the score, the residuals are rounding errors, which must not be ranked.
    residuals = (residuals * 2.0**30).round()
    ranks = torch.full_like(scores, 0.5)
    ranks[:, rows] = torch.from_numpy(ranks_within(residuals, strata)).to(ranks)
    stratum = torch.zeros_like(y, dtype=torch.int64)
    stratum[rows] = torch.from_numpy(strata).to(stratum)
    return ranks, stratum


def _residuals(ranks: Floats, along: Floats, strata: Integers) -> Floats:
    """Ranks (K, m) less a straight line in `along` (1, m), fitted in each stratum."""
    sizes = np.bincount(strata)

    def mean(values: Floats) -> Floats:
        sums = np.stack([np.bincount(strata, weights=each) for each in values])
        return np.asarray((sums / sizes)[:, strata])

    ranks, along = ranks - mean(ranks), along - mean(along)
    spread = mean(along**2)
    slope = np.where(spread > 0, mean(ranks * along) / np.maximum(spread, 1e-300), 0.0)
    return np.asarray(ranks - slope * along)


class Small(NamedTuple):
    """A group with fewer than `SMALL_GROUP` rows inside or outside."""

    label: str
    inside: int
    outside: int


@dataclass(frozen=True, eq=False)
class GroupComparison:
    """Scores of some rows, and the groups of one attribute among these rows."""

    ranking: Ranking  # of K scores over the m rows; its order indexes all n rows
    groups: Groups  # those that are judged
    people: Tensor  # (n,): how many rows each row stands for; 0 for rows that are not compared
    weights: Tensor  # (R, n)
    strata: Tensor | None  # int64 (n,): A is permuted within these; None: among all rows
    small: tuple[Small, ...]  # groups with too few rows to judge
    coarse: Tensor | None  # boolean (n,): whether a row's bin of scores has several; None: no bins

    @property
    def rows(self) -> Tensor:
        """Which rows are compared, boolean (n,)."""
        return self.people > 0

    def distances(self) -> Tensor:
        """D of every group, (R, K, G)."""
        order = self.ranking.order
        shape = (len(self.weights), *order.shape)
        weighed = self.weights[:, None].expand(*shape[:2], -1).gather(-1, order.expand(shape))
        flat = (-1, order.shape[-1])
        found = _from_places(
            self.groups.codes[order].expand(shape).reshape(flat),
            weighed.reshape(flat),
            self.ranking.ends.expand(shape).reshape(flat),
            self.groups.spans,
        )
        return found.view(*shape[:2], -1)

    def scales(self) -> Tensor:
        """Scale s(g) of D, (R, G), from the effective numbers of rows."""
        inside, outside = self._per_row()
        return (inside + outside).sqrt()

    def _per_row(self) -> tuple[Tensor, Tensor]:
        """One over the effective number of rows inside and outside each group, (R, G) both."""
        weights = self.weights * self.rows
        squares = weights.square() / self.people.clamp(min=1)
        inside, of_squares = self.groups.sizes(weights), self.groups.sizes(squares)
        outside = weights.sum(-1, keepdim=True) - inside
        others = squares.sum(-1, keepdim=True) - of_squares
        return of_squares / inside.square(), others / outside.square()

    def widening(self, member: int) -> Tensor:
        """How many times as much D may vary as under independence, (G,); at least 1.

        A share p of n rows varies as p (1 - p) / n. Under independence all groups have the share of
        everybody. Otherwise a group may have a share nearer to one half. With many distinct scores
        D is the largest of many differences, and this makes none.
        """
        ties = int(self.ranking.ends[member].sum())
        if self.strata is not None or not 1 < ties <= _MOST_TIED:
            return self.weights.new_ones(len(self.groups))
        up_to = self._of_ties(member, self.weights[0]).cumsum(0)
        inside, everybody = self.groups.spans.sums(up_to), up_to.sum(-1, keepdim=True)
        own, others = inside / inside[-1], (everybody - inside) / (everybody - inside)[-1]
        share = everybody / everybody[-1]
        few, many = (each[0] for each in self._per_row())
        apart = (own * (1 - own) * few + others * (1 - others) * many).amax(0)
        alike = (share * (1 - share)).amax() * (few + many)
        return (apart / alike).clamp(min=1).sqrt()

    def _of_ties(self, member: int, weights: Tensor) -> Tensor:
        """Sums of weights (n,) by distinct score and cell, (ties, C), the lowest score first."""
        ends, order = self.ranking.ends[member], self.ranking.order[member]
        place = ends.cumsum(0) - ends.to(torch.int64)  # of each row among the distinct scores
        cells = weights.new_zeros(int(ends.sum()) * self.groups.spans.cells)
        numbers = place.to(torch.int64) * self.groups.spans.cells + self.groups.codes[order]
        return cells.index_add_(0, numbers, weights[order]).view(-1, self.groups.spans.cells)

    def blur(self, member: int) -> Tensor:
        """By how much D may be too small because scores are in bins, (G,).

        D is read between bins. Inside a bin the distribution function of the group rises by at
        most the group's share of the bin, and that of the others by at most theirs. So a
        difference inside exceeds the larger of those at its ends by at most the smaller share.
        """
        if self.coarse is None:
            return self.weights.new_zeros(len(self.groups))
        by_bin = self._of_ties(member, self.weights[0])
        coarse = self._of_ties(member, self.weights[0] * self.coarse).sum(-1) > 0
        inside, everybody = self.groups.spans.sums(by_bin), by_bin.sum(-1, keepdim=True)
        others = everybody - inside
        shares = torch.minimum(inside / inside.sum(0), others / others.sum(0))
        return (shares * coarse[:, None]).amax(0)

    def permuted(self, member: int, permutations: int, seed: int) -> Floats:
        """Largest D(g) / s(g) of each permutation, (permutations,)."""
        spans = self.groups.spans
        codes = self.groups.codes[self.rows]
        strata = torch.zeros_like(codes) if self.strata is None else self.strata[self.rows]
        shape = (int(strata.max()) + 1, spans.cells)
        cells = strata * spans.cells + codes
        people = torch.bincount(cells, self.people[self.rows], minlength=math.prod(shape))
        counts = people.view(shape).cpu().numpy().astype(np.int64)
        if spans.levels:  # sorted by size, so that names and order of levels do not matter
            order = np.lexsort(counts)
            counts = np.ascontiguousarray(counts[:, order])
            judged = np.flatnonzero(np.isin(order, spans.first))
            spans = Spans(spans.cells, tuple(judged.tolist()), tuple((judged + 1).tolist()), True)
        return _permuted(counts.tobytes(), spans, self._ties(member), permutations, seed)

    def _ties(self, member: int) -> tuple[int, ...] | None:
        """Sizes of the sets of equal scores, lowest first; None if ties are ignored."""
        if self.strata is not None or int(self.ranking.ends[member].sum()) > _MOST_TIED:
            return None
        return tuple(self._of_ties(member, self.people).sum(-1).to(torch.int64).tolist())

    def threshold(self, member: int, group: int) -> float:
        """The score above which the group and the others differ most."""
        order, spans = self.ranking.order[member], self.groups.spans
        codes, weighed = self.groups.codes[order], self.weights[0, order]
        inside = (codes >= spans.first[group]) & (codes < spans.last[group])
        own, others = (weighed * inside).cumsum(0), (weighed * ~inside).cumsum(0)
        apart = (own / own[-1] - others / others[-1]).abs() * self.ranking.ends[member]
        return float(self.ranking.values[member, int(apart.argmax())])


def _from_places(codes: Tensor, weights: Tensor, ends: Tensor, spans: Spans) -> Tensor:
    """D of every group, (L, G), for L lists of rows in the order of their scores.

    codes, weights, ends: (L, m), the cell and the weight of the row at each place, and whether it
    is the last one with its score.
    """
    lists, m = codes.shape
    weights = weights / weights.sum(-1, keepdim=True)
    of_cells = weights.new_zeros((lists, spans.cells)).scatter_add_(1, codes, weights)
    reached = torch.zeros_like(of_cells[..., None])
    far = weights.new_zeros((lists, len(spans.first)))
    step = max(1, _BLOCK // (lists * spans.cells))
    for start in range(0, m, step):
        some = slice(start, start + step)
        cell, weight = codes[:, None, some], weights[:, None, some]
        inside = weights.new_zeros((lists, spans.cells, cell.shape[-1]))
        inside.scatter_(1, cell, weight).cumsum_(-1).add_(reached)
        reached = inside[..., -1:].clone()
        found = _excess(inside, of_cells).mul_(ends[:, None, some])
        far = torch.maximum(far, _apart(found, spans))
    share = spans.sums(of_cells)
    return far / (share * (1 - share))


def _excess(inside: Tensor, of_cells: Tensor) -> Tensor:
    """Paths (L, C + 1, places): share of rows below each cell and place, less the expected share.

    The expected share is that under independence of cell and place.

    inside: (L, C, places), the share of all rows in each cell up to each place; of_cells: (L, C).
    """
    below = torch.nn.functional.pad(inside.cumsum(1), (0, 0, 1, 0))
    shares = torch.nn.functional.pad(of_cells.cumsum(-1), (1, 0))
    return below - shares[..., None] * below[:, -1:]


def _apart(excess: Tensor, spans: Spans) -> Tensor:
    """Largest difference between each group and its expected share, (L, G), from such paths."""
    first, last = list(spans.first), list(spans.last)
    if spans.levels:
        return (excess[:, 1:] - excess[:, :-1]).abs_().amax(-1)[:, first]
    bounds = spans.cells + 1
    far = excess.new_zeros((len(excess), bounds, bounds))
    # Paths begin and end at 0, so groups at an end need only one path.
    far[:, 0] = far[:, :, -1] = excess.abs().amax(-1)
    inner = torch.tensor(spans.inner, dtype=torch.int64, device=excess.device)
    some = excess[:, inner].contiguous()
    far[:, inner[:, None], inner] = torch.cdist(some, some, p=math.inf)
    return far[:, first, last]


@lru_cache(maxsize=512)
def _permuted(
    of_cells: bytes, spans: Spans, ties: tuple[int, ...] | None, permutations: int, seed: int
) -> Floats:
    """Largest D(g) / s(g), (permutations,); `of_cells` are int64 counts (strata, cells)."""
    counts = np.frombuffer(of_cells, dtype=np.int64).reshape(-1, spans.cells)
    n = int(counts.sum())
    share = spans.sums(torch.from_numpy(counts.sum(axis=0) / n))
    many = n > _EXACT_ROWS
    paths = _limiting_paths if many else _permuted_paths
    found = [
        (_apart(some, spans) / (share * (1 - share)).sqrt()).amax(-1)
        for some in paths(counts, ties, permutations, np.random.default_rng(seed))
    ]
    # Corrects for reading the paths at fewer than n places.
    missed = _SHORTFALL * (_PLACES**-0.5 - n**-0.5) if many and ties is None else 0.0
    return torch.cat(found).numpy() * math.sqrt(n) + missed


def _permuted_paths(
    counts: Integers, ties: tuple[int, ...] | None, permutations: int, random: np.random.Generator
) -> Iterator[Tensor]:
    """Paths (block, C + 1, places) as in `_excess`, under permutations within each stratum."""
    bins = _bins_of_places(counts.sum(axis=1), ties)
    n, n_bins, cells = len(bins), int(bins.max()) + 1, counts.shape[1]
    shares = torch.from_numpy(counts.sum(axis=0) / n)[None]
    for draws in _blocks(permutations, cells * n_bins):
        shuffled = _shuffles(counts, draws, random)
        flat = (np.arange(draws)[:, None] * cells + shuffled) * n_bins + bins
        tables = np.bincount(flat.ravel(), minlength=draws * cells * n_bins) / n
        inside = torch.from_numpy(tables).view(draws, cells, n_bins).cumsum_(-1)
        yield _excess(inside, shares)


def _limiting_paths(
    counts: Integers, ties: tuple[int, ...] | None, permutations: int, random: np.random.Generator
) -> Iterator[Tensor]:
    """The limit of `_permuted_paths` for many rows: Brownian bridges, correlated between cells.

    The counts of a permuted table with given margins are nearly normal. Their covariance between
    cells is the mean over strata of diag(p) - p p', where p are the shares of the cells in a
    stratum.
    """
    n, cells = int(counts.sum()), counts.shape[1]
    sizes = counts.sum(axis=1)
    of_strata = counts / sizes[:, None]
    covariance = np.diag(counts.sum(axis=0) / n) - (of_strata * (sizes / n)[:, None]).T @ of_strata
    variances, directions = np.linalg.eigh(covariance)
    # The symmetric root is unique. The directions are not, and differ between processors.
    root = directions * np.sqrt(np.maximum(variances, 0.0) / n) @ directions.T
    below = np.vstack([np.zeros(cells), np.tril(np.ones((cells, cells)))])
    factor = below @ root  # (C + 1, C)
    steps = np.full(_PLACES, 1 / _PLACES) if ties is None else np.array(ties) / n
    reached = torch.from_numpy(steps.cumsum())
    for draws in _blocks(permutations, cells * len(steps)):
        noise = random.standard_normal((draws, cells, len(steps))) * np.sqrt(steps)
        walks = torch.from_numpy(noise).cumsum_(-1)
        yield torch.from_numpy(factor) @ (walks - reached * walks[..., -1:])


def _blocks(permutations: int, numbers: int) -> Iterator[int]:
    """Sizes of blocks of permutations; each permutation needs this many numbers."""
    size = max(1, _BLOCK // numbers)
    yield from (min(size, permutations - done) for done in range(0, permutations, size))


def _bins_of_places(sizes: Integers, ties: tuple[int, ...] | None) -> Integers:
    """Bin of each place, stratum by stratum; distances are read at the ends of bins."""
    if ties is not None:
        return np.repeat(np.arange(len(ties)), ties)
    within = np.concatenate([(np.arange(size) + 0.5) / size for size in sizes])
    return np.unique(within.round(12), return_inverse=True)[1].astype(np.int64)


def _shuffles(counts: Integers, draws: int, random: np.random.Generator) -> Integers:
    """Cells of all rows, (draws, n), in random order within each stratum."""
    cells, sizes = np.arange(counts.shape[1]), counts.sum(axis=1)
    out = np.empty((draws, int(sizes.sum())), dtype=np.int64)
    starts = sizes.cumsum() - sizes
    for size in np.unique(sizes):  # all strata of one size at once
        strata = np.flatnonzero(sizes == size)
        rows = np.stack([np.repeat(cells, counts[stratum]) for stratum in strata])
        shuffled = random.permuted(np.broadcast_to(rows, (draws, *rows.shape)), axis=-1)
        for number, start in enumerate(starts[strata]):
            out[:, start : start + size] = shuffled[:, number]
    return out


@dataclass(frozen=True, eq=False)
class Gaps:
    """Distances of every judged group of one sample, with their chance levels."""

    comparisons: tuple[GroupComparison, ...]
    distances: Tensor  # (R, K, G), over the groups of all comparisons
    scales: Tensor  # (R, G)
    permuted: Tensor  # (K, permutations): largest D / s over all groups
    small: tuple[Small, ...]  # groups with too few rows to judge

    def reach(self, level: float) -> Tensor:
        """Bound (R, K, G) on the error of D, for all groups together.

        Under permutations D(g) exceeds it for some group with probability at most 1 - level.
        """
        count = self.permuted.shape[1]
        position = min(math.ceil(level * (count + 1)), count)
        quantile = self.permuted.sort(-1).values[:, position - 1]
        return self.scales[:, None] * quantile[:, None]

    @property
    def beyond(self) -> Tensor:
        """Excess over chance, (R, K, G)."""
        chance = self.reach(LEVEL)
        # In small groups D has few possible values and may equal its chance level; rounding must
        # not put it above.
        more = self.distances > chance * (1 + 1e-9)
        return torch.where(more, self.distances.square() - chance.square(), 0.0).sqrt()

    @property
    def standardized(self) -> Tensor:
        """Largest D / s over all groups, (R, K)."""
        return (self.distances / self.scales[:, None]).amax(-1)

    def located(self, member: int) -> tuple[GroupComparison, int, int]:
        """The group with the gap: its comparison, its number there, and its number among all.

        If no group exceeds chance, it is the group that comes nearest to it.
        """
        beyond = self.beyond[0, member]
        nearest = (self.distances / self.scales[:, None])[0, member]
        order = beyond if bool((beyond > 0).any()) else nearest
        place = number = int(order.argmax())
        for comparison in self.comparisons:
            if number < len(comparison.groups):
                return comparison, number, place
            number -= len(comparison.groups)
        raise AssertionError("a group of no comparison")


def gaps_of(
    *samples: Sample,
    notion: Notion,
    decisions: bool = False,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Gaps:
    """Compare every group with all others, among all rows or among rows of equal outcome.

    Samples combine the same scores with different attributes; the groups of all attributes are
    judged together. Each attribute is permuted separately. If attributes are correlated, the chance
    level is then a little too high.
    """
    comparisons = [each for one in samples for each in _comparisons(one, notion, decisions)]
    judged = tuple(each for each in comparisons if len(each.groups))
    small = tuple(found for each in comparisons for found in each.small)
    weights = samples[0].weights
    members = len(samples[0].scored.scores)
    if not judged:
        none = weights.new_zeros((len(weights), members, 0))
        return Gaps((), none, none[:, 0], none.new_zeros((members, permutations)), small)
    permuted = [
        np.max([each.permuted(k, permutations, seed + s) for s, each in enumerate(judged)], axis=0)
        for k in range(members)
    ]
    return Gaps(
        judged,
        torch.cat([each.distances() for each in judged], dim=-1),
        torch.cat([each.scales() for each in judged], dim=-1),
        torch.from_numpy(np.stack(permuted)).to(weights.device),
        small,
    )


def _comparisons(sample: Sample, notion: Notion, decisions: bool) -> Iterator[GroupComparison]:
    """The sets of rows inside which groups are compared."""
    scored = sample.scored
    # With several weightings, groups are those of the sample with equal weights.
    people = scored.people * torch.from_numpy(~sample.column.missing).to(sample.weights)
    base = sample.weights[0] if len(sample.weights) == 1 else people
    people = people * (base > 0)
    counted = people > 0
    ranking = rank(scored.responses) if decisions else scored.ranking
    if notion.conditions_on_outcome and scored.outcome_kind == "continuous":
        assert scored.y is not None
        scores, strata = rank_among_alike(scored.scores, scored.y, counted)
        yield _comparison(sample, "", rank(scores), people, base, strata)
        return
    within = sample.within(notion)
    for s, label in enumerate(within.labels):
        where = label if notion.conditions_on_outcome else ""
        yield _comparison(sample, where, ranking, people * within.inside(s), base, None)


def _comparison(
    sample: Sample,
    where: str,
    ranking: Ranking,
    people: Tensor,
    base: Tensor,
    strata: Tensor | None,
) -> GroupComparison:
    groups, rows = groups_of(sample.column, people, base), people > 0
    sizes, n = groups.sizes(people.to(torch.int64)).cpu().numpy(), int(people.sum())
    enough = np.minimum(sizes, n - sizes) >= SMALL_GROUP
    if where:
        labels = tuple(f"{label}, {where}" for label in groups.labels)
        groups = Groups(groups.codes, groups.spans, labels)
    small = tuple(
        Small(groups.labels[g], int(sizes[g]), n - int(sizes[g])) for g in np.flatnonzero(~enough)
    )
    kept = ranking if bool(rows.all()) else ranking.restrict(rows)
    judged = groups.take(np.flatnonzero(enough))
    repeats = sample.scored.repeats
    # Decisions are exact: a threshold lies between two bins.
    binned = repeats is not None and ranking is sample.scored.ranking
    coarse = torch.from_numpy(repeats.coarse).to(rows.device) if repeats and binned else None
    return GroupComparison(kept, judged, people, sample.weights, strata, small, coarse)


def _compute(sample: Sample, notion: Notion, decisions: bool) -> Computed:
    found = gaps_of(sample, notion=notion, decisions=decisions)
    members = len(sample.scored.scores)
    if not found.comparisons:
        shape = (len(sample.weights), members)
        return Computed(sample.weights.new_full(shape, math.nan), (too_few(found),) * members)
    return Computed(found.beyond.amax(-1), (None,) * members)


def too_few(found: Gaps) -> str:
    """Why no group could be judged."""
    return (
        f"no group has {SMALL_GROUP} rows inside and {SMALL_GROUP} outside, which a comparison "
        f"needs; got {listed_sizes(found)}"
    )


def listed_sizes(found: Gaps, most: int = 6) -> str:
    """Groups with too few rows, the largest first, with their numbers of rows."""
    ranked = sorted(found.small, key=lambda each: -min(each.inside, each.outside))
    listed = ", ".join(f"{e.label} ({e.inside} in, {e.outside} out)" for e in ranked[:most])
    more = f" and {len(ranked) - most} more" if len(ranked) > most else ""
    return f"{listed}{more}"


_DISTANCE = "max over t of |P(score>t | g) - P(score>t | not g)|"
_BEYOND = f"max over groups g of sqrt(max(0, D(g)^2 - c(g)^2)), D(g) = {_DISTANCE}, c(g) by chance"
_GAPS = (
    (
        "gap",
        Notion.INDEPENDENCE,
        False,
        "Largest difference between a group and all others in the share of people above a "
        "threshold, at any threshold, beyond chance.",
        _BEYOND,
    ),
    (
        "gap given Y",
        Notion.SEPARATION,
        False,
        "The gap among people of equal outcome.",
        "discrete Y: the largest gap among the rows with Y=y; continuous Y: the gap of the rank of "
        "the score among rows of nearly equal Y",
    ),
    (
        "decision gap",
        Notion.INDEPENDENCE,
        True,
        "Largest difference between a group and all others in the share of positive decisions, "
        "beyond chance.",
        "the gap with D(g) = |P(D=1 | g) - P(D=1 | not g)|",
    ),
    (
        "decision gap given Y",
        Notion.SEPARATION,
        True,
        "The decision gap among people of equal outcome.",
        "the largest decision gap among the rows with Y=y",
    ),
)
#: Names of the metrics of this module, and whether each looks at decisions.
GAPS = {name: decides for name, _, decides, _, _ in _GAPS}

for _name, _notion, _decides, _description, _formula in _GAPS:
    register_metric(
        Metric(
            name=_name,
            notion=_notion,
            description=_description,
            formula=_formula,
            compute=partial(_compute, notion=_notion, decisions=_decides),
            outcomes=frozenset(["binary"] if _decides else get_args(OutcomeKind)),
            needs_decisions=_decides,
            range=(0.0, 1.0),
            rank_based=not _decides,
            beyond_chance=True,
        )
    )
