"""Run folders: what a fit leaves on disk, and what is done with it later.

Each command of the command line is one function here, which returns an `Answer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, Union

if TYPE_CHECKING:
    import pandas as pd

#: Something to print: text, or a table that is laid out for the terminal.
Part: TypeAlias = Union[str, "pd.DataFrame"]
Say: TypeAlias = Callable[[Part], None]


#: Exit code where no model keeps the limits that were asked for.
NO_SUCH_MODEL = 3


@dataclass(frozen=True, eq=False)
class Answer:
    """What a command found."""

    parts: tuple[Part, ...]  # for people: paragraphs and tables
    document: Mapping[str, Any]  # for programs, as JSON has it
    code: int = 0  # the exit code of the command
