"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from equipoise.errors import InputError


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that may be written: in a folder that is there, not one itself."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"path must name a file, got the folder '{target}'; add a file name")
    if not target.parent.is_dir():
        raise InputError(
            f"path must lie in a folder that exists, got '{target}'; create '{target.parent}' first"
        )
    return target


def write_atomically(target: Path, content: bytes) -> None:
    """Put ``content`` into a new file beside ``target``, then rename it.

    Whoever reads ``target`` meanwhile, or after a crash, finds the old file or the new one.
    """
    # "x" with a name of our own, not tempfile: that would make the file unreadable to others.
    beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
