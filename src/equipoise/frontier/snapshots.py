"""Snapshots: every member, every so often, judged on validation rows; weights of the best kept."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.frontier.criteria import Criteria
from equipoise.frontier.rows import HeldOut
from equipoise.metrics.registry import compute, find_metric
from equipoise.metrics.sample import prepare
from equipoise.metrics.utility import auc_of_ranking, r2
from equipoise.networks.members import member_tensors
from equipoise.pareto import non_dominated
from equipoise.training import Predictor

Floats = NDArray[np.float64]
Weights = Mapping[str, Tensor]

#: (member, row) pairs evaluated at once: activations stay small, whatever the number of members.
EVALUATED_AT_ONCE = 2**18


def scores_of(predictor: Predictor, rows: HeldOut) -> Tensor:
    """Scores (K, n) of every member: probabilities, or predictions in the user's units.

    In double precision, in which the selected model will predict, too.
    """
    exact = copy.deepcopy(predictor).double()
    members = next(exact.parameters()).shape[0]
    portions = torch.split(rows.x, max(1, EVALUATED_AT_ONCE // members))
    scores = torch.cat([exact.evaluate(portion)[1][..., 0] for portion in portions], dim=1)
    return scores * rows.scale + rows.center


@dataclass(frozen=True, eq=False)
class Judged:
    """K snapshots of one moment: utility (K,), unfairness (K, M) with NaN where undefined.

    threshold: (K,) where Youden's J is largest, NaN for a continuous outcome.
    """

    utility: Floats
    unfairness: Floats
    threshold: Floats


def judge(scores: Tensor, rows: HeldOut, criteria: Criteria) -> Judged:
    """Judge scores (K, n) by all criteria, from one sort of the scores."""
    scored = prepare(scores, rows.y, outcome=rows.outcome)
    if rows.outcome == "binary":
        assert scored.y is not None and scored.threshold is not None
        utility = auc_of_ranking(scored.ranking, scored.y, scored.weights)[0].cpu().numpy()
        threshold = scored.threshold.cpu().numpy()
    else:
        utility = torch.as_tensor(r2(scores, rows.y)).cpu().numpy()
        threshold = np.full(len(utility), np.nan)
    samples = {column.name: scored.against(column) for column in rows.table.columns}
    unfairness = [
        compute(find_metric(metric), samples[attribute]).values[0].cpu().numpy()
        for metric, attribute in criteria.measures
    ]
    return Judged(utility, np.stack(unfairness, axis=1), threshold)


@dataclass(frozen=True, eq=False)
class Snapshots:
    """Every snapshot that was judged, T of them, and the weights of those worth keeping.

    Attributes
    ----------
    criteria : Criteria
    member, iteration : ndarray of int64, shape (T,)
    utility, threshold : ndarray of float64, shape (T,)
    unfairness : ndarray of float64, shape (T, M)
        In the order of ``criteria.measures``.
    weights : mapping of snapshot number to weights
        Of the snapshots on a front.
    """

    criteria: Criteria
    member: NDArray[np.int64]
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


def front_of(numbers: NDArray[np.int64], utility: Floats, unfairness: Floats) -> NDArray[np.int64]:
    """Which ``numbers`` (n,) are non-dominated; those with an undefined value are left out."""
    costs = np.column_stack([-utility, unfairness])
    defined = ~np.isnan(costs).any(axis=1)
    return numbers[defined][non_dominated(costs[defined])]


class Recorder:
    """Judges all members whenever it is called, and keeps the weights of the running fronts.

    A row that leaves a front never comes back, so the running fronts end as those of the whole
    table; weights of all other snapshots are let go at once.
    """

    def __init__(self, rows: HeldOut, criteria: Criteria) -> None:
        self._rows = rows
        self._criteria = criteria
        self._judged: list[tuple[int, Judged]] = []
        self._fronts: dict[tuple[int, ...], NDArray[np.int64]] = {
            columns: np.empty(0, dtype=np.int64) for columns in criteria.fronts
        }
        self._weights: dict[int, Weights] = {}

    def __call__(self, iteration: int, predictor: Predictor) -> bool:
        """Judge the members as they are now; never ends training."""
        judged = judge(scores_of(predictor, self._rows), self._rows, self._criteria)
        members = len(judged.utility)
        first = members * len(self._judged)
        self._judged.append((iteration, judged))
        utility = np.concatenate([each.utility for _, each in self._judged])
        unfairness = np.concatenate([each.unfairness for _, each in self._judged])
        new = np.arange(first, first + members)
        for columns, front in self._fronts.items():
            rivals = np.concatenate([front, new])
            costs = unfairness[rivals][:, columns]
            self._fronts[columns] = front_of(rivals, utility[rivals], costs)
        kept = set(np.concatenate(list(self._fronts.values())).tolist())
        self._weights = {number: w for number, w in self._weights.items() if number in kept}
        for number in new.tolist():
            if number in kept:
                self._weights[number] = weights_of(predictor, number - first)
        return False

    def snapshots(self) -> Snapshots:
        """Everything recorded so far."""
        members = len(self._judged[0][1].utility)
        moments = np.array([iteration for iteration, _ in self._judged], dtype=np.int64)
        parts = [judged for _, judged in self._judged]
        return Snapshots(
            criteria=self._criteria,
            member=np.tile(np.arange(members), len(moments)),
            iteration=np.repeat(moments, members),
            utility=np.concatenate([part.utility for part in parts]),
            threshold=np.concatenate([part.threshold for part in parts]),
            unfairness=np.concatenate([part.unfairness for part in parts]),
            weights=dict(sorted(self._weights.items())),
        )


def weights_of(predictor: Predictor, member: int) -> Weights:
    """Copy of one member's weights and buffers, without the member axis, off the device."""
    return {
        name: tensor.detach()[member].cpu().clone() for name, tensor in member_tensors(predictor)
    }


def with_weights(predictor: Predictor, weights: Weights) -> Predictor:
    """Copy of a stack of one member that has these weights."""
    changed = copy.deepcopy(predictor)
    with torch.no_grad():
        for name, tensor in member_tensors(changed):
            tensor.copy_(weights[name][None])
    return changed
