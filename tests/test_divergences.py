import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.critic import CriticSettings
from equipoise.divergences import DIVERGENCES
from equipoise.errors import InputError

#: Two discrete laws over three points, p and q, and each divergence D(p || q) written out.
P = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
Q = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)
RATIO = P / Q
MIDDLE = (P + Q) / 2
OPTIMAL_CRITIC = {
    "js": RATIO.log(),
    "kl": RATIO.log(),
    "chi2": RATIO - 1,
    "hellinger": RATIO.log(),
}
EXACT = {
    "js": float((P * (P / MIDDLE).log()).sum() + (Q * (Q / MIDDLE).log()).sum()),
    "kl": float((P * RATIO.log()).sum()),
    "chi2": float(((P - Q) ** 2 / Q).sum()),
    "hellinger": float(((P.sqrt() - Q.sqrt()) ** 2).sum()),
}


def population_value(name: str, critic: torch.Tensor) -> torch.Tensor:
    """The value over the whole population: points weighted by their probabilities."""
    outputs = critic[None]
    return DIVERGENCES[name](outputs, outputs, 3 * P[None], 3 * Q[None])


@pytest.mark.parametrize("name", DIVERGENCES)
@given(seed=st.integers(0, 2**31), n=st.integers(1, 8))
@settings(max_examples=20, deadline=None)
def test_a_critic_that_guesses_gives_exactly_zero(name, seed, n):
    generator = torch.Generator().manual_seed(seed)
    guess = torch.zeros(2, n)
    weights = torch.rand(2, n, generator=generator), torch.rand(2, n, generator=generator)
    assert torch.equal(DIVERGENCES[name](guess, guess, *weights), torch.zeros(2))
    assert torch.equal(DIVERGENCES[name](guess, guess, None, None), torch.zeros(2))


@pytest.mark.parametrize("name", EXACT)
def test_the_optimal_critic_gives_the_divergence(name):
    value = population_value(name, OPTIMAL_CRITIC[name])
    assert value.item() == pytest.approx(EXACT[name], abs=1e-12)


@pytest.mark.parametrize("name", EXACT)
@given(shift=st.lists(st.floats(-1, 1), min_size=3, max_size=3))
@settings(max_examples=30, deadline=None)
def test_no_critic_exceeds_the_divergence(name, shift):
    critic = OPTIMAL_CRITIC[name] + torch.tensor(shift, dtype=torch.float64)
    assert population_value(name, critic).item() <= EXACT[name] + 1e-12


def test_wasserstein_of_a_shift_is_its_length():
    points = torch.linspace(-1, 1, 9)[None]
    assert DIVERGENCES["wasserstein"](points + 0.25, points, None, None).item() == pytest.approx(
        0.25
    )


def test_js_is_the_papers_penalty_shifted_to_zero():
    real, drawn = torch.randn(2, 1, 7, generator=torch.Generator().manual_seed(1))
    paper = torch.log(torch.sigmoid(real)).mean() + torch.log(1 - torch.sigmoid(drawn)).mean()
    value = DIVERGENCES["js"](real, drawn, None, None)
    assert value.item() == pytest.approx(paper.item() + 2 * math.log(2), abs=1e-6)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_integer_weights_are_repeated_rows(name):
    real, drawn = torch.randn(2, 1, 4, generator=torch.Generator().manual_seed(2))
    repeats = torch.tensor([3, 0, 1, 4])
    weighted = DIVERGENCES[name](real, drawn, repeats[None] / 2, repeats[None] / 2)
    repeated = DIVERGENCES[name](
        real.repeat_interleave(repeats, 1), drawn.repeat_interleave(repeats, 1), None, None
    )
    torch.testing.assert_close(weighted, repeated)


def test_unknown_divergence_and_unequal_shapes_are_refused():
    with pytest.raises(
        InputError,
        match="divergence must be one of 'js', 'kl', 'chi2', 'hellinger', 'wasserstein', got 'tv'",
    ):
        CriticSettings(divergence="tv")
    with pytest.raises(
        InputError,
        match="critic outputs on real and resampled pairs must have one shape, "
        r"got \(1, 3\) and \(3,\)",
    ):
        DIVERGENCES["js"](torch.zeros(1, 3), torch.zeros(3), None, None)
