"""A trained frontier: what every snapshot did, and models made from the ones that were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import check_number
from equipoise.estimators import Classifies, Regresses
from equipoise.frontier.criteria import UNINFORMED
from equipoise.frontier.entries import Entry
from equipoise.frontier.report import Picked, ReportSettings, report
from equipoise.frontier.rows import HeldOut
from equipoise.frontier.selection import Selection
from equipoise.frontier.snapshots import Floats, Snapshots
from equipoise.frontier.strand import Strand, strand_of
from equipoise.frontier.wish import Wish, pick
from equipoise.pareto import hypervolume
from equipoise.training import History


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """What training all members left behind.

    Attributes
    ----------
    strands : tuple of Strand
        One for each family of predictors.
    snapshots : Snapshots
        Of all strands, one after the other; so are entries.
    validation_rows : int
    test : HeldOut or None
        None where the frontier was saved without test rows.
    """

    strands: tuple[Strand, ...]
    snapshots: Snapshots
    validation_rows: int
    test: HeldOut | None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Members and averages, as the table has them."""
        return tuple(entry for strand in self.strands for entry in strand.entries)

    @property
    def template(self) -> Classifies | Regresses:
        """What all models share: labels, names of columns; options and encoding of one family."""
        return self.strands[0].template

    def table(self) -> pd.DataFrame:
        """Every snapshot, one a row; see `FairFrontier.table`."""
        return table_of(self.snapshots, self.entries)

    def member_table(self) -> pd.DataFrame:
        """Every member and average, one a row; see `FairFrontier.members`."""
        kept = self.snapshots.entry[self.snapshots.kept]
        return _who(self.entries).assign(
            snapshots_on_front=np.bincount(kept, minlength=len(self.entries)),
            health=[
                strand.health_in_words(entry) for strand in self.strands for entry in strand.entries
            ],
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
        check_number("most_unfairness", most_unfairness, "must be positive", lambda most: most > 0)
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
            predictor=entry.predictor,
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
            strand, entry = self.owner(number)
            scores = strand.test_scores(number, entry, self.snapshots.weights[number])
            if scores is None:
                return None
            found.append(scores)
        return np.stack(found)

    def model(self, number: int) -> Classifies | Regresses:
        """Build the fitted estimator of one kept snapshot."""
        strand, entry = self.owner(number)
        iteration = int(self.snapshots.iteration[number])
        return strand.model(number, entry, iteration, self.snapshots.weights[number])

    def owner(self, number: int) -> tuple[Strand, Entry]:
        """Whose snapshot it is."""
        place = int(self.snapshots.entry[number])
        return strand_of(self.strands, place), self.entries[place]


def history_of(curve: Curve) -> History | dict[str, History]:
    """Return the history of all members; by family where there are two, whose iterations differ."""
    if len(curve.strands) == 1:
        return curve.strands[0].history
    return {strand.predictor: strand.history for strand in curve.strands}


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
