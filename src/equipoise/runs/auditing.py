"""``equipoise audit``: assess the scores in a data file, and write what was found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from equipoise.auditing import Audit, Audits, audit
from equipoise.auditing.inputs import AuditSettings
from equipoise.cluster import Engine, uses_cluster
from equipoise.distributed.auditing import audit_files
from equipoise.errors import (
    InputError,
    check_choice,
    check_number,
    did_you_mean,
    refuse_unread,
)
from equipoise.files import read_table
from equipoise.files.columns import check_columns, check_weights
from equipoise.files.contents import label_of
from equipoise.files.reading import check_separator
from equipoise.files.writer import spreadsheet_safe
from equipoise.report.page import Source, is_page
from equipoise.runs import Answer
from equipoise.runs.record import as_argument, command_line, sha256
from equipoise.storage.atomic import claim, foreign_in, put_back, write_atomically, written_folder
from equipoise.tables.sensitive_table import check_types
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
    engine: Engine = "local",
    workers: int | None = None,
) -> Answer:
    """Audit columns of scores and write the audit to the folder ``out``.

    ``options`` are those of `equipoise.audit`, ``types`` for its ``sensitive_types``. With the
    engine "ray", ``data`` may be a pattern that names many files.
    """
    put_back(out)
    _claim(out, overwrite=overwrite)
    options = {"sensitive_types" if key == "types" else key: each for key, each in options.items()}
    sep, weight = options.pop("sep", None), options.pop("weight", None)
    _check_options(options, sep, sensitive, target)
    further = _further(sep, weight)
    over_cluster = uses_cluster(engine, workers)
    # A second thread gains little here, and two that wait for each other are many times slower
    # where other programs use the cores as well.
    with threadpool_limits(1):
        if over_cluster:
            if sep is not None:
                refuse_unread("--sep", sep, "--engine ray", "audit a file without --engine ray")
            counted = audit_files(
                data,
                score=scores,
                sensitive=sensitive,
                target=target,
                weight=weight,
                workers=workers,
                **options,
            )
            # Without columns to train on: these rows do not fit into one memory.
            columns: list[str] = []
            further = [*further, "--engine", engine]
            found: Audit | Audits = counted
            digest = (counted.first if isinstance(counted, Audits) else counted).source.sha256
        else:
            frame = read_table(data, sep=sep)
            columns, digest = list(frame.columns), sha256(data)
            found = _audit_frame(frame, scores, target, sensitive, weight, options)
    source = Source(data.name, digest)
    found = _from_file(found, data, source, columns, scores, target, sensitive, further)
    written = [str(out / name) for name in _write(out, found, overwrite=overwrite)]
    return Answer(
        (
            f"{headline(found)}\nPage: {out / PAGE}",
            found.summary(),
            f"Written: {', '.join(written)}",
        ),
        {"audit": json.loads(found.to_json()), "files": written},
    )


def _audit_frame(
    frame: pd.DataFrame,
    scores: Sequence[str],
    target: str | None,
    sensitive: Sequence[str],
    weight: str | None,
    options: dict[str, Any],
) -> Audit | Audits:
    """Audit the rows of a frame."""
    named = {
        "score": scores,
        "sensitive": sensitive,
        "target": [target] if target is not None else [],
        "weight": [weight] if weight is not None else [],
    }
    for option, columns in named.items():
        check_columns(option, columns, list(frame.columns))
    if target is not None and "positive" in options:
        options["positive"] = label_of(options["positive"], frame[target].dropna().unique())
    if weight is not None:
        check_weights(weight, frame[weight])
        options["sample_weight"] = frame[weight]
    return audit(
        {name: frame[name] for name in scores} if len(scores) > 1 else frame[scores[0]],
        None if target is None else frame[target],
        frame[list(sensitive)],
        **options,
    )


def _check_options(
    options: Mapping[str, Any], sep: str | None, sensitive: Sequence[str], target: str | None
) -> None:
    """Refuse what no data can be audited with, before any data are read."""
    if sep is not None:
        check_separator("--sep", sep)
    if "threshold" in options:
        remedy = "; for example --threshold 0.5"
        check_number("--threshold", options["threshold"], remedy=remedy)
    check_choice(
        "--missing-sensitive", options.get("missing_sensitive", "error"), ("error", "skip")
    )
    check_types(options.get("sensitive_types", {}), sensitive)
    settings = {each.name for each in fields(AuditSettings)}
    asked = AuditSettings(**{name: each for name, each in options.items() if name in settings})
    asked.notions(outcome_given=target is not None)
    for column in asked.max_gap if isinstance(asked.max_gap, Mapping) else ():
        # A limit may also be about the groups of several columns together.
        if column not in sensitive and not set(column.split(" x ")) <= set(sensitive):
            raise InputError(
                f"--max-gap must name columns of --sensitive ({', '.join(sensitive)}), got "
                f"{column!r}; correct it, or give one limit for all"
                f"{did_you_mean(column, sensitive)}"
            )


def _further(sep: str | None, weight: str | None) -> list[str]:
    """Options that commands on the same data must repeat."""
    given = {"--sep": sep, "--weight": weight}
    return [
        text for option, value in given.items() if value is not None for text in (option, value)
    ]


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
    source: Source,
    columns: Iterable[str],
    scores: Sequence[str],
    target: str | None,
    sensitive: Sequence[str],
    further: Sequence[str],
) -> Audit | Audits:
    """The same audit with the name of its file, and with commands for what comes next.

    A file with no column left to predict from cannot be trained on: the command then asks for
    another one.
    """
    features = set(columns) - {*scores, target, *sensitive, *further}
    trains_on: Path | str = data if features and target is not None else "TRAINING_DATA"
    drop = ["--drop", as_argument(tuple(scores))] if trains_on == data else []
    first = found.first if isinstance(found, Audits) else found
    limit = as_argument(first.settings.max_gap)
    about = (
        "--target",
        target or "OUTCOME",
        "--sensitive",
        as_argument(tuple(sensitive)),
        *further,
    )
    facts: dict[str, Any] = {
        "source": source,
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
