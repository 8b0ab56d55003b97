"""Plain Python and NumPy values as JSON that reads back to equal values of the same types.

JSON has no tuples, no arrays with a dtype, no NaN and only text as keys. These are written as an
object with one key that names the type; a plain dict never is, so nothing is ambiguous.
"""

from __future__ import annotations

import math
import types
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError

#: Booleans, integers, floats, text, and objects (whose elements are values of their own).
_ARRAY_KINDS = "biufUTO"
#: Bytes that an array of text of fixed width may take, whatever width a document claims.
_LARGEST_TEXT = 1 << 26
_STATE_WORDS = 624  # of the Mersenne Twister

Made = TypeVar("Made")


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
        if not all(holds(bound, int) for bound in content):
            raise ValueError("the bounds of a range are wrong")
        return range(*content)
    if kind == "mapping":
        return {from_json(key): from_json(value) for key, value in content}
    if kind == "array":
        return _array(*content)
    if kind == "random_state":
        return _random_state(*content)
    raise ValueError(f"no value is called {kind!r}")


def _array(dtype: str, values: list[Any]) -> NDArray[Any]:
    """The array of these values; none is larger than what the document spells out."""
    kind = np.dtype(dtype) if isinstance(dtype, str) else np.dtype("V")
    if kind.kind not in _ARRAY_KINDS or not isinstance(values, list):
        raise ValueError(f"no array has dtype {dtype!r}")
    items = [from_json(value) for value in values]
    if kind.kind != "O":
        plain = str if kind.kind in "UT" else bool | int | float
        if not all(isinstance(item, plain) for item in items):
            raise ValueError(f"an array of dtype {dtype!r} holds something else")
    if kind.kind == "U" and kind.itemsize * len(items) > _LARGEST_TEXT:
        raise ValueError(f"an array of {len(items)} texts claims {kind.itemsize} bytes for each")
    array = np.empty(len(items), dtype=kind)
    for place, item in enumerate(items):
        array[place] = item
    return array


def _random_state(
    name: str, key: Sequence[int], position: int, has_gauss: int, cached: float
) -> np.random.RandomState:
    """NumPy believes what a state says, and would read behind its words."""
    words = isinstance(key, list) and len(key) == _STATE_WORDS
    if not words or not all(holds(word, int) and 0 <= word < 2**32 for word in key):
        raise ValueError("the words of a random state are wrong")
    if not holds(position, int) or not 0 <= position <= _STATE_WORDS:
        raise ValueError("the position of a random state is wrong")
    if not holds(has_gauss, int) or not holds(cached, float):
        raise ValueError("the number kept by a random state is wrong")
    state = np.random.RandomState()
    state.set_state((name, np.array(key, np.uint32), position, int(has_gauss > 0), cached))
    return state


def made(kind: type[Made], values: Mapping[str, Any]) -> Made:
    """Return the dataclass of these values, each of the type that its field is declared to have.

    A document may hold anything; what is made of it must not fail when it is used much later.
    """
    hints = get_type_hints(kind)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in values and not holds(values[field.name], hints[field.name]):
            raise ValueError(f"{field.name} is no {hints[field.name]}")
    return kind(**values)


def holds(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; whole numbers must fit into 64 bits.

    >>> holds((64, 64), tuple[int, ...]), holds({"age": None}, Mapping[str, float])
    (True, False)
    """
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(holds(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if parts[-1] is Ellipsis:
            return all(holds(item, parts[0]) for item in value)
        return len(value) == len(parts) and all(map(holds, value, parts))
    if origin is np.ndarray:
        (scalar,) = get_args(parts[1])
        return isinstance(value, np.ndarray) and (scalar is Any or value.dtype == scalar)
    if origin is not None:  # a mapping
        pairs = value.items() if isinstance(value, dict) else [(None, None)]
        return all(holds(key, parts[0]) and holds(item, parts[1]) for key, item in pairs)
    if hint is Hashable:
        return value is None or isinstance(value, bool | int | float | str)
    if hint in (int, float):
        number = isinstance(value, hint | int) and not isinstance(value, bool)
        return number and (isinstance(value, float) or abs(value) < 2**63)
    return isinstance(value, type(None) if hint is None else hint)
