"""The card of a chosen model, gathered from its selection and the run it came from."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from equipoise.estimators import Regresses
from equipoise.estimators.boosting import BoostingEstimator
from equipoise.frontier import FairFrontier
from equipoise.frontier.offer import assessed_columns
from equipoise.frontier.selection import Selection
from equipoise.frontier.snapshots import ONE
from equipoise.methods.registry import parse_method
from equipoise.notions import Notion
from equipoise.report.model_card.card import AssessedAttribute, ModelCard
from equipoise.report.run_facts import RunFacts, select_call

_MEANINGS = {
    Notion.INDEPENDENCE: "the score should not depend on the sensitive attributes",
    Notion.SEPARATION: "among people of equal outcome, the score should not depend on the "
    "sensitive attributes",
}


def model_card(selection: Selection, about: RunFacts, frontier: FairFrontier) -> ModelCard:
    """Gather the card of a chosen model from the run it came from."""
    notion = Notion.parse(frontier.notion)
    method = parse_method(frontier.method)
    names = dict.fromkeys(row.attribute for row in selection.rows if row.attribute)
    metric_for = tuple(row.attribute for row in selection.rows if row.metric == selection.metric)
    regression = frontier.task == "regression"
    target = about.target or "the outcome"
    return ModelCard(
        name=about.title,
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
        architecture=_architecture(selection, frontier),
        choice=_choice(selection, about.picked),
        data=about.data_name or "data without a name",
        target=target,
        training_rows=len(frontier.split_.train),
        validation_rows=selection.validation_rows,
        test_rows=selection.test_rows,
        features=tuple(map(str, getattr(selection.model, "feature_names_in_", ()))),
        attributes=_attributes(frontier),
        output=_output(selection, target),
        threshold=selection.threshold,
        level=selection.level,
        rows=selection.rows,
        limitations=tuple(_limitations(selection)),
        tradeoffs=(_tradeoff(selection, frontier),),
        settings=about.settings,
        versions=about.versions,
        device=about.device,
        command=about.command,
        deploy_command=about.deploy_command,
        python=(*about.python_lines, f"model = {select_call(selection, metric_for)}.model"),
    )


def _architecture(selection: Selection, frontier: FairFrontier) -> str:
    model, averaged = selection.model, selection.averaged
    if isinstance(model, BoostingEstimator):
        trees = (
            f"gradient-boosted trees (LightGBM), {model.rounds} rounds at most, learning rate "
            f"{model.learning_rate:g}"
        )
        return trees if averaged == 1 else f"average of {averaged}, each of {trees}"
    if not parse_method(frontier.method).capabilities.neural:
        one = "linear model"
    elif frontier.network is not None:
        one = "network of the user's own"
    elif len(frontier.hidden) == 0:
        one = "linear model (a network without hidden layers)"
    else:
        widths = ", ".join(map(str, frontier.hidden))
        one = f"fully connected network with hidden layers of {widths} units"
    return one if averaged == 1 else f"average of {averaged}, each a {one}"


def _output(selection: Selection, target: str) -> str:
    if isinstance(selection.model, Regresses):
        return f"a prediction of {target}, in its own units"
    classes = [str(each) for each in selection.model.classes_]
    if len(classes) > 2:
        return f"a probability of each class of {target}: {', '.join(classes)}"
    # Of two classes the selection has a threshold.
    return (
        f"the probability that {target} is {classes[1]}; assessed as a decision where it is above "
        f"{selection.threshold:.4g}"
    )


def _choice(selection: Selection, picked: str) -> str:
    how = f" The model was {picked}." if picked else ""
    return (
        f"Snapshot {selection.snapshot} ({selection.origin}) has {selection.aim} with "
        f"{selection.wish}, of {selection.picked_among} snapshots on a front, on "
        f"{selection.validation_rows:,} validation rows.{how}"
    )


def _attributes(frontier: FairFrontier) -> tuple[AssessedAttribute, ...]:
    """Read off the test rows' table; without test rows nothing was assessed on them."""
    return tuple(
        AssessedAttribute(column.name, column.kind, tuple(map(str, column.categories)))
        for column in assessed_columns(frontier)
    )


def _limitations(selection: Selection) -> Iterator[str]:
    if selection.test_rows == 0:
        yield (
            "There are no test rows any more: the values are those on the validation rows that "
            "picked this model, which flatter the best of many."
        )
    else:
        kept = "keeps" if selection.holds_on_test else "does not keep"
        yield (
            f"It was picked on validation rows; on {selection.test_rows:,} test rows, used neither "
            f"to train nor to pick, it {kept} the limits it was picked by ({selection.wish})."
        )
    yield (
        "Every number is about this score and the people in these rows. Other people, another time "
        "or another source of data need a new assessment."
    )
    yield (
        "The notion compares distributions over groups. It says nothing about single persons, and "
        "a small value is no proof that there is no dependence."
    )
    yield (
        "Recorded outcomes are taken as the truth. Where the record is unjust, so is what is "
        "measured against it."
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
            f"{of} assessed on these test rows; comparing more makes them rows that pick."
        )
    yield from (f"Training: {message}" for message in selection.model.health_.messages)


def _tradeoff(selection: Selection, frontier: FairFrontier) -> str:
    table = frontier.table()
    best = table.iloc[int(np.nanargmax(table["utility"].to_numpy()))]
    # The table names the family where there are two.
    family = f"{ONE[best['predictor']]}, " if "predictor" in table else ""
    chosen = selection.rows[0]
    return (
        f"Strength trades {chosen.metric} for less dependence. On the validation rows the best "
        f"{chosen.metric} of all {len(table):,} snapshots, whatever their unfairness, was "
        f"{best['utility']:.4f} ({family}strength {best['strength']:g}); this model has "
        f"{chosen.validation:.4f}."
    )
