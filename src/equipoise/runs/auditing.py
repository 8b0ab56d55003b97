"""``equipoise audit``: assess the scores in a data file, and write what was found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.auditing import Audit, Audits, audit
from equipoise.files import read_table
from equipoise.files.columns import check_columns
from equipoise.files.writer import spreadsheet_safe
from equipoise.report.page import Source, is_page
from equipoise.runs import Answer
from equipoise.runs.record import as_argument, command_line, sha256
from equipoise.storage.atomic import put_back, write_atomically, written_folder
from equipoise.storage.ownership import claim, foreign_in
from equipoise.words import listed

FILES = (PAGE := "audit.html", TABLE := "audit.csv", DOCUMENT := "audit.json")
# Names of all files of an audit; the pages of single models are numbered.
_NAMES = re.compile(r"audit(-\d+)?\.html|audit\.csv|audit\.json")


def audit_file(
    data: Path,
    out: Path,
    *,
    overwrite: bool,
    scores: Sequence[str],
    sensitive: Sequence[str],
    target: str | None,
    options: Mapping[str, Any],
) -> Answer:
    """Audit columns of scores and write the audit to the folder ``out``.

    ``options`` are those of `equipoise.audit`, ``types`` for its ``sensitive_types``.
    """
    put_back(out)
    _claim(out, overwrite=overwrite)
    frame = read_table(data)
    named = {
        "score": scores,
        "sensitive": sensitive,
        "target": [target] if target is not None else [],
    }
    for option, columns in named.items():
        check_columns(option, columns, list(frame.columns))
    options = {"sensitive_types" if key == "types" else key: each for key, each in options.items()}
    if target is not None and "positive" in options:
        options["positive"] = _label(options["positive"], frame[target])
    found: Audit | Audits = audit(
        {name: frame[name] for name in scores} if len(scores) > 1 else frame[scores[0]],
        None if target is None else frame[target],
        frame[list(sensitive)],
        **options,
    )
    found = _from_file(found, data, frame.columns, scores, target, sensitive)
    written = [str(out / name) for name in _write(out, found, overwrite=overwrite)]
    return Answer(
        (
            f"{headline(found)}\nPage: {out / PAGE}",
            found.summary(),
            f"Written: {', '.join(written)}",
        ),
        {"audit": json.loads(found.to_json()), "files": written},
    )


def headline(found: Audit | Audits) -> str:
    """Verdicts of each notion and model, one line each."""
    lines = []
    audits = found.items() if isinstance(found, Audits) else [("", found)]
    for model, each in audits:
        for notion in each.notions:
            by_words: dict[str, list[str]] = {}
            for verdict in each.verdicts:
                if verdict.notion == notion:
                    by_words.setdefault(verdict.words, []).append(verdict.attribute)
            said = [f"{listed(names)} {words}" for words, names in by_words.items()]
            about = f"{model}, {notion}" if model else notion.capitalize()
            lines.append(f"{about}: {'; '.join(said)}.")
    return "\n".join(lines)


def _from_file(
    found: Audit | Audits,
    data: Path,
    columns: Iterable[str],
    scores: Sequence[str],
    target: str | None,
    sensitive: Sequence[str],
) -> Audit | Audits:
    """The same audit with the name of its file, and with commands for what comes next.

    A file with no column left to predict from cannot be trained on: the command then asks for
    another one.
    """
    features = set(columns) - {*scores, target, *sensitive}
    trains_on: Path | str = data if features and target is not None else "TRAINING_DATA"
    drop = ["--drop", as_argument(tuple(scores))] if trains_on == data else []
    first = found.first if isinstance(found, Audits) else found
    limit = as_argument(first.settings.max_gap)
    about = ("--target", target or "OUTCOME", "--sensitive", as_argument(tuple(sensitive)))
    facts: dict[str, Any] = {
        "source": Source(data.name, sha256(data)),
        "remedy": command_line("equipoise", "fit", trains_on, *about, *drop, "--max-gap", limit),
        "repeat": command_line(
            "equipoise", "audit", "MORE_ROWS", "--score", as_argument(tuple(scores)),
            *(about if target is not None else about[2:]), "--max-gap", limit,
        ),
    }  # fmt: skip
    if isinstance(found, Audits):
        return replace(found, audits={k: replace(each, **facts) for k, each in found.items()})
    return replace(found, **facts)


def _claim(folder: Path, *, overwrite: bool) -> None:
    """Raise unless the folder is new or empty, or holds nothing but an audit that may go."""
    foreign = foreign_in(folder, lambda name: bool(_NAMES.fullmatch(name)), written=FILES)
    has_audit = folder.is_dir() and any(_NAMES.fullmatch(path.name) for path in folder.iterdir())
    if foreign is None and has_audit and not is_page(folder / PAGE):
        foreign = f"holds no {PAGE} of equipoise"
    claim(folder, "an audit", foreign=foreign, overwrite=overwrite or not has_audit)


def _write(folder: Path, found: Audit | Audits, *, overwrite: bool) -> list[str]:
    """Write all files of an audit, or none; return their names."""
    table = spreadsheet_safe(found.to_frame()).to_csv(index=False)
    texts = {PAGE: found.to_html(), TABLE: table, DOCUMENT: found.to_json()}
    single = found.values() if isinstance(found, Audits) else ()
    texts |= {f"audit-{place}.html": each.to_html() for place, each in enumerate(single, 1)}
    with written_folder(folder, lambda: _claim(folder, overwrite=overwrite)) as new:
        for name, text in texts.items():
            write_atomically(new / name, text.encode())
    return list(texts)


def _label(text: str, outcomes: pd.Series[Any]) -> object:
    """The value of the outcome that reads as ``text``: options are text, labels may be numbers."""
    return next((value for value in outcomes.dropna().unique() if str(value) == text), text)
