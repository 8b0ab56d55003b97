"""People in files, and command lines about them."""

import io
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd

from equipoise.cli.commands import app
from equipoise.cli.running import run


def people(n, seed=0):
    random = np.random.default_rng(seed)
    sex = random.choice(["F", "M"], n, p=[0.4, 0.6])
    hired = (random.random(n) < 0.3 + 0.2 * (sex == "M")).astype(int)
    grade = random.normal(size=n) + 2 * hired
    columns = {"age": random.integers(18, 80, n), "sex": sex, "grade": grade}
    score = (0.2 * hired + 0.1 * (sex == "M") + random.random(n) / 2).round(2)
    return pd.DataFrame({**columns, "hired": hired, "score": score})


def written(folder, files, rows):
    folder.mkdir()
    for number in range(files):
        people(rows, number).to_parquet(folder / f"{number:02d}.parquet")
    return str(folder / "*.parquet")


def command(*arguments):
    """Run one command line; its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(app, [str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()
