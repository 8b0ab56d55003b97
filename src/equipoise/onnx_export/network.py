"""The built-in networks as ONNX operations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.errors import InputError
from equipoise.networks import StackedBatchNorm, StackedLinear, StackedMLP
from equipoise.onnx_export.graph import Graph


def add_network(graph: Graph, network: nn.Module, rows: str) -> str:
    """Add a stack of one network; return its output (rows, o) for ``rows`` (rows, p)."""
    if not isinstance(network, StackedMLP):
        raise InputError(
            "to_onnx writes models with a built-in network, got one made by network=; write that "
            "module itself with torch.onnx.export, after the columns that encoder_ makes"
        )
    for layer in network.layers:
        if isinstance(layer, StackedLinear):
            rows = graph.add(
                "Gemm", rows, _constant(graph, layer.weight), _constant(graph, layer.bias), transB=1
            )
        elif isinstance(layer, StackedBatchNorm):
            slope, shift = _normalisation(layer)
            rows = graph.add("Mul", rows, graph.constant(slope))
            rows = graph.add("Add", rows, graph.constant(shift))
        else:
            assert isinstance(layer, nn.ReLU)
            rows = graph.add("Relu", rows)
    return rows


def _normalisation(layer: StackedBatchNorm) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Batch normalisation by running statistics is x * slope + shift, (width,) each."""
    assert layer.weight is not None and layer.bias is not None
    slope = _member(layer.weight) / np.sqrt(_member(layer.running_var) + layer.epsilon)
    return slope, _member(layer.bias) - slope * _member(layer.running_mean)


def _constant(graph: Graph, weight: Tensor) -> str:
    return graph.constant(_member(weight))


def _member(weight: Tensor) -> NDArray[np.float64]:
    """Weights of the only member."""
    array: NDArray[np.float64] = weight[0].detach().cpu().double().numpy()
    return array
