"""Snapshots: every member, every so often, judged on validation rows; weights of the best kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from equipoise.errors import InputError, did_you_mean
from equipoise.frontier.rows import HeldOut
from equipoise.metrics import OutcomeKind, Sample, find_metric, prepare
from equipoise.metrics.partition import rank
from equipoise.metrics.utility import youden_of_ranking
from equipoise.networks.stack import member_tensors
from equipoise.notions import Notion
from equipoise.pareto import non_dominated
from equipoise.predictors import FAMILIES
from equipoise.training import Member, Predictor
from equipoise.training.predictor import averaged_output

Floats = NDArray[np.float64]

#: Weights and buffers by name, each with the M members of an entry first.
Weights = Mapping[str, Tensor]

#: Seed of an average, in tables.
ALL_SEEDS = -1


@dataclass(frozen=True)
class Entry:
    """A member, or the average of the members of one strength."""

    strength: float
    members: tuple[int, ...]  # positions; one for a member by itself
    seeds: tuple[int, ...]
    # "network" or "boosting", with a number where there are several of a kind: "network 2".
    predictor: str = "network"

    @property
    def family(self) -> str:
        """Kind of predictor: "network" or "boosting"."""
        return self.predictor.partition(" ")[0]

    @property
    def is_average(self) -> bool:
        """Whether several members are averaged."""
        return len(self.members) > 1

    @property
    def seed(self) -> int:
        """The seed, or ALL_SEEDS for an average."""
        return ALL_SEEDS if self.is_average else self.seeds[0]

    def describe(self, iteration: int, *, mixed: bool = False) -> str:
        """Say in words what it is at an iteration; a network is named only where ``mixed``.

        >>> Entry(0.5, (1,), (7,)).describe(100)
        'strength 0.5, seed 7, iteration 100'
        >>> Entry(0.5, (0, 1), (7, 8), "boosting").describe(40)
        'boosted trees, strength 0.5, average of 2 seeds, round 40'
        """
        kind = f"{one_in_words(self.predictor)}, " if mixed or self.predictor != "network" else ""
        who = f"average of {len(self.members)} seeds" if self.is_average else f"seed {self.seed}"
        moment = FAMILIES[self.family].unit
        return f"{kind}strength {self.strength:g}, {who}, {moment} {iteration}"


def entries_of(
    members: Sequence[Member], *, ensemble: bool, predictor: str = "network"
) -> tuple[Entry, ...]:
    """Return every member in order, then with ``ensemble`` the average of each strength."""
    alone = [
        Entry(each.strength, (place,), (each.seed,), predictor)
        for place, each in enumerate(members)
    ]
    averages = []
    for strength in dict.fromkeys(member.strength for member in members if ensemble):
        same = [entry for entry in alone if entry.strength == strength]
        places, seeds = zip(*((*entry.members, *entry.seeds) for entry in same), strict=True)
        averages.append(Entry(strength, places, seeds, predictor))
    return (*alone, *averages)


def one_in_words(predictor: str) -> str:
    """Name one model of a frontier.

    >>> one_in_words("boosting"), one_in_words("network 2")
    ('boosted trees', 'network 2')
    """
    family, _, number = predictor.partition(" ")
    return f"{FAMILIES[family].one} {number}".rstrip()


def families_in_words(families: Sequence[str]) -> str:
    """Name the kinds of predictors of a frontier.

    >>> families_in_words(["network", "boosting"])
    'networks and boosted trees'
    """
    return " and ".join(FAMILIES[family].many for family in families)


UtilityName = Literal["AUC", "macro AUC", "R2"]

#: What is called utility, by the kind of outcome.
UTILITIES: Mapping[OutcomeKind, UtilityName] = {
    "binary": "AUC",
    "multiclass": "macro AUC",
    "continuous": "R2",
}

#: Utility of a score that knows nothing.
UNINFORMED: Mapping[UtilityName, float] = {"AUC": 0.5, "macro AUC": 0.5, "R2": 0.0}


@dataclass(frozen=True)
class Criteria:
    """One utility (larger is better) and M measures of unfairness (0 is fair)."""

    utility: UtilityName
    # Metric and attribute: by metric, then by attribute; the first metric is meant where none is
    # named.
    measures: tuple[tuple[str, str], ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return tuple(dict.fromkeys(metric for metric, _ in self.measures))

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each measure, as tables print it."""
        return tuple(f"{metric} {attribute}" for metric, attribute in self.measures)

    @property
    def fronts(self) -> tuple[tuple[int, ...], ...]:
        """The fronts to keep: each measure by itself, and each metric by all attributes at once.

        The best snapshot within limits on several attributes may be on no front of a single one,
        but it is on the front of all of them.
        """
        single = [(number,) for number in range(len(self.measures))]
        joint = [tuple(self.by_attribute(metric).values()) for metric in self.metrics]
        return tuple(dict.fromkeys([*single, *joint]))

    def by_attribute(self, metric: str) -> dict[str, int]:
        """Position among the measures of this metric for each attribute it is defined for."""
        return {
            attribute: number
            for number, (each, attribute) in enumerate(self.measures)
            if each == metric
        }

    def find(self, metric: str | None) -> str:
        """The metric of this name, or the first."""
        if metric is None:
            return self.metrics[0]
        if metric not in self.metrics:
            raise InputError(
                f"metric must be one the frontier was judged by ({', '.join(self.metrics)}), got "
                f"{metric!r}; name it in metrics= and fit again to add it"
                f"{did_you_mean(metric, self.metrics)}"
            )
        return metric

    def find_attribute(
        self, metric: str, attribute: str, *, rule: str = "attribute must be a sensitive column"
    ) -> int:
        """Position of the measure for this attribute; ``rule`` begins the message if none."""
        known = self.by_attribute(metric)
        if not isinstance(attribute, str) or attribute not in known:
            raise InputError(
                f"{rule} that {metric} was measured for "
                f"({', '.join(known)}), got {attribute!r}{did_you_mean(attribute, known)}"
            )
        return known[attribute]

    def one(self, metric: str | None, attribute: str | None) -> int:
        """Position of one measure; the attribute may be left out where there is one."""
        name = self.find(metric)
        if attribute is not None:
            return self.find_attribute(name, attribute)
        known = self.by_attribute(name)
        if len(known) > 1:
            raise InputError(
                f"attribute must be named where there are several ({', '.join(known)}), got none"
            )
        return next(iter(known.values()))


