"""Small fitted frontiers of every kind that has a page, fitted once."""

import functools
import math
from dataclasses import replace

import numpy as np
import pandas as pd

from equipoise.datasets import make_synthetic
from equipoise.report.frontier_page import RunFacts, frontier_page
from tests.composing import composed

SMALL = {
    "strengths": (0.0, 0.5, 0.9),
    "seeds": 2,
    "hidden": (8,),
    "critic_hidden": (8,),
    "batch_size": 200,
    "iterations": 120,
    "evaluate_every": 20,
    "random_state": 5,
    "device": "cpu",
}
NASTY = ("<script>alert(1)</script>", "</script><!--", '"><img src=x onerror=alert(2)>')


@functools.cache
def data(task="classification"):
    return make_synthetic(2500, task=task, random_state=3)


@functools.cache
def fitted(kind):
    rows = data("regression" if kind == "numbers" else "classification")
    X, y, A, given = rows.X, rows.y, rows.A, {}
    options = dict(SMALL)
    if kind == "numbers":
        options["task"] = "regression"
    elif kind == "three classes":
        y = np.array(["low", "mid", "high"])[np.digitize(X.iloc[:, 0] + X.iloc[:, 1], [-1, 1])]
    elif kind == "weights":
        given["sample_weight"] = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(y))
        options |= {"ensemble": True, "iterations": 40, "missing_sensitive": "skip"}
        A = A.assign(group=A["group"].astype(object).where(A["age"] > -1.5, None))
    elif kind == "nasty":
        groups = np.array(NASTY)[A["group"].cat.codes]
        A = pd.DataFrame({NASTY[2]: groups, f"{NASTY[0]} age": A["age"]})
        y = np.where(y == 1, NASTY[1], NASTY[0])
        options |= {"iterations": 40}
    elif kind in ("both families", "trees"):
        X, y, A = X[:900], y[:900], A[:900]
        trees = {"boosting": {"rounds": 20, "batch_size": 400}, "evaluate_every_rounds": 5}
        options = {"strengths": (0.0, 0.9), "seeds": 1, "random_state": 5, **trees}
        options["predictor"] = "boosting"
        if kind == "both families":
            # By the gap one family would beat the other; here both are on the front.
            options["metrics"] = ("KS-GSP", "SP")
            small = {name: SMALL[name] for name in ("hidden", "iterations", "evaluate_every")}
            options |= {"predictor": "both", "device": "cpu", **small}
    elif kind == "many groups":
        random = np.random.default_rng(0)
        X, y = X[:1300], y[:1300]
        A = pd.DataFrame({f"column {k}": random.integers(13, size=len(y)) for k in range(7)})
        # Snapshots of many measures hardly dominate one another, so that nearly all are kept. The
        # groups are too small for a gap.
        options |= {"evaluate_every": 5, "sensitive_types": dict.fromkeys(A.columns, "discrete")}
        options["metrics"] = ("KS-GSP", "SP")
    else:
        assert kind == "two classes"
        options |= {"strengths": (0.0, 0.5, 0.8, 0.95), "iterations": 200, "evaluate_every": 10}
    frontier = composed(**options).fit(X, y, sensitive_features=A, **given)
    # The slider offers every model, also those that select refuses as no better than chance; here
    # nothing is known of chance, as in files of older versions.
    return frontier._keep(replace(frontier.fitted_curve(), chance=-math.inf))


@functools.cache
def selected(kind):
    """A selection in the middle of the first front."""
    frontier = fitted(kind)
    criteria = frontier.fitted_curve().snapshots.criteria
    metric = criteria.metrics[0]
    columns = [f"{metric} {attribute}" for attribute in criteria.by_attribute(metric)]
    largest = frontier.table().query("on_front")[columns].max(axis=1)
    return frontier.select(max_unfairness=round(float(largest.median()), 3))


@functools.cache
def page_of(kind):
    nasty = kind == "nasty"
    facts = RunFacts(
        title=NASTY[1] if nasty else "A small run",
        data_name=NASTY[2] if nasty else "small.csv",
        target=NASTY[0] if nasty else "outcome",
        columns=pd.DataFrame({NASTY[0]: NASTY}) if nasty else pd.DataFrame({"column": ["age"]}),
        settings={NASTY[0]: NASTY[2]} if nasty else {"seeds": 2},
        versions={"python": "3"},
        seed=5,
    )
    return frontier_page(fitted(kind), selected(kind), facts)
