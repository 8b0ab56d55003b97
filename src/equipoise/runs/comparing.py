"""``equipoise compare``: several runs side by side, as a table and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from equipoise.errors import InputError
from equipoise.frontier.comparison import ComparedRun, Contest, Limits, compare
from equipoise.frontier.snapshots import families_in_words
from equipoise.inference.verdict import DEFAULT_LIMIT
from equipoise.report.compare_page import TITLE, compare_page
from equipoise.report.page import is_page, plain
from equipoise.runs import Answer, Part
from equipoise.runs.folder import Run, reading
from equipoise.runs.record import plain_rows
from equipoise.storage import checked_target, write_atomically
from equipoise.storage.atomic import claim


def compare_runs(folders: Sequence[Path], out: Path, *, overwrite: bool = False) -> Answer:
    """Compare two or more run folders and write the page."""
    if len(folders) < 2:
        raise InputError(
            f"compare needs two runs or more, got {len(folders)}; for example equipoise compare "
            "run-a run-b"
        )
    target = checked_target(out, "--out")
    if target.suffix != ".html":
        raise InputError(f"--out must end in .html, got '{target}'")
    _claim(target, overwrite=overwrite)
    found = [reading(folder, lambda run: (run, run.frontier())) for folder in folders]
    runs = [run for run, _ in found]
    names = _names(runs)
    compared = [
        ComparedRun(name, frontier, _settings(run))
        for name, (run, frontier) in zip(names, found, strict=True)
    ]
    comparison = compare(compared, _limit(runs))
    made = [
        (name, run.record.source, run.record.versions)
        for name, run in zip(names, runs, strict=True)
    ]
    page = compare_page(comparison, made).encode()
    _claim(target, overwrite=overwrite)  # another process may have been first
    write_atomically(target, page)
    differences, families = _differences(names, runs), comparison.families
    said = [f"{families_in_words(each)} in {name}" for name, each in families.items()]
    has_trees = set(families.values()) != {("network",)}
    parts: tuple[Part, ...] = (
        *_contest(comparison.contest),
        "Hypervolume of each front, and the best utility within each limit on unfairness (- where "
        "no model keeps it), on validation rows:",
        _by_limit(comparison.table),
        *([f"Predictors: {'; '.join(said)}."] if has_trees else []),
        "\n".join(differences) or "The settings are the same.",
        *comparison.cautions,
        f"With test rows and the fronts drawn: {target}",
    )
    document = {
        "page": str(target),
        "contest": None if comparison.contest is None else plain(comparison.contest.to_document()),
        "differences": differences,
        "cautions": list(comparison.cautions),
        "predictors": {name: list(found) for name, found in families.items()},
        "table": plain_rows(comparison.table),
    }
    return Answer(parts, document)


def _claim(target: Path, *, overwrite: bool) -> None:
    foreign = None if is_page(target, TITLE) else "is another kind of file"
    claim(target, "a comparison", foreign=foreign, overwrite=overwrite)


def _limit(runs: Sequence[Run]) -> Limits:
    """The limit that all runs were asked for, or the default where they were asked for others."""
    first, *others = (run.record.options for run in runs)
    same = all(
        (each.max_unfairness, each.metrics) == (first.max_unfairness, first.metrics)
        for each in others
    )
    return first.max_unfairness if same else DEFAULT_LIMIT


def _contest(found: Contest | None) -> list[str]:
    """Who wins, by which rule, and the verdicts on each model, run by run."""
    if found is None:
        return []
    verdicts = [
        f"{name}: {'; '.join(f'{each.attribute} {each.words}' for each in selection.verdicts)}."
        for name, selection in found.selections.items()
    ]
    return [
        *filter(None, (found.sentence, found.rule)),
        *(["\n".join(verdicts)] if verdicts else []),
    ]


def _by_limit(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each metric, attribute and run, in the table's own order."""
    wide = table.pivot(
        index=["metric", "attribute", "run", "hypervolume"], columns="budget", values="utility"
    ).rename(columns="<= {:g}".format)
    order = pd.MultiIndex.from_frame(table[list(wide.index.names)]).unique()  # a pivot sorts
    return wide.loc[order].reset_index()


def _names(runs: Sequence[Run]) -> list[str]:
    """Names of the folders, or their whole paths where those are the same."""
    short = [run.folder.resolve().name for run in runs]
    return short if len(set(short)) == len(short) else [str(run.folder) for run in runs]


def _settings(run: Run) -> dict[str, object]:
    record = run.record
    return {**record.options.to_document(), "data": record.data.path, "task": record.task}


def _differences(names: Sequence[str], runs: Sequence[Run]) -> list[str]:
    first = runs[0].record
    said = []
    for name, run in zip(names[1:], runs[1:], strict=True):
        changes = first.options.changes(run.record.options)
        if first.data.sha256 != run.record.data.sha256:
            changes.append(f"data was {first.data.path}, is {run.record.data.path}")
        if changes:
            said.append(f"From {names[0]} to {name}: {'; '.join(changes)}.")
    return said
