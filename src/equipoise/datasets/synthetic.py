"""Samples from the synthetic family: mixed sensitive attributes, unfairness known exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from equipoise.datasets.description import Dataset, DatasetDescription, Task, describe_size
from equipoise.datasets.synthetic_model import (
    AGE_SHARE,
    GROUP_PROBABILITIES,
    GROUP_SHARE,
    GROUP_SHIFTS,
    GROUPS,
    LARGEST_UNFAIRNESS,
    LOGIT_SLOPE,
    OUTCOME_NOISE_VARIANCE,
    OUTCOME_SLOPE,
    SyntheticModel,
)
from equipoise.datasets.synthetic_truth import SyntheticTruth
from equipoise.errors import InputError, check_choice, check_number, check_whole

_NOTES = (
    "circumstance depends on age and group, the outcome on circumstance, evidence on the outcome "
    "alone; truth holds dependence and utility of the best scores",
)


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticDataset(Dataset):
    """A simulated data set together with what is known about its population."""

    truth: SyntheticTruth


def make_synthetic(
    n: int = 10_000,
    *,
    task: Task = "classification",
    unfairness: float = 0.8,
    n_features: int = 8,
    random_state: int = 0,
) -> SyntheticDataset:
    """Draw ``n`` rows whose unfairness and achievable utility are known exactly.

    Evidence columns measure the outcome of everybody alike; proxy columns carry circumstance,
    which depends on ``age`` (continuous) and ``group`` (three levels) and moves the outcome. The
    model is written out in ``equipoise.datasets.synthetic_model``.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    task : {"classification", "regression"}
        Whether y is 0/1 or a number with mean 0 and variance 1.
    unfairness : float
        Correlation of circumstance with what age and group add up to, in [0, 0.95]. At 0 the
        features and the outcome are exactly independent of the sensitive attributes.
    n_features : int
        Even number of columns of X: half evidence, half proxies. The difficulty of the task does
        not depend on it.
    random_state : int
        Seed; the same seed gives the same rows.

    Returns
    -------
    SyntheticDataset
        With ``truth``, a ``SyntheticTruth``.

    Examples
    --------
    >>> data = make_synthetic(1000, unfairness=0.8)
    >>> round(data.truth.ks_gsp("group"), 3), round(data.truth.ks_gsp("age"), 3)
    (0.581, 0.118)
    >>> round(data.truth.plain_utility, 3), round(data.truth.fair_utility("independence"), 3)
    (0.903, 0.775)
    """
    _check(n=n, task=task, unfairness=unfairness, n_features=n_features)
    rng = np.random.default_rng(check_whole("random_state", random_state, least=0))
    model = SyntheticModel(task, unfairness)
    age = rng.standard_normal(n)
    group = rng.choice(len(GROUPS), size=n, p=GROUP_PROBABILITIES)
    of_attributes = AGE_SHARE * age + GROUP_SHARE * GROUP_SHIFTS[group]
    luck = rng.standard_normal(n)
    circumstance = unfairness * of_attributes + math.sqrt(1.0 - unfairness**2) * luck
    if task == "classification":
        outcome = np.asarray(rng.random(n) < expit(LOGIT_SLOPE * circumstance), dtype=np.float64)
    else:
        spread = math.sqrt(OUTCOME_NOISE_VARIANCE)
        outcome = OUTCOME_SLOPE * circumstance + spread * rng.standard_normal(n)
    evidence = model.evidence_mean(outcome) + rng.standard_normal(n)
    y_type = np.int64 if task == "classification" else np.float64
    half = n_features // 2
    X = pd.DataFrame(
        np.hstack([_spread(evidence, half, rng), _spread(circumstance, half, rng)]),
        columns=[f"{kind}_{i}" for kind in ("evidence", "proxy") for i in range(1, half + 1)],
    )
    A = pd.DataFrame(
        {"age": age, "group": pd.Categorical(np.array(GROUPS)[group], categories=list(GROUPS))}
    )
    return SyntheticDataset(
        X=X,
        y=pd.Series(outcome, name="outcome").astype(y_type),
        A=A,
        description=describe_size(_about(task, unfairness), X, A, _NOTES),
        origin="simulated",
        truth=SyntheticTruth(task, unfairness, n_features),
    )


def _spread(
    total: NDArray[np.float64], columns: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Columns (n, k) whose sum is sqrt(k) * total and which otherwise are independent noise."""
    noise = rng.standard_normal((len(total), columns))
    centred = noise - noise.mean(axis=1, keepdims=True)
    return np.asarray(total[:, None] / math.sqrt(columns) + centred, dtype=np.float64)


def _about(task: Task, unfairness: float) -> DatasetDescription:
    meaning = "1 = success" if task == "classification" else "a number, mean 0, variance 1"
    return DatasetDescription(
        name="synthetic",
        title=f"statistical discrimination, simulated with unfairness {unfairness}",
        task=task,
        target="outcome",
        positive=meaning,
        source="simulated by equipoise",
        licence="MIT, as equipoise",
        citation="the model of statistical discrimination goes back to Phelps, E. S. (1972), The "
        "Statistical Theory of Racism and Sexism, American Economic Review 62(4), 659-661",
    )


def _check(*, n: int, task: str, unfairness: float, n_features: int) -> None:
    check_whole("n", n)
    check_choice("task", task, get_args(Task))
    check_number(
        "unfairness",
        unfairness,
        f"must lie in [0, {LARGEST_UNFAIRNESS}]",
        lambda share: 0 <= share <= LARGEST_UNFAIRNESS,
        "; 0 is exactly fair",
    )
    if check_whole("n_features", n_features, least=2) % 2:
        raise InputError(
            f"n_features must be even and at least 2, got {n_features}: half the columns are "
            "evidence, half are proxies"
        )
