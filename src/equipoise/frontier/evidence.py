"""What is known of a kept snapshot beyond the validation rows: its health, its test scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from equipoise.frontier.entries import Entry
from equipoise.frontier.judging import scores_of
from equipoise.frontier.snapshots import Floats
from equipoise.training import Health, History, Member, Predictor, TrainingData
from equipoise.training.engine import judge_health


class Evidence(Protocol):
    """Answers about kept snapshots."""

    def health(self, number: int, entry: Entry, predictor: Predictor, history: History) -> Health:
        """How training had gone when the snapshot was taken."""
        ...

    def test_scores(self, number: int, predictor: Predictor) -> Floats | None:
        """Scores (n, s) on the test rows; None where there are no test rows any more."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class FromRows:
    """Computed from the rows, right after training.

    Attributes
    ----------
    seen : TrainingData
        Training rows by which health is judged.
    given_outcome : bool
        Whether the notion conditions on the outcome.
    has_critic : bool
        Whether the method's penalty is what a critic can tell.
    test : Tensor of float64, shape (n, p)
        Encoded features of the test rows.
    center, scale : float
        A continuous outcome is trained on as (y - center) / scale.
    """

    seen: TrainingData
    given_outcome: bool
    has_critic: bool
    test: Tensor
    center: float
    scale: float

    def health(self, number: int, entry: Entry, predictor: Predictor, history: History) -> Health:
        """Judge by the training rows."""
        (found,) = judge_health(
            predictor,
            self.seen,
            [Member(entry.strength, entry.seeds[0])],
            history,
            given_outcome=self.given_outcome,
            has_critic=self.has_critic,
        )
        return found

    def test_scores(self, number: int, predictor: Predictor) -> Floats:
        """Evaluate the predictor, which is one model: a member, or an average."""
        only = [Entry(0.0, (0,), (0,))]
        scores = scores_of(predictor, self.test, only, center=self.center, scale=self.scale)
        found: Floats = scores[0].cpu().numpy()
        return found


@dataclass(frozen=True, eq=False)
class FromFile:
    """Found before the frontier was saved; scores is None where it was saved without test rows."""

    healths: Mapping[int, Health]
    scores: Mapping[int, Floats] | None

    def health(self, number: int, entry: Entry, predictor: Predictor, history: History) -> Health:
        """Look it up."""
        return self.healths[number]

    def test_scores(self, number: int, predictor: Predictor) -> Floats | None:
        """Look them up."""
        return None if self.scores is None else self.scores[number]
