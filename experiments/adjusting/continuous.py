"""Adjusters of scores by continuous attributes, beside ranks among the nearest people.

The reference is fair by construction and has no network: in each group of the discrete attributes,
a score is replaced by its rank among the scores of the training rows nearest in the continuous one.
"""

from __future__ import annotations

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
from scipy.special import expit, logit
from scipy.stats import rankdata
from sklearn.model_selection import KFold, cross_val_predict

from equipoise import FairAdjuster, FairFrontier, load_dataset
from equipoise.frontier.judging import Judge, samples_of

Floats = NDArray[np.float64]
NEAREST = 0.02  # share of the training rows of a group among which a score is ranked
LIMITS = (0.05, 0.1)
SHARES = (0.2, 0.2)  # validation and test rows


@dataclass(frozen=True)
class Rows:
    """Scores, outcomes and sensitive columns; the first column is continuous."""

    score: Floats
    y: NDArray[np.int64]
    sensitive: pd.DataFrame


@dataclass(frozen=True)
class Source:
    """A data set with its sensitive columns, and which half of its rows is used: 0 or 1."""

    dataset: str
    sensitive: tuple[str, ...]
    half: int
    chose: bool = False  # whether settings were chosen on these rows


TRIALS: Mapping[str, Source] = MappingProxyType(
    {
        "adult by age and sex (chosen on)": Source("adult", ("age", "sex"), 0, chose=True),
        "adult by age and sex": Source("adult", ("age", "sex"), 1),
        "adult by age and race": Source("adult", ("age", "race"), 1),
        "credit by AGE and SEX": Source("credit", ("AGE", "SEX"), 1),
        "public coverage by AGEP and SEX": Source(
            "acs_employment_standin_publiccoverage", ("AGEP", "SEX"), 1
        ),
        "made up": Source("", ("a",), 1),
    }
)


def made_up(n: int = 20_000) -> Rows:
    """A score whose mean and spread depend on a, more so in its upper tail."""
    random = np.random.default_rng(0)
    a = random.lognormal(size=n)
    place, z = rankdata(a) / n, random.normal(size=n)
    y = (random.random(n) < expit(1.5 * z + 0.3 * np.log(a))).astype(np.int64)
    score = z * (0.5 + place) + 2 * (place > 0.9) + np.log(a)
    return Rows(score, y, pd.DataFrame({"a": a}))


def rows_of(source: Source) -> Rows:
    """Score half of the rows of a data set by LightGBM that sees A, out of fold."""
    from lightgbm import LGBMClassifier

    if not source.dataset:
        return made_up()
    data = load_dataset(source.dataset)
    order = np.random.default_rng(0).permutation(len(data.X))
    order = np.array_split(order, 2)[source.half][:30_000]
    A = data.A[list(source.sensitive)].iloc[order].reset_index(drop=True)
    X = data.X.iloc[order].reset_index(drop=True)
    X = pd.concat([X, A.add_prefix("sensitive ")], axis=1)
    for name in X.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in X.dtypes]]:
        X[name] = X[name].astype("category")
    y = (np.asarray(data.y)[order] == np.unique(data.y)[-1]).astype(np.int64)
    model = LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1, deterministic=True)
    folds = KFold(10, shuffle=True, random_state=0)
    found = cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1]
    return Rows(logit(np.clip(found, 1e-9, 1 - 1e-9)), y, A)


def ranked(rows: Rows, learned: NDArray[np.intp]) -> Floats:
    """Rank of each score among the ``learned`` rows of its group that are nearest."""
    first, *others = rows.sensitive.columns
    along = rows.sensitive[first].to_numpy(float)
    group = np.zeros(len(along), dtype=np.int64)
    for name in others:
        codes = rows.sensitive[name].astype("category").cat.codes.to_numpy()
        group = group * (codes.max() + 1) + codes
    ranks = np.full(len(along), 0.5)
    for own in np.unique(group):
        known = learned[group[learned] == own]
        for value in np.unique(along[group == own]):
            here = (group == own) & (along == value)
            apart = np.abs(along[known] - value)
            count = min(max(30, round(NEAREST * len(known))), len(known) - 1)
            near = np.sort(rows.score[known[apart <= np.partition(apart, count)[count]]])
            below, upto = (np.searchsorted(near, rows.score[here], s) for s in ("left", "right"))
            ranks[here] = (below + upto + 1) / (2 * len(near) + 2)
    return ranks


def trial(name: str, number: int) -> Iterator[dict[str, Any]]:
    """Yield the records of one split."""
    source = TRIALS[name]
    rows = rows_of(source)
    n = len(rows.y)
    order = np.random.default_rng([number, n]).permutation(n)
    first, second = round(n * SHARES[0]), round(n * sum(SHARES))
    validation, test, train = (
        np.sort(part) for part in (order[:first], order[first:second], order[second:])
    )
    told = {"trial": name, "split": number, "chosen on": source.chose}
    frontier = FairFrontier(
        FairAdjuster(),
        seeds=1,
        random_state=number,
        validation=validation.tolist(),
        test=test.tolist(),
        metrics=["gap"],
    )
    X = pd.DataFrame({"score": rows.score})
    frontier.fit(X, rows.y, sensitive_features=rows.sensitive)
    curve = frontier.fitted_curve()
    table, columns = frontier.table(), list(curve.snapshots.criteria.columns)
    assert curve.test is not None
    judge = Judge(samples_of(curve.test, torch.device("cpu")), curve.snapshots.criteria)

    def judged(score: Floats) -> dict[str, float]:
        useful, _, *gaps = judge(torch.from_numpy(score[None, :, None]))[0].tolist()
        return {"test utility": useful, "test gap": max(gaps[: len(columns)])}

    yield {**told, "what": "score", **judged(rows.score[test])}
    yield {**told, "what": "ranks among the nearest", **judged(ranked(rows, train)[test])}
    gap = table[columns].max(axis=1)
    kept = table.index.isin(list(curve.snapshots.weights))
    for limit in LIMITS:
        within = table.loc[kept & (gap.to_numpy() <= limit)]
        record = {**told, "what": f"adjusted, limit {limit}"}
        if len(within):
            best = int(within.index.to_numpy()[within["utility"].to_numpy().argmax()])
            scores = curve.test_scores([best])
            assert scores is not None
            yield {**record, **judged(scores[0, :, 0])}
        else:
            yield {**record, "least gap": float(gap.min())}
    last = table[table["iteration"] == table["iteration"].max()]
    for strength, found in zip(last["strength"], gap[last.index], strict=True):
        yield {**told, "what": f"strength {strength:g}", "validation gap": float(found)}


def run(
    only: Sequence[str] | None, splits: Sequence[int], packed: Path, out: Path, pack: bool
) -> None:
    """Run all trials; a file in ``out`` keeps each. Then join them as ``continuous.csv``."""
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    for place, name in enumerate(TRIALS):
        for number in splits:
            file = out / f"{place}-{number}.csv"
            if pack or file.exists() or (only is not None and name not in only):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pd.DataFrame(trial(name, number)).to_csv(file, index=False, float_format="%.5g")
    records = pd.concat([pd.read_csv(file) for file in sorted(out.glob("*.csv"))])
    if pack:
        records.to_csv(packed / "continuous.csv", index=False)
