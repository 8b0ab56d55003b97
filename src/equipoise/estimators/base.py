"""What all estimators share: options, fitting, saving and predicting."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import (
    ConvergenceWarning,
    InputError,
    check_choice,
    check_number,
    check_whole,
)
from equipoise.estimators.fitting import (
    FitRun,
    Fits,
    Fitting,
    Outcome,
    Rows,
    checked_features,
    new_inputs,
    read_classes,
    read_numbers,
    read_rows,
    read_seed,
    train_model,
)
from equipoise.estimators.saving import contents_of
from equipoise.networks import Normalization
from equipoise.predictors import Recipe
from equipoise.storage import Contents, write_model_file
from equipoise.tables import Encoder, Kind, LearnedInput, SensitiveTable, check_aligned
from equipoise.tables.sensitive_table import check_types
from equipoise.training import (
    Health,
    History,
    Member,
    OptimizerSettings,
    Predictor,
    TrainingSettings,
)


@dataclass(kw_only=True, eq=False, repr=False)
class Options:
    """Options that all estimators have, with the same defaults."""

    notion: str = "independence"
    strength: float = 0.5
    method: str = "sbp"
    divergence: str = "js"
    density_ratio: RatioKind = "auto"
    critic_normalization: Normalization = "none"
    gradient_penalty: float = 0.0
    critic_learning_rate: float = 3e-3
    sensitive_types: Mapping[str, Kind] | None = None
    missing_sensitive: Literal["error", "skip"] = "error"
    sensitive_at_prediction: bool = False
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0


class FairEstimator(Options, Fits):
    """Fits and evaluates; subclasses add options and say what Y and the outputs mean."""

    #: Options whose defaults differ between subclasses. A dataclass field here would override them.
    critic_hidden: tuple[int, ...]
    critic_steps: int
    #: Values for subclasses that do not have these options.
    device: str = "cpu"
    loss: str = "squared"
    members: int | Literal["auto"] = 1
    #: ``members="auto"``: how many there are from so many rows on, most rows first.
    _members_by_rows: ClassVar[Sequence[tuple[int, int]]] = ((0, 1),)
    early_stopping: int | None = None

    encoder_: Encoder[Any]
    predictor_: Predictor
    health_: Health
    history_: History
    sensitive_: str
    n_features_in_: int
    #: Seeds of the averaged members; set only on an average that was selected from a frontier.
    averaged_seeds_: tuple[int, ...]
    #: How sensitive features become inputs; set only if the model sees them to predict.
    attribute_inputs_: tuple[LearnedInput, ...]
    #: Their encoder, and the columns that may be missing; set with ``sensitive_at_prediction``.
    attribute_encoder_: Encoder[Any]
    attribute_gaps_: tuple[str, ...]
    #: What recognizes the model whose scores an adjuster adjusts; set on such an adjuster only.
    probe_: Contents

    def _fit(
        self, run: FitRun, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> None:
        # A copy is fitted, without what an earlier fit learned: if it fails, nothing has changed.
        fitted = copy.copy(self)
        for name in vars(self):
            if name.endswith("_") and not name.startswith("_"):
                delattr(fitted, name)
        first = Member(self.strength, read_seed(self.random_state))
        fitting = Fitting(fitted)
        rows = read_rows([fitted], X, y, sensitive_features, sample_weight)
        if not rows.counted.all():
            rows = rows.alone(np.flatnonzero(rows.counted))
        fitting.learn(rows, penalized=first.strength > 0)
        trained = run.carry_out(partial(train_model, first), fitting, self.verbose)
        fitted.predictor_, fitted.history_ = trained.predictor, trained.history
        fitted.health_ = trained.health
        self.__dict__ = fitted.__dict__
        fitting.warn_if_interrupted(trained, run)
        for message in self.health_.messages:
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to one file, for ``equipoise.load``.

        The file holds arrays (safetensors) and JSON, no code. It is written completely or not at
        all, and replaces only a file that holds a model. If the network is your own, pass the same
        function to ``load``. Trees are stored as the text that LightGBM or XGBoost writes.

        Parameters
        ----------
        path : path of a file
            By convention it ends in ``.equipoise``.
        """
        check_is_fitted(self)
        write_model_file(path, contents_of(self))

    @abstractmethod
    def _read_outcome(self, y: Any, weights: NDArray[np.float64] | None) -> Outcome:
        """Check and encode the outcome (n,); all ``weights`` (n,) are positive."""

    def _task(self, outcome: Outcome) -> str:
        """Return the name of the task loss."""
        if outcome.classes is not None:
            return "binary" if outcome.n_outputs == 1 else "multiclass"
        return self.loss

    def _keep_outcome(self, outcome: Outcome) -> None:
        """Store what turns outputs into predictions; an encoder needs nothing."""

    @property
    @abstractmethod
    def family(self) -> str:
        """Name of the family of predictors, a key of `equipoise.predictors.FAMILIES`."""

    @abstractmethod
    def _recipe(self) -> Recipe:
        """Check all options, before any data is read, and return them as a recipe."""

    def _for_rows(self, training: TrainingSettings, n: int, trained_on: int) -> TrainingSettings:
        """Return the settings for n rows, of which each member trains on ``trained_on``."""
        return training

    def _count_members(self, n: int) -> int:
        """Check and return how many members are averaged if there are n rows."""
        if not isinstance(self.members, str):
            return check_whole("members", self.members)
        check_choice("members", self.members, ("auto",), "; or pass a whole number of at least 1")
        return next(count for least, count in self._members_by_rows if n >= least)

    @abstractmethod
    def _new_encoder(self) -> Encoder[Any]:
        """Return an unfitted encoder of the features."""

    def _features_to_learn(self, rows: Rows) -> Any:
        """Return the features of training rows, as the encoder takes them."""
        return rows.X

    def _features(self, X: Any) -> Any:
        """Return the features of new rows X, as the encoder takes them."""
        return X

    def _to_save(self) -> tuple[FairEstimator, Contents | None]:
        """Return the estimator without what no file can hold, and what recognizes that."""
        return self, None

    def _critic(self, **optimizer: Any) -> CriticSettings:
        """Check and return its settings; ``optimizer`` are those of its optimizer but the rate."""
        rate = self.critic_learning_rate
        check_number("critic_learning_rate", rate, "must be positive", lambda rate: rate > 0)
        return CriticSettings(
            divergence=self.divergence,
            hidden=self.critic_hidden,
            steps=self.critic_steps,
            normalization=self.critic_normalization,
            gradient_penalty=self.gradient_penalty,
            optimizer=OptimizerSettings(learning_rate=rate, **optimizer),
        )

    def _scaled_weights(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sample weights (n,) of mean 1, so that they do not change the learning rate."""
        return np.asarray(weights / weights.mean())

    def _read_sensitive(
        self, sensitive_features: Any, n: int, weights: NDArray[np.float64] | None
    ) -> SensitiveTable | None:
        check_choice("missing_sensitive", self.missing_sensitive, ("error", "skip"))
        if sensitive_features is None:
            types = {} if self.sensitive_types is None else self.sensitive_types
            check_types(types, tuple(types) if isinstance(types, Mapping) else ())
            if self.strength > 0:
                raise InputError(
                    "sensitive_features is required unless strength=0: call "
                    "fit(X, y, sensitive_features=A)"
                )
            return None
        return SensitiveTable.from_data(
            sensitive_features,
            types=self.sensitive_types,
            missing=self.missing_sensitive,
            n_rows=n,
            counted=None if weights is None else weights > 0,
        ).warned()

    def _evaluate(
        self, X: Any, sensitive_features: Any = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return outputs (n, o) and penalized values (n, w) for new rows."""
        check_is_fitted(self)
        check_aligned(X=X, sensitive_features=sensitive_features)
        X = checked_features(self, X, reset=False)
        device = self.predictor_.weight.device
        inputs = new_inputs(self, self.encoder_.transform(self._features(X)), sensitive_features)
        x = torch.from_numpy(inputs).to(device).double()
        output, penalized = self.predictor_.evaluate(x)
        return output[0].cpu().numpy(), penalized[0].cpu().numpy()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags


class Classifies(ClassifierMixin, FairEstimator):
    """Predicts classes and their probabilities."""

    #: Only a model that sees the sensitive features needs them to be scored.
    __metadata_request__score: ClassVar = {"sensitive_features": False}

    classes_: NDArray[Any]

    def predict(self, X: Any, *, sensitive_features: Any = None) -> NDArray[Any]:
        """Return the most probable class of each row, (n,).

        Pass ``sensitive_features`` only if the model sees them: with ``sensitive_at_prediction``,
        or a method that needs them.
        """
        score = self.decision_function(X, sensitive_features=sensitive_features)
        chosen = (score > 0).astype(int) if score.ndim == 1 else score.argmax(1)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Return class probabilities, (n, classes), columns in the order of ``classes_``."""
        score = self.decision_function(X, sensitive_features=sensitive_features)
        if score.ndim == 1:
            return np.stack([expit(-score), expit(score)], axis=1)
        return np.asarray(softmax(score, axis=1))

    def decision_function(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Return log odds of the second class, (n,), or one logit per class, (n, classes)."""
        output, _ = self._evaluate(X, sensitive_features)
        return output[:, 0] if len(self.classes_) == 2 else output

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None
    ) -> float:
        """Return the accuracy: the share of rows whose class is predicted correctly."""
        check_aligned(X=X, y=y, sample_weight=sample_weight)
        predicted = self.predict(X, sensitive_features=sensitive_features)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _read_outcome(self, y: Any, weights: NDArray[np.float64] | None) -> Outcome:
        return read_classes(y)

    def _keep_outcome(self, outcome: Outcome) -> None:
        assert outcome.classes is not None
        self.classes_ = outcome.classes


class Regresses(RegressorMixin, FairEstimator):
    """Predicts a continuous outcome."""

    __metadata_request__score: ClassVar = {"sensitive_features": False}

    center_: float
    scale_: float

    def predict(self, X: Any, *, sensitive_features: Any = None) -> NDArray[np.float64]:
        """Return the predicted outcome of each row, (n,).

        Pass ``sensitive_features`` only if the model sees them: with ``sensitive_at_prediction``,
        or a method that needs them.
        """
        output, _ = self._evaluate(X, sensitive_features)
        return output[:, 0] * self.scale_ + self.center_

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None
    ) -> float:
        """Return R2, the share of the outcome's variance that the predictions explain.

        It is R2 for every ``loss``, as for all regressors of scikit-learn.
        """
        check_aligned(X=X, y=y, sample_weight=sample_weight)
        predicted = self.predict(X, sensitive_features=sensitive_features)
        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def _read_outcome(self, y: Any, weights: NDArray[np.float64] | None) -> Outcome:
        return read_numbers(y, weights)

    def _keep_outcome(self, outcome: Outcome) -> None:
        self.center_, self.scale_ = outcome.center, outcome.scale
