"""``equipoise select`` and ``report``: the model of a run, its file and its pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.errors import InputError, NoSuchModel
from equipoise.frontier import FairFrontier, Selection
from equipoise.frontier.selection import stricter
from equipoise.inference.verdict import Decisions, State, Verdict, rows_needed_in_words
from equipoise.methods import parse_method
from equipoise.metrics.gap import GAPS
from equipoise.report.frontier_page import RunFacts, frontier_page, gap_among
from equipoise.report.model_card import model_card, to_html, to_json, to_markdown
from equipoise.report.page import plain
from equipoise.runs import Answer
from equipoise.runs import folder as files
from equipoise.runs.folder import Run
from equipoise.runs.record import (
    FitOptions,
    as_argument,
    command_line,
    known_name,
    limit_option,
    read_document,
    sha256,
    write_json,
)
from equipoise.storage import write_atomically
from equipoise.words import listed

# What of a selection is not written as it is.
_WRITTEN_OUT = ("model", "rows", "verdicts")
#: One limit on unfairness for every attribute, or one for each that is named.
Limits = float | Mapping[str, float]
#: What to do next: sentences, each with a command to paste.
Steps = tuple[tuple[str, str], ...]
_LONGER = "Train longer, with strengths nearer to 1."


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
    allow_nearest: bool = False
    allow_useless: bool = False
    remark: str = ""

    def select(self, frontier: FairFrontier, decisions: Decisions | None = None) -> Selection:
        """Pick the snapshot; metric and attribute are read without regard to case."""
        criteria = frontier.fitted_curve().snapshots.criteria
        metric, limits, about = self._metric(frontier), self.max_unfairness, decisions
        named = tuple(criteria.by_attribute(metric))
        if isinstance(limits, Mapping):
            limits = {known_name(name, named): limit for name, limit in limits.items()}
        wish: dict[str, Any] = {"max_unfairness": limits, "metric": metric}
        if limits is not None and metric == gap_among(criteria.metrics):
            wish = {"max_gap": limits}
        about = about or Decisions()
        return frontier.select(
            **wish,
            min_utility=self.min_utility,
            attribute=known_name(self.attribute, named),
            candidates=self.candidates,
            favourable=about.favourable,
            decision=about.words,
            allow_nearest=self.allow_nearest,
            allow_useless=self.allow_useless,
        )

    def command(self, run: Run, frontier: FairFrontier) -> str:
        """The command line that makes this choice."""
        metrics, metric = frontier.fitted_curve().snapshots.criteria.metrics, self._metric(frontier)
        arguments: list[str] = []
        if self.max_unfairness is not None:
            arguments += [limit_option(metric, metrics), as_argument(self.max_unfairness)]
        if metric != metrics[0] and "--max-gap" not in arguments:
            arguments += ["--metric", metric]
        for name in ("min_utility", "attribute"):
            if (value := getattr(self, name)) is not None:
                arguments += [f"--{name.replace('_', '-')}", str(value)]
        flags = [n for n in ("allow_nearest", "allow_useless") if getattr(self, n)]
        arguments += [f"--{name.replace('_', '-')}" for name in flags]
        return f"{_command(run)} {command_line(*arguments)}"

    def widened(self, nearest: Mapping[str, Any]) -> Choice:
        """The choice with limits that the nearest model keeps."""
        limits, reached = self.max_unfairness, nearest["unfairness"]
        if isinstance(limits, Mapping):
            limits = {n: max(limit, reached[known_name(n, reached)]) for n, limit in limits.items()}
        elif limits is not None:
            limits = max(limits, *reached.values())
        least = self.min_utility
        return replace(
            self,
            max_unfairness=limits,
            min_utility=None if least is None else min(least, nearest["utility"]),
        )

    def _metric(self, frontier: FairFrontier) -> str:
        criteria = frontier.fitted_curve().snapshots.criteria
        return criteria.find(known_name(self.metric, criteria.metrics))


@dataclass(frozen=True, eq=False)
class Taken:
    """A model that was taken from a run, or that is only shown, and what to do next."""

    selection: Selection
    choice: Choice
    steps: Steps
    chosen: bool = True

    def parts(self, report: Path) -> tuple[str, ...]:
        """The answer for people: verdicts, the report, how groups fare, steps, all numbers."""
        blocks = (self.selection.headlines, [f"Report: {report}"], self.selection.sentences)
        told = ["\n".join(block) for block in blocks if block]
        return (*told, steps_in_words(self.steps), "\n".join(self.selection.details))


def steps_in_words(steps: Steps) -> str:
    """Sentences, and below each its command on a line of its own."""
    return "\n".join(f"{sentence}\n  {command}" for sentence, command in steps)


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
        try:
            with files.changing(run) as staged:
                taken = take(run, staged, frontier, choice)
        except NoSuchModel as problem:
            steps = ways_out(run, frontier, choice, problem)
            ways = [f"{said[:1].lower()}{said[1:-1]}: {command}" for said, command in steps]
            raise NoSuchModel(
                problem.found, "; ".join(ways), nearest=problem.nearest, useless=problem.useless
            ) from None
    return Answer(
        (
            *taken.parts(folder / files.REPORT),
            f"Stored in {folder}: report.html, the model card and equipoise predict are about this "
            "model now.",
        ),
        {
            "run": str(folder),
            "selection": selection_document(taken.selection, taken.choice),
            "steps": steps_document(taken.steps),
        },
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
        if not run.record.has_model:
            frontier, choice = run.frontier(), choice_of_fit(run.record.options)
            try:
                choice.select(frontier)
            except NoSuchModel as problem:
                with files.changing(run) as staged:
                    show(run, staged, frontier, choice, problem)
        else:
            choice = Choice(**_selection_of(run)["choice"])
            frontier = run.frontier()
            selection = choice.select(frontier, run.record.options.decisions)
            steps = next_steps(run, frontier, selection, choice)
            with files.changing(run) as staged:
                _write_pages(run, staged, frontier, Taken(selection, choice, steps))
    report = str(run.folder / files.REPORT)
    return Answer((report,), {"run": str(folder), "report": report})


def take(run: Run, staged: Path, frontier: FairFrontier, choice: Choice, *, how: str = "") -> Taken:
    """Select a model of a run and write all files about it to the folder ``staged``.

    ``how`` it was picked, such as "picked at the end of training", if the user did not ask for it.
    """
    selection = choice.select(frontier, run.record.options.decisions)
    choice = replace(choice, remark=_remark(selection, choice, how))
    selection.model.save(staged / files.MODEL)
    told = selection_document(selection, choice)
    write_json(staged / files.SELECTION, {**told, "model_sha256": sha256(staged / files.MODEL)})
    taken = Taken(selection, choice, next_steps(run, frontier, selection, choice))
    _write_pages(run, staged, frontier, taken)
    return taken


def show(
    run: Run, staged: Path, frontier: FairFrontier, choice: Choice, problem: NoSuchModel
) -> Steps:
    """Write the report of a run of which no model was chosen, about the nearest; return ways out.

    Only if no model is better than chance, it is about one of these.
    """
    shown = replace(choice, allow_nearest=True, allow_useless=problem.nearest is None)
    selection = shown.select(frontier, run.record.options.decisions)
    why = f"not chosen, only shown: {problem.found}"
    steps = ways_out(run, frontier, choice, problem)
    taken = Taken(selection, replace(shown, remark=why), steps, chosen=False)
    _write_pages(run, staged, frontier, taken)
    return steps


def choice_of_fit(options: FitOptions) -> Choice:
    """What ``fit`` picks: the best utility within the limits on the first metric."""
    return Choice(
        max_unfairness=options.max_unfairness,
        min_utility=options.min_utility,
        allow_nearest=options.allow_nearest,
        allow_useless=options.allow_useless,
    )


def _remark(selection: Selection, choice: Choice, how: str) -> str:
    """How the model was picked, if there is more to say than that it was asked for.

    It is the end of a sentence that begins "The model was".
    """
    utility = selection.rows[0].metric
    limits = [] if choice.max_unfairness is None else [_in_words(selection.metric, choice)]
    if choice.min_utility is not None:
        limits.append(f"{utility} >= {choice.min_utility:g}")
    wish = " and ".join(limits)
    remark = f"{how}: {selection.aim} with {wish}" if how else ""
    if selection.nearest:
        remark = (
            f"{how or 'taken'} as the nearest to {wish}, which no model of this run that may be "
            "chosen keeps on the validation rows: it does not keep the limit"
        )
    if selection.useless:
        remark = f"{remark or 'taken as asked for'}; it is no better than chance"
    return remark


def _in_words(metric: str, choice: Choice) -> str:
    limits = choice.max_unfairness
    if not isinstance(limits, Mapping):
        about = f"for {choice.attribute}" if choice.attribute else "for every attribute"
        return f"{metric} <= {limits:g} {about}"
    return " and ".join(f"{metric} by {name} <= {limit:g}" for name, limit in limits.items())


def next_steps(run: Run, frontier: FairFrontier, selection: Selection, choice: Choice) -> Steps:
    """What to do about the verdicts on a selected model."""
    by_state: dict[State, list[Verdict]] = {}
    for each in selection.verdicts:
        by_state.setdefault(each.state, []).append(each)
    beyond = by_state.get(State.BEYOND, [])
    uncertain = by_state.get(State.WITHIN, []) + by_state.get(State.UNKNOWN, [])
    steps = []
    if beyond:
        about = f"Not within the limit ({_named(beyond)})"
        curve = frontier.fitted_curve()
        limits = stricter(curve, selection, [each.attribute for each in beyond])
        if limits is None:
            steps.append((f"{about}: no model of this run is stricter. {_LONGER}", _longer(run)))
        else:
            other = replace(choice, max_unfairness=limits, attribute=None, allow_nearest=False)
            if not isinstance(choice.max_unfairness, Mapping) and len(set(limits.values())) == 1:
                least = next(iter(limits.values()))
                other = replace(other, max_unfairness=least, attribute=choice.attribute)
            steps.append((f"{about}: take a stricter model.", other.command(run, frontier)))
    if uncertain:
        amount = rows_needed_in_words(uncertain)
        why = f"Not certain ({_named(uncertain)}): audit {amount} of the same population."
        steps += _audit(run, selection, why)
    if not steps:
        steps.append(("Score new rows.", _predict(run, "scores.parquet")))
    return tuple(steps)


def ways_out(run: Run, frontier: FairFrontier, choice: Choice, problem: NoSuchModel) -> Steps:
    """What to do where no model keeps the limits."""
    steps = []
    if problem.nearest is not None:
        wider = choice.widened(problem.nearest)
        steps.append(("Ask for what the nearest keeps.", wider.command(run, frontier)))
        nearest = replace(choice, allow_nearest=True)
        steps.append(("Take it, marked as beyond the limit.", nearest.command(run, frontier)))
    if problem.useless:
        useless = replace(choice, allow_useless=True, allow_nearest=problem.nearest is None)
        steps.append(
            ("Take a model that is no better than chance.", useless.command(run, frontier))
        )
    if problem.nearest is not None:
        steps.append((_LONGER, _longer(run)))
    return tuple(steps)


def _longer(run: Run) -> str:
    """The command that repeats a run with more iterations and a larger strength."""
    options = run.record.options
    more: list[str] = []
    if parse_method(options.method).solve is None:
        length = "iterations" if options.has_networks else "rounds"
        more = [f"--{length}", str(2 * getattr(options, length))]
    nearer = float(f"{1 - (1 - max(options.strengths)) / 5:.4g}")
    if nearer < 1:
        more += ["--strengths", as_argument((*options.strengths, nearer))]
    settings, out = run.folder / files.SETTINGS, run.folder.with_name(f"{run.folder.name}-longer")
    return command_line("equipoise", "fit", "--settings", settings, *more, "--out", out)


def _predict(run: Run, out: str, *more: str) -> str:
    return f"{command_line('equipoise', 'predict', run.folder)} DATA --out {out}" + (
        f" {command_line(*more)}" if more else ""
    )


def _audit(run: Run, selection: Selection, why: str) -> Steps:
    """How to audit a model on more rows: score them, then assess the scores."""
    options = run.record.options
    columns = (options.target, *options.sensitive, *filter(None, [options.weight]))
    classes: Sequence[Any] = getattr(selection.model, "classes_", [])
    scores = ("score",) if len(classes) < 3 else tuple(f"score_{label}" for label in classes)
    more = ["--score", as_argument(scores), "--target", options.target]
    more += [
        "--sensitive",
        as_argument(options.sensitive),
        "--notion",
        selection.verdicts[0].notion,
    ]
    if options.weight:
        more += ["--weight", options.weight]
    if options.types:
        more += ["--types", as_argument(options.types)]
    if len(classes) == 2:
        more += ["--positive", str(classes[1])]
    if selection.threshold is not None:
        more += ["--threshold", f"{selection.threshold:.6g}"]
    limits = {each.attribute: each.limit for each in selection.verdicts if each.metric in GAPS}
    if limits:
        one = len(set(limits.values())) == 1 and len(limits) == len(options.sensitive)
        more += ["--max-gap", as_argument(next(iter(limits.values())) if one else limits)]
    for name in ("favourable", "decision"):
        if getattr(options, name) != getattr(FitOptions, name):
            more += [f"--{name}", getattr(options, name)]
    return (
        (f"{why} Score them first.", _predict(run, "scored.csv", "--id", as_argument(columns))),
        ("Then audit the scores.", command_line("equipoise", "audit", "scored.csv", *more)),
    )


def _named(some: Sequence[Verdict]) -> str:
    return listed([each.attribute for each in some])


def steps_document(steps: Steps) -> list[dict[str, str]]:
    """Steps as JSON has them."""
    return [{"sentence": sentence, "command": command} for sentence, command in steps]


def selection_document(selection: Selection, choice: Choice) -> dict[str, Any]:
    """Every number of a selection, and the choice that made it; undefined numbers are null."""
    told = {
        "choice": asdict(choice),
        **{name: value for name, value in vars(selection).items() if name not in _WRITTEN_OUT},
        "holds_on_test": selection.holds_on_test,
        "health": list(selection.model.health_.messages),
        "decisions": asdict(selection.decisions),
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
    options = run.record.options
    limit = command_line(options.limit_option, as_argument(options.max_unfairness))
    again = f"{_command(run)} {limit}"
    if not run.record.has_model:
        raise InputError(
            f"RUN must have a selected model, got '{run.folder}', of which none was chosen, as "
            f"none keeps {limit}; take the nearest: {again} --allow-nearest"
        )
    if not path.exists():
        raise InputError(
            f"RUN must have a selected model, but '{path}' is missing; select one: {again}"
        )
    document = read_document(path)
    names = {each.name for each in fields(Choice)}
    is_selection = "max_unfairness" in document.get("choice", ()) and "model_sha256" in document
    is_selection &= set(document.get("choice", ())) <= names  # older versions have fewer
    if not is_selection or not run.has(files.SELECTION):
        raise InputError(
            f"'{path}' must be the selection that equipoise wrote for this run, but it was changed "
            f"or belongs to another run; restore it from a copy, or select again: {again}"
        )
    return document


def _command(run: Run) -> str:
    return command_line("equipoise", "select", run.folder)


def _write_pages(run: Run, folder: Path, frontier: FairFrontier, taken: Taken) -> None:
    """Write report.html and, of a model that was chosen, the model card to ``folder``."""
    record, selection = run.record, taken.selection
    name = Path(record.data.path).name
    facts = RunFacts(
        title=record.options.title or f"Predicting {record.options.target} from {name}",
        data_name=name,
        source=record.source,
        flags=record.flags,
        card=files.CARD_HTML if taken.chosen else "",
        rows=record.data.rows,
        target=record.options.target,
        command=record.command,
        select_command=_command(run),
        deploy_command=_predict(run, "scores.parquet") if taken.chosen else "",
        python_lines=(
            "from equipoise import load",
            f"frontier = load({str(run.folder / files.FRONTIER)!r})",
        ),
        columns=pd.DataFrame(record.columns),
        settings=record.options.to_document() | {"task": record.task},
        versions=record.versions,
        seed=record.options.seed,
        device=record.device,
        picked=taken.choice.remark,
        chosen=taken.chosen,
        steps=taken.steps,
    )
    write_atomically(folder / files.REPORT, frontier_page(frontier, selection, facts).encode())
    if not taken.chosen:
        return
    card = model_card(selection, facts, frontier)
    write_atomically(folder / files.CARD, to_markdown(card).encode())
    write_atomically(folder / files.CARD_HTML, to_html(card).encode())
    write_atomically(folder / files.CARD_JSON, to_json(card).encode())
