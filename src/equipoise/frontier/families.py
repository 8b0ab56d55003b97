"""Families of predictors: which options are whose, and the estimator that members are made like."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal

from equipoise.errors import InputError, check_choice
from equipoise.estimators import (
    Classifies,
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairRegressor,
    Regresses,
)
from equipoise.estimators.base import regression_task
from equipoise.estimators.fitting import same_form
from equipoise.predictors.boosting.library import lightgbm

#: What ``predictor`` may be.
Family = Literal["network", "boosting", "both"]
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "network": ("network",),
    "boosting": ("boosting",),
    "both": ("network", "boosting"),
}
_KINDS: Mapping[tuple[str, str], type[Classifies | Regresses]] = {
    ("network", "classification"): FairClassifier,
    ("network", "regression"): FairRegressor,
    ("boosting", "classification"): FairBoostingClassifier,
    ("boosting", "regression"): FairBoostingRegressor,
}
#: Options that a frontier gives to every family, since they say what is wanted and not by what.
_SHARED = (
    "notion",
    "method",
    "divergence",
    "density_ratio",
    "gradient_penalty",
    "sensitive_types",
    "missing_sensitive",
    "verbose",
)
#: Options of single models that a frontier has its own for, or no use for.
_OF_MEMBERS = ("strength", "random_state", "loss", "early_stopping")


def families_of(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the families to train; refuse options that none of them has a use for.

    ``defaults`` are what the options are where nobody has set them.
    """
    predictor = options["predictor"]
    check_choice("predictor", predictor, tuple(_FAMILIES))
    families = _FAMILIES[predictor]
    check_choice("task", options["task"], ("classification", "regression"))
    regression_task(options["loss"])
    if "boosting" not in families:
        for name in ("boosting", "evaluate_every_rounds"):
            if same_form(options[name]) != same_form(defaults[name]):
                raise InputError(
                    f"{name} has no meaning for predictor={predictor!r}, got {options[name]!r}; "
                    "set predictor='boosting' or 'both', or leave it out"
                )
        return families
    # Told now: with both families, networks would train in vain before trees miss it.
    lightgbm(f"predictor={predictor!r}")
    _refuse_strangers(options["boosting"])
    if "network" not in families:
        for name in ("evaluate_every", *_own_options("network")):
            if name != "device" and same_form(options[name]) != same_form(defaults[name]):
                raise InputError(
                    f"{name} is an option of networks and has no meaning for "
                    f"predictor={predictor!r}, got {options[name]!r}; leave it out, or set "
                    f"{_counterpart(name)}"
                )
    return families


def template_of(options: Mapping[str, Any], family: str, seed: int) -> Classifies | Regresses:
    """Make the estimator whose options all members of a family share."""
    task = options["task"]
    given = {name: options[name] for name in _SHARED}
    if family == "network":
        given |= {name: options[name] for name in _own_options(family)}
    else:
        given |= options["boosting"] or {}
    if task == "regression":
        given["loss"] = options["loss"]
    return _KINDS[family, task](strength=max(options["strengths"]), random_state=seed, **given)


def family_of(template: Classifies | Regresses) -> str:
    """Return the family that an estimator belongs to."""
    return next(family for (family, _), kind in _KINDS.items() if type(template) is kind)


def _own_options(family: str) -> list[str]:
    """Options that only one family has."""
    names = inspect.signature(_KINDS[family, "classification"]).parameters
    return [name for name in names if name not in (*_SHARED, *_OF_MEMBERS)]


def _counterpart(name: str) -> str:
    """Where the like of a network's option is set for boosted trees."""
    if name == "evaluate_every":
        return "evaluate_every_rounds"
    return "options of boosted trees by boosting={...}"


def _refuse_strangers(boosting: Any) -> None:
    """Refuse what is no option of boosted trees, or is the frontier's own."""
    if boosting is None:
        return
    allowed = _own_options("boosting")
    if not isinstance(boosting, Mapping):
        raise InputError(
            "boosting must be a mapping of options of FairBoostingClassifier, such as "
            f"{{'rounds': 200}}, got {type(boosting).__name__}"
        )
    for name in boosting:
        if name == "early_stopping":
            raise InputError(
                "boosting must not set 'early_stopping': a frontier keeps the best rounds for "
                "every wish as it is; leave it out"
            )
        if name in (*_SHARED, *_OF_MEMBERS):
            raise InputError(
                f"boosting must not set {name!r}, which is an option of the frontier itself; set "
                "it there"
            )
        if name not in allowed:
            raise InputError(f"boosting has no option {name!r}; it has {', '.join(allowed)}")
