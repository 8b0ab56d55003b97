"""The report of a frontier: one HTML page that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from equipoise.frontier import FairFrontier, Selection, SelectionRow
from equipoise.frontier.judging import DRAWS_FOR_MANY, Floats
from equipoise.inference.verdict import State, in_words
from equipoise.metrics import find_metric
from equipoise.metrics.gap import GAPS, LEVEL
from equipoise.metrics.sample import SMALL_GROUP
from equipoise.predictors import FAMILIES
from equipoise.report.frontier_data import PageData, SmallestGroup, Spread, View, page_data
from equipoise.report.page import Source, render_page, verb_of, verdict_panels
from equipoise.words import points

_SCRIPTS = ("charts.js", "frontier_plot.js", "frontier_scores.js", "frontier.js")
#: Marks of the first family of predictors in the picture, the second, ...
_MARKS = ("dots", "triangles", "squares")


@dataclass(frozen=True, eq=False, kw_only=True)
class RunFacts:
    """Where a frontier came from, and how its models are put to use.

    Everything is shown as text; what is left empty is left out of the page.
    """

    title: str  # heading of the page
    data_name: str = ""  # such as the name of its file
    source: Source = field(default_factory=Source)  # file, checksum and date of the run
    rows: int = 0  # that were read; 0 where that is not known
    target: str = ""  # name of the column that is predicted
    picked: str = ""  # how the model was picked: the end of a sentence that begins "The model was"
    chosen: bool = True  # False: no model was chosen, and the page shows the nearest
    #: What to do next: a sentence, and a command to paste or "".
    steps: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ()  # what was flagged about columns before training
    card: str = ""  # address of the model card's page, from where this page is
    command: str = ""  # that made the run
    #: Picks another model of the run; the page adds --max-gap, or --max-unfairness and --metric,
    #: and --attribute.
    select_command: str = "equipoise select RUN"
    #: Scores new rows with the selected model.
    deploy_command: str = "equipoise predict RUN DATA --out scores.parquet"
    #: Ends with the frontier loaded as ``frontier``; the page adds ``select``.
    python_lines: tuple[str, ...] = (
        "from equipoise import load",
        'frontier = load("RUN/frontier.equipoise")',
    )
    columns: pd.DataFrame = field(default_factory=pd.DataFrame)  # how each was read, one a row
    settings: Mapping[str, object] = field(default_factory=dict)  # to repeat the run
    versions: Mapping[str, object] = field(default_factory=dict)  # of the software that made it
    seed: int | None = None
    device: str = ""


def frontier_page(frontier: FairFrontier, selection: Selection, about: RunFacts) -> str:
    """Write the report of a fitted frontier as one self-contained HTML page.

    It begins with the model of `selection`, which ``frontier.select`` returned. It has at most
    2 MB and fetches nothing. It holds counts, rates and quantiles of the test rows by group, no
    single row.
    """
    offered = page_data(frontier, selection)
    best, families = offered.most_useful, offered.curve.families
    metrics = offered.curve.snapshots.criteria.metrics
    return render_page(
        "frontier.html",
        scripts=_SCRIPTS,
        data=_data(offered, selection, about),
        title=about.title,
        about=about,
        made=[("", about.source, about.versions)],
        panels=verdict_panels(selection.verdicts),
        verb=verb_of(selection.verdicts),
        answer=answer(
            selection,
            None if best.snapshot == selection.snapshot else best.rows,
            about,
            offered.labels,
            offered.smallest,
        ),
        selection=selection,
        joint=offered.models[offered.place(selection.snapshot)].joint_certificates,
        models=len(offered.models),
        draws=DRAWS_FOR_MANY,
        thinned=any(len(view.shown) < len(view.steps) for view in offered.views),
        kept=selection.picked_among,
        left_out=offered.left_out,
        metrics=[find_metric(name) for name in metrics],
        gap_in_words=gap_in_words(metrics),
        marks=[
            f"{mark}: {FAMILIES[family].many}"
            for mark, family in zip(_MARKS, families, strict=False)
        ],
        moment=" or ".join(dict.fromkeys(FAMILIES[family].unit for family in families)),
        front=_front(offered),
        labels=offered.labels,
        sensitive=frontier.sensitive_,
        split={name: len(rows) for name, rows in vars(frontier.split_).items()},
    )


def _data(offered: PageData, selection: Selection, about: RunFacts) -> dict[str, Any]:
    """Everything that the page's script reads."""
    criteria = offered.curve.snapshots.criteria
    return {
        "utility": criteria.utility,
        "labels": offered.labels,
        "target": about.target,
        "level": selection.level,
        "validation_rows": selection.validation_rows,
        "test_rows": selection.test_rows,
        "few_rows": SMALL_GROUP,
        "verb": verb_of(selection.verdicts),
        # The script fills in the limit, which moves with the slider.
        "verdicts": {state: in_words(state, "{limit}", selection.level) for state in State},
        "gaps": list(GAPS),
        "measures": criteria.measures,
        "points": {
            name: _to_draw(values) if name in ("utility", "unfairness") else values
            for name, values in offered.points.items()
        },
        "families": [
            {"name": name, "one": FAMILIES[name].one, "moment": FAMILIES[name].unit}
            for name in offered.curve.families
        ],
        "entries": [
            {**entry, "task": _to_draw(entry["task"]), "penalty": _to_draw(entry["penalty"])}
            for entry in offered.entries
        ],
        "views": [_view(view, offered) for view in offered.views],
        "models": [
            {
                "snapshot": model.snapshot,
                "threshold": model.threshold,
                "useless": bool(
                    offered.curve.snapshots.utility[model.snapshot] <= offered.curve.chance
                ),
                "rows": [
                    row.columns() | {"resolution": row.estimate.resolution} for row in model.rows
                ],
                "joint": model.joint_certificates,
                "health": asdict(model.health),
                "scores": [_spread(spread, offered) for spread in model.spreads],
            }
            for model in offered.models
        ],
        "attributes": [
            {
                "name": each.column.name,
                "kind": each.column.kind,
                "groups": each.labels,
                "sizes": each.sizes,
                "positions": each.middle,
            }
            for each in offered.attributes
        ],
        "selected": {
            "model": offered.place(selection.snapshot),
            "chosen": about.chosen,
            "view": offered.first,
            "limit": offered.limit,
            "python": select_call(selection, tuple(criteria.by_attribute(selection.metric))),
        },
        "select_command": about.select_command,
        "python_lines": about.python_lines,
        "predicts": "predict" if criteria.outcome == "continuous" else "predict_proba",
        "arguments": "X, sensitive_features=A" if selection.sensitive_use else "X",
    }


