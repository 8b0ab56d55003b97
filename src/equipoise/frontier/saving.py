"""Turns a fitted frontier into plain values and arrays for a file, and back.

A file calls what it holds about one estimator a "strand".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.estimators import (
    FairAdjuster,
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairEncoder,
    FairRegressor,
)
from equipoise.estimators.fitting import OUTCOMES, UTILITIES, n_inputs
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
from equipoise.frontier.snapshots import Curve, Entry, Snapshots, Split, TrainedEstimator
from equipoise.metrics import find_metric
from equipoise.networks import NetworkFactory, member_tensors
from equipoise.networks.mlp import check_columns
from equipoise.predictors import Weights, predictor_arrays, predictor_in
from equipoise.storage import Contents, from_json, holds, made, to_json
from equipoise.tables import SensitiveColumn, SensitiveTable
from equipoise.training import TASKS, Health

if TYPE_CHECKING:
    from equipoise.frontier.estimator import FairFrontier


Arrays = Mapping[str, NDArray[Any]]
#: Arrays of `Snapshots` with one row for each snapshot.
_PER_SNAPSHOT = ("entry", "iteration", "utility", "threshold", "unfairness")
#: Arrays of `SensitiveColumn` with one value for each row.
_PER_ROW = ("codes", "values", "scores")


def contents_of(frontier: FairFrontier, curve: Curve, *, include_test_rows: bool) -> Contents:
    """Return everything a file must hold about a fitted frontier; never a user's own code.

    It has the test rows if wanted, but no values of training and validation rows.
    """
    refuse_foreign_class(type(frontier))
    parameters = frontier.get_params(deep=False)
    given = parameters.pop("estimator")
    models = [] if given is None else estimators_of(given)
    own = [getattr(model, "network", None) for model in models]
    if len({id(network) for network in own if network is not None}) > 1:
        raise InputError(
            "estimator must have at most one network of your own to be saved, got a list with "
            "several, but load takes only one; save the models that select returns"
        )
    snapshots = curve.snapshots
    kept = list(snapshots.weights)
    strands = [_strand_contents(each, curve) for each in curve.trained]
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
                "chance": curve.chance,
            }
        ),
        "test": None if test is None else test.document,
    }
    arrays = {
        **_add_prefix("split", vars(curve.split)),
        **_add_prefix("snapshots", {name: getattr(snapshots, name) for name in _PER_SNAPSHOT}),
        "kept": np.array(kept, dtype=np.int64),
    }
    for place, strand in enumerate(strands):
        arrays |= _add_prefix(f"strand{place}", strand.arrays)
    if test is not None:
        assert curve.scores is not None
        arrays |= _add_prefix("test", test.arrays)
        arrays |= {f"test_scores.{number}": curve.scores[number] for number in kept}
    return Contents(document, arrays)


def _strand_contents(trained: TrainedEstimator, curve: Curve) -> Contents:
    """Return everything a file must hold about one trained estimator."""
    kept = [
        weights
        for number, weights in curve.snapshots.weights.items()
        if curve.owner(number)[0] is trained
    ]
    shell = shell_of(trained.template, own_network=trained.prototype.network.of_user)
    document = {
        "predictor": trained.name,
        "task": trained.prototype.task.name,
        "template": shell.document,
        "rest": written(
            {
                "entries": [tuple(vars(entry).values()) for entry in trained.entries],
                "member_health": [asdict(health) for health in trained.member_health],
            }
        ),
    }
    prototype = copy.deepcopy(trained.prototype).double()
    # The weights of all kept snapshots are joined along the member axis.
    together = {
        name: torch.cat([weights[name] for weights in kept]).numpy()
        for name in (kept[0] if kept else ())
    }
    arrays = {
        **_add_prefix("template", shell.arrays),
        **_add_prefix("prototype", predictor_arrays(prototype, n_inputs(trained.template), kept)),
        **history_arrays(trained.history),
        **_add_prefix("kept_weights", together),
    }
    return Contents(document, arrays)


def curve_in(contents: Contents, network: NetworkFactory | None) -> Curve:
    """Return the curve that `contents_of` wrote."""
    document, arrays = contents.document, contents.arrays
    rest = read(document["rest"])
    kept = arrays["kept"].tolist()
    criteria = made(Criteria, {"utility": rest["utility"], "measures": tuple(rest["measures"])})
    measures = criteria.measures
    require(0 < len(measures) == len(set(measures)), "measures must be distinct, and at least one")
    for metric in criteria.metrics:
        find_metric(metric)
    split = made(Split, _take_prefix("split", arrays))
    single = all(positions.ndim == 1 for positions in vars(split).values())
    require(single, "positions of rows must have one dimension")
    require(rest["validation_rows"] == len(split.validation), "validation rows differ in number")
    require(holds(rest["sensitive"], str), "sensitive must be text")
    parts = [
        Contents(each, _take_prefix(f"strand{place}", arrays))
        for place, each in enumerate(document["strands"])
    ]
    trained = tuple(_trained_in(part, network) for part in parts)
    names = {each.name for each in trained}
    require(0 < len(names) == len(trained), "there must be estimators, with distinct names")
    # Older versions measured every regressor by R2, whatever its loss, and so it stays.
    outcomes = {OUTCOMES[UTILITIES[each.prototype.task.name]] for each in trained}
    require(outcomes == {criteria.outcome}, "the utility belongs to another task")
    test = scores = None
    if document["test"] is not None:
        test = _rows_in(document["test"], _take_prefix("test", arrays))
        require({test.outcome} == outcomes, "the test rows belong to another task")
        scores = {number: arrays[f"test_scores.{number}"] for number in kept}
        _check_test_rows(test, criteria, list(scores.values()))
    chance = rest.get("chance", -math.inf)  # files of older versions do not hold it
    require(holds(chance, float) and chance < math.inf, "the chance level must be a number")
    healths = [made(Health, health) for health in rest["health"]]
    return Curve(
        trained=trained,
        snapshots=_snapshots(arrays, criteria, trained, parts, kept),
        health=dict(zip(kept, healths, strict=True)),
        scores=scores,
        split=split,
        sensitive=rest["sensitive"],
        test=test,
        chance=chance,
    )


def _trained_in(contents: Contents, network: NetworkFactory | None) -> TrainedEstimator:
    """Return the estimator that `_strand_contents` wrote."""
    document, arrays = contents.document, contents.arrays
    shell = Contents(document["template"], _take_prefix("template", arrays))
    own = network if needs_network(shell.document) else None
    template = new_estimator(shell.document, own)
    require(not isinstance(template, FairEncoder), "a frontier cannot have an encoder")
    fill_shell(template, shell)
    rest = read(document["rest"])
    names = [field.name for field in fields(Entry)]
    entries = tuple(made(Entry, dict(zip(names, entry, strict=True))) for entry in rest["entries"])
    owners = {(entry.predictor, entry.family) for entry in entries}
    own_entries = owners == {(document["predictor"], template.family)}
    require(own_entries, "an entry belongs to another estimator")
    history = history_in(arrays)
    members = len(history.stopped_at)
    require(len(rest["member_health"]) == members, "members and their health differ in number")
    for entry in entries:
        known = all(0 <= member < members for member in entry.members)
        require(bool(entry.members) and known, "an entry has members that do not exist")
        require(len(entry.members) == len(entry.seeds), "members and seeds differ in number")
    task = TASKS[document["task"]]
    kept = _tensors(_take_prefix("kept_weights", arrays))
    return TrainedEstimator(
        name=document["predictor"],
        entries=entries,
        prototype=predictor_in(
            _take_prefix("prototype", arrays),
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
    """Return the options of the frontier, including its estimators."""
    document = contents.document
    options = read(document["parameters"])
    if "estimators" not in document:
        return _options_of_first_version(options, document["strands"], network)
    estimators = [new_estimator(each, network) for each in document["estimators"]]
    if not estimators:
        return options
    return {**options, "estimator": estimators if document["listed"] else estimators[0]}


def _options_of_first_version(
    flat: dict[str, Any], strands: Sequence[Mapping[str, Any]], network: NetworkFactory | None
) -> dict[str, Any]:
    """Read a file from the first versions, whose frontiers had the options of their estimators."""
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
    trained: Sequence[TrainedEstimator],
    parts: Sequence[Contents],
    kept: Sequence[int],
) -> Snapshots:
    """Return the table of snapshots and the weights of those kept."""
    columns = {name: arrays[f"snapshots.{name}"].copy() for name in _PER_SNAPSHOT}
    count = len(columns["entry"])
    shapes = dict.fromkeys(_PER_SNAPSHOT, (count,)) | {
        "unfairness": (count, len(criteria.measures))
    }
    same = {name: array.shape for name, array in columns.items()} == shapes
    require(same, "snapshots, measures and their values differ in number")
    require(all(0 <= number < count for number in kept), "a kept snapshot is missing")
    entries = [entry for each in trained for entry in each.entries]
    known = set(columns["entry"].tolist()) <= set(range(len(entries)))
    require(known, "the entry of a snapshot is missing")
    owners = {number: entries[columns["entry"][number]] for number in kept}
    weights: dict[int, Weights] = {}
    for estimator, part in zip(trained, parts, strict=True):
        own = {n: entry for n, entry in owners.items() if entry.predictor == estimator.name}
        if not own:
            continue
        sizes = [len(entry.members) for entry in own.values()]
        tensors = _tensors(_take_prefix("kept_weights", part.arrays))
        _check_weights(tensors, estimator, sum(sizes))
        split = {name: torch.split(tensor, sizes) for name, tensor in tensors.items()}
        for place, number in enumerate(own):
            weights[number] = {name: pieces[place] for name, pieces in split.items()}
    values = {**columns, "criteria": criteria, "weights": {}}
    return replace(made(Snapshots, values), weights=dict(sorted(weights.items())))


def _check_weights(tensors: Weights, trained: TrainedEstimator, members: int) -> None:
    """Refuse tensors that are not the weights of so many members of an estimator."""
    wanted = dict(member_tensors(trained.prototype))
    require(tensors.keys() == wanted.keys(), "some weights of a kept snapshot are missing")
    for name, tensor in tensors.items():
        like = wanted[name]
        floating = tensor.is_floating_point() and like.is_floating_point()
        same_type = floating or tensor.dtype == like.dtype
        require(same_type, f"weights of a kept snapshot are of type {tensor.dtype}")
        same_shape = tensor.shape == (members, *like.shape[1:])
        require(same_shape, "weights of a kept snapshot have another shape")
        if name.endswith(("layers.0.column", "score_column")):
            check_columns(tensor, n_inputs(trained.template))


def _check_test_rows(test: HeldOut, criteria: Criteria, scores: Sequence[NDArray[Any]]) -> None:
    """Refuse test rows on which no report is possible, and scores that do not fit them."""
    present = {attribute for _, attribute in criteria.measures} <= set(test.table.names)
    require(present, "a sensitive column of the test rows is missing")
    width = int(test.y.max()) + 1 if test.outcome == "multiclass" else 1
    for array in scores:
        fitting = array.shape == (len(test), width) and holds(array, NDArray[np.float64])
        require(fitting, "the scores do not fit the test rows")
    samples_of(test)


def _add_prefix(prefix: str, arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _take_prefix(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names have this prefix, without it."""
    return {
        name.removeprefix(f"{prefix}."): array
        for name, array in arrays.items()
        if name.startswith(f"{prefix}.")
    }


