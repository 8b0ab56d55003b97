"""How often health accuses a regularised linear model wrongly, on rows with a known truth.

Three fifths of n rows train a ridge or logistic regression on eight columns; a fifth stands for the
validation rows. With a signal, four columns tell about the outcome, and no message is due. Without
one nothing does, and health ought to say that the score is no better than chance.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge

from equipoise.estimators.fitting import utilities_of
from equipoise.training import Health, TrainingData
from equipoise.training.health import compare

LONG = True
KINDS = ("two classes", "rare class", "three classes", "numbers", "heavy tails")
SIZES = (300, 1000, 3000)
COLUMNS = ("outcome", "rows", "overfits", "useless", "useless, no signal")
WELL = Health(score_spread=0.5, correlation=None, critic_value=None, stopped_at=0, messages=())


def rows(kind: str, n: int, signal: float, random: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Features (n, 8) and an outcome (n,)."""
    features = random.normal(size=(n, 8))
    mean = signal * features[:, :4].sum(axis=1) / 2
    if kind == "numbers":
        return features, mean + random.normal(size=n)
    if kind == "heavy tails":
        return features, mean + random.standard_t(4, size=n)
    if kind == "three classes":
        return features, np.digitize(mean + random.logistic(size=n), [-1, 1])
    return features, (mean + random.logistic(size=n) > (2.2 if kind == "rare class" else 0)) * 1


def verdict(kind: str, n: int, signal: float, random: np.random.Generator) -> tuple[str, ...]:
    """What health says of one model."""
    features, y = rows(kind, n, signal, random)
    train, other = np.arange(n) < 0.6 * n, np.arange(n) >= 0.8 * n
    if y.dtype.kind == "f":
        scores = Ridge(1.0).fit(features[train], y[train]).predict(features)[:, None]
    else:
        model = LogisticRegression(C=0.3).fit(features[train], y[train])
        scores = model.predict_proba(features)
        scores = scores if scores.shape[1] > 2 else scores[:, 1:]
    found = []
    for part in (train, other):
        target = torch.from_numpy(y[part])
        classes = None if y.dtype.kind == "f" else target
        seen = TrainingData(x=target, target=target, outcome=target, outcome_class=classes)
        found += utilities_of(torch.from_numpy(scores[part])[None], seen)
    return compare(WELL, 0.0, *found, part="validation", remedy="").messages


def main(draws: int = 1000, seed: int = 2) -> None:
    if len(sys.argv) > 1:
        draws = int(sys.argv[1])
    random = np.random.default_rng(seed)
    for cells in (COLUMNS, ["---"] * len(COLUMNS)):
        print("|", " | ".join(cells), "|")
    for kind in KINDS:
        for n in SIZES:
            shares = []
            for signal in (1.0, 0.0):
                said = [" ".join(verdict(kind, n, signal, random)) for _ in range(draws)]
                shares += [
                    np.mean([word in text for text in said]) for word in ("overfits", "say nothing")
                ]
            over, chance, _, found = (f"{100 * share:.1f} %" for share in shares)
            print(f"| {kind} | {n:,} | {over} | {chance} | {found} |", flush=True)


if __name__ == "__main__":
    main()
