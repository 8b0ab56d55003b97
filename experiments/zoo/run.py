"""Compare default networks and trees at strength 0 with plain models, on one part of the zoo.

``python -m experiments zoo --part tuned`` writes one record for each data set and split to the
result file. Models that are there already are not run again, except with ``--again network``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.environment import versions
from equipoise import FairBoostingClassifier, FairBoostingRegressor, FairClassifier, FairRegressor
from equipoise.storage import write_atomically
from experiments import RESULTS
from experiments.zoo.datasets import ZOO, Part, ZooEntry, part_of

RESULT = RESULTS / "zoo.json"
#: Share of the rows that are test rows.
TEST = 0.25
SPLITS = range(3)

NUMBERS = make_column_selector(dtype_include="number")
CATEGORIES = make_column_selector(dtype_exclude="number")


def linear(is_classification: bool) -> Any:
    """Return untuned logistic or ridge regression on scaled numbers and one-hot categories."""
    impute = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    columns = make_column_transformer(
        (make_pipeline(impute, StandardScaler()), NUMBERS),
        (OneHotEncoder(handle_unknown="ignore"), CATEGORIES),
    )
    return make_pipeline(
        columns, LogisticRegression(max_iter=2000) if is_classification else Ridge()
    )


def hist_boosting(is_classification: bool) -> Any:
    """Return untuned gradient boosting of scikit-learn; text columns must be categorical."""
    kind = HistGradientBoostingClassifier if is_classification else HistGradientBoostingRegressor
    return kind(categorical_features="from_dtype", random_state=0)


def network(is_classification: bool) -> Any:
    """Return the default network at strength 0."""
    return (FairClassifier if is_classification else FairRegressor)(strength=0.0, random_state=0)


def trees(is_classification: bool) -> Any:
    """Return the default boosted trees at strength 0."""
    kind = FairBoostingClassifier if is_classification else FairBoostingRegressor
    return kind(strength=0.0, random_state=0)


MODELS: dict[str, Callable[[bool], Any]] = {
    "linear": linear,
    "HistGradientBoosting": hist_boosting,
    "network": network,
    "trees": trees,
}


def utility(entry: ZooEntry, model: Any, X: pd.DataFrame, y: NDArray[Any]) -> float:
    """Return AUC, or R2."""
    if entry.is_classification:
        return float(roc_auc_score(y, model.predict_proba(X)[:, 1]))
    return float(r2_score(y, model.predict(X)))


def with_categories(X: pd.DataFrame) -> pd.DataFrame:
    """Return X with text columns as pandas categories, so that test rows have the same codes."""
    return X.astype(dict.fromkeys(CATEGORIES(X), "category"))


def trial(name: str, split: int, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the utility of every model on the test rows of one split; some may be known."""
    entry = ZOO[name]
    X, y = entry.load()
    X = with_categories(X)
    parts = train_test_split(
        X,
        y.to_numpy(),
        test_size=TEST,
        random_state=split,
        stratify=y if entry.is_classification else None,
    )
    X_train, X_test, y_train, y_test = parts
    found: dict[str, Any] = {"name": name, "part": part_of(name), "split": split, "rows": len(X)}
    found["columns"] = X.shape[1]
    for model, build in MODELS.items():
        if model in known:
            found[model] = known[model]
            continue
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = build(entry.is_classification).fit(X_train, y_train)
            found[model] = utility(entry, fitted, X_test, y_test)
    return found


def run(part: Part, workers: int, again: Sequence[str] = (), result: Path = RESULT) -> None:
    """Run what is missing of one part, and the models to run again; write after every data set."""
    trials = json.loads(result.read_text())["trials"] if result.exists() else []
    known = {
        (each["name"], each["split"]): {
            key: value for key, value in each.items() if each["part"] != part or key not in again
        }
        for each in trials
    }
    for name in (name for name in ZOO if part_of(name) == part):
        given = {split: known.get((name, split), {}) for split in SPLITS}
        missing = [split for split in SPLITS if not given[split].keys() >= MODELS.keys()]
        if missing:
            found = Parallel(workers)(
                delayed(trial)(name, split, given[split]) for split in missing
            )
            known |= {(name, each["split"]): each for each in found}
            document = {"trials": list(known.values()), "versions": versions()}
            write_atomically(result, (json.dumps(document, indent=1) + "\n").encode())


def table(part: Part, result: Path = RESULT) -> pd.DataFrame:
    """Return mean utilities of one part, and differences to the better of both plain models."""
    trials = pd.DataFrame(json.loads(result.read_text())["trials"])
    means = trials[trials["part"] == part].groupby("name", sort=False).mean(numeric_only=True)
    best = means[["linear", "HistGradientBoosting"]].max(axis=1)
    for model in ("network", "trees"):
        means[f"{model} - best"] = means[model] - best
    return means


def mean_and_least(differences: Iterable[float]) -> tuple[float, float]:
    """Return the mean and the least of some differences."""
    values = np.fromiter(differences, float)
    return float(values.mean()), float(values.min())
