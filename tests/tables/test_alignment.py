"""Rows whose labels differ are refused, wherever rows are taken."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from equipoise import (
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairEncoder,
    FairFrontier,
    FairRegressor,
    audit,
)
from equipoise.errors import InputError
from equipoise.tables import check_aligned
from tests.error_parts import says

X = pd.DataFrame({"x": [1.0, 2, 3]}, index=["a", "b", "c"])


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        (["a", "c", "b"], ("'c' where X has 'b'", "row 1", "y.loc[X.index]", "y.to_numpy()")),
        (["a", "b", "d"], ("'d' where X has 'c'", "row 2", "the same rows", "y.to_numpy()")),
        ([0, 1, 2], ("0 where X has 'a'", "row 0", "the same rows", "y.to_numpy()")),
        (["a", "a", "b"], ("'a' where X has 'b'", "row 1", "the same rows")),
    ],
)
def test_the_first_row_that_differs_is_named(labels, parts):
    with pytest.raises(InputError) as caught:
        check_aligned(X=X, y=pd.Series([0, 1, 0], index=labels))
    assert says(caught.value, "y must have the index of X", *parts)


def test_equal_indexes_and_what_has_none_pass():
    y = pd.Series([0, 1, 0], index=X.index)
    for other in (y, y.to_numpy(), y.tolist(), pl.Series([0, 1, 0]), {"y": y}, None):
        check_aligned(X=X, y=other)
    check_aligned(X=X.reset_index(drop=True), y=pd.Series([0, 1, 0]))


ROWS = 60
RNG = np.random.default_rng(0)
FEATURES = pd.DataFrame({"x": RNG.normal(size=ROWS), "z": RNG.normal(size=ROWS)})
GIVEN = {
    "y": pd.Series(np.arange(ROWS) % 2),
    "sensitive_features": pd.DataFrame({"age": RNG.normal(size=ROWS)}),
    "sample_weight": pd.Series(np.ones(ROWS)),
}
ESTIMATORS = [
    *(FairClassifier, FairRegressor, FairEncoder, FairBoostingClassifier, FairBoostingRegressor),
    FairFrontier,
]


@pytest.mark.parametrize("argument", GIVEN)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: each.__name__)
def test_no_estimator_shuffles_rows(estimator, argument):
    rows = {**GIVEN, argument: GIVEN[argument].iloc[::-1]}
    y = rows.pop("y")
    with pytest.raises(InputError) as caught:
        estimator().fit(FEATURES, y, **rows)
    assert says(caught.value, f"{argument} must have the index of", "59", "0", "(row 0)", ".loc[")


@pytest.mark.parametrize("argument", ["y", "sensitive_features"])
def test_no_audit_shuffles_rows(argument):
    rows = {name: GIVEN[name] for name in ("y", "sensitive_features")}
    rows[argument] = rows[argument].iloc[::-1]
    with pytest.raises(InputError) as caught:
        audit(FEATURES["x"], rows["y"], rows["sensitive_features"])
    assert says(caught.value, f"{argument} must have the index of scores", "59", "0", "(row 0)")
