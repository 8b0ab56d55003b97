"""A small table of people, and the command line run in this process as a user runs it."""

import inspect
import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import numpy as np
import pandas as pd

from equipoise.cli.commands import app
from equipoise.cli.running import run
from equipoise.storage import read_model_file

#: What every small run has in common: seconds on one core, several snapshots.
SMALL = (
    *("--strengths", "0,0.9", "--seeds", "1", "--iterations", "40", "--evaluate-every", "20"),
    "--allow-nearest",  # forty iterations keep no limit
)
SMALL_ON_CPU = (*SMALL, "--device", "cpu")


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def equipoise(*arguments: object) -> Ran:
    """Run one command line; nothing is replaced, only what it prints is caught."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(app, [str(argument) for argument in arguments])
    return Ran(code, out.getvalue(), err.getvalue())


def refused(*arguments: object) -> str:
    """The one line in which a command was refused."""
    ran = equipoise(*arguments)
    assert (ran.code, ran.out) == (1, ""), ran.out
    assert ran.err.startswith("error: ") and ran.err.count("\n") == 1, ran.err
    return ran.err.removeprefix("error: ").removesuffix("\n")


def examples_of(command) -> list[str]:
    """Command lines in the help of a command."""
    lines = inspect.getdoc(command).partition("Examples\n--------\n")[2].splitlines()
    return [line.strip() for line in lines]


def table(n: int = 1000, *, seed: int = 0) -> pd.DataFrame:
    """People of whom hours and grade help to be hired, and grade depends on sex and age."""
    random = np.random.default_rng(seed)
    age = random.integers(20, 70, n)
    sex = random.choice(["F", "M"], n)
    grade = random.normal(size=n) + 0.8 * (sex == "M") - 0.03 * (age - 45)
    hours = random.normal(38, 6, n).round(1)
    chance = 1 / (1 + np.exp(-1.5 * grade - 0.1 * (hours - 38)))
    return pd.DataFrame(
        {
            "person": [f"p{number:05d}" for number in range(n)],
            "age": age,
            "sex": sex,
            "city": random.choice(["Ulm", "Bern", "Graz"], n),
            "hours": hours,
            "grade": grade.round(3),
            "hired": np.where(random.random(n) < chance, "yes", "no"),
        }
    )


def same_model(one, other) -> bool:
    """Whether two files hold the same models; the order of their headers is not fixed."""
    a, b = read_model_file(one), read_model_file(other)
    return (
        a.document == b.document
        and set(a.arrays) == set(b.arrays)
        and all(np.array_equal(a.arrays[name], b.arrays[name]) for name in a.arrays)
    )
