"""selection.json: the model taken from a run, why, and what the test rows say about it."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from equipoise.errors import InputError
from equipoise.frontier.selection import Selection
from equipoise.report.page import plain
from equipoise.runs.choice import Choice
from equipoise.runs.record import read_document
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


def write_selection(path: Path, model: Path, selection: Selection, choice: Choice) -> None:
    """Write the model, then what was selected, which names the model by its checksum."""
    selection.model.save(model)
    document = {**selection_document(selection, choice), "model_sha256": _digest(model)}
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(path, f"{text}\n".encode())


def read_choice(path: Path) -> Choice:
    """Return the wish that a selection came from."""
    document = _selection_in(path)
    return Choice(**document["choice"])


def read_threshold(path: Path, model: Path) -> float | None:
    """Return where decisions are cut, once sure that the model beside is the one selected."""
    document = _selection_in(path)
    if not model.exists() or document["model_sha256"] != _digest(model):
        raise InputError(
            f"'{model}' must be the model that '{path.name}' tells of, but it is missing or "
            f"another one; select it again: {_command(path)} ..."
        )
    threshold: float | None = document["threshold"]
    return threshold


def _selection_in(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(
            f"RUN must have a selected model, but '{path}' is missing; select one: "
            f"{_command(path)} --max-unfairness 0.1"
        )
    document = read_document(path)
    names = {each.name for each in fields(Choice)}
    if set(document.get("choice", ())) != names or "model_sha256" not in document:
        raise InputError(
            f"'{path}' must be a selection as equipoise wrote it, but it was changed; select "
            f"again: {_command(path)} --max-unfairness 0.1"
        )
    return document


def _command(path: Path) -> str:
    """Command that selects a model of the run whose selection is at ``path``, without a wish."""
    return f"equipoise select {shlex.quote(str(path.parent))}"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
