"""Strict areas of models without A, with A and adjusted, beside peers, on the same splits.

``python -m experiments aware --splits 100 101`` writes one file for each data set and split, and
leaves out what is there already. ``--peers PYTHON`` names a Python that has error-parity.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from benchmarks.environment import device_name, versions
from equipoise import FairAdjuster, FairClassifier, FairFrontier, FairRegressor, load_dataset
from equipoise.frontier.judging import Judge, samples_of
from experiments.adjusting.run import SHARES, ks_gsp, peers
from experiments.adjusting.transport import repaired
from experiments.paper.plan import STAND_IN
from experiments.paper.training import split_rows

Floats = NDArray[np.float64]
Record = dict[str, float]  # utility and unfairness of a model, on validation and on test rows
#: The sensitive column of each data set, under the paper's preprocessing.
ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {"adult": "race", "law": "Race", "credit": "SEX", STAND_IN: "SEX", "crime": "racepctblack"}
)
MEASURE = "KS-GSP"
SETTINGS = "settings.json"
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

    @cached_property
    def group(self) -> NDArray[Any]:
        """The numbers of the groups (n,)."""
        return self.A.iloc[:, 0].astype("category").cat.codes.to_numpy()

    @cached_property
    def plain_model(self) -> Any:
        """A LightGBM fitted to the training rows."""
        return self.lightgbm().fit(self.with_attribute.iloc[self.train], self.y[self.train])

    @cached_property
    def plain_score(self) -> Floats:
        """Its probabilities (n,), those of training rows out of fold, as an adjuster has them."""
        X = self.with_attribute
        score = np.asarray(self.plain_model.predict_proba(X))[:, 1].copy()
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        own = cross_val_predict(
            self.lightgbm(),
            X.iloc[self.train],
            self.y[self.train],
            cv=folds,
            method="predict_proba",
        )
        score[self.train] = own[:, 1]
        return score


def front_records(trial: Trial, model: Any, X: pd.DataFrame) -> Iterator[Record]:
    """Yield the snapshots on the front of a default frontier."""
    frontier = FairFrontier(
        model,
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


def scored_record(trial: Trial, score: Floats) -> Record:
    """Judge one score (n,) on validation and test rows; A is discrete."""
    found, group = {}, trial.group
    for part, rows in (("", trial.validation), ("test ", trial.test)):
        utility = r2_score if trial.is_regression else roc_auc_score
        found[f"{part}utility"] = float(utility(trial.y[rows], score[rows]))
        found[f"{part}unfairness"] = ks_gsp(score[rows], group[rows])
    return found


def plain(trial: Trial) -> Iterator[Record]:
    """LightGBM as it is."""
    yield scored_record(trial, trial.plain_score)


def transported(trial: Trial, learned: NDArray[np.intp]) -> Iterator[Record]:
    """Repair by optimal transport, whose quantiles are learned from these rows."""
    score, group = trial.plain_score, trial.group
    known: dict[str, Any] = {"learned_score": score[learned], "learned_group": group[learned]}
    for share in SHARES:
        yield scored_record(trial, repaired(score, group, share=share, **known))


def thresholds(trial: Trial) -> Iterator[Record]:
    """Decisions of fairlearn's ThresholdOptimizer."""
    from fairlearn.postprocessing import ThresholdOptimizer

    X, train, group = trial.with_attribute, trial.train, trial.group
    optimizer = ThresholdOptimizer(
        estimator=trial.plain_model, prefit=True, predict_method="predict_proba", grid_size=1000
    ).fit(X.iloc[train], trial.y[train], sensitive_features=group[train])
    decided = optimizer.predict(X, sensitive_features=group, random_state=0)
    yield scored_record(trial, decided.astype(float))


