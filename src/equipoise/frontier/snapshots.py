"""Snapshots of every member during training, and the models made from the best of them.

A *snapshot* is a member, or the average of the members of one strength, at one moment of training.
`Recorder` measures all snapshots and keeps the weights of those on a front. `Curve` holds the
result of a training run and builds models from the kept snapshots.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from equipoise.estimators import Classifies, Regresses
from equipoise.estimators.fitting import Positions
from equipoise.frontier.judging import Criteria, Floats, HeldOut
from equipoise.networks import select_members
from equipoise.networks.stack import member_tensors
from equipoise.pareto import non_dominated
from equipoise.predictors import FAMILIES, Weights
from equipoise.training import Health, History, Member, Predictor
from equipoise.training.health import Failure
from equipoise.training.predictor import averaged, averaged_output

#: Seed that tables show for an average.
ALL_SEEDS = -1
#: Number of (member, row) pairs evaluated at once. This limits memory, and on a CPU more pairs are
#: slower (benchmarks/evaluation.py).
EVALUATED_AT_ONCE = 2**16


@dataclass(frozen=True)
class Entry:
    """A member, or the average of the members of one strength."""

    strength: float
    members: tuple[int, ...]  # positions among the members of the estimator; one if not an average
    seeds: tuple[int, ...]
    predictor: str = (
        "network"  # name of the estimator: its family, from the second on as "network 2"
    )

    @property
    def family(self) -> str:
        """Family of predictors, such as "network" or "boosting"."""
        return self.predictor.partition(" ")[0]

    @property
    def is_average(self) -> bool:
        """Whether this is an average of several members."""
        return len(self.members) > 1

    @property
    def seed(self) -> int:
        """The seed, or ALL_SEEDS for an average."""
        return ALL_SEEDS if self.is_average else self.seeds[0]

    def describe(self, iteration: int, *, mixed: bool = False) -> str:
        """Describe the entry at an iteration; the word "network" appears only if ``mixed``.

        >>> Entry(0.5, (1,), (7,)).describe(100)
        'strength 0.5, seed 7, iteration 100'
        >>> Entry(0.5, (0, 1), (7, 8), "boosting").describe(40)
        'boosted trees, strength 0.5, average of 2 seeds, round 40'
        """
        named = mixed or self.predictor != "network"
        kind = f"{predictor_in_words(self.predictor)}, " if named else ""
        seed = f"average of {len(self.members)} seeds" if self.is_average else f"seed {self.seed}"
        unit = FAMILIES[self.family].unit
        return f"{kind}strength {self.strength:g}, {seed}, {unit} {iteration}"


def entries_of(
    members: Sequence[Member], *, ensemble: bool, predictor: str = "network"
) -> tuple[Entry, ...]:
    """Return an entry for each member; with ``ensemble``, then one for each strength's average."""
    groups = [[place] for place in range(len(members))]
    if ensemble:
        by_strength: dict[float, list[int]] = {}
        for place, member in enumerate(members):
            by_strength.setdefault(member.strength, []).append(place)
        groups += by_strength.values()
    return tuple(
        Entry(
            members[group[0]].strength,
            tuple(group),
            tuple(members[place].seed for place in group),
            predictor,
        )
        for group in groups
    )


def predictor_in_words(predictor: str) -> str:
    """Return the words for a predictor's name.

    >>> predictor_in_words("boosting"), predictor_in_words("network 2")
    ('boosted trees', 'network 2')
    """
    family, _, number = predictor.partition(" ")
    return f"{FAMILIES[family].one} {number}".rstrip()


def families_in_words(families: Sequence[str]) -> str:
    """Return the words for several families of predictors.

    >>> families_in_words(["network", "boosting"])
    'networks and boosted trees'
    """
    return " and ".join(FAMILIES[family].many for family in families)


