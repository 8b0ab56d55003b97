"""Model cards: what a chosen model is, how it did on test rows, and what its owner must add.

Markdown has the metadata and the sections of Hugging Face's template
(https://huggingface.co/docs/hub/model-cards). JSON has the fields of Google's Model Card Toolkit
(https://github.com/tensorflow/model-card-toolkit/tree/main/model_card_toolkit/schema) and the
confidence_interval of its Python interface. Both go back to Mitchell et al. (2019), Model Cards for
Model Reporting. HTML has the sections of the Markdown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import yaml

from equipoise.estimators import FairAdjuster
from equipoise.frontier import FairFrontier, Selection, SelectionRow
from equipoise.frontier.snapshots import predictor_in_words
from equipoise.methods import parse_method
from equipoise.notions import Notion
from equipoise.predictors.boosting import LIBRARIES
from equipoise.report.frontier_page import RunFacts, gap_in_words, select_call
from equipoise.report.page import (
    code_block,
    escaped,
    find_template,
    markdown_table,
    plain,
    render_page,
    verb_of,
    verdict_panels,
)
from equipoise.tables import SensitiveColumn

TO_FILL_IN = "to be filled in by the owner"


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The card of one model: facts of the run and, from `owner` on, fields for its owner.

    Fill these in with ``dataclasses.replace``.
    """

    selection: Selection  # the model, and every number of the report on it
    about: RunFacts
    overview: str
    task: Literal["tabular-classification", "tabular-regression"]  # as Hugging Face calls it
    notion: str
    notion_meaning: str
    mitigation: str
    method_reference: str
    architecture: str
    choice: str  # which snapshot was chosen, and why
    data: str
    target: str
    training_rows: int
    features: tuple[str, ...]
    attributes: tuple[str, ...]  # sensitive columns with their kinds and groups
    output: str  # what the model returns
    limitations: tuple[str, ...]
    tradeoffs: tuple[str, ...]
    python: tuple[str, ...]  # lines that load the run and pick this model
    owner: str = f"{TO_FILL_IN}: person or team that answers for this model"
    contact: str = f"{TO_FILL_IN}: where questions and complaints go"
    license: str = f"{TO_FILL_IN}: an SPDX identifier, or the terms of use"
    users: str = f"{TO_FILL_IN}: who is meant to use this model"
    use_cases: str = f"{TO_FILL_IN}: which decisions it is meant for, about whom"
    out_of_scope: str = f"{TO_FILL_IN}: what it must not be used for"
    risks: str = f"{TO_FILL_IN}: who may be harmed by a wrong score, and what is done about it"
    citation: str = f"{TO_FILL_IN}: how to cite this model"

    @property
    def mitigation_sentence(self) -> str:
        """What was done for the notion, and who described it."""
        source = f" ({self.method_reference})" if self.method_reference else ""
        return f"Mitigation for {self.notion}: {self.mitigation}{source}."

    @property
    def nearest_sentence(self) -> str:
        """That no model of the run keeps the limits, where none does; else ""."""
        if not self.selection.nearest:
            return ""
        return (
            f"Does not keep the limit. No model of the run has {self.selection.wish} on the "
            "validation rows. This one is the nearest."
        )

    @property
    def description(self) -> Mapping[str, str]:
        """What the model is, by the names of Hugging Face's template where it has one."""
        return {
            "Developed by": self.owner,
            "Model type": self.architecture,
            "License": self.license,
            "Notion of fairness": f"{self.notion}: {self.notion_meaning}",
            "Mitigation": self.mitigation,
            "Output": self.output,
            **({"Sensitive features": self.sensitive_use} if self.sensitive_use else {}),
        }

    @property
    def sensitive_use(self) -> str:
        """Which sensitive columns the model sees at prediction, in a sentence; "" if none."""
        return self.selection.sensitive_use

    @property
    def training_data(self) -> str:
        """How many rows of which data did what, and what was learned from what."""
        rows = f"{self.training_rows:,} rows train, {self.selection.validation_rows:,} pick"
        return (
            f"{self.data}: {rows}, {self.selection.test_rows:,} report. Outcome: {self.target}. "
            f"Features: {', '.join(self.features)}."
        )

    @property
    def testing(self) -> str:
        """What the results rest on."""
        if self.selection.test_rows == 0:
            return "The run was kept without its test rows, so there are validation values only."
        return (
            f"{self.selection.test_rows:,} rows that were used neither to train nor to pick the "
            f"model. Intervals and certificates have a level of {100 * self.selection.level:g} %. "
            f"Unfairness is 0 for a score that satisfies {self.notion}. Assessed by:"
        )

    @property
    def objective(self) -> str:
        """What was trained, and for what."""
        return f"{self.architecture}; objective: task loss and penalty for {self.notion}."

    @property
    def to_fill_in(self) -> tuple[str, ...]:
        """Names of the fields that the owner has not filled in yet."""
        return tuple(name for name, each in vars(self).items() if str(each).startswith(TO_FILL_IN))


