"""A fitted frontier as plain values and arrays, and back."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.estimators import FairEncoder
from equipoise.estimators.inputs import n_inputs
from equipoise.estimators.loading import Saved, new_estimator
from equipoise.estimators.saving import (
    fill_shell,
    history_arrays,
    history_in,
    n_outputs,
    needs_network,
    options_of,
    read,
    refuse_foreign_class,
    shell_of,
    written,
)
from equipoise.frontier.curve import Curve, Strand, strand_of
from equipoise.frontier.fitting import estimators_of
from equipoise.frontier.rows import HeldOut, Split
from equipoise.frontier.snapshots import UTILITIES, Criteria, Entry, Snapshots, Weights, samples_of
from equipoise.metrics import OutcomeKind, find_metric
from equipoise.networks import NetworkFactory, member_tensors
from equipoise.networks.mlp import check_columns
from equipoise.predictors.registry import predictor_arrays, predictor_in
from equipoise.storage import Contents, from_json, holds, made, to_json
from equipoise.tables import SensitiveColumn, SensitiveTable
from equipoise.training import TASKS, Health

if TYPE_CHECKING:
    from equipoise.frontier.estimator import FairFrontier


Arrays = Mapping[str, NDArray[Any]]
#: Kind of outcome of each task.
OUTCOMES: Mapping[str, OutcomeKind] = {
    **dict.fromkeys(TASKS, "continuous"),
    "binary": "binary",
    "multiclass": "multiclass",
}
#: Arrays of a `Snapshots`, one value for each snapshot.
_PER_SNAPSHOT = ("entry", "iteration", "utility", "threshold", "unfairness")


def contents_of(frontier: FairFrontier, curve: Curve, *, include_test_rows: bool) -> Contents:
    """Return all that a fitted frontier answers from, except a user's own code.

    Of training rows nothing is kept, of validation rows what the table says.
    """
    refuse_foreign_class(type(frontier))
    parameters = frontier.get_params(deep=False)
    given = parameters.pop("estimator")
    own = [_own_network(model) for model in estimators_of(given)]
    if len({id(network) for network in own if network is not None}) > 1:
        raise InputError(
            "estimator must have one network of your own to be saved, got a list with several, "
            "of which load could be given one only; save the models that select returns"
        )
    snapshots = curve.snapshots
    kept = list(snapshots.weights)
    strands = [_strand_contents(strand, curve) for strand in curve.strands]
    test = curve.test if include_test_rows else None
    document = {
        "class": type(frontier).__name__,
        "own_network": any(network is not None for network in own),
        "parameters": written(parameters),
        "listed": isinstance(given, list | tuple),
        "estimators": []
        if given is None
        else [
            options_of(model, own_network=network is not None)
            for model, network in zip(estimators_of(given), own, strict=True)
        ],
        "strands": [strand.document for strand in strands],
        "rest": written(
            {
                "sensitive": curve.sensitive,
                "utility": snapshots.criteria.utility,
                "measures": snapshots.criteria.measures,
                "health": [asdict(curve.health[number]) for number in kept],
                "validation_rows": len(curve.split.validation),
            }
        ),
        "test": None if test is None else rows_document(test),
    }
    arrays = {
        **_under("split", vars(curve.split)),
        **_under("snapshots", {name: getattr(snapshots, name) for name in _PER_SNAPSHOT}),
        "kept": np.array(kept, dtype=np.int64),
    }
    for place, strand in enumerate(strands):
        arrays |= _under(f"strand{place}", strand.arrays)
    if test is not None:
        arrays |= _under("test", rows_arrays(test))
        scores = curve.test_scores(kept)
        assert scores is not None
        arrays |= {f"test_scores.{n}": found for n, found in zip(kept, scores, strict=True)}
    return Contents(document, arrays)


def _strand_contents(strand: Strand, curve: Curve) -> Contents:
    """Return what one family's models are made from."""
    kept = [
        weights
        for number, weights in curve.snapshots.weights.items()
        if curve.owner(number)[0] is strand
    ]
    shell = shell_of(strand.template, own_network=strand.prototype.network.of_user)
    document = {
        "predictor": strand.predictor,
        "task": strand.prototype.task.name,
        "template": shell.document,
        "rest": written(
            {
                "entries": [tuple(vars(entry).values()) for entry in strand.entries],
                "member_health": [asdict(health) for health in strand.member_health],
            }
        ),
    }
    prototype = copy.deepcopy(strand.prototype).double()
    arrays = {
        **_under("template", shell.arrays),
        **_under("prototype", predictor_arrays(prototype, n_inputs(strand.template), kept)),
        **history_arrays(strand.history),
        **_under("kept_weights", _one_after_another(kept)),
    }
    return Contents(document, arrays)