def criteria_for(
    metrics: Literal["default"] | Sequence[str], notion: str, *parts: HeldOut
) -> Criteria:
    """Find which metrics apply to which attributes, and refuse parts on which they would fail.

    ``"default"`` is the paper's distance of distributions for the notion, and its parity of
    decisions where the outcome is binary.
    """
    rows = parts[0]
    names: tuple[str, ...]
    if isinstance(metrics, str) and metrics == "default":
        separation = Notion.parse(notion).conditions_on_outcome
        distance, parity = ("KS-GEO", "EO") if separation else ("KS-GSP", "SP")
        names = (distance, parity) if rows.outcome == "binary" else (distance,)
    else:
        listed = metrics.tolist() if isinstance(metrics, np.ndarray) else metrics
        sequence = isinstance(listed, Sequence) and not isinstance(listed, str)
        if not sequence or not all(isinstance(name, str) for name in listed):
            raise InputError(f"metrics must be 'default' or a sequence of names, got {metrics!r}")
        names = tuple(dict.fromkeys(listed))
        if not names:
            raise InputError("metrics must name at least one metric, got none")
    chosen = [find_metric(name) for name in names]
    for metric in chosen:
        if metric.fair_value != 0:
            raise InputError(
                f"metrics must be 0 for a fair score, got {metric.name!r}, which is "
                f"{metric.fair_value:g}; take the difference instead of the ratio"
            )
        if rows.weights is not None and not metric.weighted:
            raise InputError(
                f"metrics must count row weights when sample_weight is given, got {metric.name!r}, "
                "which does not; leave one of the two out"
            )
    samples = [samples_of(part) for part in parts]
    measures: list[tuple[str, str]] = []
    for metric in chosen:
        problems = {name: metric.why_not(sample) for name, sample in samples[0].items()}
        applies = [(metric.name, name) for name, problem in problems.items() if problem is None]
        if not applies:
            said = next(iter(problems.values()))
            raise InputError(f"metrics must apply to some attribute: {said}")
        measures += applies
    criteria = Criteria(UTILITIES[rows.outcome], tuple(measures))
    for part, beside in zip(parts, samples, strict=True):
        _refuse_empty_sets(criteria, part, beside)
    return criteria


