"""Making an estimator from the contents of a file."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, get_args

from equipoise.errors import InputError
from equipoise.estimators.boosting import FairBoostingClassifier, FairBoostingRegressor
from equipoise.estimators.encoder import FairEncoder
from equipoise.estimators.network import FairClassifier, FairRegressor
from equipoise.estimators.saving import fill, needs_network, read
from equipoise.networks import NetworkFactory
from equipoise.storage import Contents

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
