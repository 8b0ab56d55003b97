"""Entries that assess: metrics, inference, tables of attributes, audit, and the penalty."""

from __future__ import annotations

import contextlib
import inspect
import json
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from equipoise import SBPPenalty, SensitiveTable, audit
from equipoise.inference.bootstrap import bootstrap
from equipoise.inference.certificate import certify
from equipoise.inference.permutation import permutation_test
from equipoise.metrics import (
    METRICS,
    auc,
    dependence,
    intersect,
    mae,
    measure,
    mse,
    outcome_kind,
    r2,
    youden_threshold,
)

from .draw import (
    COLUMN_FORMS,
    Column,
    Draw,
    Table,
    attributes,
    classes,
    numbers,
    outcomes,
    strange,
    weights,
)
from .options import OPTIONS, options_for
from .oracle import Call, agree, must

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
    # The gap judges groups of 30 rows and more.
    n = draw.rows(*draw.pick(((8, 60), (8, 60), (70, 160))))
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
            weights=w if w is None or rows is everyone else w.take(rows),
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
    whole = _is_whole(w, n)
    laws = ["members"]
    # Where weights are fractions, sums in another order may tell tied thresholds apart.
    laws += ["rows", "names"] if whole or "youden" not in str(options) else []
    if METRICS[metric].weighted and w is not None and whole and not METRICS[metric].beyond_chance:
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


def _is_whole(w: Column | None, n: int) -> bool:
    """Whether weights are small whole numbers, if any."""
    if w is None:
        return True
    if w.values.dtype.kind != "f" or w.values.ndim != 1 or len(w.values) != n:
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
        and (kind in metric.outcomes or (kind is None and not metric.needs_outcome))
    ]
    return draw.pick(fitting if draw.chance(0.9) else list(METRICS))


def utility_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(2, 60)
    function = draw.pick((auc, youden_threshold, mae, mse, r2))
    scores, w = scores_of(draw, n), weights(draw, n)
    y = (classes if function in (auc, youden_threshold) else outcomes)(draw, n)
    members = draw.whole(0, 3) if draw.chance(0.2) and scores.values.dtype.kind == "f" else None
    if scores.form in ("one column", "frame"):  # which metrics read as scores of one row each
        scores = replace(scores, form="array")
    if any(isinstance(cell, list) for cell in scores.values.tolist()):
        scores = replace(scores, form="array")  # in a tuple they would be scores of members
    draw.notes.update(function=function.__name__, scores=scores, y=y, weights=w, members=members)

    def value(rows: Any, w: Any = w) -> Any:
        s = scores.take(rows)
        w = w if w is None or rows is everyone else w.take(rows)
        if members is not None:
            s = (
                np.stack([s.values * (k + 1) for k in range(members)])
                if members
                else np.ones((0, n))
            )
        found = call(function, s, y.take(rows), weights=w)
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
    whole = _is_whole(w, n)
    if function is not youden_threshold or whole:
        order = draw.random.permutation(n)
        agree(value(order), first, "another order of rows", tolerance=tolerance)
    if w is not None and whole:
        repeated = np.repeat(everyone, w.values.astype(int))
        agree(value(repeated, None), first, "repeating rows, not weighing", tolerance=tolerance)


def dependence_entry(draw: Draw, call: Call) -> None:
    n = draw.rows(16, 60)
    measures = [partial(dependence.measure_dependence, name) for name in dependence.MEASURES]
    function = draw.pick((*measures, certify, permutation_test))
    table, scores, y = attributes(draw, n), scores_of(draw, n), outcome_of(draw, n)
    draw.notes.update(function=str(function), A=table, scores=scores, y=y)
    read = _read(call, table)
    extra: dict[str, Any] = {}
    if function is permutation_test:
        extra["permutations"] = 9
    wrong = None
    if draw.odd():
        theirs = [name for name in inspect.signature(function).parameters if name in OPTIONS]
        wrong = draw.pick(theirs)
        extra[wrong] = draw.pick(OPTIONS[wrong][1])
        draw.notes.update(extra)

    def value(rows: Any, read: Any) -> Any:
        subject = read.columns[0] if function is certify else read
        outcome = None if y is None else y.take(rows)
        return call(function, scores.take(rows), subject, y=outcome,
                    names_=("sensitive_features",), **extra)  # fmt: skip

    first = value(np.arange(n), read)
    call.settle()
    must(wrong is None or extra[wrong] is None, f"{wrong}={extra.get(wrong or '')!r} was accepted")
    if function is certify:
        must(np.isfinite(first.upper) and first.upper >= 0, f"a certificate of {first.upper}")
    elif function is permutation_test:
        must(0 < first.p <= 1, f"a p-value of {first.p}")
    else:
        most = np.inf if function.args == ("GDP",) else 1 + 1e-9
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
    table = attributes(draw, draw.rows(6, 60))
    draw.notes.update(A=table)
    read = _read(call, table)
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
        bootstrap, [metric], scores, [column], y, names_=("sensitive_features", "metric"), **options
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
    count = 1 if table.form.startswith("first") else len(table.columns)
    count = len(set(table.names)) if table.form == "mapping" else count
    must(len(found.columns) == count, "columns are lost")
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
    if y is not None and y.values.dtype.kind == "O" and n and not draw.odd():
        options["positive"] = y.values[0]
    options = {"draws": 3, "permutations": 2, **options}
    crossed = draw.chance(0.04) and table.form.startswith("pandas") and n > 1
    if crossed:
        other = "range" if table.index_kind == "shuffled" else "shuffled"
        scores = replace(scores, form="pandas", index_kind=other)
    draw.notes.update(A=table, scores=scores, y=y, **options)

    def rows(table: Table, order: Any) -> Any:
        outcome = None if y is None else y.take(order)
        return call(audit, scores.take(order), outcome, table.take(order), **options)

    everyone = np.arange(n)
    first = rows(table, everyone)
    must(not crossed, "scores whose index has another order were accepted")
    call.settle()
    unset = wrong in ("notion", "outcome") and options[wrong] is None
    must(wrong is None or unset, f"{wrong}={options.get(wrong or '')!r} was accepted")
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
    if options.get("normalization") == "spectral":  # wrong for predictors, right for critics
        wrong = None if wrong == "normalization" else wrong
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
    if value.requires_grad and isinstance(score, torch.Tensor) and score.requires_grad:
        value.backward()
        must(
            score.grad is not None and bool(score.grad.isfinite().all()),
            "the gradient is not finite",
        )
