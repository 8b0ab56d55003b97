"""Whose is what is already there: equipoise replaces only what it wrote itself.

Every command and function that writes asks `claim` first, and again just before it writes. What is
replaced stays complete until the new is: see `equipoise.storage.atomic`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from equipoise.errors import InputError
from equipoise.storage.atomic import is_leftover


def claim(
    path: Path,
    noun: str | None,
    *,
    foreign: str | None,
    overwrite: bool,
    argument: str = "--out",
    remedy: str = "give --overwrite",
) -> None:
    """Raise unless equipoise may write to ``path``: it is new, empty, or holds its own work.

    noun: what is written there, such as "a run"; None if that is never replaced. foreign: what is
    there that equipoise did not write, after "which", or None. overwrite: whether its own work may
    be replaced; ``remedy`` says how to allow that.
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if foreign is not None:
        rule = "be new" if noun is None else f"be new or hold {noun} that equipoise wrote"
        raise InputError(
            f"{argument} must {rule}, got '{path}', which {foreign}; choose another name"
        )
    if not overwrite:
        raise InputError(
            f"{argument} must be new, got '{path}', which holds {noun}; choose another name, or "
            f"{remedy}"
        )


def foreign_in(
    folder: Path, is_own: Callable[[str], bool], *, written: Collection[str] = ()
) -> str | None:
    """Say what is in a folder that equipoise did not write; None if nothing is.

    is_own: whether a name is that of a file that equipoise writes there. What killed processes left
    of files ``written`` is its own, too.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        return "is a file, not a folder"
    names = sorted(path.name for path in folder.iterdir())
    other = (name for name in names if not (is_own(name) or is_leftover(name, written)))
    return next((f"holds {name!r}" for name in other), None)
