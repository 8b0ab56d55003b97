"""Entries that fit and what comes after: predict, save, load, select; data sets, command line."""

from __future__ import annotations

import contextlib
import inspect
import io
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import equipoise
from equipoise import load, load_dataset
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.files import read_table
from equipoise.methods import METHODS

from .draw import (
    FRAME_FORMS,
    TABLE_FORMS,
    Column,
    Draw,
    Table,
    attributes,
    classes,
    features,
    levels,
    numbers,
    outcomes,
    strange,
    text,
    weights,
)
from .options import OPTIONS, options_for
from .oracle import Call, Nonsense, Refused, agree, must

Run = Callable[[Draw, Call], None]


# ------------------------------------------------------------------------------------- estimators


def _names(estimator: type) -> list[str]:
    return list(inspect.signature(estimator).parameters)


def _read_by(method: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options that a method reads; all of them where there is no such method."""
    declared = METHODS.get(method) if isinstance(method, str) else None
    return {n: v for n, v in options.items() if declared is None or declared.reads(n)}


def _tiny(estimator: type, draw: Draw) -> dict[str, Any]:
    """Options that make a fit of milliseconds."""
    all_small = {"iterations": draw.whole(1, 4), "batch_size": draw.pick((8, 300)), "hidden": (4,),
                 "critic_hidden": (4,), "encoder_hidden": (2,), "rounds": draw.whole(1, 4),
                 "warmup": 1, "random_state": draw.whole(0, 99), "critic_steps": 1,
                 "device": "cpu"}  # fmt: skip
    small = {name: value for name, value in all_small.items() if name in _names(estimator)}
    if "rounds" in small and draw.chance(0.7):
        small["lightgbm"] = {"min_data_in_leaf": 1, "min_data_in_bin": 1, "num_leaves": 3}
    return small


def estimator_entry(name: str) -> Run:
    kind = getattr(equipoise, name)

    def run(draw: Draw, call: Call) -> None:
        n = draw.rows(12, 60 if "Boosting" in name else 30)
        changed, wrong = options_for(draw, _names(kind))
        options = {**_read_by(changed.get("method"), _tiny(kind, draw)), **changed}
        if options.get("method") == "agarwal" and draw.chance(0.8):
            options["method"] = "sbp"
        if not draw.chance(0.7):
            options["strength"] = 0.0 if wrong != "strength" else options["strength"]
        if options.get("divergence") in ("kl", "chi2") and draw.chance(0.5):
            options["gradient_penalty"] = options.get("gradient_penalty", 1.0)
        regression = "Regressor" in name or options.get("task") == "regression"
        fit_and_predict(draw, call, kind, options, wrong, n, regression=regression)

    return run


LAWS = ("again", "names", "labels", "form", "units", "saved", "weights", "new rows", "new rows",
        "left out")  # fmt: skip


def new_rows(draw: Draw, x: Table) -> Table:
    """Rows to predict for, of which something is new."""
    count = len(x.columns)
    new = draw.whole(0, 7)
    if new == 0:
        return x.take(np.arange(0))
    if new == 1:
        return x.order(draw.random.permutation(count))
    if new == 2:
        return x.order(range(count - 1))
    if new == 3:
        return x.rename([f"other {i}" for i in range(count)])
    if new == 4:
        form = draw.pick(tuple(TABLE_FORMS))
        return Table(x.columns, x.names, form, x.n, x.index_kind)
    column = draw.whole(0, count - 1)
    values = strange(draw, x.n) if new == 5 else draw.pick((numbers, text, levels))(draw, x.n)
    columns = tuple(values if i == column else c for i, c in enumerate(x.columns))
    return Table(columns, x.names, x.form, x.n, x.index_kind)


def run_options(draw: Draw) -> dict[str, Any]:
    """Options of a call of fit beside the data, of which some must be refused."""
    if not draw.odd():
        return {}
    return draw.pick(
        (
            {"checkpoint_every": draw.pick((-1, float("nan"), "60", None))},
            {"resume": True},
            {"callback": 3},
            {"checkpoint": draw.pick(("", ".", "no/such/folder/file", 3))},
        )
    )


def fit_and_predict(
    draw: Draw,
    call: Call,
    kind: type,
    options: dict[str, Any],
    wrong: str | None,
    n: int,
    *,
    regression: bool,
) -> None:
    x, a, w = features(draw, n), attributes(draw, n), weights(draw, n)
    y = (outcomes if regression else classes)(draw, n)
    if wrong is None and any(pd.isna(column).any() for column in a.columns) and draw.chance(0.7):
        options["missing_sensitive"] = "skip"
    if draw.chance(0.15) and options.get("strength") == 0:
        a = None  # type: ignore[assignment]
    crossed = draw.chance(0.04) and x.form.startswith("pandas") and n > 1
    if crossed:
        other = "range" if x.index_kind == "shuffled" else "shuffled"
        y = replace(y, form="pandas", index_kind=other)
    draw.notes.update(estimator=kind.__name__, options=options, X=x, y=y, A=a, weights=w)
    seed = options.get("random_state")
    globally = {"draws_globally_": not isinstance(seed, int | np.integer)}

    more = draw.notes["fit"] = run_options(draw)

    def fit(x: Table, y: Column, a: Table | None, w: Column | None) -> Any:
        model = kind(**options)
        call(model.fit, x, y, sensitive_features=a, sample_weight=w, **globally, **more)
        return model

    model = fit(x, y, a, w)
    must(not more, f"{more} was accepted")
    must(not crossed, "a y whose index has another order was accepted")
    must(wrong is None, f"{wrong}={options.get(wrong or '')!r} was accepted")
    needs = options.get("method") == "scutari" or options.get("sensitive_at_prediction")

    def answers(model: Any, x: Table, a: Table | None) -> Any:
        extra = {"sensitive_features": a} if needs else {}
        if hasattr(model, "transform"):
            found = call(model.transform, x, **extra)
            must(found.shape == (x.n, model.encoder_hidden[-1]), f"a shape of {found.shape}")
        elif regression:
            found = call(model.predict, x, **extra)
            must(found.shape == (x.n,), f"a shape of {found.shape}")
        else:
            found = call(model.predict_proba, x, **extra)
            must(found.shape == (x.n, len(model.classes_)), f"a shape of {found.shape}")
            must(((found >= 0) & (found <= 1)).all(), "probabilities out of range")
            agree(found.sum(axis=1), np.ones(x.n), "adding up probabilities", tolerance=1e-6)
            labels = call(model.predict, x, **extra)
            must(np.isin(labels, model.classes_).all() and len(labels) == x.n, "unknown labels")
        must(np.isfinite(found).all(), "an answer that is not finite")
        return found

    first = answers(model, x, a)
    call.settle()
    rows = draw.random.permutation(n)[: draw.whole(1, n)]
    if not needs and all(map(_one_type, x.columns)):
        part = answers(model, x.take(rows), None)
        agree(part, first[rows], "predicting other rows along with one", tolerance=1e-9)
    law = draw.pick(LAWS)
    draw.notes["law"] = law
    if globally["draws_globally_"] and law not in ("saved", "new rows"):
        return
    if law == "again":
        agree(answers(fit(x, y, a, w), x, a), first, "fitting again", tolerance=1e-12)
    if law == "names" and not options.get("sensitive_types"):
        renamed = x.rename([f"c{i:03d}" for i in range(len(x.columns))]) if x.named else x
        # Of columns of one name a mapping holds the last, so other names would mean other columns.
        unique = a and a.named and len(set(a.names)) == len(a.names)
        same = a.rename([f"d{i:03d}" for i in range(len(a.columns))]) if unique else a
        agree(answers(fit(renamed, y, same, w), renamed, same), first, "other names of columns")
    if law == "labels" and hasattr(model, "classes_"):
        again = fit(x, Column(_labels(model, y.values), "array"), a, w)
        agree(answers(again, x, a), first, "other labels in the same order")
    if law == "form" and x.form in FRAME_FORMS:
        other = Table(x.columns, x.names, draw.pick(FRAME_FORMS), n, x.index_kind)
        if all(isinstance(name, str) for name in x.names) and all(map(_one_type, x.columns)):
            agree(answers(fit(other, y, a, w), other, a), first, "another kind of frame")
    if law == "units" and regression and y.values.dtype.kind == "f":
        factor = 2.0 ** draw.pick((-40, -3, 1, 40))
        scaled = Column(y.values * factor, "array")
        if np.isfinite(scaled.values).all() and (scaled.values / factor == y.values).all():
            again = answers(fit(x, scaled, a, w), x, a)
            exact = hasattr(model, "transform")
            agree(again if exact else again / factor, first, "other units of y", tolerance=1e-5)
    if law == "weights" and w is not None and "Boosting" not in kind.__name__:
        doubled = Column(w.values.astype(np.float64) * 4.0, "array")
        agree(answers(fit(x, y, a, doubled), x, a), first, "weights times 4", tolerance=1e-6)
    if law == "left out":
        call.settled = False
        some = draw.random.random(n) < 0.8
        given = np.ones(n) if w is None else np.asarray(w.values, np.float64)
        zeros, kept = Column(np.where(some, given, 0.0), "array"), np.flatnonzero(some)
        try:
            found = answers(fit(x, y, a, zeros), x, a)
        except Refused:
            return
        call.settle()
        fewer = fit(
            x.take(kept), y.take(kept), None if a is None else a.take(kept), zeros.take(kept)
        )
        agree(answers(fewer, x, a), found, "leaving out rows of weight 0")
    if law == "saved":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.equipoise"
            call(model.save, path)
            agree(answers(call(load, path), x, a), first, "saving and loading", tolerance=0.0)
            _refuse_damaged(draw, path)
    if law == "new rows" and not needs:
        call.settled = False
        x = draw.notes["new X"] = new_rows(draw, x)
        answers(model, x, a)


def _refuse_damaged(draw: Draw, path: Path) -> None:
    """A model file of which one byte differs, or some are lacking, is refused in words."""
    content = bytearray(path.read_bytes())
    place = draw.whole(0, len(content) - 1)
    if draw.chance(0.5):
        content[place] ^= 1 << draw.whole(0, 7)
    else:
        del content[place:]
    path.write_bytes(content)
    try:
        load(path)
    except InputError:
        return
    raise Nonsense("a damaged file was loaded")


def _one_type(column: Any) -> bool:
    """Whether every kind of frame holds a column as it is; polars makes text of NaN in text."""
    return column.dtype.kind in "fb" or all(v is None or isinstance(v, str) for v in column)


def _labels(model: Any, values: Any) -> Any:
    """Text labels in the order of the classes."""
    place = {label: i for i, label in enumerate(np.asarray(model.classes_).tolist())}
    return np.array([f"class {place[value]:03d}" for value in values.tolist()], dtype=object)


def full_batch_entry(draw: Draw, call: Call) -> None:
    """Plain gradient steps on all rows at once, where neither order nor repetition matters."""
    n = draw.rows(6, 20)
    regression = draw.chance(0.5)
    kind = equipoise.FairRegressor if regression else equipoise.FairClassifier
    options = {"strength": 0.0, "hidden": (4,), "optimizer": "sgd", "iterations": 3,
               "batch_size": 10_000, "random_state": draw.whole(0, 99), "device": "cpu",
               "embedding": "none", "scaling": draw.pick(("minmax", "none")),
               # The ridge penalty at the start counts rows.
               "linear_path": False,
               "learning_rate": 0.01, "members": 1, "early_stopping": None}  # fmt: skip
    count = draw.whole(1, 3)
    values = tuple(draw.random.standard_normal(n).round(3) for _ in range(count))
    x = Table(values, tuple(f"x{i}" for i in range(count)), "pandas", n)
    y = Column(numbers(draw, n), "array") if regression else classes(draw, n)
    w = Column(draw.random.integers(1, 4, n).astype(np.float64), "array")
    draw.notes.update(estimator=kind.__name__, options=options, X=x, y=y, weights=w)

    def answers(rows: Any, w: Column | None) -> Any:
        model = kind(**options)
        given = None if w is None else w.take(rows)
        call(model.fit, x.take(rows), y.take(rows), sample_weight=given)
        return model.predict(x.data) if regression else model.predict_proba(x.data)

    everyone = np.arange(n)
    first = answers(everyone, w)
    call.settle()
    order = draw.random.permutation(n)
    agree(answers(order, w), first, "another order of rows", tolerance=1e-4)
    repeated = np.repeat(everyone, w.values.astype(int))
    agree(answers(repeated, None), first, "repeating rows, not weighing", tolerance=1e-4)


def plain_trees_entry(draw: Draw, call: Call) -> None:
    """Trees at strength 0, on which the order of rows has no bearing, nor rows of weight 0.

    LightGBM itself grows other trees on repeated rows than on weighted ones.
    """
    n = draw.rows(12, 40)
    regression = draw.chance(0.5)
    kind = equipoise.FairBoostingRegressor if regression else equipoise.FairBoostingClassifier
    single = {
        "min_data_in_leaf": 1,
        "min_data_in_bin": 1,
        "num_leaves": 3,
        "min_sum_hessian_in_leaf": 0.0,
    }
    options = {"strength": 0.0, "rounds": 2, "lightgbm": single, "random_state": draw.whole(0, 99),
               "members": 1, "early_stopping": None}  # fmt: skip
    count = draw.whole(1, 3)
    values = tuple(draw.random.standard_normal(n).round(3) for _ in range(count))
    x = Table(values, tuple(f"x{i}" for i in range(count)), "pandas", n)
    y = outcomes(draw, n) if regression else classes(draw, n)
    w = Column(draw.random.integers(0, 4, n).astype(np.float64), "array")
    draw.notes.update(estimator=kind.__name__, options=options, X=x, y=y, weights=w)

    def answers(rows: Any, w: Column | None) -> Any:
        model = kind(**options)
        given = None if w is None else w.take(rows)
        call(model.fit, x.take(rows), y.take(rows), sample_weight=given)
        return model.predict(x.data) if regression else model.predict_proba(x.data)

    everyone = np.arange(n)
    first = answers(everyone, w)
    must(np.isfinite(first).all(), "an answer that is not finite")
    call.settle()
    order = draw.random.permutation(n)
    agree(answers(order, w), first, "another order of rows", tolerance=1e-4)
    kept = np.flatnonzero(w.values > 0)
    agree(answers(kept, w), first, "leaving out rows of weight 0", tolerance=1e-9)


# --------------------------------------------------------------------------------------- frontier


_FAMILIES = (("",), ("",), ("Boosting",), ("", "Boosting"))


def frontier_entry(draw: Draw, call: Call) -> None:
    draw.calm()
    # Enough that groups of the rows that pick have 30 rows, mostly.
    n = draw.rows(*draw.pick(((40, 80), (200, 400), (200, 400))))
    kind = equipoise.FairFrontier
    regression = draw.chance(0.3)
    task = "Regressor" if regression else "Classifier"
    kinds = [getattr(equipoise, f"Fair{each}{task}") for each in draw.pick(_FAMILIES)]
    decided = ("estimator", "strength", "random_state", "verbose", "early_stopping", "members")
    names = {name for each in (*kinds, kind) for name in _names(each)} - set(decided)
    changed, wrong = options_for(draw, sorted(names))
    models = []
    for each in kinds:
        mine = {name: changed[name] for name in _names(each) if name in changed}
        small = _tiny(each, draw) | {"random_state": None, "iterations": 3, "rounds": 2}
        small = {name: value for name, value in small.items() if name in _names(each)}
        models.append(each(**{**_read_by(mine.get("method"), small), **mine}))
    own = {name: changed[name] for name in _names(kind) if name in changed}
    options = {"strengths": (0.0, 0.5), "seeds": 1, "evaluate_every": 1, **own}
    options["random_state"] = draw.whole(0, 99)
    x, a, w = features(draw, n), attributes(draw, n, most=2), weights(draw, n)
    y = outcomes(draw, n) if regression else classes(draw, n, most=2)
    if wrong is None and any(pd.isna(column).any() for column in a.columns):
        for each in models:
            each.set_params(missing_sensitive="skip")
    draw.notes.update(options=options, estimators=models, X=x, y=y, A=a, weights=w)
    model = kind(models if len(models) > 1 else models[0], **options)
    call(model.fit, x, y, sensitive_features=a, sample_weight=w, names_=changed)
    must(wrong is None, f"{wrong}={changed.get(wrong or '')!r} was accepted")
    table = model.table()
    must(np.isfinite(table.utility).all(), "a utility that is not finite")
    must(
        not np.isinf(table.select_dtypes("number").to_numpy(float)[:, 6:]).any(), "infinite values"
    )
    wishes: dict[str, Any] = {"min_utility": -1e9}
    if draw.chance(0.5):
        wishes["max_unfairness"] = draw.pick((1e9, 1e9, 1e9, 0.5, None))
    else:
        wishes["max_gap"] = draw.pick((1.0, 1.0, 1.0, 0.2, None))
    if draw.odd():
        name = draw.pick(tuple(wishes))
        wishes[name] = draw.pick((-float("inf"), float("nan"), "x", (1,), {"none such": 1.0}))
    draw.notes.update(wishes)
    words = ("snapshot", "max_gap", "max_unfairness", "min_utility", "metric")
    chosen = call(model.select, draws=2, allow_useless=True, names_=words, **wishes)
    must(len(str(chosen)) > 50, "nothing is said")
    needs = changed.get("method") == "scutari" or changed.get("sensitive_at_prediction")
    extra = {"sensitive_features": a} if needs else {}
    found = call(chosen.model.predict if regression else chosen.model.predict_proba, x, **extra)
    must(np.isfinite(found).all() and len(found) == n, "an answer that is not finite")
    if draw.chance(0.2):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "frontier.equipoise"
            call(model.save, path, include_test_rows=draw.chance(0.5))
            again = call(load, path)
            agree(again.table().utility, table.utility, "saving and loading", tolerance=0.0)


# --------------------------------------------------------------------------------------- datasets


def dataset_entry(draw: Draw, call: Call) -> None:
    if draw.chance(0.5):
        options: dict[str, Any] = {
            "name": draw.pick(("synthetic", "crime", "adult", "nope", None, 3, ""))
        }
        if draw.chance(0.4):
            options["preprocessing"] = draw.pick(("default", "paper", "other", None, 3))
        if draw.chance(0.4):
            options["part"] = draw.pick(("train", "test", "all", "other", 3, ("train",)))
        if draw.chance(0.2):
            options["path"] = draw.pick(("nowhere", 3, "", b"x"))
        if options["name"] == "adult" and draw.chance(0.9):
            options["part"] = draw.pick(("other", 3))
        draw.notes.update(options)
        found = call(load_dataset, **options)
    else:
        names = list(inspect.signature(make_synthetic).parameters)
        options = {name: draw.pick((0, 1, 3, 0.5, -1, float("nan"), "x", None, 100, "discrete",
                                    "continuous", "binary", 10**30))
                   for name in names if draw.chance(0.25)}  # fmt: skip
        options.setdefault("n", 50)
        draw.notes.update(options)
        found = call(make_synthetic, **options)
    must(len(found.X) == len(found.y) == len(found.A), "lengths differ")
    must(not pd.isna(found.y).any(), "outcomes are missing")


# ----------------------------------------------------------------------------------- command line


def command_entry(draw: Draw, call: Call) -> None:
    """fit, audit or predict on a file that was written for it; exit code 2 is a foreign error."""
    draw.calm()
    n = draw.rows(40, 80)
    x, a = features(draw, n), attributes(draw, n, most=2)
    if draw.chance(0.8):
        x, a = (
            t.rename([f"{s}{i}" for i in range(len(t.columns))]) for s, t in (("x", x), ("a", a))
        )
    regression = draw.chance(0.3)
    y = (outcomes if regression else classes)(draw, n)
    columns = {f"{name}": c for name, c in zip(x.names, x.columns, strict=True)}
    sensitive = [f"{name}" for name in a.names]
    columns |= dict(zip(sensitive, a.columns, strict=True))
    columns |= {"target": y.values, "score": numbers(draw, n)}
    command = draw.pick(("audit", "audit", "audit", "fit"))
    draw.notes.update(command=command, columns=columns)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        path = _written(draw, columns, n)
        if command == "audit":
            line = ["audit", path, "--score", "score", "--sensitive", ",".join(sensitive)]
            line += ["--target", "target"] if draw.chance(0.7) else []
            line += _flags(draw, ("notion", "threshold", "favourable", "missing-sensitive"))
            if _run(draw, line) != 0:
                raise Refused("the command line refused")
            return
        line = [
            "fit",
            path,
            "--target",
            "target",
            "--sensitive",
            ",".join(sensitive),
            "--out",
            "run",
            "--strengths",
            "0,0.5",
            "--seeds",
            "1",
            "--iterations",
            "2",
            "--evaluate-every",
            "1",
        ]
        line += ["--drop", "score"] if draw.chance(0.5) else []
        line += _flags(draw, ("notion", "task", "missing-sensitive", "method"))
        if _run(draw, line) != 0:
            raise Refused("the command line refused")
        out = draw.pick(("scores.csv", "scores.parquet"))
        if _run(draw, ["predict", "run", path, "--out", out]) != 0:
            raise Nonsense("the run can not score its own file")
        found = pd.read_csv(out) if out.endswith("csv") else pd.read_parquet(out)
        rows = len(read_table(path))  # fewer than n where the end was cut off
        must(len(found) == rows, f"{len(found)} scores of {rows} rows")


def _written(draw: Draw, columns: Mapping[str, Any], n: int) -> str:
    frame = pd.DataFrame(dict(enumerate(columns.values())), index=range(n))
    frame.columns = list(columns)
    path = draw.pick(("data.csv", "data.csv", "data.tsv", "data.parquet"))
    try:
        if path.endswith("parquet"):
            frame.to_parquet(path)
            return path
    except Exception:
        path = "data.csv"
    frame.to_csv(path, index=False, sep="\t" if path.endswith("tsv") else ",")
    if draw.odd():
        content = Path(path).read_bytes()
        cut = draw.whole(0, len(content))
        Path(path).write_bytes(
            content[:cut] + draw.pick((b"", b"\x00", b"\xff\xfe", b'"', b"\r\n,,,,"))
        )
    return path


def _flags(draw: Draw, names: tuple[str, ...]) -> list[str]:
    flags = []
    for name in names:
        right, wrong = OPTIONS[name.replace("-", "_")]
        if draw.chance(0.2):
            value = draw.pick(wrong if draw.odd() else right)
            flags += [f"--{name}", str(value)] if value is not None else []
    return flags


def _run(draw: Draw, line: list[str]) -> int:
    from equipoise.cli import running
    from equipoise.cli.commands import app

    draw.notes["line"] = " ".join(line)
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = running.run(app, line)
    if code == running.INTERNAL_ERROR:
        raise RuntimeError(err.getvalue()[-600:])
    must(code != 1 or "error: " in err.getvalue(), "refused without a word")
    must(code != 0 or out.getvalue().strip(), "answered without a word")
    return code
