"""What a fitted model makes of values that it has never seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from equipoise.estimators import Classifies, Regresses
from equipoise.predictors.boosting import BoostedTrees
from equipoise.tables import EncoderState, TreeEncoderState


@dataclass(frozen=True)
class Missing:
    """A column in which a missing value is news: why it is, and what is done about it."""

    why: str
    treated: str


@dataclass(frozen=True)
class Unknowns:
    """What a model has no experience of, by column.

    Attributes
    ----------
    missing : mapping of column to Missing
        Columns without missing values at fit.
    categories : mapping of column to its categories at fit
    unseen : mapping of column to what is done for rows with another category
    """

    missing: Mapping[str, Missing]
    categories: Mapping[str, frozenset[str]]
    unseen: Mapping[str, str]


def unknowns_of(model: Classifies | Regresses) -> Unknowns:
    """Look up what a fitted model has not seen."""
    state = model.encoder_.state()
    if isinstance(state, EncoderState):
        return _of_network(state)
    assert isinstance(model.predictor_.network, BoostedTrees)
    return _of_trees(state, model.predictor_.network)


def _of_network(state: EncoderState) -> Unknowns:
    why = "where every row had one at fit"
    median = Missing(why, "the median of the training rows stands in for it")
    nothing = Missing(why, "they are scored as having no category")
    numbers = {
        name: median
        for name in state.medians
        if name not in state.flagged and state.families[name] != "empty"
    }
    categories = {
        name: nothing for name, levels in state.levels.items() if None not in levels.categories
    }
    return Unknowns(
        {**numbers, **categories},
        {name: _named(levels.categories) for name, levels in state.levels.items()},
        dict.fromkeys(state.levels, "they are scored as having none"),
    )


def _of_trees(state: TreeEncoderState, trees: BoostedTrees) -> Unknowns:
    inexperienced = set(_never_missing(trees))
    names = [name for place, name in enumerate(state.families) if place in inexperienced]
    lowest = "LightGBM takes it for the lowest category"
    treated = {
        **dict.fromkeys(state.families, "LightGBM takes it for 0"),
        **dict.fromkeys(state.levels, "they are scored as having no category"),
        **dict.fromkeys(state.ordered, lowest),
    }
    why = "where the trees have never seen one missing"
    unseen = {
        name: lowest if name in names and name in state.ordered else "they are treated as missing"
        for name in state.levels
    }
    return Unknowns(
        {name: Missing(why, treated[name]) for name in names},
        {name: _named(levels) for name, levels in state.levels.items()},
        unseen,
    )


def _never_missing(trees: BoostedTrees) -> Iterator[int]:
    """Positions of the columns that are split without a side for missing values.

    LightGBM has such a side only where it saw missing values while binning; elsewhere it takes a
    missing amount for 0, and a missing category for one that is not on the left.
    """
    grown = zip(trees.model.tolist(), trees.rounds.tolist(), strict=True)
    for model in {model for model, rounds in grown if rounds}:
        nodes = trees.forest.models[model].trees_to_dataframe().dropna(subset=["split_feature"])
        for name in nodes.loc[nodes["missing_type"] == "None", "split_feature"].unique():
            yield int(name.removeprefix("Column_"))


def _named(levels: tuple[str | None, ...]) -> frozenset[str]:
    """Categories that have a name: missing values have none."""
    return frozenset(level for level in levels if level is not None)
