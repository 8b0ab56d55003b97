"""The one file format: a safetensors file with a JSON document and a checksum.

The document and the format version are in the metadata of the safetensors header, so that any tool
for that format can read them. The checksum is the SHA-256 of the whole file with zeros in place of
the checksum; it finds damage before anything is interpreted. It is no signature. A hostile file
cannot run code, because neither safetensors nor JSON can hold any.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import stat
import types
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.storage.atomic import (
    as_path,
    checked_target,
    claim,
    lock_beside,
    only_writer,
    remove_leftovers,
    write_atomically,
)

FORMAT_VERSION = "1"
_NO_DIGEST = "0" * 64
_DIGEST = re.compile(rb'"equipoise_sha256":"([0-9a-f]{64})"')
_LENGTH_BYTES = 8  # safetensors: length of the JSON header, little-endian, before the header
_LONGEST_HEADER = 100_000_000  # the limit of safetensors itself
_LONGEST_REASON = 300  # characters of an error, which may quote the file
#: Booleans, integers, floats, text, and objects (each element is written as a value).
_ARRAY_KINDS = "biufUTO"
#: Largest size in bytes of an array of fixed-width text, whatever width a document claims.
_LARGEST_TEXT = 1 << 26
_STATE_WORDS = 624  # of the Mersenne Twister

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Contents:
    """The contents of a file: a document of JSON values, and arrays by name."""

    document: dict[str, Any]
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class FileKind:
    """A kind of file, and the words for it in errors."""

    argument: str  # the argument that gives its path
    key: str  # name of the document in the header
    noun: str
    writer: str
    remedy: str  # if the file is damaged


MODEL = FileKind("path", "equipoise_model", "model", "save", "save the model again")
CHECKPOINT = FileKind(
    "checkpoint", "equipoise_checkpoint", "checkpoint", "fit", "remove it to start anew"
)


def write_model_file(path: str | PathLike[str], contents: Contents, kind: FileKind = MODEL) -> None:
    """Write to ``path``; only an older file of this kind is overwritten."""
    target = checked_target(path)
    foreign = None if _is_kind(target, kind) else "is another kind of file"
    claim(target, f"a {kind.noun}", foreign=foreign, overwrite=True, argument=kind.argument)
    metadata = {
        "equipoise_format": FORMAT_VERSION,
        "equipoise_sha256": _NO_DIGEST,
        kind.key: json.dumps(contents.document, allow_nan=False),
    }
    # safetensors writes memory as it is, so arrays must be contiguous.
    arrays = {name: np.array(array, order="C") for name, array in contents.arrays.items()}
    content = safetensors.numpy.save(arrays, metadata=metadata)
    place = _find_digest(content)
    assert place is not None
    digest = hashlib.sha256(content).hexdigest().encode()
    write_atomically(target, content[: place.start] + digest + content[place.stop :])


def read_model_file(path: str | PathLike[str], kind: FileKind = MODEL) -> Contents:
    """Read a file that `write_model_file` wrote; anything else is an `InputError`."""
    content = _read(as_path(path, kind.argument), kind)
    place = _find_digest(content)
    if place is None:
        raise InputError(
            f"{kind.argument} must name a {kind.noun} written by {kind.writer}, got '{path}', "
            "which is another kind of file or whose beginning is damaged; copy it again or "
            f"{kind.remedy}"
        )
    # In pieces, since a second copy of a large model may not fit into memory.
    digest, view = hashlib.sha256(), memoryview(content)
    for piece in (view[: place.start], _NO_DIGEST.encode(), view[place.stop :]):
        digest.update(piece)
    if digest.hexdigest().encode() != content[place]:
        raise InputError(
            f"{kind.argument} must name an undamaged {kind.noun}, got '{path}', whose checksum "
            f"does not match its {len(content)} bytes; copy it again or {kind.remedy}"
        )
    try:
        metadata = json.loads(_header(content))["__metadata__"]
        version = metadata["equipoise_format"]
        if version == FORMAT_VERSION:
            document = json.loads(metadata[kind.key])
            if not isinstance(document, dict):
                raise ValueError("the document is not an object")
            return Contents(document, safetensors.numpy.load(content))
    except Exception as error:  # the checksum is right: another kind of file, or a forged one
        refuse_contents(path, error, kind)
    raise InputError(
        f"{kind.argument} must name a {kind.noun} of format version {FORMAT_VERSION}, got version "
        f"{version!r:.40} in '{path}'; load it with the version of equipoise that wrote it, or "
        f"{kind.remedy}"
    )


def refuse_contents(
    path: str | PathLike[str], error: Exception, kind: FileKind = MODEL
) -> NoReturn:
    """Say that a file is undamaged, but was not written by `write_model_file`."""
    said = f"{type(error).__name__}: {error}"
    said = said if len(said) <= _LONGEST_REASON else f"{said[:_LONGEST_REASON]}..."
    raise InputError(
        f"{kind.argument} must name a {kind.noun} written by {kind.writer}, got '{path}', whose "
        f"checksum is right but whose contents are not a {kind.noun} ({said}); {kind.remedy}"
    ) from None


def _read(path: Path, kind: FileKind) -> bytes:
    try:
        # Reading a pipe would wait for its writer, and a device may have no end.
        ordinary = path.is_dir() or stat.S_ISREG(path.stat().st_mode)
        content = path.read_bytes() if ordinary else None
    except MemoryError:
        raise InputError(
            f"{kind.argument} must name a {kind.noun} that fits into memory, got '{path}' of "
            f"{path.stat().st_size:,} bytes; free some memory"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: an impossible name
        said = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"{kind.argument} must name a {kind.noun} that can be read, got '{path}' ({said}); "
            "check the name"
        ) from None
    if content is None:
        raise InputError(
            f"{kind.argument} must name a {kind.noun} in a file on disk, got '{path}', which is a "
            "pipe, socket or device; write its output into a file first"
        )
    return content


def _is_kind(path: Path, kind: FileKind) -> bool:
    """Whether a file begins like one of this kind; it may still be damaged."""
    if not path.is_file():  # reading from a pipe would wait for its writer
        return False
    with path.open("rb") as file:
        start = file.read(_LENGTH_BYTES)
        length = min(int.from_bytes(start, "little"), _LONGEST_HEADER)
        content = start + file.read(length)
        # Quotes inside the document are escaped, so the text searched for cannot occur there.
        return _find_digest(content) is not None and f'"{kind.key}":"'.encode() in content


def _header(content: bytes) -> bytes:
    """The JSON header; empty or truncated if the length before it is wrong."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    return content[_LENGTH_BYTES : _LENGTH_BYTES + length]


