"""A trained frontier: what every snapshot did, and models made from the ones that were kept."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.estimators import FairClassifier, FairRegressor
from equipoise.estimators.inputs import Outcome
from equipoise.frontier.criteria import UNINFORMED
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.selection import Picked, ReportSettings, Selection, report
from equipoise.frontier.snapshots import Snapshots, scores_of, with_weights
from equipoise.frontier.wish import Wish, pick
from equipoise.networks import select_members
from equipoise.pareto import hypervolume
from equipoise.sensitive import SensitiveTable
from equipoise.training import History, Member, Predictor, Trained, TrainingData
from equipoise.training.engine import judge_health


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """What training all members left behind.

    Attributes
    ----------
    members : tuple of Member, length K
    trained : Trained
        The stack after the last iteration, its history and health.
    snapshots : Snapshots
    template : FairClassifier or FairRegressor
        Options, feature encoding and names of columns that all members share.
    outcome : Outcome
    trained_on : SensitiveTable
        Of the training rows.
    seen : TrainingData
        Training rows by which the health of a snapshot is judged.
    given_outcome : bool
        Whether the notion conditions on the outcome.
    test : HeldOut
    validation_rows : int
    """

    members: tuple[Member, ...]
    trained: Trained
    snapshots: Snapshots
    template: FairClassifier | FairRegressor
    outcome: Outcome
    trained_on: SensitiveTable
    seen: TrainingData
    given_outcome: bool
    test: HeldOut
    validation_rows: int

    def table(self) -> pd.DataFrame:
        """Every snapshot, one a row; see `FairFrontier.table`."""
        found = self.snapshots
        who = self._who()
        columns: dict[str, NDArray[Any]] = {
            "member": found.member,
            "strength": who["strength"].to_numpy()[found.member],
            "seed": who["seed"].to_numpy()[found.member],
            "iteration": found.iteration,
            "utility": found.utility,
        }
        if found.criteria.utility == "AUC":
            columns["threshold"] = found.threshold
        columns |= dict(zip(found.criteria.columns, found.unfairness.T, strict=True))
        columns["on_front"] = found.kept
        return pd.DataFrame(columns).rename_axis("snapshot")

    def member_table(self) -> pd.DataFrame:
        """Every member, one a row; see `FairFrontier.members`."""
        kept = self.snapshots.member[self.snapshots.kept]
        return self._who().assign(
            snapshots_on_front=np.bincount(kept, minlength=len(self.members)),
            health=[str(health) for health in self.trained.health],
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
        number = pick(snapshots, self.members, wish)
        model = self.model(number)
        cut = float(snapshots.threshold[number])
        picked = Picked(
            wish=wish,
            utility=float(snapshots.utility[number]),
            unfairness=snapshots.unfairness[number],
            threshold=None if np.isnan(cut) else cut,
        )
        scores = scores_of(model.predictor_, self.test)[0].cpu().numpy()
        member = self.members[snapshots.member[number]]
        utility = snapshots.criteria.utility
        return Selection(
            model=model,
            snapshot=number,
            strength=member.strength,
            seed=member.seed,
            iteration=int(snapshots.iteration[number]),
            threshold=picked.threshold,
            wish=wish.describe(utility),
            aim=wish.aim(utility),
            candidates=settings.candidates,
            picked_among=len(snapshots.weights),
            level=settings.level,
            validation_rows=self.validation_rows,
            test_rows=len(self.test.y),
            rows=report(scores, self.test, snapshots.criteria, picked, settings),
        )

    def model(self, number: int) -> FairClassifier | FairRegressor:
        """Build the fitted estimator of one kept snapshot."""
        member = int(self.snapshots.member[number])
        who = self.members[member]
        one = select_members(self.trained.predictor, [member])
        assert isinstance(one, Predictor)
        predictor = with_weights(one, self.snapshots.weights[number])
        history = _history_until(
            self.trained.history, member, int(self.snapshots.iteration[number])
        )
        health = judge_health(
            predictor, self.seen, [who], history, given_outcome=self.given_outcome
        )
        model = copy.copy(self.template)
        model.set_params(strength=who.strength, random_state=who.seed)
        model._keep(Trained(predictor, history, health), self.outcome, self.trained_on)
        return model

    def _who(self) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "strength": np.array([member.strength for member in self.members], np.float64),
                "seed": np.array([member.seed for member in self.members], np.int64),
            }
        ).rename_axis("member")


def _history_until(history: History, member: int, iteration: int) -> History:
    """What the checks saw of one member up to an iteration."""
    seen = history.iterations <= iteration
    stopped = history.stopped_at[[member]]
    return History(
        iterations=history.iterations[seen],
        task=history.task[seen][:, [member]],
        penalty=history.penalty[seen][:, [member]],
        stopped_at=np.where(stopped <= iteration, stopped, 0),
    )
