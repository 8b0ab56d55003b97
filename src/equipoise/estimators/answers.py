"""What the outputs of a fitted model mean: classes and their chances, or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin

from equipoise.errors import check_choice
from equipoise.estimators.base import FairEstimator
from equipoise.estimators.inputs import Outcome, read_classes, read_numbers
from equipoise.tables import check_aligned

REGRESSION_LOSSES = ("absolute", "squared", "huber")


class Classifies(ClassifierMixin, FairEstimator):
    """Labels in, probabilities out."""

    classes_: NDArray[Any]

    def predict(self, X: Any, *, sensitive_features: Any = None) -> NDArray[Any]:
        """Return the most probable class of each row, (n,).

        ``sensitive_features`` are for methods that need them to predict, here and below.
        """
        score = self.decision_function(X, sensitive_features=sensitive_features)
        chosen = (score > 0).astype(int) if score.ndim == 1 else score.argmax(1)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Return class probabilities, (n, classes), columns in the order of ``classes_``."""
        score = self.decision_function(X, sensitive_features=sensitive_features)
        if score.ndim == 1:
            return np.stack([expit(-score), expit(score)], axis=1)
        probabilities: NDArray[np.float64] = softmax(score, axis=1)
        return probabilities

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Return log odds of the second class, (n,), or one logit per class, (n, classes)."""
        output, _ = self._evaluate(X, sensitive_features)
        return output[:, 0] if len(self.classes_) == 2 else output

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted rightly."""
        check_aligned(X=X, y=y, sample_weight=sample_weight)
        return float(super().score(X, y, sample_weight))

    def _read_outcome(self, y: Any, weights: NDArray[np.float64] | None) -> Outcome:
        return read_classes(y)

    def _task(self, outcome: Outcome) -> str:
        return "binary" if outcome.n_outputs == 1 else "multiclass"

    def _keep_outcome(self, outcome: Outcome) -> None:
        assert outcome.classes is not None
        self.classes_ = outcome.classes


class Regresses(RegressorMixin, FairEstimator):
    """Numbers in, numbers out."""

    loss: str
    center_: float
    scale_: float

    def predict(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Return the predicted outcome of each row, (n,).

        ``sensitive_features`` are for methods that need them to predict.
        """
        output, _ = self._evaluate(X, sensitive_features)
        return output[:, 0] * self.scale_ + self.center_

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R2, the share of the outcome's variance that predictions explain."""
        check_aligned(X=X, y=y, sample_weight=sample_weight)
        return float(super().score(X, y, sample_weight))

    def _read_outcome(self, y: Any, weights: NDArray[np.float64] | None) -> Outcome:
        return read_numbers(y, weights)

    def _task(self, outcome: Outcome) -> str:
        return regression_task(self.loss)

    def _keep_outcome(self, outcome: Outcome) -> None:
        self.center_, self.scale_ = outcome.center, outcome.scale


def regression_task(loss: str) -> str:
    """Check the name of a regression loss."""
    check_choice("loss", loss, REGRESSION_LOSSES)
    return loss
