"""``equipoise compare``: several runs side by side, as a table and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.errors import InputError
from equipoise.frontier.comparison import ComparedRun, compare
from equipoise.frontier.snapshots import families_in_words
from equipoise.report.compare_page import compare_page
from equipoise.report.page import is_page
from equipoise.runs.folder import Run, reading
from equipoise.runs.frames import as_text, plain_rows
from equipoise.storage import checked_target, write_atomically


@dataclass(frozen=True, eq=False)
class ComparedRuns:
    """What a comparison found.

    Attributes
    ----------
    table : DataFrame
        As `equipoise.frontier.comparison.compare` makes it.
    cautions : tuple of str
        What makes the runs less comparable than they look.
    differences : tuple of str
        Settings of the later runs that are not those of the first.
    families : mapping of run to tuple of str
        Families of predictors in each run.
    page : path
    """

    table: pd.DataFrame
    cautions: tuple[str, ...]
    differences: tuple[str, ...]
    families: Mapping[str, tuple[str, ...]]
    page: Path

    @property
    def text(self) -> str:
        """The comparison for a person: the best utility within each budget."""
        wide = self.table.pivot(
            index=["metric", "attribute", "run", "hypervolume"], columns="budget", values="utility"
        ).rename(columns="<= {:g}".format)
        # A pivot sorts; the table's own order is by the first run's metrics, then by run.
        order = pd.MultiIndex.from_frame(self.table[list(wide.index.names)]).unique()
        table = as_text(wide.loc[order].reset_index())
        parts = [
            "Hypervolume of each front, and the best utility within each budget (- where nothing "
            f"keeps it), on validation rows:\n\n{table}",
            *self._families_said,
            "\n".join(self.differences) or "The settings are the same.",
            *self.cautions,
            f"With test rows and the fronts drawn: {self.page}",
        ]
        return "\n\n".join(parts)

    @property
    def _families_said(self) -> list[str]:
        if set(self.families.values()) == {("network",)}:
            return []
        said = [f"{families_in_words(found)} in {name}" for name, found in self.families.items()]
        return [f"Predictors: {'; '.join(said)}."]

    @property
    def document(self) -> dict[str, Any]:
        """The comparison for a program, test values included."""
        return {
            "page": str(self.page),
            "differences": list(self.differences),
            "cautions": list(self.cautions),
            "predictors": {name: list(found) for name, found in self.families.items()},
            "table": plain_rows(self.table),
        }


def compare_runs(folders: Sequence[Path], out: Path) -> ComparedRuns:
    """Compare two or more run folders and write the page."""
    if len(folders) < 2:
        raise InputError(
            f"compare needs two runs or more, got {len(folders)}; for example equipoise compare "
            "run-a run-b"
        )
    target = checked_target(out, "--out")
    if target.suffix != ".html":
        raise InputError(f"--out must end in .html, got '{target}'")
    if target.exists() and not is_page(target):
        raise InputError(
            f"--out must be new or name a page that equipoise wrote, got '{target}', which is "
            "something else; choose another name"
        )
    found = [reading(folder, lambda run: (run, run.frontier())) for folder in folders]
    runs = [run for run, _ in found]
    names = _names(runs)
    compared = [
        ComparedRun(name, frontier, _settings(run))
        for name, (run, frontier) in zip(names, found, strict=True)
    ]
    comparison = compare(compared)
    write_atomically(target, compare_page(comparison).encode())
    return ComparedRuns(
        table=comparison.table,
        cautions=comparison.cautions,
        differences=_differences(names, runs),
        families=comparison.families,
        page=target,
    )


def _names(runs: Sequence[Run]) -> list[str]:
    """Names of the folders, or their whole paths where those are the same."""
    short = [run.folder.resolve().name for run in runs]
    return short if len(set(short)) == len(short) else [str(run.folder) for run in runs]


def _settings(run: Run) -> dict[str, object]:
    record = run.record
    return {**record.options.to_document(), "data": record.data.path, "task": record.task}


def _differences(names: Sequence[str], runs: Sequence[Run]) -> tuple[str, ...]:
    first = runs[0].record
    said = []
    for name, run in zip(names[1:], runs[1:], strict=True):
        changes = first.options.changes(run.record.options)
        if first.data.sha256 != run.record.data.sha256:
            changes.append(f"data was {first.data.path}, is {run.record.data.path}")
        if changes:
            said.append(f"From {names[0]} to {name}: {'; '.join(changes)}.")
    return tuple(said)
