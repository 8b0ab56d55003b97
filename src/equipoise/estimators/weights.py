"""A trained predictor, of one member or an average of several, as arrays and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.networks import Pieces, StackedMLP, StackedModule, StackedVote
from equipoise.predictors.boosting import BoostedTrees, forest_arrays, forest_in
from equipoise.predictors.recipe import NetworkFactory
from equipoise.training import Predictor, Task
from equipoise.training.averaged import AveragedPredictor

#: Weights and buffers by name, with the members first.
Weights = Mapping[str, Tensor]
#: How far a user's network may be off what it gave when it was saved, for other versions of torch.
_TOLERANCE = 1e-6


def has_own_network(predictor: Predictor) -> bool:
    """Whether the network was made by a user's function."""
    return isinstance(predictor.network, StackedModule)


def predictor_arrays(
    predictor: Predictor, inputs: int, filled_with: Iterable[Weights] | None = None
) -> dict[str, NDArray[Any]]:
    """Return all weights, and outputs on fixed rows where only the user knows the network.

    Of boosted trees those that the predictor has, or, where it is a shell, those that the weights
    it will be ``filled_with`` need.
    """
    arrays = {
        f"weights.{name}": tensor.detach().cpu().numpy()
        for name, tensor in predictor.state_dict().items()
    }
    if isinstance(predictor.network, BoostedTrees):
        needed = _needed(predictor.state_dict(), filled_with)
        return {**arrays, **forest_arrays(predictor.network.forest, needed)}
    if has_own_network(predictor):
        arrays["probe"] = _outputs_on_fixed_rows(predictor, inputs)
    return arrays


def _needed(state: Weights, filled_with: Iterable[Weights] | None) -> list[tuple[Tensor, Tensor]]:
    """Models and rounds (K,) of boosted trees that members need."""
    members = [state] if filled_with is None else filled_with
    return [(each["network.model"], each["network.rounds"]) for each in members]


def predictor_in(
    arrays: Mapping[str, NDArray[Any]],
    task: Task,
    inputs: int,
    outputs: int | None,
    network: NetworkFactory | None,
    filled_with: Iterable[Weights] | None = None,
) -> Predictor:
    """Return the predictor whose arrays these are; weights of several members are an average.

    ``outputs`` is how many it must have, None for any number. A user's ``network`` is checked to
    give what it gave when the model was saved, and boosted trees to have what the weights need that
    a shell will be ``filled_with``.
    """
    state = _state(arrays)
    (members,) = {len(tensor) for tensor in state.values()}
    if network is None:
        if outputs is not None and _n_outputs(state) != outputs:
            raise ValueError(f"the network must have {outputs} outputs")
        built = _built_in(state, arrays, task, inputs, members, filled_with)
        return _averaged(built, members)
    probe = arrays["probe"]
    if probe.ndim != 2 or (outputs is not None and probe.shape[1] != outputs):
        raise ValueError(f"the network must have {outputs} outputs")
    return _own(state, probe, task, inputs, members, network)


def _built_in(
    state: Mapping[str, Tensor],
    arrays: Mapping[str, NDArray[Any]],
    task: Task,
    inputs: int,
    members: int,
    filled_with: Iterable[Weights] | None,
) -> Predictor:
    """Return the predictor of our own networks.

    Layers are as wide as the arrays are: a file can not ask for more memory than it has itself.
    """
    if "network.rounds" in state:
        start = state["network.start"]
        if start.dim() != 2 or start.dtype != torch.float64:
            raise ValueError("trees must have one start for each member and output")
        forest = forest_in(arrays, inputs, start.shape[-1], _needed(state, filled_with))
        return _with_weights(Predictor(BoostedTrees(forest, start), task), state)
    if "network.share" in state:
        return _vote(state, task, inputs)
    encoder = None
    widths = _checked_widths(state, "encoder", inputs, members)
    if widths:
        encoder = _mlp(state, "encoder", inputs, widths, None, members)
        inputs = widths[-1]
    *hidden, outputs = _checked_widths(state, "network", inputs, members)
    network = _mlp(state, "network", inputs, hidden, outputs, members)
    return _with_weights(Predictor(network, task, encoder=encoder), state)


def _vote(state: Mapping[str, Tensor], task: Task, inputs: int) -> Predictor:
    """Return the predictor of linear classifiers that vote."""
    parts = [state[f"network.{name}"].double().numpy() for name in ("weight", "bias", "share")]
    if parts[0].shape != (*parts[1].shape, inputs) or parts[1].shape != parts[2].shape:
        raise ValueError("the weights of a vote do not fit one another")
    return _with_weights(Predictor(StackedVote(*parts), task), state)


