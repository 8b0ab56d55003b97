"""How often health has a wrong message about a regularized linear model on simulated rows.

Three fifths of n rows train a ridge or logistic regression on eight columns; a fifth are validation
rows. With a signal, four columns predict the outcome, and there should be no message. Without one
no column does, and health should say that the score is no better than chance.

``python -m benchmarks health`` writes benchmarks/results/health.json and the table of
docs/how-it-works.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks import environment
from benchmarks.page import filled, made_on, markdown
from equipoise.estimators.fitting import utilities_of
from equipoise.training import Health, TrainingData
from equipoise.training.health import compare

LONG = True
NAME = "health"
PAGE = Path(__file__).parents[1] / "docs" / "how-it-works.md"
#: The rule was chosen with seeds 1 and 2.
SEED = 3
DATASETS = 1_000
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
    """Return what health says about one model."""
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
        utility = "R2" if classes is None else "AUC" if scores.shape[1] == 1 else "macro AUC"
        found += utilities_of(torch.from_numpy(scores[part])[None], seen, utility)
    return compare(WELL, 0.0, *found, part="validation", remedy="").messages


def simulate(draws: int) -> list[dict[str, Any]]:
    """Shares of data sets with each message, by kind of outcome and number of rows."""
    random = np.random.default_rng(SEED)
    found = []
    for kind in KINDS:
        for n in SIZES:
            said = {
                signal: [" ".join(verdict(kind, n, signal, random)) for _ in range(draws)]
                for signal in (1.0, 0.0)
            }
            shares = {
                "overfits": np.mean(["overfits" in text for text in said[1.0]]),
                "useless": np.mean(["say nothing" in text for text in said[1.0]]),
                "useless, no signal": np.mean(["say nothing" in text for text in said[0.0]]),
            }
            found.append({"outcome": kind, "rows": n, **{k: float(v) for k, v in shares.items()}})
            print(found[-1], flush=True)
    return found


def blocks() -> dict[str, str]:
    """The table of docs/how-it-works.md by the name of its mark."""
    document = environment.read(NAME)
    rows = [
        [row["outcome"], f"{row['rows']:,}", *(f"{100 * row[name]:.1f} %" for name in COLUMNS[2:])]
        for row in document["shares"]
    ]
    about = f"{document['datasets']} data sets a number. {made_on(document)}"
    return {"health": f"{markdown(COLUMNS, rows)}\n\n{about}"}


def main() -> None:
    document = {
        "datasets": DATASETS,
        "seed": SEED,
        "shares": simulate(DATASETS),
        "device": environment.device_name("cpu"),
        "versions": {**environment.versions(), "scikit-learn": sklearn.__version__},
    }
    environment.write(NAME, document)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), blocks()), encoding="utf-8")


if __name__ == "__main__":
    main()
