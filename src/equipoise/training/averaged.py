"""Several networks that answer as one: the average of their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional

from equipoise.networks import OnnxGraph, Stack
from equipoise.training.predictor import Predictor
from equipoise.training.tasks import TASKS, Task


class AveragedPredictor(Predictor):
    """A stack of M networks with one output: the one whose score is the mean of their scores.

    A probability is averaged as a probability, not as a logit: the average of M probabilities is
    again the probability that a case of such a row comes true, if each of them was.
    """

    note = ", average of several networks"

    def __init__(self, network: Stack, task: Task) -> None:
        super().__init__(network, task)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output (1, B, o) and the score (1, B, s) of the average; x is (M, B, p)."""
        output = averaged_output(self.network(x)[None], self.task)
        return output, self.task.score(output)

    def to_onnx(self, graph: OnnxGraph, rows: str) -> str:
        """Add every network; return the output (rows, o) whose score is their mean score."""
        outputs = [self.network.to_onnx(graph, rows, member) for member in range(len(self.weight))]

        def mean(operation: str, values: list[str], **attributes: Any) -> str:
            if operation:
                values = [graph.add(operation, value, **attributes) for value in values]
            total, *others = values
            for value in others:
                total = graph.add("Add", total, value)
            return graph.add("Mul", total, graph.constant(np.array(1 / len(values))))

        if self.task.name == "binary":
            positive = mean("Sigmoid", outputs)
            # Not 1 - positive, which loses all digits of a small probability of the other class.
            negative = mean("Sigmoid", [graph.add("Neg", output) for output in outputs])
            return graph.add("Sub", graph.add("Log", positive), graph.add("Log", negative))
        if self.task.name == "multiclass":
            return graph.add("Log", mean("Softmax", outputs, axis=1))
        return mean("", outputs)


def averaged_output(output: Tensor, task: Task) -> Tensor:
    """Output (G, B, o) whose score is the mean score of outputs (G, M, B, o) over M.

    >>> import torch
    >>> output = torch.tensor([[[[0.0]], [[20.0]]]])
    >>> torch.sigmoid(averaged_output(output, TASKS["binary"]))
    tensor([[[0.7500]]])
    """
    return _AVERAGES[task.name](output)


def _of_log_odds(output: Tensor) -> Tensor:
    """Log odds of the mean probability; finite where every log odds is."""
    return functional.logsigmoid(output).logsumexp(1) - functional.logsigmoid(-output).logsumexp(1)


def _of_logits(output: Tensor) -> Tensor:
    """Logarithms of the mean probabilities, which are logits of these very probabilities."""
    return output.log_softmax(-1).logsumexp(1) - math.log(output.shape[1])


def _of_predictions(output: Tensor) -> Tensor:
    return output.mean(1)


_AVERAGES: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    dict.fromkeys(TASKS, _of_predictions) | {"binary": _of_log_odds, "multiclass": _of_logits}
)
