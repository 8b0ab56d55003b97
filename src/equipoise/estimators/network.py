"""What the estimators with a neural network share: its options, and the ONNX file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError, check_number
from equipoise.estimators.attributes import learned_inputs
from equipoise.estimators.base import FairEstimator
from equipoise.estimators.inputs import read_device
from equipoise.estimators.paper_settings import PAPER_CLASSIFIER
from equipoise.networks import Embedding, Normalization
from equipoise.notions import Notion
from equipoise.predictors.recipe import NetworkFactory, Recipe
from equipoise.storage import checked_target, write_atomically
from equipoise.storage.onnx import Graph, onnx_bytes
from equipoise.tables import FeatureEncoder, Kind, Scaling
from equipoise.training import OptimizerSettings, TrainingSettings


class NetworkEstimator(FairEstimator):
    """Options of networks and their training; subclasses say what a network's outputs mean."""

    #: Widths of an encoder that carries the penalty; empty where the score does.
    encoder_hidden: tuple[int, ...] = ()

    _paper_settings: ClassVar[Mapping[str, Any]] = PAPER_CLASSIFIER

    encoder_: FeatureEncoder

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
    def _add_answers(self, graph: Graph, output: str) -> None:
        """Add to an ONNX graph what is made of the network's output (rows, o)."""

    def _device(self) -> torch.device:
        return read_device(self.device)

    def _new_encoder(self) -> FeatureEncoder:
        return FeatureEncoder(scaling=self.scaling)

    def _input_facts(self) -> dict[str, Any]:
        return {"attribute_inputs": learned_inputs(self).width}

    def _recipe(self) -> Recipe:
        """Check all options at once, before any data is touched."""
        if self.network is not None and not callable(self.network):
            raise InputError(
                "network must be a function (n_inputs, n_outputs) -> torch.nn.Module, "
                f"got {type(self.network).__name__}"
            )
        check_number(
            "critic_learning_rate", self.critic_learning_rate, "must be positive", lambda r: r > 0
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
                hidden=self.critic_hidden,
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
            hidden=self.hidden,
            encoder_hidden=self.encoder_hidden,
            embedding=self.embedding,
            normalization=self.normalization,
            network=self.network,
        )
