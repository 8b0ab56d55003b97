"""A fitted frontier as plain values and arrays, and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.estimators import FairEncoder
from equipoise.estimators.attributes import n_inputs
from equipoise.estimators.contents import (
    fill_shell,
    history_arrays,
    history_in,
    read,
    refuse_foreign_class,
    shell_of,
    written,
)
from equipoise.estimators.loading import new_estimator
from equipoise.estimators.weights import has_own_network, predictor_arrays, predictor_in
from equipoise.frontier.criteria import Criteria
from equipoise.frontier.curve import Curve
from equipoise.frontier.entries import Entry
from equipoise.frontier.evidence import FromFile
from equipoise.frontier.rows import Split
from equipoise.frontier.snapshots import Snapshots, Weights
from equipoise.frontier.stored_rows import rows_arrays, rows_document, rows_in
from equipoise.networks.members import member_tensors
from equipoise.recipe import NetworkFactory
from equipoise.storage import Contents
from equipoise.training import TASKS, Health

if TYPE_CHECKING:
    from equipoise.frontier.estimator import FairFrontier

Arrays = Mapping[str, NDArray[Any]]
#: Arrays of a `Snapshots`, one value for each snapshot.
_PER_SNAPSHOT = ("entry", "iteration", "utility", "threshold", "unfairness")


def contents_of(frontier: FairFrontier, curve: Curve, *, include_test_rows: bool) -> Contents:
    """Return all that a fitted frontier answers from, except a user's own code.

    Of training rows nothing is kept, of validation rows what the table says. Health and test scores
    of kept snapshots are found now, so that the rows they rest on need not be in the file.
    """
    refuse_foreign_class(type(frontier))
    own_network = has_own_network(curve.prototype)
    parameters = frontier.get_params(deep=False)
    if own_network:
        del parameters["network"]
    shell = shell_of(curve.template, own_network=own_network)
    snapshots = curve.snapshots
    kept = list(snapshots.weights)
    models = {number: curve.model(number) for number in kept}
    test = curve.test if include_test_rows else None
    document = {
        "class": type(frontier).__name__,
        "own_network": own_network,
        "task": curve.prototype.task.name,
        "parameters": written(parameters),
        "template": shell.document,
        "rest": written(
            {
                "sensitive": frontier.sensitive_,
                "entries": [tuple(vars(entry).values()) for entry in curve.entries],
                "member_health": [asdict(health) for health in curve.member_health],
                "utility": snapshots.criteria.utility,
                "measures": snapshots.criteria.measures,
                "health": [asdict(models[number].health_) for number in kept],
                "validation_rows": curve.validation_rows,
            }
        ),
        "test": None if test is None else rows_document(test),
    }
    prototype = copy.deepcopy(curve.prototype).double()
    arrays = {
        **_under("template", shell.arrays),
        **_under("prototype", predictor_arrays(prototype, n_inputs(curve.template))),
        **history_arrays(curve.history),
        **_under("split", vars(frontier.split_)),
        **_under("snapshots", {name: getattr(snapshots, name) for name in _PER_SNAPSHOT}),
        "kept": np.array(kept, dtype=np.int64),
        **_under("kept_weights", _joined(snapshots)),
    }
    if test is not None:
        arrays |= _under("test", rows_arrays(test))
        for number in kept:
            scores = curve.evidence.test_scores(number, models[number].predictor_)
            assert scores is not None
            arrays[f"test_scores.{number}"] = scores
    return Contents(document, arrays)


def curve_in(contents: Contents, network: NetworkFactory | None) -> Curve:
    """Return the curve that `contents_of` wrote."""
    document, arrays = contents.document, contents.arrays
    shell = Contents(document["template"], _of("template", arrays))
    template = new_estimator(shell, network)
    if isinstance(template, FairEncoder):
        raise ValueError("the models of a frontier predict")
    fill_shell(template, shell)
    prototype = predictor_in(
        _of("prototype", arrays), TASKS[document["task"]], n_inputs(template), network
    )
    rest = read(document["rest"])
    entries = tuple(Entry(*entry) for entry in rest["entries"])
    kept = arrays["kept"].tolist()
    criteria = Criteria(rest["utility"], tuple(rest["measures"]))
    snapshots = _snapshots(arrays, criteria, entries, kept)
    names = {name for name, _ in member_tensors(prototype)}
    if any(weights.keys() != names for weights in snapshots.weights.values()):
        raise ValueError("some weights of a kept snapshot are missing")
    test = None if document["test"] is None else rows_in(document["test"], _of("test", arrays))
    scores = None
    if test is not None:
        if not {attribute for _, attribute in criteria.measures} <= set(test.table.names):
            raise ValueError("a sensitive column of the test rows is missing")
        scores = {number: arrays[f"test_scores.{number}"] for number in kept}
        _same_length([test.y, *scores.values()])
    history = history_in(arrays)
    _same_length([history.stopped_at, rest["member_health"]])
    _same_length([kept, rest["health"]])
    healths = [Health(**health) for health in rest["health"]]
    return Curve(
        entries=entries,
        prototype=prototype,
        history=history,
        member_health=tuple(Health(**health) for health in rest["member_health"]),
        snapshots=snapshots,
        template=template,
        evidence=FromFile(dict(zip(kept, healths, strict=True)), scores),
        validation_rows=rest["validation_rows"],
        test=test,
    )


def sensitive_in(contents: Contents) -> str:
    """Return how the sensitive columns of all rows were typed, as text."""
    text = read(contents.document["rest"])["sensitive"]
    assert isinstance(text, str)
    return text


def split_in(contents: Contents) -> Split:
    """Return the positions of the rows of each part."""
    return Split(**_of("split", contents.arrays))


def _joined(snapshots: Snapshots) -> dict[str, NDArray[Any]]:
    """Return the weights of all kept snapshots one after the other, members first."""
    parts = list(snapshots.weights.values())
    return (
        {name: torch.cat([weights[name] for weights in parts]).numpy() for name in parts[0]}
        if parts
        else {}
    )


def _snapshots(
    arrays: Arrays, criteria: Criteria, entries: tuple[Entry, ...], kept: list[int]
) -> Snapshots:
    columns = {name: arrays[f"snapshots.{name}"].copy() for name in _PER_SNAPSHOT}
    _same_length(list(columns.values()))
    if columns["unfairness"].shape[1] != len(criteria.measures):
        raise ValueError("measures and their values differ in number")
    sizes = [len(entries[columns["entry"][number]].members) for number in kept]
    joined = {
        name: torch.split(torch.from_numpy(array.copy()), sizes)
        for name, array in _of("kept_weights", arrays).items()
    }
    weights: dict[int, Weights] = {
        number: {name: parts[place] for name, parts in joined.items()}
        for place, number in enumerate(kept)
    }
    return Snapshots(criteria=criteria, **columns, weights=weights)


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
