"""``equipoise select`` and ``report``: the model of a run, its file and its pages."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.errors import InputError
from equipoise.frontier import FairFrontier, Selection
from equipoise.frontier.selection import granted
from equipoise.report.frontier_page import RunFacts, frontier_page
from equipoise.report.model_card import model_card, to_json, to_markdown
from equipoise.report.page import plain
from equipoise.runs import Answer
from equipoise.runs import folder as files
from equipoise.runs.folder import Run
from equipoise.runs.record import command_line, known_name, read_document, sha256, write_json
from equipoise.storage import write_atomically


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What model is wanted, as `FairFrontier.select` takes it, and a remark on why it is."""

    max_unfairness: float | None = None
    min_utility: float | None = None
    metric: str | None = None
    attribute: str | None = None
    candidates: int = 1
    remark: str = ""

    def select(self, frontier: FairFrontier) -> Selection:
        """Pick the snapshot; metric and attribute are read without regard to case."""
        criteria = frontier.fitted_curve().snapshots.criteria
        metric = known_name(self.metric, criteria.metrics)
        named = criteria.by_attribute(criteria.find(metric))
        return frontier.select(
            max_unfairness=self.max_unfairness,
            min_utility=self.min_utility,
            metric=metric,
            attribute=known_name(self.attribute, tuple(named)),
            candidates=self.candidates,
        )


def select_in_run(folder: Path, choice: Choice) -> Answer:
    """Take another model from a run; if no model keeps the limits the run stays as it was."""
    if choice.max_unfairness is None and choice.min_utility is None:
        raise InputError(
            "select needs a limit, got none: --max-unfairness for the best utility within it, or "
            "--min-utility for the least unfairness that keeps it; for example equipoise select "
            "run --max-unfairness 0.05"
        )
    with files.writing_to_run(folder) as run:
        frontier = run.frontier()
        with files.changing(run) as staged:
            selection = take(run, staged, frontier, choice)
    return Answer(
        (
            str(selection),
            f"Stored in {folder}: report.html, the model card and equipoise predict are about this "
            "model now.",
        ),
        {"run": str(folder), "selection": selection_document(selection, choice)},
    )


def rewrite_report(folder: Path) -> Answer:
    """Write report and model card of the selected model again."""
    with files.writing_to_run(folder) as run:
        choice = Choice(**_selection_of(run)["choice"])
        frontier = run.frontier()
        _write_pages(run, folder, frontier, choice.select(frontier), choice)
    report = str(run.folder / files.REPORT)
    return Answer((report,), {"run": str(folder), "report": report})


def take(run: Run, staged: Path, frontier: FairFrontier, choice: Choice) -> Selection:
    """Select a model of a run and write all files about it to the folder ``staged``."""
    selection = choice.select(frontier)
    selection.model.save(staged / files.MODEL)
    told = selection_document(selection, choice)
    write_json(staged / files.SELECTION, {**told, "model_sha256": sha256(staged / files.MODEL)})
    _write_pages(run, staged, frontier, selection, choice)
    return selection


def choice_without_wish(frontier: FairFrontier, budget: float) -> Choice:
    """The best utility with the first metric within ``budget`` for every attribute, or the nearest.

    Where no snapshot is within the budget, the smallest limit that one keeps takes its place.
    """
    criteria = frontier.fitted_curve().snapshots.criteria
    metric = criteria.metrics[0]
    columns = [f"{metric} {attribute}" for attribute in criteria.by_attribute(metric)]
    kept = frontier.table().query("on_front").dropna(subset=columns)
    if kept.empty:
        raise InputError(
            f"no snapshot has a defined {metric} by {' and '.join(criteria.by_attribute(metric))}, "
            "so none can be picked; table.csv shows where it is undefined"
        )
    utility, worst = kept["utility"].to_numpy(), kept[columns].to_numpy().max(axis=1)
    least = float(worst.min())
    if least <= budget:
        return Choice(
            max_unfairness=budget,
            remark=f"picked at the end of training: the best {frontier.utility_} with {metric} <= "
            f"{budget:g} for every attribute",
        )
    limit = granted(least)
    nearest, best = utility[worst <= limit].max(), utility.argmax()
    price = ", the best of this run"
    if utility[best] > nearest:
        price = (
            f", where {utility[best]:.3f} is possible at {metric} {granted(worst[best]):g}; "
            "equipoise select --max-unfairness takes another"
        )
    return Choice(
        max_unfairness=limit,
        remark=f"picked at the end of training as the nearest to {metric} <= {budget:g} for every "
        "attribute, which no model of this run keeps on the validation rows; it keeps "
        f"{limit:g}, with {frontier.utility_} {nearest:.3f}{price}",
    )


def selection_document(selection: Selection, choice: Choice) -> dict[str, Any]:
    """Every number of a selection, and the choice that made it; undefined numbers are null."""
    told = {
        "choice": asdict(choice),
        **{name: value for name, value in vars(selection).items() if name not in ("model", "rows")},
        "holds_on_test": selection.holds_on_test,
        "health": list(selection.model.health_.messages),
        "rows": [row.columns() for row in selection.rows],
    }
    document: dict[str, Any] = plain(told)
    return document


def read_threshold(run: Run) -> float | None:
    """Return the threshold of decisions; refuse a folder whose model is not the selected one."""
    document, model = _selection_of(run), run.folder / files.MODEL
    if model.exists() and document["model_sha256"] == sha256(model):
        threshold: float | None = document["threshold"]
        return threshold
    raise InputError(
        f"'{model}' must be the model that '{files.SELECTION}' describes, but it is missing or "
        f"another one; select it again: {_command(run)} ..."
    )


def _selection_of(run: Run) -> dict[str, Any]:
    path = run.folder / files.SELECTION
    if not path.exists():
        raise InputError(
            f"RUN must have a selected model, but '{path}' is missing; select one: "
            f"{_command(run)} --max-unfairness 0.1"
        )
    document = read_document(path)
    names = {each.name for each in fields(Choice)}
    is_selection = set(document.get("choice", ())) == names and "model_sha256" in document
    if not is_selection or not run.has(files.SELECTION):
        raise InputError(
            f"'{path}' must be the selection that equipoise wrote for this run, but it was changed "
            "or belongs to another run; restore it from a copy, or select again: "
            f"{_command(run)} --max-unfairness 0.1"
        )
    return document


def _command(run: Run) -> str:
    return command_line("equipoise", "select", run.folder)


def _write_pages(
    run: Run, folder: Path, frontier: FairFrontier, selection: Selection, choice: Choice
) -> None:
    """Write report.html, model_card.md and model_card.json of the selected model to ``folder``."""
    record = run.record
    name = Path(record.data.path).name
    facts = RunFacts(
        title=f"Predicting {record.options.target} from {name}",
        data_name=name,
        rows=record.data.rows,
        target=record.options.target,
        command=record.command,
        select_command=_command(run),
        deploy_command=f"{command_line('equipoise', 'predict', run.folder)} DATA "
        "--out scores.parquet",
        python_lines=(
            "from equipoise import load",
            f"frontier = load({str(run.folder / files.FRONTIER)!r})",
        ),
        columns=pd.DataFrame(record.columns),
        settings=record.options.to_document() | {"task": record.task},
        versions=record.versions,
        seed=record.options.seed,
        device=record.device,
        picked=choice.remark,
    )
    card = model_card(selection, facts, frontier)
    write_atomically(folder / files.REPORT, frontier_page(frontier, selection, facts).encode())
    write_atomically(folder / files.CARD, to_markdown(card).encode())
    write_atomically(folder / files.CARD_JSON, to_json(card).encode())
