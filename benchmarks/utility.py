"""Utility before any mitigation: the default network against gradient boosting, on three data sets.

Test AUC of FairClassifier(strength=0) and of scikit-learn's HistGradientBoostingClassifier, both
with their defaults, on the paper's columns and the same rows. No frontier can be better than its
plain network. Credit and Law need their files (EQUIPOISE_DATA, see docs/datasets.md).
"""

from __future__ import annotations

import json
import platform
from pathlib import Path
from statistics import mean
from typing import Any

import sklearn
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from equipoise import FairClassifier, load_dataset

LONG = True
DATASETS = ("adult", "credit", "law")
#: Seeds of splits that were not used to choose the defaults.
SPLITS = (101, 102, 103)
TEST = 0.2
RESULTS = Path(__file__).parent / "results" / "utility.json"


def candidates(seed: int) -> dict[str, Any]:
    """Models to compare, by name."""
    return {
        "boosting": HistGradientBoostingClassifier(random_state=seed),
        "default": FairClassifier(strength=0, random_state=seed, device="cpu"),
        "default, batch normalisation": FairClassifier(
            strength=0, normalization="batch", random_state=seed, device="cpu"
        ),
        "default, no pieces": FairClassifier(
            strength=0, embedding="none", random_state=seed, device="cpu"
        ),
        "paper's network": FairClassifier.as_in_paper(
            strength=0, iterations=3000, random_state=seed, device="cpu"
        ),
    }


def measured(name: str) -> dict[str, list[float]]:
    """Test AUC of every model on every split."""
    data = load_dataset(name, preprocessing="paper")
    found: dict[str, list[float]] = {}
    for seed in SPLITS:
        train, test = train_test_split(
            range(len(data.y)), test_size=TEST, random_state=seed, stratify=data.y
        )
        for model_name, model in candidates(seed).items():
            model.fit(data.X.iloc[train], data.y.iloc[train])
            score = model.predict_proba(data.X.iloc[test])[:, 1]
            found.setdefault(model_name, []).append(roc_auc_score(data.y.iloc[test], score))
    return found


def main() -> None:
    """Measure, print and write the results."""
    results = {}
    for name in DATASETS:
        results[name] = measured(name)
        means = {model: mean(values) for model, values in results[name].items()}
        print(f"{name}: " + ", ".join(f"{model} {auc:.4f}" for model, auc in means.items()))
    document = {
        "device": "cpu",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "settings": {
            "columns": "load_dataset(..., preprocessing='paper')",
            "splits": list(SPLITS),
            "test": TEST,
            "paper's network": "FairClassifier.as_in_paper(strength=0, iterations=3000)",
        },
        "test_auc": results,
    }
    RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