def _tensors(arrays: Arrays) -> dict[str, Tensor]:
    """Return copies as tensors: the memory of a file that was read must not be written to."""
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def _rows_contents(rows: HeldOut) -> Contents:
    """Return everything a file must hold about the test rows."""
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
    y, weights, outcome = arrays["y"], arrays.get("weights"), document["outcome"]
    _check_outcome(outcome, y, weights)
    columns = []
    for number, (name, kind, rule, categories) in enumerate(from_json(document["columns"])):
        codes, values, scores = (arrays.get(f"{part}.{number}") for part in _PER_ROW)
        right = (kind == "discrete") == (codes is not None) == (values is None)
        require(right, f"column {name!r} and its values are of different kinds")
        within = codes is None or bool(((codes >= -1) & (codes < len(categories))).all())
        require(within, f"column {name!r} has a category without a name")
        shapes = {each.shape for each in (codes, values, scores) if each is not None}
        require(shapes == {y.shape}, f"column {name!r} must have one value for each row")
        named = {"name": name, "kind": kind, "rule": rule, "categories": categories}
        per_row = {"codes": codes, "values": values, "scores": scores}
        columns.append(made(SensitiveColumn, {**named, **per_row}))
    distinct = {column.name for column in columns}
    require(0 < len(distinct) == len(columns), "sensitive columns must have distinct names")
    table = SensitiveTable(tuple(columns))
    rest = {"part": document["part"], "y": y, "outcome": outcome, "weights": weights}
    return made(HeldOut, {**rest, "table": table})


