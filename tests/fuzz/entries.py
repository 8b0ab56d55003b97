"""One function for every public entry: draw what is handed over, call, and hold to the laws."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

import equipoise
from equipoise import SBPPenalty, SensitiveTable, audit, load, load_dataset
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.inference.bootstrap import bootstrap
from equipoise.inference.certificate import certify
from equipoise.inference.permutation import permutation_test
from equipoise.metrics import (
    METRICS,
    auc,
    dependence,
    group_table,
    intersect,
    leakage,
    mae,
    measure,
    mse,
    outcome_kind,
    prepare,
    r2,
    youden_threshold,
)

from .draw import (
    COLUMN_FORMS,
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


# --------------------------------------------------------------------------------------- metrics


def scores_of(draw: Draw, n: int) -> Column:
    values = strange(draw, n) if draw.odd() else numbers(draw, n)
    if not draw.odd() and draw.chance(0.5):
        values = draw.random.random(n).round(draw.pick((1, 2, 16)))
    form = draw.pick(tuple(COLUMN_FORMS) if draw.odd() else tuple(COLUMN_FORMS)[:8])
    return Column(values, form, draw.index_kind)


def outcome_of(draw: Draw, n: int) -> Column | None:
    return draw.pick((lambda *_: None, classes, classes, outcomes))(draw, n)


def measure_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(8, 60)
    table = attributes(draw, n, most=1)
    scores, y, w = scores_of(draw, n), outcome_of(draw, n), weights(draw, n)
    options = {"threshold": draw.pick(OPTIONS["threshold"][0]) if draw.chance(0.3) else "paper"}
    if draw.odd():
        name = draw.pick(("threshold", "outcome"))
        options[name] = draw.pick(OPTIONS[name][1])
    draw.notes.update(A=table, scores=scores, y=y, weights=w, **options)
    (column, *_) = _read(call, table).columns
    metric = draw.notes["metric"] = _metric_for(draw, column, y)
    if draw.chance(0.9) and not METRICS[metric].weighted if metric in METRICS else False:
        w = draw.notes["weights"] = None

    def value(rows: Any, column: Any, w: Any = w, **changed: Any) -> Any:
        found = call(
            measure,
            metric,
            scores.take(rows),
            column,
            None if y is None else y.take(rows),
            weights=None if w is None else w.take(rows),
            names_=("sensitive_features", "attributes"),
            **{**options, **changed},
        )
        kind = METRICS[metric]
        values = np.asarray(found.values, np.float64)
        must(values.shape == (), f"values of one score have shape {values.shape}")
        must(np.isnan(values) == (found.reasons != (None,)), "undefined without a reason, or both")
        low, high = kind.range
        must(np.isnan(values) or low - 1e-9 <= values <= high + 1e-9, f"{values} is out of range")
        must(not np.isinf(values), "the value is infinite")
        return values

    everyone = np.arange(n)
    first = value(everyone, column)
    call.settle()
    whole = _is_whole(w)
    laws = ["members"]
    # Where weights are fractions, sums in another order may tell tied thresholds apart.
    laws += ["rows", "names"] if whole or "youden" not in str(options) else []
    if METRICS[metric].weighted and w is not None and whole:
        laws += ["duplicates", "duplicates"]
    if METRICS[metric].weighted and w is not None and column.kind == "discrete":
        laws += ["scale"] if y is None or len(np.unique(y.values.astype(str))) < 10 else []
    law = draw.pick(laws)
    draw.notes["law"] = law
    if law == "members":
        row = np.asarray(scores.data, np.float64).reshape(n)
        both = call(measure, metric, draw.pick((np.stack, _stacked))([row[::-1], row]), column,
                    y, weights=w, **options)  # fmt: skip
        agree(np.asarray(both.values)[..., 1], first, "a second score beside it")
    if law == "rows":
        order = draw.random.permutation(n)
        agree(value(order, column.take(order)), first, "another order of rows")
    if law == "names":
        renamed = _relabelled(draw, column)
        agree(value(everyone, renamed), first, "other names of levels", tolerance=1e-7)
    if law == "duplicates":
        assert w is not None
        repeated = np.repeat(everyone, w.values.astype(int))
        agree(value(repeated, column.take(repeated), None), first, "repeating rows, not weighing")
    if law == "scale":
        assert w is not None
        factor = float(draw.pick((2, 4, 2.0**20)))
        agree(value(everyone, column, w.map(lambda v: v * factor)), first, "weights times a number")


def _stacked(scores: list[Any]) -> torch.Tensor:
    return torch.from_numpy(np.stack(scores))


def _relabelled(draw: Draw, column: Any) -> Any:
    """The same column under another name, its levels under other names in another order."""
    if column.codes is None:
        data = {"another": column.values}
        return SensitiveTable.from_data(data, types={"another": "continuous"}, missing="skip")[
            "another"
        ]
    count = len(column.categories)
    names = np.array([f"level {i}" for i in draw.random.permutation(count)] + [None], dtype=object)
    return SensitiveTable.from_data({"another": names[column.codes]}, missing="skip")["another"]


def _is_whole(w: Column | None) -> bool:
    """Whether weights are small whole numbers, if any."""
    if w is None:
        return True
    if w.values.dtype.kind != "f" or w.values.ndim != 1:
        return False
    return bool((w.values == np.round(w.values)).all() and w.values.max() < 100)


def _read(call: Call, table: Table) -> SensitiveTable:
    words = ("sensitive_features", "sensitive_types")
    return call(SensitiveTable.from_data, table, missing="skip", names_=words)


def _metric_for(draw: Draw, column: Any, y: Column | None) -> Any:
    """A metric, most often one that is defined for such a column and outcome."""
    if draw.odd():
        return draw.pick(("nope", "", "ks-gsp", "SP "))
    kind = None
    with contextlib.suppress(Exception):
        kind = None if y is None else outcome_kind(y.data)
    fitting = [
        name
        for name, metric in METRICS.items()
        if column.kind in metric.attributes
        and (kind in metric.outcomes or (kind is None and not metric.notion.conditions_on_outcome))
    ]
    return draw.pick(fitting if draw.chance(0.9) else list(METRICS))


def utility_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(2, 60)
    function = draw.pick((auc, youden_threshold, mae, mse, r2))
    scores, w = scores_of(draw, n), weights(draw, n)
    y = (classes if function in (auc, youden_threshold) else outcomes)(draw, n)
    members = draw.whole(0, 3) if draw.chance(0.2) and scores.values.dtype.kind == "f" else None
    draw.notes.update(function=function.__name__, scores=scores, y=y, weights=w, members=members)

    def value(rows: Any, w: Any = w) -> Any:
        s = scores.take(rows)
        if members is not None:
            s = (
                np.stack([s.values * (k + 1) for k in range(members)])
                if members
                else np.ones((0, n))
            )
        found = call(function, s, y.take(rows), weights=None if w is None else w.take(rows))
        found = np.asarray(found, np.float64)
        must(found.shape == (() if members is None else (members,)), f"shape {found.shape}")
        if function is auc:
            must(((found >= -1e-9) & (found <= 1 + 1e-9)).all(), f"AUC of {found}")
        must(np.isfinite(found).all(), f"{function.__name__} is {found}")
        return found

    everyone = np.arange(n)
    first = value(everyone)
    call.settle()
    tolerance = 1e-9 if function is not r2 else 1e-6
    whole = _is_whole(w)
    if function is not youden_threshold or whole:
        order = draw.random.permutation(n)
        agree(value(order), first, "another order of rows", tolerance=tolerance)
    if w is not None and whole:
        repeated = np.repeat(everyone, w.values.astype(int))
        agree(value(repeated, None), first, "repeating rows, not weighing", tolerance=tolerance)


def dependence_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(16, 60)
    function = draw.pick(
        (
            dependence.generalised_demographic_parity,
            dependence.maximal_correlation,
            dependence.distance_correlation,
            dependence.hilbert_schmidt,
            certify,
            permutation_test,
            leakage,
        )
    )
    if function is leakage:
        n = draw.whole(90, 140)
    table, scores, y = attributes(draw, n), scores_of(draw, n), outcome_of(draw, n)
    draw.notes.update(function=function.__name__, A=table, scores=scores, y=y)
    read = _read(call, table)
    extra: dict[str, Any] = {}
    if function is permutation_test:
        extra["permutations"] = 9
    if function is leakage:
        extra["iterations"] = 2

    def value(rows: Any, read: Any) -> Any:
        subject = read.columns[0] if function is certify else read
        outcome = None if y is None else y.take(rows)
        return call(function, scores.take(rows), subject, y=outcome,
                    names_=("sensitive_features",), **extra)  # fmt: skip

    first = value(np.arange(n), read)
    call.settle()
    if function is certify:
        must(np.isfinite(first.upper) and first.upper >= 0, f"a certificate of {first.upper}")
    elif function is permutation_test:
        must(0 < first.p_value <= 1, f"a p-value of {first.p_value}")
    elif function is leakage:
        must(np.isfinite(first.bits) and np.isfinite(first.standard_error), f"{first}")
    else:
        most = np.inf if function is dependence.generalised_demographic_parity else 1 + 1e-9
        must(-1e-9 <= first.value <= most and np.isfinite(first.value), f"a value of {first.value}")
        order = draw.random.permutation(n)
        agree(
            value(order, read.take(order)).value,
            first.value,
            "another order of rows",
            tolerance=1e-6,
        )
        turned = SensitiveTable(tuple(_relabelled(draw, column) for column in read.columns[::-1]))
        agree(
            value(np.arange(n), turned).value,
            first.value,
            "another order of columns",
            tolerance=1e-6,
        )


def groups_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(6, 60)
    table, scores, y, w = (
        attributes(draw, n),
        scores_of(draw, n),
        outcome_of(draw, n),
        weights(draw, n),
    )
    draw.notes.update(A=table, scores=scores, y=y, weights=w)
    read = _read(call, table)
    scored = call(prepare, scores, y, weights=w)
    order = draw.random.permutation(n)
    again = prepare(*(None if v is None else v.take(order).data for v in (scores, y)),
                    weights=None if w is None else w.take(order).data)  # fmt: skip
    column = read.columns[0]
    rows = call(group_table, scored, column, names_=("sensitive_features", "scores", "y"))
    agree(sum(row.share for row in rows), 1.0, "adding up shares")
    for row in rows:
        for rate in (row.decision_rate, row.outcome_rate):
            must(rate is None or -1e-9 <= rate <= 1 + 1e-9, f"a rate of {rate}")
        must(np.isfinite(row.mean_score), f"a mean score of {row.mean_score}")
    moved = group_table(again, column.take(order))
    agree([r.mean_score for r in moved], [r.mean_score for r in rows], "another order of rows")
    if len(read.columns) > 1:
        crossed = call(intersect, read.columns, names_=("columns",))
        must(sum(crossed.sizes.values()) == int(read.known.sum()), "combinations lose rows")


def bootstrap_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(8, 40)
    table, scores, y = attributes(draw, n, most=1), scores_of(draw, n), outcome_of(draw, n)
    options, wrong = options_for(draw, ("draws", "level"))
    draw.notes.update(A=table, scores=scores, y=y, **options)
    (column, *_) = _read(call, table).columns
    options = {"draws": 5, **options}
    metric = draw.notes["metric"] = _metric_for(draw, column, y)
    found = call(
        bootstrap, [metric], scores, [column], y, names_=("sensitive_features",), **options
    )
    must(wrong is None, f"{wrong}={options.get(wrong or '')!r} was accepted")
    (found,) = found
    ordered = np.isnan(found.value) or np.isnan(found.low) or found.low <= found.high
    must(ordered, f"an interval from {found.low} to {found.high}")


# ----------------------------------------------------------------------------------------- tables


def table_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(2, 60)
    table = attributes(draw, n, most=4)
    options: dict[str, Any] = {"missing": draw.pick(("error", "skip"))}
    if draw.odd():
        options["types"] = draw.pick(OPTIONS["sensitive_types"][1])
    if draw.odd():
        options["n_rows"] = n + 1
    draw.notes.update(A=table, **options)
    words = ("sensitive_features", "sensitive_types", "missing_sensitive")
    found = call(SensitiveTable.from_data, table, names_=words, **options)
    call.settle()
    must("n_rows" not in options and "types" not in options, "a wrong option was accepted")
    must(found.n_rows == n, "rows are lost")
    single = table.form.startswith("first")
    must(len(found.columns) == (1 if single else len(table.columns)), "columns are lost")
    encoded = found.encode()
    must(np.isfinite(encoded).all() and len(encoded) == n, "the encoding is not finite")
    must(encoded.shape[1] == len(found.encoded_names()), "encoded columns without names")
    must(str(found).count("\n") >= len(found.columns), "columns are not described")
    order = draw.random.permutation(n)
    moved = call(SensitiveTable.from_data, table.take(order), **options)
    agree(moved.encode(), encoded[order], "another order of rows", tolerance=1e-6)
    agree(found.take(order).encode(), encoded[order], "taking rows", tolerance=1e-6)
    if found.is_discrete:
        call.settled = False
        cells = call(found.cells, names_=("sensitive_features",))
        must(((cells >= 0) == found.known).all(), "cells of missing rows, or none of known ones")


# ------------------------------------------------------------------------------------------ audit


AUDIT_OPTIONS = ("notion", "threshold", "outcome", "favourable", "references", "intersections",
                 "level", "draws", "permutations", "candidates", "missing_sensitive",
                 "sensitive_types")  # fmt: skip


def audit_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(8, 50)
    table, scores, y = attributes(draw, n), scores_of(draw, n), outcome_of(draw, n)
    options, wrong = options_for(draw, AUDIT_OPTIONS, changes=3)
    if y is not None and y.values.dtype.kind == "O" and not draw.odd():
        options["positive"] = y.values[0]
    options = {"draws": 3, "permutations": 2, **options}
    draw.notes.update(A=table, scores=scores, y=y, **options)

    def rows(table: Table, order: Any) -> Any:
        outcome = None if y is None else y.take(order)
        return call(audit, scores.take(order), outcome, table.take(order), **options)

    everyone = np.arange(n)
    first = rows(table, everyone)
    call.settle()
    must(wrong is None, f"{wrong}={options.get(wrong or '')!r} was accepted")
    frame = first.to_frame()
    _check_audit(frame)
    json.loads(first.to_json())
    must(len(str(first)) > 50, "nothing is said")
    if draw.chance(0.1):
        must(first.to_html().startswith("<!"), "no page")
    if draw.chance(0.5):
        order = draw.random.permutation(n)
        again = rows(table, order).to_frame()
        # The rows that a certificate sets aside depend on the order of arrival.
        for column in ("value", "low", "high", "p_value"):
            agree(again[column], frame[column], f"another order of rows ({column})", tolerance=1e-7)
    elif len(first.attributes) > 1:
        turned = table.order(range(len(table.columns))[::-1])
        again = rows(turned, everyone).to_frame()
        for name in first.attributes if table.named else ():
            old, new = (each[each.attribute == name] for each in (frame, again))
            agree(new.value, old.value, f"another order of columns ({name})", tolerance=1e-7)


def _check_audit(frame: pd.DataFrame) -> None:
    must(not np.isinf(frame[["value", "low", "high", "p_value"]].to_numpy(float)).any(), "infinite")
    undefined = frame.value.isna()
    said = (frame.reason != "") | (frame.n == 0)
    must(
        said[undefined].all(),
        f"undefined without a reason: {frame[undefined & ~said][:1].to_dict()}",
    )
    must(((frame.p_value > 0) & (frame.p_value <= 1) | frame.p_value.isna()).all(), "p-values")
    for row in frame.itertuples():
        if row.metric in METRICS and not np.isnan(row.value):
            low, high = METRICS[row.metric].range
            must(low - 1e-9 <= row.value <= high + 1e-9, f"{row.metric} of {row.value}")
        if not np.isnan(row.low) and not np.isnan(row.high):
            must(row.low <= row.high, f"an interval from {row.low} to {row.high}")


# ---------------------------------------------------------------------------------------- penalty


PENALTY_OPTIONS = (
    "notion",
    "divergence",
    "density_ratio",
    "hidden",
    "steps",
    "normalization",
    "gradient_penalty",
    "optimizer",
    "learning_rate",
    "momentum",
    "random_state",
)


def penalty_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(4, 40)
    options, wrong = options_for(draw, PENALTY_OPTIONS)
    if wrong != "density_ratio" and options.get("density_ratio") not in (None, "network", "none"):
        del options["density_ratio"]
    if wrong != "random_state" and options.get("random_state", 0) is None:
        del options["random_state"]
    options = {"hidden": (4,), **options}
    draw.notes.update(options)
    penalty = call(SBPPenalty, **options)
    dtype = draw.pick((torch.float32, torch.float64))

    def tensor(name: str, width: int) -> Any:
        if draw.odd():
            values: Any = draw.pick((numbers, strange, strange))(draw, n)
            column = Column(values, draw.pick(tuple(COLUMN_FORMS)))
            draw.notes[name] = column
            return column
        shape = (n,) if width == 0 else (n, width)
        values = torch.from_numpy(draw.random.standard_normal(shape)).to(dtype)
        draw.notes[name] = values
        return values

    score = tensor("score", draw.pick((0, 0, 1, 3)))
    if isinstance(score, torch.Tensor) and not draw.odd():
        score.requires_grad_()
    a = tensor("a", draw.pick((0, 1, 4)))
    separation = options.get("notion") == "separation"
    y = tensor("y", draw.pick((0, 0, 2))) if separation != draw.odd() else None
    w = None
    if draw.chance(0.3):
        w = weights(draw, n)
        if w is not None and not draw.odd() and w.values.dtype.kind == "f":
            w = torch.from_numpy(w.values).to(draw.pick((dtype, torch.float64)))
        draw.notes["sample_weight"] = w
    if draw.chance(0.2):
        penalty.eval()
    with torch.set_grad_enabled(not draw.chance(0.1)):
        for _ in range(2):
            value = call(
                penalty.forward, score, a, y, sample_weight=w, names_=("score", "a", "y", "batch")
            )
            call.settle()
            must(wrong is None, f"{wrong}={options.get(wrong or '')!r} was accepted")
            must(value.shape == () and bool(value.isfinite()), f"a penalty of {value}")
    if value.requires_grad and score.requires_grad:
        value.backward()
        must(
            score.grad is not None and bool(score.grad.isfinite().all()),
            "the gradient is not finite",
        )


# ------------------------------------------------------------------------------------- estimators


def _names(estimator: type) -> list[str]:
    return list(inspect.signature(estimator).parameters)


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
        options = {**_tiny(kind, draw), **changed}
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
    must(wrong is None, f"{wrong}={options.get(wrong or '')!r} was accepted")
    needs = options.get("method") == "scutari"

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
    part = answers(model, x.take(rows), None if a is None or not needs else a.take(rows)) \
        if not needs else first[rows]  # fmt: skip
    agree(part, first[rows], "predicting other rows along with one", tolerance=1e-9)
    law = draw.pick(LAWS)
    draw.notes["law"] = law
    if globally["draws_globally_"] and law not in ("saved", "new rows"):
        return
    if law == "again":
        agree(answers(fit(x, y, a, w), x, a), first, "fitting again", tolerance=1e-12)
    if law == "names" and not options.get("sensitive_types"):
        renamed = x.rename([f"c{i:03d}" for i in range(len(x.columns))]) if x.named else x
        same = a.rename([f"d{i:03d}" for i in range(len(a.columns))]) if a and a.named else a
        agree(answers(fit(renamed, y, same, w), renamed, same), first, "other names of columns")
    if law == "labels" and hasattr(model, "classes_"):
        again = fit(x, Column(_labels(model, y.values), "array"), a, w)
        agree(answers(again, x, a), first, "other labels in the same order")
    if law == "form" and x.form in FRAME_FORMS:
        other = Table(x.columns, x.names, draw.pick(FRAME_FORMS), n, x.index_kind)
        if all(isinstance(name, str) for name in x.names):
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
               "learning_rate": 0.01}  # fmt: skip
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
    options = {"strength": 0.0, "rounds": 2, "lightgbm": single, "random_state": draw.whole(0, 99)}
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


def frontier_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(40, 80)
    kind = equipoise.FairFrontier
    changed, wrong = options_for(draw, _names(kind))
    options = {
        **_tiny(kind, draw),
        "strengths": (0.0, 0.5),
        "seeds": 1,
        "evaluate_every": 1,
        **changed,
    }
    options["iterations"] = (
        min(options["iterations"], 3) if wrong != "iterations" else options["iterations"]
    )
    if options.get("predictor") == "boosting" and wrong is None:
        options = {
            name: options[name] for name in ("predictor", "strengths", "random_state", "seeds")
        }
    if options.get("predictor") in ("boosting", "both") and wrong is None:
        options["boosting"] = {
            "rounds": 2,
            "critic_hidden": (4,),
            "lightgbm": {"min_data_in_leaf": 2},
        }
        options["evaluate_every_rounds"] = 1
    regression = options.get("task") == "regression"
    x, a, w = features(draw, n), attributes(draw, n, most=2), weights(draw, n)
    y = (outcomes if regression else classes)(draw, n)
    draw.notes.update(options=options, X=x, y=y, A=a, weights=w)
    seed = options.get("random_state")
    globally = {"draws_globally_": not isinstance(seed, int | np.integer)}
    model = kind(**options)
    call(model.fit, x, y, sensitive_features=a, sample_weight=w, **globally)
    must(wrong is None, f"{wrong}={options.get(wrong or '')!r} was accepted")
    table = model.table()
    must(np.isfinite(table.utility).all(), "a utility that is not finite")
    must(
        not np.isinf(table.select_dtypes("number").to_numpy(float)[:, 6:]).any(), "infinite values"
    )
    wishes = {"max_unfairness": draw.pick((1e9, 0.5, 0.0, None, -1, float("nan"), "x")),
              "min_utility": draw.pick((None, None, 0.4, -1e9, float("nan")))}  # fmt: skip
    draw.notes.update(wishes)
    words = ("snapshot", "max_unfairness", "min_utility", "metric")
    chosen = call(model.select, draws=2, names_=words, **wishes)
    must(len(str(chosen)) > 50, "nothing is said")
    extra = {"sensitive_features": a} if options.get("method") == "scutari" else {}
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
    n = draw.rows(40, 80)
    x, a = features(draw, n), attributes(draw, n, most=2)
    regression = draw.chance(0.3)
    y = (outcomes if regression else classes)(draw, n)
    columns = {f"{name}": c for name, c in zip(x.names, x.columns, strict=True)}
    sensitive = [f"{name}" for name in a.names]
    columns |= dict(zip(sensitive, a.columns, strict=True))
    columns |= {"target": y.values, "score": scores_of(draw, n).values}
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
        must(len(found) == n, f"{len(found)} scores of {n} rows")


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
    from equipoise.cli.app import app

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


class Entry(NamedTuple):
    """An entry, its share of the cases of a long run, and how many cases ``make test`` runs."""

    run: Run
    share: float
    tested: int


ENTRIES: Mapping[str, Entry] = {
    "measure": Entry(measure_entry, 22, 400),
    "utility functions": Entry(utility_entry, 9, 400),
    "dependence and inference": Entry(dependence_entry, 9, 150),
    "group_table, intersect": Entry(groups_entry, 6, 150),
    "bootstrap": Entry(bootstrap_entry, 4, 100),
    "SensitiveTable": Entry(table_entry, 12, 250),
    "audit": Entry(audit_entry, 5, 40),
    "SBPPenalty": Entry(penalty_entry, 8, 150),
    "FairClassifier": Entry(estimator_entry("FairClassifier"), 5, 60),
    "FairRegressor": Entry(estimator_entry("FairRegressor"), 5, 60),
    "FairEncoder": Entry(estimator_entry("FairEncoder"), 3, 50),
    "FairBoostingClassifier": Entry(estimator_entry("FairBoostingClassifier"), 4, 40),
    "FairBoostingRegressor": Entry(estimator_entry("FairBoostingRegressor"), 4, 40),
    "fits on all rows at once": Entry(full_batch_entry, 2.5, 25),
    "plain trees": Entry(plain_trees_entry, 2.5, 40),
    "FairFrontier": Entry(frontier_entry, 2.5, 40),
    "load_dataset, make_synthetic": Entry(dataset_entry, 2.5, 100),
    "command line": Entry(command_entry, 2.2, 8),
}
