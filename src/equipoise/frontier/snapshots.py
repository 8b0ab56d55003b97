"""What training leaves behind: snapshots of every member, and models made from the best of them.

A *snapshot* is a member, or the average of the members of one strength, at one moment of training.
`Recorder` has every snapshot judged and keeps the weights of those on a front; `Curve` holds all
of them and makes models of those that were kept.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from equipoise.training.predictor import AveragedPredictor, averaged_output

#: Seed of an average, in tables.
ALL_SEEDS = -1
#: (member, row) pairs evaluated at once: activations stay small, whatever the number of members,
#: and on a CPU larger ones cost more time (benchmarks/evaluation.py).
EVALUATED_AT_ONCE = 2**16


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
    plus ``center``), else the number of classes. The selected model predicts in double precision,
    too.
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
            groups = output[torch.tensor(averages, device=output.device)]
            outputs = torch.cat([outputs, averaged_output(groups, predictor.task)])
        scores.append(predictor.task.score(outputs))
    predictor.train(was_training)
    return torch.cat(scores, dim=1) * scale + center


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
        everybody = np.arange(len(self.utility))
        return _front_of(everybody, self.utility, self.unfairness[:, list(columns)])


def _front_of(numbers: NDArray[np.int64], utility: Floats, unfairness: Floats) -> NDArray[np.int64]:
    """Which ``numbers`` (n,) are non-dominated; those with an undefined value are left out."""
    costs = np.column_stack([-utility, unfairness])
    defined = ~np.isnan(costs).any(axis=1)
    return numbers[defined][non_dominated(costs[defined])]


def joined(parts: Sequence[Snapshots]) -> Snapshots:
    """Snapshots of several estimators one after the other; those on a front of all are kept."""
    if len(parts) == 1:
        return parts[0]
    entries = np.cumsum([0, *(int(part.entry.max()) + 1 for part in parts)])
    firsts = np.cumsum([0, *(len(part.utility) for part in parts)]).tolist()
    names = ("iteration", "utility", "threshold", "unfairness")
    together = Snapshots(
        criteria=parts[0].criteria,
        entry=np.concatenate([p.entry + first for p, first in zip(parts, entries, strict=False)]),
        weights={
            first + number: weights
            for part, first in zip(parts, firsts, strict=False)
            for number, weights in part.weights.items()
        },
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names},
    )
    fronts = [together.front(columns) for columns in together.criteria.fronts]
    kept = set(np.concatenate(fronts).tolist())
    weights = {number: found for number, found in together.weights.items() if number in kept}
    return replace(together, weights=weights)


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
        self._weights |= zip(fresh, _weights_of(predictor, groups), strict=True)
        return False

    def _update_fronts(self, new: NDArray[np.int64]) -> None:
        """Let new snapshots compete with those on the fronts so far."""
        table = torch.cat(self._judged).numpy()
        utility, unfairness = table[:, 0], table[:, 2:]
        for columns, front in self._fronts.items():
            rivals = np.concatenate([front, new])
            costs = unfairness[rivals][:, columns]
            self._fronts[columns] = _front_of(rivals, utility[rivals], costs)

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
        return {
            "iterations": list(self._iterations),
            "judged": list(self._judged),
            "weights": {str(number): dict(found) for number, found in self._weights.items()},
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


def _weights_of(predictor: Predictor, groups: Sequence[Sequence[int]]) -> list[dict[str, Tensor]]:
    """Copies of the weights and buffers of each group of members, off the device."""
    wanted = sorted({member for group in groups for member in group})
    place = {member: position for position, member in enumerate(wanted)}
    found: list[dict[str, Tensor]] = [{} for _ in groups]
    for name, tensor in member_tensors(predictor):
        # All members of one tensor at once: a transfer each would cost more than the judging.
        block = tensor.detach()[torch.tensor(wanted, dtype=torch.long, device=tensor.device)].cpu()
        for weights, group in zip(found, groups, strict=True):
            weights[name] = block[[place[member] for member in group]]
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Strand:
    """What training the members of one estimator left behind."""

    predictor: str  # as in its entries
    entries: tuple[Entry, ...]  # its members and their averages
    prototype: Predictor  # a stack of one member, to be given the weights of a snapshot
    history: History  # of all its members
    member_health: tuple[Health, ...]  # after the last iteration
    # Options, feature encoding, labels and names of columns that all its models share.
    template: Classifies | Regresses
    # Of each member: networks that failed in phases before the run; empty once loaded, when health
    # tells of them.
    failures: tuple[tuple[Failure, ...], ...] = ()

    def filled(self, entry: Entry, weights: Weights) -> Predictor:
        """Build the network of one snapshot of an entry, or the average of its networks."""
        stack = select_members(self.prototype, [0] * len(entry.members))
        with torch.no_grad():
            for name, tensor in member_tensors(stack):
                tensor.copy_(weights[name])
        return AveragedPredictor(stack.network, stack.task).eval() if entry.is_average else stack

    def health_in_words(self, entry: Entry) -> str:
        """How training of an entry ended."""
        found = [self.member_health[member] for member in entry.members]
        if all(health.ok for health in found) or not entry.is_average:
            return str(found[0])
        return "\n".join(
            f"seed {seed}: {message}"
            for seed, health in zip(entry.seeds, found, strict=True)
            for message in health.messages
        )

    def history_until(self, entry: Entry, iteration: int) -> History:
        """What the checks saw of one entry up to an iteration; averages of its members."""
        members = list(entry.members)
        seen = self.history.iterations <= iteration
        stops = self.history.stopped_at[members]
        stops = stops[(stops > 0) & (stops <= iteration)]
        # The mean of a single member is its value to the last bit.
        task, penalty = (
            values[seen][:, members].mean(axis=1, keepdims=True)
            for values in (self.history.task, self.history.penalty)
        )
        return History(
            iterations=self.history.iterations[seen],
            task=task,
            penalty=penalty,
            stopped_at=np.array([stops.min(initial=iteration) if len(stops) else 0]),
        )


@dataclass(frozen=True)
class Split:
    """Positions of the rows of each part, ascending; no row is in two parts."""

    train: Positions
    validation: Positions
    test: Positions


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """What training all members left behind."""

    strands: tuple[Strand, ...]  # one for each estimator
    snapshots: Snapshots  # of all strands, one after the other; so are entries
    health: Mapping[int, Health]  # of kept snapshots: how training had gone by then
    # Scores (n, s) of kept snapshots on the test rows. None, as are the test rows, where the
    # frontier was saved without them.
    scores: Mapping[int, Floats] | None
    split: Split
    sensitive: str  # how sensitive columns were typed
    test: HeldOut | None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Members and averages, as the table has them."""
        return tuple(entry for strand in self.strands for entry in strand.entries)

    @property
    def families(self) -> tuple[str, ...]:
        """Kinds of predictors, each once."""
        return tuple(dict.fromkeys(entry.family for entry in self.entries))

    @property
    def template(self) -> Classifies | Regresses:
        """What all models share: labels, names of columns; options and encoding of the first."""
        return self.strands[0].template

    def threshold(self, number: int) -> float | None:
        """Where decisions are cut: Youden's on the validation rows; None but for two classes."""
        cut = float(self.snapshots.threshold[number])
        return None if math.isnan(cut) else cut

    def test_scores(self, numbers: Sequence[int]) -> Floats | None:
        """Scores (E, n, s) of kept snapshots on the test rows; None where there are none."""
        return None if self.scores is None else np.stack([self.scores[each] for each in numbers])

    def model(self, number: int) -> Classifies | Regresses:
        """Build the fitted estimator of one kept snapshot."""
        strand, entry = self.owner(number)
        model = copy.copy(strand.template)
        model.set_params(strength=entry.strength, random_state=entry.seeds[0])
        model.health_ = self.health[number]
        model.predictor_ = strand.filled(entry, self.snapshots.weights[number]).settled()
        model.history_ = strand.history_until(entry, int(self.snapshots.iteration[number]))
        if entry.is_average:
            model.averaged_seeds_ = entry.seeds
        return model

    def owner(self, number: int) -> tuple[Strand, Entry]:
        """Whose snapshot it is."""
        entry = self.entries[self.snapshots.entry[number]]
        (strand,) = (each for each in self.strands if each.predictor == entry.predictor)
        return strand, entry


