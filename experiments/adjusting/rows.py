"""The rows of a trial: scores of LightGBM that sees A, out of fold where an adjuster trains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise import load_dataset

Floats = NDArray[np.float64]
#: The sensitive column of each trial: two groups, and four or five.
TRIALS = {"adult": ("sex", "race"), "law": ("Gender", "Race")}
#: Shares of the rows that pick, and that report.
VALIDATION, TEST = 0.2, 0.2


@dataclass(frozen=True, eq=False)
class TrialRows:
    """One split of a data set; positions refer to the columns, which have all rows."""

    score: Floats  # (n,) probability of the second class
    y: NDArray[Any]  # (n,) 0 or 1
    sensitive: pd.DataFrame
    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]


@lru_cache(maxsize=4)
def trial_rows(dataset: str, number: int) -> TrialRows:
    """Split the rows, fit LightGBM on the training rows and score all."""
    from lightgbm import LGBMClassifier
    from sklearn.model_selection import StratifiedKFold

    data = load_dataset(dataset)
    X = pd.concat([data.X, data.A], axis=1)
    y = (np.asarray(data.y) == np.unique(data.y)[-1]).astype(np.int64)
    order = np.random.default_rng([number, len(X)]).permutation(len(X))
    first, second = (round(len(X) * share) for share in (VALIDATION, VALIDATION + TEST))
    validation, test, train = (
        np.sort(part) for part in (order[:first], order[first:second], order[second:])
    )
    score = np.empty(len(X))

    def fill(fitted_on: NDArray[np.intp], scored: NDArray[np.intp]) -> None:
        model = LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1, deterministic=True)
        model.fit(X.iloc[fitted_on], y[fitted_on])
        score[scored] = np.asarray(model.predict_proba(X.iloc[scored]))[:, 1]

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for part, rest in folds.split(train, y[train]):
        fill(train[part], train[rest])
    fill(train, np.concatenate([validation, test]))
    return TrialRows(score, y, data.A, train, validation, test)
