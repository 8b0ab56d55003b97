"""A fitted frontier as plain values and arrays, and back."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence, Sized
from dataclasses import asdict, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.estimators import (
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairEncoder,
    FairRegressor,
)
from equipoise.estimators.fitting import UTILITIES, n_inputs
from equipoise.estimators.saving import (
    fill,
    fill_shell,
    history_arrays,
    history_in,
    n_outputs,
    needs_network,
    options_of,
    read,
    refuse_foreign_class,
    require,
    shell_of,
    written,
)
from equipoise.frontier.fitting import estimators_of
from equipoise.frontier.judging import Criteria, HeldOut, samples_of
from equipoise.frontier.snapshots import Curve, Entry, Snapshots, Split, Strand
from equipoise.metrics import OutcomeKind, find_metric
from equipoise.networks import NetworkFactory, member_tensors
from equipoise.networks.mlp import check_columns
from equipoise.predictors import Weights, predictor_arrays, predictor_in
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
    models = [] if given is None else estimators_of(given)
    own = [getattr(model, "network", None) for model in models]
    if len({id(network) for network in own if network is not None}) > 1:
        raise InputError(
            "estimator must have one network of your own to be saved, got a list with several, "
            "of which load could be given one only; save the models that select returns"
        )
    snapshots = curve.snapshots
    kept = list(snapshots.weights)
    strands = [_strand_contents(strand, curve) for strand in curve.strands]
    test = _rows_contents(curve.test) if include_test_rows and curve.test is not None else None
    document = {
        "class": type(frontier).__name__,
        "own_network": any(network is not None for network in own),
        "parameters": written(parameters),
        "listed": isinstance(given, list | tuple),
        "estimators": [
            options_of(model, own_network=network is not None)
            for model, network in zip(models, own, strict=True)
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
        "test": None if test is None else test.document,
    }
    arrays = {
        **_under("split", vars(curve.split)),
        **_under("snapshots", {name: getattr(snapshots, name) for name in _PER_SNAPSHOT}),
        "kept": np.array(kept, dtype=np.int64),
    }
    for place, strand in enumerate(strands):
        arrays |= _under(f"strand{place}", strand.arrays)
    if test is not None:
        assert curve.scores is not None
        arrays |= _under("test", test.arrays)
        arrays |= {f"test_scores.{number}": curve.scores[number] for number in kept}
    return Contents(document, arrays)


def _strand_contents(strand: Strand, curve: Curve) -> Contents:
    """Return what the models of one estimator are made from."""
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
    # Weights of kept snapshots one after the other, members first.
    together = {
        name: torch.cat([weights[name] for weights in kept]).numpy()
        for name in (kept[0] if kept else ())
    }
    arrays = {
        **_under("template", shell.arrays),
        **_under("prototype", predictor_arrays(prototype, n_inputs(strand.template), kept)),
        **history_arrays(strand.history),
        **_under("kept_weights", together),
    }
    return Contents(document, arrays)


def curve_in(contents: Contents, network: NetworkFactory | None) -> Curve:
    """Return the curve that `contents_of` wrote."""
    document, arrays = contents.document, contents.arrays
    rest = read(document["rest"])
    kept = arrays["kept"].tolist()
    unique = holds(tuple(kept), tuple[int, ...]) and len(set(kept)) == len(kept)
    require(unique, "kept snapshots are numbers, each once")
    criteria = made(Criteria, {"utility": rest["utility"], "measures": tuple(rest["measures"])})
    measures = criteria.measures
    require(0 < len(measures) == len(set(measures)), "measures must be distinct, and at least one")
    for metric in criteria.metrics:
        find_metric(metric)
    split = made(Split, _of("split", arrays))
    single = all(positions.ndim == 1 for positions in vars(split).values())
    require(single, "rows of a part have one position each")
    told = rest["validation_rows"] == len(split.validation) and holds(rest["sensitive"], str)
    require(told, "what is said of the rows is wrong")
    parts = [
        Contents(each, _of(f"strand{place}", arrays))
        for place, each in enumerate(document["strands"])
    ]
    strands = tuple(_strand_in(part, network) for part in parts)
    named = {strand.predictor for strand in strands}
    require(0 < len(named) == len(strands), "an estimator is there twice, or none")
    outcomes = {OUTCOMES[strand.prototype.task.name] for strand in strands}
    utilities = {UTILITIES[outcome] for outcome in outcomes}
    require(utilities == {criteria.utility}, "the utility is that of another task")
    test = scores = None
    if document["test"] is not None:
        test = _rows_in(document["test"], _of("test", arrays))
        require({test.outcome} == outcomes, "the test rows are of another task")
        scores = {number: arrays[f"test_scores.{number}"] for number in kept}
        _check_test_rows(test, criteria, list(scores.values()))
    healths = [made(Health, health) for health in rest["health"]]
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
    require(not isinstance(template, FairEncoder), "the models of a frontier predict")
    fill_shell(template, shell)
    rest = read(document["rest"])
    names = [field.name for field in fields(Entry)]
    entries = tuple(made(Entry, dict(zip(names, entry, strict=True))) for entry in rest["entries"])
    owners = {(entry.predictor, entry.family) for entry in entries}
    own_entries = owners == {(document["predictor"], template.family)}
    require(own_entries, "the entries of an estimator are not all its own")
    history = history_in(arrays)
    members = len(history.stopped_at)
    _same_length(history.stopped_at, rest["member_health"])
    for entry in entries:
        there = all(0 <= member < members for member in entry.members)
        require(bool(entry.members) and there, "an entry has members that are not there")
        _same_length(entry.members, entry.seeds)
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


def options_in(contents: Contents, network: NetworkFactory | None) -> dict[str, Any]:
    """Return the options of the frontier, with its estimators."""
    document = contents.document
    options = read(document["parameters"])
    if "estimators" not in document:
        return _options_before(options, document["strands"], network)
    estimators = [new_estimator(each, network) for each in document["estimators"]]
    if not estimators:
        return options
    return {**options, "estimator": estimators if document["listed"] else estimators[0]}


def _options_before(
    flat: dict[str, Any], strands: Sequence[Mapping[str, Any]], network: NetworkFactory | None
) -> dict[str, Any]:
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
    return {**options, "estimator": estimators if both else estimators[0]}


def _snapshots(
    arrays: Arrays,
    criteria: Criteria,
    strands: Sequence[Strand],
    parts: Sequence[Contents],
    kept: Sequence[int],
) -> Snapshots:
    columns = {name: arrays[f"snapshots.{name}"].copy() for name in _PER_SNAPSHOT}
    count = len(columns["entry"])
    shapes = dict.fromkeys(_PER_SNAPSHOT, (count,)) | {
        "unfairness": (count, len(criteria.measures))
    }
    fit = {name: array.shape for name, array in columns.items()} == shapes
    require(fit, "snapshots, measures and their values differ in number")
    require(all(0 <= number < count for number in kept), "a kept snapshot is missing")
    entries = [entry for strand in strands for entry in strand.entries]
    known = set(columns["entry"].tolist()) <= set(range(len(entries)))
    require(known, "the entry of a snapshot is missing")
    weights: dict[int, Weights] = {}
    for strand, part in zip(strands, parts, strict=True):
        owners = {n: entries[columns["entry"][n]] for n in kept}
        mine = [n for n, entry in owners.items() if entry.predictor == strand.predictor]
        if not mine:
            continue
        sizes = [len(owners[n].members) for n in mine]
        found = _kept_weights(strand, _of("kept_weights", part.arrays), sum(sizes))
        split = {name: torch.split(tensor, sizes) for name, tensor in found.items()}
        for place, n in enumerate(mine):
            weights[n] = {name: pieces[place] for name, pieces in split.items()}
    made_of = {**columns, "criteria": criteria, "weights": {}}
    return replace(made(Snapshots, made_of), weights=dict(sorted(weights.items())))


def _kept_weights(strand: Strand, found: Arrays, members: int) -> dict[str, Tensor]:
    """Weights of so many members, refused where they do not fit into the stack of the strand."""
    wanted = dict(member_tensors(strand.prototype))
    require(found.keys() == wanted.keys(), "some weights of a kept snapshot are missing")
    tensors = {name: torch.from_numpy(array.copy()) for name, array in found.items()}
    for name, tensor in tensors.items():
        like = wanted[name]
        floating = tensor.is_floating_point() and like.is_floating_point()
        require(
            floating or tensor.dtype == like.dtype,
            f"weights of a kept snapshot are of type {tensor.dtype}",
        )
        fit = tensor.shape == (members, *like.shape[1:])
        require(fit, "weights of a kept snapshot have another shape")
        if name.endswith("layers.0.column"):
            check_columns(tensor, n_inputs(strand.template))
    return tensors


def _check_test_rows(test: HeldOut, criteria: Criteria, scores: Sequence[NDArray[Any]]) -> None:
    """Refuse test rows that no report can be made of, and scores that are not theirs."""
    present = {attribute for _, attribute in criteria.measures} <= set(test.table.names)
    require(present, "a sensitive column of the test rows is missing")
    width = int(test.y.max()) + 1 if test.outcome == "multiclass" else 1
    for array in scores:
        own = array.shape == (len(test), width) and holds(array, NDArray[np.float64])
        require(own, "scores must be those of the test rows")
    samples_of(test)


def _under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _of(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(f"{prefix}."): array
        for name, array in arrays.items()
        if name.startswith(f"{prefix}.")
    }


def _same_length(*parts: Sized) -> None:
    same = len({len(part) for part in parts}) == 1
    require(same, "parts that belong together differ in length")


_PER_ROW = ("codes", "values", "scores")


def _rows_contents(rows: HeldOut) -> Contents:
    """Return kinds, and the columns by name with their categories; arrays have the n rows first."""
    columns = [
        (column.name, column.kind, column.rule, tuple(map(_plain, column.categories)))
        for column in rows.table.columns
    ]
    document = {
        "part": rows.part,
        "outcome": rows.outcome,
        "columns": to_json(columns, argument="sensitive_features"),
    }
    arrays = {"y": rows.y, "weights": rows.weights}
    for number, column in enumerate(rows.table.columns):
        arrays |= {f"{name}.{number}": getattr(column, name) for name in _PER_ROW}
    given = {name: array for name, array in arrays.items() if array is not None}
    return Contents(document, given)


def _rows_in(document: Mapping[str, Any], arrays: Arrays) -> HeldOut:
    """Return the rows that `_rows_contents` wrote."""
    _same_length(*arrays.values())
    y, weights, outcome = arrays["y"], arrays.get("weights"), document["outcome"]
    _check_outcome(outcome, y, weights)
    names = [field.name for field in fields(SensitiveColumn)]
    columns = []
    for number, (name, kind, rule, categories) in enumerate(from_json(document["columns"])):
        codes, values, scores = (arrays.get(f"{part}.{number}") for part in _PER_ROW)
        right = (kind == "discrete") == (codes is not None) == (values is None)
        require(right, f"column {name!r} is of another kind than its values")
        within = codes is None or bool(((codes >= -1) & (codes < len(categories))).all())
        require(within, f"column {name!r} has a category without a name")
        shapes = {each.shape for each in (codes, values, scores) if each is not None}
        require(shapes == {y.shape}, f"column {name!r} has no values")
        found = (name, kind, rule, codes, categories, values, scores)
        columns.append(made(SensitiveColumn, dict(zip(names, found, strict=True))))
    named = {column.name for column in columns}
    require(0 < len(named) == len(columns), "sensitive columns must have distinct names")
    table = SensitiveTable(tuple(columns))
    given = {"part": document["part"], "y": y, "outcome": outcome, "weights": weights}
    return made(HeldOut, {**given, "table": table})


def _check_outcome(outcome: str, y: NDArray[Any], weights: NDArray[Any] | None) -> None:
    """Refuse outcomes (n,) that are not of this kind, and weights that are none."""
    require(y.ndim == 1 and len(y) > 0, "there must be one outcome for each row")
    if outcome == "continuous":
        finite = y.dtype == np.float64 and bool(np.isfinite(y).all())
        require(finite, "outcomes must be finite numbers")
    else:
        classes = np.unique(y)
        whole = y.dtype == np.int64 and np.array_equal(classes, np.arange(len(classes)))
        right = len(classes) > 2 if outcome == "multiclass" else len(classes) == 2
        require(whole and right, "outcomes must be numbers of classes, each of them there")
    if weights is not None:
        positive = weights.shape == y.shape and bool(((weights > 0) & (weights < np.inf)).all())
        require(positive, "weights must be positive and finite")


def _plain(category: Hashable) -> Any:
    """A category as JSON can hold it; an interval of pandas.cut goes by what it prints."""
    plain = isinstance(category, bool | int | float | str | np.generic)
    return category if plain else str(category)


#: Every estimator that a file can hold.
Saved = (
    FairClassifier | FairRegressor | FairBoostingClassifier | FairBoostingRegressor | FairEncoder
)
_CLASSES: dict[str, type[Saved]] = {kind.__name__: kind for kind in get_args(Saved)}


def estimator_in(
    contents: Contents, path: str | PathLike[str], network: NetworkFactory | None
) -> Saved:
    """Return the fitted estimator that a file holds, on the CPU."""
    check_network(contents, path, network)
    model = new_estimator(contents.document, network)
    fill(model, contents, network)
    return model


def new_estimator(document: Mapping[str, Any], network: NetworkFactory | None) -> Saved:
    """Return an estimator of the class and with the options that a file holds, not fitted."""
    options = read(document["parameters"])
    if needs_network(document):
        options["network"] = network
    return _CLASSES[document["class"]](**options)


def check_network(
    contents: Contents, path: str | PathLike[str], network: NetworkFactory | None
) -> None:
    """Refuse a missing function that makes the network, and one that nothing asks for."""
    if needs_network(contents.document) and network is None:
        raise InputError(
            f"network is required for '{path}': the model was fitted with a network of its own, "
            "whose code the file does not hold; call load(path, network=...) with the function "
            "given to network= when it was fitted"
        )
    if network is not None and not needs_network(contents.document):
        raise InputError(
            f"network must be left out for '{path}', whose model has a built-in network, "
            f"got {network!r}"
        )
