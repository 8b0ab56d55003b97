"""Time to judge all members once, measured in training iterations of the same run.

Adult with the paper's columns, batch 300, the paper's networks and optimizer, 25 members. They are
judged on 6512 validation rows by the default metrics, by race alone (the paper's Scenario I) and by
three attributes. Judging is everything a frontier does at an evaluation: scores in double
precision, AUC, thresholds, metrics, fronts, copies of the kept weights. Training and judging take
turns, so that a busy moment of the machine affects both.

Writes benchmarks/results/evaluation.json.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch

from benchmarks.training import adult_rows
from equipoise import FairClassifier, load_dataset
from equipoise.estimators.fitting import Fitting
from equipoise.frontier.judging import HeldOut, Judge, criteria_for, default_metrics, samples_of
from equipoise.frontier.snapshots import Recorder, entries_of, scores_of
from equipoise.notions import Notion
from equipoise.predictors import Inputs
from equipoise.tables import SensitiveTable
from equipoise.training import Member, Predictor, Trained, TrainingData

MEMBERS = tuple(Member(s, seed) for seed in range(5) for s in (0.1, 0.3, 0.5, 0.7, 0.9))
ROWS = 6512
ITERATIONS = 20
REPEATS = 7
METRICS = default_metrics(Notion.parse("independence"), "binary")
ATTRIBUTES = (("race",), ("race", "age", "sex"))
RESULTS = Path(__file__).parent / "results" / "evaluation.json"


def recorder_of(attributes: Sequence[str]) -> Recorder:
    """Return what a frontier calls at every evaluation, on the last rows of Adult."""
    encoded = load_dataset("adult", preprocessing="paper")
    people = load_dataset("adult").A.tail(ROWS)
    x = torch.tensor(np.ascontiguousarray(encoded.X.tail(ROWS), dtype=np.float64))
    table = SensitiveTable.from_data(people[list(attributes)])
    rows = HeldOut("validation", encoded.y.tail(ROWS).to_numpy(), "binary", table, None)
    criteria = criteria_for(METRICS, "independence", "AUC", rows)
    entries = entries_of(MEMBERS, ensemble=False)
    judge = Judge(samples_of(rows, x.device), criteria)
    return Recorder(lambda predictor: judge(scores_of(predictor, x, entries)), criteria, entries)


def seconds_of_evaluation(predictor: Predictor, attributes: Sequence[str]) -> float:
    """Return the seconds of a second evaluation, which has earlier snapshots to compare with."""
    recorder = recorder_of(attributes)
    recorder(1, predictor)
    start = perf_counter()
    recorder(2, predictor)
    return perf_counter() - start


def train(data: TrainingData, iterations: int) -> Trained:
    """Train all members for this number of iterations."""
    recipe = Fitting(FairClassifier.as_in_paper()).recipe
    recipe = replace(recipe, training=replace(recipe.training, iterations=iterations))
    return recipe.train(data, MEMBERS, Inputs(task="binary", n_outputs=1))


def seconds_of_training(data: TrainingData) -> float:
    """Return the seconds of ITERATIONS iterations, as a difference without start-up costs."""
    seconds = []
    for iterations in (ITERATIONS, 2 * ITERATIONS):
        start = perf_counter()
        train(data, iterations)
        seconds.append(perf_counter() - start)
    return seconds[1] - seconds[0]


def main() -> None:
    torch.set_num_threads(1)  # a second one waits by spinning: times would depend on other programs
    data = adult_rows()
    predictor = train(data, ITERATIONS).predictor
    training, judging = [], {attributes: [] for attributes in ATTRIBUTES}
    for _ in range(REPEATS):
        training.append(seconds_of_training(data))
        for attributes, seconds in judging.items():
            seconds.append(seconds_of_evaluation(predictor, attributes))
    found = []
    for attributes, seconds in judging.items():
        ratio = median(seconds) / median(training)
        found.append(
            {
                "attributes": list(attributes),
                "seconds": round(median(seconds), 4),
                "seconds_from_to": [round(min(seconds), 4), round(max(seconds), 4)],
                "times_the_training": round(ratio, 3),
            }
        )
        print(
            f"judging {len(MEMBERS)} members on {ROWS} rows by {', '.join(attributes)}: "
            f"{ratio * ITERATIONS:.1f} training iterations"
        )
    content = {
        "what": "one evaluation of a frontier, and training iterations of all its members",
        "members": len(MEMBERS),
        "validation_rows": ROWS,
        "metrics": f"default ({', '.join(METRICS)})",
        "batch": FairClassifier.as_in_paper().batch_size,
        "networks": "the paper's",
        "training_iterations": ITERATIONS,
        "training_seconds": round(median(training), 4),
        "training_seconds_from_to": [round(min(training), 4), round(max(training), 4)],
        "seconds_are": f"medians of {REPEATS} turns, with the shortest and the longest",
        "threads": 1,
        "device": f"{platform.machine()} CPU",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "torch")},
        },
        "evaluations": found,
    }
    RESULTS.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
