"""A trained network as what it is in evaluation: dense layers with ReLU in between."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equipoise.errors import InputError
from equipoise.networks import StackedBatchNorm, StackedLinear, StackedMLP
from equipoise.penalty import SBPPenalty

_SUPPORTED = "dense layers, batch normalisation and ReLU"


@dataclass(frozen=True, eq=False)
class DenseNetwork:
    """x -> w_L relu(... relu(W_1 x + b_1) ...) + b_L with one output, in double precision.

    weights: (out, in) each, the first layer first. biases: (out,) each, zeros where there is none.
    """

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the outputs (n,) for rows x (n, p)."""
        out = x.double()
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            out = (torch.relu(out) if number else out) @ weight.T + bias
        return out.squeeze(-1)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of inputs, widths of the hidden layers, and 1."""
        return (self.weights[0].shape[1], *(len(weight) for weight in self.weights))

    @property
    def has_bias(self) -> bool:
        """Whether any bias is other than zero."""
        return any(bool(bias.any()) for bias in self.biases)

    @property
    def frobenius_norms(self) -> tuple[float, ...]:
        """Root of the sum of squared weights, layer by layer; biases do not count."""
        return tuple(float(weight.norm()) for weight in self.weights)

    @property
    def spectral_norms(self) -> tuple[float, ...]:
        """Largest singular value, layer by layer."""
        return tuple(float(torch.linalg.matrix_norm(weight, 2)) for weight in self.weights)

    @property
    def lipschitz(self) -> float:
        """How much further apart outputs can be than inputs, at most; ReLU has slope one."""
        return math.prod(self.spectral_norms)


def fold(network: nn.Module) -> DenseNetwork:
    """Write a network in evaluation mode as dense layers; batch normalisation folds into them.

    Parameters
    ----------
    network : nn.Sequential, StackedMLP or SBPPenalty
        ``nn.Sequential`` of ``Linear``, ``BatchNorm1d``, ``ReLU`` and what does nothing in
        evaluation, ``Dropout`` and ``Identity``. ``StackedMLP`` of one member. Of an
        ``SBPPenalty`` that was called, the critic with the standardization of its score in front.

    Examples
    --------
    >>> layer = nn.Linear(2, 1)
    >>> with torch.no_grad():
    ...     _ = layer.weight.copy_(torch.tensor([[3.0, 4.0]])), layer.bias.fill_(1.0)
    >>> folded = fold(nn.Sequential(layer))
    >>> folded.lipschitz, float(folded(torch.tensor([[1.0, 1.0]])))
    (5.0, 8.0)
    """
    if not isinstance(network, nn.Module):
        raise InputError(f"network must be a torch.nn.Module, got {type(network).__name__}")
    own = copy.deepcopy(network).cpu().double().eval()
    affine: list[tuple[Tensor, Tensor]] = []
    merges = False
    with torch.no_grad():
        for layer in _layers_of(own):
            if isinstance(layer, nn.ReLU):
                if not merges:
                    raise InputError("network must begin with a dense layer, it begins with ReLU")
                merges = False
                continue
            weight, bias = _affine_map(layer)
            if affine and merges:
                before, constant = affine.pop()
                weight, bias = weight @ before, weight @ constant + bias
            affine.append((weight, bias))
            merges = True
    if not affine:
        raise InputError("network must hold at least one dense layer")
    if not merges or len(affine[-1][1]) != 1:
        found = f"{len(affine[-1][1])} outputs" if merges else "ReLU"
        raise InputError(f"network must end in a dense layer with one output, it ends in {found}")
    weights, biases = zip(*affine, strict=True)
    return DenseNetwork(weights, biases)


def _layers_of(network: nn.Module) -> Iterator[nn.Module]:
    """Layers in order, Sequentials unpacked, those left out that do nothing in evaluation."""
    if isinstance(network, SBPPenalty):
        yield from _critic_layers(network)
    elif isinstance(network, StackedMLP):
        if network.members != 1:
            raise InputError(
                f"network must hold one member, got {network.members}; take one out with "
                "equipoise.networks.select_members(network, [0])"
            )
        yield from _layers_of(network.layers)
    elif isinstance(network, nn.Sequential):
        for layer in network:
            yield from _layers_of(layer)
    elif not isinstance(network, nn.Dropout | nn.Identity):
        yield network


def _critic_layers(penalty: SBPPenalty) -> Sequence[nn.Module]:
    """Standardization of the score, then the critic's layers."""
    game = penalty.game
    if game is None:
        raise InputError("the penalty has no critic yet; train with it, penalty(score, a), first")
    if game.settings.divergence != "js" or penalty.notion.conditions_on_outcome:
        raise InputError(
            "the theorem is about notion='independence' and divergence='js', got "
            f"notion={penalty.notion.value!r} and divergence={game.settings.divergence!r}"
        )
    layers = list(_layers_of(game.critic))
    first = layers[0]
    assert isinstance(first, StackedLinear)
    width = len(game.scale.running_mean[0])
    standardizing = nn.Linear(first.weight.shape[-1], first.weight.shape[-1]).double()
    weight, bias = _affine_map(game.scale)
    nn.init.eye_(standardizing.weight)
    nn.init.zeros_(standardizing.bias)
    standardizing.weight[:width, :width] = weight
    standardizing.bias[:width] = bias
    return [standardizing, *layers]


def _affine_map(layer: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight (out, in) and bias (out,) of a layer that is affine in evaluation.

    They are read off what the layer does to zero and to the unit vectors, so that whatever is
    divided out or multiplied in on the way (spectral normalisation, parametrisations) is in them.
    """
    if isinstance(layer, StackedLinear | StackedBatchNorm):
        width = (layer.weight if isinstance(layer, StackedLinear) else layer.running_mean).shape[-1]
        bias = layer(torch.zeros(1, width, 1, dtype=torch.double))[0, :, 0]
        return layer(torch.eye(width, dtype=torch.double)[None])[0] - bias[:, None], bias
    if isinstance(layer, nn.Linear):
        width = layer.in_features
    elif isinstance(layer, nn.BatchNorm1d) and layer.track_running_stats:
        width = layer.num_features
    else:
        raise InputError(
            f"network must be made of {_SUPPORTED}, got {type(layer).__name__}; a norm bound for "
            "it is not known here (a built-in network needs embedding='none')"
        )
    bias = layer(torch.zeros(1, width, dtype=torch.double))[0]
    return (layer(torch.eye(width, dtype=torch.double)) - bias).T, bias
