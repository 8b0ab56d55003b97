"""Train adjusters and their peers on the same scores, and compare them at equal unfairness."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from equipoise import FairAdjuster, FairFrontier
from experiments.adjusting.rows import TRIALS, TrialRows, trial_rows
from experiments.adjusting.transport import repaired

Floats = NDArray[np.float64]
SHARES = np.linspace(0, 1, 21)
#: Seconds that the peers of one trial may take.
_LIMIT = 1800
#: Points of the range of unfairness in which two curves are compared.
_POINTS = 41
#: A record that has this much less utility than the best of its split is left out.
_MOST_GIVEN_UP = 0.05


def ks_gsp(score: Floats, group: NDArray[Any]) -> float:
    """KS-GSP: over the groups, the sum of the largest distances to the distribution of all."""
    everybody = np.sort(score)
    shares = np.searchsorted(everybody, everybody, "right") / len(score)
    parts = [np.sort(score[group == level]) for level in np.unique(group)]
    found = [np.searchsorted(part, everybody, "right") / len(part) - shares for part in parts]
    return float(sum(np.abs(each).max() for each in found))


def odds_gap(decision: NDArray[Any], y: NDArray[Any], group: NDArray[Any]) -> float:
    """Largest difference between two groups in the rate of positive decisions given Y."""
    gaps = []
    for label in (0, 1):
        of_label = y == label
        rates = [decision[of_label & (group == level)].mean() for level in np.unique(group)]
        gaps.append(max(rates) - min(rates))
    return float(max(gaps))


def judged(
    score: Floats, rows: TrialRows, group: NDArray[Any], task: str
) -> Iterator[tuple[str, float]]:
    """Utility and unfairness on validation and test rows: of the score, or of its decisions."""
    threshold = 0.5
    if task == "decisions" and len(np.unique(score)) > 2:
        threshold = _best_threshold(score[rows.validation], rows.y[rows.validation])
    for part, positions in (("", rows.validation), ("test ", rows.test)):
        values, y, groups = score[positions], rows.y[positions], group[positions]
        if task == "scores":
            yield f"{part}utility", float(roc_auc_score(y, values))
            yield f"{part}unfairness", ks_gsp(values, groups)
        else:
            yield f"{part}utility", float(((values > threshold) == y).mean())
            yield f"{part}unfairness", odds_gap(values > threshold, y, groups)


def _best_threshold(score: Floats, y: NDArray[Any]) -> float:
    order = np.argsort(score)
    right = np.cumsum(1 - y[order]) + y.sum() - np.cumsum(y[order])
    return float(score[order][right.argmax()])


def adjusted(rows: TrialRows, column: str, number: int, **options: Any) -> Iterator[Floats]:
    """Scores of all rows, by every snapshot of a frontier that is on a front."""
    separation = options.get("notion") == "separation"
    frontier = FairFrontier(
        FairAdjuster(**options),
        seeds=1,
        random_state=number,
        validation=rows.validation.tolist(),
        test=rows.test.tolist(),
        metrics=["EO", "KS-GEO"] if separation else ["KS-GSP"],
    )
    X, A = pd.DataFrame({"model": rows.score}), rows.sensitive[[column]]
    frontier.fit(X, rows.y, sensitive_features=A)
    curve = frontier.fitted_curve()
    for snapshot in curve.snapshots.weights:
        yield curve.model(snapshot).decision_function(X, sensitive_features=A)


def peers(python: str, constraint: str, **rows: Any) -> dict[str, Floats]:
    """Answers of the packages that another environment has, by setting; see ``peers_script.py``."""
    script = Path(__file__).with_name("peers_script.py")
    with tempfile.TemporaryDirectory() as folder:
        given, answers = (Path(folder) / name for name in ("rows.npz", "answers.npz"))
        np.savez(given, **rows, constraint=np.array(constraint))
        subprocess.run([python, script, given, answers], check=True, timeout=_LIMIT)
        return {name: np.asarray(found, float) for name, found in np.load(answers).items()}


def trial(dataset: str, column: str, number: int, python: str | None) -> Iterator[dict[str, Any]]:
    """Yield what every method reaches on one split, one record for each setting."""
    rows = trial_rows(dataset, number)
    group = np.unique(rows.sensitive[column].astype(str), return_inverse=True)[1]
    learned: dict[str, Any] = {
        "learned_score": rows.score[rows.train],
        "learned_group": group[rows.train],
    }

    def record(method: str, task: str, score: Floats) -> dict[str, Any]:
        told = {"data": dataset, "attribute": column, "split": number, "task": task}
        return {**told, "method": method, **dict(judged(score, rows, group, task))}

    for share in SHARES:
        yield record("transport", "scores", repaired(rows.score, group, share=share, **learned))
    for name, options in (("adjuster", {}), ("increasing", {"increasing": True})):
        for score in adjusted(rows, column, number, **options):
            yield record(name, "scores", score)
        for score in adjusted(rows, column, number, notion="separation", **options):
            yield record(name, "decisions", score)
    if python is not None:
        known = {"score": rows.score, "y": rows.y, "group": group, "train": rows.train}
        for setting, answer in peers(python, "equalized_odds", **known).items():
            method = setting.partition(" ")[0]
            yield record(method, "scores" if method == "equipy" else "decisions", answer)


def run(splits: Sequence[int], python: str | None, out: Path) -> pd.DataFrame:
    """Run all trials; a file in ``out`` keeps each, so that the same command continues."""
    out.mkdir(parents=True, exist_ok=True)
    tables = []
    for dataset, columns in TRIALS.items():
        for column in columns:
            for number in splits:
                file = out / f"{dataset}-{column}-{number}.csv"
                if not file.exists():
                    pd.DataFrame(trial(dataset, column, number, python)).to_csv(file, index=False)
                tables.append(pd.read_csv(file))
    return pd.concat(tables, ignore_index=True)


def curve_of(records: pd.DataFrame) -> Floats:
    """Mean unfairness and utility on test rows of what validation rows pick, (points, 2).

    For each limit, in each split the record of largest utility within it. Limits go from the least
    that every split can keep. Records that give up much utility, such as decisions that are all
    alike, are left out.
    """
    names = ["unfairness", "utility", "test unfairness", "test utility"]
    splits = [found[names].to_numpy() for _, found in records.groupby("split")]
    splits = [each[each[:, 1] >= each[:, 1].max() - _MOST_GIVEN_UP] for each in splits]
    least = max(each[:, 0].min() for each in splits)
    limits = np.linspace(least, max(each[:, 0].max() for each in splits), _POINTS)
    mean = np.mean([[_pick(each, limit) for limit in limits] for each in splits], axis=0)
    return np.asarray(mean[np.argsort(mean[:, 0], kind="stable")])


def _pick(values: Floats, limit: float) -> Floats:
    within = values[values[:, 0] <= limit]
    return within[within[:, 1].argmax(), 2:]


def compared(records: pd.DataFrame) -> pd.DataFrame:
    """Compare adjusters with each peer: utility beyond the peer's at equal test unfairness."""
    lines = []
    for (data, attribute, task), found in records.groupby(["data", "attribute", "task"]):
        curves = {name: curve_of(each) for name, each in found.groupby("method")}
        ours = [name for name in ("adjuster", "increasing") if name in curves]
        for mine in ours:
            for peer in curves.keys() - {"adjuster", "increasing"}:
                one, other = curves[mine], curves[peer]
                low, high = max(one[0, 0], other[0, 0]), min(one[-1, 0], other[-1, 0])
                grid = np.linspace(low, high, _POINTS)
                ahead = np.interp(grid, *one.T) - np.interp(grid, *other.T)
                least = {"least unfairness": one[0, 0], "of the peer": other[0, 0]}
                differences = {"mean": ahead.mean(), "worst": ahead.min()}
                named = {"data": data, "attribute": attribute, "task": task, "method": mine}
                lines.append({**named, "peer": peer, **least, **differences})
    return pd.DataFrame(lines).sort_values(["data", "attribute", "task", "method", "peer"])
