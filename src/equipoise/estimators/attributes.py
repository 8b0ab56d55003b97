"""Estimators whose method needs the sensitive features to predict: these are inputs as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.methods import parse_method
from equipoise.tables import AttributeInputs, SensitiveTable

if TYPE_CHECKING:
    from equipoise.estimators.base import FairEstimator

Floats = NDArray[np.float32] | NDArray[np.float64]


def needs_attributes(model: FairEstimator) -> bool:
    """Whether the method needs the sensitive features to predict."""
    return parse_method(model.method).capabilities.needs_attribute


def learned_inputs(model: FairEstimator) -> AttributeInputs:
    """Return what a fitted model makes of sensitive features; nothing where it needs none."""
    return AttributeInputs(getattr(model, "attribute_inputs_", ()))


def n_inputs(model: FairEstimator) -> int:
    """Return the number of inputs of a fitted model's network."""
    return len(model.encoder_.names_) + learned_inputs(model).width


def learn_inputs(model: FairEstimator, x: Floats, table: SensitiveTable | None) -> Floats:
    """Return the inputs (n, n_inputs) that train: features x (n, p), and what a method needs."""
    if not needs_attributes(model):
        return x
    if table is None:
        raise InputError(
            f"sensitive_features is required at any strength for method={model.method!r}, which "
            "needs them to predict: call fit(X, y, sensitive_features=A)"
        )
    inputs = AttributeInputs.of(table)
    model.attribute_inputs_ = inputs.columns
    return np.concatenate([x, inputs.encode(table)], axis=1)


def held_out_inputs(model: FairEstimator, x: Floats, table: SensitiveTable) -> Floats:
    """Return the inputs (n, n_inputs) of rows that do not train."""
    inputs = learned_inputs(model)
    return np.concatenate([x, inputs.encode(table)], axis=1) if inputs.columns else x


def new_inputs(model: FairEstimator, x: Floats, sensitive_features: Any) -> Floats:
    """Return the inputs (n, n_inputs) of new rows with encoded features x (n, p)."""
    inputs = learned_inputs(model)
    if inputs.columns and sensitive_features is None:
        names = ", ".join(column[0] for column in inputs.columns)
        raise InputError(
            f"sensitive_features is required to predict with method={model.method!r}: call "
            f"predict(X, sensitive_features=A) with the columns {names}"
        )
    if not inputs.columns and sensitive_features is not None:
        raise InputError(
            f"sensitive_features must be left out to predict with method={model.method!r}, which "
            "does not look at them"
        )
    if not inputs.columns:
        return x
    return np.concatenate([x, inputs.read(sensitive_features, len(x))], axis=1)
