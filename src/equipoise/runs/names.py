"""Names as people type them."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

Name = TypeVar("Name", str, str | None)


def known_name(name: Name, known: Collection[str]) -> Name:
    """The known name that was meant, case apart; or the name as it came, for others to refuse.

    >>> known_name("ks-gsp", ["KS-GSP", "SP"])
    'KS-GSP'
    """
    if name is None or name in known:
        return name
    alike = [each for each in known if each.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else name


def command_line(*parts: str | Path) -> str:
    """Return a command line as it can be typed; a path is never taken for an option.

    >>> command_line("equipoise", "select", Path("my run"))
    "equipoise select 'my run'"
    >>> command_line("equipoise", "select", Path("-run"))
    'equipoise select ./-run'
    """
    return shlex.join(
        f"./{part}" if isinstance(part, Path) and str(part).startswith("-") else str(part)
        for part in parts
    )
