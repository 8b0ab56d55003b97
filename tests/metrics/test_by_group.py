"""Numbers by group: against fairlearn, scikit-learn and definitions; bad input refused in words."""

import fairlearn.metrics as fl
import numpy as np
import pandas as pd
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.metrics import by_group
from equipoise.metrics.by_group import MEANS, calibration_cells
from equipoise.tables import SensitiveTable

THEIRS = {
    "selection rate": fl.selection_rate,
    "true positive rate": fl.true_positive_rate,
    "false positive rate": fl.false_positive_rate,
    "false negative rate": fl.false_negative_rate,
    "precision": lambda y, d, sample_weight=None: sk.precision_score(
        y, d, sample_weight=sample_weight, zero_division=0
    ),
    "accuracy": sk.accuracy_score,
}
#: Rows without which fairlearn or scikit-learn says 0, and we say undefined.
NEEDED = {
    "true positive rate": lambda y, d: y == 1,
    "false positive rate": lambda y, d: y == 0,
    "false negative rate": lambda y, d: y == 1,
    "precision": lambda y, d: d == 1,
}


def drawn(seed, n, groups):
    """Outcomes, decisions, groups (some tiny) and weights with zeros among them."""
    rng = np.random.default_rng(seed)
    y, d = rng.integers(0, 2, (2, n))
    y[:2] = (0, 1)
    a = rng.choice(groups, n, p=np.arange(1, groups + 1) / np.arange(1, groups + 1).sum())
    a[:2] = (0, 1)
    return y, d, np.array([f"g{each}" for each in a]), rng.integers(1, 5, n) / 2


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(6, 40), st.integers(2, 5), st.booleans())
def test_fairlearn_agrees_wherever_both_define_a_number(seed, n, groups, weighted):
    y, d, a, w = drawn(seed, n, groups)
    params = {name: {"sample_weight": w} for name in THEIRS} if weighted else None
    theirs = fl.MetricFrame(
        metrics=THEIRS, y_true=y, y_pred=d, sensitive_features=a, sample_params=params
    )
    ours = by_group(
        y,
        decisions=d,
        sensitive_features={"a": a},
        metrics=list(THEIRS),
        sample_weight=w if weighted else None,
    )
    for name in THEIRS:
        needed = NEEDED.get(name, lambda y, d: y == y)(y, d)
        for group in theirs.by_group.index:
            found = ours.by_group.loc[group, name]
            assert ours.counts.loc[group, name] == (needed & (a == group)).sum()
            if (needed & (a == group)).any():
                assert found == pytest.approx(theirs.by_group.loc[group, name], abs=1e-12)
                assert ours.reasons.loc[group, name] == ""
            else:
                assert (
                    np.isnan(found) and "no row of this group has" in ours.reasons.loc[group, name]
                )
        if not ours.by_group[name].isna().any():
            for method in ("between_groups", "to_overall"):
                assert ours.difference(method)[name] == pytest.approx(
                    theirs.difference(method)[name], abs=1e-12
                )
                expected = theirs.ratio(method)[name]
                if np.isfinite(expected):
                    assert ours.ratio(method)[name] == pytest.approx(expected, abs=1e-12)
        if needed.any():
            assert ours.overall[name] == pytest.approx(theirs.overall[name], abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_any_function_agrees_with_fairlearn(weighted):
    rng = np.random.default_rng(0)
    y, score = rng.integers(0, 2, 300), rng.random(300).round(2)
    a = rng.choice(["p", "q", "r"], 300)
    w = rng.random(300) if weighted else None
    functions = {"AUC": sk.roc_auc_score, "log loss": sk.log_loss}
    theirs = fl.MetricFrame(
        metrics=functions,
        y_true=y,
        y_pred=score,
        sensitive_features=a,
        sample_params={name: {"sample_weight": w} for name in functions} if weighted else None,
    )
    ours = by_group(
        y, score, sensitive_features={"a": a}, metrics=[], functions=functions, sample_weight=w
    )
    pd.testing.assert_frame_equal(
        ours.by_group, theirs.by_group.astype(float), check_names=False, rtol=1e-12
    )
    for method in ("between_groups", "to_overall"):
        for name in functions:
            assert ours.difference(method)[name] == pytest.approx(theirs.difference(method)[name])
            assert ours.ratio(method)[name] == pytest.approx(theirs.ratio(method)[name])


def test_functions_get_decisions_or_scores_as_asked():
    y, score = np.array([0, 1, 1, 0]), np.array([0.2, 0.9, 0.4, 0.6])
    options = {
        "sensitive_features": {"a": list("bbcc")},
        "threshold": 0.5,
        "functions": {"sum": lambda y, given: float(np.sum(given))},
        "metrics": [],
    }
    assert by_group(y, score, **options).by_group["sum"].tolist() == [1.0, 1.0]
    on_scores = by_group(y, score, **options, on="scores").by_group["sum"]
    assert on_scores.tolist() == pytest.approx([1.1, 1.0])


def test_a_function_that_refuses_a_group_gives_the_reason():
    found = by_group(
        [0, 1, 1, 1],
        [0.1, 0.2, 0.3, 0.4],
        sensitive_features={"a": list("bbcc")},
        functions={"inverse": lambda y, s: 1 / float((y == 0).sum())},
    )
    assert found.by_group["inverse"].iloc[0] == 1.0
    assert np.isnan(found.by_group["inverse"].iloc[1])
    assert "division by zero" in found.reasons["inverse"].iloc[1]


def test_errors_of_a_regression_are_scikit_learns():
    rng = np.random.default_rng(1)
    y, score, w = rng.normal(size=90), rng.normal(size=90), rng.random(90)
    a = rng.choice(["p", "q"], 90)
    found = by_group(y, score, sensitive_features={"a": a}, sample_weight=w)
    for group in ("p", "q"):
        rows = a == group
        options = {"sample_weight": w[rows]}
        expected = {
            "mean score": np.average(score[rows], weights=w[rows]),
            "mean error": np.average((score - y)[rows], weights=w[rows]),
            "mean absolute error": sk.mean_absolute_error(y[rows], score[rows], **options),
            "RMSE": sk.root_mean_squared_error(y[rows], score[rows], **options),
        }
        assert found.by_group.loc[group].to_dict() == pytest.approx(expected, abs=1e-12)
    assert np.isnan(found.ratio()["mean error"])  # a ratio of signed numbers means nothing


def test_the_calibration_gap_is_expected_minus_observed():
    y, score = np.array([1, 0, 1, 1]), np.array([0.5, 0.25, 0.75, 0.25])
    found = by_group(y, score, sensitive_features={"a": list("bbcc")})
    assert found.by_group["calibration gap"].tolist() == [0.375 - 0.5, 0.5 - 1.0]
    assert found.by_group["outcome rate"].tolist() == [0.5, 1.0]


def test_calibration_cells_hold_every_row_of_a_group_once_and_ties_together():
    rng = np.random.default_rng(2)
    scores, codes = rng.random(400).round(1), rng.integers(-1, 3, 400)
    cells = calibration_cells(scores, codes, 3)
    rows = np.concatenate([cell.rows for cell in cells])
    assert sorted(rows) == np.flatnonzero(codes >= 0).tolist()
    for cell in cells:
        assert (codes[cell.rows] == cell.group).all()
        inside = (scores >= cell.low) & (scores <= cell.high) & (codes == cell.group)
        assert np.array_equal(np.flatnonzero(inside), np.sort(cell.rows))


def test_columns_are_crossed_and_ranges_made():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 300), "age": rng.normal(40, 9, 300)})
    score = rng.random(300)
    crossed = by_group(scores=score, sensitive_features=frame)
    ranges = by_group(scores=score, sensitive_features=frame[["age"]])
    assert crossed.attribute == "sex x age"
    assert [name.split(", ")[1] for name in crossed.groups] == [*ranges.groups] * 2
    assert ranges.counts["mean score"].tolist() == [30] * 10
    for name, value in crossed.by_group["mean score"].items():
        sex, age = name.split(", ")
        low, high = map(float, age.split(" to "))
        near = frame["age"].between(low - 0.005, high + 0.005) & (frame["sex"] == sex)
        assert value == pytest.approx(score[near].mean(), abs=1e-12)


