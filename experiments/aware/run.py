"""Strict areas of models without A, with A and adjusted, beside peers, on the same splits.

``python -m experiments aware --splits 100 101`` writes one file for each data set and split, and
leaves out what is there already.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.metrics import r2_score, roc_auc_score

from benchmarks.environment import versions
from equipoise import FairAdjuster, FairClassifier, FairFrontier, FairRegressor, load_dataset
from equipoise.frontier.estimator import STRENGTHS
from equipoise.frontier.judging import Judge, samples_of
from experiments.adjusting.run import SHARES, ks_gsp
from experiments.adjusting.transport import repaired
from experiments.paper.plan import STAND_IN
from experiments.paper.training import split_rows

Floats = NDArray[np.float64]
#: The sensitive column of each data set, under the paper's preprocessing.
ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {"adult": "race", "law": "Race", "credit": "SEX", STAND_IN: "SEX", "crime": "racepctblack"}
)
MEASURE = "KS-GSP"
#: Bounds of ExponentiatedGradient, and most classifiers in its mixture.
BOUNDS, MOST_ITERATIONS = (0.002, 0.01, 0.03, 0.1), 20
TREES: Mapping[str, Any] = {"n_estimators": 100, "n_jobs": 1, "verbose": -1, "deterministic": True}


@dataclass(frozen=True, eq=False)
class Trial:
    """One split of a data set."""

    dataset: str
    number: int
    X: pd.DataFrame
    y: NDArray[Any]
    A: pd.DataFrame
    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]

    @classmethod
    def of(cls, dataset: str, number: int) -> Trial:
        """Load and split the rows."""
        data = load_dataset(dataset, preprocessing="paper")
        split = split_rows(len(data.X), "honest", number)
        A = data.A[[ATTRIBUTES[dataset]]].reset_index(drop=True)
        X = data.X.reset_index(drop=True)
        y = data.y.to_numpy()
        return cls(dataset, number, X, y, A, split.train, split.validation, split.test)

    @property
    def is_regression(self) -> bool:
        """Whether the outcome is continuous."""
        return self.dataset == "crime"

    @property
    def with_attribute(self) -> pd.DataFrame:
        """The features and the sensitive column, which the plain LightGBM may see."""
        name = self.A.columns[0]
        return self.X.assign(**{f"sensitive {name}": self.A[name].astype("category").cat.codes})

    def lightgbm(self) -> Any:
        """Return an unfitted LightGBM."""
        from lightgbm import LGBMClassifier, LGBMRegressor

        return (LGBMRegressor if self.is_regression else LGBMClassifier)(**TREES)


def front_records(trial: Trial, model: Any, X: pd.DataFrame) -> Iterator[dict[str, float]]:
    """Yield the snapshots on the front of a default frontier with one seed."""
    frontier = FairFrontier(
        model,
        seeds=1,
        metrics=[MEASURE],
        random_state=trial.number,
        validation=np.sort(trial.validation).tolist(),
        test=np.sort(trial.test).tolist(),
    ).fit(X, trial.y, sensitive_features=trial.A)
    curve = frontier.fitted_curve()
    table, column = frontier.table(), f"{MEASURE} {trial.A.columns[0]}"
    kept = list(curve.snapshots.weights)
    assert curve.test is not None
    judge = Judge(samples_of(curve.test, torch.device("cpu")), curve.snapshots.criteria)
    for number in kept:
        scores = curve.test_scores([number])
        assert scores is not None
        useful, _, unfair = judge(torch.from_numpy(scores))[0].tolist()[:3]
        found: Any = table.loc[number]
        yield {
            "utility": float(found["utility"]),
            "unfairness": float(found[column]),
            "test utility": useful,
            "test unfairness": unfair,
        }


def scored_record(trial: Trial, group: NDArray[Any], score: Floats) -> dict[str, float]:
    """Judge one score (n,) on validation and test rows; A is discrete."""
    found = {}
    for part, rows in (("", trial.validation), ("test ", trial.test)):
        utility = r2_score if trial.is_regression else roc_auc_score
        found[f"{part}utility"] = float(utility(trial.y[rows], score[rows]))
        found[f"{part}unfairness"] = ks_gsp(score[rows], group[rows])
    return found


def peer_records(trial: Trial) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the peers, which need a discrete attribute and two classes."""
    if trial.is_regression:
        return
    from fairlearn.postprocessing import ThresholdOptimizer
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    group = trial.A.iloc[:, 0].astype("category").cat.codes.to_numpy()
    X, train, y = trial.with_attribute, trial.train, trial.y
    model = trial.lightgbm().fit(X.iloc[train], y[train])
    score = np.asarray(model.predict_proba(X))[:, 1]
    yield "LightGBM", scored_record(trial, group, score)
    learned = {"learned_score": score[trial.validation], "learned_group": group[trial.validation]}
    for share in SHARES:
        record = scored_record(trial, group, repaired(score, group, share=share, **learned))
        yield "LightGBM, optimal transport", record
    optimizer = ThresholdOptimizer(
        estimator=model, prefit=True, predict_method="predict_proba", grid_size=1000
    ).fit(X.iloc[train], y[train], sensitive_features=group[train])
    decided = optimizer.predict(X, sensitive_features=group, random_state=0).astype(float)
    yield "ThresholdOptimizer", scored_record(trial, group, decided)
    for bound in BOUNDS:
        mixture = ExponentiatedGradient(
            trial.lightgbm(),
            DemographicParity(difference_bound=bound),
            eps=bound,
            max_iter=MOST_ITERATIONS,
        ).fit(X.iloc[train], y[train], sensitive_features=group[train])
        used = [(k, weight) for k, weight in mixture.weights_.items() if weight > 0]
        mixed = sum(w * mixture.predictors_[k].predict_proba(X)[:, 1] for k, w in used)
        yield "ExponentiatedGradient", scored_record(trial, group, np.asarray(mixed))


