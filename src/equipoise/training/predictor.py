"""The predictor: a stack of models with its task, and averages of several models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from equipoise.divergences import weighted_mean
from equipoise.networks import OnnxGraph, Stack, fused_kernels, member_tensors

#: Rows evaluated at once. This bounds the memory needed to predict on long tables.
EVALUATION_ROWS = 16_384


def exact_device(device: torch.device) -> torch.device:
    """Return this device, or the CPU if the device has no double precision.

    >>> exact_device(torch.device("cuda", 1)), exact_device(torch.device("mps"))
    (device(type='cuda', index=1), device(type='cpu'))
    """
    return torch.device("cpu") if device.type == "mps" else device


class Predictor(nn.Module):
    """K models for one task.

    The penalty sits on the score, with an ``encoder`` on the encoder's output, and after
    :meth:`penalize_hidden` on the last hidden layer.
    """

    #: The end of a description of the model.
    note = ""

    def __init__(self, network: Stack, task: Task, *, encoder: Stack | None = None) -> None:
        super().__init__()
        self.network = network
        self.task = task
        self.encoder = encoder
        self._penalizes_hidden = False

    def penalize_hidden(self, *, method: str) -> None:
        """Put the penalty on the last hidden layer, unless there is an encoder."""
        if self.encoder is not None:
            return
        self.network.hidden_layers(f"method={method!r} penalizes the last hidden layer")
        self._penalizes_hidden = True

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs (K, B, o) and the values that are penalized (K, B, w)."""
        if self._penalizes_hidden:
            return self.network.hidden_layers("the penalty sits on one").with_last_hidden(x)
        if self.encoder is None:
            output = self.network(x)
            return output, self.task.score(output)
        representation = self.encoder(x)
        return self.network(representation), representation

    @property
    def weight(self) -> Tensor:
        """A floating-point tensor with K members first; all others share its device and type."""
        return next(tensor for _, tensor in member_tensors(self) if tensor.is_floating_point())

    def settled(self) -> Predictor:
        """Return this predictor ready for use after training: no gradients, double precision.

        In double precision a row's score does not depend on the rows predicted with it.
        """
        return self.requires_grad_(False).to(exact_device(self.weight.device)).double()

    def to_onnx(self, graph: OnnxGraph, rows: str) -> str:
        """Add a predictor of one member to the graph: its output, or its representation."""
        return self.first.to_onnx(graph, rows, 0)

    @property
    def first(self) -> Stack:
        """The network that reads the rows."""
        return self.network if self.encoder is None else self.encoder

    def same_for_all(self, x: Tensor) -> Tensor:
        """Return rows x (n, p) as the rows of every member."""
        return x[None] if self.first.shares_rows else x.expand(len(self.weight), *x.shape)

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs and penalized values of every member on the same rows x (n, p)."""
        was_training = self.training
        self.eval()
        weight = self.weight
        parts = [
            self(self.same_for_all(rows.to(weight.dtype)))
            for rows in torch.split(x, EVALUATION_ROWS)
        ]
        self.train(was_training)
        return torch.cat([part[0] for part in parts], 1), torch.cat([part[1] for part in parts], 1)


@dataclass(frozen=True)
class Task:
    """A loss per row, and the map from model outputs to scores."""

    name: str
    row_loss: Callable[[Tensor, Tensor], Tensor]  # outputs (K, B, o) and targets (K, B) -> (K, B)
    #: Outputs (K, B, o) -> the score (K, B, s), which should not depend on the attributes.
    score: Callable[[Tensor], Tensor]

    def loss(self, output: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """Mean loss of every member, (K,)."""
        logit = output.squeeze(-1)
        if self.name == "binary" and (kernels := fused_kernels(logit)):
            value: Tensor = kernels.LogLoss.apply(logit, target, weight)
            return value
        return weighted_mean(self.row_loss(output, target), weight)


def _binary_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    # log(1 + exp(c)) - c y, as binary_cross_entropy_with_logits, in half as many operations.
    logit = output.squeeze(-1)
    return torch.addcmul(functional.softplus(logit), logit, target, value=-1)


def _cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.movedim(-1, 1), target, reduction="none")


def _absolute(output: Tensor, target: Tensor) -> Tensor:
    return (output.squeeze(-1) - target).abs()


def _squared(output: Tensor, target: Tensor) -> Tensor:
    return (output.squeeze(-1) - target).square()


def _huber(output: Tensor, target: Tensor) -> Tensor:
    return functional.huber_loss(output.squeeze(-1), target, reduction="none")


def _softmax(output: Tensor) -> Tensor:
    return output.softmax(-1)


def _identity(output: Tensor) -> Tensor:
    return output


_TASKS = (
    Task("binary", _binary_cross_entropy, torch.sigmoid),
    Task("multiclass", _cross_entropy, _softmax),
    Task("absolute", _absolute, _identity),
    Task("squared", _squared, _identity),
    Task("huber", _huber, _identity),
)
TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in _TASKS})


class AveragedPredictor(Predictor):
    """A stack of M models used as one model, whose score is the mean of their scores.

    Probabilities are averaged as probabilities, not as logits: if each of them is the probability
    of the outcome given the row, so is their mean.
    """

    note = ", average of several networks"

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output (1, B, o) and the score (1, B, s) of the average; x is (M, B, p)."""
        output = averaged_output(self.network(x)[None], self.task)
        return output, self.task.score(output)

    def to_onnx(self, graph: OnnxGraph, rows: str) -> str:
        """Add every model; return the output (rows, o) whose score is their mean score."""
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
            # Not 1 - positive, which would lose all digits of a small negative probability.
            negative = mean("Sigmoid", [graph.add("Neg", output) for output in outputs])
            return graph.add("Sub", graph.add("Log", positive), graph.add("Log", negative))
        if self.task.name == "multiclass":
            return graph.add("Log", mean("Softmax", outputs, axis=1))
        return mean("", outputs)


def averaged(predictor: Predictor) -> Predictor:
    """Return the average of all members; a single member is returned as it is."""
    if len(predictor.weight) == 1:
        return predictor
    return AveragedPredictor(predictor.network, predictor.task).eval()


def averaged_output(output: Tensor, task: Task) -> Tensor:
    """Return the output (G, B, o) whose score is the mean score over M of outputs (G, M, B, o)."""
    if task.name == "binary":  # the log odds of the mean probability
        log = functional.logsigmoid
        return log(output).logsumexp(1) - log(-output).logsumexp(1)
    if task.name == "multiclass":  # log probabilities can serve as logits
        return output.log_softmax(-1).logsumexp(1) - math.log(output.shape[1])
    return output.mean(1)
