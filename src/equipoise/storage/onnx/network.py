"""The built-in networks as ONNX operations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.errors import InputError
from equipoise.networks import (
    PiecewiseLinear,
    StackedBatchNorm,
    StackedLinear,
    StackedMLP,
    StackedVote,
)
from equipoise.networks.vote import CERTAIN
from equipoise.storage.onnx.graph import Graph


def add_network(graph: Graph, network: nn.Module, rows: str, member: int = 0) -> str:
    """Add one network of a stack; return its output (rows, o) for ``rows`` (rows, p)."""
    if isinstance(network, StackedVote):
        return _vote(graph, network, rows, member)
    if not isinstance(network, StackedMLP):
        raise InputError(
            "to_onnx writes models with a built-in network, got one made by network=; write that "
            "module itself with torch.onnx.export, after the columns that encoder_ makes"
        )
    for layer in network.layers:
        if isinstance(layer, StackedLinear):
            parts = [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
            weights = [graph.constant(_of_member(part, member)) for part in parts]
            rows = graph.add("Gemm", rows, *weights, transB=1)
        elif isinstance(layer, StackedBatchNorm):
            slope, shift = _normalisation(layer, member)
            rows = graph.add("Mul", rows, graph.constant(slope))
            rows = graph.add("Add", rows, graph.constant(shift))
        elif isinstance(layer, PiecewiseLinear):
            rows = _with_pieces(graph, layer, rows)
        else:
            assert isinstance(layer, nn.ReLU)
            rows = graph.add("Relu", rows)
    return rows


def _vote(graph: Graph, network: StackedVote, rows: str, member: int) -> str:
    """Log odds (rows, 1) of the share of votes, kept off 0 and 1 as the network does."""
    weight, bias, share = (
        graph.constant(_of_member(part, member))
        for part in (network.weight, network.bias, network.share[..., None])
    )
    value = graph.add("Gemm", rows, weight, bias, transB=1)
    positive = graph.add("Greater", value, graph.constant(np.array(0.0)))
    votes = graph.add("MatMul", graph.cast(positive, np.float64), share)
    ends = (graph.constant(np.array(end)) for end in (CERTAIN, 1 - CERTAIN))
    votes = graph.add("Clip", votes, *ends)
    against = graph.add("Sub", graph.constant(np.array(1.0)), votes)
    return graph.add("Log", graph.add("Div", votes, against))


def _with_pieces(graph: Graph, layer: PiecewiseLinear, rows: str) -> str:
    """Columns and beside them their pieces, (rows, p + m); all members share the pieces."""
    along = graph.add("Gather", rows, graph.constant(layer.column[0].cpu().numpy()), axis=1)
    along = graph.add("Sub", along, graph.constant(_of_member(layer.start, 0)))
    along = graph.add("Mul", along, graph.constant(_of_member(layer.slope, 0)))
    zero, one = (graph.constant(np.array(end)) for end in (0.0, 1.0))
    return graph.add("Concat", rows, graph.add("Clip", along, zero, one), axis=1)


def _normalisation(
    layer: StackedBatchNorm, member: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Batch normalisation by running statistics is x * slope + shift, (width,) each."""
    assert layer.weight is not None and layer.bias is not None
    weight, bias, mean, variance = (
        _of_member(part, member)
        for part in (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    )
    slope = weight / np.sqrt(variance + layer.epsilon)
    return slope, bias - slope * mean


def _of_member(weight: Tensor, member: int) -> NDArray[np.float64]:
    """Weights of one member."""
    array: NDArray[np.float64] = weight[member].detach().cpu().double().numpy()
    return array
