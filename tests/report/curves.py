"""Small fitted frontiers for cards and pages, fitted once; one has names that could break them."""

import functools

import numpy as np
import pandas as pd

from tests.composing import composed

SMALL = {
    "strengths": (0.0, 0.9),
    "seeds": 1,
    "hidden": (8,),
    "critic_hidden": (4,),
    "batch_size": 100,
    "iterations": 60,
    "evaluate_every": 10,
    "device": "cpu",
}
#: Breaks YAML, Markdown tables and HTML wherever it is written as it is.
NASTY = "a: b | c --- <script>document.title='broken'</script>"


def people(n=1000, *, sex="sex", female="F"):
    """Features that tell sex and age, an outcome they explain, and the two columns."""
    random = np.random.default_rng(11)
    woman = random.integers(0, 2, n)
    age = random.integers(18, 80, n)
    x = random.normal(size=(n, 3)) + np.column_stack([woman, age / 40, np.zeros(n)])
    y = (x.sum(axis=1) + random.normal(size=n) > 2).astype(int)
    X = pd.DataFrame(x, columns=["income", "tenure", "debt"])
    A = pd.DataFrame({sex: np.where(woman == 1, female, "M"), "age": age})
    return X, y, A


@functools.cache
def curve(kind="two strengths"):
    """The frontier of this kind."""
    names = {"sex": NASTY, "female": "<img src=x onerror=alert(1)>"} if kind == "nasty" else {}
    X, y, A = people(**names)
    options = {**SMALL, "random_state": 5 if kind == "other seed" else 4}
    if kind == "plain training":
        options["strengths"] = (0.0,)
    if kind == "separation":
        options["notion"] = "separation"
    if kind == "regression":
        options["task"], y = "regression", X["income"] + 0.3 * X["debt"]
    if kind == "one metric":
        options["metrics"] = ["SP"]
    if kind == "longer":
        options["iterations"] = 80
    if kind in ("boosting", "both"):
        for name in ("hidden", "critic_hidden", "batch_size", "iterations", "evaluate_every"):
            if kind == "boosting" or name in ("critic_hidden", "batch_size"):
                del options[name]
        options |= {
            "predictor": kind,
            "boosting": {"rounds": 20, "learning_rate": 0.1},
            "evaluate_every_rounds": 5,
        }
    if kind == "three classes":
        y = np.digitize(X.sum(axis=1), [1.5, 3.5])
    return composed(**options).fit(X, y, sensitive_features=A)