_MEANINGS = {
    Notion.INDEPENDENCE: "the score should not depend on the sensitive attributes",
    Notion.SEPARATION: "among people of equal outcome, the score should not depend on the "
    "sensitive attributes",
}


def model_card(selection: Selection, about: RunFacts, frontier: FairFrontier) -> ModelCard:
    """Gather the card of a chosen model from the run it came from."""
    model = selection.model
    notion = Notion.parse(model.notion)
    method = parse_method(model.method)
    names = dict.fromkeys(row.attribute for row in selection.rows if row.attribute)
    metric_for = tuple(row.attribute for row in selection.rows if row.metric == selection.metric)
    curve = frontier.fitted_curve()
    regression = curve.snapshots.criteria.outcome == "continuous"
    target = about.target or "the outcome"
    test = curve.test  # without test rows nothing was assessed on them
    return ModelCard(
        selection=selection,
        about=about,
        overview=(
            f"{'Predicts' if regression else 'Scores'} {target}, assessed by {', '.join(names)} "
            f"for {notion}: {_MEANINGS[notion]}."
        ),
        task="tabular-regression" if regression else "tabular-classification",
        notion=str(notion),
        notion_meaning=_MEANINGS[notion],
        mitigation=(
            f"{method.title} ({method.name}), strength {selection.strength:g}"
            if selection.strength > 0
            else "none: strength 0 is plain training"
        ),
        method_reference=method.reference if selection.strength > 0 else "",
        architecture=_architecture(selection),
        choice=_choice(selection, about.picked),
        data=about.data_name or "data without a name",
        target=target,
        training_rows=len(frontier.split_.train),
        features=tuple(map(str, getattr(model, "feature_names_in_", ()))),
        attributes=tuple(map(_in_words, () if test is None else test.table.columns)),
        output=_output(selection, target),
        limitations=tuple(_limitations(selection)),
        tradeoffs=(_tradeoff(selection, frontier),),
        python=(*about.python_lines, f"model = {select_call(selection, metric_for)}.model"),
    )


def _architecture(selection: Selection) -> str:
    options = selection.model.get_params(deep=False)
    article = "a "
    if selection.model.family != "network":
        article = "of "
        one = (
            f"gradient-boosted trees ({LIBRARIES[options['library']].title}), {options['rounds']} "
            f"rounds at most, learning rate {options['learning_rate']:g}"
        )
    elif not parse_method(options["method"]).capabilities.neural:
        one = "linear model"
    elif options.get("network") is not None:
        one = "network of the user's own"
    elif len(options["hidden"]) == 0:
        one = "linear model (a network without hidden layers)"
    else:
        widths = ", ".join(map(str, options["hidden"]))
        one = f"fully connected network with hidden layers of {widths} units"
        if isinstance(selection.model, FairAdjuster):
            kept = ", increasing in it" if options["increasing"] else ""
            one += f" that adjusts {selection.model.adjusts}{kept}"
    averaged = selection.averaged
    return one if averaged == 1 else f"average of {averaged}, each {article}{one}"


def _output(selection: Selection, target: str) -> str:
    classes = [str(each) for each in getattr(selection.model, "classes_", ())]
    if not classes:
        return f"a prediction of {target}, in its own units"
    if len(classes) > 2:
        return f"a probability of each class of {target}: {', '.join(classes)}"
    # Of two classes the selection has a threshold.
    return (
        f"the probability that {target} is {classes[1]}; assessed as a decision: people "
        f"{verb_of(selection.verdicts)} where it is above {selection.threshold:.4g}"
    )


def _choice(selection: Selection, picked: str) -> str:
    how = f" The model was {picked}." if picked else ""
    return (
        f"Snapshot {selection.snapshot} ({selection.origin}) has {selection.aim} with "
        f"{selection.wish}, of {selection.picked_among} snapshots on a front, on "
        f"{selection.validation_rows:,} validation rows.{how}"
    )


