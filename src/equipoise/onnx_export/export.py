"""A fitted model as the content of an ONNX file."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.features import EncoderState
from equipoise.onnx_export.features import add_encoding
from equipoise.onnx_export.graph import Graph
from equipoise.onnx_export.network import add_network
from equipoise.training import Predictor

#: Adds a model's named outputs to a graph, given its network's output (rows, o).
Answers = Callable[[Graph, str], None]


def onnx_bytes(
    state: EncoderState,
    predictor: Predictor,
    answers: Answers,
    *,
    named: bool,
    description: str,
) -> bytes:
    """Return the ONNX file of a predictor of one member behind its encoding of inputs.

    A predictor with an encoder answers with the representation, so the head is left out.
    """
    graph = Graph()
    rows = add_encoding(graph, state, named=named)
    network = predictor.network if predictor.encoder is None else predictor.encoder
    answers(graph, add_network(graph, network, rows))
    return graph.content(description)