@torch.no_grad()
def scores_of(
    predictor: Predictor,
    x: Tensor,
    entries: Sequence[Entry],
    *,
    center: float = 0.0,
    scale: float = 1.0,
) -> Tensor:
    """Return the scores (E, n, s) of all entries on encoded rows x (n, p), in double precision.

    With two classes there is one score (s = 1), the probability of the second class; with more,
    one for each class. A predicted number is ``scale`` times the output plus ``center``.
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
        output = functional_call(predictor, exact, (predictor.same_for_all(rows),))[0]
        outputs = output[alone]
        if averages:
            groups = output[torch.tensor(averages, device=output.device)]
            outputs = torch.cat([outputs, averaged_output(groups, predictor.task)])
        scores.append(predictor.task.score(outputs))
    predictor.train(was_training)
    return torch.cat(scores, dim=1) * scale + center


@dataclass(frozen=True, eq=False)
class Snapshots:
    """Measurements of all T snapshots, and the weights of those on a front."""

    criteria: Criteria
    entry: NDArray[np.int64]  # position of the entry among those of the frontier, (T,)
    iteration: NDArray[np.int64]
    utility: Floats
    threshold: Floats
    unfairness: Floats  # columns are the measures of the criteria, (T, M)
    weights: Mapping[int, Weights]  # by position of the snapshot

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which snapshots are on a front, so that their weights are kept, (T,)."""
        kept = np.zeros(len(self.utility), dtype=bool)
        kept[list(self.weights)] = True
        return kept

    def front(
        self, columns: Sequence[int], among: Sequence[int] | None = None
    ) -> NDArray[np.int64]:
        """Positions of the snapshots on the front of utility against these measures.

        Only the snapshots ``among`` compete, all by default. Undefined values are on no front.
        """
        numbers = np.arange(len(self.utility)) if among is None else np.array(among, np.int64)
        costs = np.column_stack([-self.utility, self.unfairness[:, list(columns)]])[numbers]
        defined = ~np.isnan(costs).any(axis=1)
        return numbers[defined][non_dominated(costs[defined])]

    def best(self, among: Sequence[int]) -> set[int]:
        """Positions of the snapshots ``among`` these that are on some front of the criteria."""
        fronts = [self.front(columns, among) for columns in self.criteria.fronts]
        return set(np.concatenate(fronts).tolist())


def joined(parts: Sequence[Snapshots]) -> Snapshots:
    """Put the snapshots of several estimators into one table; keep those on a front of all."""
    if len(parts) == 1:
        return parts[0]
    firsts = np.cumsum([0, *(int(part.entry.max()) + 1 for part in parts)])
    places = [range(first, last) for first, last in pairwise(firsts.tolist())]
    return _on_fronts(_one_table(parts, places))


def gathered(parts: Sequence[Snapshots], places: Sequence[Sequence[int]]) -> Snapshots:
    """Put snapshots of members that trained apart into the table of all that trained together.

    places: for each part, the positions of its entries among all.
    """
    table = _one_table(parts, places)
    order = np.lexsort((table.entry, table.iteration))
    position = {int(number): place for place, number in enumerate(order)}
    columns = {name: getattr(table, name)[order] for name in ("entry", *_MEASURED)}
    weights = {position[number]: found for number, found in table.weights.items()}
    return _on_fronts(replace(table, weights=dict(sorted(weights.items())), **columns))


#: What is measured of a snapshot, besides whose it is.
_MEASURED = ("iteration", "utility", "threshold", "unfairness")


def _one_table(parts: Sequence[Snapshots], places: Sequence[Sequence[int]]) -> Snapshots:
    """The snapshots of all parts, one part after the other, with entries at these places."""
    firsts = np.cumsum([0, *(len(part.utility) for part in parts)]).tolist()
    return Snapshots(
        criteria=parts[0].criteria,
        entry=np.concatenate(
            [np.asarray(place)[part.entry] for part, place in zip(parts, places, strict=True)]
        ),
        weights={
            first + number: weights
            for part, first in zip(parts, firsts, strict=False)
            for number, weights in part.weights.items()
        },
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _MEASURED},
    )


def _on_fronts(together: Snapshots) -> Snapshots:
    """Keep the weights of those that are on a front of all."""
    # A snapshot that is on no front of its own part is on no front of the whole.
    best = together.best(list(together.weights))
    weights = {number: found for number, found in together.weights.items() if number in best}
    return replace(together, weights=weights)


