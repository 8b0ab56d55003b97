"""``equipoise select`` and ``report``: the model of a run, its file and its pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.errors import InputError
from equipoise.frontier import FairFrontier, Selection
from equipoise.frontier.selection import rounded_up
from equipoise.report.frontier_page import RunFacts, frontier_page, gap_among
from equipoise.report.model_card import model_card, to_html, to_json, to_markdown
from equipoise.report.page import plain
from equipoise.runs import Answer
from equipoise.runs import folder as files
from equipoise.runs.folder import Run
from equipoise.runs.record import (
    as_argument,
    command_line,
    known_name,
    limit_option,
    read_document,
    sha256,
    write_json,
)
from equipoise.storage import write_atomically

# What of a selection is not written as it is.
_WRITTEN_OUT = ("model", "rows", "verdicts")
#: One limit on unfairness for every attribute, or one for each that is named.
Limits = float | Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What model is wanted, as `FairFrontier.select` takes it, and a remark on why it is.

    The limit is on ``metric``, a gap or another, for every attribute or for those named; without a
    metric it is on the run's first.
    """

    max_unfairness: Limits | None = None
    min_utility: float | None = None
    metric: str | None = None
    attribute: str | None = None
    candidates: int = 1
    remark: str = ""

    def select(self, frontier: FairFrontier) -> Selection:
        """Pick the snapshot; metric and attribute are read without regard to case."""
        criteria = frontier.fitted_curve().snapshots.criteria
        metric = known_name(self.metric, criteria.metrics)
        named = tuple(criteria.by_attribute(criteria.find(metric)))
        limits = self.max_unfairness
        if isinstance(limits, Mapping):
            limits = {known_name(name, named): limit for name, limit in limits.items()}
        return frontier.select(
            max_unfairness=limits,
            min_utility=self.min_utility,
            metric=metric,
            attribute=known_name(self.attribute, named),
            candidates=self.candidates,
        )


def select_in_run(folder: Path, choice: Choice, *, max_gap: Limits | None = None) -> Answer:
    """Take another model from a run; if no model keeps the limits the run stays as it was.

    ``max_gap`` takes the place of a limit and a metric in ``choice``.
    """
    if max_gap is None and choice.max_unfairness is None and choice.min_utility is None:
        raise InputError(
            "select needs a limit, got none: --max-gap for the best utility within it, or "
            "--min-utility for the least unfairness that keeps it; for example equipoise select "
            "run --max-gap 0.05"
        )
    refuse_both_limits(max_gap, choice.max_unfairness)
    if max_gap is not None and choice.metric is not None:
        raise InputError(
            f"--metric must not stand beside --max-gap, got {choice.metric}; leave it out, or pass "
            "--max-unfairness for a limit on another metric"
        )
    with files.writing_to_run(folder) as run:
        frontier = run.frontier()
        if max_gap is not None:
            choice = replace(choice, max_unfairness=max_gap, metric=_gap_of(frontier))
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


def refuse_both_limits(max_gap: object, max_unfairness: object) -> None:
    """Refuse limits on two metrics at once."""
    if max_gap is not None and max_unfairness is not None:
        raise InputError(
            f"--max-gap must stand alone, got --max-unfairness {as_argument(max_unfairness)} too; "
            "leave one out: --max-unfairness is for other metrics than the gap"
        )


def _gap_of(frontier: FairFrontier) -> str:
    metrics = frontier.fitted_curve().snapshots.criteria.metrics
    gap = gap_among(metrics)
    if gap is None:
        raise InputError(
            f"--max-gap needs a run that was judged by the gap, got one judged by "
            f"{', '.join(metrics)}; pass --max-unfairness, or fit again without --metrics"
        )
    return gap


def rewrite_report(folder: Path) -> Answer:
    """Write report and model card of the selected model again."""
    with files.writing_to_run(folder) as run:
        choice = Choice(**_selection_of(run)["choice"])
        frontier = run.frontier()
        with files.changing(run) as staged:
            _write_pages(run, staged, frontier, choice.select(frontier), choice)
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


