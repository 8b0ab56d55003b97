"""Many networks of a class at once: weights stacked along the first axis, and their outputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equipoise.errors import InputError
from experiments.theory.classes import Game, NetworkClass

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