def members_of(curve: Curve) -> pd.DataFrame:
    """Every member and average, one a row; see `FairFrontier.members`."""
    kept = curve.snapshots.entry[curve.snapshots.kept]
    health = [strand.health_in_words(each) for strand in curve.strands for each in strand.entries]
    on_front = np.bincount(kept, minlength=len(curve.entries))
    return _who(curve.entries).assign(snapshots_on_front=on_front, health=health)


def table_of(found: Snapshots, entries: Sequence[Entry]) -> pd.DataFrame:
    """Every snapshot of these entries, one a row; see `FairFrontier.table`."""
    who = {str(name): column.to_numpy()[found.entry] for name, column in _who(entries).items()}
    columns: dict[str, NDArray[Any]] = {
        "member": found.entry,
        **who,
        "iteration": found.iteration,
        "utility": found.utility,
    }
    if found.criteria.utility == "AUC":
        columns["threshold"] = found.threshold
    columns |= dict(zip(found.criteria.columns, found.unfairness.T, strict=True))
    columns["on_front"] = found.kept
    return pd.DataFrame(columns).rename_axis("snapshot")


def _who(entries: Sequence[Entry]) -> pd.DataFrame:
    columns: dict[str, NDArray[Any]] = {
        "strength": np.array([entry.strength for entry in entries], np.float64),
        "seed": np.array([entry.seed for entry in entries], np.int64),
    }
    if len({entry.predictor for entry in entries}) > 1:
        columns["predictor"] = np.array([entry.predictor for entry in entries], object)
    if any(entry.is_average for entry in entries):
        columns["averaged"] = np.array([len(entry.members) for entry in entries])
    return pd.DataFrame(columns).rename_axis("member")