def _mlp(
    state: Mapping[str, Tensor],
    part: str,
    inputs: int,
    hidden: Sequence[int],
    outputs: int | None,
    members: int,
) -> StackedMLP:
    """Return a network of the same layers, with weights yet to be filled in."""
    normalised = any(re.fullmatch(rf"{part}\.layers\.\d+\.running_mean", key) for key in state)
    return StackedMLP(
        inputs,
        hidden,
        outputs,
        generators=[torch.Generator()] * members,
        normalization="batch" if normalised else "none",
        pieces=_pieces(state, part),
    )


def _pieces(state: Mapping[str, Tensor], part: str) -> Pieces | None:
    """Return the pieces that one part cuts its inputs into, which all members share."""
    names = [f"{part}.layers.0.{field.name}" for field in fields(Pieces)]
    if names[0] not in state:
        return None
    return Pieces(*(state[name][0].numpy() for name in names))


def _own(
    state: Mapping[str, Tensor],
    probe: NDArray[np.float64],
    task: Task,
    inputs: int,
    members: int,
    network: NetworkFactory,
) -> Predictor:
    """Return the predictor of a user's network, checked to give what it gave when saved."""
    stacked = StackedModule(lambda: network(inputs, probe.shape[1]), seeds=[0] * members)
    try:
        predictor = _averaged(_with_weights(Predictor(stacked, task), state), members)
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


def _averaged(predictor: Predictor, members: int) -> Predictor:
    if members == 1:
        return predictor
    if predictor.encoder is not None:
        raise ValueError("representations of several members have no average")
    return AveragedPredictor(predictor.network, predictor.task).eval()


def _state(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    # A copy: arrays read from a file may lie in memory that must not be written to.
    return {
        name.removeprefix("weights."): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith("weights.")
    }


def _n_outputs(state: Mapping[str, Tensor]) -> int:
    """Outputs of one of our own networks."""
    if "network.rounds" in state:
        return state["network.start"].shape[-1]
    return 1 if "network.share" in state else _widths(state, "network")[-1]


def _checked_widths(state: Mapping[str, Tensor], part: str, inputs: int, members: int) -> list[int]:
    """Output widths of the dense layers, each as wide as the one before gives.

    A width is that of weights that are really there: an array without numbers can have any shape.
    """
    pieces = _pieces(state, part)
    width = inputs
    if pieces is not None:
        count = len(pieces.start)
        kinds = {"column": np.int64, "start": np.float64, "slope": np.float64}
        for name, values in vars(pieces).items():
            if values.shape != (count,) or values.dtype != kinds[name]:
                raise ValueError("the pieces of columns do not fit one another")
        check_columns(state[f"{part}.layers.0.column"], inputs)
        width += count
    widths = _widths(state, part)
    for layer in _dense(state, part):
        if layer.shape != (members, layer.shape[1], width) or layer.numel() == 0:
            raise ValueError("the layers of a network do not fit one another")
        width = layer.shape[1]
    return widths


def check_columns(columns: Tensor, inputs: int) -> None:
    """Refuse pieces of columns that are not among the inputs."""
    if not bool(((columns >= 0) & (columns < inputs)).all()):
        raise ValueError("a piece is of a column that is not there")


def _widths(state: Mapping[str, Tensor], part: str) -> list[int]:
    """Output widths of the dense layers of one part, first to last; [] where it is not there."""
    return [layer.shape[1] for layer in _dense(state, part)]


def _dense(state: Mapping[str, Tensor], part: str) -> list[Tensor]:
    """Weights of the dense layers of one part, first to last."""
    name = re.compile(rf"{part}\.layers\.(\d+)\.weight")
    found = [(name.fullmatch(key), tensor) for key, tensor in state.items()]
    # Batch normalisation has weights as well, of two dimensions: (1, width).
    dense = {int(m[1]): tensor for m, tensor in found if m and tensor.dim() == 3}
    return [dense[position] for position in sorted(dense)]


def _with_weights(predictor: Predictor, state: Mapping[str, Tensor]) -> Predictor:
    predictor = predictor.requires_grad_(False).double().eval()
    for name, tensor in predictor.state_dict().items():
        if name in state and state[name].dtype != tensor.dtype:
            raise ValueError(f"weights are of type {state[name].dtype}, not {tensor.dtype}")
    predictor.load_state_dict(state)
    return predictor


def _outputs_on_fixed_rows(predictor: Predictor, inputs: int) -> NDArray[np.float64]:
    """Outputs (4, o) on rows that every version of this program makes the same way."""
    rows = (
        torch.arange(4 * inputs, dtype=torch.float64, device="cpu").reshape(4, inputs) % 7 / 3 - 1
    )
    device = predictor.weight.device
    output, _ = predictor.evaluate(rows.to(device))
    return output[0].cpu().numpy()
