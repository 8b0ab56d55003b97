"""``equipoise audit``: assess the scores in a data file, and write what was found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.auditing import Audit, audit
from equipoise.files import read_table
from equipoise.files.columns import check_columns
from equipoise.files.writer import spreadsheet_safe
from equipoise.runs import Answer
from equipoise.runs.folder import names_in
from equipoise.storage.atomic import only_writer, write_atomically

FILES = ("audit.html", "audit.csv", "audit.json")
_LOCK = ".equipoise-lock"


def audit_file(
    data: Path,
    out: Path,
    *,
    score: str,
    sensitive: Sequence[str],
    target: str | None,
    options: Mapping[str, Any],
) -> Answer:
    """Audit one column of scores and write the audit to the folder ``out``.

    ``options`` are those of `equipoise.audit`, ``types`` for its ``sensitive_types``.
    """
    names_in(out, (*FILES, _LOCK), FILES, "an audit")
    frame = read_table(data)
    named = {
        "score": [score],
        "sensitive": sensitive,
        "target": [target] if target is not None else [],
    }
    for option, columns in named.items():
        check_columns(option, columns, list(frame.columns))
    options = {"sensitive_types" if key == "types" else key: each for key, each in options.items()}
    if target is not None and "positive" in options:
        options["positive"] = _label(options["positive"], frame[target])
    found = audit(
        frame[score],
        None if target is None else frame[target],
        frame[list(sensitive)],
        **options,
    )
    _write(out, found)
    written = [str(out / name) for name in FILES]
    return Answer(
        (str(found), f"Written: {', '.join(written)}"),
        {"audit": json.loads(found.to_json()), "files": written},
    )


def _write(folder: Path, found: Audit) -> None:
    names_in(folder, (*FILES, _LOCK), FILES, "an audit")  # another process may have been first
    folder.mkdir(parents=True, exist_ok=True)
    table = spreadsheet_safe(found.to_frame()).to_csv(index=False)
    texts = (found.to_html(), table, found.to_json())
    with only_writer(folder / _LOCK, argument="--out", what=folder):
        for name, text in zip(FILES, texts, strict=True):
            write_atomically(folder / name, text.encode())


def _label(text: str, outcomes: pd.Series[Any]) -> object:
    """The value of the outcome that reads as ``text``: options are text, labels may be numbers."""
    return next((value for value in outcomes.dropna().unique() if str(value) == text), text)
