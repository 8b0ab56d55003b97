"""The game of the critics, against the same steps written out with torch's own autograd."""

import pytest
import torch

from equipoise.critic import CriticGame, CriticSettings
from equipoise.training.data import generator

ROWS, STEPS = 50, 3


def played(shared, **options):
    """A game, the value for a score and its gradient, in double precision."""
    settings = CriticSettings(hidden=(7,), steps=STEPS, last_pass_shared=shared, **options)
    starts = [generator(seed, "critic") for seed in range(2)]
    game = CriticGame(1, 2, 0, settings=settings, generators=starts).double()
    game.start()
    draws = torch.Generator().manual_seed(4)
    a = torch.randn(2, ROWS, 2, generator=draws, dtype=torch.float64)
    score = (a[..., :1] + torch.randn(2, ROWS, 1, generator=draws, dtype=torch.float64)).sin()
    score.requires_grad_()
    values = []
    for _ in range(4):
        score.grad = None
        value = game.play(score, a, a.roll(1, 1), None)
        value.sum().backward()
        values.append((value.detach(), score.grad.clone()))
    return game, values, (score, a)


@pytest.mark.parametrize("options", [{}, {"gradient_penalty": 1.0}, {"divergence": "kl"}], ids=str)
def test_a_shared_pass_gives_the_value_and_gradient_before_the_last_step(options):
    shared, values, (score, a) = played(True, **options)
    settings = shared.settings
    starts = [generator(seed, "critic") for seed in range(2)]
    apart = CriticGame(1, 2, 0, settings=settings, generators=starts).double()
    apart.start()
    for value, gradient in values:
        # All steps but the last; then the value for the score; then the last step.
        for step in range(STEPS):
            if step == STEPS - 1:
                again = score.detach().requires_grad_()
                expected = apart.value(again, a, a.roll(1, 1), None)
                (of_score,) = torch.autograd.grad(expected.sum(), again)
                torch.testing.assert_close(value, expected.detach())
                torch.testing.assert_close(gradient, of_score)
            one_step(apart, score.detach(), a)
    for mine, other in zip(shared.critic.parameters(), apart.critic.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


def one_step(game, score, a):
    """One step of Adam up the critics' value, with its gradient penalty."""
    pairs = torch.cat(
        [
            torch.cat(
                [
                    (score - score.mean(1, keepdim=True))
                    / (score.var(1, correction=0, keepdim=True) + 1e-6).sqrt()
                ]
                * 2,
                1,
            ),
            torch.cat([a, a.roll(1, 1)], 1),
        ],
        -1,
    )
    game.optimizer.zero_grad()
    loss = -game(pairs, (None, None)).sum()
    weight = game.settings.gradient_penalty
    if weight:
        real, drawn = pairs.chunk(2, 1)
        mix = ((torch.arange(ROWS, dtype=pairs.dtype) + 0.5) / ROWS)[:, None]
        between = (real + mix * (drawn - real)).requires_grad_()
        (slope,) = torch.autograd.grad(game.critic(between).sum(), between, create_graph=True)
        excess = torch.relu((slope.square().sum(-1) + 1e-12).sqrt() - 1).square().mean(-1)
        loss = loss + weight * excess.sum()
    loss.backward()
    game.optimizer.step()
