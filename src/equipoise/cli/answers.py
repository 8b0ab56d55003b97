"""What a command says: an answer on standard output, notes on standard error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer


@dataclass(frozen=True)
class Answer:
    """What a command found: text for people, a document for ``--json``, and the exit code."""

    text: str
    document: Mapping[str, Any]
    code: int = 0


def note(text: str) -> None:
    """Say something on the way to the answer; standard output stays free for the answer."""
    typer.echo(text, err=True)
