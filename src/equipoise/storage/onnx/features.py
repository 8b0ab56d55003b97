"""The encoding of features as ONNX operations: what `FeatureEncoder.transform` does to rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.storage.onnx.graph import Graph
from equipoise.tables import EncoderState, Levels


def add_encoding(graph: Graph, state: EncoderState, *, named: bool) -> str:
    """Add inputs and their encoding; return the encoded matrix (rows, p).

    ``named`` gives every column an input (rows,) of its own: float64 for numbers and booleans, NaN
    where missing; text for categories, "" where missing. Otherwise there is one input X of float64
    (rows, columns).
    """
    columns = _inputs(graph, state, named=named)
    blocks = []
    for position, name in enumerate(state.number_names):
        if state.constant[position] or state.families[name] == "empty":
            blocks.append(graph.add("Mul", _flag(graph, columns[name]), _number(graph, 0.0)))
        else:
            filled = _filled(graph, columns[name], state.medians[name])
            blocks.append(_scaled(graph, filled, state, position, name))
    blocks += [_filled(graph, columns[name], state.medians[name]) for name in state.boolean_names]
    blocks += [_flag(graph, columns[name]) for name in state.flagged]
    wide = [graph.column(block) for block in blocks]
    for name, levels in state.levels.items():
        wide.append(_one_hot(graph, columns[name], levels, name))
    matrix = graph.add("Concat", *wide, axis=1)
    # Through float32, because the encoder's own matrix is of that type.
    return graph.cast(graph.cast(matrix, np.float32), np.float64)


def _inputs(graph: Graph, state: EncoderState, *, named: bool) -> dict[str, str]:
    """Declare the inputs; return the value (rows,) of every column by its name."""
    if named:
        return {
            name: graph.input(name, object if name in state.levels else np.float64)
            for name in state.families
        }
    matrix = graph.input("X", np.float64, len(state.families))
    return {
        name: graph.add("Gather", matrix, graph.constant(np.array(position)), axis=1)
        for position, name in enumerate(state.families)
    }


def _number(graph: Graph, value: float) -> str:
    return graph.constant(np.array(value, dtype=np.float64))


def _flag(graph: Graph, column: str) -> str:
    """1 where missing, else 0."""
    return graph.cast(graph.add("IsNaN", column), np.float64)


def _filled(graph: Graph, column: str, median: float) -> str:
    return graph.add("Where", graph.add("IsNaN", column), _number(graph, median), column)


def _scaled(graph: Graph, column: str, state: EncoderState, position: int, name: str) -> str:
    learned = state.scaler
    if state.scaling == "rank":
        knots, scores = learned[f"knots_{position}"], learned[f"scores_{position}"]
        return _interpolated(graph, column, knots, scores, name)
    if state.scaling == "minmax":
        stretched = graph.add("Mul", column, _number(graph, learned["scale_"][position]))
        return graph.add("Add", stretched, _number(graph, learned["min_"][position]))
    if state.scaling == "standard":
        centred = graph.add("Sub", column, _number(graph, learned["mean_"][position]))
        return graph.add("Div", centred, _number(graph, learned["scale_"][position]))
    return column


def _interpolated(
    graph: Graph,
    column: str,
    knots: NDArray[np.float64],
    scores: NDArray[np.float64],
    name: str,
) -> str:
    """Piecewise linear map through (knots, scores), flat beyond them, as ``numpy.interp``.

    The piece is found by bisection, unrolled: about log2(knots) operations on (rows,), where
    comparing every row with every knot would need rows x knots memory.
    """
    with np.errstate(over="ignore"):
        slopes = np.append(np.diff(scores) / np.diff(knots), 0.0)
    if not np.isfinite(slopes).all():
        raise InputError(
            f"X column {name!r} must have values further apart to be written as ONNX, got "
            "neighbours between which the rank score rises faster than float64 can tell; rescale "
            "the column"
        )
    column = graph.add("Clip", column, _number(graph, knots[0]), _number(graph, knots[-1]))
    steps = int(np.ceil(np.log2(len(knots))))
    padding = np.full(2**steps - len(knots), np.inf)  # never reached, since the column is clipped
    ladder = graph.constant(np.concatenate([knots, padding]))
    # Zeros of the column's length, and from there on the last knot known not to lie above it.
    piece = graph.cast(graph.add("IsNaN", column), np.int64)
    for step in reversed(range(steps)):
        candidate = graph.add("Add", piece, graph.constant(np.array(2**step)))
        reached = graph.add("GreaterOrEqual", column, graph.add("Gather", ladder, candidate))
        piece = graph.add("Where", reached, candidate, piece)
    start, slope, score = (
        graph.add("Gather", graph.constant(table), piece) for table in (knots, slopes, scores)
    )
    rise = graph.add("Mul", slope, graph.add("Sub", column, start))
    return graph.add("Add", rise, score)


def _one_hot(graph: Graph, column: str, levels: Levels, name: str) -> str:
    """0/1 columns (rows, width); zeros for a category not seen in training."""
    if "" in levels.categories and None in levels.categories:
        raise InputError(
            f"X column {name!r} must not hold both empty text and missing values to be written as "
            "ONNX, which has no missing text; give one of them a name of its own and fit again"
        )
    positions = {category or "": place for category, place in levels.positions.items()}
    place = graph.add(
        "LabelEncoder",
        column,
        domain="ai.onnx.ml",
        keys_strings=list(positions),
        values_int64s=list(positions.values()),
        default_int64=-1,
    )
    hit = graph.add("Equal", graph.column(place), graph.constant(np.arange(levels.width)))
    return graph.cast(hit, np.float64)
