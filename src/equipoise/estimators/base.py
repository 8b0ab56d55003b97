"""What the estimators share: options, fit, and evaluation of the fitted network."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.validation import check_is_fitted

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import ConvergenceWarning, InputError
from equipoise.estimators.attributes import learn_inputs, learned_inputs, new_inputs
from equipoise.estimators.contents import contents_of
from equipoise.estimators.inputs import (
    Outcome,
    checked_features,
    checked_outcome,
    read_device,
    read_seed,
    row_weights,
    training_data,
)
from equipoise.estimators.paper_settings import PAPER_CLASSIFIER
from equipoise.estimators.run_options import RunOptions, warn_if_interrupted
from equipoise.features import FeatureEncoder, Scaling
from equipoise.networks import Embedding, Normalization
from equipoise.notions import Notion
from equipoise.onnx_export import Graph, onnx_bytes
from equipoise.recipe import NetworkFactory, Recipe
from equipoise.sensitive import Kind, SensitiveTable
from equipoise.sensitive.inputs import Learned
from equipoise.storage import checked_target, write_atomically, write_model_file
from equipoise.training import (
    Callback,
    Health,
    History,
    Member,
    OptimizerSettings,
    Predictor,
    Trained,
    TrainingSettings,
)
from equipoise.training.progress_bar import progress_shown


class FairEstimator(BaseEstimator, ABC):
    """Options and fit; subclasses say what Y is and what a fitted network's outputs mean."""

    #: Widths of an encoder that carries the penalty; empty where the score does.
    encoder_hidden: tuple[int, ...] = ()

    _paper_settings: ClassVar[Mapping[str, Any]] = PAPER_CLASSIFIER

    encoder_: FeatureEncoder
    predictor_: Predictor
    health_: Health
    history_: History
    sensitive_: str
    n_features_in_: int
    #: Seeds of the members whose scores are averaged; only an average that was selected on a
    #: frontier has it.
    averaged_seeds_: tuple[int, ...]
    #: How sensitive features become inputs; only methods that need them to predict have it.
    attribute_inputs_: tuple[Learned, ...]

    def __init__(
        self,
        *,
        notion: str = "independence",
        strength: float = 0.5,
        method: str = "sbp",
        divergence: str = "js",
        density_ratio: RatioKind = "auto",
        hidden: tuple[int, ...] = (64, 64, 64),
        network: NetworkFactory | None = None,
        scaling: Scaling = "rank",
        embedding: Embedding = "pieces",
        normalization: Literal["batch", "none"] = "none",
        critic_hidden: tuple[int, ...] = (64, 64),
        critic_steps: int = 1,
        critic_normalization: Normalization = "none",
        gradient_penalty: float = 0.0,
        optimizer: Literal["adam", "sgd"] = "adam",
        learning_rate: float = 1e-3,
        critic_learning_rate: float = 3e-3,
        momentum: float = 0.2,
        weight_decay: float = 1.0,
        schedule: Literal["decay", "constant"] = "decay",
        iterations: int = 1500,
        batch_size: int = 300,
        sensitive_types: Mapping[str, Kind] | None = None,
        missing_sensitive: Literal["error", "skip"] = "error",
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.notion = notion
        self.strength = strength
        self.method = method
        self.divergence = divergence
        self.density_ratio = density_ratio
        self.hidden = hidden
        self.network = network
        self.scaling = scaling
        self.embedding = embedding
        self.normalization = normalization
        self.critic_hidden = critic_hidden
        self.critic_steps = critic_steps
        self.critic_normalization = critic_normalization
        self.gradient_penalty = gradient_penalty
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.critic_learning_rate = critic_learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.iterations = iterations
        self.batch_size = batch_size
        self.sensitive_types = sensitive_types
        self.missing_sensitive = missing_sensitive
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @classmethod
    def as_in_paper(cls, **options: Any) -> Self:
        """Return a new estimator with the paper's network and training in place of the defaults.

        These are ordinary options, which ``get_params`` shows. ``options`` are set as well, and
        win over the paper's where both name one: ``as_in_paper(strength=0.9, iterations=2000)``.
        """
        return cls(**{**cls._paper_settings, **options})

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
        resume: bool = False,
        callback: Callback | None = None,
    ) -> Self:
        """Train on features, outcome and sensitive features.

        Parameters
        ----------
        X : DataFrame (pandas, polars, pyarrow) or numeric array, (n, p)
            Features. Frames may hold categorical columns and missing values.
        y : (n,)
            Outcome.
        sensitive_features : DataFrame, Series, array, list or dict of columns, n rows
            Any mix of discrete and continuous attributes; required unless ``strength=0``.
        sample_weight : (n,), optional
            Weights of the rows, in the task loss and in the penalty. Rows of weight 0 are left
            out.
        checkpoint, checkpoint_every, resume, callback
            As for :meth:`FairFrontier.fit`; the callback is called every 50 iterations.
        """
        run = RunOptions(
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
            callback=callback,
        )
        store = run.store(self.random_state)
        member = Member(self.strength, read_seed(self.random_state))
        recipe = self._recipe()
        device = read_device(self.device)
        X = checked_features(self, X, reset=True)
        y = checked_outcome(X, y)
        weights = row_weights(sample_weight, len(y))
        table = self._read_sensitive(sensitive_features, len(y))
        if weights is not None and not weights.all():
            counted = np.flatnonzero(weights)
            X, y, weights = (_safe_indexing(part, counted) for part in (X, y, weights))
            table = None if table is None else table.take(counted)
        outcome = self._read_outcome(y)
        self.encoder_ = FeatureEncoder(scaling=self.scaling)
        x = learn_inputs(self, self.encoder_.fit_transform(X), table)
        data = training_data(x, outcome, table, weights).to(device)
        with progress_shown(self.verbose) as shown:
            trained = recipe.train(
                data,
                [member],
                task=self._task(outcome),
                n_outputs=outcome.n_outputs,
                sensitive=table,
                attribute_inputs=learned_inputs(self).width,
                supervision=run.supervision(
                    store, self.get_params(deep=False), data, callbacks=[shown, callback]
                ),
            )
        self._keep(trained, outcome, table)
        warn_if_interrupted(trained, self.iterations, store)
        for message in self.health_.messages:
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return self

    def _keep(self, trained: Trained, outcome: Outcome, table: SensitiveTable | None) -> None:
        """Become the fitted estimator of a stack of one trained member."""
        # In double precision a row's score does not depend on the rows predicted along with it.
        self.predictor_ = trained.predictor.requires_grad_(False).double()
        self.history_ = trained.history
        (self.health_,) = trained.health
        self.sensitive_ = "none given" if table is None else table.describe()
        self._keep_outcome(outcome)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to one file, for ``equipoise.load``.

        The file holds arrays (safetensors) and JSON, no code. It is written whole or not at all,
        and over nothing but an older model. A network of your own is kept without its code:
        hand the same function to ``load`` again.

        Parameters
        ----------
        path : path of a file
            Ends in ``.equipoise`` by custom.
        """
        check_is_fitted(self)
        write_model_file(path, contents_of(self))

    def to_onnx(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator, with the encoding of its inputs, as an ONNX file.

        A model fitted on a frame has one input (rows,) for each column, by its name: float64 for
        numbers and booleans, NaN where missing; text for categories, "" where missing. A model
        fitted on an array has one input ``X`` of float64, (rows, columns). A classifier's outputs
        are ``label``, ``probabilities`` and ``score`` (as ``decision_function``), a regressor's is
        ``prediction``, an encoder's ``representation``. Needs ``pip install equipoise[onnx]``.

        Parameters
        ----------
        path : path of a file that ends in ``.onnx``
            Replaced if it is there.
        """
        check_is_fitted(self)
        target = checked_target(path)
        if target.suffix != ".onnx":
            raise InputError(f"path must end in '.onnx', got '{target}'")
        if learned_inputs(self).columns:
            raise InputError(
                f"to_onnx can not write a model of method={self.method!r}, which needs the "
                "sensitive features to predict; use save"
            )
        state = self.encoder_.state()
        content = onnx_bytes(
            state,
            self.predictor_,
            self._add_answers,
            named=hasattr(self, "feature_names_in_") or not state.is_numeric,
            description=f"{type(self).__name__} fitted by equipoise",
        )
        write_atomically(target, content)

    @abstractmethod
    def _read_outcome(self, y: Any) -> Outcome:
        """Check and encode the outcome."""

    @abstractmethod
    def _task(self, outcome: Outcome) -> str:
        """Name the task loss."""

    @abstractmethod
    def _keep_outcome(self, outcome: Outcome) -> None:
        """Store what turns a network's outputs into answers."""

    @abstractmethod
    def _add_answers(self, graph: Graph, output: str) -> None:
        """Add to an ONNX graph what is made of the network's output (rows, o)."""

    def _recipe(self) -> Recipe:
        """Check all options at once, before any data is touched."""
        if self.network is not None and not callable(self.network):
            raise InputError(
                "network must be a function (n_inputs, n_outputs) -> torch.nn.Module, "
                f"got {type(self.network).__name__}"
            )
        # Decay keeps a predictor from learning its rows by heart; a critic sees new pairs anyway.
        predictor, critic = (
            OptimizerSettings(
                kind=self.optimizer, learning_rate=rate, momentum=self.momentum, weight_decay=decay
            )
            for rate, decay in (
                (self.learning_rate, self.weight_decay),
                (self.critic_learning_rate, 0.0),
            )
        )
        return Recipe(
            notion=Notion.parse(self.notion),
            method=self.method,
            density_ratio=self.density_ratio,
            critic=CriticSettings(
                divergence=self.divergence,
                hidden=tuple(self.critic_hidden),
                steps=self.critic_steps,
                normalization=self.critic_normalization,
                gradient_penalty=self.gradient_penalty,
                optimizer=critic,
            ),
            training=TrainingSettings(
                iterations=self.iterations,
                batch_size=self.batch_size,
                optimizer=predictor,
                schedule=self.schedule,
            ),
            hidden=tuple(self.hidden),
            encoder_hidden=tuple(self.encoder_hidden),
            embedding=self.embedding,
            normalization=self.normalization,
            network=self.network,
        )

    def _read_sensitive(self, sensitive_features: Any, n: int) -> SensitiveTable | None:
        if sensitive_features is None:
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
        )

    def _evaluate(
        self, X: Any, sensitive_features: Any = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return outputs (n, o) and penalised values (n, w) for new rows."""
        check_is_fitted(self)
        X = checked_features(self, X, reset=False)
        device = next(self.predictor_.parameters()).device
        inputs = new_inputs(self, self.encoder_.transform(X), sensitive_features)
        x = torch.from_numpy(inputs).to(device).double()
        output, penalised = self.predictor_.evaluate(x)
        return output[0].cpu().numpy(), penalised[0].cpu().numpy()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags
