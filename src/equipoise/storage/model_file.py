"""The one file format: a safetensors file with a JSON document and a checksum.

The document and the format version stand in the metadata of the safetensors header, so that any
tool for that format can look into the file. The checksum is the SHA-256 of the whole file, taken
with zeros in its own place; it finds damage before anything is interpreted. It is no signature:
what protects against a hostile file is that neither safetensors nor JSON can hold code.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.storage.atomic import (
    as_path,
    checked_target,
    lock_beside,
    only_writer,
    remove_leftovers,
    write_atomically,
)
from equipoise.storage.values import from_json, to_json

FORMAT_VERSION = "1"
_NO_DIGEST = "0" * 64
_DIGEST = re.compile(rb'"equipoise_sha256":"([0-9a-f]{64})"')
_LENGTH_BYTES = 8  # safetensors: length of the JSON header, little-endian, before the header
_LONGEST_HEADER = 100_000_000  # safetensors itself reads no longer one
_LONGEST_REASON = 300  # characters of an error, which may quote what a file holds


@dataclass(frozen=True, eq=False)
class Contents:
    """What a file holds: a document of JSON values, and arrays by name."""

    document: dict[str, Any]
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """A kind of file, never taken for another, and the words in which errors speak of it."""

    argument: str  # what a user calls its path
    key: str  # names the document in the header
    noun: str
    one: str
    writer: str
    remedy: str  # for a file that is not as it was written
    remedy_of_version: str  # for one of another format version


MODEL = FileKind(
    argument="path",
    key="equipoise_model",
    noun="model",
    one="a saved model",
    writer="save",
    remedy="save the model again",
    remedy_of_version="load it with the version of equipoise that saved it, or save it again",
)
CHECKPOINT = FileKind(
    argument="checkpoint",
    key="equipoise_checkpoint",
    noun="checkpoint",
    one="a checkpoint",
    writer="fit",
    remedy="remove it to start anew",
    remedy_of_version="resume with the version of equipoise that wrote it, or remove it",
)


def write_model_file(path: str | PathLike[str], contents: Contents, kind: FileKind = MODEL) -> None:
    """Write to ``path``, over nothing but an older file of this kind."""
    target = checked_target(path)
    if target.exists() and not _is_kind(target, kind):
        raise InputError(
            f"{kind.argument} must be new or name {kind.one}, got '{target}', which is something "
            "else; choose another name or remove the file yourself"
        )
    metadata = {
        "equipoise_format": FORMAT_VERSION,
        "equipoise_sha256": _NO_DIGEST,
        kind.key: json.dumps(contents.document, allow_nan=False),
    }
    # safetensors writes the memory as it lies, so it must lie in order.
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
    # In pieces, since a second copy of a large model may not fit beside the first.
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
                raise ValueError("the document is no object")
            return Contents(document, safetensors.numpy.load(content))
    except Exception as error:  # the checksum is right: another kind, or somebody made it by hand
        refuse_contents(path, error, kind)
    raise InputError(
        f"{kind.argument} must name a {kind.noun} of format version {FORMAT_VERSION}, got version "
        f"{version!r:.40} in '{path}'; {kind.remedy_of_version}"
    )


def refuse_contents(
    path: str | PathLike[str], error: Exception, kind: FileKind = MODEL
) -> NoReturn:
    """Say that a file is whole, yet not what `write_model_file` writes."""
    said = f"{type(error).__name__}: {error}"
    said = said if len(said) <= _LONGEST_REASON else f"{said[:_LONGEST_REASON]}..."
    raise InputError(
        f"{kind.argument} must name a {kind.noun} written by {kind.writer}, got '{path}', whose "
        f"checksum is right but whose contents are not a {kind.noun} ({said}); {kind.remedy}"
    ) from None


def _read(path: Path, kind: FileKind) -> bytes:
    try:
        # Whoever opens a pipe waits for its writer, and a device may have no end.
        ordinary = path.is_dir() or stat.S_ISREG(path.stat().st_mode)
        content = path.read_bytes() if ordinary else None
    except MemoryError:
        raise InputError(
            f"{kind.argument} must name {kind.one} that fits into memory, got '{path}' of "
            f"{path.stat().st_size:,} bytes; free some memory"
        ) from None
    except FileNotFoundError:
        raise InputError(
            f"{kind.argument} must name {kind.one}, got '{path}', where there is no file"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        said = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"{kind.argument} must name a file that can be read, got '{path}': {said}"
        ) from None
    if content is None:
        raise InputError(
            f"{kind.argument} must name {kind.one} in a file on disk, got '{path}', which is a "
            "pipe, socket or device; write what it gives into a file first"
        )
    return content


def _is_kind(path: Path, kind: FileKind) -> bool:
    """Whether a file begins as `write_model_file` begins one of this kind, intact or not."""
    if not path.is_file():  # reading from a pipe would wait for its writer
        return False
    with path.open("rb") as file:
        start = file.read(_LENGTH_BYTES)
        length = min(int.from_bytes(start, "little"), _LONGEST_HEADER)
        content = start + file.read(length)
        # Quotes inside the document are escaped, so a document cannot hold what is searched for.
        return _find_digest(content) is not None and f'"{kind.key}":"'.encode() in content


def _header(content: bytes) -> bytes:
    """The JSON header; empty or cut short where the length before it is wrong."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    return content[_LENGTH_BYTES : _LENGTH_BYTES + length]


