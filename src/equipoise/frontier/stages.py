"""One checkpoint for families that are trained one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from equipoise.storage import CheckpointFile

#: Under what name the state of a later family holds that of the finished one before it.
_BEFORE = "before"


@dataclass(frozen=True)
class Stage:
    """The part of a checkpoint that is of one family; printed, it names the file.

    The file holds the state of the family in training, so that any other run that is given the file
    finds out what wrote it; the state of the family before is inside it.

    Attributes
    ----------
    file : CheckpointFile
    later : bool
        Whether another family was trained before, the only one.
    """

    file: CheckpointFile
    later: bool

    def __str__(self) -> str:
        return str(self.file)

    def read(self) -> dict[str, Any] | None:
        """Return the state of this family, or None."""
        kept = self.file.read()
        if kept is None or not self.later:
            return None if kept is None else kept.get(_BEFORE, kept)
        return kept if _BEFORE in kept else None

    def refuse(self, error: Exception) -> NoReturn:
        """Say that the file holds no state of a run."""
        self.file.refuse(error)

    def write(self, state: dict[str, Any]) -> None:
        """Replace the state of this family."""
        if self.later:
            kept = self.file.read()
            assert kept is not None
            state = {**state, _BEFORE: kept.get(_BEFORE, kept)}
        self.file.write(state)
