"""What users hand over: missing labels, rows of another order, strange containers and options."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from equipoise import (
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairEncoder,
    FairFrontier,
    FairRegressor,
    SensitiveTable,
    audit,
)
from equipoise.errors import InputError
from equipoise.estimators.fitting import same_form
from equipoise.metrics import measure
from tests.composing import composed

pytestmark = pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")
N = 60
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"])
A = pd.DataFrame({"age": RNG.normal(size=N)})
Y = pd.Series(np.where(X["a"] + RNG.normal(size=N) > 0, "yes", "no"), dtype=object)
NETWORK = {"iterations": 2, "hidden": (4,), "critic_hidden": (4,), "random_state": 0}
CLASSES = {
    FairClassifier: NETWORK,
    FairRegressor: NETWORK,
    FairEncoder: NETWORK,
    FairBoostingClassifier: {"rounds": 2, "critic_hidden": (4,), "random_state": 0},
    FairBoostingRegressor: {"rounds": 2, "critic_hidden": (4,), "random_state": 0},
    FairFrontier: {
        **NETWORK,
        "strengths": (0.0, 0.5),
        "seeds": 1,
        "evaluate_every": 1,
        "metrics": ("KS-GSP", "SP"),  # the rows are too few for the gap
    },
}


def fit(kind, X=X, y=Y, sensitive_features=A, **given):
    options = {name: given.pop(name) for name in [*given] if name != "sample_weight"}
    if y is Y and "Regressor" in kind.__name__:
        y = X["a"].to_numpy()
    make = composed if kind is FairFrontier and "estimator" not in options else kind
    model = make(**{**CLASSES[kind], **options} if make is not FairFrontier else options)
    return model.fit(X, y, sensitive_features=sensitive_features, **given)


def some_missing(missing):
    y = Y.copy()
    y[[7, 3]] = missing
    return y


def nullable(values, dtype):
    return some_missing(None).map(dict(zip(("no", "yes"), values, strict=True))).astype(dtype)


MISSING = {
    "None among objects": some_missing(None).to_numpy(),
    "NaN among objects": some_missing(np.nan).to_numpy(),
    "NA among objects": some_missing(pd.NA).to_numpy(),
    "NaT among objects": some_missing(pd.NaT).to_numpy(),
    "None in a list": some_missing(None).tolist(),
    "NaN in a list": some_missing(np.nan).tolist(),
    "NA in a list": some_missing(pd.NA).tolist(),
    "Series": some_missing(None),
    "string": some_missing(None).astype("string"),
    "categorical": some_missing(None).astype("category"),
    "boolean": nullable((False, True), "boolean"),
    "Int64": nullable((0, 1), "Int64"),
    "floats": nullable((0.0, 1.0), float),
    "masked": np.ma.masked_array(np.arange(N) % 2, mask=np.isin(np.arange(N), [3, 7])),
    "polars": pl.Series(some_missing(None).tolist()),
    "polars categorical": pl.Series(some_missing(None).tolist(), dtype=pl.Categorical),
    "polars booleans": pl.Series([None if y is None else y == "yes" for y in some_missing(None)]),
    "pyarrow": pa.chunked_array([some_missing(None).tolist()]),
    "frame": some_missing(None).to_frame(),
}


@pytest.mark.parametrize("name", MISSING)
def test_missing_labels_are_counted_and_the_first_row_is_named(name):
    message = r"^y must not have missing values, got 2 \(first in row 3\); "
    for kind in (FairClassifier, FairEncoder, FairBoostingClassifier, FairFrontier):
        with pytest.raises(InputError, match=message):
            fit(kind, y=MISSING[name])
    with pytest.raises(InputError, match=message):
        audit(X["a"].to_numpy(), MISSING[name], A)
    with pytest.raises(InputError, match=message):
        measure("KS-GEO", X["a"].to_numpy(), SensitiveTable.from_data(A)["age"], MISSING[name])


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (Y.astype("string"), ["no", "yes"]),
        (Y.astype("category"), ["no", "yes"]),
        (pl.Series(Y.tolist(), dtype=pl.Categorical), ["no", "yes"]),
        (Y.tolist(), ["no", "yes"]),
        ((Y == "yes").astype("boolean"), [False, True]),
        ((Y == "yes").astype("Int64"), [0, 1]),
        ((Y == "yes").astype(int).astype(object), [0, 1]),
        (pl.Series((Y == "yes").tolist()), [False, True]),
        (np.where(Y == "yes", "nan", "None"), ["None", "nan"]),
    ],
)
def test_labels_of_any_container_are_the_classes(y, classes):
    assert fit(FairClassifier, y=y).classes_.tolist() == classes


@pytest.mark.parametrize(
    ("y", "found"),
    [
        (["a", 1] * (N // 2), "y must hold values of one type, got text .* and numbers"),
        (pd.Series(pd.date_range("2020", periods=N)), "y must not hold dates"),
        (np.array([b"a", b"b"] * (N // 2)), "y must not hold bytes"),
        (np.arange(N) * 1j, "y must not hold complex numbers"),
        ([[0], [0, 1]] * (N // 2), "y must not hold lists"),
        ([0, 10**400] * (N // 2), "y must hold finite numbers, got an integer of 401 digits"),
        (np.zeros((N, 2)), r"y should be a 1d array, got an array of shape \(60, 2\)"),
        ("yes", "y should be a 1d array"),
        (Y.tolist()[:-1], "y is refused: .*inconsistent numbers of samples"),
    ],
)
def test_what_is_no_outcome_is_refused_by_name(y, found):
    for kind in (FairClassifier, FairBoostingClassifier, FairFrontier):
        with pytest.raises(InputError, match=found):
            fit(kind, y=y)


ORDER = RNG.permutation(N)


def moved(data):
    return data.iloc[ORDER]


@pytest.mark.parametrize("argument", ["y", "sensitive_features", "sample_weight"])
@pytest.mark.parametrize("kind", [FairClassifier, FairBoostingClassifier, FairFrontier])
def test_an_index_in_another_order_is_refused(kind, argument):
    given = {"y": Y, "sensitive_features": A, "sample_weight": pd.Series(np.ones(N))}
    first = np.flatnonzero(np.arange(N) != ORDER)[0]
    with pytest.raises(InputError) as caught:
        fit(kind, **{**given, argument: moved(given[argument])})
    assert f"{argument} must have the index of X" in str(caught.value)
    assert f"got {ORDER[first]} where X has {first} (row {first})" in str(caught.value)
    assert f"{argument}.loc[X.index]" in str(caught.value)
    assert f"{argument}.to_numpy()" in str(caught.value)


def test_rows_of_one_index_may_come_in_any_order_and_arrays_have_none():
    plain = fit(FairClassifier, X=moved(X), y=moved(Y), sensitive_features=moved(A))
    for y, rows in (
        (moved(Y).to_numpy(), moved(A).to_numpy()),
        (moved(Y).tolist(), pl.from_pandas(moved(A))),
        (moved(Y), {"age": moved(A)["age"]}),
    ):
        other = fit(FairClassifier, X=moved(X), y=y, sensitive_features=rows)
        np.testing.assert_array_equal(other.predict_proba(X), plain.predict_proba(X))


@pytest.mark.parametrize(
    "index",
    [pd.RangeIndex(1, N + 1), pd.Index([*"ab"] * (N // 2)), pd.date_range("2020", periods=N)],
    ids=["shifted", "text", "dates"],
)
def test_indexes_of_other_rows_are_refused(index):
    with pytest.raises(InputError, match=r"^y must have the index of X.*\(row 0\).*the same rows"):
        fit(FairClassifier, y=Y.set_axis(index))
    fit(FairClassifier, X=X.set_axis(index), y=Y.set_axis(index), sensitive_features=A.to_numpy())


def test_an_index_of_another_type_with_equal_labels_passes():
    fit(FairClassifier, y=Y.set_axis(X.index.astype(float)))
    labels = [("a", i) for i in range(N)]
    tuples, pairs = pd.Index(labels, tupleize_cols=False), pd.MultiIndex.from_tuples(labels)
    fit(FairClassifier, X=X.set_axis(pairs), y=Y.set_axis(tuples), sensitive_features=A.to_numpy())


def test_an_index_in_another_order_is_refused_wherever_rows_are_taken():
    scores = X["a"]
    outcome = (Y == "yes").astype(int)
    with pytest.raises(InputError, match=r"^y must have the index of scores"):
        audit(scores, moved(outcome), A)
    with pytest.raises(InputError, match=r"^sensitive_features must have the index of scores"):
        audit(scores, outcome, moved(A))
    with pytest.raises(InputError, match=r"^sensitive_features\['b'\] must have the index of sens"):
        SensitiveTable.from_data({"a": A["age"], "b": moved(A["age"])})
    with pytest.raises(InputError, match=r"^y must have the index of scores"):
        measure("KS-GSP", scores, SensitiveTable.from_data(A)["age"], moved(outcome))
    model = FairRegressor(method="scutari", random_state=0)
    model.fit(X, X["b"], sensitive_features=A)
    with pytest.raises(InputError, match=r"^sensitive_features must have the index of X"):
        model.predict(X, sensitive_features=moved(A))
    plain = fit(FairClassifier)
    with pytest.raises(InputError, match=r"^y must have the index of X"):
        plain.score(X, moved(Y))
    assert plain.score(X, Y) == plain.score(moved(X), moved(Y))


TWICE = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "a"])


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("features", "found"),
    [
        (TWICE, "X must have distinct column names, got 'a' more than once"),
        (
            pa.table([pa.array(X["a"]), pa.array(X["b"])], names=["a", "a"]),
            "X must have distinct column names, got 'a' more than once",
        ),
        (Y, "X must have two dimensions, got a Series; .*to_frame"),
        (pl.Series(Y.tolist()), "X must have two dimensions, got a Series"),
        (X["a"].to_numpy(), "X is refused: Expected 2D array"),
        (X.to_numpy() * 1j, "X is refused: Complex data not supported"),
        (np.array([["a", "b"]] * N), "X is refused: .*strings"),
        (None, "X is refused"),
        (X.set_axis(["a", 1], axis=1), "Feature names are only supported if .* X.columns"),
        (pl.from_pandas(X).lazy(), "X is refused"),
    ],
)
def test_what_is_no_table_of_features_is_refused_by_name(features, found):
    for kind in (FairClassifier, FairBoostingClassifier, FairFrontier):
        with pytest.raises(InputError, match=found):
            fit(kind, X=features)
    with pytest.raises(InputError, match=found):
        fit(FairClassifier).predict(features)


def test_repeated_names_of_sensitive_features_are_refused():
    found = "sensitive_features must have distinct column names, got 'a' more than once"
    for data in (TWICE, pa.table([pa.array(X["a"]), pa.array(X["b"])], names=["a", "a"])):
        with pytest.raises(InputError, match=found):
            fit(FairClassifier, sensitive_features=data)
        with pytest.raises(InputError, match=found):
            audit(X["a"].to_numpy(), None, data)


@pytest.mark.parametrize(
    ("weights", "found"),
    [
        (["a"] * N, "sample_weight must hold numbers, got <U1 such as .*'a'"),
        (["1.0"] * N, "sample_weight must hold numbers"),
        ([None] + [1.0] * (N - 1), r"sample_weight must not have missing values, got 1 \(first in"),
        (np.r_[np.nan, np.ones(N - 1)], "sample_weight must not have missing values, got 1"),
        (np.r_[np.inf, np.ones(N - 1)], "Input sample_weight contains infinity"),
        (np.ones(N) * 1j, "sample_weight must not hold complex numbers"),
        (pd.Series(pd.date_range("2020", periods=N)), "sample_weight must not hold dates"),
        (np.ones((N, 2)), "sample_weight is refused: .* shape"),
        (2.0, "sample_weight is refused: .* shape"),
        ([], "sample_weight must have one value for each of the 60 rows, got 0"),
        ({"weight": np.ones(N)}, "sample_weight must not hold lists, dicts"),
    ],
)
def test_what_is_no_weight_is_refused_by_name(weights, found):
    for kind in (FairClassifier, FairBoostingClassifier, FairFrontier):
        with pytest.raises(InputError, match=found):
            fit(kind, sample_weight=weights)


def test_weights_of_any_container_count_the_same():
    weights = np.arange(1, N + 1) % 3 + 1
    expected = fit(FairClassifier, sample_weight=weights).predict_proba(X)
    for same in (
        weights.tolist(),
        weights[:, None],
        weights.astype(object),
        pd.Series(weights, dtype="Int64"),
        pl.Series(weights),
        torch.tensor(weights),
    ):
        found = fit(FairClassifier, sample_weight=same).predict_proba(X)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("KS-GSP", X["a"], SensitiveTable.from_data(A)), "column must be one .* got Sensitive"),
        (("KS-GSP", X["a"], A["age"]), "column must be one column of a .* got Series"),
        ((None, X["a"], SensitiveTable.from_data(A)["age"]), "metric must be one of .* got None"),
        ((["SP"], X["a"], SensitiveTable.from_data(A)["age"]), "metric must be one of"),
    ],
)
def test_measure_says_what_it_takes(arguments, found):
    with pytest.raises(InputError, match=found):
        measure(*arguments)


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        (np.array(["0.1", "0.9"] * (N // 2)), "scores must hold numbers"),
        (np.array(["0.1", "0.9"] * (N // 2), dtype=object), "scores must hold numbers"),
        (X["a"].to_numpy() * 1j, "scores must hold numbers"),
        (np.ma.masked_array(X["a"], mask=np.arange(N) == 4), "finite, got nan at position 4"),
    ],
)
def test_what_is_no_score_is_refused_by_name(scores, found):
    with pytest.raises(InputError, match=found):
        audit(scores, None, A)


def test_masked_features_are_missing():
    hidden = np.ma.masked_array(X.to_numpy(), mask=np.arange(2 * N).reshape(N, 2) % 7 == 0)
    expected = fit(FairClassifier, X=hidden.filled(np.nan))
    found = fit(FairClassifier, X=hidden).predict_proba(hidden)
    np.testing.assert_array_equal(found, expected.predict_proba(hidden.filled(np.nan)))


@pytest.mark.parametrize("types", [3, "continuous", {"age": "kontinuous"}])
def test_options_about_attributes_are_read_without_them(types):
    with pytest.raises(InputError, match=r"^sensitive_types"):
        fit(FairClassifier, strength=0, sensitive_features=None, sensitive_types=types)
    with pytest.raises(
        InputError, match=r"^missing_sensitive must be 'error' or 'skip', got 'drop'"
    ):
        fit(FairClassifier, strength=0, sensitive_features=None, missing_sensitive="drop")


TEXT = ("notion", "method", "divergence", "density_ratio", "scaling", "embedding")
TEXT += ("normalization", "critic_normalization", "optimizer", "schedule", "loss", "task")
TEXT += ("missing_sensitive", "library")
WIDTHS = ("hidden", "critic_hidden", "encoder_hidden")
WHOLE = ("critic_steps", "iterations", "batch_size", "rounds", "warmup", "early_stopping")
WHOLE += ("seeds", "evaluate_every", "members")
NUMBERS = ("strength", "gradient_penalty", "learning_rate", "critic_learning_rate", "momentum")
NUMBERS += ("weight_decay",)
REFUSED = {
    **dict.fromkeys(TEXT, (None, "?", "", 1, ["js"], {}, np.array([1, 2]))),
    **dict.fromkeys(WIDTHS, (None, 64, "64", b"6", (0,), (-3,), (2.5,), (True,), {4}, np.array(4))),
    **dict.fromkeys(WHOLE, ("?", -1, 2.5, np.nan, np.inf, True, [1], 1j, 10**30)),
    **dict.fromkeys(NUMBERS, (None, "?", -1, np.nan, np.inf, True, [0.5], 1j, np.array([0.5]))),
    "epochs": ("?", "auto", -1, 0, np.nan, np.inf, True, [1], 1j, 10**400),
    "strengths": (None, 0.5, "?", (), (1,), (0.5, 0.5), ("?",), (None,), [[0.5]], {0.5}),
    "metrics": (None, 1, "?", (1,), [[1]], np.array(2)),
    "validation": (None, "?", -1, 0, 1.5, np.nan, True, [0.5]),
    "test": (None, "?", -1, 0, 1.5, np.nan, True, [0.5]),
    "ensemble": (None, "no", 1),
    "sensitive_at_prediction": (None, "no", 1),
    "linear_path": (None, "no", 1),
    "estimator": ("?", 1, (), [FairEncoder()], FairClassifier),
    "lightgbm": ("?", 1, {"?": 1}),
    "xgboost": ("?", 1, {"?": 1}),
    "network": ("?", 1),
    "sensitive_types": ("?", 1, {"age": "?"}, {"?": "discrete"}),
    "random_state": ("?", -1, 0.5, True, [1]),
    "device": ("?", 0.5, True, [1], None),
    "engine": (None, "?", 1),
    "n_jobs": ("?", 0, 1.5, True, [1]),
    "verbose": ("?", None, 2),
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_option_of_a_wrong_kind_is_refused_by_name(kind):
    for option in inspect.signature(kind).parameters:
        for value in REFUSED[option]:
            with pytest.raises(InputError) as caught:
                fit(kind, **{option: value})
            words = {"strengths": "strength", "metrics": "metric"}
            assert words.get(option, option) in str(caught.value), (option, value)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_lists_and_numpy_numbers_are_as_good_as_tuples_and_numbers(kind):
    as_lists = {
        name: list(value) if isinstance(value, tuple) else np.int64(value)
        for name, value in CLASSES[kind].items()
    }
    assert same_form(as_lists) == same_form(CLASSES[kind])
    ours, theirs = fit(kind), fit(kind, **as_lists)
    if kind is FairFrontier:
        pd.testing.assert_frame_equal(ours.table(), theirs.table())
    else:
        answers = [
            model.transform if kind is FairEncoder else model.predict for model in (ours, theirs)
        ]
        np.testing.assert_array_equal(answers[0](X), answers[1](X))


def test_a_list_of_widths_is_no_change_to_a_run(tmp_path):
    frontier = {"strengths": (0.0,), "seeds": 1, "iterations": 2, "evaluate_every": 1}
    frontier["metrics"] = ("KS-GSP",)
    given = {"checkpoint": tmp_path / "run", "resume": True}
    first = composed(**frontier, hidden=(4,), random_state=0)
    first.fit(X, Y, sensitive_features=A, **given)
    again = composed(**{**frontier, "strengths": [0]}, hidden=[4], random_state=np.int64(0))
    again.fit(X, Y, sensitive_features=A, **given)
    pd.testing.assert_frame_equal(first.table(), again.table())
