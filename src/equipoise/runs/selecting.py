"""Taking a model from a run: selected, saved, and told of on its pages."""

from __future__ import annotations

from equipoise.frontier import FairFrontier, Selection
from equipoise.runs.choice import Choice
from equipoise.runs.folder import MODEL, REPORT, SELECTION, Run
from equipoise.runs.pages import write_pages
from equipoise.runs.selection_file import read_choice, write_selection


def take(run: Run, frontier: FairFrontier, choice: Choice) -> Selection:
    """Select a model of a run and write everything that tells of it."""
    selection = choice.select(frontier)
    write_selection(run.path(SELECTION), run.path(MODEL), selection, choice)
    write_pages(run, frontier, selection, choice)
    return selection


def select_in_run(run: Run, choice: Choice) -> Selection:
    """Take another model from a run; where the wish is refused the run stays as it was."""
    return take(run, run.frontier(), choice)


def rewrite_report(run: Run) -> str:
    """Write report and model card of the selected model again; return where the report is."""
    choice = read_choice(run.path(SELECTION))
    frontier = run.frontier()
    write_pages(run, frontier, choice.select(frontier), choice)
    return str(run.path(REPORT))
