"""ONNX files of fitted models, including the encoding of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError, needs
from equipoise.tables import EncoderState, Levels
from equipoise.training import Predictor

if TYPE_CHECKING:
    import onnx

#: Versions of the operator sets and the file format, of 2022, which current runtimes support.
_OPSETS = {"": 17, "ai.onnx.ml": 3}
_IR_VERSION = 8
_PRODUCER = "equipoise"

#: Adds a model's named outputs to a graph, given its predictor's output (rows, o).
Answers = Callable[["Graph", str], None]
Floats = NDArray[np.float64]


def onnx_bytes(
    state: EncoderState,
    sensitive: EncoderState | None,
    predictor: Predictor,
    answers: Answers,
    *,
    named: bool,
    description: str,
) -> bytes:
    """Return the ONNX file of an encoder followed by a predictor of one member or an average.

    A predictor that sees sensitive features has an encoder for them, too.
    """
    graph = Graph()
    rows = add_encoding(graph, state, named=named)
    if sensitive is not None:
        rows = graph.add("Concat", rows, add_encoding(graph, sensitive, named=True), axis=1)
    answers(graph, predictor.to_onnx(graph, rows))
    return graph.content(description + predictor.note)


def is_own_onnx(path: Path) -> bool:
    """Whether equipoise wrote this ONNX file, which names its producer after its version."""
    if not path.is_file():
        return False
    name = _PRODUCER.encode()
    # Fields of a protocol buffer: each has its number and type, then its value.
    start = bytes([0x08, _IR_VERSION, 0x12, len(name)]) + name
    with path.open("rb") as file:
        return file.read(len(start)) == start


class Graph:
    """An ONNX graph under construction; values have names, numbers are float64 as in prediction."""

    def __init__(self) -> None:
        with needs("onnx", user="to_onnx", extra="onnx"):
            import onnx.checker
            import onnx.helper
            import onnx.numpy_helper
        self._onnx: Any = onnx
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: type, columns: int | None = None) -> str:
        """Declare an input of any number of rows: (rows,), or (rows, columns)."""
        if not name:
            raise InputError(
                "X must have names for all columns to be written as ONNX, got the empty name ''; "
                "rename the column and fit again"
            )
        if name in (given.name for given in self._inputs):
            name = f"sensitive.{name}"  # of a feature and a sensitive column with one name
        self._inputs.append(self._value(name, dtype, columns))
        return name

    def output(self, name: str, value: str, dtype: type, columns: int | None = None) -> None:
        """Declare ``value`` an output under this name."""
        if name in (given.name for given in self._inputs):
            raise InputError(
                f"X must not have a column called {name!r} to be written as ONNX, where an output "
                "has this name; rename the column and fit again"
            )
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, dtype, columns))

    def constant(self, value: ArrayLike) -> str:
        """Add a number or an array; text is an array of dtype object."""
        name = f"/constant {len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Apply an operator; return the name of its only output."""
        name = f"/value {len(self._nodes)}"
        make = self._onnx.helper.make_node
        self._nodes.append(make(operation, list(inputs), [name], domain=domain, **attributes))
        return name

    def cast(self, value: str, dtype: type) -> str:
        """Convert a value to another type."""
        return self.add("Cast", value, to=self._type(dtype))

    def column(self, value: str) -> str:
        """Turn (rows,) into (rows, 1)."""
        return self.add("Unsqueeze", value, self.constant([1]))

    def content(self, description: str) -> bytes:
        """Return the checked graph as the content of a file."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, "equipoise", self._inputs, self._outputs, self._constants
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*opset) for opset in _OPSETS.items()],
            ir_version=_IR_VERSION,
            producer_name=_PRODUCER,
            doc_string=description,
        )
        self._onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()  # type: ignore[no-any-return]

    def _value(self, name: str, dtype: type, columns: int | None) -> Any:
        shape = ["rows"] if columns is None else ["rows", columns]
        return self._onnx.helper.make_tensor_value_info(name, self._type(dtype), shape)

    def _type(self, dtype: type) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def add_encoding(graph: Graph, state: EncoderState, *, named: bool) -> str:
    """Add inputs and their encoding; return the encoded matrix (rows, p).

    If ``named``, every column is an input (rows,): float64 for numbers and booleans, NaN where
    missing; text for categories, "" where missing. Otherwise there is one float64 input X
    (rows, columns).
    """
    columns = _inputs(graph, state, named=named)
    blocks = []
    for position, name in enumerate(state.number_names):
        if state.constant[position] or state.families[name] == "empty":
            blocks.append(graph.add("Mul", _flag(graph, columns[name]), graph.constant(0.0)))
        else:
            filled = _filled(graph, columns[name], state.medians[name])
            blocks.append(_scaled(graph, filled, state, position, name))
    blocks += [_filled(graph, columns[name], state.medians[name]) for name in state.boolean_names]
    blocks += [_flag(graph, columns[name]) for name in state.flagged]
    wide = [graph.column(block) for block in blocks]
    for name, levels in state.levels.items():
        wide.append(_one_hot(graph, columns[name], levels, name))
    matrix = graph.add("Concat", *wide, axis=1)
    # Rounded to float32, the type of the encoder's own matrix.
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
        name: graph.add("Gather", matrix, graph.constant(position), axis=1)
        for position, name in enumerate(state.families)
    }


def _flag(graph: Graph, column: str) -> str:
    """1 where missing, else 0."""
    return graph.cast(graph.add("IsNaN", column), np.float64)


def _filled(graph: Graph, column: str, median: float) -> str:
    return graph.add("Where", graph.add("IsNaN", column), graph.constant(float(median)), column)


def _scaled(graph: Graph, column: str, state: EncoderState, position: int, name: str) -> str:
    learned = state.scaler
    if state.scaling == "rank":
        knots, scores = learned[f"knots_{position}"], learned[f"scores_{position}"]
        return _interpolated(graph, column, knots, scores, name)
    if state.scaling == "minmax":
        stretched = graph.add("Mul", column, graph.constant(learned["scale_"][position]))
        return graph.add("Add", stretched, graph.constant(learned["min_"][position]))
    if state.scaling == "standard":
        centered = graph.add("Sub", column, graph.constant(learned["mean_"][position]))
        return graph.add("Div", centered, graph.constant(learned["scale_"][position]))
    return column


def _interpolated(graph: Graph, column: str, knots: Floats, scores: Floats, name: str) -> str:
    """Piecewise linear map through (knots, scores), constant beyond them, as ``numpy.interp``.

    The piece is found by unrolled bisection: about log2(knots) operations on (rows,). Comparing
    every row with every knot would need rows x knots memory.
    """
    with np.errstate(over="ignore"):
        slopes = np.append(np.diff(scores) / np.diff(knots), 0.0)
    if not np.isfinite(slopes).all():
        raise InputError(
            f"X column {name!r} must have values further apart to be written as ONNX, got "
            "neighbors between which the slope of the rank score exceeds float64; rescale the "
            "column"
        )
    column = graph.add("Clip", column, graph.constant(knots[0]), graph.constant(knots[-1]))
    steps = int(np.ceil(np.log2(len(knots))))
    padding = np.full(2**steps - len(knots), np.inf)  # never reached, since the column is clipped
    ladder = graph.constant(np.concatenate([knots, padding]))
    # The last knot known not to lie above the value; zeros of the column's length at first.
    piece = graph.cast(graph.add("IsNaN", column), np.int64)
    for step in reversed(range(steps)):
        candidate = graph.add("Add", piece, graph.constant(2**step))
        reached = graph.add("GreaterOrEqual", column, graph.add("Gather", ladder, candidate))
        piece = graph.add("Where", reached, candidate, piece)
    start, slope, score = (
        graph.add("Gather", graph.constant(table), piece) for table in (knots, slopes, scores)
    )
    rise = graph.add("Mul", slope, graph.add("Sub", column, start))
    return graph.add("Add", rise, score)


def _one_hot(graph: Graph, column: str, levels: Levels, name: str) -> str:
    """0/1 columns (rows, width); all zeros for a category not seen in training."""
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