def _find_digest(content: bytes) -> slice | None:
    """Position of the checksum; None unless the header has exactly one."""
    found = list(_DIGEST.finditer(_header(content)))
    if len(found) != 1:
        return None
    start, stop = found[0].span(1)
    return slice(start + _LENGTH_BYTES, stop + _LENGTH_BYTES)


class CheckpointFile:
    """The file with the latest state of a run, as `to_json` takes it; each write replaces it."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = checked_target(path, CHECKPOINT.argument)

    def __str__(self) -> str:
        return str(self.path)

    def in_use(self) -> AbstractContextManager[None]:
        """Keep other processes, and other fits in this process, from writing to the file."""
        return only_writer(lock_beside(self.path), argument=CHECKPOINT.argument, what=self.path)

    def exists(self) -> bool:
        """Whether there is a file to continue from."""
        return self.path.exists()

    def write(self, state: dict[str, Any]) -> None:
        """Replace the file; if the process is killed meanwhile, the old file stays."""
        arrays: dict[str, NDArray[Any]] = {}
        document = {"state": to_json(state, argument=CHECKPOINT.argument, arrays=arrays)}
        write_model_file(self.path, Contents(document, arrays), CHECKPOINT)

    def read(self) -> dict[str, Any] | None:
        """Return the state written last, on the CPU; None if there is no file yet."""
        remove_leftovers(self.path)
        if not self.exists():
            return None
        contents = read_model_file(self.path, CHECKPOINT)
        try:
            state = from_json(contents.document["state"], contents.arrays)
            if not isinstance(state, dict):
                raise ValueError("a state must be a dict")
        except Exception as error:  # the checksum is right: a forged file
            self.refuse(error)
        return state

    def refuse(self, error: Exception) -> NoReturn:
        """Say that the file is undamaged, but holds no state of a run."""
        refuse_contents(self.path, error, CHECKPOINT)


def to_json(value: Any, *, argument: str, arrays: dict[str, NDArray[Any]] | None = None) -> Any:
    """Return ``value`` in a form that ``json.dumps`` takes; errors call it ``argument``.

    JSON has no tuples, no arrays with a dtype and no NaN, and its keys are text. Such values become
    an object with one key, which names the type. A dict becomes such an object as well, so nothing
    is ambiguous. Tensors are put into ``arrays``, if given, and written as their name there.

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
        items = [to_json(item, argument=argument, arrays=arrays) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, Mapping):
        pairs = to_json(list(map(list, value.items())), argument=argument, arrays=arrays)
        return {"mapping": pairs}
    if isinstance(value, Tensor) and arrays is not None:
        name = str(len(arrays))
        arrays[name] = value.detach().cpu().numpy()
        return {"tensor": name}
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


