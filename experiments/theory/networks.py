"""Networks of the theorem: trained ones folded into dense layers, and classes of bounded norms.

`fold` writes a network in evaluation mode as dense layers with ReLU in between, `NetworkClass` is
the set of all networks of given widths and norms, `Game` a class of predictors with a class of
critics. The functions below evaluate many networks of a class at once.
"""

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

_SUPPORTED = "dense layers, batch normalization and ReLU"


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
        """How much further apart outputs can be than inputs, at most; ReLU adds nothing."""
        return math.prod(self.spectral_norms)


def fold(network: nn.Module) -> DenseNetwork:
    """Write a network in evaluation mode as dense layers; batch normalization folds into them.

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
    divided out or multiplied in on the way (spectral normalization, parametrizations) is in them.
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


@dataclass(frozen=True)
class NetworkClass:
    """All ReLU networks of these widths whose layers have at most these Frobenius norms.

    The paper's networks have no biases. A layer with a bias is one without that sees a constant 1
    beside its inputs and hands it on (ReLU leaves 1 as it is); so with ``has_constant`` every layer
    but the last counts as [[W, b], [0, 1]] and the last as [w, b].

    widths: number of inputs, of hidden units layer by layer, and 1; without the constant.
    norms: one for each layer.

    Examples
    --------
    >>> linear = NetworkClass(widths=(2, 1), norms=(5.0,))
    >>> linear.largest_output(2.0)
    10.0
    """

    widths: tuple[int, ...]
    norms: tuple[float, ...]
    has_constant: bool = False

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.norms) + 1 or self.widths[-1] != 1:
            raise InputError(
                "widths must be the number of inputs, one width for each hidden layer and 1, and "
                f"norms one number for each layer, got widths={self.widths}, norms={self.norms}"
            )
        if not all(math.isfinite(norm) and norm >= 0 for norm in self.norms):
            raise InputError(f"norms must be finite and not negative, got {self.norms}")

    @classmethod
    def around(cls, network: DenseNetwork) -> NetworkClass:
        """Return the smallest class of the same widths that holds this network."""
        constant = network.has_bias
        layers = list(zip(network.frobenius_norms, network.biases, strict=True))
        if not constant:
            return cls(network.widths, tuple(norm for norm, _ in layers))
        hidden = [math.hypot(norm, float(bias.norm()), 1.0) for norm, bias in layers[:-1]]
        last = math.hypot(layers[-1][0], float(layers[-1][1].norm()))
        return cls(network.widths, (*hidden, last), has_constant=True)

    def contains(self, network: DenseNetwork) -> bool:
        """Whether a network of these widths is in the class as it is, without rescaling."""
        own = NetworkClass.around(network)
        if own.widths != self.widths or (own.has_constant and not self.has_constant):
            return False
        norms = own.norms
        if self.has_constant and not own.has_constant:
            norms = (*(math.hypot(norm, 1.0) for norm in norms[:-1]), norms[-1])
        return all(norm <= most for norm, most in zip(norms, self.norms, strict=True))

    @property
    def activations(self) -> int:
        """Number of hidden layers."""
        return len(self.norms) - 1

    @property
    def lipschitz(self) -> float:
        """Product of the norms: outputs are at most this many times as far apart as inputs."""
        return math.prod(self.norms)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shapes (out, in) of the layers' matrices, with a row and a column for the constant."""
        more = int(self.has_constant)
        outs = (*(width + more for width in self.widths[1:-1]), 1)
        ins = tuple(width + more for width in self.widths[:-1])
        return tuple(zip(outs, ins, strict=True))

    def largest_output(self, input_norm: float) -> float:
        """Return the largest output in size for inputs of at most this Euclidean norm."""
        return self.lipschitz * math.hypot(input_norm, float(self.has_constant))


