"""The critics' game: K critics learn to tell real pairs from resampled ones.

Methods with such a critic and :mod:`equipoise.penalty`, the penalty for your own loop, play it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.func import functional_call

from equipoise.divergences import DIVERGENCES
from equipoise.errors import (
    InputError,
    check_choice,
    check_number,
    check_whole,
    check_widths,
    refuse_unread,
)
from equipoise.networks import Normalization, StackedBatchNorm, StackedMLP, fused_kernels
from equipoise.training import OptimizerSettings
from equipoise.training.loop import minimize

Weights = tuple[Tensor | None, Tensor | None]

#: In our trials a critic three times as fast as the predictor stayed closest to its optimum.
CRITIC_OPTIMIZER = OptimizerSettings(learning_rate=3e-3)


@dataclass(frozen=True, kw_only=True)
class CriticSettings:
    """The critic and how it trains.

    ``steps`` is the paper's T', critic updates per predictor update. ``gradient_penalty`` weighs
    gradients above one, between real and resampled pairs (after Gulrajani et al. 2017).
    """

    divergence: str = "js"
    hidden: tuple[int, ...] = (64, 64)
    steps: int = 1
    normalization: Normalization = "none"
    gradient_penalty: float = 0.0
    optimizer: OptimizerSettings = field(default_factory=lambda: CRITIC_OPTIMIZER)

    def __post_init__(self) -> None:
        check_choice("divergence", self.divergence, tuple(DIVERGENCES))
        object.__setattr__(self, "hidden", check_widths("critic_hidden", self.hidden))
        check_whole("critic_steps", self.steps)
        check_choice("critic_normalization", self.normalization, get_args(Normalization))
        weight = check_number(
            "gradient_penalty", self.gradient_penalty, "must not be negative", lambda w: w >= 0
        )
        object.__setattr__(self, "gradient_penalty", weight)
        if self.normalization == "batch" and not self.hidden:
            remedy = "set critic_hidden, such as critic_hidden=(64, 64)"
            refuse_unread("critic_normalization", "batch", "critic_hidden=()", remedy)
        if self.gradient_penalty and self.normalization == "batch":
            raise InputError(
                "gradient_penalty needs a critic without batch normalization, whose gradient at a "
                "row depends on the other rows; set critic_normalization='none'"
            )
        bounded = self.gradient_penalty or self.normalization == "spectral"
        if self.divergence == "wasserstein" and not bounded:
            raise InputError(
                "divergence='wasserstein' needs a critic of bounded gradient; set "
                "critic_normalization='none' and gradient_penalty=10"
            )

    def network(self, width: int, generators: Sequence[torch.Generator], **more: Any) -> StackedMLP:
        """Return critics of one output, which only guess at first."""
        more["normalization"] = self.normalization
        critics = StackedMLP(width, self.hidden, 1, generators=generators, **more)
        if self.normalization != "spectral":
            # A head of zeros guesses, so nobody is penalized for what no critic has learned yet. (A
            # spectral layer has no zero: its weight is divided by its size.)
            nn.init.zeros_(critics.head_weight)
        return critics


class CriticGame(nn.Module):
    """K critics, each in its game against one predictor.

    A critic sees the score standardized over the batch, so a predictor cannot hide a dependence
    by shrinking its score, beside the attribute and, under separation, the outcome.
    """

    def __init__(
        self,
        score_width: int,
        attribute_width: int,
        outcome_width: int,
        *,
        settings: CriticSettings,
        generators: Sequence[torch.Generator],
    ) -> None:
        super().__init__()
        self.settings = settings
        self.scale = StackedBatchNorm(len(generators), score_width, affine=False, epsilon=1e-6)
        self.critic = settings.network(
            score_width + attribute_width + outcome_width,
            generators,
            # Real and resampled pairs are batches of their own, as in the paper's program: a whole
            # batch then betrays what single pairs hardly show, and the penalty is felt sooner.
            batches=2,
            twice_differentiable=settings.gradient_penalty > 0,
        )

    def start(self) -> None:
        """Build the critic's optimizer, once the weights are on their device."""
        self.optimizer = self.settings.optimizer.build(self.critic.parameters())

    def play(
        self,
        score: Tensor,
        attribute: Tensor,
        resampled: Tensor,
        outcome: Tensor | None,
        weights: Weights = (None, None),
        *,
        lasting: bool = False,
    ) -> Tensor:
        """Train the critics on the detached score, then return their value (K,) of the score.

        score: (K, B, w). attribute, resampled: (K, B, q). outcome: (K, B, v) under separation.
        weights: of real and of resampled pairs, (K, B) each. A ``lasting`` value can be followed
        back after the critics were trained further.
        """
        seen = self._standardized(score)
        context = _contexts(attribute, resampled, outcome)
        fixed = _pairs(seen.detach(), context)
        with torch.enable_grad():
            for _ in range(self.settings.steps):
                value = self.forward(fixed, weights)
                losses, shares = [value], [-torch.ones_like(value)]
                if self.settings.gradient_penalty:
                    losses.append(self._gradient_excess(fixed))
                    shares.append(torch.full_like(value, self.settings.gradient_penalty))
                minimize(losses, self.optimizer, shares)
        pairs = _pairs(seen, context)
        if lasting:
            now = {f"critic.{n}": w.detach().clone() for n, w in self.critic.named_parameters()}
            found: Tensor = functional_call(self, now, (pairs, weights))
            return found
        with frozen(self.critic):
            return self.forward(pairs, weights)

    def value(
        self,
        score: Tensor,
        attribute: Tensor,
        resampled: Tensor,
        outcome: Tensor | None,
        weights: Weights = (None, None),
    ) -> Tensor:
        """Return how well the critics tell real from resampled pairs, (K,); 0 is guessing."""
        context = _contexts(attribute, resampled, outcome)
        return self.forward(_pairs(self._standardized(score), context), weights)

    def _standardized(self, score: Tensor) -> Tensor:
        """Score (K, B, w) over its spread in the batch."""
        standardized: Tensor = self.scale(score.transpose(1, 2))
        return standardized.transpose(1, 2)

    def forward(self, pairs: Tensor, weights: Weights) -> Tensor:
        """Return the value (K,) for pairs (K, 2 B, inputs), the real ones first."""
        output: Tensor = self.critic(pairs).squeeze(-1)
        if self.settings.divergence == "js" and (kernels := fused_kernels(output)):
            value: Tensor = kernels.JensenShannon.apply(output, *weights)
            return value
        real, drawn = output.view(len(output), 2, -1).unbind(1)
        return DIVERGENCES[self.settings.divergence](real, drawn, *weights)

    def _gradient_excess(self, pairs: Tensor) -> Tensor:
        """Mean squared excess of the critics' gradient over one, between both kinds of pairs."""
        real, drawn = pairs.chunk(2, 1)
        # Rows come in random order, so evenly spread mixing weights are as good as random ones.
        place = torch.arange(real.shape[1], dtype=real.dtype, device=real.device)
        mix = (place + 0.5) / real.shape[1]
        between = torch.lerp(real, drawn, mix[:, None]).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.critic(between).sum(), between, create_graph=True)
        # The tiny constant keeps the root differentiable where a gradient is zero.
        length = (gradient.square().sum(-1) + 1e-12).sqrt()
        return torch.relu(length - 1).square().mean(-1)


def _contexts(attribute: Tensor, resampled: Tensor, outcome: Tensor | None) -> Tensor:
    """What a critic sees beside the score, (K, 2 B, q + v): for real pairs, then resampled ones."""
    both = torch.cat([attribute, resampled], 1)
    return both if outcome is None else torch.cat([both, outcome.repeat(1, 2, 1)], -1)


def _pairs(score: Tensor, contexts: Tensor) -> Tensor:
    """Critic inputs (K, 2 B, inputs): the same scores (K, B, w) beside both contexts."""
    return torch.cat([score.repeat(1, 2, 1), contexts], -1)


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Keep gradients out of a module's weights while passing them through to its inputs."""
    module.requires_grad_(False)
    try:
        yield
    finally:
        module.requires_grad_(True)
