"""Turns a fitted estimator into plain values and arrays for a file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, TransformerMixin

from equipoise.errors import InputError
from equipoise.estimators.fitting import learned_inputs, n_inputs
from equipoise.networks import NetworkFactory
from equipoise.predictors import predictor_arrays, predictor_in
from equipoise.storage import Contents, from_json, holds, made, to_json
from equipoise.tables import ENCODERS, Encoder, LearnedInput
from equipoise.training import TASKS, Health, History, Task

if TYPE_CHECKING:
    from equipoise.estimators.base import FairEstimator

#: Learned attributes that are plain values, with their types. An estimator has only some of them.
_LEARNED = {
    "n_features_in_": int,
    "feature_names_in_": NDArray[np.object_],
    "sensitive_": str,
    "classes_": NDArray[Any],
    "center_": float,
    "scale_": float,
    "averaged_seeds_": tuple[int, ...],
    "attribute_inputs_": tuple[LearnedInput, ...],
    "attribute_gaps_": tuple[str, ...],
}
#: Begins the names of what the encoder of sensitive features has learned.
_ATTRIBUTE = "attribute."


def contents_of(model: FairEstimator) -> Contents:
    """Return everything a file must hold about a fitted estimator; never a user's own code."""
    shell = shell_of(model, own_network=model.predictor_.network.of_user)
    document = {
        **shell.document,
        "task": model.predictor_.task.name,
        "health": written(asdict(model.health_)),
    }
    arrays = {
        **shell.arrays,
        **predictor_arrays(model.predictor_, n_inputs(model)),
        **history_arrays(model.history_),
    }
    return Contents(document, arrays)


def shell_of(model: FairEstimator, *, own_network: bool) -> Contents:
    """Return an estimator without its predictor: options, labels, names and encoding of columns."""
    (name,) = (name for name, kind in ENCODERS.items() if kind is type(model.encoder_))
    document = {
        **options_of(model, own_network=own_network),
        "learned": written({n: getattr(model, n) for n in _LEARNED if hasattr(model, n)}),
    }
    arrays: dict[str, NDArray[Any]] = {}
    for start, encoder in (("", model.encoder_), (_ATTRIBUTE, learned_inputs(model).encoder)):
        if encoder is not None:
            values, parts = encoder.state().parts()
            document[start + name] = written(values)
            arrays |= {start + part: array for part, array in parts.items()}
    return Contents(document, arrays)


def options_of(model: FairEstimator, *, own_network: bool) -> dict[str, Any]:
    """Return the class and the options of an estimator, fitted or not."""
    refuse_foreign_class(type(model))
    parameters = model.get_params(deep=False)
    if own_network:
        del parameters["network"]
    return {
        "class": type(model).__name__,
        "own_network": own_network,
        "parameters": written(parameters),
    }


def refuse_foreign_class(kind: type) -> None:
    """Refuse a class whose code is not in this package."""
    if kind.__module__.partition(".")[0] != "equipoise":
        raise InputError(
            f"save writes the estimators of equipoise, got {kind.__name__}, a class of your own, "
            "whose code a file cannot hold; save the equipoise estimator and wrap it after loading"
        )


def history_arrays(history: History) -> dict[str, NDArray[Any]]:
    """Return a history as arrays by name."""
    return {f"history.{name}": array for name, array in vars(history).items()}


def history_in(arrays: Mapping[str, NDArray[Any]]) -> History:
    """Return the history that `history_arrays` wrote."""
    history = made(History, {f.name: arrays[f"history.{f.name}"] for f in fields(History)})
    checks, members = history.task.shape
    parts = history.iterations, history.penalty, history.stopped_at
    same = [part.shape for part in parts] == [(checks,), (checks, members), (members,)]
    require(same, "the parts of a history differ in length")
    return history


def needs_network(document: Mapping[str, Any]) -> bool:
    """Whether `load` needs the user's function that builds the network."""
    own: bool = document["own_network"]
    require(isinstance(own, bool), "own_network must be true or false")
    return own


def require(right: bool, rule: str) -> None:
    """Raise unless ``right``: somebody changed the file by hand, and ``load`` quotes the rule."""
    if not right:
        raise ValueError(rule)


def fill(model: FairEstimator, contents: Contents, network: NetworkFactory | None) -> None:
    """Set everything that the saved estimator had learned on a new one."""
    document, arrays = contents.document, contents.arrays
    fill_shell(model, contents)
    require(hasattr(model, "sensitive_"), "sensitive_ is missing")
    model.history_ = history_in(arrays)
    model.health_ = made(Health, read(document["health"]))
    task = TASKS[document["task"]]
    model.predictor_ = predictor_in(arrays, task, n_inputs(model), n_outputs(model, task), network)
    encodes = model.predictor_.encoder is not None
    right = encodes == isinstance(model, TransformerMixin)
    require(right, "an encoder must have a representation, and nothing else may")


def n_outputs(model: FairEstimator, task: Task) -> int | None:
    """Return the number of outputs that the predictor must have; None for any number."""
    if isinstance(model, TransformerMixin):
        return None
    tasks: tuple[str, ...] = ("absolute", "squared", "huber")
    outputs = 1
    if isinstance(model, ClassifierMixin):
        classes = len(model.classes_)
        tasks, outputs = (("binary",), 1) if classes == 2 else (("multiclass",), classes)
    require(task.name in tasks, f"the task {task.name!r} belongs to another estimator")
    return outputs


def fill_shell(model: FairEstimator, contents: Contents) -> None:
    """Set the labels, names and encoding that `shell_of` wrote on a new estimator."""
    learned = read(contents.document["learned"])
    for name, value in learned.items():
        known = name in _LEARNED and holds(value, _LEARNED[name])
        require(known, f"the learned attribute {name!r} is unknown or of a wrong type")
        setattr(model, name, value)
    (name,) = ENCODERS.keys() & contents.document.keys()
    model.encoder_ = _encoder_in(contents, name)
    columns = list(model.encoder_.state().families)
    named = learned.get("feature_names_in_", np.array(columns)).tolist()
    same = model.n_features_in_ == len(columns) and named == columns
    require(same, "the estimator and its encoding must have the same columns")
    if model.sensitive_at_prediction:
        model.attribute_encoder_ = _encoder_in(contents, name, _ATTRIBUTE)
        model.attribute_encoder_.argument = "sensitive_features"
        families = model.attribute_encoder_.state().families
        kinds = {name: kind for name, kind, *_ in learned_inputs(model).columns}
        same = list(families) == list(kinds) and {*model.attribute_gaps_} <= kinds.keys()
        words = {"text": "discrete", "number": "continuous"}
        same &= all(words.get(family) == kinds[name] for name, family in families.items())
        require(same, "the sensitive features and their encoding must have the same columns")
    if isinstance(model, RegressorMixin):
        finite = bool(np.isfinite([model.center_, model.scale_]).all())
        require(finite, "center and scale of the outcome must be finite")


def _encoder_in(contents: Contents, name: str, start: str = "") -> Encoder[Any]:
    """Return the encoder of features, or, by the start of its names, of sensitive features."""
    kind = ENCODERS[name]
    arrays = {
        part.removeprefix(start): array
        for part, array in contents.arrays.items()
        if part.startswith(start)
    }
    values = kind.state_type.fields_in(read(contents.document[start + name]), arrays)
    state = made(kind.state_type, values)
    state.check()
    return kind.from_state(state)


def written(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values as JSON; an error about one of them has its name."""
    return {name: to_json(value, argument=name) for name, value in values.items()}


def read(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that `written` wrote."""
    return {name: from_json(value) for name, value in document.items()}
