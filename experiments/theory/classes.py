"""The classes of networks that the theorem speaks of, and how large their outputs can be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from equipoise.errors import InputError
from experiments.theory.folding import DenseNetwork


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
