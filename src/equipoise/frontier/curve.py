"""A trained frontier: what every snapshot did, and models made from the ones that were kept."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from equipoise.estimators import Classifies, Regresses
from equipoise.frontier.rows import HeldOut, Split
from equipoise.frontier.selection import (
    ReportSettings,
    Selection,
    SelectionRow,
    Wish,
    estimates,
    pick,
)
from equipoise.frontier.snapshots import Entry, Floats, Snapshots, Weights
from equipoise.inference import Estimate
from equipoise.networks import select_members
from equipoise.networks.stack import member_tensors
from equipoise.training import Health, History, Predictor
from equipoise.training.health import Failure
from equipoise.training.predictor import AveragedPredictor


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
    def history(self) -> History | dict[str, History]:
        """The history of all members; by estimator where there are several."""
        found = {strand.predictor: strand.history for strand in self.strands}
        return found if len(found) > 1 else self.strands[0].history

    @property
    def template(self) -> Classifies | Regresses:
        """What all models share: labels, names of columns; options and encoding of the first."""
        return self.strands[0].template

    def member_table(self) -> pd.DataFrame:
        """Every member and average, one a row; see `FairFrontier.members`."""
        kept = self.snapshots.entry[self.snapshots.kept]
        return _who(self.entries).assign(
            snapshots_on_front=np.bincount(kept, minlength=len(self.entries)),
            health=[
                strand.health_in_words(entry) for strand in self.strands for entry in strand.entries
            ],
        )

    def select(self, wish: Wish, settings: ReportSettings) -> Selection:
        """Pick on what is known from validation rows; only then look at the test rows."""
        snapshots = self.snapshots
        number = pick(snapshots, self.entries, wish)
        entry = self.entries[snapshots.entry[number]]
        utility = snapshots.criteria.utility
        (rows,) = self.reports([number], settings, wish)
        return Selection(
            model=self.model(number),
            snapshot=number,
            origin=entry.describe(int(snapshots.iteration[number])),
            strength=entry.strength,
            seed=entry.seed,
            predictor=entry.predictor,
            averaged=len(entry.members),
            iteration=int(snapshots.iteration[number]),
            threshold=self.threshold(number),
            wish=wish.describe(utility),
            aim=wish.aim(utility),
            metric=wish.metric,
            attributes=tuple(wish.limits),
            candidates=settings.candidates,
            picked_among=len(snapshots.weights),
            level=settings.level,
            validation_rows=len(self.split.validation),
            test_rows=0 if self.test is None else len(self.test),
            rows=rows,
        )

    def reports(
        self, numbers: Sequence[int], settings: ReportSettings, wish: Wish | None = None
    ) -> list[tuple[SelectionRow, ...]]:
        """What ``select`` reports of each kept snapshot: validation rows beside test rows."""
        criteria, scores = self.snapshots.criteria, self.test_scores(numbers)
        found = [(Estimate(),) * (1 + len(criteria.measures))] * len(numbers)
        if scores is not None and self.test is not None:
            thresholds = [self.threshold(number) for number in numbers]
            found = estimates(scores, self.test, criteria, thresholds, settings)
        named = [(criteria.utility, ""), *criteria.measures]
        limits = {} if wish is None else wish.by_measure(criteria.utility)
        return [
            tuple(
                SelectionRow(*name, limits.get(name, math.nan), float(value), estimate)
                for name, value, estimate in zip(
                    named,
                    [self.snapshots.utility[number], *self.snapshots.unfairness[number]],
                    each,
                    strict=True,
                )
            )
            for number, each in zip(numbers, found, strict=True)
        ]

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
