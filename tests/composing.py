"""Frontiers from one list of options: each goes to whoever has it."""

import inspect

from equipoise import (
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairFrontier,
    FairRegressor,
)

KINDS = {
    ("network", "classification"): FairClassifier,
    ("network", "regression"): FairRegressor,
    ("boosting", "classification"): FairBoostingClassifier,
    ("boosting", "regression"): FairBoostingRegressor,
}
#: Options that say what is wanted of trees as of networks.
SHARED = ("notion", "method", "divergence", "loss", "sensitive_types", "missing_sensitive")


def composed(
    predictor="network",
    *,
    task="classification",
    boosting=None,
    evaluate_every_rounds="default",
    **options,
):
    """A frontier of "network", "boosting" or "both".

    boosting: options of trees alone, as is evaluate_every_rounds.
    """
    of_frontier = set(inspect.signature(FairFrontier).parameters)
    given = {name: options.pop(name) for name in of_frontier & options.keys()}
    if "network" in options:  # it has layers of its own
        options.pop("hidden", None)
    models, every = [], []
    if predictor != "boosting":
        models.append(KINDS["network", task](**options))
        every.append(given.pop("evaluate_every", "default"))
    if predictor != "network":
        shared = {name: options[name] for name in options if name in SHARED}
        models.append(KINDS["boosting", task](**shared, **(boosting or {})))
        every.append(evaluate_every_rounds)
    if len(models) == 1:
        models, every = models[0], every[0]
    return FairFrontier(models, evaluate_every=every, **given)