def _front(offered: PageData) -> list[dict[str, Any]]:
    """The models of the first view, for readers without JavaScript."""
    view, curve = offered.views[offered.first], offered.curve
    found = []
    for step in (view.steps[position] for position in view.shown):
        _, entry = curve.owner(step.snapshot)
        found.append(
            {
                "predictor": FAMILIES[entry.family].one,
                "unfairness": step.unfairness,
                "utility": curve.snapshots.utility[step.snapshot],
                "strength": entry.strength,
                "seed": f"average of {len(entry.members)}" if entry.is_average else entry.seed,
                "iteration": curve.snapshots.iteration[step.snapshot],
            }
        )
    return found


def _view(view: View, offered: PageData) -> dict[str, Any]:
    return {
        **{name: getattr(view, name) for name in ("metric", "attribute", "columns")},
        "by_gap": view.metric == gap_among(offered.curve.snapshots.criteria.metrics),
        "unfairness": [step.unfairness for step in view.steps],
        "snapshots": [step.snapshot for step in view.steps],
        "shown": [
            {
                "step": place,
                "limit": view.limit(place),
                "model": offered.place(view.steps[place].snapshot),
            }
            for place in view.shown
        ],
    }


def _spread(spread: Spread, offered: PageData) -> dict[str, Any]:
    edges, test = vars(spread.edges).copy(), offered.curve.test
    weighted = test is not None and test.weights is not None
    return {
        "class": offered.labels[spread.column] if len(offered.labels) > 2 else None,
        "bins": len(edges.pop("values")) - 1,
        **edges,
        # Whole numbers of rows are written as such, which is shorter.
        "counts": spread.counts.round(4) if weighted else spread.counts.astype(np.int64),
        "quantiles": _to_draw(spread.quantiles),
        "bands": None if spread.bands is None else _to_draw(spread.bands),
    }


