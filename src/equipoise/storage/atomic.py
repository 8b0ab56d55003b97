"""Write a file completely or not at all, by one process at a time, and over nobody else's work.

Every command and function that writes asks `claim` first, and again just before it writes: what
equipoise did not write itself is never replaced.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from equipoise.errors import InputError

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        # Far beyond the end of the file, because a locked part cannot be read.
        os.lseek(file, 1 << 30, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


#: Windows can neither rename nor remove an open file.
_KEEPS_OPEN_FILES = os.name == "nt"
#: Endings of the names of unfinished files and of locks.
_UNFINISHED, _LOCKED = ".part", ".lock"
_HEXADECIMAL = "[0-9a-f]" * 32
#: Errors of a system where another process holds the lock, and where there are no locks at all.
_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def as_path(path: Any, argument: str = "path") -> Path:
    """Return a path; errors call it ``argument``."""
    try:
        return Path(path)
    except TypeError:
        raise InputError(
            f"{argument} must be the path of a file, got {type(path).__name__}; pass text or a Path"
        ) from None


def checked_target(path: str | os.PathLike[str], argument: str = "path") -> Path:
    """Return the path of a file to write; its folder must exist, and it must not be a folder."""
    target = as_path(path, argument)
    if target.is_dir():
        raise InputError(f"{argument} must name a file, got the folder '{target}'; add a file name")
    if not target.parent.is_dir():
        raise InputError(
            f"{argument} must lie in a folder that exists, got '{target}'; create "
            f"'{target.parent}' first"
        )
    return target


def write_atomically(target: Path, content: bytes) -> None:
    """Write a file; readers find the old or the new one, never a part of it, even after a crash."""
    with written_beside(target) as beside:
        beside.write_bytes(content)


@contextmanager
def written_beside(target: Path) -> Iterator[Path]:
    """Yield the path of a new, empty file, which is renamed to ``target`` at the end.

    After an error it is removed and ``target`` stays as it was. Unfinished files of killed
    processes are removed first.
    """
    remove_leftovers(target)
    beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}{_UNFINISHED}")
    # Not tempfile, whose files other users cannot read.
    file = beside.open("xb")
    try:
        with file:
            # The lock keeps `remove_leftovers` of other processes from removing the file.
            if not _KEEPS_OPEN_FILES:
                with suppress(OSError):  # some file systems have no locks
                    _lock(file.fileno())
            yield beside
            os.fsync(file.fileno())
            if not _KEEPS_OPEN_FILES:
                beside.replace(target)
        if _KEEPS_OPEN_FILES:
            beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def written_folder(target: Path, check: Callable[[], None]) -> Iterator[Path]:
    """Yield a new folder beside ``target`` that takes its place in the end, whole or not at all.

    ``check`` raises if ``target`` must stay. An older folder is set aside while the new one takes
    its place; after an error it is back, and the new one is removed.
    """
    new, old = _beside(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with only_writer(lock_beside(target), argument="--out", what=target):
        _put_back(target)
        check()
        new.mkdir()
        try:
            yield new
            check()
            if target.exists():
                target.replace(old)
            new.replace(target)
        finally:
            _put_back(target)


def put_back(target: Path) -> None:
    """Put back what a process had set aside that was killed in `written_folder`."""
    if any(each.exists() for each in _beside(target)):
        with only_writer(lock_beside(target), argument="--out", what=target):
            _put_back(target)


def _put_back(target: Path) -> None:
    """Put the older folder back unless the new one is in its place; remove what is left."""
    new, old = _beside(target)
    if old.exists() and not target.exists():
        old.replace(target)
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)


def _beside(target: Path) -> tuple[Path, Path]:
    """Paths beside a folder: of the new one, and of the older one while it is set aside."""
    stem = f".{target.name}.equipoise"
    return target.with_name(f"{stem}-new"), target.with_name(f"{stem}-old")


def remove_leftovers(target: Path) -> None:
    """Remove unfinished files of processes that were killed while they wrote ``target``."""
    for beside in target.parent.glob(f".{glob.escape(target.name)}.{_HEXADECIMAL}{_UNFINISHED}"):
        with suppress(OSError):  # gone by now, or in use
            if _KEEPS_OPEN_FILES:
                beside.unlink()
            else:
                with beside.open("r+b") as file:
                    _lock(file.fileno())
                    beside.unlink()


def lock_beside(target: Path) -> Path:
    """Path of the lock on a single file, for `only_writer`."""
    return target.with_name(f".{target.name}{_LOCKED}")


def is_leftover(name: str, targets: Collection[str]) -> bool:
    """Whether a killed process may have left this file while it wrote one of ``targets``.

    >>> is_leftover(".a.csv.0123456789abcdef0123456789abcdef.part", ["a.csv"])
    True
    >>> is_leftover(".a.csv.lock", ["a.csv"])
    True
    """
    ending = rf"\.{_HEXADECIMAL}{re.escape(_UNFINISHED)}|{re.escape(_LOCKED)}"
    found = re.fullmatch(rf"\.(.+?)({ending})", name)
    return found is not None and found[1] in targets


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


@contextmanager
def only_writer(lock: Path, *, argument: str, what: Path, wait: float = 0.0) -> Iterator[None]:
    """Be the only process that writes to ``what``, or raise an `InputError` that names the other.

    The operating system locks the file ``lock`` and frees it if the process is killed. The file
    holds the number of the process and is removed at the end. Errors call ``what`` by
    ``argument``; ``wait`` is in seconds.
    """
    until = time.monotonic() + wait
    while (held := _take(lock)) is None:
        if time.monotonic() >= until:
            raise InputError(
                f"{argument} must not be in use, got '{what}', which {_holder(lock)} is writing "
                "to; wait until that has ended, or choose another name"
            )
        time.sleep(0.02)
    try:
        yield
    finally:
        if _KEEPS_OPEN_FILES:
            os.close(held)
        with suppress(OSError):  # its folder was removed, or we may no longer write there
            lock.unlink()
        if not _KEEPS_OPEN_FILES:
            os.close(held)


def _take(lock: Path) -> int | None:
    """Return the open, locked file with our process number; None if another process has it."""
    while True:
        held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _try_lock(held):
                os.close(held)
                return None
            # The previous holder may have removed the file after it was opened here.
            if _KEEPS_OPEN_FILES or _same_file(held, lock):
                os.ftruncate(held, 0)
                os.write(held, f"{os.getpid()}\n".encode())
                return held
        except OSError:  # no room for the number
            os.close(held)
            lock.unlink(missing_ok=True)
            raise
        os.close(held)


def _same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _holder(lock: Path) -> str:
    try:
        number = lock.read_text("ascii").strip()
    except (OSError, ValueError):
        number = ""
    return f"process {number}" if number.isdigit() else "another process"


def _try_lock(file: int) -> bool:
    """Lock an open file; return False if another process has locked it."""
    try:
        _lock(file)
    except OSError as error:
        if error.errno in _HELD:
            return False
        if error.errno not in _WITHOUT_LOCKS:
            raise
        warnings.warn(
            "this file system has no locks; make sure that no other process writes to the same "
            "place",
            stacklevel=4,
        )
    return True
