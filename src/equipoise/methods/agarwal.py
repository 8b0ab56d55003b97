"""Reductions: fair classification as a sequence of weighted plain ones, found by fairlearn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from equipoise.errors import InputError, needs
from equipoise.methods.declaration import Capabilities, Context, Declaration
from equipoise.networks import StackedVote
from equipoise.notions import Notion
from equipoise.training import TASKS, Predictor
from equipoise.training.data import RowSet, row_numbers

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: A vote of T linear classifiers: weights (T, p), constants (T,) and shares of the vote (T,).
Vote = tuple[Floats, Floats, Floats]


def vote_of(classifiers: Sequence[Any], shares: Sequence[float]) -> Vote:
    """Return the vote of fitted scikit-learn classifiers; those without a share are left out."""
    used = [pair for pair in zip(classifiers, shares, strict=True) if pair[1] > 0]
    weights, biases = zip(*(_linear(classifier) for classifier, _ in used), strict=True)
    share = np.array([share for _, share in used])
    return np.stack(weights), np.array(biases), share / share.sum()


def _linear(classifier: Any) -> tuple[Floats, float]:
    """Return weights (p,) and constant of a linear classifier.

    If one decision is right for all reweighted rows, fairlearn uses a constant classifier. Its
    weights are zero here, and the sign of its constant decides.
    """
    if isinstance(classifier, DummyClassifier):
        return np.zeros(classifier.n_features_in_), 1.0 if classifier.constant == 1 else -1.0
    return classifier.coef_[0], float(classifier.intercept_[0])


def base_learner() -> LogisticRegression:
    """Return the plain classifier that the reduction fits repeatedly."""
    return LogisticRegression(C=1e4, max_iter=1000)


def solve(context: Context) -> Predictor:
    """Agarwal et al. 2018: the best vote of linear classifiers with a bound on decision rates.

    The bound is on the distance between a group's rate of positive decisions and that of all rows,
    within each class of Y under separation. It is (1 - strength) times the distance for plain
    logistic regression, which is the model at strength 0.
    """
    data, members = context.data, context.members
    if data.attribute_cell is None:
        raise InputError(
            "method='agarwal' needs discrete sensitive features at any strength, got none; call "
            "fit(X, y, sensitive_features=A)"
        )
    with needs("fairlearn", user="method='agarwal'", extra="fairlearn"):
        from fairlearn import reductions
    found: dict[tuple[RowSet | None, float], Vote] = {}
    for rows, strength in dict.fromkeys((member.rows, member.strength) for member in members):
        parts = data.x.double(), data.target.long(), data.attribute_cell
        x, y, cell = (part.cpu()[row_numbers(rows, len(data))].numpy() for part in parts)
        found[rows, strength] = fit_vote(reductions, x, y, cell, strength, context.notion)
    votes = [found[member.rows, member.strength] for member in members]
    return Predictor(_stacked(votes), TASKS[context.task]).to(data.x.device).eval()


def fit_vote(
    reductions: ModuleType, x: Floats, y: Integers, cell: Integers, strength: float, notion: Notion
) -> Vote:
    """Fit the vote on rows x (n, p), classes y (n,) and groups (n,)."""
    plain = base_learner().fit(x, y)
    if strength == 0:
        return vote_of([plain], [1.0])
    bound = (1 - strength) * largest_distance(plain.predict(x), y, cell, notion)
    kind = "EqualizedOdds" if notion.conditions_on_outcome else "DemographicParity"
    # A bound of 0 can hardly be met, and the reduction would not end.
    bound = max(bound, 1e-4)
    constraint = getattr(reductions, kind)(difference_bound=bound)
    reduction = reductions.ExponentiatedGradient(base_learner(), constraint, eps=bound)
    with warnings.catch_warnings():
        # fairlearn uses features that pandas deprecates; our users cannot change that.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="fairlearn")
        reduction.fit(x, y, sensitive_features=cell)
    return vote_of(reduction.predictors_, reduction.weights_)


def largest_distance(decision: Integers, y: Integers, cell: Integers, notion: Notion) -> float:
    """Largest distance between a group's rate of positive decisions and that of its stratum.

    A stratum is a class of y under separation, and all rows under independence.
    """
    stratum = y if notion.conditions_on_outcome else np.zeros_like(y)
    distances = [
        abs(decision[(stratum == s) & (cell == c)].mean() - decision[stratum == s].mean())
        for s, c in {*zip(stratum.tolist(), cell.tolist(), strict=True)}
    ]
    return float(max(distances))


def _stacked(votes: Sequence[Vote]) -> StackedVote:
    """Stack votes with different numbers of classifiers; padded classifiers have share 0."""
    most = max(len(share) for _, _, share in votes)

    def padded(values: Floats) -> Floats:
        return np.pad(values, [(0, most - len(values))] + [(0, 0)] * (values.ndim - 1))

    parts = zip(*votes, strict=True)
    return StackedVote(*(np.stack([padded(each) for each in part]) for part in parts))


DECLARATION = Declaration(
    name="agarwal",
    title="Reductions",
    reference="Agarwal, Beygelzimer, Dudik, Langford and Wallach (2018), A reductions approach to "
    "fair classification, ICML",
    summary="A vote of logistic regressions, found by fairlearn's exponentiated gradient, whose "
    "rates of positive decisions differ between groups by no more than a bound.",
    capabilities=Capabilities(
        neural=False,
        continuous=False,
        mixed=False,
        many_classes=False,
        numbers=False,
        representation=False,
        sample_weight=False,
        unknown=False,
        controls="decisions",
    ),
    solve=solve,
)
