"""selection.json: the model taken from a run, why, and what the test rows say about it."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from equipoise.errors import InputError
from equipoise.frontier.selection import Selection
from equipoise.report.page import plain
from equipoise.runs.choice import Choice
from equipoise.runs.folder import MODEL, SELECTION, Run
from equipoise.runs.names import command_line
from equipoise.runs.record import read_document, sha256
from equipoise.storage import write_atomically


def selection_document(selection: Selection, choice: Choice) -> dict[str, Any]:
    """Every number of a selection, and the wish that made it; undefined numbers are null."""
    told = {
        each.name: getattr(selection, each.name)
        for each in fields(selection)
        if each.name not in ("model", "rows")
    }
    document: dict[str, Any] = plain(
        {
            "choice": asdict(choice),
            **told,
            "holds_on_test": selection.holds_on_test,
            "health": list(selection.model.health_.messages),
            "rows": [asdict(row) for row in selection.rows],
        }
    )
    return document


def write_selection(folder: Path, selection: Selection, choice: Choice) -> None:
    """Write the model, then what was selected, which names the model by its checksum."""
    selection.model.save(folder / MODEL)
    told = selection_document(selection, choice)
    document = {**told, "model_sha256": sha256(folder / MODEL)}
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(folder / SELECTION, f"{text}\n".encode())


def read_choice(run: Run) -> Choice:
    """Return the wish that a selection came from."""
    return Choice(**_selection_of(run)["choice"])


def read_threshold(run: Run) -> float | None:
    """Return where decisions are cut, once sure that the model beside is the one selected."""
    document, model = _selection_of(run), run.path(MODEL)
    if not model.exists() or document["model_sha256"] != sha256(model):
        raise InputError(
            f"'{model}' must be the model that '{SELECTION}' tells of, but it is missing or "
            f"another one; select it again: {_command(run)} ..."
        )
    threshold: float | None = document["threshold"]
    return threshold


def _selection_of(run: Run) -> dict[str, Any]:
    path = run.path(SELECTION)
    if not path.exists():
        raise InputError(
            f"RUN must have a selected model, but '{path}' is missing; select one: "
            f"{_command(run)} --max-unfairness 0.1"
        )
    document = read_document(path)
    names = {each.name for each in fields(Choice)}
    is_selection = set(document.get("choice", ())) == names and "model_sha256" in document
    if not is_selection or not run.has(SELECTION):
        raise InputError(
            f"'{path}' must be the selection that equipoise wrote for this run, but it was changed "
            "or is of another run; restore it from a copy, or select again: "
            f"{_command(run)} --max-unfairness 0.1"
        )
    return document


def _command(run: Run) -> str:
    """Command that selects a model of a run, without a wish."""
    return command_line("equipoise", "select", run.folder)
