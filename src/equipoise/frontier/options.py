"""What the options of a frontier stand for: members to train, and the estimator they share."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.estimators import FairClassifier, FairRegressor
from equipoise.estimators.base import FairEstimator
from equipoise.training import Member


def read_members(options: Mapping[str, Any], seed: int) -> tuple[Member, ...]:
    """Every strength with every seed: seed, seed + 1, ..."""
    strengths = tuple(options["strengths"])
    if not strengths or len(set(strengths)) < len(strengths):
        raise InputError(
            f"strengths must be distinct numbers, at least one, got {options['strengths']!r}"
        )
    for name in ("seeds", "evaluate_every"):
        value = options[name]
        if not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
    if options["ensemble"] and options["seeds"] < 2:
        raise InputError(
            f"ensemble=True averages over seeds and needs at least 2, got seeds={options['seeds']}"
        )
    return tuple(
        Member(strength, seed + number)
        for number in range(options["seeds"])
        for strength in strengths
    )


def template_of(options: Mapping[str, Any], seed: int) -> FairClassifier | FairRegressor:
    """Make the estimator whose options all members share."""
    shared = {
        name: options[name]
        for name in inspect.signature(FairEstimator).parameters
        if name not in ("strength", "random_state")
    }
    shared |= {"strength": max(options["strengths"]), "random_state": seed}
    if options["task"] == "classification":
        return FairClassifier(**shared)
    if options["task"] == "regression":
        return FairRegressor(loss=options["loss"], **shared)
    raise InputError(f"task must be 'classification' or 'regression', got {options['task']!r}")