def curve_in(contents: Contents, network: NetworkFactory | None) -> Curve:
    """Return the curve that `contents_of` wrote."""
    document, arrays = contents.document, contents.arrays
    rest = read(document["rest"])
    kept = arrays["kept"].tolist()
    if not holds(tuple(kept), tuple[int, ...]) or len(set(kept)) < len(kept):
        raise ValueError("kept snapshots are numbers, each once")
    criteria = made(Criteria, {"utility": rest["utility"], "measures": tuple(rest["measures"])})
    if not criteria.measures or len(set(criteria.measures)) < len(criteria.measures):
        raise ValueError("measures must be distinct, and at least one")
    for metric in criteria.metrics:
        find_metric(metric)
    split = made(Split, _of("split", arrays))
    if any(positions.ndim != 1 for positions in vars(split).values()):
        raise ValueError("rows of a part have one position each")
    if rest["validation_rows"] != len(split.validation) or not holds(rest["sensitive"], str):
        raise ValueError("what is said of the rows is wrong")
    test = None if document["test"] is None else rows_in(document["test"], _of("test", arrays))
    scores = None
    if test is not None:
        scores = {number: arrays[f"test_scores.{number}"] for number in kept}
        _check_test_rows(test, criteria, list(scores.values()))
    _same_length([kept, rest["health"]])
    healths = [made(Health, health) for health in rest["health"]]
    parts = [
        Contents(each, _of(f"strand{place}", arrays))
        for place, each in enumerate(document["strands"])
    ]
    strands = tuple(_strand_in(part, network) for part in parts)
    if len({strand.predictor for strand in strands}) < len(strands) or not strands:
        raise ValueError("an estimator is there twice, or none")
    outcomes = {OUTCOMES[strand.prototype.task.name] for strand in strands}
    if {UTILITIES[outcome] for outcome in outcomes} != {criteria.utility}:
        raise ValueError("the utility is that of another task")
    if test is not None and {test.outcome} != outcomes:
        raise ValueError("the test rows are of another task")
    return Curve(
        strands=strands,
        snapshots=_snapshots(arrays, criteria, strands, parts, kept),
        health=dict(zip(kept, healths, strict=True)),
        scores=scores,
        split=split,
        sensitive=rest["sensitive"],
        test=test,
    )


def _strand_in(contents: Contents, network: NetworkFactory | None) -> Strand:
    document, arrays = contents.document, contents.arrays
    shell = Contents(document["template"], _of("template", arrays))
    own = network if needs_network(shell.document) else None
    template = new_estimator(shell.document, own)
    if isinstance(template, FairEncoder):
        raise ValueError("the models of a frontier predict")
    fill_shell(template, shell)
    rest = read(document["rest"])
    names = [field.name for field in fields(Entry)]
    entries = tuple(made(Entry, dict(zip(names, entry, strict=True))) for entry in rest["entries"])
    if {entry.predictor for entry in entries} != {document["predictor"]}:
        raise ValueError("the entries of an estimator are not all its own")
    if {entry.family for entry in entries} != {template.family}:
        raise ValueError("the entries of an estimator are of another kind")
    history = history_in(arrays)
    members = len(history.stopped_at)
    _same_length([history.stopped_at, rest["member_health"]])
    for entry in entries:
        if not entry.members or not all(0 <= member < members for member in entry.members):
            raise ValueError("an entry has members that are not there")
        _same_length([entry.members, entry.seeds])
    task = TASKS[document["task"]]
    kept = {name: torch.from_numpy(a.copy()) for name, a in _of("kept_weights", arrays).items()}
    return Strand(
        predictor=document["predictor"],
        entries=entries,
        prototype=predictor_in(
            _of("prototype", arrays),
            task,
            n_inputs(template),
            n_outputs(template, task),
            own,
            [kept] if kept else [],
        ),
        history=history,
        member_health=tuple(made(Health, health) for health in rest["member_health"]),
        template=template,
    )


def _own_network(model: Any) -> NetworkFactory | None:
    return getattr(model, "network", None)