def from_json(document: Any, arrays: Mapping[str, NDArray[Any]] | None = None) -> Any:
    """Return the value that `to_json` wrote; ``arrays`` hold its tensors.

    >>> from_json({"tuple": [64, 64]})
    (64, 64)
    """
    if isinstance(document, list):
        return [from_json(item, arrays) for item in document]
    if not isinstance(document, dict):
        return document
    ((kind, content),) = document.items()
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(from_json(item, arrays) for item in content)
    if kind == "value":  # older checkpoints wrap values that are no tensors
        return from_json(content)
    if kind == "tensor" and arrays is not None:
        # A copy, because arrays read from a file may be read-only.
        return torch.from_numpy(arrays[content].copy())
    if kind == "range":
        if not all(holds(bound, int) for bound in content):
            raise ValueError("the bounds of a range are wrong")
        return range(*content)
    if kind == "mapping":
        return {from_json(key): from_json(value, arrays) for key, value in content}
    if kind == "array":
        return _array(*content)
    if kind == "random_state":
        return _random_state(*content)
    raise ValueError(f"there is no type {kind!r}")


def _array(dtype: str, values: list[Any]) -> NDArray[Any]:
    """The array of these values; a forged document must not make it larger than its text."""
    kind = np.dtype(dtype) if isinstance(dtype, str) else np.dtype("V")
    if kind.kind not in _ARRAY_KINDS or not isinstance(values, list):
        raise ValueError(f"no array of dtype {dtype!r} can be made of this")
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
    """A random state, checked because NumPy would read beyond the words of a wrong one."""
    words = isinstance(key, list) and len(key) == _STATE_WORDS
    if not words or not all(holds(word, int) and 0 <= word < 2**32 for word in key):
        raise ValueError("the words of a random state are wrong")
    if not holds(position, int) or not 0 <= position <= _STATE_WORDS:
        raise ValueError("the position of a random state is wrong")
    if not holds(has_gauss, int) or not holds(cached, float):
        raise ValueError("the cached number of a random state is wrong")
    state = np.random.RandomState()
    state.set_state((name, np.array(key, np.uint32), position, int(has_gauss > 0), cached))
    return state


def made(kind: type[Made], values: Mapping[str, Any]) -> Made:
    """Return a dataclass with these values; each must have the declared type of its field.

    A document may hold anything. A wrong value must be refused now, not when it is used later.
    """
    hints = get_type_hints(kind)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in values and not holds(values[field.name], hints[field.name]):
            raise ValueError(f"{field.name} is not of type {hints[field.name]}")
    return kind(**values)


def holds(value: Any, hint: Any) -> bool:
    """Whether a value has an annotated type; whole numbers must fit into 64 bits.

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
