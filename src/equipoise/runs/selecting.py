"""Taking a model from a run: selected, saved, and told of on its pages."""

from __future__ import annotations

from pathlib import Path

from equipoise.frontier import FairFrontier, Selection
from equipoise.runs.choice import Choice
from equipoise.runs.folder import REPORT, Run, changing, open_run, writing
from equipoise.runs.pages import write_pages
from equipoise.runs.selection_file import read_choice, write_selection


def take(run: Run, staged: Path, frontier: FairFrontier, choice: Choice) -> Selection:
    """Select a model of a run and write everything that tells of it to the folder ``staged``."""
    selection = choice.select(frontier)
    write_selection(staged, selection, choice)
    write_pages(run, staged, frontier, selection, choice)
    return selection


def select_in_run(folder: Path, choice: Choice) -> Selection:
    """Take another model from a run; where the wish is refused the run stays as it was."""
    open_run(folder)  # writes nothing to a folder that is no run
    with writing(folder, argument="RUN"):
        run = open_run(folder)
        frontier = run.frontier()
        with changing(run) as staged:
            return take(run, staged, frontier, choice)


def rewrite_report(folder: Path) -> str:
    """Write report and model card of the selected model again; return where the report is."""
    open_run(folder)
    with writing(folder, argument="RUN"):
        run = open_run(folder)
        choice = read_choice(run)
        frontier = run.frontier()
        write_pages(run, folder, frontier, choice.select(frontier), choice)
        return str(run.path(REPORT))
