"""The numbers that the paper printed: tables 2, 3 and 7-12 of Sohn, Song and Lin (AISTATS 2024)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pandas as pd


@cache
def published() -> pd.DataFrame:
    """Every fairness number of the paper, one a row.

    Columns: table, label (of the LaTeX source), scenario, dataset, attribute, metric, method (as
    the paper writes it), utility ("auc", "mae"), threshold (on utility), mean, std, approx_zero
    (whether the paper prints "about 0").

    >>> rows = published().query("table == 'table2' and dataset == 'adult' and method == 'SBP'")
    >>> rows[["metric", "threshold", "mean"]].to_numpy().tolist()
    [['SP', 0.85, 0.001], ['KS-GSP', 0.85, 0.014]]
    """
    with (files("experiments.paper") / "published.csv").open("r", encoding="utf-8") as text:
        return pd.read_csv(text)
