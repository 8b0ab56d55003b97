"""Options of a run: the same whether read from the command line or from settings.json."""

import json
from dataclasses import replace

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise import FairBoostingClassifier, FairFrontier, FairRegressor
from equipoise.cli.commands import app, numbers
from equipoise.errors import InputError
from equipoise.frontier.fitting import flat_options
from equipoise.runs.record import PREDICTORS, FitOptions
from tests.error_parts import says

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)
# A name may end as a whole number of a list does.
COLUMN = st.one_of(TEXT, TEXT.map("{}.0".format)).filter(lambda name: not name.startswith("-"))
FIT = typer.main.get_command(app).commands["fit"]
COLUMNS = st.lists(COLUMN, min_size=1, max_size=3, unique=True).map(tuple)


@settings(max_examples=50, deadline=None)
@given(columns=COLUMNS, more=COLUMNS, target=COLUMN)
def test_any_column_name_survives_the_command_line(columns, more, target):
    options = FitOptions(target=target, sensitive=columns, drop=more, types={more[0]: "discrete"})
    parsed = FIT.make_context("fit", options.to_arguments()).params
    assert parsed["target"] == target
    assert parsed["sensitive"] == columns
    assert parsed["drop"] == more
    assert parsed["types"] == {more[0]: "discrete"}


@settings(max_examples=50, deadline=None)
@given(columns=COLUMNS, strengths=st.lists(st.floats(0, 0.999), min_size=1).map(tuple))
def test_options_survive_the_settings_file_and_numbers_the_command_line(columns, strengths):
    options = FitOptions(target="y", sensitive=columns, strengths=strengths, max_unfairness=0.25)
    document = json.loads(json.dumps(options.to_document()))
    assert FitOptions.from_document(document) == options
    arguments = options.to_arguments()
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    if strengths != FitOptions(target="y", sensitive=columns).strengths:
        assert numbers(given["--strengths"]) == strengths
    assert float(given["--max-gap"]) == 0.25


@settings(max_examples=50, deadline=None)
@given(columns=COLUMNS, limits=st.lists(st.floats(0, 1), min_size=3, max_size=3), gap=st.booleans())
def test_limits_of_any_column_survive_the_command_line(columns, limits, gap):
    by_column = dict(zip(columns, limits, strict=False))
    metrics = ("gap given Y", "SP") if gap else ("SP", "gap")
    options = FitOptions(target="y", sensitive=columns, metrics=metrics, max_unfairness=by_column)
    document = json.loads(json.dumps(options.to_document()))
    assert FitOptions.from_document(document) == options
    given = FIT.make_context("fit", options.to_arguments()).params
    assert given["max_gap" if gap else "max_unfairness"] == by_column
    assert given["max_unfairness" if gap else "max_gap"] is None


def test_defaults_are_those_of_the_library():
    made = FitOptions(target="y", sensitive=("a",)).frontier("classification", verbose=0)
    defaults = flat_options(FairFrontier())
    changed = {name: value for name, value in flat_options(made).items() if value != defaults[name]}
    assert changed == {"random_state": 0, "evaluate_every": 100}


def test_every_option_reaches_the_frontier():
    options = FitOptions(
        target="y",
        sensitive=("a",),
        notion="separation",
        method="hgr",
        strengths=(0.0, 0.5),
        seeds=2,
        iterations=7,
        evaluate_every=3,
        metrics=("SP",),
        types={"a": "discrete"},
        missing_sensitive="skip",
        sensitive_at_prediction=True,
        seed=4,
        device="cpu",
        max_unfairness=0.3,
    )
    made = options.frontier("regression", verbose=1).get_params()
    assert type(made["estimator"]) is FairRegressor
    assert made["estimator__sensitive_types"] == {"a": "discrete"}
    assert (made["random_state"], made["verbose"]) == (4, 1)
    for name in ("strengths", "seeds", "evaluate_every", "metrics"):
        assert made[name] == getattr(options, name)
    shared = ("notion", "method", "missing_sensitive", "sensitive_at_prediction")
    for name in (*shared, "iterations", "device"):
        assert made[f"estimator__{name}"] == getattr(options, name)


def test_rounds_reach_the_trees_of_the_frontier():
    for predictor in ("boosting", "both"):
        options = FitOptions(target="y", sensitive=("a",), predictor=predictor, rounds=7)
        made = options.frontier("classification", verbose=0)
        *_, trees = made.estimator if predictor == "both" else [made.estimator]
        assert (type(trees), trees.rounds) == (FairBoostingClassifier, 7)
        every = "default" if predictor == "boosting" else [100, "default"]
        assert made.evaluate_every == every
        assert options.to_arguments()[-4:] == ["--predictor", predictor, "--rounds", "7"]
    plain = FitOptions(target="y", sensitive=("a",))
    assert plain.rounds == FairBoostingClassifier().rounds


def test_what_another_predictor_has_no_use_for_is_left_out():
    networks = FitOptions(target="y", sensitive=("a",), iterations=7, evaluate_every=3)
    document = networks.to_document()
    assert "rounds" not in document
    trees = FitOptions.from_document({**document, "predictor": "boosting", "rounds": 9})
    assert trees == FitOptions(target="y", sensitive=("a",), predictor="boosting", rounds=9)
    assert not {"iterations", "evaluate_every"} & set(trees.to_document())
    assert networks.changes(trees) == ["predictor was network, is boosting"]
    both = FitOptions.from_document({**document, "predictor": "both", "rounds": 9})
    assert (both.iterations, both.evaluate_every, both.rounds) == (7, 3, 9)
    assert trees.changes(replace(both, rounds=5)) == [
        "predictor was boosting, is both",
        "rounds was 9, is 5",
    ]


def test_settings_from_before_there_were_trees_are_those_of_networks():
    document = FitOptions(target="y", sensitive=("a",)).to_document()
    del document["predictor"]
    assert FitOptions.from_document(document).predictor == "network"


def test_the_help_has_the_defaults():
    plain = FitOptions(target="y", sensitive=("a",))
    for name in ("predictor", "iterations", "evaluate_every", "rounds", "seeds"):
        (option,) = (each for each in FIT.params if each.name == name)
        assert option.help.endswith(f"[default: {getattr(plain, name)}]")


def test_the_help_has_every_predictor():
    (option,) = (each for each in FIT.params if each.name == "predictor")
    assert all(name in option.help for name in PREDICTORS)


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_predictor_is_a_frontier_of_its_families(predictor, task):
    options = FitOptions(target="y", sensitive=("a",), predictor=predictor)
    made = options.frontier(task, verbose=0).estimator
    families = [each.family for each in (made if isinstance(made, list) else [made])]
    assert tuple(families) == tuple(options.lengths) == PREDICTORS[predictor]


def test_changes_are_said_in_words():
    first = FitOptions(target="y", sensitive=("a", "b"))
    later = replace(first, sensitive=("a",), drop=("c",), notion="separation")
    assert first.changes(first) == []
    assert first.changes(later) == [
        "sensitive was a,b, is a",
        "drop was none, is c",
        "notion was independence, is separation",
    ]


def test_nothing_sensitive_is_refused():
    with pytest.raises(InputError) as refusal:
        FitOptions(target="y", sensitive=())
    says(str(refusal.value), "--sensitive", "at least one column", "got none", "age,sex")
