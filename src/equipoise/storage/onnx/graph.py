"""Putting an ONNX graph together, one operation at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError

if TYPE_CHECKING:
    import onnx

#: Versions of the operator sets and the file format: of 2022, which runtimes in use know.
_OPSETS = {"": 17, "ai.onnx.ml": 3}
_IR_VERSION = 8


class Graph:
    """A growing ONNX graph; every value goes by a name.

    Numbers are float64 throughout, as in prediction itself.
    """

    def __init__(self) -> None:
        self._onnx = _import_onnx()
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
        self._inputs.append(self._value(name, dtype, columns))
        return name

    def output(self, name: str, value: str, dtype: type, columns: int | None = None) -> None:
        """Declare ``value`` an output under this name."""
        if name in (given.name for given in self._inputs):
            raise InputError(
                f"X must not have a column called {name!r} to be written as ONNX, where that is "
                "the name of an output; rename the column and fit again"
            )
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, dtype, columns))

    def constant(self, array: NDArray[Any]) -> str:
        """Add an array; text is an array of dtype object."""
        name = f"/constant {len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Apply an operator; return the name of its only output."""
        name = f"/value {len(self._nodes)}"
        self._nodes.append(
            self._onnx.helper.make_node(
                operation, list(inputs), [name], domain=domain, **attributes
            )
        )
        return name

    def cast(self, value: str, dtype: type) -> str:
        """Convert to another type."""
        return self.add("Cast", value, to=self._type(dtype))

    def column(self, value: str) -> str:
        """Turn (rows,) into (rows, 1)."""
        return self.add("Unsqueeze", value, self.constant(np.array([1])))

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
            producer_name="equipoise",
            doc_string=description,
        )
        self._onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString()
        return content

    def _value(self, name: str, dtype: type, columns: int | None) -> onnx.ValueInfoProto:
        shape = ["rows"] if columns is None else ["rows", columns]
        value: onnx.ValueInfoProto = self._onnx.helper.make_tensor_value_info(
            name, self._type(dtype), shape
        )
        return value

    def _type(self, dtype: type) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _import_onnx() -> Any:
    try:
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ModuleNotFoundError as absent:
        if absent.name is None or absent.name.split(".")[0] != "onnx":
            raise
        raise InputError(
            'to_onnx needs onnx, which is not installed; pip install "equipoise[onnx]"'
        ) from None
    return onnx
