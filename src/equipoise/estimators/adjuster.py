"""FairAdjuster: adjusts the scores of any model, with a small network on the score and A."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils import ClassifierTags, RegressorTags, Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from equipoise.errors import InputError, check_choice, check_flag, refuse_unread
from equipoise.estimators.base import Classifies, Regresses
from equipoise.estimators.fitting import Outcome, Rows
from equipoise.estimators.network import NetworkEstimator, add_classes, add_number
from equipoise.estimators.scores import (
    PREFIT,
    AveragedModel,
    check_model,
    check_probe,
    out_of_fold,
    probe_of,
    score_names,
    scores_of,
)
from equipoise.networks import Embedding
from equipoise.predictors.network import NetworkRecipe
from equipoise.storage import Contents
from equipoise.storage.onnx import Graph
from equipoise.tables import SensitiveTable
from equipoise.tables.encoders import read_features


def _classifies(adjuster: FairAdjuster) -> bool:
    return not adjuster.regresses


@dataclass(kw_only=True, eq=False, repr=False)
class FairAdjuster(Classifies, Regresses, NetworkEstimator):
    """Adjusts the scores of any model, so that they depend little on the sensitive features.

    A small network reads the score of the model, how it ranks among people alike in the sensitive
    features, and these features, and is trained as :class:`FairClassifier` or
    :class:`FairRegressor` is. Ranks are learned first; under separation there are none. So it needs
    the sensitive features to predict, too: ``predict(X, sensitive_features=A)``. It is a classifier
    or a regressor as the model is. Measure how much dependence remains: training promises nothing.

    Parameters
    ----------
    estimator : classifier or regressor of scikit-learn's kind, optional
        The model: a pipeline, XGBoost, CatBoost, ... The scores are logits of ``predict_proba``,
        else ``decision_function``; for a regressor ``predict``. None: X holds the scores, one
        column, or for three or more classes one for each, in the order of the sorted labels.
    task : "classification" or "regression"
        What Y is if X holds the scores; else as the estimator.
    cv : int, splitter or "prefit"
        The network is trained on out-of-fold scores, from models that did not see the row, of this
        many folds, which keep the ``groups`` of :meth:`FairFrontier.fit` whole; a splitter gets
        these groups. "prefit" takes an estimator as it is; fit the adjuster on rows that it has not
        seen.
    ensemble : bool
        Whether new rows get the average of the models of all folds, whose scores are spread over
        the groups as those the network is trained on. False: the score of one more model, fitted to
        all rows, which predicts ``cv`` times as fast; adjusted scores are then less fair.
    increasing : bool
        Whether the adjusted score increases with the score for each value of the sensitive
        features: nobody is overtaken by somebody alike with a lower score. Of three or more
        classes, each logit increases with the score of its own class.
    hidden, embedding, critic_hidden, weight_decay, batch_size, early_stopping
        As for :class:`FairClassifier`, with other defaults; with ``increasing`` the layers of the
        network on the sensitive features.
    notion, strength, method, divergence, density_ratio, scaling, normalization, critic_steps
    critic_normalization, gradient_penalty, optimizer, learning_rate, critic_learning_rate
    momentum, schedule, iterations, epochs, sensitive_types, missing_sensitive, random_state, device
    n_jobs, verbose
        All as for :class:`FairClassifier`.

    Attributes
    ----------
    estimator_ : the model that scores new rows, with ``ensemble`` an :class:`AveragedModel`; not
        with ``estimator=None``.
    classes_ : the labels, for classification.
    health_, history_, sensitive_, encoder_, predictor_ : as for :class:`FairClassifier`.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from equipoise import FairAdjuster, load_dataset
    >>> data = load_dataset("synthetic")
    >>> model = FairAdjuster(LogisticRegression(), strength=0.9, iterations=100, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.A)
    >>> model.predict_proba(data.X, sensitive_features=data.A).shape == (len(data.X), 2)
    True
    """

    #: The network always sees A; so this is no option here.
    sensitive_at_prediction: ClassVar[bool] = True  # type: ignore[misc]

    estimator: Any = field(default=None, kw_only=False)
    task: Literal["classification", "regression"] = "classification"
    cv: Any = 10
    ensemble: bool = True
    increasing: bool = False
    hidden: tuple[int, ...] = (32, 32)
    critic_hidden: tuple[int, ...] = (32, 32)
    embedding: Embedding = "none"
    # Two or three inputs leave little to overfit, so a single network trains on all rows.
    weight_decay: float = 1.0
    batch_size: int | Literal["auto"] = 300
    early_stopping: int | None = None

    @property
    def regresses(self) -> bool:
        """Whether it predicts a continuous outcome."""
        if self.estimator is None:
            return self.task == "regression"
        return bool(is_regressor(self.estimator))

    @property
    def adjusts(self) -> str:
        """What a fitted adjuster adjusts, in words."""
        if self.estimator is None:
            return "the given score"
        model = self.estimator_
        if isinstance(model, AveragedModel):
            models = model.estimators
            return f"the mean score of {len(models)} models, each {type(models[0]).__name__}"
        return f"the score of {type(model).__name__}"

    def predict(self, X: Any, *, sensitive_features: Any = None) -> NDArray[Any]:
        """Return the most probable class, or the predicted outcome, of each row, (n,)."""
        return self._kind.predict(self, X, sensitive_features=sensitive_features)

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Return class probabilities, (n, classes), columns in the order of ``classes_``."""
        return super().predict_proba(X, sensitive_features=sensitive_features)

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Return log odds of the second class, (n,), or one logit per class, (n, classes)."""
        return super().decision_function(X, sensitive_features=sensitive_features)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None
    ) -> float:
        """Return the accuracy of a classifier, or R2 of a regressor."""
        return self._kind.score(self, X, y, sample_weight, sensitive_features=sensitive_features)

    def to_onnx(self, path: str | PathLike[str]) -> None:
        """Write the network as an ONNX file, as `FairClassifier.to_onnx` does.

        The file does not hold the model. Its inputs are the scores of the model (logits of
        probabilities, ``decision_function`` or predictions), called ``model_score`` or, with three
        or more classes, ``model_score_CLASS``; for plain scores the columns of X; and the sensitive
        features.

        Parameters
        ----------
        path : path of a file that ends in ``.onnx``
            An older file that equipoise wrote is replaced, and nothing else ever.
        """
        check_is_fitted(self)
        NetworkEstimator.to_onnx(self._to_save()[0], path)

    @property
    def _kind(self) -> type[Classifies] | type[Regresses]:
        return Regresses if self.regresses else Classifies

    def _read_outcome(self, y: Any, weights: NDArray[np.float64] | None) -> Outcome:
        return self._kind._read_outcome(self, y, weights)

    def _keep_outcome(self, outcome: Outcome) -> None:
        self._kind._keep_outcome(self, outcome)

    def _add_answers(self, graph: Graph, output: str) -> None:
        if self.regresses:
            add_number(graph, output, self.center_, self.scale_)
        else:
            add_classes(graph, output, self.classes_)

    def _recipe(self) -> NetworkRecipe:
        check_choice("task", self.task, ("classification", "regression"))
        if self.estimator is not None:
            check_model(self.estimator, self.cv)
            if self.task == "regression" and not self.regresses:
                refuse_unread("task", self.task, "a classifier", "pass a regressor as estimator")
        increasing = check_flag("increasing", self.increasing)
        if not check_flag("ensemble", self.ensemble):
            if self.estimator is None:
                refuse_unread("ensemble", False, "estimator=None", "pass a model as estimator")
            if isinstance(self.cv, str):
                refuse_unread("ensemble", False, "cv='prefit'", "pass a number of folds as cv")
        if increasing and self.normalization != "none":
            raise InputError(
                "normalization must be 'none' for increasing=True, got "
                f"{self.normalization!r}; leave it out"
            )
        recipe = super()._recipe()
        recipe.need_penalty_on_score("adjusters")
        return replace(recipe, increasing=increasing, adjusts=True)

    def _evaluate(
        self, X: Any, sensitive_features: Any = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        check_is_fitted(self)
        if self.estimator is None and hasattr(self, "probe_"):
            names = list(self.feature_names_in_)
            given = [column.name for column in read_features(X)]
            if len(given) != len(names) or not {*given} & {*names, "x0"}:
                raise InputError(
                    "X must hold the scores of the model, as this adjuster was loaded without it: "
                    f"{', '.join(names)}, got {', '.join(given[:5])}; pass the scores, or "
                    "load(path, estimator=model)"
                )
        return super()._evaluate(X, sensitive_features)

    def _read_sensitive(
        self, sensitive_features: Any, n: int, weights: NDArray[np.float64] | None
    ) -> SensitiveTable | None:
        if sensitive_features is None:
            raise InputError(
                "sensitive_features is required at any strength for FairAdjuster, whose network "
                "sees them, got None: call fit(X, y, sensitive_features=A)"
            )
        return super()._read_sensitive(sensitive_features, n, weights)

    def _features_to_learn(self, rows: Rows) -> Any:
        """Return the scores of training rows, as a table; fit the model that gives them."""
        if self.estimator is None:
            scores = self._features(rows.X)
            self._refuse_constant(np.column_stack([c.as_numbers() for c in read_features(scores)]))
            return scores
        classes = self._labels
        scores, self.estimator_ = out_of_fold(self.estimator, self.cv, self.ensemble, rows, classes)
        self._refuse_constant(scores)
        self.probe_ = probe_of(self.estimator_, rows.X, classes, self._columns)
        return pd.DataFrame(scores, columns=score_names(classes))

    def _features(self, X: Any) -> Any:
        """Return the scores of rows X, as a table."""
        if self.estimator is not None:
            classes = self._labels
            scores = scores_of(self.estimator_, X, classes)
            return pd.DataFrame(scores, columns=score_names(classes))
        columns = read_features(X)
        wanted = len(score_names(self._labels))
        if len(columns) != wanted:
            raise InputError(
                f"X must be the score, {wanted} column{'s' * (wanted > 1)} for this y, got "
                f"{len(columns)} columns; pass these columns only, or a model as estimator"
            )
        for column in columns:
            rule = f"X column {column.name!r} must hold scores, finite numbers in every row, got"
            if missing := int(column.missing.sum()):
                # No row numbers: these may be some of the rows that a user has.
                raise InputError(
                    f"{rule} a missing value in {missing} of {len(column.missing)} rows; leave out "
                    "such rows"
                )
            if column.family != "number":
                raise InputError(f"{rule} {column.family}; convert it, or choose another column")
        return X

    @property
    def _labels(self) -> NDArray[Any] | None:
        return None if self.regresses else self.classes_

    def _refuse_constant(self, scores: NDArray[np.float64]) -> None:
        """Refuse a column of training scores (n, s) that has one value only."""
        constant = (scores == scores[0]).all(axis=0)
        if constant.any():
            place = int(constant.argmax())
            argument, remedy = "X", "choose another column"
            if self.estimator is not None:
                argument, remedy = "estimator", "check that the model learns from X"
            raise InputError(
                f"{argument} must give scores that differ between rows, got {scores[0, place]:.6g} "
                f"in every row; {remedy}"
            )

    def _to_save(self) -> tuple[Self, Contents | None]:
        """Return the adjuster of plain scores, and what recognizes the model."""
        saved = copy.copy(self)
        saved.task = "regression" if self.regresses else "classification"
        saved.estimator, saved.cv, saved.ensemble = None, type(self).cv, True
        probe: Contents | None = getattr(self, "probe_", None)
        if probe is not None:
            saved._set_columns(list(self.encoder_.state().families))
        return saved, probe

    def take_model(self, estimator: Any) -> None:
        """Adjust the scores of this fitted model from now on, if it is that of the fit."""
        check_model(estimator, PREFIT)
        check_probe(self.probe_, estimator, self._labels)
        self.estimator, self.cv, self.ensemble = estimator, PREFIT, True
        self.estimator_ = estimator
        self._set_columns(self.probe_.document["columns"], self.probe_.document["count"])

    @property
    def _columns(self) -> list[str] | None:
        """Names of the columns of X; None if it has none."""
        named = getattr(self, "feature_names_in_", None)
        return None if named is None else list(named)

    def _set_columns(self, names: list[str] | None, count: int = 0) -> None:
        self.n_features_in_ = len(names) if names else count
        if hasattr(self, "feature_names_in_"):
            delattr(self, "feature_names_in_")
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)

    def __sklearn_clone__(self) -> Self:
        # A model that was fitted before stays as it is.
        copied: Self = super().__sklearn_clone__()
        if isinstance(self.cv, str) and self.cv == PREFIT:
            copied.estimator = self.estimator
        return copied

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor" if self.regresses else "classifier"
        tags.regressor_tags = RegressorTags() if self.regresses else None
        tags.classifier_tags = None if self.regresses else ClassifierTags()
        model = self.estimator
        tags.input_tags.allow_nan = model is not None and get_tags(model).input_tags.allow_nan
        return tags
