"""Bad input is refused by a message that names argument, rule, value and remedy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from equipoise.auditing import audit
from equipoise.errors import InputError
from equipoise.tables import SensitiveTable
from tests.error_parts import says

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


# Options, and words of the error about them: argument, rule, value, remedy.
CASES = {
    "nan score": (
        {"scores": changed(SCORES, 5, np.nan)},
        "scores | finite | nan at position 5",
    ),
    "infinite score": (
        {"scores": changed(SCORES, 7, np.inf)},
        "scores | finite | inf at position 7",
    ),
    "two columns of scores": (
        {"scores": np.c_[SCORES, SCORES]},
        "scores | one column | (60, 2) | predict_proba(X)[:, 1]",
    ),
    "text scores": ({"scores": SEX}, "scores | numbers | ndarray"),
    "one class": ({"y": np.ones(N)}, "y | two distinct values | 1.0 in all 60 rows"),
    "one class, named": (
        {"y": np.ones(N, dtype=int), "positive": 1},
        "y | two distinct values | 1 in all 60 rows",
    ),
    "missing outcome": ({"y": changed(Y, 3, np.nan)}, "y | missing | first in row 3 | drop"),
    "text outcome": ({"y": np.where(Y == 1, "yes", "no")}, "positive | y of text | 'no' and 'yes'"),
    "no such outcome": ({"positive": 2}, "positive | value of y | (0, 1) | got 2"),
    "no such kind, beside a positive outcome": (
        {"positive": 1, "outcome": "number"},
        "outcome | 'binary', 'multiclass', 'continuous' | 'number'",
    ),
    "kind of no outcome": ({"y": None, "outcome": "binary"}, "outcome | not be given | y is None"),
    "short y": ({"y": Y[:-1]}, "y | one value for each | 60 | 59"),
    "short attributes": (
        {"sensitive_features": {"sex": SEX[:-1]}},
        "sensitive_features | one row for each | 60 | 59 | same order",
    ),
    "constant attribute": (
        {"sensitive_features": {"sex": ["F"] * N}},
        "sensitive_features | 'sex' | two distinct values | 'F' in all 60 | drop",
    ),
    "empty group": (
        {"sensitive_features": SensitiveTable.from_data({"sex": [*SEX, "x", "x"]}).take(range(N))},
        "sensitive_features | 'sex' | rows in every group | 'x' | rebuild",
    ),
    "missing attribute": (
        {"sensitive_features": {"age": changed(AGE, 4, np.nan)}},
        "sensitive_features | 'age' | missing | first in row 4 | missing_sensitive='skip'",
    ),
    "missing rule": (
        {"missing_sensitive": "drop"},
        "missing_sensitive | 'skip' | 'drop'",
    ),
    "scores among attributes": (
        {"sensitive_features": pd.DataFrame({"sex": SEX, "score": SCORES})},
        "sensitive_features | 'score' | repeat scores | leave it out",
    ),
    "outcome among attributes": (
        {"sensitive_features": pd.DataFrame({"sex": SEX, "good": np.where(Y == 1, "a", "b")})},
        "sensitive_features | 'good' | repeat y | leave it out",
    ),
    "points for probabilities": (
        {"scores": 100 * SCORES.round(2), "threshold": 0.5},
        "scores | probabilities in [0, 1] | threshold=0.5 | 64 at position 0 | 0 and 1",
    ),
    "unknown rule for the threshold": ({"threshold": "best"}, "threshold | 'youden' | 'best'"),
    "separation without y": (
        {"y": None, "notion": "separation"},
        "y | separation | None | notion='independence'",
    ),
    "unknown notion": ({"notion": "sufficiency"}, "notion | 'separation' | 'sufficiency'"),
    "unknown type": (
        {"sensitive_types": {"sexe": "discrete"}},
        "sensitive_types | 'sexe' | 'sex', 'age' | did you mean 'sex'?",
    ),
    "types of a typed table": (
        {
            "sensitive_features": SensitiveTable.from_data({"sex": SEX}),
            "sensitive_types": {"sex": "discrete"},
        },
        "sensitive_types | SensitiveTable",
    ),
    "unknown column of reference": (
        {"references": {"sexe": "F"}},
        "references | 'sex', 'age' | 'sexe' | did you mean 'sex'?",
    ),
    "unknown reference": ({"references": {"sex": "f"}}, "reference | 'sex' | ('F', 'M') | 'f'"),
    "continuous reference": ({"references": {"age": 20}}, "reference | continuous | 'age' | 20"),
    "outcome, also where positive says what y is": (
        {"outcome": "", "positive": 1},
        "outcome | 'binary', 'multiclass', 'continuous' | ''",
    ),
    "favourable": ({"favourable": "good"}, "favourable | 'high' or 'low' | 'good'"),
    "level": ({"level": 95}, "level | between 0 and 1 | 95 | 0.95"),
    "draws": ({"draws": 1}, "draws | at least 2 | got 1"),
    "permutations": ({"permutations": 0}, "permutations | at least 1 | got 0"),
    "candidates": ({"candidates": 0}, "candidates | at least 1 | got 0"),
}


@pytest.mark.parametrize(("options", "words"), CASES.values(), ids=list(CASES))
def test_refused(options, words):
    arguments = {
        "scores": SCORES,
        "y": Y,
        "sensitive_features": pd.DataFrame({"sex": SEX, "age": AGE}),
        **options,
    }
    with pytest.raises(InputError) as refused:
        audit(**arguments)
    said = str(refused.value)
    assert [part for part in words.split(" | ") if part not in said] == [], said


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
    says(row.reason, "is not finite", "rescale scores and y")