def _check_outcome(outcome: str, y: NDArray[Any], weights: NDArray[Any] | None) -> None:
    """Refuse outcomes (n,) that are not of this kind, and weights that are not positive."""
    require(y.ndim == 1 and len(y) > 0, "there must be one outcome for each row")
    if outcome == "continuous":
        finite = y.dtype == np.float64 and bool(np.isfinite(y).all())
        require(finite, "outcomes must be finite numbers")
    else:
        classes = np.unique(y)
        whole = y.dtype == np.int64 and np.array_equal(classes, np.arange(len(classes)))
        right = len(classes) > 2 if outcome == "multiclass" else len(classes) == 2
        require(whole and right, "outcomes must be class numbers, and every class must occur")
    if weights is not None:
        positive = weights.shape == y.shape and bool(((weights > 0) & (weights < np.inf)).all())
        require(positive, "weights must be positive and finite")


def _plain(category: Hashable) -> Any:
    """Return a category that JSON can hold; others, such as an interval of pandas, as text."""
    plain = isinstance(category, bool | int | float | str | np.generic)
    return category if plain else str(category)


#: Every estimator that a file can hold.
Saved = (
    FairAdjuster
    | FairClassifier
    | FairRegressor
    | FairBoostingClassifier
    | FairBoostingRegressor
    | FairEncoder
)
_CLASSES: dict[str, type[Saved]] = {kind.__name__: kind for kind in get_args(Saved)}


