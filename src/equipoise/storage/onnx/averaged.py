"""An average of networks as ONNX operations: what `AveragedPredictor` computes."""

from __future__ import annotations

import numpy as np

from equipoise.storage.onnx.graph import Graph
from equipoise.storage.onnx.network import add_network
from equipoise.training.averaged import AveragedPredictor


def add_average(graph: Graph, predictor: AveragedPredictor, rows: str) -> str:
    """Add every network; return the output (rows, o) whose score is their mean score."""
    members = len(next(predictor.parameters()))
    outputs = [add_network(graph, predictor.network, rows, member) for member in range(members)]
    if predictor.task.name == "binary":
        positive = _mean(graph, [graph.add("Sigmoid", output) for output in outputs])
        # Not 1 - positive, which loses all digits of a small chance of the other class.
        flipped = [graph.add("Neg", output) for output in outputs]
        negative = _mean(graph, [graph.add("Sigmoid", output) for output in flipped])
        return graph.add("Sub", graph.add("Log", positive), graph.add("Log", negative))
    if predictor.task.name == "multiclass":
        shares = [graph.add("Softmax", output, axis=1) for output in outputs]
        return graph.add("Log", _mean(graph, shares))
    return _mean(graph, outputs)


def _mean(graph: Graph, values: list[str]) -> str:
    total, *others = values
    for value in others:
        total = graph.add("Add", total, value)
    return graph.add("Mul", total, graph.constant(np.array(1 / len(values))))
