"""Snapshots: every member, every so often, judged on validation rows; weights of the best kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.frontier.criteria import Criteria
from equipoise.frontier.entries import Entry
from equipoise.networks.members import member_tensors
from equipoise.pareto import non_dominated
from equipoise.training import Predictor

Floats = NDArray[np.float64]
#: Weights and buffers by name, each with the M members of an entry first.
Weights = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Snapshots:
    """Every snapshot that was judged, T of them, and the weights of those worth keeping.

    Attributes
    ----------
    criteria : Criteria
    entry, iteration : ndarray of int64, shape (T,)
        Which entry of the frontier, and when.
    utility, threshold : ndarray of float64, shape (T,)
    unfairness : ndarray of float64, shape (T, M)
        In the order of ``criteria.measures``.
    weights : mapping of snapshot number to weights
        Of the snapshots on a front.
    """

    criteria: Criteria
    entry: NDArray[np.int64]
    iteration: NDArray[np.int64]
    utility: Floats
    threshold: Floats
    unfairness: Floats
    weights: Mapping[int, Weights]

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
    firsts = np.cumsum([0, *(len(part.utility) for part in parts)])
    together = Snapshots(
        criteria=criteria,
        entry=np.concatenate([p.entry + first for p, first in zip(parts, entries, strict=False)]),
        iteration=np.concatenate([part.iteration for part in parts]),
        utility=np.concatenate([part.utility for part in parts]),
        threshold=np.concatenate([part.threshold for part in parts]),
        unfairness=np.concatenate([part.unfairness for part in parts]),
        weights={
            int(first) + number: weights
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
    table; weights of all other snapshots are let go at once.

    Parameters
    ----------
    judge : callable
        Takes the predictor; returns utility, threshold and M measures (E, 2 + M) on the CPU.
    criteria : Criteria
    entries : sequence of Entry, length E
    """

    def __init__(
        self, judge: Callable[[Predictor], Tensor], criteria: Criteria, entries: Sequence[Entry]
    ) -> None:
        self._judge = judge
        self._criteria = criteria
        self._entries = tuple(entries)
        self._iterations: list[int] = []
        self._judged: list[Tensor] = []
        self._fronts: dict[tuple[int, ...], NDArray[np.int64]] = {
            columns: np.empty(0, dtype=np.int64) for columns in criteria.fronts
        }
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
        return {
            "iterations": list(self._iterations),
            "judged": [table.clone() for table in self._judged],
            "weights": {
                str(number): {name: tensor.clone() for name, tensor in weights.items()}
                for number, weights in self._weights.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` of a recorder of the same entries and criteria gave."""
        width = 2 + len(self._criteria.measures)
        for table in state["judged"]:
            if table.shape != (len(self._entries), width) or not table.is_floating_point():
                raise ValueError("snapshots must be judged by the same criteria")
        if len(state["iterations"]) != len(state["judged"]):
            raise ValueError("snapshots must be judged at iterations")
        self._iterations = [int(iteration) for iteration in state["iterations"]]
        self._judged = [table.clone() for table in state["judged"]]
        self._weights = {
            int(number): {name: tensor.clone() for name, tensor in weights.items()}
            for number, weights in state["weights"].items()
        }
        self._fronts = {columns: np.empty(0, dtype=np.int64) for columns in self._fronts}
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
