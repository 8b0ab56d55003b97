"""Checks statements about uncertainty: coverage of intervals, level of tests, certificates.

``python -m benchmarks calibration`` simulates data sets with a known truth and counts how often
each statement holds. A cell is one statement about one kind of data: outcome, attribute, world and
number of rows. Finished cells are kept in benchmarks/results/calibration.json, so that a stopped
run can continue; a cell with fewer data sets than requested is run again.

``--datasets 1000`` sets the number of data sets per cell, ``--quick`` means 50, ``--only TEXT``
runs the cells whose name contains the text, ``--page`` only writes the tables of
docs/uncertainty.md from the file.

To add a statement, write a function that takes a setting and seeds and returns, by label, whether
it held in each data set, and add it to `STATEMENTS`.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks import environment
from benchmarks.page import filled, made_on, markdown
from equipoise.inference import bootstrap, certify, group_estimates, holm, permutation_test
from equipoise.inference.bootstrap import utility_differences, utility_intervals
from equipoise.inference.dependence_intervals import dependence_interval
from equipoise.inference.estimate import Estimate, independent_difference
from equipoise.inference.gap import gap_estimates
from equipoise.metrics import METRICS, ByGroup, Metric, by_group, measure, prepare
from equipoise.metrics.dependence import (
    DISTANCE_ROWS,
    MEASURES,
    PAIRED_ROWS,
    SORTED_ROWS,
    measure_dependence,
)
from equipoise.metrics.gap import GAPS, Gaps, gaps_of, rank_among_alike
from equipoise.metrics.sample import UtilityMeasure
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable

LONG = True
NAME = "calibration"
PAGE = Path(__file__).parents[1] / "docs" / "uncertainty.md"
SIZES = (200, 1_000, 5_000)
OUTCOMES = ("binary", "multiclass", "continuous")
ATTRIBUTES = ("discrete", "continuous")
#: Correlation of A with y, and what A adds to the score beyond y.
WORLDS = {"independent": (0.0, 0.0), "separated": (0.6, 0.0), "dependent": (0.6, 0.5)}
LEVEL = 0.95
#: Few draws make an interval less steady, not less sure: 57 of 59 is the quantile at 0.95.
DRAWS = 59
PERMUTATIONS = 99
TRUTH_ROWS = 2_000_000
CANDIDATES = 10
#: The group that SP and EO divide by; the largest one need not be the same in every data set.
REFERENCE = 1
#: Data sets are numbered from here. Rules were chosen on data sets below 20 000 (those of gaps and
#: of bootstrap intervals were repaired after a look at 10 000 to 11 000) and on some above 60 000.
FIRST_SEED = 20_000
WORKERS = 2
#: Mean and standard deviation of y: of a normal cut at 0.3, at -0.5 and 0.5, or not at all.
MOMENTS = {"binary": (0.3821, 0.4859), "multiclass": (1.0, 0.7855), "continuous": (0.0, 1.0)}
# What a fair score must not be found to be, by chance, more often than this.
_ALPHA = 1 - LEVEL

Floats = NDArray[np.float64]
Hits = dict[str, list[bool]]


@dataclass(frozen=True)
class Setting:
    """A kind of data sets."""

    outcome: str
    attribute: str
    world: str
    n: int

    def __str__(self) -> str:
        return f"{_about(self)}, n={self.n}"


class Data(NamedTuple):
    """One data set."""

    scores: Floats
    y: NDArray[Any]
    table: SensitiveTable


def draw(setting: Setting, seed: int, n: int | None = None, copies: int = 1) -> Data:
    """Draw one data set: A depends on y, and the score on y and, in one world, on A.

    With several `copies` there are scores (copies, n) that differ only in their noise.
    """
    rows = setting.n if n is None else n
    # Each cell draws its own data sets, so that one unlucky draw does not affect several cells.
    kind = (OUTCOMES.index(setting.outcome), ATTRIBUTES.index(setting.attribute))
    world = list(WORLDS).index(setting.world)
    random = np.random.default_rng([seed, SIZES.index(setting.n), *kind, world])
    latent, own = random.normal(size=(2, rows))
    noise = random.normal(size=(copies, rows) if copies > 1 else rows)
    correlation, effect = WORLDS[setting.world]
    cuts = {"binary": [0.3], "multiclass": [-0.5, 0.5], "continuous": []}[setting.outcome]
    y = np.digitize(latent, cuts) if cuts else latent
    # A sees y itself, nothing behind it, so that a score of y and noise is separated exactly.
    # Mean and deviation are the population's: rows stay independent of each other.
    mean, deviation = MOMENTS[setting.outcome]
    place = (y - mean) / deviation
    a = correlation * place + math.sqrt(1 - correlation**2) * own
    if setting.attribute == "discrete":
        a = np.digitize(a, [-0.3, 0.8])
    scores = place + effect * a + noise
    # A probability of a binary y; else far from 0, so that ratios of means have a denominator.
    scores = expit(scores - 0.5) if setting.outcome == "binary" else 4 + scores
    return Data(scores, y, SensitiveTable.from_data({"a": a}, types={"a": setting.attribute}))


def notions_of(setting: Setting) -> tuple[Notion, ...]:
    """Return the notions to assess in a world: those that hold in it, or all if none does."""
    return {
        "independent": (Notion.INDEPENDENCE,),
        "separated": (Notion.SEPARATION,),
        "dependent": (Notion.INDEPENDENCE, Notion.SEPARATION),
    }[setting.world]


def is_null(setting: Setting) -> bool:
    """Whether the assessed notion holds in the population."""
    return setting.world != "dependent"


# ---------------------------------------------------------------------------------------- the truth


def _compared(setting: Setting) -> list[Metric]:
    """Metrics that compare groups or ranges."""
    return [
        metric
        for metric in METRICS.values()
        if metric.deviation is not None
        # What belongs to neither notion has no world in which it holds.
        and (metric.notion or "dependent") in (*notions_of(setting), setting.world)
        and setting.attribute in metric.attributes
        and setting.outcome in metric.outcomes
        and not (metric.needs_decisions and setting.outcome == "multiclass")
    ]


@lru_cache(1)
def _population(setting: Setting) -> Data:
    return draw(setting, 2**31, TRUTH_ROWS)


def compared_truth(setting: Setting, name: str) -> float:
    """Return a metric of groups in the population: its fair value if the notion holds.

    KS-GEO and EO of a continuous y are not 0 under separation.
    """
    metric = METRICS[name]
    paper = metric.notion is Notion.SEPARATION and setting.outcome == "continuous"
    if is_null(setting) and not paper:
        return metric.fair_value
    data = _population(setting)
    found = measure(
        metric,
        data.scores,
        data.table["a"],
        data.y,
        threshold="youden" if setting.outcome == "binary" else None,
        outcome=setting.outcome,  # type: ignore[arg-type]
        reference=REFERENCE if setting.attribute == "discrete" else None,
    )
    return float(found)


def dependence_truth(setting: Setting, name: str) -> float:
    """Return a measure of dependence in the population: 0, or its mean over large samples."""
    if is_null(setting):
        return 0.0
    given = name.endswith("|Y")
    short = name.removesuffix("|Y")
    rows, batches = {
        "GDP": (TRUTH_ROWS // 4, 1),
        "HGR": (SORTED_ROWS, 2),
        "dCor": (DISTANCE_ROWS, 10),
        "HSIC": (PAIRED_ROWS, 10),
    }[short]

    def mean(rows: int) -> float:
        found = []
        for batch in range(batches):
            data = draw(setting, 2**31 + 1 + batch, rows)
            kind = {"y": data.y, "outcome": setting.outcome} if given else {}
            found.append(float(measure_dependence(short, data.scores, data.table, **kind).value))
        return float(np.mean(found))

    # HSIC is biased by a term in 1 / rows, which two sizes remove.
    return 2 * mean(rows) - mean(rows // 2) if short == "HSIC" else mean(rows)


def utility_truth(setting: Setting, name: str) -> float:
    """AUC, R2 or MAE in the population."""
    data = _population(setting)
    return float(prepare(data.scores, data.y, outcome=setting.outcome).utility(name))  # type: ignore[arg-type]


#: Truths by metric and population; the result file keeps them.
TRUTHS: dict[str, float] = {}


def truth(name: str, setting: Setting) -> float:
    """Return a metric in the population of a setting; it is computed once."""
    large = Setting(setting.outcome, setting.attribute, setting.world, SIZES[0])
    key = f"{name}: {_about(setting)}"
    if key not in TRUTHS:
        how = utility_truth
        if name in METRICS:
            how = dependence_truth if METRICS[name].deviation is None else compared_truth
        TRUTHS[key] = how(large, name)
    return TRUTHS[key]


def _about(setting: Setting) -> str:
    return f"{setting.outcome} y, {setting.attribute} A, {setting.world}"


def truths_of(setting: Setting) -> dict[str, float]:
    """Return all population values that a statement needs."""
    torch.set_num_threads(1)
    names = [metric.name for metric in _compared(setting)]
    for notion in notions_of(setting):
        given = notion.conditions_on_outcome
        names += [f"{name}|Y" if given else name for name in MEASURES]
    if STATEMENTS["utility"].applies(setting):
        names += ["AUC"] if setting.outcome == "binary" else ["R2", "MAE"]
    for name in names:
        truth(name, setting)
    return TRUTHS


# ----------------------------------------------------------------------------------- the statements


def intervals(setting: Setting, seeds: Iterable[int]) -> Hits:
    """Intervals of metrics that compare groups or ranges contain the truth."""
    metrics = _compared(setting)
    hits: Hits = {metric.name: [] for metric in metrics}
    threshold = "youden" if setting.outcome == "binary" else None
    for seed in seeds:
        data = draw(setting, seed)
        found = bootstrap(
            metrics,
            data.scores,
            data.table,
            data.y,
            draws=DRAWS,
            level=LEVEL,
            random_state=seed,
            threshold=threshold,
            outcome=setting.outcome,  # type: ignore[arg-type]
            references={"a": REFERENCE} if setting.attribute == "discrete" else None,
        )
        for metric, each in zip(metrics, found, strict=True):
            if not math.isnan(each.low):
                true = truth(metric.name, setting)
                hits[metric.name].append(each.low <= true <= each.high)
    return hits


def dependence(setting: Setting, seeds: Iterable[int]) -> Hits:
    """Intervals of measures of dependence contain the truth."""
    hits: Hits = {}
    for seed in seeds:
        data = draw(setting, seed)
        for notion in notions_of(setting):
            given = notion.conditions_on_outcome
            if not given and setting.outcome != OUTCOMES[0]:
                continue  # independence does not look at y
            kind = {"y": data.y, "outcome": setting.outcome} if given else {}
            for name in MEASURES:
                label = f"{name}|Y" if given else name
                found = dependence_interval(
                    name,
                    data.scores,
                    data.table,
                    **kind,  # type: ignore[arg-type]
                    draws=DRAWS,
                    level=LEVEL,
                    random_state=seed,
                )
                if not math.isnan(found.low):
                    true = truth(label, setting)
                    # A low end of 0 up to rounding includes 0.
                    hit = found.low <= true + 1e-12 and true <= found.high
                    hits.setdefault(label, []).append(hit)
    return hits


def tests(setting: Setting, seeds: Iterable[int]) -> Hits:
    """A permutation test does not reject at 5 %; for an unfair score this is 1 minus the power."""
    hits: Hits = {}
    for seed in seeds:
        data = draw(setting, seed)
        for notion in notions_of(setting):
            p = _p_value(data, setting, notion, seed)
            hits.setdefault(f"test of {notion}", []).append(p > _ALPHA)
    return hits


def _p_value(data: Data, setting: Setting, notion: Notion, seed: int) -> float:
    given = notion.conditions_on_outcome
    kind = {"y": data.y, "outcome": setting.outcome} if given else {}
    return permutation_test(
        data.scores,
        data.table,
        **kind,  # type: ignore[arg-type]
        permutations=PERMUTATIONS,
        random_state=seed,
    ).p


def certificates(setting: Setting, seeds: Iterable[int]) -> Hits:
    """A certificate is at least the truth, also for the best looking of several scores."""
    hits: Hits = {}
    for seed in seeds:
        data = draw(setting, seed)
        copies = draw(setting, seed, copies=CANDIDATES).scores  # all have the same truth
        for notion in notions_of(setting):
            given = notion.conditions_on_outcome
            kind = {"y": data.y, "outcome": setting.outcome} if given else {}
            name = "KS-GEO" if given else "KS-GSP"
            true = truth(name, setting)
            try:
                alone = certify(data.scores, data.table["a"], **kind, level=LEVEL)  # type: ignore[arg-type]
                among = certify(copies, data.table["a"], **kind, level=LEVEL)  # type: ignore[arg-type]
            except ValueError:  # a set without rows has no certificate
                continue
            hits.setdefault(name, []).append(bool(alone.upper >= true))
            best = among.upper[among.estimate.argmin()]
            hits.setdefault(f"{name} of the best of {CANDIDATES}", []).append(bool(best >= true))
    return hits


def utility(setting: Setting, seeds: Iterable[int]) -> Hits:
    """Intervals of AUC, or of R2 and MAE, contain the truth."""
    measures = ("AUC",) if setting.outcome == "binary" else ("R2", "MAE")
    hits: Hits = {measure: [] for measure in measures}
    for seed in seeds:
        data = draw(setting, seed)
        scored = prepare(data.scores, data.y, threshold=None, outcome=setting.outcome)  # type: ignore[arg-type]
        found = utility_intervals(
            scored,
            measures,
            draws=DRAWS,
            level=LEVEL,
            random_state=seed,  # type: ignore[arg-type]
        )
        for name, (each,) in zip(measures, found, strict=True):
            true = truth(name, setting)
            hits[name].append(each.low <= true <= each.high)
    return hits


def differences(setting: Setting, seeds: Iterable[int]) -> Hits:
    """Intervals of the difference in utility between two scores hold the truth.

    The second score has its noise drawn anew, so that the truth is 0, or has twice the noise. Then
    two scores of equal utility, on rows of their own.
    """
    measure: UtilityMeasure = "AUC" if setting.outcome == "binary" else "R2"
    hits: Hits = {f"{measure}, equal scores": [], f"{measure}, one has more noise": []}
    for label, more in zip(hits, (False, True), strict=True):
        population = _pair(setting, 2**31, more, TRUTH_ROWS // 4)
        values = prepare(*population, threshold=None, outcome=setting.outcome).utility(measure)[0]  # type: ignore[arg-type]
        true = float(values[1] - values[0]) if more else 0.0
        for seed in seeds:
            scored = prepare(
                *_pair(setting, seed, more),
                threshold=None,
                outcome=setting.outcome,  # type: ignore[arg-type]
            )
            (found,) = utility_differences(
                scored, measure, draws=DRAWS, level=LEVEL, random_state=seed
            )
            hits[label].append(found.low <= true <= found.high)
    apart = f"{measure}, equal scores on other rows"
    for seed in seeds:
        one, two = (
            _utility_of(draw(setting, s), setting, measure, s) for s in (seed, seed + 10**6)
        )
        found = independent_difference(one, two)
        hits.setdefault(apart, []).append(found.low <= 0 <= found.high)
    return hits


def _utility_of(data: Data, setting: Setting, measure: UtilityMeasure, seed: int) -> Estimate:
    scored = prepare(data.scores, data.y, threshold=None, outcome=setting.outcome)  # type: ignore[arg-type]
    ((found,),) = utility_intervals(scored, (measure,), draws=DRAWS, level=LEVEL, random_state=seed)
    return found


def _pair(
    setting: Setting, seed: int, more: bool, n: int | None = None
) -> tuple[Floats, NDArray[Any]]:
    """Two scores (2, n) of the same rows, and y."""
    data = draw(setting, seed, n, copies=2)
    scores = data.scores.copy()
    if more:
        extra = np.random.default_rng([seed, 7]).normal(size=scores.shape[1])
        scores[1] += extra * (0.1 if setting.outcome == "binary" else 1.0)
    return scores, data.y


def multiplicity(setting: Setting, seeds: Iterable[int]) -> Hits:
    """If all hypotheses are true, no p-value adjusted by Holm is at most 5 %."""
    hits: Hits = {"no false rejection among 4 tests": []}
    for seed in seeds:
        data = draw(setting, seed)
        more = draw(setting, seed + 10**6).table["a"]
        p = []
        for table in (data.table, SensitiveTable((more,))):
            for notion in Notion:
                p.append(_p_value(data._replace(table=table), setting, notion, seed))
        hits["no false rejection among 4 tests"].append(min(holm(p)) > _ALPHA)
    return hits


class Distances:
    """Distances D of groups in the population, by range of A, from a fine table of shares."""

    BINS = 2_000

    def __init__(self, scores: Floats, a: Floats) -> None:
        self.edges = np.unique(np.quantile(a, np.linspace(0, 1, self.BINS + 1)[1:-1]))
        levels = np.unique(a)
        if len(levels) <= self.BINS:  # every value has a bin of its own
            self.edges = (levels[1:] + levels[:-1]) / 2
        cuts = np.unique(np.quantile(scores, np.linspace(0, 1, self.BINS + 1)[1:-1]))
        shape = (len(self.edges) + 1, len(cuts) + 1)
        cell = np.searchsorted(self.edges, a) * shape[1] + np.searchsorted(cuts, scores)
        counts = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
        shares = counts.cumsum(axis=0).cumsum(axis=1) / len(a)
        self.below = np.vstack([np.zeros(shape[1]), shares])  # (bins of A + 1, bins of the score)

    def of(self, low: Floats, high: Floats) -> Floats:
        """D of each range from `low` to `high` (G,), (G,)."""
        first, last = np.searchsorted(self.edges, low), np.searchsorted(self.edges, high) + 1
        inside = self.below[last] - self.below[first]
        share = inside[:, -1:]
        apart = np.abs(inside - share * self.below[-1]).max(axis=1)
        return np.asarray(apart / (share * (1 - share))[:, 0])


def _numbers(table: SensitiveTable) -> Floats:
    column = table["a"]
    found = column.values if column.values is not None else column.codes
    return np.asarray(found, dtype=np.float64)


def _threshold(setting: Setting) -> float | None:
    """Above which score a decision is positive."""
    return 0.5 if setting.outcome == "binary" else None


@lru_cache(4)
def _distances(setting: Setting, metric: str) -> list[Distances]:
    """Distances in the population, of each set of rows inside which groups are compared."""
    data, notion = _population(setting), METRICS[metric].notion
    assert notion is not None
    a = _numbers(data.table)
    if GAPS[metric]:
        data = data._replace(scores=(data.scores > _threshold(setting)).astype(np.float64))
    if not notion.conditions_on_outcome:
        return [Distances(data.scores, a)]
    if setting.outcome == "continuous":
        scores, y = (torch.from_numpy(each.astype(np.float64)) for each in (data.scores, data.y))
        ranks, _ = rank_among_alike(scores[None], y, torch.ones_like(y, dtype=torch.bool))
        return [Distances(ranks[0].numpy(), a)]
    return [
        Distances(data.scores[data.y == level], a[data.y == level]) for level in np.unique(data.y)
    ]


def gaps(setting: Setting, seeds: Iterable[int]) -> Hits:
    """Intervals and certificates cover the largest group difference; fair scores have no gap."""
    hits: Hits = {}
    large = Setting(setting.outcome, setting.attribute, setting.world, SIZES[0])
    for seed in seeds:
        data = draw(setting, seed)
        kind = {"threshold": _threshold(setting), "outcome": setting.outcome}
        sample = prepare(data.scores, data.y, **kind).against(data.table["a"])  # type: ignore[arg-type]
        for name, decides in GAPS.items():
            metric, notion = METRICS[name], METRICS[name].notion
            if notion not in notions_of(setting) or setting.outcome not in metric.outcomes:
                continue
            (found,) = gap_estimates(
                metric, sample, level=LEVEL, permutations=PERMUTATIONS, random_state=seed
            )
            if math.isnan(found.value):
                continue
            true = 0.0
            if is_null(setting):
                hits.setdefault(f"{name}: none if fair", []).append(found.value == 0)
            else:
                judged = gaps_of(sample, notion=notion, decisions=decides, permutations=1)
                true = _largest(judged, _numbers(data.table), _distances(large, name))
            hit = found.low <= true <= found.high
            hits.setdefault(f"{name}: interval", []).append(hit)
            if not math.isnan(found.certificate) and not is_null(setting):
                above = true <= found.certificate
                hits.setdefault(f"{name}: certificate", []).append(above)
    return hits


def _largest(judged: Gaps, a: Floats, populations: list[Distances]) -> float:
    """The largest distance in the population of the groups that were judged in a sample."""
    largest = 0.0
    # Without a group to judge, a set of rows has no comparison: sets are matched from the end.
    pairs = zip(reversed(judged.comparisons), reversed(populations), strict=False)
    for comparison, population in pairs:
        rows = comparison.rows.numpy()
        codes, spans = comparison.groups.codes.numpy()[rows], comparison.groups.spans
        members = [
            a[rows][(codes >= i) & (codes < j)]
            for i, j in zip(spans.first, spans.last, strict=True)
        ]
        low, high = (np.array([end(each) for each in members]) for end in (np.min, np.max))
        largest = max(largest, float(population.of(low, high).max()))
    return largest


def _group_means(data: Data, setting: Setting) -> ByGroup:
    kind = {"threshold": _threshold(setting), "outcome": setting.outcome}
    return by_group(data.y, data.scores, sensitive_features=data.table, **kind)  # type: ignore[arg-type]


@lru_cache(2)
def _group_truth(setting: Setting) -> dict[str, Floats]:
    found = _group_means(_population(setting), setting)
    return {str(name): column.to_numpy() for name, column in found.by_group.items()}


def groups(setting: Setting, seeds: Iterable[int]) -> Hits:
    """Intervals of all groups hold together; no two groups are reported in the wrong order."""
    hits: Hits = {}
    large = Setting(setting.outcome, setting.attribute, setting.world, SIZES[0])
    for seed in seeds:
        found = group_estimates(_group_means(draw(setting, seed), setting), simultaneous=True)
        for name, truths in _group_truth(large).items():
            each = found.by_group.get(name, ())
            if len(each) != len(truths) or any(math.isnan(one.low) for one in each):
                continue
            pairs = list(zip(each, truths, strict=True))
            hits.setdefault(f"{name}, all groups", []).append(
                all(one.low <= true <= one.high for one, true in pairs)
            )
            spread = found.difference[name]
            within = bool(spread.low <= max(truths) - min(truths) <= spread.high)
            hits.setdefault(f"{name}, largest difference", []).append(within)
    return hits


class Statement(NamedTuple):
    """A claim, a function that tests it, and the data it is about."""

    hits: Callable[[Setting, Iterable[int]], Hits]
    applies: Callable[[Setting], bool]


def _always(setting: Setting) -> bool:
    return True


#: Every statement by its name in the file.
STATEMENTS = {
    "gaps": Statement(gaps, _always),
    "groups": Statement(
        groups,
        lambda s: (s.attribute, s.world) == ("discrete", "dependent") and s.outcome != "multiclass",
    ),
    "intervals": Statement(intervals, _always),
    "dependence": Statement(
        dependence, lambda s: s.world != "independent" or s.outcome == OUTCOMES[0]
    ),
    "tests": Statement(tests, _always),
    # Where a notion holds the truth is 0, which every bound is above.
    "certificates": Statement(certificates, lambda s: not is_null(s)),
    "utility": Statement(
        utility,
        lambda s: (s.attribute, s.world) == ("discrete", "separated") and s.outcome != "multiclass",
    ),
    "differences": Statement(
        differences,
        lambda s: (s.attribute, s.world) == ("discrete", "separated") and s.outcome != "multiclass",
    ),
    "multiplicity": Statement(
        multiplicity, lambda s: (s.attribute, s.world) == ("discrete", "independent")
    ),
}


# ---------------------------------------------------------------------------------------- the cells


class Cell(NamedTuple):
    """One statement about one kind of data."""

    statement: str
    setting: Setting

    def __str__(self) -> str:
        return f"{self.statement}: {self.setting}"


def cells() -> Iterator[Cell]:
    """Return all cells, those with few rows first."""
    for n in SIZES:
        for statement, claim in STATEMENTS.items():
            for outcome in OUTCOMES:
                for attribute in ATTRIBUTES:
                    for world in WORLDS:
                        setting = Setting(outcome, attribute, world, n)
                        if claim.applies(setting):
                            yield Cell(statement, setting)


def run(cell: Cell, datasets: int, truths: dict[str, float]) -> dict[str, Any]:
    """Count in how many of the data sets the statement held, by label."""
    torch.set_num_threads(1)
    TRUTHS.update(truths)
    start = perf_counter()
    found = STATEMENTS[cell.statement].hits(cell.setting, range(FIRST_SEED, FIRST_SEED + datasets))
    return {
        "datasets": datasets,
        "first_seed": FIRST_SEED,
        "seconds": round(perf_counter() - start, 1),
        "held": {label: [sum(hits), len(hits)] for label, hits in found.items()},
    }


def run_all(datasets: int, only: str, name: str = NAME) -> None:
    """Run the unfinished cells in two processes, and save each when it ends."""
    path = environment.RESULTS / f"{name}.json"
    document: dict[str, Any] = {"cells": {}}
    if path.exists():
        document = environment.read(name)
    document |= {
        "draws": DRAWS,
        "permutations": PERMUTATIONS,
        "level": LEVEL,
        "truth_rows": TRUTH_ROWS,
        "device": f"{environment.device_name('cpu').split(',')[0]}, {WORKERS} processes",
        "versions": {**environment.versions(), "numpy": np.__version__},
    }
    done = document["cells"]
    left = [
        cell
        for cell in cells()
        if only in str(cell) and done.get(str(cell), {}).get("datasets", 0) < datasets
    ]
    # Dearest first, so that no process waits for the other at the end.
    left.sort(key=lambda cell: -cell.setting.n)
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        truths = document.setdefault("truths", {})
        populations = {
            Setting(cell.setting.outcome, cell.setting.attribute, cell.setting.world, SIZES[0])
            for cell in left
        }
        new = [
            each
            for each in populations
            if not any(key.endswith(f": {_about(each)}") for key in truths)
        ]
        for found in pool.map(truths_of, sorted(new, key=str)):
            truths |= found
            environment.write(name, document)
        running = {pool.submit(run, cell, datasets, truths): cell for cell in left}
        for number, future in enumerate(as_completed(running), 1):
            cell = running[future]
            done[str(cell)] = future.result()
            held = ", ".join(
                f"{label} {hits / max(total, 1):.3f}"
                for label, (hits, total) in done[str(cell)]["held"].items()
            )
            seconds = done[str(cell)]["seconds"]
            print(f"{number}/{len(left)} {cell} ({seconds:.0f} s): {held}", flush=True)
            document["cells"] = dict(sorted(done.items()))
            environment.write(name, document)


# ----------------------------------------------------------------------------------------- the page


def table(document: dict[str, Any], statement: str) -> str:
    """Return a table of the shares of data sets in which a statement held.

    A share below the claim by more than the Monte Carlo error (2.33 standard errors, which happens
    once in a hundred) is in bold.
    """
    found: dict[tuple[str, str, str], dict[tuple[str, int], str]] = {}
    for cell in cells():
        result = document["cells"].get(str(cell))
        if cell.statement != statement or result is None:
            continue
        setting = cell.setting
        for label, (hits, total) in result["held"].items():
            row = found.setdefault((label, setting.outcome, setting.attribute), {})
            column = ("holds" if is_null(setting) else "does not", setting.n)
            claimed = is_null(setting) or statement not in ("tests", "multiplicity")
            row[column] = _shown(hits, total, claimed)
    columns = [(fair, n) for fair in ("holds", "does not") for n in SIZES]
    columns = [each for each in columns if any(each in row for row in found.values())]
    header = ["", "y", "A", *(f"{'fair' if f == 'holds' else 'unfair'}, n={n}" for f, n in columns)]
    rows = [
        [*name, *(row.get(column, "") for column in columns)] for name, row in sorted(found.items())
    ]
    return markdown(header, rows)


def _shown(hits: int, total: int, claimed: bool) -> str:
    if total == 0:
        return "none"
    share = hits / total
    error = math.sqrt(LEVEL * (1 - LEVEL) / total)
    short = claimed and share < LEVEL - 2.33 * error
    return f"**{share:.3f}**" if short else f"{share:.3f}"


def blocks() -> dict[str, str]:
    """Every table of the page by the name of its mark."""
    document = environment.read(NAME)
    return {
        f"calibration {name}": f"{table(document, name)}\n\n{_about_runs(document, name)}"
        for name in STATEMENTS
    }


def _about_runs(document: dict[str, Any], statement: str) -> str:
    """Say on how many data sets the numbers of a statement are based, and on what machine."""
    cells_of = [cell for name, cell in document["cells"].items() if name.startswith(statement)]
    sizes = sorted({cell["datasets"] for cell in cells_of})
    span = " to ".join(dict.fromkeys(str(each) for each in (sizes[0], sizes[-1]))) if sizes else "0"
    return (
        f"{span} data sets a number, fewer where a metric is undefined; "
        f"{document['draws']} draws, {document['permutations']} permutations. {made_on(document)}"
    )


def write_page() -> None:
    """Write the tables of docs/uncertainty.md."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), blocks()), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks calibration")
    parser.add_argument("--datasets", type=int, default=1_000)
    parser.add_argument("--quick", action="store_true", help="50 data sets a cell, another file")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--page", action="store_true", help="only write the page from the file")
    options = parser.parse_args(arguments)
    if options.page:
        write_page()
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the processes to come
    quick = f"{NAME}_quick"
    if options.quick:
        run_all(50, options.only, quick)
    else:
        run_all(options.datasets, options.only)
        write_page()


if __name__ == "__main__":
    main()