def options_in(contents: Contents, network: NetworkFactory | None) -> dict[str, Any]:
    """Return the options of the frontier, with its estimators."""
    document = contents.document
    options = read(document["parameters"])
    if "estimators" not in document:
        options, estimators, listed = _options_before(options, document["strands"], network)
    else:
        estimators = [new_estimator(each, network) for each in document["estimators"]]
        listed = document["listed"]
    if not estimators:
        return options
    return {**options, "estimator": estimators if listed else estimators[0]}


def _options_before(
    flat: dict[str, Any], strands: Sequence[Mapping[str, Any]], network: NetworkFactory | None
) -> tuple[dict[str, Any], list[Saved], bool]:
    """Read a file of 0.1.0.dev0, whose frontier repeated the options of its estimators."""
    both = flat["predictor"] == "both"
    every = [flat["evaluate_every"], flat["evaluate_every_rounds"]]
    names = ("strengths", "seeds", "ensemble", "metrics", "validation", "test", "random_state")
    options = {name: flat[name] for name in (*names, "verbose")}
    options["evaluate_every"] = every if both else every[flat["predictor"] == "boosting"]
    estimators = []
    for strand in strands:
        estimator = new_estimator(strand["template"], network)
        fresh = type(estimator)().get_params(deep=False)
        decided = {name: fresh[name] for name in ("strength", "random_state", "verbose")}
        estimators.append(estimator.set_params(**decided))
    return options, estimators, both


def _one_after_another(parts: Sequence[Weights]) -> dict[str, NDArray[Any]]:
    """Return the weights of kept snapshots one after the other, members first."""
    return (
        {name: torch.cat([weights[name] for weights in parts]).numpy() for name in parts[0]}
        if parts
        else {}
    )


def _snapshots(
    arrays: Arrays,
    criteria: Criteria,
    strands: Sequence[Strand],
    parts: Sequence[Contents],
    kept: Sequence[int],
) -> Snapshots:
    columns = {name: arrays[f"snapshots.{name}"].copy() for name in _PER_SNAPSHOT}
    count = len(columns["entry"])
    shapes = dict.fromkeys(_PER_SNAPSHOT, (count,))
    if {name: a.shape for name, a in columns.items()} != {
        **shapes,
        "unfairness": (count, len(criteria.measures)),
    }:
        raise ValueError("snapshots, measures and their values differ in number")
    if not all(0 <= number < count for number in kept):
        raise ValueError("a kept snapshot is missing")
    entries = [entry for strand in strands for entry in strand.entries]
    if not set(columns["entry"].tolist()) <= set(range(len(entries))):
        raise ValueError("the entry of a snapshot is missing")
    weights: dict[int, Weights] = {}
    for strand, part in zip(strands, parts, strict=True):
        places = {n: columns["entry"][n] for n in kept}
        mine = [n for n in kept if strand_of(strands, places[n]) is strand]
        found = _of("kept_weights", part.arrays)
        if mine and found.keys() != {name for name, _ in member_tensors(strand.prototype)}:
            raise ValueError("some weights of a kept snapshot are missing")
        sizes = [len(entries[places[n]].members) for n in mine]
        for name, tensor in member_tensors(strand.prototype):
            _check_weights(name, found, tensor, sum(sizes), n_inputs(strand.template))
        split = {
            name: torch.split(torch.from_numpy(array.copy()), sizes)
            for name, array in found.items()
        }
        for place, n in enumerate(mine):
            weights[n] = {name: pieces[place] for name, pieces in split.items()}
    made_of = {**columns, "criteria": criteria, "weights": {}}
    return replace(made(Snapshots, made_of), weights=dict(sorted(weights.items())))


def _check_weights(name: str, found: Arrays, like: Tensor, members: int, inputs: int) -> None:
    """Refuse weights of so many members that do not fit into a stack like this."""
    if not members:
        return
    array = found[name]
    floating = array.dtype.kind == "f" and like.is_floating_point()
    if not floating and torch.from_numpy(array[:0]).dtype != like.dtype:
        raise ValueError(f"weights of a kept snapshot are of type {array.dtype}")
    if array.shape != (members, *like.shape[1:]):
        raise ValueError("weights of a kept snapshot have another shape")
    if name.endswith("layers.0.column"):
        check_columns(torch.from_numpy(array.copy()), inputs)


