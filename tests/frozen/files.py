"""The files of ``files/``: ``python -m tests.frozen.files`` wrote them with the version of then.

Do not run it again: a newer version would write newer files.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from equipoise import FairFrontier, load
from equipoise.cli import main as command_line

from .data import rows
from .numbers import estimator, frontier, plain

FILES = Path(__file__).parent / "files"
SCORES = FILES / "scores.json"
SELECTED = FILES / "selected.json"
TRAINED_ON = 120
WISH = {"max_unfairness": 2.0}


def equipoise(*arguments: object) -> tuple[int, str]:
    """Run one command line in this process; return its exit status and standard output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            command_line([str(argument) for argument in arguments])
        except SystemExit as end:
            return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def asked() -> pd.DataFrame:
    """The rows that every saved model is asked about; some were never seen in training."""
    return rows(TRAINED_ON, seed=8).features.head(30)


def answers(path: Path) -> Any:
    """What the model in a file says about the fixed rows, and what a frontier says of itself."""
    loaded = load(path)
    if not isinstance(loaded, FairFrontier):
        return plain({"scores": _scores(loaded)})
    chosen = loaded.select(**WISH, draws=20)
    return plain(
        {
            "table": loaded.table(),
            "members": loaded.members(),
            "report": chosen.to_frame(),
            "snapshot": chosen.snapshot,
            "scores": _scores(chosen.model),
        }
    )


def _scores(model: Any) -> Any:
    for way in ("transform", "predict_proba", "predict"):
        if hasattr(model, way):
            return np.asarray(getattr(model, way)(asked()))
    raise AssertionError(f"{model!r} gives no scores")


def selected(place: Path) -> Any:
    """What ``select`` says of a copy of the run in ``place``, and ``predict`` of it after that."""
    run = shutil.copytree(FILES / "run", place / "run")
    end, out = equipoise("select", run, "--max-unfairness", 0.7, "--json")
    assert end == 0
    end, _ = equipoise("predict", run, FILES / "people.csv", "--out", place / "scores.csv")
    assert end == 0
    scores = pd.read_csv(place / "scores.csv")
    return plain({"selection": json.loads(out)["selection"], "scores": scores["score"].tolist()})


def write() -> None:
    FILES.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    found = rows(TRAINED_ON)
    small = {"embedding": "none"}
    models = {
        "classifier": (estimator("FairClassifier", **small), "two classes"),
        "three_classes": (estimator("FairClassifier", notion="separation"), "three classes"),
        "regressor": (estimator("FairRegressor", method="hsic", **small), "numbers"),
        "encoder": (estimator("FairEncoder", encoder_hidden=(4,), **small), "two classes"),
        "boosting_classifier": (estimator("FairBoostingClassifier"), "two classes"),
        "boosting_regressor": (estimator("FairBoostingRegressor"), "numbers"),
        "frontier_networks": (frontier("network", "two classes", **small), "two classes"),
        "frontier_trees": (frontier("boosting", "numbers"), "numbers"),
        "frontier_both": (frontier("both", "two classes", ensemble=True, **small), "two classes"),
    }
    for name, (model, outcome) in models.items():
        model.fit(
            found.features,
            found.outcomes[outcome],
            sensitive_features=found.attributes["mixed"],
        )
        model.save(FILES / f"{name}.equipoise")
    table = pd.concat([found.features, found.attributes["mixed"]], axis=1)
    table["hired"] = np.where(found.outcomes["two classes"] == 1, "yes", "no")
    table.insert(0, "person", [f"p{number:03d}" for number in range(TRAINED_ON)])
    os.chdir(FILES)  # A run notes the paths that it was given.
    table.to_csv("people.csv", index=False)
    # Trees: the networks of the command line have fixed widths and would fill 300 KB.
    fit = "fit people.csv --target hired --sensitive age,group --id person --predictor boosting"
    end, _ = equipoise(
        *fit.split(), "--strengths", "0,0.5", "--seeds", 1, "--rounds", 25, "--out", "run",
    )  # fmt: skip
    assert end == 0
    end, _ = equipoise("predict", "run", "people.csv", "--out", "predicted.csv")
    assert end == 0
    with tempfile.TemporaryDirectory() as copied:
        SELECTED.write_text(json.dumps(selected(Path(copied)), indent=1) + "\n", "utf-8")
    saved = {path.name: answers(path) for path in sorted(FILES.glob("*.equipoise"))}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in saved.items()]
    SCORES.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    sys.exit(write())
