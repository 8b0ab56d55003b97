"""The state of an unfinished run in a file: tensors as arrays, everything around them as JSON."""

from __future__ import annotations

from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, NoReturn

import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.storage.atomic import checked_target, lock_beside, only_writer, remove_leftovers
from equipoise.storage.model_file import (
    Contents,
    FileKind,
    read_model_file,
    refuse_contents,
    write_model_file,
)
from equipoise.storage.values import from_json, to_json

CHECKPOINT = FileKind(
    argument="checkpoint",
    key="equipoise_checkpoint",
    noun="checkpoint",
    one="a checkpoint",
    writer="fit",
    remedy="remove it to start anew",
    remedy_of_version="resume with the version of equipoise that wrote it, or remove it",
)


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
            state = _put_together(contents.document["state"], contents)
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
        pairs = [
            [to_json(key, argument="checkpoint"), _take_apart(item, arrays)]
            for key, item in value.items()
        ]
        return {"mapping": pairs}
    if isinstance(value, list | tuple):
        items = [_take_apart(item, arrays) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    return {"value": to_json(value, argument="checkpoint")}


def _put_together(document: Any, contents: Contents) -> Any:
    if isinstance(document, list):
        return [_put_together(item, contents) for item in document]
    ((kind, content),) = document.items()
    if kind == "tensor":
        # A copy: arrays read from a file may lie in memory that must not be written to.
        return torch.from_numpy(contents.arrays[content].copy())
    if kind == "mapping":
        return {from_json(key): _put_together(item, contents) for key, item in content}
    if kind == "tuple":
        return tuple(_put_together(item, contents) for item in content)
    if kind == "value":
        return from_json(content)
    raise ValueError(f"no state is called {kind!r}")