def trial_records(trial: Trial) -> Iterator[dict[str, Any]]:
    """Yield a record for everything that a method offers on one split."""
    told = {"data": trial.dataset, "split": trial.number}
    kind = FairRegressor if trial.is_regression else FairClassifier
    contenders: dict[str, tuple[Any, pd.DataFrame]] = {
        "network": (kind(), trial.X),
        "network with A": (kind(sensitive_at_prediction=True), trial.X),
        "adjusted LightGBM": (FairAdjuster(trial.lightgbm()), trial.with_attribute),
    }
    for method, (model, X) in contenders.items():
        for record in front_records(trial, model, X):
            yield {**told, "method": method, **record}
    for method, record in peer_records(trial):
        yield {**told, "method": method, **record}


def run(splits: Sequence[int], out: Path) -> None:
    """Run all data sets on the first split, then on the next; a file keeps each."""
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    for number in splits:
        for dataset in ATTRIBUTES:
            file = out / f"{dataset}-{number}.csv"
            if not file.exists():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    records = pd.DataFrame(trial_records(Trial.of(dataset, number)))
                records.to_csv(file, index=False, float_format="%.6g")


#: Budgets of the strict curve, and points at which its height is averaged.
LARGEST = 0.3
BUDGETS, GRID = np.linspace(0, LARGEST, 121), np.linspace(0, LARGEST, 301)


def strict_area(records: pd.DataFrame, least: float) -> float:
    """Return the share of the rectangle below the strict curve, averaged over the splits given.

    For each budget a split's pick is the largest utility on validation rows within the budget, or a
    constant score (utility ``least``). The curve goes through the means of its test values.
    """
    curves = []
    for _, found in records.groupby("split"):
        values = found[["unfairness", "utility", "test unfairness", "test utility"]].to_numpy()
        values = values[~np.isnan(values).any(axis=1)]
        picks = []
        for budget in BUDGETS:
            within = values[values[:, 0] <= budget]
            picks.append(within[within[:, 1].argmax(), 2:] if len(within) else (0.0, least))
        curves.append(picks)
    unfair, useful = np.mean(curves, axis=0).T
    order = np.argsort(unfair, kind="stable")
    right = useful[order][-1]
    height = np.interp(GRID, unfair[order], useful[order], left=least, right=right)
    return float(np.mean((height - least) / (1 - least)))


def pack(out: Path, packed: Path) -> None:
    """Join the records of all splits in one file, with the settings of the run beside it."""
    packed.mkdir(parents=True, exist_ok=True)
    records = pd.concat([pd.read_csv(file) for file in sorted(out.glob("*.csv"))])
    records.to_csv(packed / "records.csv", index=False, float_format="%.5g")
    settings = {
        "device": "CPU, one thread",
        **versions(),
        "strengths": len(STRENGTHS),
        "seeds": 1,
        "iterations": FairClassifier().iterations,
    }
    (packed / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def areas(records: pd.DataFrame) -> pd.DataFrame:
    """Return the strict area of every data set, method and split alone."""
    lines = [
        {
            "data": data,
            "method": method,
            "split": split,
            "area": strict_area(found, 0.0 if data == "crime" else 0.5),
        }
        for (data, method, split), found in records.groupby(["data", "method", "split"])
    ]
    return pd.DataFrame(lines)