def test_every_class_against_the_rest():
    rng = np.random.default_rng(4)
    y, d = rng.choice(["red", "green", "blue"], (2, 200))
    a = {"a": rng.choice(["p", "q"], 200)}
    found = by_group(y, decisions=d, sensitive_features=a)
    recall = fl.MetricFrame(
        metrics=lambda t, p: sk.recall_score(t, p, average=None, labels=["red"])[0],
        y_true=y,
        y_pred=d,
        sensitive_features=a["a"],
    )
    for group in ("p", "q"):
        assert found.by_group.loc[group, "true positive rate (red)"] == pytest.approx(
            recall.by_group[group], abs=1e-12
        )
    rows = a["a"] == "p"
    assert found.by_group.loc["p", "accuracy"] == pytest.approx(sk.accuracy_score(y[rows], d[rows]))
    one = by_group(y, decisions=d, sensitive_features=a, positive="red")
    for name in ("selection rate", "true positive rate", "precision"):
        assert one.by_group[name].tolist() == found.by_group[f"{name} (red)"].tolist()
    assert set(found.below_four_fifths.index) == {
        f"selection rate ({each})" for each in ("red", "green", "blue")
    }


def test_decisions_may_be_values_of_y():
    y = np.array(["good", "bad", "bad", "good"])
    d = np.array(["good", "good", "bad", "bad"])
    a = {"a": list("bbcc")}
    by_name = by_group(y, decisions=d, sensitive_features=a, positive="bad")
    by_number = by_group(y == "bad", decisions=d == "bad", sensitive_features=a)
    pd.testing.assert_frame_equal(by_name.by_group, by_number.by_group)
    swapped = by_group([1, 2, 2, 1], decisions=[1, 1, 2, 2], sensitive_features=a)
    pd.testing.assert_frame_equal(swapped.by_group, by_number.by_group)