def _to_draw(values: Floats) -> Any:
    """Nested lists of numbers with six digits: more than a picture shows, at a third the length."""
    if values.ndim == 0:
        return float(f"{values:.6g}")
    return [_to_draw(each) for each in values]


def answer(
    selection: Selection,
    most_useful: Sequence[SelectionRow] | None,
    about: RunFacts,
    labels: Sequence[str],
    smallest: Mapping[str, SmallestGroup],
) -> tuple[Markup, Markup, str]:
    """Say how useful the selected model is, how unfair where no verdict says it, and the basis.

    most_useful: rows of the snapshot with the best utility, None if it is selected; labels: of the
    classes, () for a continuous outcome; smallest: group of each discrete attribute among the test
    rows. The first two are HTML, in which all names are escaped.
    """
    basis = [*_basis(selection, about.picked), *_few(_counted(selection), smallest)]
    useful = _useful(selection, most_useful, about.target, labels)
    judged = bool(selection.verdicts) and selection.test_rows > 0
    return useful, Markup() if judged else _unfair(selection), " ".join(basis)


#: What a regressor explains a share of, by its utility.
_EXPLAINED = {
    "R2": "the variation of {}",
    "D2 absolute error": "the absolute differences between {} and its median",
}


def _useful(
    selection: Selection,
    most_useful: Sequence[SelectionRow] | None,
    target: str,
    labels: Sequence[str],
) -> Markup:
    row = selection.rows[0]
    share = _share(_value(row, selection))
    rest = ""
    if not math.isnan(row.low):
        level = _percent(selection.level)
        rest = f" ({level} interval {_share(row.low)} to {_share(row.high)})"
    if most_useful is None:
        rest += "; on the validation rows no model of this run did better"
    else:
        best = _share(_value(most_useful[0], selection))
        rest += (
            f"; the most useful model of this run reaches {best}{_price(selection, most_useful)}"
        )
    if row.metric in _EXPLAINED:
        text = Markup("The selected model explains <strong>{}</strong> of {}{}.")
        return text.format(share, _EXPLAINED[row.metric].format(target or "the outcome"), rest)
    if row.metric == "macro AUC":
        text = Markup(
            "Given a case of one class and a case of another, the selected model gives the first "
            "the higher probability of its class <strong>{}</strong> of the time, on average over "
            "the {} classes{}."
        )
        return text.format(share, len(labels), rest)
    case = f"with {target} = {labels[1]}" if target else f"of class {labels[1]}"
    text = Markup(
        "Given a case {} and a case without, the selected model gives the first the higher score "
        "<strong>{}</strong> of the time{}."
    )
    return text.format(case, share, rest)


def _price(selection: Selection, most_useful: Sequence[SelectionRow]) -> str:
    """How unfair the most useful model is, for the attribute where it is the most."""
    rows = [most_useful[place] for place in _counted(selection)]
    known = [row for row in rows if not math.isnan(_value(row, selection))]
    if not known:
        return ""
    row = max(known, key=lambda row: _value(row, selection))
    value = _value(row, selection)
    if row.metric in GAPS:
        return f", with a gap of {points(value)} points by {row.attribute}"
    return f", with {row.name} {value:.3f}"


def _unfair(selection: Selection) -> Markup:
    counted = _counted(selection)
    undefined = [row for row in counted.values() if math.isnan(_value(row, selection))]
    if undefined:
        text = Markup("Its unfairness for {} is not defined: {}.")
        return text.format(undefined[0].attribute, undefined[0].note)
    row = max(counted.values(), key=lambda row: _value(row, selection))
    what, zero = ("gap", "beyond chance") if row.metric in GAPS else ("unfairness", "at all")
    head = f"Its {what} is largest for {row.attribute}:"
    if len(counted) == 1:
        head = f"Its {what} for {row.attribute} is"
    level = _percent(selection.level)
    sure = [] if math.isnan(row.low) else [f"{level} interval {row.low:.3f} to {row.high:.3f}"]
    if not math.isnan(row.certificate):
        sure.append(f"with {level} confidence at most {row.certificate:.3f}")
    rest = f" ({'; '.join(sure)})" if sure else ""
    where = f" The group that stands out most is {row.where}." if row.where else ""
    text = Markup("{} <strong>{:.3f}</strong> on a scale where 0 is no difference {}{}.{}")
    return text.format(head, _value(row, selection), zero, rest, where)


