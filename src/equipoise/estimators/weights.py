"""A trained predictor of one member as arrays, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.networks import StackedMLP, StackedModule
from equipoise.recipe import NetworkFactory
from equipoise.training import Predictor, Task

#: How far a user's network may be off what it gave when it was saved, for other versions of torch.
_TOLERANCE = 1e-6


def has_own_network(predictor: Predictor) -> bool:
    """Whether the network was made by a user's function."""
    return isinstance(predictor.network, StackedModule)


def predictor_arrays(predictor: Predictor, inputs: int) -> dict[str, NDArray[Any]]:
    """Return all weights, and outputs on fixed rows where only the user knows the network."""
    arrays = {
        f"weights.{name}": tensor.detach().cpu().numpy()
        for name, tensor in predictor.state_dict().items()
    }
    if has_own_network(predictor):
        arrays["probe"] = _outputs_on_fixed_rows(predictor, inputs)
    return arrays


def built_in_predictor(arrays: Mapping[str, NDArray[Any]], task: Task, inputs: int) -> Predictor:
    """Return the predictor of our own networks whose arrays these are.

    Layers are as wide as the arrays are: a file can not ask for more memory than it has itself.
    """
    state = _state(arrays)
    encoder = None
    widths = _widths(state, "encoder")
    if widths:
        encoder = StackedMLP(inputs, widths, None, generators=[torch.Generator()])
        inputs = widths[-1]
    *hidden, outputs = _widths(state, "network")
    network = StackedMLP(inputs, hidden, outputs, generators=[torch.Generator()])
    return _with_weights(Predictor(network, task, encoder=encoder), state)


def own_predictor(
    arrays: Mapping[str, NDArray[Any]], task: Task, inputs: int, network: NetworkFactory
) -> Predictor:
    """Return the predictor of a user's network, checked to give what it gave when saved."""
    probe = arrays["probe"]
    stacked = StackedModule(lambda: network(inputs, probe.shape[1]), seeds=[0])
    try:
        predictor = _with_weights(Predictor(stacked, task), _state(arrays))
    except RuntimeError as error:
        raise InputError(
            "network must be the function the model was fitted with, got one whose weights have "
            f"other names or shapes: {' '.join(str(error).split())}"
        ) from None
    found = _outputs_on_fixed_rows(predictor, inputs)
    if not np.allclose(found, probe, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True):
        raise InputError(
            "network must be the function the model was fitted with, got one whose outputs differ "
            f"by up to {np.abs(found - probe).max():.3g} with the same weights"
        )
    return predictor


def _state(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    # A copy: arrays read from a file may lie in memory that must not be written to.
    return {
        name.removeprefix("weights."): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith("weights.")
    }


def _widths(state: Mapping[str, Tensor], part: str) -> list[int]:
    """Output widths of the dense layers of one part, first to last; [] where it is not there."""
    name = re.compile(rf"{part}\.layers\.(\d+)\.weight")
    found = [(name.fullmatch(key), tensor) for key, tensor in state.items()]
    # Batch normalisation has weights as well, of two dimensions: (1, width).
    dense = [(int(m[1]), tensor.shape[1]) for m, tensor in found if m and tensor.dim() == 3]
    return [width for _, width in sorted(dense)]


def _with_weights(predictor: Predictor, state: Mapping[str, Tensor]) -> Predictor:
    predictor = predictor.requires_grad_(False).double().eval()
    predictor.load_state_dict(state)
    return predictor


def _outputs_on_fixed_rows(predictor: Predictor, inputs: int) -> NDArray[np.float64]:
    """Outputs (4, o) on rows that every version of this program makes the same way."""
    rows = torch.arange(4 * inputs, dtype=torch.float64).reshape(4, inputs) % 7 / 3 - 1
    device = next(predictor.parameters()).device
    output, _ = predictor.evaluate(rows.to(device))
    return output[0].cpu().numpy()
