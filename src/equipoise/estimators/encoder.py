"""FairEncoder: a representation of X that says little about the sensitive attribute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from equipoise.errors import InputError, check_choice, check_widths
from equipoise.estimators.inputs import Outcome, read_classes, read_numbers
from equipoise.estimators.network import PAPER_TRAINING, NetworkEstimator
from equipoise.predictors.network import NetworkRecipe
from equipoise.storage.onnx import Graph


@dataclass(kw_only=True, eq=False, repr=False)
class FairEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NetworkEstimator):
    """A transformer whose output keeps what predicts Y and little of what tells A.

    A predictor is trained in two parts, encoder and head, with the penalty on the encoder's
    output instead of the score (Sohn, Song and Lin 2024, section 3.2). ``transform`` returns that
    output, for any model of yours to be trained on.

    Parameters
    ----------
    task : "classification" or "regression"
        What Y is; regression uses the squared error.
    encoder_hidden : tuple of int
        Widths of the encoder's [dense - batch norm - ReLU] layers; the last is the number of
        columns ``transform`` returns.
    hidden : tuple of int
        Widths of the head's layers.
    critic_steps : int
        Critic updates per predictor update; a representation is wider than a score and needs more.
    notion, strength, method, divergence, density_ratio, scaling, embedding, normalization
    critic_hidden, critic_normalization, gradient_penalty, optimizer, learning_rate
    critic_learning_rate, momentum, weight_decay, schedule, iterations, batch_size, sensitive_types
    missing_sensitive, random_state, device, verbose
        All as for :class:`FairClassifier`.

    Examples
    --------
    >>> from equipoise import FairEncoder, load_dataset
    >>> data = load_dataset("synthetic")
    >>> encoder = FairEncoder(strength=0.9, encoder_hidden=(8,), iterations=50, random_state=0)
    >>> encoder = encoder.fit(data.X, data.y, sensitive_features=data.A)
    >>> encoder.transform(data.X).shape == (len(data.X), 8)
    True
    """

    # The paper's tables have no encoder: how wide it is stays as it is here.
    _paper_settings = PAPER_TRAINING

    task: Literal["classification", "regression"] = "classification"
    encoder_hidden: tuple[int, ...] = (64,)
    hidden: tuple[int, ...] = (64, 64)
    normalization: Literal["batch", "none"] = "batch"
    critic_steps: int = 5

    def _recipe(self) -> NetworkRecipe:
        check_choice("task", self.task, ("classification", "regression"))
        if not check_widths("encoder_hidden", self.encoder_hidden):
            raise InputError("encoder_hidden must name at least one width, got ()")
        return super()._recipe()

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the representation of each row, (n, encoder_hidden[-1])."""
        _, representation = self._evaluate(X)
        return representation

    def _read_outcome(self, y: Any, weights: NDArray[np.float64] | None) -> Outcome:
        return read_classes(y) if self.task == "classification" else read_numbers(y, weights)

    def _add_answers(self, graph: Graph, output: str) -> None:
        graph.output("representation", output, np.float64, self.encoder_hidden[-1])

    @property
    def _n_features_out(self) -> int:
        return self.encoder_hidden[-1]