@dataclass(frozen=True)
class Game:
    """A class of predictors h, a class of critics f(h(x), a), and where they are looked at.

    Rows x have at most the Euclidean norm ``radius``; attributes lie in [0, 1], as many as the
    critics have inputs beside the score.
    """

    predictor: NetworkClass
    critic: NetworkClass
    radius: float

    def __post_init__(self) -> None:
        for name, given in {"predictor": self.predictor, "critic": self.critic}.items():
            if not isinstance(given, NetworkClass):
                raise InputError(
                    f"{name} must be a NetworkClass, got {type(given).__name__}; "
                    "NetworkClass.around(fold(network)) makes one"
                )
        if self.critic.widths[0] < 2:
            raise InputError(
                "critic must see the score and at least one attribute, got "
                f"{self.critic.widths[0]} inputs"
            )
        if not (math.isfinite(self.radius) and self.radius > 0):
            raise InputError(f"radius must be positive and finite, got {self.radius}")

    @property
    def attribute_columns(self) -> int:
        """Number l of attribute columns."""
        return self.critic.widths[0] - 1

    @property
    def score_bound(self) -> float:
        """Largest |h(x)|."""
        return self.predictor.largest_output(self.radius)

    @property
    def critic_bound(self) -> float:
        """Largest |f(h(x), a)|."""
        longest = math.hypot(self.score_bound, math.sqrt(self.attribute_columns))
        return self.critic.largest_output(longest)


#: Rows are stored in single precision, so a row on the boundary may be this much outside.
_ROUNDING = 1e-6


def game_scores(game: Game, weights: Sequence[Tensor], x: Tensor) -> Tensor:
    """Return scores (K, n) of K predictors on rows x, (n, p) for all or (K, n, p).

    weights: one stack (K, out, in) for each of ``game.predictor.shapes``.
    """
    return _outputs(game.predictor, weights, x.mT.expand(len(weights[0]), -1, -1))


def critic_outputs(
    game: Game, weights: Sequence[Tensor], scores: Tensor, attributes: Tensor
) -> Tensor:
    """Return outputs (K, n) of K critics on scores (K, n) and attributes (n, l) or (K, n, l)."""
    beside = attributes.mT.expand(len(scores), -1, -1)
    return _outputs(game.critic, weights, torch.cat([scores.unsqueeze(1), beside], 1))


def on_spheres(weights: Sequence[Tensor], norms: Sequence[float]) -> list[Tensor]:
    """Return each stack (K, out, in) with every member's matrix rescaled to its layer's norm."""
    return [
        stack * (norm / stack.flatten(1).norm(dim=1).clamp_min(1e-300))[:, None, None]
        for stack, norm in zip(weights, norms, strict=True)
    ]


def check_rows(game: Game, x: Tensor, attributes: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows (n, p) and attributes (n, l) in double precision if they lie in the domain."""
    columns = game.predictor.widths[0], game.attribute_columns
    given = {"x": (x, columns[0]), "attributes": (attributes, columns[1])}
    for name, (tensor, width) in given.items():
        if tensor.dim() != 2 or tensor.shape[1] != width or len(tensor) != len(x):
            raise InputError(
                f"{name} must have shape (n, {width}) with one n for both, got "
                f"{tuple(tensor.shape)}"
            )
    longest = float(x.double().norm(dim=1).max())
    if not longest <= game.radius * (1 + _ROUNDING):
        raise InputError(
            f"rows of x must have norm radius={game.radius:g} at most, the longest has "
            f"{longest:.6g}; scale or shorten them, and train on them like that"
        )
    if not bool(((attributes >= 0) & (attributes <= 1)).all()):
        raise InputError(
            f"attributes must lie in [0, 1], got values from {float(attributes.min()):g} to "
            f"{float(attributes.max()):g}; rescale them before training the critic"
        )
    return x.double(), attributes.double()


def _outputs(network: NetworkClass, weights: Sequence[Tensor], columns: Tensor) -> Tensor:
    """Outputs (K, n) for feature-major inputs (K, p, n)."""
    out = columns
    if network.has_constant:
        out = torch.cat([out, torch.ones_like(out[:, :1])], 1)
    for number, weight in enumerate(weights):
        out = torch.bmm(weight, torch.relu(out) if number else out)
    return out.squeeze(1)
