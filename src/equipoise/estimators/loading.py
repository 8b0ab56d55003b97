"""Reading a saved estimator."""

from __future__ import annotations

from os import PathLike

from equipoise.errors import InputError
from equipoise.estimators.base import FairEstimator
from equipoise.estimators.classifier import FairClassifier
from equipoise.estimators.contents import fill, needs_network, parameters_in
from equipoise.estimators.encoder import FairEncoder
from equipoise.estimators.regressor import FairRegressor
from equipoise.recipe import NetworkFactory
from equipoise.storage import Contents, read_model_file, refuse_contents

_CLASSES: dict[str, type[FairEstimator]] = {
    "FairClassifier": FairClassifier,
    "FairEncoder": FairEncoder,
    "FairRegressor": FairRegressor,
}


def load(
    path: str | PathLike[str], *, network: NetworkFactory | None = None
) -> FairClassifier | FairRegressor | FairEncoder:
    """Return the fitted estimator that ``save`` wrote to ``path``, on the CPU.

    It predicts bit for bit what the saved one predicted there. The file holds numbers and text
    only, so that reading one from a stranger runs no code; damage is found by a checksum.

    Parameters
    ----------
    path : path of a file
        Where ``save`` wrote to.
    network : callable (n_inputs, n_outputs) -> torch.nn.Module, optional
        The function the model was fitted with, where it was fitted with one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from equipoise import FairRegressor, load_dataset
    >>> data = load_dataset("crime")
    >>> model = FairRegressor(strength=0, iterations=20, random_state=0).fit(data.X, data.y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "crime.equipoise")
    ...     again = load(Path(folder) / "crime.equipoise")
    >>> bool((again.predict(data.X) == model.predict(data.X)).all())
    True
    """
    contents = read_model_file(path)
    try:
        _check_network(contents, path, network)
        model = _CLASSES[contents.document["class"]](**parameters_in(contents))
        if network is not None:
            model.network = network
        fill(model, contents, network)
    except InputError:
        raise
    except Exception as error:  # nothing that save wrote: somebody made this file by hand
        refuse_contents(path, error)
    assert isinstance(model, FairClassifier | FairRegressor | FairEncoder)
    return model


def _check_network(
    contents: Contents, path: str | PathLike[str], network: NetworkFactory | None
) -> None:
    if needs_network(contents) and network is None:
        raise InputError(
            f"network is required for '{path}': the model was fitted with a network of its own, "
            "whose code the file does not hold; call load(path, network=...) with the function "
            "given to network= when it was fitted"
        )
    if network is not None and not needs_network(contents):
        raise InputError(
            f"network must be left out for '{path}', whose model has a built-in network, "
            f"got {network!r}"
        )
