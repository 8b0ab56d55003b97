"""A trained frontier: what every snapshot did, and models made from the ones that were kept."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.estimators import FairClassifier, FairRegressor
from equipoise.frontier.criteria import UNINFORMED
from equipoise.frontier.entries import Entry
from equipoise.frontier.evidence import Evidence
from equipoise.frontier.report import Picked, ReportSettings, report
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.selection import Selection
from equipoise.frontier.snapshots import Floats, Snapshots, Weights
from equipoise.frontier.wish import Wish, pick
from equipoise.networks import select_members
from equipoise.networks.members import member_tensors
from equipoise.pareto import hypervolume
from equipoise.training import Health, History, Predictor
from equipoise.training.averaged import AveragedPredictor


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """What training all members left behind.

    Attributes
    ----------
    entries : tuple of Entry
        Members and averages, as the table has them.
    prototype : Predictor
        A stack of one member, to be given the weights of a snapshot.
    history : History
        Of all members.
    member_health : tuple of Health
        Of all members after the last iteration.
    snapshots : Snapshots
    template : FairClassifier or FairRegressor
        Options, feature encoding, labels and names of columns that all models share.
    evidence : Evidence
    validation_rows : int
    test : HeldOut or None
        None where the frontier was saved without test rows.
    """

    entries: tuple[Entry, ...]
    prototype: Predictor
    history: History
    member_health: tuple[Health, ...]
    snapshots: Snapshots
    template: FairClassifier | FairRegressor
    evidence: Evidence
    validation_rows: int
    test: HeldOut | None

    def table(self) -> pd.DataFrame:
        """Every snapshot, one a row; see `FairFrontier.table`."""
        return table_of(self.snapshots, self.entries)

    def member_table(self) -> pd.DataFrame:
        """Every member and average, one a row; see `FairFrontier.members`."""
        kept = self.snapshots.entry[self.snapshots.kept]
        return _who(self.entries).assign(
            snapshots_on_front=np.bincount(kept, minlength=len(self.entries)),
            health=[self._health_in_words(entry) for entry in self.entries],
        )

    def front(self, metric: str | None, attribute: str | None) -> pd.DataFrame:
        """Rows of the table on one front, fairest first."""
        column = self.snapshots.criteria.one(metric, attribute)
        rows = self.table().iloc[self.snapshots.front([column])]
        return rows.sort_values([self.snapshots.criteria.columns[column], "utility"], kind="stable")

    def hypervolume(
        self, metric: str | None, attribute: str | None, most_unfairness: float
    ) -> float:
        """Share of the rectangle of possible trade-offs that one front reaches."""
        if not most_unfairness > 0:
            raise InputError(f"most_unfairness must be positive, got {most_unfairness!r}")
        column = self.snapshots.criteria.one(metric, attribute)
        front = self.snapshots.front([column])
        costs = np.column_stack(
            [-self.snapshots.utility[front], self.snapshots.unfairness[front, column]]
        )
        least = UNINFORMED[self.snapshots.criteria.utility]
        return hypervolume(costs, (-least, most_unfairness)) / ((1 - least) * most_unfairness)

    def select(self, wish: Wish, settings: ReportSettings) -> Selection:
        """Pick on what is known from validation rows; only then look at the test rows."""
        snapshots = self.snapshots
        number = pick(snapshots, self.entries, wish)
        picked = self.picked(number, wish)
        entry = self.entries[snapshots.entry[number]]
        utility = snapshots.criteria.utility
        (rows,) = report(
            self.test_scores([number]), self.test, snapshots.criteria, [picked], settings
        )
        return Selection(
            model=self.model(number),
            snapshot=number,
            strength=entry.strength,
            seed=entry.seed,
            averaged=len(entry.members),
            iteration=int(snapshots.iteration[number]),
            threshold=picked.threshold,
            wish=wish.describe(utility),
            aim=wish.aim(utility),
            metric=wish.metric,
            attributes=tuple(wish.limits),
            candidates=settings.candidates,
            picked_among=len(snapshots.weights),
            level=settings.level,
            validation_rows=self.validation_rows,
            test_rows=0 if self.test is None else len(self.test),
            rows=rows,
        )

    def picked(self, number: int, wish: Wish) -> Picked:
        """Look up how one snapshot did on the validation rows."""
        cut = float(self.snapshots.threshold[number])
        return Picked(
            wish=wish,
            utility=float(self.snapshots.utility[number]),
            unfairness=self.snapshots.unfairness[number],
            threshold=None if np.isnan(cut) else cut,
        )

    def test_scores(self, numbers: Sequence[int]) -> Floats | None:
        """Scores (E, n, s) of kept snapshots on the test rows; None where there are none."""
        found = []
        for number in numbers:
            scores = self.evidence.test_scores(number, self.predictor(number).double())
            if scores is None:
                return None
            found.append(scores)
        return np.stack(found)

    def model(self, number: int) -> FairClassifier | FairRegressor:
        """Build the fitted estimator of one kept snapshot."""
        entry = self.entries[self.snapshots.entry[number]]
        predictor = self.predictor(number)
        history = self._history_until(entry, int(self.snapshots.iteration[number]))
        model = copy.copy(self.template)
        model.set_params(strength=entry.strength, random_state=entry.seeds[0])
        model.health_ = self.evidence.health(number, entry, predictor, history)
        # In double precision a row's score does not depend on the rows predicted along with it.
        model.predictor_ = predictor.requires_grad_(False).double()
        model.history_ = history
        if entry.is_average:
            model.averaged_seeds_ = entry.seeds
        return model

    def predictor(self, number: int) -> Predictor:
        """Build the network of one kept snapshot, or the average of its networks."""
        entry = self.entries[self.snapshots.entry[number]]
        stack = select_members(self.prototype, [0] * len(entry.members))
        assert isinstance(stack, Predictor)
        _fill(stack, self.snapshots.weights[number])
        return AveragedPredictor(stack.network, stack.task).eval() if entry.is_average else stack

    def _history_until(self, entry: Entry, iteration: int) -> History:
        """What the checks saw of one entry up to an iteration; averages of its members."""
        seen = self.history.iterations <= iteration
        stops = self.history.stopped_at[list(entry.members)]
        stops = stops[(stops > 0) & (stops <= iteration)]

        def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
            found: NDArray[np.float64] = values[seen][:, list(entry.members)]
            return found.mean(axis=1, keepdims=True) if entry.is_average else found

        return History(
            iterations=self.history.iterations[seen],
            task=mean(self.history.task),
            penalty=mean(self.history.penalty),
            stopped_at=np.array([stops.min(initial=iteration) if len(stops) else 0]),
        )

    def _health_in_words(self, entry: Entry) -> str:
        found = [self.member_health[member] for member in entry.members]
        if all(health.ok for health in found) or not entry.is_average:
            return str(found[0])
        return "\n".join(
            f"seed {seed}: {message}"
            for seed, health in zip(entry.seeds, found, strict=True)
            for message in health.messages
        )


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
    if any(entry.is_average for entry in entries):
        columns["averaged"] = np.array([len(entry.members) for entry in entries])
    return pd.DataFrame(columns).rename_axis("member")


def _fill(predictor: Predictor, weights: Weights) -> None:
    """Give a stack the weights of as many members."""
    with torch.no_grad():
        for name, tensor in member_tensors(predictor):
            tensor.copy_(weights[name])
