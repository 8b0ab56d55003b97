"""Small fitted models of every kind, fitted once."""

import functools
import warnings

import numpy as np
import pandas as pd
import polars as pl

from equipoise import FairClassifier, FairEncoder, FairRegressor
from equipoise.errors import ConvergenceWarning

ROWS = 120
TINY = {
    "strength": 0,
    "iterations": 12,
    "hidden": (4, 3),
    "early_stopping": None,  # so short a training would tell that it learned nothing
    "random_state": 0,
}
NAMES = (
    "two classes, pandas",
    "three classes, polars",
    "numbers, array, rank",
    "numbers, array, minmax",
    "numbers, array, standard",
    "numbers, array, none",
    "numbers, pandas, linear",
    "representation",
    "text only",
    "the paper's network",
)


def mixed_frame(n=ROWS, seed=0):
    """Every family of column, with and without missing values, and two that say nothing."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "amount": rng.exponential(1000, n),
            "hours": rng.integers(1, 60, n),
            "gap": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "same": np.full(n, 3.5),
            "empty": np.full(n, np.nan),
            "member": rng.random(n) < 0.5,
            "asked": pd.array(rng.choice(np.array([True, False, None]), n), dtype="boolean"),
            "job": rng.choice(["cook", "nurse", "Bürgermeister"], n),
            "town": pd.Series(rng.choice(np.array(["A", "B", None]), n), dtype="str"),
            "grade": pd.Categorical(rng.integers(1, 4, n)),
        }
    )
    return frame


def labels(n=ROWS, seed=1):
    return np.random.default_rng(seed).integers(0, 3, n)


@functools.cache
def fitted(name):
    """The model of this name and the rows it was fitted on."""
    frame, numbers = mixed_frame(), np.random.default_rng(3).normal(size=(ROWS, 5))
    three = np.array(["high", "low", "middle"])[labels()]
    if name == "two classes, pandas":
        rng = np.random.default_rng(2)
        attributes = {"age": rng.normal(size=ROWS), "sex": rng.choice(["f", "m"], ROWS)}
        model = FairClassifier(**{**TINY, "strength": 0.5, "sensitive_types": {"sex": "discrete"}})
        with warnings.catch_warnings():
            # So short a training is rarely healthy; what health_ says is kept all the same.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(frame, labels() > 0, sensitive_features=attributes), frame
    if name == "three classes, polars":
        X = pl.from_pandas(frame.astype({"grade": str}))
        return FairClassifier(**TINY).fit(X, three), X
    if name.startswith("numbers, array"):
        model = FairRegressor(**TINY, scaling=name.split(", ")[-1], loss="huber")
        return model.fit(numbers, 50 + 9 * numbers[:, 0]), numbers
    if name == "numbers, pandas, linear":
        return FairRegressor(**{**TINY, "hidden": ()}).fit(frame, frame["amount"]), frame
    if name == "representation":
        return FairEncoder(**TINY, encoder_hidden=(5, 2)).fit(frame, three), frame
    if name == "text only":
        X = frame[["job", "town"]]
        return FairClassifier(**TINY).fit(X, labels() == 1), X
    if name == "the paper's network":
        return FairClassifier.as_in_paper(**TINY).fit(numbers, numbers[:, 1] > 0), numbers
    raise KeyError(name)


def answers(model, X):
    """Everything a model says about rows."""
    names = ("predict", "predict_proba", "decision_function", "transform")
    return {name: getattr(model, name)(X) for name in names if hasattr(model, name)}
