"""FairRegressor: a continuous outcome, predicted with little dependence on who is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from equipoise.density_ratio import RatioKind
from equipoise.estimators.answers import Regresses
from equipoise.estimators.network import NetworkEstimator
from equipoise.estimators.paper_settings import PAPER_REGRESSOR
from equipoise.networks import Embedding, Normalization
from equipoise.predictors.recipe import NetworkFactory
from equipoise.storage.onnx import Graph
from equipoise.tables import Kind, Scaling


class FairRegressor(Regresses, NetworkEstimator):
    """A neural-network regressor trained to keep its prediction from depending on A.

    As :class:`FairClassifier`, for a continuous outcome; Y is trained on in standard units, so
    ``strength`` means the same whatever the outcome's scale.

    Parameters
    ----------
    loss : "squared", "absolute" or "huber"
        Task loss: squared error, absolute error (the paper's), or Huber's (one standard unit).
    notion, strength, method, divergence, density_ratio, hidden, network
        As for :class:`FairClassifier`.
    scaling, embedding, normalization
        As for :class:`FairClassifier`.
    critic_hidden, critic_steps, critic_normalization, gradient_penalty
        As for :class:`FairClassifier`.
    optimizer, learning_rate, critic_learning_rate, momentum, weight_decay, schedule
        As for :class:`FairClassifier`.
    iterations, batch_size
        As for :class:`FairClassifier`.
    sensitive_types, missing_sensitive, random_state, device, verbose
        As for :class:`FairClassifier`.

    Examples
    --------
    >>> from equipoise import FairRegressor, load_dataset
    >>> data = load_dataset("crime")
    >>> model = FairRegressor(strength=0.5, iterations=200, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.A)
    >>> model.predict(data.X).shape == (len(data.X),)
    True
    """

    _paper_settings = PAPER_REGRESSOR

    def __init__(
        self,
        *,
        loss: Literal["squared", "absolute", "huber"] = "squared",
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
        super().__init__(
            notion=notion,
            strength=strength,
            method=method,
            divergence=divergence,
            density_ratio=density_ratio,
            hidden=hidden,
            network=network,
            scaling=scaling,
            embedding=embedding,
            normalization=normalization,
            critic_hidden=critic_hidden,
            critic_steps=critic_steps,
            critic_normalization=critic_normalization,
            gradient_penalty=gradient_penalty,
            optimizer=optimizer,
            learning_rate=learning_rate,
            critic_learning_rate=critic_learning_rate,
            momentum=momentum,
            weight_decay=weight_decay,
            schedule=schedule,
            iterations=iterations,
            batch_size=batch_size,
            sensitive_types=sensitive_types,
            missing_sensitive=missing_sensitive,
            random_state=random_state,
            device=device,
            verbose=verbose,
        )
        self.loss = loss

    def _add_answers(self, graph: Graph, output: str) -> None:
        standard = graph.add("Squeeze", output, graph.constant(np.array([1])))
        scaled = graph.add("Mul", standard, graph.constant(np.array(self.scale_)))
        prediction = graph.add("Add", scaled, graph.constant(np.array(self.center_)))
        graph.output("prediction", prediction, np.float64)
