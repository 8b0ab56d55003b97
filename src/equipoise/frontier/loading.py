"""Reading a saved estimator or frontier."""

from __future__ import annotations

from os import PathLike

from equipoise.errors import InputError
from equipoise.estimators.contents import parameters_in
from equipoise.estimators.loading import Saved, check_network, estimator_in
from equipoise.frontier.contents import curve_in, sensitive_in, split_in
from equipoise.frontier.curve import history_of
from equipoise.frontier.estimator import FairFrontier
from equipoise.predictors.recipe import NetworkFactory
from equipoise.storage import Contents, read_model_file, refuse_contents


def load(
    path: str | PathLike[str], *, network: NetworkFactory | None = None
) -> Saved | FairFrontier:
    """Return the fitted estimator or frontier that ``save`` wrote to ``path``, on the CPU.

    It answers bit for bit what the saved one answered there. The file holds numbers and text
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
        if contents.document["class"] == FairFrontier.__name__:
            check_network(contents, path, network)
            return _frontier_in(contents, network)
        return estimator_in(contents, path, network)
    except InputError:
        raise
    except Exception as error:  # nothing that save wrote: somebody made this file by hand
        refuse_contents(path, error)


def _frontier_in(contents: Contents, network: NetworkFactory | None) -> FairFrontier:
    frontier = FairFrontier(**parameters_in(contents))
    if network is not None:
        frontier.network = network
    curve = curve_in(contents, network)
    frontier.split_ = split_in(contents)
    frontier.utility_ = curve.snapshots.criteria.utility
    frontier.sensitive_ = sensitive_in(contents)
    frontier.history_ = history_of(curve)
    frontier._curve = curve
    return frontier
