"""A fitted estimator as plain values and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.estimators.weights import (
    built_in_predictor,
    has_own_network,
    own_predictor,
    predictor_arrays,
)
from equipoise.features import EncoderState, FeatureEncoder, Levels
from equipoise.recipe import NetworkFactory
from equipoise.storage import Contents, from_json, to_json
from equipoise.training import TASKS, Health, History

if TYPE_CHECKING:
    from equipoise.estimators.base import FairEstimator

#: Learned attributes that are plain values; an estimator has some of them.
_LEARNED = ("n_features_in_", "feature_names_in_", "sensitive_", "classes_", "center_", "scale_")


def contents_of(model: FairEstimator) -> Contents:
    """Return all that makes a fitted estimator what it is, except a user's own code."""
    kind = type(model)
    if kind.__module__.partition(".")[0] != "equipoise":
        raise InputError(
            f"save writes the estimators of equipoise, got {kind.__name__}, a class of your own "
            "whose code a file can not hold; save one of equipoise's and wrap it after loading"
        )
    parameters = model.get_params(deep=False)
    if has_own_network(model.predictor_):
        del parameters["network"]
    encoder = model.encoder_.state()
    document = {
        "class": kind.__name__,
        "task": model.predictor_.task.name,
        "own_network": has_own_network(model.predictor_),
        "parameters": _written(parameters),
        "learned": _written({n: getattr(model, n) for n in _LEARNED if hasattr(model, n)}),
        "health": _written(asdict(model.health_)),
        "encoder": _encoder_document(encoder),
    }
    arrays = {
        **predictor_arrays(model.predictor_, len(model.encoder_.names_)),
        **{f"history.{name}": array for name, array in vars(model.history_).items()},
        **{f"scaler.{name}": array for name, array in encoder.scaler.items()},
        "constant": encoder.constant,
    }
    return Contents(document, arrays)


def parameters_in(contents: Contents) -> dict[str, Any]:
    """Return the options the estimator was made with."""
    return _read(contents.document["parameters"])


def needs_network(contents: Contents) -> bool:
    """Whether the user's function that makes the network is missing from these contents."""
    return bool(contents.document["own_network"])


def fill(model: FairEstimator, contents: Contents, network: NetworkFactory | None) -> None:
    """Give a new estimator everything the fitted one had learned."""
    document, arrays = contents.document, contents.arrays
    for name, value in _read(document["learned"]).items():
        if name not in _LEARNED:
            raise ValueError(f"no estimator learns {name!r}")
        setattr(model, name, value)
    model.history_ = History(**{f.name: arrays[f"history.{f.name}"] for f in fields(History)})
    model.health_ = Health(**_read(document["health"]))
    model.encoder_ = FeatureEncoder.from_state(_encoder_state(document["encoder"], arrays))
    inputs = len(model.encoder_.names_)
    task = TASKS[document["task"]]
    model.predictor_ = (
        built_in_predictor(arrays, task, inputs)
        if network is None
        else own_predictor(arrays, task, inputs, network)
    )


def _encoder_document(state: EncoderState) -> dict[str, Any]:
    levels = {name: (kept.categories, kept.rare) for name, kept in state.levels.items()}
    return _written(
        {
            "scaling": state.scaling,
            "families": state.families,
            "flagged": state.flagged,
            "medians": state.medians,
            "levels": levels,
        }
    )


def _encoder_state(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> EncoderState:
    plain = _read(document)
    levels = {name: Levels(*kept) for name, kept in plain.pop("levels").items()}
    scaler = {
        name.removeprefix("scaler."): array
        for name, array in arrays.items()
        if name.startswith("scaler.")
    }
    return EncoderState(**plain, levels=levels, constant=arrays["constant"], scaler=scaler)


def _written(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: to_json(value, argument=name) for name, value in values.items()}


def _read(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: from_json(value) for name, value in document.items()}
