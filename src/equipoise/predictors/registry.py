"""Families of predictors by name, and their models as arrays and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.networks import NetworkFactory, Saved, Stack, StackedMLP, StackedModule, StackedVote
from equipoise.predictors.boosting import LIBRARIES, BoostedTrees
from equipoise.training import Predictor, Task
from equipoise.training.predictor import AveragedPredictor


@dataclass(frozen=True)
class Family:
    """One family of predictors.

    one, many: words for its models. unit: what training counts, "iteration" or "round". stacks: its
    stacks for models read from files, each by the name of a tensor that no other stack has.
    """

    one: str
    many: str
    unit: str
    stacks: Mapping[str, type[Stack]] = field(default_factory=dict)


_FAMILIES: dict[str, Family] = {}
#: Every family by name.
FAMILIES: Mapping[str, Family] = MappingProxyType(_FAMILIES)


def register_family(name: str, family: Family) -> None:
    """Make a family known: to frontiers and their pages, and to whoever reads a model."""
    if _FAMILIES.get(name, family) != family:
        raise InputError(f"name must be new, got {name!r}, which is a family; rename yours")
    _FAMILIES[name] = family


register_family("network", Family("network", "networks", "iteration", {"share": StackedVote}))
for _each in LIBRARIES.values():
    _trees = Family(_each.words, _each.words, "round", {"rounds": BoostedTrees})
    register_family(_each.family, _trees)


#: Weights and buffers by name, with the members first.
Weights = Mapping[str, Tensor]
#: How far a user's network may be off what it gave when it was saved, for other versions of torch.
_TOLERANCE = 1e-6


def predictor_arrays(
    predictor: Predictor, inputs: int, filled_with: Sequence[Weights] | None = None
) -> dict[str, NDArray[Any]]:
    """Return all weights, and outputs on fixed rows where only the user knows the network.

    A predictor that is a shell has what the weights need that it will be ``filled_with``.
    """
    state = predictor.state_dict()
    arrays = {f"weights.{name}": tensor.detach().cpu().numpy() for name, tensor in state.items()}
    arrays |= predictor.network.arrays(_needed(state, filled_with))
    if predictor.network.of_user:
        arrays["probe"] = _outputs_on_fixed_rows(predictor, inputs)
    return arrays


def predictor_in(
    arrays: Mapping[str, NDArray[Any]],
    task: Task,
    inputs: int,
    outputs: int | None,
    network: NetworkFactory | None,
    filled_with: Sequence[Weights] | None = None,
) -> Predictor:
    """Return the predictor whose arrays these are; weights of several members are an average.

    ``outputs`` is how many it must have, None for any number. A user's ``network`` is checked to
    give what it gave when the model was saved; a shell, to fit the weights it will be
    ``filled_with``. ValueError where the arrays are not those of a predictor.
    """
    # A copy: arrays read from a file may lie in memory that must not be written to.
    state = {
        name.removeprefix("weights."): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith("weights.")
    }
    (members,) = {len(tensor) for tensor in state.values()}
    encoder = None
    if encoding := _part(state, "encoder"):
        saved = Saved(state=encoding, inputs=inputs, outputs=None)
        encoder = StackedMLP.restored(saved, head=False)
        inputs = encoder.width
    own = _part(state, "network")
    stacks = {name: kind for each in FAMILIES.values() for name, kind in each.stacks.items()}
    # What has none of these tensors is a perceptron.
    kind = next((kind for name, kind in stacks.items() if name in own), StackedMLP)
    stack = (kind if network is None else StackedModule).restored(
        Saved(
            state=own,
            inputs=inputs,
            outputs=outputs,
            arrays=arrays,
            needed=_needed(state, filled_with),
            factory=network,
        )
    )
    predictor = Predictor(stack, task, encoder=encoder).requires_grad_(False).double().eval()
    _fill(predictor, state)
    if members > 1:
        if encoder is not None:
            raise ValueError("representations of several members have no average")
        predictor = AveragedPredictor(stack, task).eval()
    if stack.of_user:
        _check_outputs(predictor, arrays["probe"], inputs)
    return predictor


def _part(state: Weights, part: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{part}."): tensor
        for name, tensor in state.items()
        if name.startswith(f"{part}.")
    }


def _needed(state: Weights, filled_with: Sequence[Weights] | None) -> list[Weights]:
    """States of the network that members need."""
    return [_part(each, "network") for each in ([state] if filled_with is None else filled_with)]


def _fill(predictor: Predictor, state: Weights) -> None:
    for name, tensor in predictor.state_dict().items():
        if name in state and state[name].dtype != tensor.dtype:
            raise ValueError(f"weights are of type {state[name].dtype}, not {tensor.dtype}")
    try:
        predictor.load_state_dict(state)
    except RuntimeError as error:
        if not predictor.network.of_user:
            raise
        raise InputError(
            "network must be the function the model was fitted with, got one whose weights have "
            f"other names or shapes: {' '.join(str(error).split())}"
        ) from None


def _check_outputs(predictor: Predictor, probe: NDArray[Any], inputs: int) -> None:
    """Refuse a user's network that does not give what it gave when it was saved."""
    found = _outputs_on_fixed_rows(predictor, inputs)
    if not np.allclose(found, probe, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True):
        raise InputError(
            "network must be the function the model was fitted with, got one whose outputs differ "
            f"by up to {np.abs(found - probe).max():.3g} with the same weights"
        )


def _outputs_on_fixed_rows(predictor: Predictor, inputs: int) -> NDArray[np.float64]:
    """Outputs (4, o) on rows that every version of this program makes the same way."""
    rows = torch.arange(4 * inputs, dtype=torch.float64, device="cpu").reshape(4, inputs)
    output, _ = predictor.evaluate((rows % 7 / 3 - 1).to(predictor.weight.device))
    return output[0].cpu().numpy()
