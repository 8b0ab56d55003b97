"""A strand of a frontier: the members of one family, trained together in one run."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.estimators import Classifies, Regresses
from equipoise.frontier.entries import Entry
from equipoise.frontier.evidence import Evidence
from equipoise.frontier.snapshots import Floats, Weights
from equipoise.networks import select_members
from equipoise.networks.members import member_tensors
from equipoise.training import Health, History, Predictor
from equipoise.training.averaged import AveragedPredictor


@dataclass(frozen=True, eq=False, kw_only=True)
class Strand:
    """What training the members of one family left behind.

    Attributes
    ----------
    predictor : str
        The family: "network" or "boosting".
    entries : tuple of Entry
        Its members and their averages.
    prototype : Predictor
        A stack of one member, to be given the weights of a snapshot.
    history : History
        Of all its members.
    member_health : tuple of Health
        Of all its members after the last iteration.
    template : estimator
        Options, feature encoding, labels and names of columns that all its models share.
    evidence : Evidence
    """

    predictor: str
    entries: tuple[Entry, ...]
    prototype: Predictor
    history: History
    member_health: tuple[Health, ...]
    template: Classifies | Regresses
    evidence: Evidence

    def filled(self, entry: Entry, weights: Weights) -> Predictor:
        """Build the network of one snapshot of an entry, or the average of its networks."""
        stack = select_members(self.prototype, [0] * len(entry.members))
        assert isinstance(stack, Predictor)
        with torch.no_grad():
            for name, tensor in member_tensors(stack):
                tensor.copy_(weights[name])
        return AveragedPredictor(stack.network, stack.task).eval() if entry.is_average else stack

    def model(
        self, number: int, entry: Entry, iteration: int, weights: Weights
    ) -> Classifies | Regresses:
        """Build the fitted estimator of one snapshot of an entry."""
        predictor = self.filled(entry, weights)
        history = self._history_until(entry, iteration)
        model = copy.copy(self.template)
        model.set_params(strength=entry.strength, random_state=entry.seeds[0])
        model.health_ = self.evidence.health(number, entry, predictor, history)
        model.predictor_ = predictor.settled()
        model.history_ = history
        if entry.is_average:
            model.averaged_seeds_ = entry.seeds
        return model

    def test_scores(self, number: int, entry: Entry, weights: Weights) -> Floats | None:
        """Scores (n, s) of one snapshot on the test rows; None where there are none."""
        return self.evidence.test_scores(number, self.filled(entry, weights).settled())

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


def strand_of(strands: Iterable[Strand], entry: int) -> Strand:
    """Return the strand that an entry, counted over all strands, belongs to."""
    for strand in strands:
        if entry < len(strand.entries):
            return strand
        entry -= len(strand.entries)
    raise IndexError("no strand has this entry")