def choice_without_wish(frontier: FairFrontier, budget: Limits) -> Choice:
    """The best utility with the first metric within the budget, or the nearest to it.

    Where no snapshot is within the budget, it is widened to what the nearest one keeps.
    """
    criteria = frontier.fitted_curve().snapshots.criteria
    metric = criteria.metrics[0]
    option = limit_option(metric, criteria.metrics)
    limits = _by_attribute(budget, criteria.by_attribute(metric))
    for attribute in limits:
        criteria.find_attribute(metric, attribute, rule=f"{option} must name sensitive columns")
    columns = [f"{metric} {attribute}" for attribute in limits]
    kept = frontier.table().query("on_front").dropna(subset=columns)
    if kept.empty:
        raise InputError(
            f"no snapshot has a defined {metric} by {' and '.join(limits)}, so none can be picked; "
            "table.csv shows where it is undefined"
        )
    utility, unfairness = kept["utility"].to_numpy(), kept[columns].to_numpy()
    excess = (unfairness - list(limits.values())).max(axis=1)
    if excess.min() <= 0:
        return Choice(
            max_unfairness=budget,
            remark=f"picked at the end of training: the best {frontier.utility_} with "
            f"{_in_words(metric, budget)}",
        )
    nearest = zip(limits.items(), unfairness[excess.argmin()], strict=True)
    widened = {name: max(limit, rounded_up(value)) for (name, limit), value in nearest}
    keeps: Limits = widened if isinstance(budget, Mapping) else max(widened.values())
    within = (unfairness <= list(_by_attribute(keeps, limits).values())).all(axis=1)
    reached, best = utility[within].max(), utility.argmax()
    price = ", the best of this run"
    if utility[best] > reached:
        price = (
            f", where {utility[best]:.3f} is possible at {metric} "
            f"{rounded_up(unfairness[best].max()):g}; equipoise select {option} takes another"
        )
    return Choice(
        max_unfairness=keeps,
        remark=f"picked at the end of training as the nearest to {_in_words(metric, budget)}, "
        "which no model of this run keeps on the validation rows; it keeps "
        f"{_in_words(metric, keeps)}, with {frontier.utility_} {reached:.3f}{price}",
    )


def _by_attribute(limits: Limits, attributes: Iterable[str]) -> Mapping[str, float]:
    return limits if isinstance(limits, Mapping) else dict.fromkeys(attributes, limits)


def _in_words(metric: str, limits: Limits) -> str:
    if not isinstance(limits, Mapping):
        return f"{metric} <= {limits:g} for every attribute"
    return " and ".join(f"{metric} by {name} <= {limit:g}" for name, limit in limits.items())


def selection_document(selection: Selection, choice: Choice) -> dict[str, Any]:
    """Every number of a selection, and the choice that made it; undefined numbers are null."""
    told = {
        "choice": asdict(choice),
        **{name: value for name, value in vars(selection).items() if name not in _WRITTEN_OUT},
        "holds_on_test": selection.holds_on_test,
        "health": list(selection.model.health_.messages),
        "rows": [row.columns() for row in selection.rows],
        "verdicts": [verdict.to_document() for verdict in selection.verdicts],
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
            f"{_command(run)} {run.record.options.limit_option} 0.1"
        )
    document = read_document(path)
    names = {each.name for each in fields(Choice)}
    is_selection = set(document.get("choice", ())) == names and "model_sha256" in document
    if not is_selection or not run.has(files.SELECTION):
        raise InputError(
            f"'{path}' must be the selection that equipoise wrote for this run, but it was changed "
            "or belongs to another run; restore it from a copy, or select again: "
            f"{_command(run)} {run.record.options.limit_option} 0.1"
        )
    return document


def _command(run: Run) -> str:
    return command_line("equipoise", "select", run.folder)


def _write_pages(
    run: Run, folder: Path, frontier: FairFrontier, selection: Selection, choice: Choice
) -> None:
    """Write report.html and the model card of the selected model to ``folder``."""
    record = run.record
    name = Path(record.data.path).name
    facts = RunFacts(
        title=f"Predicting {record.options.target} from {name}",
        data_name=name,
        source=record.source,
        flags=record.flags,
        card=files.CARD_HTML,
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
    write_atomically(folder / files.CARD_HTML, to_html(card).encode())
    write_atomically(folder / files.CARD_JSON, to_json(card).encode())
