"""FairBoostingClassifier and FairBoostingRegressor: boosted trees under the same penalty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError, check_choice, check_whole
from equipoise.estimators.base import Classifies, FairEstimator, Regresses
from equipoise.estimators.fitting import Outcome, read_numbers
from equipoise.notions import Notion
from equipoise.predictors.boosting import LIBRARIES, BoostingRecipe
from equipoise.tables import TreeEncoder
from equipoise.training import TrainingSettings


@dataclass(kw_only=True, eq=False, repr=False)
class BoostingEstimator(FairEstimator):
    """Options of boosted trees; subclasses say what the outputs mean."""

    # An average of many helps most on few rows.
    _members_by_rows = ((5_000, 2), (2_000, 3), (0, 4))

    rounds: int = 200
    learning_rate: float = 0.15
    library: Literal["lightgbm", "xgboost"] = "lightgbm"
    lightgbm: Mapping[str, Any] | None = None
    xgboost: Mapping[str, Any] | None = None
    warmup: int = 10
    early_stopping: int | None = 30
    members: int | Literal["auto"] = "auto"
    critic_hidden: tuple[int, ...] = (32, 32)
    critic_steps: int = 2
    batch_size: int = 2048

    def to_onnx(self, path: str | PathLike[str]) -> NoReturn:
        """Raise an error: boosted trees cannot be exported to ONNX; use ``save``."""
        raise InputError(f"to_onnx cannot write the trees of {type(self).__name__}; use save")

    @property
    def family(self) -> str:
        """Name of the family of predictors, which depends on the library."""
        check_choice("library", self.library, tuple(LIBRARIES))
        return LIBRARIES[self.library].family

    def _new_encoder(self) -> TreeEncoder:
        return TreeEncoder(largest_power=LIBRARIES[self.library].largest_power)

    def _scaled_weights(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        # The libraries' limit on the sum of weights in a leaf is meant for weights near 1. Scaling
        # by a power of two keeps multiples of the smallest weight exact: a row of weight 2 counts
        # as two rows, and equally good splits stay equally good.
        multiples = weights / weights.min()
        return np.asarray(np.ldexp(multiples, -round(np.log2(multiples.mean()))))

    def _recipe(self) -> BoostingRecipe:
        check_choice("library", self.library, tuple(LIBRARIES))
        LIBRARIES[self.library].module(type(self).__name__)
        for name in LIBRARIES:
            if name != self.library and getattr(self, name) is not None:
                raise InputError(
                    f"{name} has no meaning for library={self.library!r}, got "
                    f"{getattr(self, name)!r}; leave it out, or set library={name!r}"
                )
        check_whole("rounds", self.rounds)
        return BoostingRecipe(
            notion=Notion.parse(self.notion),
            method=self.method,
            density_ratio=self.density_ratio,
            # A round costs little more than its passes through the critic, so each is used twice.
            critic=replace(self._critic(), last_pass_shared=True),
            training=TrainingSettings(
                iterations=self.rounds,
                batch_size=self.batch_size,
                check_every=10,
                patience=self.early_stopping,
            ),
            learning_rate=self.learning_rate,
            warmup=self.warmup,
            library=self.library,
            parameters=getattr(self, self.library),
        )


class FairBoostingClassifier(Classifies, BoostingEstimator):
    """Gradient-boosted trees trained so that the score depends little on the sensitive features.

    Like :class:`FairClassifier`, with trees in place of the network: every round follows the
    gradient of (1 - strength) * cross-entropy + strength * penalty. The penalty measures how well a
    critic can tell the sensitive features from the score. LightGBM or XGBoost grows the trees and
    handles missing values and categories in X. Needs ``pip install equipoise[boosting]``, or
    ``equipoise[xgboost]``.

    Parameters
    ----------
    notion : "independence" or "separation"
        As for :class:`FairClassifier`.
    strength : float in [0, 1)
        Weight of the penalty. With 0 the trees are those of the plain library with the same
        parameters. If rows are set aside, the output is then an average of trees and of ridge or
        logistic regression, whose share is chosen on these rows.
    method : str
        A fairness method that penalizes the score.
    divergence, density_ratio
        As for :class:`FairClassifier`.
    rounds : int
        Number of boosting rounds. Each adds one tree, or one per class if there are three or more.
    learning_rate : float
        Factor by which each tree is multiplied.
    library : "lightgbm" or "xgboost"
        The library that grows the trees.
    lightgbm, xgboost : mapping, optional
        Further parameters of the library by its own names, such as ``{"num_leaves": 15}`` of
        LightGBM, or ``{"max_depth": 6}`` of XGBoost. By default trees are smaller and more
        regularized than the library's own: num_leaves 10, min_data_in_leaf 10, lambda_l2 5,
        cat_smooth 20 and cat_l2 20 of LightGBM; max_depth 4 and reg_lambda 5 of XGBoost.
    warmup : int
        Number of rounds over which the strength grows from 0 to its full value.
    early_stopping : int, optional
        Each model sets a part of the rows aside, stops after this many rounds in which
        (1 - strength) * task + strength * penalty did not improve on them, and keeps its best
        rounds. None grows all rounds on all rows, without a linear model.
    members : int or "auto"
        Number of models that are grown; the score is their average. Each sets other rows aside.
        "auto" grows four; three from 2 000 rows on, and two from 5 000 rows on.
    critic_hidden, critic_steps, critic_normalization, gradient_penalty, critic_learning_rate
        The critic, as for :class:`FairClassifier`; critic_steps is per round.
    batch_size : int
        Number of rows on which a round computes the penalty; the task loss uses all rows.
    sensitive_types, missing_sensitive, sensitive_at_prediction, random_state, n_jobs, verbose
        As for :class:`FairClassifier`.

    Attributes
    ----------
    classes_ : the labels.
    health_, history_, sensitive_ : as for :class:`FairClassifier`.
    encoder_, predictor_ : the fitted feature encoding and trees.

    Examples
    --------
    >>> from equipoise import FairBoostingClassifier, load_dataset
    >>> data = load_dataset("synthetic")
    >>> model = FairBoostingClassifier(strength=0.9, rounds=20, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.A)
    >>> model.predict_proba(data.X).shape == (len(data.X), 2)
    True
    """


@dataclass(kw_only=True, eq=False, repr=False)
class FairBoostingRegressor(Regresses, BoostingEstimator):
    """Gradient-boosted trees for a continuous outcome, under the same penalty.

    Like :class:`FairBoostingClassifier`. The trees learn the outcome in its own units. The penalty
    is weighed as if the outcome had unit variance, so ``strength`` means the same in any units. An
    outcome that single precision cannot hold is centered and scaled first.

    Parameters
    ----------
    loss : "squared", "absolute" or "huber"
        Task loss: squared error, absolute error, or Huber's loss with its threshold at one standard
        deviation of Y. For the absolute error both libraries set leaves to medians at strength 0;
        a penalized model has no such step. XGBoost has no Huber loss of its own: its trees follow
        the gradient at any strength. Utility is measured as for :class:`FairRegressor`.
    notion, strength, method, divergence, density_ratio, rounds, learning_rate, library, lightgbm
    xgboost, warmup, early_stopping, members, critic_hidden, critic_steps, critic_normalization
    gradient_penalty, critic_learning_rate, batch_size, sensitive_types, missing_sensitive
    sensitive_at_prediction, random_state, n_jobs, verbose
        All as for :class:`FairBoostingClassifier`.

    Examples
    --------
    >>> from equipoise import FairBoostingRegressor, load_dataset
    >>> data = load_dataset("crime")
    >>> model = FairBoostingRegressor(strength=0.5, rounds=20, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.A)
    >>> model.predict(data.X).shape == (len(data.X),)
    True
    """

    loss: Literal["squared", "absolute", "huber"] = "squared"

    def _read_outcome(self, y: Any, weights: NDArray[np.float64] | None) -> Outcome:
        return read_numbers(y, weights, own_units=True)