def samples_of(rows: HeldOut) -> dict[str, Sample]:
    """Any scores, all distinct, beside each attribute: what metrics need to know of the rows."""
    try:
        any_scores = np.linspace(0.0, 1.0, len(rows))
        scored = prepare(any_scores, rows.y, weights=rows.weights, outcome=rows.outcome)
        return {column.name: scored.against(column) for column in rows.table.columns}
    except InputError as problem:
        raise InputError(
            f"the {len(rows)} {rows.part} rows do not suffice: {problem}; or merge rare groups, "
            f"or raise {rows.part}"
        ) from None


def _refuse_empty_sets(criteria: Criteria, rows: HeldOut, samples: Mapping[str, Sample]) -> None:
    """Say before training, not after, that a metric has no rows to compare."""
    for name, attribute in criteria.measures:
        metric = find_metric(name)
        # Whether a rate is 0 depends on the score; whether a set is empty does not.
        if metric.needs_decisions:
            continue
        (reason,) = metric.compute(samples[attribute]).reasons
        if reason is not None:
            raise InputError(
                f"the {len(rows)} {rows.part} rows do not suffice for {name} by "
                f"{attribute}: {reason}; merge rare groups, or raise {rows.part}"
            )


#: (member, row) pairs evaluated at once: activations stay small, whatever the number of members,
#: and on a CPU larger ones cost more time (benchmarks/evaluation.py).
EVALUATED_AT_ONCE = 2**16


