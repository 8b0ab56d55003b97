"""Writing a file whole or not at all."""

from __future__ import annotations

import glob
import os
import uuid
from pathlib import Path

from equipoise.errors import InputError

#: How names of files end that are being written.
_UNFINISHED = ".part"


def checked_target(path: str | os.PathLike[str], argument: str = "path") -> Path:
    """Return the path of a file that may be written: in a folder that is there, not one itself.

    Errors call it ``argument``.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{argument} must name a file, got the folder '{target}'; add a file name")
    if not target.parent.is_dir():
        raise InputError(
            f"{argument} must lie in a folder that exists, got '{target}'; create "
            f"'{target.parent}' first"
        )
    return target


def remove_leftovers(target: Path) -> None:
    """Remove what processes left beside ``target`` that were killed while they wrote it."""
    hexadecimal = "[0-9a-f]" * 32
    for beside in target.parent.glob(f".{glob.escape(target.name)}.{hexadecimal}{_UNFINISHED}"):
        beside.unlink(missing_ok=True)


def write_atomically(target: Path, content: bytes) -> None:
    """Put ``content`` into a new file beside ``target``, then rename it.

    Whoever reads ``target`` meanwhile, or after a crash, finds the old file or the new one.
    """
    # "x" with a name of our own, not tempfile: that would make the file unreadable to others.
    beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}{_UNFINISHED}")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
