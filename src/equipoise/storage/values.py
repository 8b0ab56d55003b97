"""Plain Python and NumPy values as JSON that reads back to equal values of the same types.

JSON has no tuples, no arrays with a dtype, no NaN and only text as keys. These are written as an
object with one key that names the type; a plain dict never is, so nothing is ambiguous.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError

#: Booleans, integers, floats, text, and objects (whose elements are values of their own).
_ARRAY_KINDS = "biufUTO"


def to_json(value: Any, *, argument: str) -> Any:
    """Return ``value`` as what ``json.dumps`` takes; errors call it ``argument``.

    >>> to_json((64, 64), argument="hidden")
    {'tuple': [64, 64]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, list | tuple):
        items = [to_json(item, argument=argument) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, Mapping):
        pairs = [[to_json(part, argument=argument) for part in pair] for pair in value.items()]
        return {"mapping": pairs}
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in _ARRAY_KINDS:
        dtype = "T" if value.dtype.kind == "T" else value.dtype.str
        return {"array": [dtype, to_json(value.tolist(), argument=argument)]}
    if isinstance(value, np.random.RandomState):
        name, key, *rest = value.get_state(legacy=True)
        return {"random_state": [name, [int(word) for word in key], *rest]}
    raise InputError(
        f"{argument} must be a plain value (number, text, tuple, list, dict, array) to be written "
        f"without pickle, got {type(value).__name__}; replace it with set_params before saving"
    )


def from_json(document: Any) -> Any:
    """Return the value that `to_json` wrote.

    >>> from_json({"tuple": [64, 64]})
    (64, 64)
    """
    if isinstance(document, list):
        return [from_json(item) for item in document]
    if not isinstance(document, dict):
        return document
    ((kind, content),) = document.items()
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(from_json(item) for item in content)
    if kind == "range":
        return range(*content)
    if kind == "mapping":
        return {from_json(key): from_json(value) for key, value in content}
    if kind == "array":
        return _array(*content)
    if kind == "random_state":
        state = np.random.RandomState()
        state.set_state(tuple(content))
        return state
    raise ValueError(f"no value is called {kind!r}")


def _array(dtype: str, values: list[Any]) -> NDArray[Any]:
    kind = np.dtype(dtype)
    if kind.kind not in _ARRAY_KINDS:
        raise ValueError(f"no array has dtype {dtype!r}")
    array = np.empty(len(values), dtype=kind)
    array[:] = from_json(values)
    return array
