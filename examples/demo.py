"""Train on the bundled Adult data with and without the penalty, and say what changed.

Run it with ``make demo``, or ``python examples/demo.py --out FOLDER``. Who earned more than 50 000
dollars is predicted from nine features; the sensitive attributes are age (continuous), race (five
levels) and sex. Every number is computed on UCI's own test part, which no model was trained on.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files; needs no screen

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray

from equipoise import FairClassifier, SensitiveTable, load_dataset
from equipoise.metrics import METRICS, auc, measure

DEPENDENCE = "KS-GSP"  # distance between the score's distributions; 0 is independence
PACKAGES = ("equipoise", "torch", "numpy", "pandas", "scikit-learn", "matplotlib")
LOOKS = ("-", "--", ":", "-.")  # told apart without colour


@dataclass(frozen=True)
class Settings:
    """What decides the numbers. The strength shown is the one figures and sentence are about."""

    strengths: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 0.95)
    strength_shown: float = 0.9
    iterations: int = 1_500
    shuffles: int = 50
    seed: int = 0
    device: str = "cpu"  # so that the numbers do not depend on the machine having a GPU


def demonstrate(folder: Path, settings: Settings) -> None:
    """Train, assess, print, and write tables and figures into ``folder``."""
    started = time.perf_counter()
    train, test = load_dataset("adult"), load_dataset("adult", part="test")
    attributes = SensitiveTable.from_data(test.A)
    print(f"Adult: {len(train.y)} rows to train on, {len(test.y)} to assess on.\n\n{attributes}\n")

    scores = np.empty((len(settings.strengths), len(test.y)))
    for k, strength in enumerate(settings.strengths):
        print(f"training at strength {strength:g} ...", flush=True)
        model = FairClassifier(
            notion="independence",
            strength=strength,
            iterations=settings.iterations,
            random_state=settings.seed,
            device=settings.device,
        ).fit(train.X, train.y, sensitive_features=train.A)
        scores[k] = model.predict_proba(test.X)[:, 1]

    # Metrics take all models at once: one row of scores for each.
    results = pd.DataFrame({"strength": settings.strengths, "AUC": auc(scores, test.y)})
    for column in attributes.columns:
        results[f"{DEPENDENCE} {column.name}"] = measure(DEPENDENCE, scores, column).values
    chance = by_chance(scores[0], attributes, settings)

    folder.mkdir(parents=True, exist_ok=True)
    results.to_csv(folder / "results.csv", index=False)
    shown = settings.strengths.index(settings.strength_shown)
    draw_tradeoff(folder / "tradeoff.png", results, chance)
    draw_scores(folder / "scores-by-age.png", scores[[0, shown]], test.A, settings)
    record = {
        "data": "adult, trained on part 'train', assessed on part 'test'",
        "settings": asdict(settings),
        "results": results.to_dict("records"),
        "by_chance": chance,
        "versions": {"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        "wall_seconds": round(time.perf_counter() - started, 1),
    }
    (folder / "results.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")

    print(f"\n{as_table(results, chance)}\n\n{in_words(results, chance, shown)}\n")
    print(f"Written in {record['wall_seconds']} s:")
    for name in ("results.csv", "results.json", "tradeoff.png", "scores-by-age.png"):
        print(f"  {folder / name}")


def by_chance(
    score: NDArray[np.float64], attributes: SensitiveTable, settings: Settings
) -> dict[str, float]:
    """Mean dependence of shuffled scores, which are independent of everything.

    Empirical distributions of finite groups never agree exactly, those of small groups least: a
    value near this one cannot be told from independence.
    """
    generator = np.random.default_rng(settings.seed)
    shuffled = np.stack([generator.permutation(score) for _ in range(settings.shuffles)])
    return {
        column.name: float(np.mean(measure(DEPENDENCE, shuffled, column).values))
        for column in attributes.columns
    }


def as_table(results: pd.DataFrame, chance: Mapping[str, float]) -> str:
    """The results as text for a person, with the values chance alone gives in the last line."""
    names = list(chance)
    lines = [
        f"{'':10}{'utility':>9}   dependence of the score ({DEPENDENCE})",
        f"{'strength':10}{'AUC':>9}" + "".join(f"{name:>9}" for name in names),
    ]
    for row in results.to_dict("records"):
        label = "0 (plain)" if row["strength"] == 0 else f"{row['strength']:g}"
        values = "".join(f"{row[f'{DEPENDENCE} {name}']:9.3f}" for name in names)
        lines.append(f"{label:10}{row['AUC']:9.3f}{values}")
    lines.append(f"{'by chance':10}{'':9}" + "".join(f"{chance[name]:9.3f}" for name in names))
    lines += ["", textwrap.fill(f"{DEPENDENCE}: {METRICS[DEPENDENCE].formula}.", 100)]
    return "\n".join(lines)


def in_words(results: pd.DataFrame, chance: Mapping[str, float], shown: int) -> str:
    """What was found, and what was not looked at."""
    plain, mitigated = results.iloc[0], results.iloc[shown]
    changes = ", ".join(
        f"{name} from {plain[f'{DEPENDENCE} {name}']:.3f} to "
        f"{mitigated[f'{DEPENDENCE} {name}']:.3f}"
        for name in chance
    )
    found = (
        f"On rows never trained on, strength {mitigated['strength']:g} changed the dependence of "
        f"the score on {changes}, and AUC from {plain['AUC']:.3f} to {mitigated['AUC']:.3f}. "
        "This is one data set, one split and one seed. It says nothing about single persons, nor "
        "whether independence is the right notion for your case."
    )
    return textwrap.fill(found, 100)


def draw_tradeoff(path: Path, results: pd.DataFrame, chance: Mapping[str, float]) -> None:
    """AUC against dependence, one panel for each attribute."""
    figure, axes = plt.subplots(1, len(chance), figsize=(10, 3.6), sharey=True, squeeze=False)
    for panel, (name, floor) in zip(axes[0], chance.items(), strict=True):
        dependence = results[f"{DEPENDENCE} {name}"]
        panel.plot(dependence, results["AUC"], color="black", marker="o", linewidth=1)
        for strength, x, y in zip(results["strength"], dependence, results["AUC"], strict=True):
            panel.annotate(
                f"{strength:g}", (x, y), textcoords="offset points", xytext=(6, -10), fontsize=8
            )
        panel.axvline(floor, color="black", linestyle=":", linewidth=1)
        panel.text(floor, 0.94, " by chance", fontsize=8, transform=panel.get_xaxis_transform())
        panel.set(xlabel=f"{DEPENDENCE}, {name}", xlim=(0, 1.15 * dependence.max()))
        panel.margins(y=0.12)
        _plain_look(panel)
    axes[0, 0].set_ylabel("AUC")
    figure.suptitle("Utility against dependence on the test rows (numbers: strength)", fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_scores(
    path: Path, scores: NDArray[np.float64], A: pd.DataFrame, settings: Settings
) -> None:
    """Scores (2, n), plain and mitigated: quantiles along age above, distributions by sex below."""
    titles = ("plain (strength 0)", f"mitigated (strength {settings.strength_shown:g})")
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.6), sharex="row", sharey="row")
    for score, title, above, below in zip(scores, titles, *axes, strict=True):
        _bands_along(above, score, A["age"])
        above.set(title=title, xlabel="age (years)")
        for look, (group, rows) in zip(LOOKS, A.groupby("sex", observed=True), strict=False):
            ordered = np.sort(score[rows.index])
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            below.plot(ordered, share, color="black", linestyle=look, label=str(group))
        below.set(xlabel="score: probability of more than 50 000 dollars")
        below.legend(title="sex", loc="lower right", frameon=False)
        for panel in (above, below):
            _plain_look(panel)
    axes[0, 0].set_ylabel("score")
    axes[1, 0].set_ylabel("share of rows with a score up to this")
    axes[0, 0].legend(loc="upper left", frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _bands_along(panel: Axes, score: NDArray[np.float64], age: pd.Series) -> None:
    """Median and central bands of the score in tenths of the rows by age."""
    bins = pd.qcut(age, 10, duplicates="drop")
    quantiles = pd.Series(score).groupby(bins, observed=True).quantile([0.1, 0.25, 0.5, 0.75, 0.9])
    table = quantiles.unstack()
    middle = age.groupby(bins, observed=True).median()
    panel.fill_between(middle, table[0.1], table[0.9], color="0.85", label="middle 80 %")
    panel.fill_between(middle, table[0.25], table[0.75], color="0.65", label="middle 50 %")
    panel.plot(middle, table[0.5], color="black", marker="o", markersize=3, label="median")


def _plain_look(panel: Axes) -> None:
    panel.spines[["top", "right"]].set_visible(False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the one option there is, and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo-output"),
        metavar="FOLDER",
        help="where to write tables and figures (default: demo-output)",
    )
    folder = parser.parse_args(arguments).out
    # Networks this small gain nothing from a second thread, and two threads that wait for each
    # other at every layer are many times slower where other programs use the cores as well.
    torch.set_num_threads(1)
    demonstrate(folder, Settings())


if __name__ == "__main__":
    main(sys.argv[1:])