def estimator_in(contents: Contents, network: NetworkFactory | None) -> Saved:
    """Return the fitted estimator that a file holds, on the CPU."""
    model = new_estimator(contents.document, network)
    fill(model, contents, network)
    return model


def new_estimator(document: Mapping[str, Any], network: NetworkFactory | None) -> Saved:
    """Return an unfitted estimator of the class and with the options that a file holds."""
    options = read(document["parameters"])
    if needs_network(document):
        options["network"] = network
    return _CLASSES[document["class"]](**options)


def check_network(
    contents: Contents, path: str | PathLike[str], network: NetworkFactory | None
) -> None:
    """Refuse to load without the user's network function if one is needed, or with it if not."""
    if needs_network(contents.document) and network is None:
        raise InputError(
            f"network is required for '{path}', got None: the model was fitted with a network of "
            "your own, whose code the file does not hold; call load(path, network=...) with the "
            "function that was passed to network= when it was fitted"
        )
    if network is not None and not needs_network(contents.document):
        raise InputError(
            f"network must be left out for '{path}', whose model has a built-in network, "
            f"got {network!r}"
        )


def give_model(models: Sequence[Any], estimator: Any, path: str | PathLike[str]) -> None:
    """Give the adjusters among the fitted ``models`` the model whose scores they adjust."""
    adjusters = [each for each in models if hasattr(each, "probe_")]
    if not adjusters:
        raise InputError(
            f"estimator must be left out for '{path}', which holds no FairAdjuster of a model, got "
            f"{type(estimator).__name__}"
        )
    for adjuster in adjusters:
        adjuster.take_model(estimator)