def _find_digest(content: bytes) -> slice | None:
    """Where the digits of the checksum are; None unless there is exactly one in the header."""
    found = list(_DIGEST.finditer(_header(content)))
    if len(found) != 1:
        return None
    start, stop = found[0].span(1)
    return slice(start + _LENGTH_BYTES, stop + _LENGTH_BYTES)


class CheckpointFile:
    """One file that holds the latest state of a run, replaced whole at every writing.

    A state is made of tensors, plain values, lists, tuples and dicts.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = checked_target(path, CHECKPOINT.argument)

    def __str__(self) -> str:
        return str(self.path)

    def in_use(self) -> AbstractContextManager[None]:
        """Keep other processes, and other fits of this one, from writing to the file."""
        return only_writer(lock_beside(self.path), argument=CHECKPOINT.argument, what=self.path)

    def exists(self) -> bool:
        """Whether there is a file to go on from."""
        return self.path.exists()

    def write(self, state: dict[str, Any]) -> None:
        """Replace the file; whoever is killed meanwhile leaves the old one."""
        arrays: dict[str, NDArray[Any]] = {}
        document = {"state": _take_apart(state, arrays)}
        write_model_file(self.path, Contents(document, arrays), CHECKPOINT)

    def read(self) -> dict[str, Any] | None:
        """Return the state written last, on the CPU; None where there is no file yet."""
        remove_leftovers(self.path)
        if not self.exists():
            return None
        contents = read_model_file(self.path, CHECKPOINT)
        try:
            state = _put_together(contents.document["state"], contents.arrays)
            if not isinstance(state, dict):
                raise ValueError("a state has parts by name")
        except Exception as error:  # the checksum is right: somebody made this file by hand
            self.refuse(error)
        return state

    def refuse(self, error: Exception) -> NoReturn:
        """Say that the file is whole, yet holds no state of a run."""
        refuse_contents(self.path, error, CHECKPOINT)


def _take_apart(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return ``value`` as JSON in which numbers stand for the tensors, put into ``arrays``."""
    if isinstance(value, Tensor):
        name = str(len(arrays))
        arrays[name] = value.detach().cpu().numpy()
        return {"tensor": name}
    if isinstance(value, dict):
        keys = [to_json(key, argument="checkpoint") for key in value]
        items = [_take_apart(item, arrays) for item in value.values()]
        return {"mapping": [list(pair) for pair in zip(keys, items, strict=True)]}
    if isinstance(value, list | tuple):
        items = [_take_apart(item, arrays) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    return {"value": to_json(value, argument="checkpoint")}


def _put_together(document: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(document, list):
        return [_put_together(item, arrays) for item in document]
    ((kind, content),) = document.items()
    if kind == "tensor":
        # A copy: arrays read from a file may lie in memory that must not be written to.
        return torch.from_numpy(arrays[content].copy())
    if kind == "mapping":
        return {from_json(key): _put_together(item, arrays) for key, item in content}
    if kind == "tuple":
        return tuple(_put_together(item, arrays) for item in content)
    if kind == "value":
        return from_json(content)
    raise ValueError(f"no state is called {kind!r}")