def mixtures(trial: Trial) -> Iterator[Record]:
    """Mean probabilities of the classifiers that fairlearn's ExponentiatedGradient mixes."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    X, train = trial.with_attribute, trial.train
    for bound in BOUNDS:
        mixture = ExponentiatedGradient(
            trial.lightgbm(),
            DemographicParity(difference_bound=bound),
            eps=bound,
            max_iter=MOST_ITERATIONS,
        ).fit(X.iloc[train], trial.y[train], sensitive_features=trial.group[train])
        used = [(k, weight) for k, weight in mixture.weights_.items() if weight > 0]
        mixed = sum(w * mixture.predictors_[k].predict_proba(X)[:, 1] for k, w in used)
        yield scored_record(trial, np.asarray(mixed))


def error_parity(trial: Trial, python: str) -> Iterator[Record]:
    """Decisions of error-parity, from a Python that has it."""
    known = {"score": trial.plain_score, "y": trial.y, "group": trial.group, "train": trial.train}
    for decided in peers(python, "demographic_parity", **known).values():
        yield scored_record(trial, decided)


def methods_for(trial: Trial, python: str | None) -> dict[str, Callable[[], Iterator[Record]]]:
    """Everything that can run on a split; peers need a discrete attribute and two classes."""
    kind = FairRegressor if trial.is_regression else FairClassifier
    aware = kind(sensitive_at_prediction=True)
    adjuster = FairAdjuster(trial.lightgbm())
    methods: dict[str, Callable[[], Iterator[Record]]] = {
        "network": partial(front_records, trial, kind(), trial.X),
        "network with A": partial(front_records, trial, aware, trial.X),
        "adjusted LightGBM": partial(front_records, trial, adjuster, trial.with_attribute),
    }
    if not trial.is_regression:
        methods |= {
            "LightGBM": partial(plain, trial),
            "LightGBM, optimal transport": partial(transported, trial, trial.validation),
            "optimal transport, out of fold": partial(transported, trial, trial.train),
            "ThresholdOptimizer": partial(thresholds, trial),
            "ExponentiatedGradient": partial(mixtures, trial),
        }
        if python is not None:
            methods["error-parity"] = partial(error_parity, trial, python)
    return methods


def run(
    splits: Sequence[int], out: Path, python: str | None, only: Sequence[str] | None = None
) -> None:
    """Run all data sets on the first split, then on the next; ``only`` these methods.

    A file keeps what is known about a data set and a split, and gets what it has not yet.
    """
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    device = device_name("cuda" if torch.cuda.is_available() else "cpu")
    made = _settings(out)
    made["versions"][device] = versions()
    (out / SETTINGS).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    for number in splits:
        for dataset in ATTRIBUTES:
            file = out / f"{dataset}-{number}.csv"
            trial = Trial.of(dataset, number)
            told = {"data": dataset, "split": number, "device": device}
            known = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["method"])
            for method, records in methods_for(trial, python).items():
                if method in set(known["method"]) or (only is not None and method not in only):
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = [{**told, "method": method, **record} for record in records()]
                known = (
                    pd.concat([known, pd.DataFrame(found)]) if len(known) else pd.DataFrame(found)
                )
                known.to_csv(file, index=False, float_format="%.6g")


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


def _settings(out: Path) -> dict[str, Any]:
    """Return the settings of the run so far: options of the frontiers, and versions by device."""
    file, frontier = out / SETTINGS, FairFrontier()
    versions_so_far = json.loads(file.read_text())["versions"] if file.exists() else {}
    return {
        "strengths": len(frontier.strengths),
        "seeds": frontier.seeds,
        "iterations": FairClassifier().iterations,
        "versions": versions_so_far,
    }


def pack(out: Path, packed: Path) -> None:
    """Join the records of all splits in one file, with the settings of the run beside it."""
    packed.mkdir(parents=True, exist_ok=True)
    records = pd.concat([pd.read_csv(file) for file in sorted(out.glob("*.csv"))])
    records.to_csv(packed / "records.csv", index=False, float_format="%.5g")
    shutil.copy(out / SETTINGS, packed / SETTINGS)


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