@torch.no_grad()
def scores_of(
    predictor: Predictor,
    x: Tensor,
    entries: Sequence[Entry],
    *,
    center: float = 0.0,
    scale: float = 1.0,
) -> Tensor:
    """Scores (E, n, s) of every entry on encoded rows x (n, p), in double precision.

    s is 1 for the probability of the second of two classes and for a prediction (times ``scale``
    plus ``center``), else the number of classes. In double precision the selected model will
    predict, too.
    """
    exact = {
        name: tensor.to(x) if tensor.is_floating_point() else tensor.to(x.device)
        for name, tensor in member_tensors(predictor)
    }
    members = len(next(iter(exact.values())))
    averages = [entry.members for entry in entries if entry.is_average]
    alone = [entry.members[0] for entry in entries if not entry.is_average]
    was_training = predictor.training
    predictor.eval()
    scores = []
    for rows in torch.split(x, max(1, EVALUATED_AT_ONCE // members)):
        output = functional_call(predictor, exact, (rows.expand(members, *rows.shape),))[0]
        outputs = output[alone]
        if averages:
            averaged = averaged_output(
                output[torch.tensor(averages, device=output.device)], predictor.task
            )
            outputs = torch.cat([outputs, averaged])
        scores.append(predictor.task.score(outputs))
    predictor.train(was_training)
    return torch.cat(scores, dim=1) * scale + center


class Judge:
    """Judges scores on one set of rows; what does not depend on the scores is prepared once.

    The numbers of all models stay on the device until all are there. ``references`` names the group
    of a column that SP and EO compare with; the largest one where it names none.
    """

    def __init__(
        self,
        rows: HeldOut,
        criteria: Criteria,
        device: torch.device,
        references: Mapping[str, Hashable] | None = None,
    ) -> None:
        self._decides = rows.outcome == "binary"
        any_scores = torch.linspace(0, 1, len(rows), dtype=torch.float64, device=device)
        self._scored = prepare(any_scores, rows.y, weights=rows.weights, outcome=rows.outcome)
        self._samples = {
            column.name: self._scored.against(column, (references or {}).get(column.name))
            for column in rows.table.columns
        }
        self._measures = [
            (find_metric(metric), self._samples[attribute])
            for metric, attribute in criteria.measures
        ]

    def __call__(self, scores: Tensor, threshold: Tensor | None = None) -> Tensor:
        """Utility, threshold and M measures of each of E models, (E, 2 + M), on the CPU.

        scores: (E, n, s). threshold: (E,), where decisions are cut; Youden's on these rows unless
        given. It is NaN unless there are two classes. With several classes a measure is the largest
        over the classes. NaN where undefined.
        """
        columns = scores.shape[-1]
        flat = scores.transpose(1, 2).flatten(0, 1)
        scored = replace(self._scored, scores=flat, ranking=rank(flat))
        utility = scored.utility(columns=columns)[0]
        cut = torch.full_like(utility, torch.nan)
        if self._decides:
            assert scored.y is not None
            cut = (
                youden_of_ranking(scored.ranking, scored.y, scored.weights[0])
                if threshold is None
                else threshold.to(utility)
            )
            scored = replace(scored, threshold=cut)
        found = [utility, cut]
        for metric, sample in self._measures:
            values = metric.compute(replace(sample, scored=scored)).values[0]
            found.append(values.view(-1, columns).amax(-1))
        return torch.stack([each.to(utility.device) for each in found], dim=1).cpu()


@dataclass(frozen=True, eq=False)
class Snapshots:
    """Every snapshot that was judged, T of them, and the weights of those worth keeping."""

    criteria: Criteria
    entry: NDArray[np.int64]  # which entry of the frontier, (T,)
    iteration: NDArray[np.int64]
    utility: Floats
    threshold: Floats
    unfairness: Floats  # in the order of the measures, (T, M)
    weights: Mapping[int, Weights]  # by number, of the snapshots on a front

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which snapshots are on a front and have weights, (T,)."""
        kept = np.zeros(len(self.utility), dtype=bool)
        kept[list(self.weights)] = True
        return kept

    def front(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """Numbers of the snapshots on the front of utility against these measures, ascending."""
        return front_of(
            np.arange(len(self.utility)), self.utility, self.unfairness[:, list(columns)]
        )


def joined(parts: Sequence[Snapshots]) -> Snapshots:
    """Snapshots of several strands one after the other; those on a front of all are kept."""
    if len(parts) == 1:
        return parts[0]
    criteria = parts[0].criteria
    entries = np.cumsum([0, *(int(part.entry.max()) + 1 for part in parts)])
    firsts = np.cumsum([0, *(len(part.utility) for part in parts)]).tolist()

    def all_of(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(part, name) for part in parts])

    together = Snapshots(
        criteria=criteria,
        entry=np.concatenate([p.entry + first for p, first in zip(parts, entries, strict=False)]),
        iteration=all_of("iteration"),
        utility=all_of("utility"),
        threshold=all_of("threshold"),
        unfairness=all_of("unfairness"),
        weights={
            first + number: weights
            for part, first in zip(parts, firsts, strict=False)
            for number, weights in part.weights.items()
        },
    )
    kept = {number for columns in criteria.fronts for number in together.front(columns).tolist()}
    weights = {number: found for number, found in together.weights.items() if number in kept}
    return replace(together, weights=weights)


def front_of(numbers: NDArray[np.int64], utility: Floats, unfairness: Floats) -> NDArray[np.int64]:
    """Which ``numbers`` (n,) are non-dominated; those with an undefined value are left out."""
    costs = np.column_stack([-utility, unfairness])
    defined = ~np.isnan(costs).any(axis=1)
    return numbers[defined][non_dominated(costs[defined])]


class Recorder:
    """Judges all entries whenever it is called, and keeps the weights of the running fronts.

    A row that leaves a front never comes back, so the running fronts end as those of the whole
    table; weights of all other snapshots are let go at once. ``judge`` takes the predictor and
    returns utility, threshold and M measures (E, 2 + M) of the E entries on the CPU.
    """

    def __init__(
        self, judge: Callable[[Predictor], Tensor], criteria: Criteria, entries: Sequence[Entry]
    ) -> None:
        self._judge = judge
        self._criteria = criteria
        self._entries = tuple(entries)
        self._iterations: list[int] = []
        self._judged: list[Tensor] = []
        self._fronts = dict.fromkeys(criteria.fronts, np.empty(0, dtype=np.int64))
        self._weights: dict[int, Weights] = {}

    def __call__(self, iteration: int, predictor: Predictor) -> bool:
        """Judge the entries as they are now; never ends training."""
        first = len(self._entries) * len(self._judged)
        self._iterations.append(iteration)
        self._judged.append(self._judge(predictor))
        new = np.arange(first, first + len(self._entries))
        self._update_fronts(new)
        kept = set(np.concatenate(list(self._fronts.values())).tolist())
        self._weights = {number: w for number, w in self._weights.items() if number in kept}
        fresh = [number for number in new.tolist() if number in kept]
        groups = [self._entries[number - first].members for number in fresh]
        self._weights |= zip(fresh, weights_of(predictor, groups), strict=True)
        return False

    def _update_fronts(self, new: NDArray[np.int64]) -> None:
        """Let new snapshots compete with those on the fronts so far."""
        table = torch.cat(self._judged).numpy()
        utility, unfairness = table[:, 0], table[:, 2:]
        for columns, front in self._fronts.items():
            rivals = np.concatenate([front, new])
            costs = unfairness[rivals][:, columns]
            self._fronts[columns] = front_of(rivals, utility[rivals], costs)

    def snapshots(self) -> Snapshots:
        """Everything recorded so far."""
        table = torch.cat(self._judged).numpy()
        return Snapshots(
            criteria=self._criteria,
            entry=np.tile(np.arange(len(self._entries)), len(self._iterations)),
            iteration=np.repeat(np.array(self._iterations, np.int64), len(self._entries)),
            utility=table[:, 0].copy(),
            threshold=table[:, 1].copy(),
            unfairness=table[:, 2:].copy(),
            weights=dict(sorted(self._weights.items())),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything recorded so far, as tensors, numbers, text, lists and dicts."""
        weights = {str(number): dict(found) for number, found in self._weights.items()}
        return {
            "iterations": list(self._iterations),
            "judged": list(self._judged),
            "weights": weights,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` of a recorder of the same entries and criteria gave."""
        shape = (len(self._entries), 2 + len(self._criteria.measures))
        for table in state["judged"]:
            if table.shape != shape or not table.is_floating_point():
                raise ValueError("snapshots must be judged by the same criteria")
        if len(state["iterations"]) != len(state["judged"]):
            raise ValueError("snapshots must be judged at iterations")
        self._iterations = [int(iteration) for iteration in state["iterations"]]
        self._judged = list(state["judged"])
        self._weights = {int(number): dict(found) for number, found in state["weights"].items()}
        self._fronts = dict.fromkeys(self._fronts, np.empty(0, dtype=np.int64))
        if self._judged:
            self._update_fronts(np.arange(len(self._entries) * len(self._judged)))


def weights_of(predictor: Predictor, groups: Sequence[Sequence[int]]) -> list[Weights]:
    """Copies of the weights and buffers of each group of members, off the device."""
    wanted = sorted({member for group in groups for member in group})
    place = {member: position for position, member in enumerate(wanted)}
    found: list[dict[str, Tensor]] = [{} for _ in groups]
    for name, tensor in member_tensors(predictor):
        # All members of one tensor at once: a transfer each would cost more than the judging.
        block = tensor.detach()[torch.tensor(wanted, dtype=torch.long, device=tensor.device)].cpu()
        for weights, group in zip(found, groups, strict=True):
            weights[name] = block[[place[member] for member in group]]
    return list(found)
