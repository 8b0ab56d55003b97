"""The critics' game: K critics learn to tell real pairs from resampled pairs.

Several methods play it, and so does the penalty for your own loop, :mod:`equipoise.penalty`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
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
from equipoise.training.optimizers import minimize

#: Weights of real pairs and of resampled pairs, (K, B) each; None where all are one.
Weights = tuple[Tensor | None, Tensor | None]

#: In our trials a critic stayed closest to its optimum when it learned three times as fast as the
#: predictor.
CRITIC_OPTIMIZER = OptimizerSettings(learning_rate=3e-3)


@dataclass(frozen=True, kw_only=True)
class CriticSettings:
    """The critic and how it trains.

    ``steps`` is the paper's T', the number of critic updates per predictor update.
    ``gradient_penalty`` is the weight of a penalty on gradients above one between real and
    resampled pairs (after Gulrajani et al. 2017). With ``last_pass_shared`` the pass of the last
    step also gives value and gradient for the predictor, which then are those of the critic just
    before this step; the paper makes one more pass after it. ``prefix`` opens the names of options
    in errors.
    """

    divergence: str = "js"
    hidden: tuple[int, ...] = (64, 64)
    steps: int = 1
    normalization: Normalization = "none"
    gradient_penalty: float = 0.0
    optimizer: OptimizerSettings = field(default_factory=lambda: CRITIC_OPTIMIZER)
    last_pass_shared: bool = False
    prefix: InitVar[str] = "critic_"

    def __post_init__(self, prefix: str) -> None:
        check_choice("divergence", self.divergence, tuple(DIVERGENCES))
        object.__setattr__(self, "hidden", check_widths(f"{prefix}hidden", self.hidden))
        check_whole(f"{prefix}steps", self.steps)
        normalization = f"{prefix}normalization"
        check_choice(normalization, self.normalization, get_args(Normalization))
        weight = check_number(
            "gradient_penalty", self.gradient_penalty, "must not be negative", lambda w: w >= 0
        )
        object.__setattr__(self, "gradient_penalty", weight)
        if self.normalization == "batch" and not self.hidden:
            remedy = f"set {prefix}hidden=(64, 64)"
            refuse_unread(normalization, "batch", f"{prefix}hidden=()", remedy)
        if self.gradient_penalty and self.normalization == "batch":
            raise InputError(
                "gradient_penalty needs a critic without batch normalization, got "
                f"{normalization}='batch', with which the gradient at a row depends on other rows; "
                f"set {normalization}='none'"
            )
        bounded = self.gradient_penalty or self.normalization == "spectral"
        if self.divergence == "wasserstein" and not bounded:
            raise InputError(
                "divergence='wasserstein' needs a critic with a bounded gradient, got "
                f"{normalization}={self.normalization!r} and gradient_penalty=0; set "
                f"{normalization}='none' and gradient_penalty=10"
            )

    def network(
        self, width: int, generators: Sequence[torch.Generator], **options: Any
    ) -> StackedMLP:
        """Return critics with one output, which is 0 at first: they only guess."""
        options["normalization"] = self.normalization
        critics = StackedMLP(width, self.hidden, 1, generators=generators, **options)
        if self.normalization != "spectral":
            # The weights of the last layer start at zero, so nothing is penalized before the critic
            # has learned something. A spectral layer divides by the norm of its weights and cannot
            # start at zero.
            nn.init.zeros_(critics.head.weight)
        return critics


class CriticGame(nn.Module):
    """K critics, each in a game against one predictor.

    A critic sees the score, the attribute and, under separation, the outcome. The score is
    standardized over the batch, so a predictor cannot hide a dependence by shrinking its score.
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
            # Real and resampled pairs are normalized as separate batches, as in the paper's
            # program. The critic can then use statistics of a whole batch, which show dependence
            # that is hard to see in single pairs.
            batches=2,
            twice_differentiable=settings.gradient_penalty > 0,
        )

    def start(self) -> None:
        """Build the critic's optimizer; call this after the weights were moved to their device."""
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
        """Train the critics on the detached score, then return their value (K,) for the score.

        score: (K, B, w). attribute, resampled: (K, B, q). outcome: (K, B, v) under separation. A
        ``lasting`` value can still be differentiated after the critics were trained further.
        """
        context = attribute, resampled, outcome
        if self.settings.last_pass_shared:
            return self._play_sharing(score, context, weights)
        pairs = self._pairs(score, *context)
        fixed = pairs.detach()
        for _ in range(self.settings.steps):
            self._train(fixed, weights)
        if lasting:
            copies = {f"critic.{n}": w.detach().clone() for n, w in self.critic.named_parameters()}
            lasting_value: Tensor = functional_call(self, copies, (pairs, weights))
            return lasting_value
        with frozen(self.critic):
            return self.forward(pairs, weights)

    def _play_sharing(
        self, score: Tensor, context: tuple[Tensor, Tensor, Tensor | None], weights: Weights
    ) -> Tensor:
        """As `play`; the pass of the last step reaches the score, too."""
        with torch.enable_grad():
            seen = score.detach().requires_grad_()
            pairs = self._pairs(seen, *context)
        fixed = pairs.detach()
        for _ in range(self.settings.steps - 1):
            self._train(fixed, weights)
        value = self._train(pairs, weights)
        assert seen.grad is not None
        # The critics go up their value, so the gradient has the other sign. The difference is zero
        # and carries the gradient.
        return value.detach() - (seen.grad * (score - score.detach())).sum((1, 2))

    def _train(self, pairs: Tensor, weights: Weights) -> Tensor:
        """Take one step of the critics; return their value (K,) before it."""
        with torch.enable_grad():
            value: Tensor = self.forward(pairs, weights)
            losses, shares = [value], [torch.full_like(value, -1)]
            if self.settings.gradient_penalty:
                losses.append(self._gradient_excess(pairs.detach()))
                shares.append(torch.full_like(value, self.settings.gradient_penalty))
            minimize(losses, self.optimizer, shares)
        return value

    def value(
        self,
        score: Tensor,
        attribute: Tensor,
        resampled: Tensor,
        outcome: Tensor | None,
        weights: Weights = (None, None),
    ) -> Tensor:
        """Return how well the critics tell real from resampled pairs, (K,); 0 means guessing."""
        return self.forward(self._pairs(score, attribute, resampled, outcome), weights)

    def _pairs(
        self, score: Tensor, attribute: Tensor, resampled: Tensor, outcome: Tensor | None
    ) -> Tensor:
        """Critic inputs (K, 2 B, w + q + v): real pairs, then resampled pairs.

        The score gets mean 0 and variance 1 over the batch.
        """
        columns = score.transpose(1, 2)
        if self.training and (kernels := fused_kernels(columns)):
            pairs: Tensor = kernels.Pairs.apply(
                score, attribute, resampled, outcome, *self.scale.settings
            )
            return pairs
        given = [self.scale(columns).transpose(1, 2)] + ([] if outcome is None else [outcome])
        twice = [each.repeat(1, 2, 1) for each in given]
        return torch.cat([twice[0], torch.cat([attribute, resampled], 1), *twice[1:]], -1)

    def forward(self, pairs: Tensor, weights: Weights) -> Tensor:
        """Return the value (K,) for pairs (K, 2 B, inputs), the real ones first."""
        output: Tensor = self.critic(pairs).squeeze(-1)
        if self.settings.divergence == "js" and (kernels := fused_kernels(output)):
            value: Tensor = kernels.JensenShannon.apply(output, *weights)
            return value
        real, drawn = output.view(len(output), 2, -1).unbind(1)
        return DIVERGENCES[self.settings.divergence](real, drawn, *weights)

    def _gradient_excess(self, pairs: Tensor) -> Tensor:
        """Mean square (K,) of the part of the critics' gradient norm above one.

        Gradients are taken at points between real and resampled pairs.
        """
        real, drawn = pairs.chunk(2, 1)
        # Rows are in random order, so evenly spaced mixing weights are as good as random ones.
        place = torch.arange(real.shape[1], dtype=real.dtype, device=real.device)
        mix = (place + 0.5) / real.shape[1]
        between = torch.lerp(real, drawn, mix[:, None]).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.critic(between).sum(), between, create_graph=True)
        # The tiny constant keeps the root differentiable where a gradient is zero.
        length = (gradient.square().sum(-1) + 1e-12).sqrt()
        return torch.relu(length - 1).square().mean(-1)


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Compute no gradients for the module's weights; gradients still reach its inputs."""
    module.requires_grad_(False)
    try:
        yield
    finally:
        module.requires_grad_(True)