def _check_test_rows(test: HeldOut, criteria: Criteria, scores: Sequence[NDArray[Any]]) -> None:
    """Refuse test rows that no report can be made of, and scores that are not theirs."""
    if not {attribute for _, attribute in criteria.measures} <= set(test.table.names):
        raise ValueError("a sensitive column of the test rows is missing")
    width = int(test.y.max()) + 1 if test.outcome == "multiclass" else 1
    for array in scores:
        if array.shape != (len(test), width) or not holds(array, NDArray[np.float64]):
            raise ValueError("scores must be those of the test rows")
    samples_of(test)


def _under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _of(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(f"{prefix}."): array
        for name, array in arrays.items()
        if name.startswith(f"{prefix}.")
    }


def _same_length(parts: list[Any]) -> None:
    if len({len(part) for part in parts}) > 1:
        raise ValueError("parts that belong together differ in length")


_PER_ROW = ("codes", "values", "scores")


def rows_document(rows: HeldOut) -> dict[str, Any]:
    """Return what is no array: kinds, and the columns by name with their categories."""
    columns = [
        (column.name, column.kind, column.rule, tuple(map(_plain, column.categories)))
        for column in rows.table.columns
    ]
    return {
        "part": rows.part,
        "outcome": rows.outcome,
        "columns": to_json(columns, argument="sensitive_features"),
    }


def rows_arrays(rows: HeldOut) -> dict[str, NDArray[Any]]:
    """Return arrays by name, each with the n rows first."""
    arrays = {"y": rows.y}
    if rows.weights is not None:
        arrays["weights"] = rows.weights
    for number, column in enumerate(rows.table.columns):
        for name in _PER_ROW:
            values = getattr(column, name)
            if values is not None:
                arrays[f"{name}.{number}"] = values
    return arrays


def rows_in(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> HeldOut:
    """Return the rows that `rows_document` and `rows_arrays` wrote."""
    if len({len(array) for array in arrays.values()}) > 1:
        raise ValueError("columns of rows differ in length")
    y, weights = arrays["y"], arrays.get("weights")
    columns = []
    for number, (name, kind, rule, categories) in enumerate(from_json(document["columns"])):
        codes, values, scores = (arrays.get(f"{part}.{number}") for part in _PER_ROW)
        found = (name, kind, rule, codes, categories, values, scores)
        names = (field.name for field in fields(SensitiveColumn))
        column = made(SensitiveColumn, dict(zip(names, found, strict=True)))
        if (kind == "discrete") != (codes is not None) or (codes is None) != (values is not None):
            raise ValueError(f"column {name!r} is of another kind than its values")
        if codes is not None and not ((codes >= -1) & (codes < len(categories))).all():
            raise ValueError(f"column {name!r} has a category without a name")
        if {each.shape for each in (codes, values, scores) if each is not None} != {y.shape}:
            raise ValueError(f"column {name!r} has no values")
        columns.append(column)
    if not columns or len({column.name for column in columns}) < len(columns):
        raise ValueError("sensitive columns must have distinct names")
    _check_outcome(document["outcome"], y, weights)
    outcome, table = document["outcome"], SensitiveTable(tuple(columns))
    found_rows = {"part": document["part"], "y": y, "outcome": outcome, "weights": weights}
    return made(HeldOut, {**found_rows, "table": table})


def _check_outcome(outcome: str, y: NDArray[Any], weights: NDArray[Any] | None) -> None:
    """Refuse outcomes (n,) that are not of this kind, and weights that are none."""
    if y.ndim != 1 or not len(y):
        raise ValueError("there must be one outcome for each row")
    if outcome == "continuous" and not (y.dtype == np.float64 and np.isfinite(y).all()):
        raise ValueError("outcomes must be finite numbers")
    if outcome != "continuous":
        classes = np.unique(y)
        whole = y.dtype == np.int64 and np.array_equal(classes, np.arange(len(classes)))
        if not whole or (len(classes) > 2) != (outcome == "multiclass") or len(classes) < 2:
            raise ValueError("outcomes must be numbers of classes, each of them there")
    if weights is not None and (weights.shape != y.shape or not (weights > 0).all()):
        raise ValueError("weights must be positive")
    if weights is not None and not np.isfinite(weights).all():
        raise ValueError("weights must be finite")


def _plain(category: Hashable) -> Any:
    """A category as JSON can hold it; an interval of pandas.cut goes by what it prints."""
    plain = isinstance(category, bool | int | float | str | np.generic)
    return category if plain else str(category)