def _in_words(column: SensitiveColumn) -> str:
    groups = f": {', '.join(map(str, column.categories))}" if column.categories else ""
    return f"{column.name} ({column.kind}{groups})"


#: True of every model.
_LIMITATIONS = (
    "Every number is about this score and the people in these rows. Other people, another time "
    "or another source of data need a new assessment.",
    "The notion compares distributions over groups. It says nothing about single persons, and a "
    "small value is no proof that there is no dependence.",
    "Recorded outcomes are taken as the truth. Where the record is unjust, so is what is measured "
    "against it.",
)


def _limitations(selection: Selection) -> Iterator[str]:
    if selection.test_rows == 0:
        yield (
            "The run was kept without its test rows. The values are those on the validation rows "
            "that picked this model, so they are too favorable: the best of many was taken."
        )
    else:
        kept = "keeps" if selection.holds_on_test else "does not keep"
        yield (
            f"It was picked on validation rows. On {selection.test_rows:,} test rows, used neither "
            f"to train nor to pick, it {kept} the limits it was picked by ({selection.wish})."
        )
    yield from _LIMITATIONS
    if selection.sensitive_use:
        yield (
            f"{selection.sensitive_use} Law or policy may forbid decisions that look at them "
            "(disparate treatment); whether it does is for the owner to find out."
        )
    classes = len(getattr(selection.model, "classes_", ()))
    if classes > 2:
        yield (
            f"Unfairness is that of the worst of the {classes} classes, each assessed by its own "
            "probability; decisions were not assessed."
        )
    if any(not math.isnan(row.certificate) for row in selection.rows):
        of = "this model" if selection.candidates == 1 else f"{selection.candidates} models"
        yield (
            f"Each certificate holds by itself with {100 * selection.level:g} % confidence, for "
            f"{of} assessed on these test rows. Each further model you compare on these rows "
            "weakens it."
        )
    yield from (f"Training: {message}" for message in selection.model.health_.messages)


def _tradeoff(selection: Selection, frontier: FairFrontier) -> str:
    table = frontier.table()
    best = table.iloc[int(np.nanargmax(table["utility"].to_numpy()))]
    # The table names the family where there are two.
    family = f"{predictor_in_words(best['predictor'])}, " if "predictor" in table else ""
    chosen = selection.rows[0]
    return (
        f"Strength trades {chosen.metric} for less dependence. On the validation rows the best "
        f"{chosen.metric} of all {len(table):,} snapshots, whatever their unfairness, was "
        f"{best['utility']:.4f} ({family}strength {best['strength']:g}); this model has "
        f"{chosen.validation:.4f}."
    )


#: Names of utilities among Hugging Face's metrics; measures of unfairness have none there.
_METRIC_TYPES = {"AUC": "roc_auc", "macro AUC": "roc_auc", "R2": "r_squared"}


def to_markdown(card: ModelCard) -> str:
    """Write the card as Markdown: numbers to four digits, and in full in the metadata."""
    header = yaml.safe_dump(_metadata(card), sort_keys=False, allow_unicode=True, width=math.inf)
    results = _results(card)
    body = find_template("model_card.md", md=escaped, said=_said, fenced=code_block).render(
        card=card,
        placeholder=TO_FILL_IN,
        gap_in_words=gap_in_words(row.metric for row in card.selection.rows),
        table=markdown_table,
        header=list(results[0]),
        results=[row.values() for row in results],
    )
    return f"---\n{header}---\n\n{body.rstrip()}\n"


def to_html(card: ModelCard) -> str:
    """Write the card as one self-contained page."""
    results = _results(card)
    return render_page(
        "model_card.html",
        scripts=("charts.js", "model_card.js"),
        data={},
        title=f"Model card: {card.about.title}",
        card=card,
        about=card.about,
        made=[("", card.about.source, card.about.versions)],
        panels=verdict_panels(card.selection.verdicts),
        placeholder=TO_FILL_IN,
        gap_in_words=gap_in_words(row.metric for row in card.selection.rows),
        header=list(results[0]),
        results=[list(row.values()) for row in results],
    )


def _metadata(card: ModelCard) -> dict[str, object]:
    found: dict[str, object] = {
        # The Hub refuses names of licenses that it does not know; the owner's own words are below.
        "license": "unknown",
        "library_name": "equipoise",
        "pipeline_tag": card.task,
        "tags": ["fairness", card.notion, "tabular"],
        "metrics": list(dict.fromkeys(map(_metric_type, card.selection.rows))),
    }
    metrics = [
        {"type": _metric_type(row), "name": _line(row.name), "value": row.test}
        for row in card.selection.rows
        if not math.isnan(row.test)
    ]
    if metrics:
        dataset = {"type": "tabular", "name": _line(card.data), "split": "test"}
        result = {"task": {"type": card.task}, "dataset": dataset, "metrics": metrics}
        found["model-index"] = [{"name": _line(card.about.title), "results": [result]}]
    return found


