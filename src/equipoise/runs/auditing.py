"""Auditing the scores in a data file, and writing what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.auditing import Audit, audit
from equipoise.errors import InputError
from equipoise.files import read_table
from equipoise.files.columns import refuse_unknown
from equipoise.files.writer import spreadsheet_safe
from equipoise.storage.atomic import is_leftover, only_writer, write_atomically

PAGE, TABLE, DOCUMENT = "audit.html", "audit.csv", "audit.json"
FILES = (PAGE, TABLE, DOCUMENT)
_LOCK = ".equipoise-lock"


def audit_file(
    data: Path,
    *,
    score: str,
    sensitive: Sequence[str],
    target: str | None = None,
    options: Mapping[str, Any],
) -> Audit:
    """Audit one column of scores; ``options`` are those of `equipoise.audit`."""
    frame = read_table(data)
    named = [("score", score), *(("sensitive", column) for column in sensitive)]
    for option, column in [*named, *([] if target is None else [("target", target)])]:
        if column not in frame.columns:
            refuse_unknown(option, column, [str(name) for name in frame.columns])
    if target is not None and "positive" in options:
        options = {**options, "positive": _label(options["positive"], frame[target])}
    return audit(
        frame[score],
        None if target is None else frame[target],
        frame[list(sensitive)],
        **options,
    )


def refuse_taken(folder: Path) -> None:
    """Raise unless an audit may be written to this folder: new, empty, or an older audit."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must name a folder, got '{folder}', which is a file")
    inside = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if any(name not in (*FILES, _LOCK) and not is_leftover(name, FILES) for name in inside):
        raise InputError(
            f"--out must be new, empty or hold an audit, got '{folder}', which holds other files; "
            "choose another name"
        )


def write_audit(folder: Path, found: Audit) -> list[Path]:
    """Write page, table and document; over nothing but an older audit."""
    refuse_taken(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        PAGE: found.to_html(),
        TABLE: spreadsheet_safe(found.to_frame()).to_csv(index=False),
        DOCUMENT: found.to_json(),
    }
    with only_writer(folder / _LOCK, argument="--out", what=folder):
        for name, text in texts.items():
            write_atomically(folder / name, text.encode())
    return [folder / name for name in FILES]


def _label(text: str, outcomes: pd.Series) -> object:
    """The value of the outcome that reads as ``text``: options are text, labels may be numbers."""
    for value in outcomes.dropna().unique():
        if str(value) == text:
            return value
    return text
