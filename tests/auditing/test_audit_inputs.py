"""Bad input is refused by a message that names argument, rule, value and remedy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from equipoise.auditing import audit
from equipoise.errors import InputError
from equipoise.tables import SensitiveTable

RNG = np.random.default_rng(0)
N = 60
SCORES = RNG.random(N)
Y = np.arange(N) % 2
SEX = np.array(["F", "F", "M"] * 20)
AGE = np.linspace(20, 80, N)
FAST = {"draws": 5, "permutations": 9}


def changed(values, position, value):
    copy = np.array(values, dtype=float)
    copy[position] = value
    return copy


CASES = {
    "nan score": (
        {"scores": changed(SCORES, 5, np.nan)},
        "scores must be finite, got nan at position 5; drop or fill these rows",
    ),
    "infinite score": (
        {"scores": changed(SCORES, 7, np.inf)},
        "scores must be finite, got inf at position 7; drop or fill these rows",
    ),
    "two columns of scores": (
        {"scores": np.c_[SCORES, SCORES]},
        "scores must be one column of at least two scores, got shape (60, 2); of several classes "
        "pass the scores of one, such as predict_proba(X)[:, 1]",
    ),
    "text scores": (
        {"scores": SEX},
        "scores must hold numbers, got ndarray that does not convert to floats",
    ),
    "one class": (
        {"y": np.ones(N)},
        "y must have at least two distinct values, got 1.0 in all 60 rows; with one class there is "
        "nothing to separate",
    ),
    "one class, named": (
        {"y": np.ones(N, dtype=int), "positive": 1},
        "y must have at least two distinct values, got 1 in all 60 rows; with one class there is "
        "nothing to separate",
    ),
    "missing outcome": (
        {"y": changed(Y, 3, np.nan)},
        "y must not have missing values, got 1 (first in row 3); drop these rows",
    ),
    "text outcome": (
        {"y": np.where(Y == 1, "yes", "no")},
        "positive must be given for a y of text, whose order says nothing, got a y of 'no' and "
        "'yes'; it names the outcome that a high score stands for",
    ),
    "no such outcome": ({"positive": 2}, "positive must be a value of y (0, 1), got 2"),
    "no such kind, beside a positive outcome": (
        {"positive": 1, "outcome": "number"},
        "outcome must be one of 'binary', 'multiclass', 'continuous', got 'number'",
    ),
    "kind of no outcome": (
        {"y": None, "outcome": "binary"},
        "outcome says what y is and must not be given when y is None",
    ),
    "short y": ({"y": Y[:-1]}, "y must have one value for each of the 60 scores, got 59"),
    "short attributes": (
        {"sensitive_features": {"sex": SEX[:-1]}},
        "sensitive_features must have one row for each of the 60 scores, got 59; pass the "
        "attributes of the same people in the same order",
    ),
    "constant attribute": (
        {"sensitive_features": {"sex": ["F"] * N}},
        "sensitive_features column 'sex' must have at least two distinct values, got 'F' in all 60 "
        "known rows; nothing can depend on a constant, so drop the column",
    ),
    "empty group": (
        {"sensitive_features": SensitiveTable.from_data({"sex": [*SEX, "x", "x"]}).take(range(N))},
        "sensitive_features column 'sex' must have rows in every group, got none in group 'x'; "
        "rebuild the column from the rows in use",
    ),
    "missing attribute": (
        {"sensitive_features": {"age": changed(AGE, 4, np.nan)}},
        "sensitive_features column 'age' must not have missing values, got 1 (first in row 4); "
        "fill them in, or set missing_sensitive='skip' to assess 'age' on the other rows",
    ),
    "missing rule": (
        {"missing_sensitive": "drop"},
        "missing_sensitive must be 'error' or 'skip', got 'drop'",
    ),
    "scores among attributes": (
        {"sensitive_features": pd.DataFrame({"sex": SEX, "score": SCORES})},
        "sensitive_features column 'score' must not repeat scores; leave it out",
    ),
    "outcome among attributes": (
        {"sensitive_features": pd.DataFrame({"sex": SEX, "good": np.where(Y == 1, "a", "b")})},
        "sensitive_features column 'good' must not repeat y; leave it out",
    ),
    "points for probabilities": (
        {"scores": 100 * SCORES.round(2), "threshold": 0.5},
        "scores must be probabilities in [0, 1] for decisions at threshold=0.5, got 64 at position "
        "0; pass probabilities, or the decisions as scores of 0 and 1",
    ),
    "unknown rule for the threshold": (
        {"threshold": "best"},
        "threshold must be 'paper', 'youden', None or numbers, got 'best'",
    ),
    "separation without y": (
        {"y": None, "notion": "separation"},
        "y must be given to assess separation, which compares people of equal outcome, got None; "
        "pass y, or notion='independence'",
    ),
    "unknown notion": (
        {"notion": "sufficiency"},
        "notion must be one of 'independence', 'separation', got 'sufficiency'",
    ),
    "unknown type": (
        {"sensitive_types": {"sexe": "discrete"}},
        "sensitive_types names a column 'sexe' that sensitive_features does not have (columns: "
        "'sex', 'age'); did you mean 'sex'?",
    ),
    "types of a typed table": (
        {
            "sensitive_features": SensitiveTable.from_data({"sex": SEX}),
            "sensitive_types": {"sex": "discrete"},
        },
        "sensitive_types must not be given with a SensitiveTable, whose columns have their kind",
    ),
    "unknown column of reference": (
        {"references": {"sexe": "F"}},
        "references must name columns of sensitive_features ('sex', 'age'), got 'sexe'; did you "
        "mean 'sex'?",
    ),
    "unknown reference": (
        {"references": {"sex": "f"}},
        "references['sex'] must be a category of that column ('F', 'M'), got 'f'",
    ),
    "continuous reference": (
        {"references": {"age": 20}},
        "references must name discrete columns, got the continuous 'age', whose parity ratios "
        "divide by the rate of all rows",
    ),
    "outcome, also where positive says what y is": (
        {"outcome": "", "positive": 1},
        "outcome must be one of 'binary', 'multiclass', 'continuous', got ''",
    ),
    "favourable": (
        {"favourable": "good"},
        "favourable must be 'high' or 'low', got 'good'; it says whether a high score is good for "
        "the person it is about",
    ),
    "level": ({"level": 95}, "level must lie strictly between 0 and 1, got 95; try level=0.95"),
    "draws": ({"draws": 1}, "draws must be a whole number of at least 2, got 1"),
    "permutations": (
        {"permutations": 0},
        "permutations must be a whole number of at least 1, got 0",
    ),
    "candidates": ({"candidates": 0}, "candidates must be a whole number of at least 1, got 0"),
}


@pytest.mark.parametrize(("options", "message"), CASES.values(), ids=list(CASES))
def test_refused(options, message):
    arguments = {
        "scores": SCORES,
        "y": Y,
        "sensitive_features": pd.DataFrame({"sex": SEX, "age": AGE}),
        **options,
    }
    with pytest.raises(InputError) as refused:
        audit(**arguments)
    assert str(refused.value) == message


@pytest.mark.parametrize("kind", [list, pd.Series, pl.Series, torch.tensor, pd.DataFrame])
def test_scores_and_outcomes_of_any_container(kind):
    expected = audit(SCORES, Y, {"sex": SEX}, **FAST).to_frame()
    found = audit(kind(SCORES.tolist()), kind(Y.tolist()), {"sex": SEX}, **FAST).to_frame()
    pd.testing.assert_frame_equal(found, expected)


def test_a_column_named_like_another_is_told_apart_by_its_name_alone():
    A = pd.DataFrame({"sex ": SEX, "Age (years)": AGE})
    names = audit(SCORES, Y, A, **FAST).to_frame()["attribute"].unique().tolist()
    assert names == ["", "sex ", "Age (years)", "sex , Age (years)"]


def test_an_r2_that_no_float_holds_is_undefined_with_its_reason():
    y = np.arange(20) * 1e-6
    scores = np.linspace(1, 2, 20) * 1e180
    table = audit(scores, y, {"sex": ["F", "M"] * 10}, draws=2, permutations=1).to_frame()
    (row,) = table[table["metric"] == "R2"].itertuples()
    assert np.isnan([row.value, row.low, row.high]).all()
    assert "float" in row.reason