def _line(text: str) -> str:
    """Text on one line, as in the card below; no line of the header can end it early."""
    return " ".join(text.split())


def _metric_type(row: SelectionRow) -> str:
    return _METRIC_TYPES.get(row.metric, row.metric.lower())


def _results(card: ModelCard) -> list[dict[str, str]]:
    """The selection's report, one mapping from heads to cells a row."""
    rows = card.selection.rows
    # Columns in which no row has anything to say are left out.
    texts = [name for name in ("where", "note") if any(getattr(row, name) for row in rows)]
    return [
        {
            "metric": row.metric,
            "by": row.attribute,
            "test": _number(row.test),
            "interval": "" if math.isnan(row.low) else f"{row.low:.4f} to {row.high:.4f}",
            "by chance": _number(row.chance),
            "certified at most": _number(row.certificate),
            "validation": _number(row.validation),
            "limit": ""
            if math.isnan(row.limit)
            else f"at {'most' if row.attribute else 'least'} {row.limit:g}",
        }
        | {name: getattr(row, name) for name in texts}
        for row in rows
    ]


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"


def _said(value: object) -> str:
    """A field of the owner's, in italics while it is a placeholder."""
    return f"*{escaped(value)}*" if str(value).startswith(TO_FILL_IN) else escaped(value)


def to_json(card: ModelCard) -> str:
    """Write the card; numbers in full, undefined ones left out.

    Beside the schema's fields a performance metric has ``chance``, ``certificate``, ``validation``,
    ``limit``, ``where`` and ``note``, where there are such. What the schema has no place for is in
    ``equipoise``: the verdicts, whether this is only the nearest model to the limits, and where the
    numbers come from.
    """
    content = {
        "schema_version": "0.0.2",
        "model_details": {
            "name": card.about.title,
            "overview": card.overview,
            "documentation": f"{card.choice} {card.mitigation_sentence}",
            "owners": [{"name": card.owner, "contact": card.contact}],
            "licenses": [{"custom_text": card.license}],
            "citations": [{"citation": card.citation}],
        },
        "model_parameters": {
            "model_architecture": card.architecture,
            "data": [
                {
                    "name": card.data,
                    "description": f"{part}: {rows} rows",
                    "sensitive": {"sensitive_data": card.attributes},
                }
                for part, rows in (
                    ("training", card.training_rows),
                    ("validation", card.selection.validation_rows),
                    ("test", card.selection.test_rows),
                )
            ],
            "input_format": (
                f"a table with the columns {', '.join(card.features)}. {card.sensitive_use}"
            ).removesuffix(". "),
            "output_format": card.output,
        },
        "quantitative_analysis": {
            "performance_metrics": [_metric(row) for row in card.selection.rows]
        },
        "considerations": {
            "users": [{"description": card.users}],
            "use_cases": [
                {"description": card.use_cases},
                {"description": f"Out of scope: {card.out_of_scope}"},
            ],
            "limitations": [{"description": text} for text in card.limitations],
            "tradeoffs": [{"description": text} for text in card.tradeoffs],
            "ethical_considerations": [
                {"name": card.risks, "mitigation_strategy": card.mitigation_sentence}
            ],
        },
        "equipoise": {
            "verdicts": [verdict.to_document() for verdict in card.selection.verdicts],
            "nearest": card.selection.nearest,
            "source": {**vars(card.about.source), "versions": card.about.versions},
        },
    }
    return json.dumps(plain(content), indent=2, allow_nan=False, ensure_ascii=False)


def _metric(row: SelectionRow) -> dict[str, Any]:
    numbers = {
        "value": row.test,
        "chance": row.chance,
        "certificate": row.certificate,
        "validation": row.validation,
        "limit": row.limit,
    }
    texts = {"type": row.metric, "slice": row.attribute, "where": row.where, "note": row.note}
    found: dict[str, Any] = {name: text for name, text in texts.items() if text}
    found |= {name: value for name, value in numbers.items() if not math.isnan(value)}
    if not math.isnan(row.low):
        found["confidence_interval"] = {"lower_bound": row.low, "upper_bound": row.high}
    return found