class Recorder:
    """Measures all entries whenever it is called, and keeps the weights of those on a front.

    A snapshot that leaves a front never comes back, so only kept and new snapshots compete. All
    other weights are dropped at once. ``judge`` takes the predictor and returns utility, threshold
    and M measures (E, 2 + M) of the E entries, on the CPU.
    """

    def __init__(
        self, judge: Callable[[Predictor], Tensor], criteria: Criteria, entries: Sequence[Entry]
    ) -> None:
        self._judge = judge
        self._criteria = criteria
        self._entries = tuple(entries)
        self._iterations: list[int] = []
        self._judged: list[Tensor] = []
        self._weights: dict[int, Weights] = {}

    def __call__(self, iteration: int, predictor: Predictor) -> bool:
        """Measure the entries as they are now; return False, since it never ends training."""
        first = len(self._entries) * len(self._judged)
        self._iterations.append(iteration)
        self._judged.append(self._judge(predictor))
        new = range(first, first + len(self._entries))
        best = self.snapshots().best([*self._weights, *new])
        self._weights = {number: w for number, w in self._weights.items() if number in best}
        added = [number for number in new if number in best]
        groups = [self._entries[number - first].members for number in added]
        self._weights |= zip(added, _weights_of(predictor, groups), strict=True)
        return False

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
        """Everything recorded so far, as tensors and plain values."""
        return {
            "iterations": list(self._iterations),
            "judged": list(self._judged),
            "weights": {str(number): dict(found) for number, found in self._weights.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the `state_dict` of a recorder with the same entries and criteria."""
        shape = (len(self._entries), 2 + len(self._criteria.measures))
        for table in state["judged"]:
            if table.shape != shape or not table.is_floating_point():
                raise ValueError("snapshots must be judged by the same criteria")
        if len(state["iterations"]) != len(state["judged"]):
            raise ValueError("snapshots must be judged at iterations")
        self._iterations = [int(iteration) for iteration in state["iterations"]]
        self._judged = list(state["judged"])
        self._weights = {int(number): dict(found) for number, found in state["weights"].items()}


def _weights_of(predictor: Predictor, groups: Sequence[Sequence[int]]) -> list[dict[str, Tensor]]:
    """Return copies of the weights and buffers of each group of members, on the CPU."""
    wanted = sorted({member for group in groups for member in group})
    place = {member: position for position, member in enumerate(wanted)}
    found: list[dict[str, Tensor]] = [{} for _ in groups]
    for name, tensor in member_tensors(predictor):
        # One transfer for all members: one for each would take longer than the measuring.
        block = tensor.detach()[torch.tensor(wanted, dtype=torch.long, device=tensor.device)].cpu()
        for weights, group in zip(found, groups, strict=True):
            weights[name] = block[[place[member] for member in group]]
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedEstimator:
    """One estimator of a frontier after training."""

    name: str  # "network", "boosting" or "network 2", as in its entries
    entries: tuple[Entry, ...]  # its members and their averages
    prototype: Predictor  # a stack of one member, into which weights of snapshots are copied
    history: History  # of all its members
    member_health: tuple[Health, ...]  # after the last iteration
    # An estimator with the options, encoding, labels and column names that all its models share.
    template: Classifies | Regresses
    # For each member: networks of phases before the run that failed. Empty if loaded from a file,
    # which has them in the messages of health.
    failures: tuple[tuple[Failure, ...], ...] = ()

    def predictor(self, entry: Entry, weights: Weights) -> Predictor:
        """Build the predictor of one snapshot: that of a member, or an average."""
        stack = select_members(self.prototype, [0] * len(entry.members))
        with torch.no_grad():
            for name, tensor in member_tensors(stack):
                tensor.copy_(weights[name])
        return averaged(stack)

    def health_in_words(self, entry: Entry) -> str:
        """Describe the health of an entry after training."""
        healths = [self.member_health[member] for member in entry.members]
        if all(health.ok for health in healths) or not entry.is_average:
            return str(healths[0])
        return "\n".join(
            f"seed {seed}: {message}"
            for seed, health in zip(entry.seeds, healths, strict=True)
            for message in health.messages
        )

    def history_until(self, entry: Entry, iteration: int) -> History:
        """Return the history of one entry up to an iteration, averaged over its members."""
        members = list(entry.members)
        until = self.history.iterations <= iteration
        stops = self.history.stopped_at[members]
        return History(
            iterations=self.history.iterations[until],
            task=self.history.task[until][:, members],
            penalty=self.history.penalty[until][:, members],
            stopped_at=np.where(stops <= iteration, stops, 0),
        ).mean()


@dataclass(frozen=True)
class Split:
    """Positions of the rows of each part, ascending. No row is in two parts."""

    train: Positions
    validation: Positions
    test: Positions

    def numbered(self, numbers: Positions) -> Split:
        """The same rows by these numbers, (n,) for all rows."""
        return Split(numbers[self.train], numbers[self.validation], numbers[self.test])


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """The result of training a frontier."""

    trained: tuple[TrainedEstimator, ...]
    snapshots: Snapshots  # of all estimators, one after the other
    health: Mapping[int, Health]  # of kept snapshots, at their moment of training
    # Scores (n, s) of kept snapshots on the test rows. None if the frontier was saved without its
    # test rows; then ``test`` is None, too.
    scores: Mapping[int, Floats] | None
    split: Split
    sensitive: str  # how sensitive columns were typed
    test: HeldOut | None
    # Utility on the validation rows up to which a snapshot is no better than chance
    # (`training.health.Utility.chance`); not known, so that all are, in files of older versions.
    chance: float = -math.inf

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Members and averages of all estimators, to which ``snapshots.entry`` refers."""
        return tuple(entry for estimator in self.trained for entry in estimator.entries)

    @property
    def families(self) -> tuple[str, ...]:
        """Families of the predictors, each once."""
        return tuple(dict.fromkeys(entry.family for entry in self.entries))

    @property
    def template(self) -> Classifies | Regresses:
        """The first estimator; its labels and column names are those of all models."""
        return self.trained[0].template

    def threshold(self, number: int) -> float | None:
        """Threshold of decisions, Youden's on the validation rows; None unless two classes."""
        threshold = float(self.snapshots.threshold[number])
        return None if math.isnan(threshold) else threshold

    def test_scores(self, numbers: Sequence[int]) -> Floats | None:
        """Scores (E, n, s) of kept snapshots on the test rows; None without test rows."""
        return None if self.scores is None else np.stack([self.scores[each] for each in numbers])

    def model(self, number: int) -> Classifies | Regresses:
        """Build the fitted estimator of one kept snapshot."""
        trained, entry = self.owner(number)
        model = copy.copy(trained.template)
        model.set_params(strength=entry.strength, random_state=entry.seeds[0])
        model.health_ = self.health[number]
        model.predictor_ = trained.predictor(entry, self.snapshots.weights[number]).settled()
        model.history_ = trained.history_until(entry, int(self.snapshots.iteration[number]))
        if entry.is_average:
            model.averaged_seeds_ = entry.seeds
        return model

    def owner(self, number: int) -> tuple[TrainedEstimator, Entry]:
        """Return the estimator and the entry that a snapshot belongs to."""
        entry = self.entries[self.snapshots.entry[number]]
        (trained,) = (each for each in self.trained if each.name == entry.predictor)
        return trained, entry


def members_of(curve: Curve) -> pd.DataFrame:
    """Return a table of all members and averages; see `FairFrontier.members`."""
    kept = curve.snapshots.entry[curve.snapshots.kept]
    health = [each.health_in_words(entry) for each in curve.trained for entry in each.entries]
    on_front = np.bincount(kept, minlength=len(curve.entries))
    return _entry_table(curve.entries).assign(snapshots_on_front=on_front, health=health)


def table_of(snapshots: Snapshots, entries: Sequence[Entry]) -> pd.DataFrame:
    """Return a table of all snapshots of these entries; see `FairFrontier.table`."""
    table = _entry_table(entries).iloc[snapshots.entry].reset_index()
    table["iteration"] = snapshots.iteration
    table["utility"] = snapshots.utility
    if snapshots.criteria.utility == "AUC":
        table["threshold"] = snapshots.threshold
    table[list(snapshots.criteria.columns)] = snapshots.unfairness
    table["on_front"] = snapshots.kept
    return table.rename_axis("snapshot")


def _entry_table(entries: Sequence[Entry]) -> pd.DataFrame:
    """Return strength and seed of each entry; predictor and averaged only if they are needed."""
    columns: dict[str, NDArray[Any]] = {
        "strength": np.array([entry.strength for entry in entries], np.float64),
        "seed": np.array([entry.seed for entry in entries], np.int64),
    }
    if len({entry.predictor for entry in entries}) > 1:
        columns["predictor"] = np.array([entry.predictor for entry in entries], object)
    if any(entry.is_average for entry in entries):
        columns["averaged"] = np.array([len(entry.members) for entry in entries])
    return pd.DataFrame(columns).rename_axis("member")
