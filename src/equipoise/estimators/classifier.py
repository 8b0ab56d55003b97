"""FairClassifier: labels in, probabilities out that say little about the sensitive attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.estimators.answers import Classifies
from equipoise.estimators.network import NetworkEstimator
from equipoise.storage.onnx import Graph


class FairClassifier(Classifies, NetworkEstimator):
    """A neural-network classifier trained to keep its score from depending on sensitive features.

    It minimizes (1 - strength) * cross-entropy + strength * penalty, where the penalty is what a
    critic can tell about the sensitive features from the score (Sohn, Song and Lin 2024). The
    sensitive features may be discrete, continuous or any mix of columns; they are needed to fit,
    and to predict only by ``method="scutari"``. How much dependence remains must be measured:
    training promises nothing.

    Parameters
    ----------
    notion : "independence" or "separation"
        Statistical parity: the score's distribution is the same whatever A; or equalized odds:
        the same whatever A among rows of equal Y.
    strength : float in [0, 1)
        Weight of the penalty; 0 is plain training, and useful values often lie above 0.8.
    method : str
        The fairness method; ``equipoise.methods.METHODS`` has them all, and
        ``equipoise.methods.capability_table()`` says what each can do.
    divergence : "js", "kl", "chi2", "hellinger" or "wasserstein"
        What the critic estimates; "wasserstein" needs ``gradient_penalty=10``.
    density_ratio : "auto", "counts", "network" or "none"
        Weight beta(a', y) under separation: counted where A and Y are discrete, else learnt by a
        small network; "none" leaves it out (the paper's SBP_NW).
    hidden : tuple of int
        Widths of the predictor's [dense - batch norm - ReLU] layers; () is a linear model.
    network : callable (n_inputs, n_outputs) -> torch.nn.Module, optional
        A network of your own instead, on the scaled columns; n_outputs is 1 for two classes.
    scaling : "rank", "minmax", "standard" or "none"
        How numeric features are scaled.
    embedding : "pieces" or "none"
        "pieces" also cuts numeric features at frequent values and quantiles, so that values that
        lie close together can be told apart; "none" leaves them as they were scaled.
    normalization : "batch" or "none"
        Batch normalisation inside the predictor, or none.
    critic_hidden, critic_steps, critic_normalization, gradient_penalty
        The critic: widths, updates per predictor update (T'), "none", "batch" or "spectral",
        and weight of a penalty on its slope.
    optimizer, learning_rate, critic_learning_rate, momentum, weight_decay, schedule
        "adam" (with weight decay in the predictor) or "sgd" (with momentum); "decay" lowers the
        predictor's learning rate linearly to zero over the second half, "constant" does not.
    iterations, batch_size : int
        Number of predictor updates, and rows in each.
    sensitive_types : mapping of column name to "discrete" or "continuous", optional
        Overrides how sensitive columns are typed; ``sensitive_`` tells how they were.
    missing_sensitive : "error" or "skip"
        "skip" keeps rows with a missing sensitive value for the task and leaves them out of the
        penalty.
    random_state : int, RandomState or None
        Same integer, same weights: bit for bit on the same CPU, threads and versions.
    device : "auto", "cpu", "cuda", ...
        Where to train.
    verbose : 0 or 1
        1 shows progress on standard error.

    Attributes
    ----------
    classes_ : the labels.
    health_ : whether the critic collapsed, the score became constant or the loss blew up.
    history_ : task loss and penalty over the iterations.
    sensitive_ : how each sensitive column was typed, as text.
    encoder_, predictor_ : the fitted feature encoding and network.

    Examples
    --------
    >>> from equipoise import FairClassifier, load_dataset
    >>> data = load_dataset("synthetic")
    >>> model = FairClassifier(strength=0.9, iterations=200, random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.A)
    >>> model.predict_proba(data.X).shape == (len(data.X), 2)
    True
    """

    def _add_answers(self, graph: Graph, output: str) -> None:
        labels = _plain_labels(self.classes_)
        count = len(labels)
        if count == 2:
            score = graph.add("Squeeze", output, graph.constant(np.array([1])))
            positive = graph.add("Greater", score, graph.constant(np.array(0.0)))
            chosen = graph.cast(positive, np.int64)
            both = graph.add("Concat", graph.add("Neg", output), output, axis=1)
            probabilities = graph.add("Sigmoid", both)
        else:
            score = output
            chosen = graph.add("ArgMax", score, axis=1, keepdims=0)
            probabilities = graph.add("Softmax", score, axis=1)
        label = graph.add("Gather", graph.constant(labels), chosen)
        graph.output("label", label, labels.dtype.type)
        graph.output("probabilities", probabilities, np.float64, count)
        graph.output("score", score, np.float64, None if count == 2 else count)


def _plain_labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Labels as ONNX knows them: int64, float64, booleans, or text as objects."""
    labels = np.array(classes.tolist())
    return labels.astype(object) if labels.dtype.kind == "U" else labels
