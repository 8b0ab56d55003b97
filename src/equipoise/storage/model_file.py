"""The file format of fitted models: one safetensors file, with a JSON document and a checksum.

The document and the format version stand in the metadata of the safetensors header, so that any
tool for that format can look into the file. The checksum is the SHA-256 of the whole file, taken
with zeros in its own place; it finds damage before anything is interpreted. It is no signature:
what protects against a hostile file is that neither safetensors nor JSON can hold code.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.storage.atomic import checked_target, write_atomically

FORMAT_VERSION = "1"
_NO_DIGEST = "0" * 64
_DIGEST = re.compile(rb'"equipoise_sha256":"([0-9a-f]{64})"')
_LENGTH_BYTES = 8  # safetensors: length of the JSON header, little-endian, before the header
_LONGEST_HEADER = 100_000_000  # safetensors itself reads no longer one


@dataclass(frozen=True, eq=False)
class Contents:
    """What a file holds: a document of JSON values, and arrays by name."""

    document: dict[str, Any]
    arrays: Mapping[str, NDArray[Any]]


def write_model_file(path: str | PathLike[str], contents: Contents) -> None:
    """Write to ``path``, over nothing but an older model."""
    target = checked_target(path)
    if target.exists() and not _is_model(target):
        raise InputError(
            f"path must be new or name a saved model, got '{target}', which is something else; "
            "choose another name or remove the file yourself"
        )
    metadata = {
        "equipoise_format": FORMAT_VERSION,
        "equipoise_sha256": _NO_DIGEST,
        "equipoise_model": json.dumps(contents.document, allow_nan=False),
    }
    # safetensors writes the memory as it lies, so it must lie in order.
    arrays = {name: np.array(array, order="C") for name, array in contents.arrays.items()}
    content = safetensors.numpy.save(arrays, metadata=metadata)
    place = _find_digest(content)
    assert place is not None
    digest = hashlib.sha256(content).hexdigest().encode()
    write_atomically(target, content[: place.start] + digest + content[place.stop :])


def read_model_file(path: str | PathLike[str]) -> Contents:
    """Read a file that `write_model_file` wrote; anything else is an `InputError`."""
    content = _read(Path(path))
    place = _find_digest(content)
    if place is None:
        raise InputError(
            f"path must name a model written by save, got '{path}', which is another kind of file "
            "or whose beginning is damaged; copy it again or save the model again"
        )
    blank = content[: place.start] + _NO_DIGEST.encode() + content[place.stop :]
    if hashlib.sha256(blank).hexdigest().encode() != content[place]:
        raise InputError(
            f"path must name an undamaged model, got '{path}', whose checksum does not match its "
            f"{len(content)} bytes; copy it again or save the model again"
        )
    try:
        metadata = json.loads(_header(content))["__metadata__"]
        version = metadata["equipoise_format"]
        if version == FORMAT_VERSION:
            document = json.loads(metadata["equipoise_model"])
            return Contents(document, safetensors.numpy.load(content))
    except Exception as error:  # the checksum is right: somebody made this file by hand
        refuse_contents(path, error)
    raise InputError(
        f"path must name a model of format version {FORMAT_VERSION}, got version {version!r} in "
        f"'{path}'; load it with the version of equipoise that saved it, or save it again"
    )


def refuse_contents(path: str | PathLike[str], error: Exception) -> NoReturn:
    """Say that a file is whole, yet not what `write_model_file` writes."""
    raise InputError(
        f"path must name a model written by save, got '{path}', whose checksum is right but whose "
        f"contents are not a model ({type(error).__name__}: {error}); save the model again"
    ) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"path must name a saved model, got '{path}', where there is no file"
        ) from None
    except OSError as error:
        raise InputError(
            f"path must name a file that can be read, got '{path}': {error.strerror}"
        ) from None


def _is_model(path: Path) -> bool:
    """Whether a file begins as `write_model_file` begins one, intact or not."""
    with path.open("rb") as file:
        start = file.read(_LENGTH_BYTES)
        length = min(int.from_bytes(start, "little"), _LONGEST_HEADER)
        return _find_digest(start + file.read(length)) is not None


def _header(content: bytes) -> bytes:
    """The JSON header; empty or cut short where the length before it is wrong."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    return content[_LENGTH_BYTES : _LENGTH_BYTES + length]


def _find_digest(content: bytes) -> slice | None:
    """Where the digits of the checksum are; None unless there is exactly one in the header.

    Quotes inside the document are escaped, so it can not hold what is searched for.
    """
    found = list(_DIGEST.finditer(_header(content)))
    if len(found) != 1:
        return None
    start, stop = found[0].span(1)
    return slice(start + _LENGTH_BYTES, stop + _LENGTH_BYTES)