def _counted(selection: Selection) -> dict[int, SelectionRow]:
    """Rows of the metric and the attributes that the selection was about, by their place."""
    return {
        place: row
        for place, row in enumerate(selection.rows)
        if row.metric == selection.metric and row.attribute in selection.attributes
    }


def _value(row: SelectionRow, selection: Selection) -> float:
    """Value on the test rows, or on the validation rows where there are no others."""
    return row.test if selection.test_rows else row.validation


def _basis(selection: Selection, picked: str) -> Iterator[str]:
    meaning = find_metric(selection.metric).description
    if selection.test_rows == 0:
        yield (
            f"This run was kept without its test rows. These are values on the "
            f"{selection.validation_rows:,} validation rows that picked the model, so they are too "
            "favorable, and they have no intervals."
        )
    else:
        yield (
            f"Measured on {selection.test_rows:,} test rows, which were used neither to train nor "
            "to choose."
        )
    yield f"Unfairness is {selection.metric}: {meaning[0].lower()}{meaning[1:]}"
    if picked:
        yield f"The model was {picked}."


def _few(
    counted: Mapping[int, SelectionRow], smallest: Mapping[str, SmallestGroup]
) -> Iterator[str]:
    for row in counted.values():
        group = smallest.get(row.attribute)
        if group is not None and group.size < SMALL_GROUP:
            rows = "row" if group.size == 1 else "rows"
            yield (
                f"The smallest group of {row.attribute}, {group.label}, has {group.size:,.6g} test "
                f"{rows}: numbers about {row.attribute} rest on a few people."
            )


def _share(value: float) -> str:
    """Shares that are read together have the same number of decimals."""
    return f"{100 * value:.1f}\N{NO-BREAK SPACE}%"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}\N{NO-BREAK SPACE}%"


def gap_in_words(metrics: Iterable[str]) -> str:
    """What a gap is, for readers of a page on which one of the metrics is a gap; else ""."""
    if not any(name in GAPS for name in metrics):
        return ""
    return (
        "Largest difference between any group, or any range of a number such as age, and all "
        "other people in the share who score above a threshold, at any threshold: 0.1 is 10 "
        "percentage points. What so few rows show by chance is taken out, so a fair score has a "
        f"gap of 0 in {_percent(LEVEL)} of samples."
    )


def gap_among(metrics: Iterable[str]) -> str | None:
    """The metric that ``max_gap`` of ``FairFrontier.select`` is about, the first gap of scores.

    >>> gap_among(["KS-GSP", "decision gap", "gap given Y"])
    'gap given Y'
    """
    return next((name for name in metrics if name in GAPS and not GAPS[name]), None)


def select_call(selection: Selection, attributes: tuple[str, ...]) -> str:
    """The Python call that makes this selection; ``attributes`` are all the metric is for."""
    limits = {
        row.attribute: row.limit
        for row in selection.rows
        if row.attribute and not math.isnan(row.limit)
    }
    wishes: dict[str, object] = {}
    by_gap = bool(limits) and selection.metric == gap_among(row.metric for row in selection.rows)
    if limits:
        same = len(set(limits.values())) == 1 and len(limits) in (1, len(attributes))
        name = "max_gap" if by_gap else "max_unfairness"
        wishes[name] = next(iter(limits.values())) if same else limits
    if len(limits) < 2 and selection.attributes != attributes:
        wishes["attribute"] = selection.attributes[0]
    if not math.isnan(selection.rows[0].limit):
        wishes["min_utility"] = selection.rows[0].limit
    if not by_gap:
        wishes["metric"] = selection.metric
    for name in ("nearest", "useless"):
        if getattr(selection, name):
            wishes[f"allow_{name}"] = True
    return f"frontier.select({', '.join(f'{name}={wish!r}' for name, wish in wishes.items())})"
