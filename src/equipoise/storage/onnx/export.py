"""A fitted model as the content of an ONNX file."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.storage.onnx.averaged import add_average
from equipoise.storage.onnx.features import add_encoding
from equipoise.storage.onnx.graph import Graph
from equipoise.storage.onnx.network import add_network
from equipoise.tables import EncoderState
from equipoise.training import Predictor
from equipoise.training.averaged import AveragedPredictor

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
    """Return the ONNX file of a predictor of one member, or of an average, behind its encoding.

    A predictor with an encoder answers with the representation, so the head is left out.
    """
    graph = Graph()
    rows = add_encoding(graph, state, named=named)
    if isinstance(predictor, AveragedPredictor):
        answers(graph, add_average(graph, predictor, rows))
        return graph.content(f"{description}, average of several networks")
    network = predictor.network if predictor.encoder is None else predictor.encoder
    answers(graph, add_network(graph, network, rows))
    return graph.content(description)
