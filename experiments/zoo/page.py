"""Write the tables of docs/defaults.md from the results of the zoo."""

from __future__ import annotations

import json
from typing import get_args

from benchmarks.page import filled, markdown
from experiments import ROOT
from experiments.zoo.datasets import ZOO, Part
from experiments.zoo.run import RESULT, mean_and_least, table

PAGE = ROOT / "docs" / "defaults.md"
#: A data set counts as lost if it is more than this below the better plain model.
LOST = 0.01


def part_table(part: Part) -> str:
    """Every data set of one part: utilities, and differences to the better plain model."""
    rows = []
    for name, found in table(part).iterrows():
        entry = ZOO[str(name)]
        values = [f"{found[each]:.3f}" for each in ("linear", "HistGradientBoosting")]
        values += [f"{found[f'{each} - best']:+.3f}" for each in ("network", "trees")]
        kind = "AUC" if entry.is_classification else "R2"
        rows.append([entry.source, f"{found['rows']:,.0f}", kind, *values])
    header = ["data set", "rows", "utility", "linear", "HistGradientBoosting", "network", "trees"]
    return markdown(header, rows)


def summary() -> str:
    """Mean, least and lost data sets, for every part."""
    rows = []
    for part in get_args(Part):
        found = table(part)
        for model in ("network", "trees"):
            differences = found[f"{model} - best"]
            mean, least = mean_and_least(differences)
            lost = ", ".join(differences.index[differences < -LOST]) or "none"
            rows.append([part, str(len(found)), model, f"{mean:+.4f}", f"{least:+.4f}", lost])
    header = ["part", "data sets", "model", "mean difference", "least", "more than 0.01 below"]
    versions = json.loads(RESULT.read_text())["versions"]
    made = ", ".join(f"{name} {number}" for name, number in versions.items())
    return f"{markdown(header, rows)}\n\nOne CPU thread; {made}."


def blocks() -> dict[str, str]:
    """Every block of the page by the name of its mark."""
    return {
        "summary": summary(),
        **{part: part_table(part) for part in get_args(Part)},
    }


def main() -> None:
    """Write the page."""
    text = filled(PAGE.read_text(encoding="utf-8"), blocks())
    PAGE.write_text(text, encoding="utf-8")