@pytest.mark.parametrize(("women", "below"), [(101, True), (100, False), (99, False)])
def test_the_four_fifths_line(women, below):
    """80 women of so many are selected, and all men."""
    decisions = np.concatenate([np.ones(80), np.zeros(women - 80), np.ones(100)])
    sex = ["F"] * women + ["M"] * 100
    found = by_group(decisions=decisions, sensitive_features={"sex": sex})
    assert bool(found.below_four_fifths["selection rate"]) == below


def test_whole_weights_are_repeated_rows():
    rng = np.random.default_rng(5)
    y, d, a, _ = drawn(5, 60, 3)
    w = rng.integers(0, 4, 60)
    once = by_group(y, decisions=d, sensitive_features={"a": a}, sample_weight=w)
    times = np.repeat(np.arange(60), w)
    repeated = by_group(y[times], decisions=d[times], sensitive_features={"a": a[times]})
    pd.testing.assert_frame_equal(once.by_group, repeated.by_group, rtol=1e-12)


def test_rows_without_a_group_take_no_part():
    table = SensitiveTable.from_data({"a": ["b", None, "c", "b"]}, missing="skip")
    found = by_group(scores=[1.0, 100.0, 2.0, 3.0], sensitive_features=table)
    assert found.by_group["mean score"].tolist() == [2.0, 2.0]
    assert found.overall["mean score"] == 2.0


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, ("scores", "decisions", "neither")),
        ({"scores": [0.1] * 4, "threshold": "no"}, ("threshold", "'no'")),
        ({"decisions": [0, 1, 0, 1], "threshold": 0.5}, ("threshold", "scores")),
        ({"decisions": [0, 1, 2, 1]}, ("decisions", "0 and 1", "2")),
        ({"decisions": [0, 1, 0]}, ("sensitive_features", "3", "4")),
        ({"scores": [[0.1, 0.2]] * 4}, ("scores", "(4, 2)", "positive=")),
        ({"scores": [0.1] * 4, "y": [0, 1, 0]}, ("y", "4", "3")),
        ({"scores": [0.1] * 4, "positive": 1}, ("positive", "without y")),
        ({"scores": [0.1] * 4, "y": list("abab")}, ("positive", "text", "'a'")),
        ({"scores": [0.1] * 4, "y": list("abab"), "positive": "c"}, ("positive", "'a'", "'c'")),
        ({"scores": [0.1] * 4, "metrics": ["acuracy"]}, ("metrics", "'acuracy'", "accuracy")),
        ({"scores": [0.1] * 4, "metrics": ["precision"]}, ("precision", "decisions", "none")),
        (
            {"scores": [0.1] * 4, "y": [0, 1, 0, 1], "metrics": ["RMSE"]},
            ("RMSE", "continuous", "binary"),
        ),
        (
            {"scores": [0.1, 0.2, 0.3, 7], "y": [0, 1, 0, 1], "metrics": ["calibration gap"]},
            ("calibration gap", "[0, 1]", "7"),
        ),
        ({"scores": [0.1] * 4, "sample_weight": [1, 1, 1]}, ("sample_weight", "(4,)", "(3,)")),
        ({"scores": [0.1] * 4, "sample_weight": [1, 1, 1, -2]}, ("sample_weight", "-2")),
        ({"scores": [0.1] * 4, "functions": {"f": max}}, ("functions", "y", "'f'")),
        (
            {
                "scores": [0.1] * 4,
                "y": [0, 1, 0, 1],
                "functions": {"f": lambda y, s: 0.0},
                "sample_weight": [1, 1, 1, 2],
            },
            ("functions", "sample_weight", "'f'", "wrap"),
        ),
        (
            {"decisions": list("abcd"), "y": list("abca")},
            ("decisions", "values of y", "'d'", "positive="),
        ),
    ],
)
def test_bad_input_is_refused_in_words(options, parts):
    with pytest.raises(InputError) as caught:
        by_group(sensitive_features={"a": list("bbcc")}, **options)
    for part in parts:
        assert part in str(caught.value)


def test_every_number_says_what_it_is():
    for name, mean in MEANS.items():
        assert mean.name == name
        # A condition beside the group is said in words, too.
        assert bool(mean.counted) == ("A=a, " in mean.formula)
