"""Theorem 1: every term by hand, and the laws a bound must keep."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import expit
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from equipoise.errors import InputError
from experiments.theory import (
    Complexities,
    Game,
    NetworkClass,
    closed_form_complexities,
    estimation_bound,
)
from experiments.theory.bounds import loss_gradient, loss_range

#: b = 2 and c = 3 sqrt(2^2 + 1).
TINY = Game(NetworkClass((1, 1), (2.0,)), NetworkClass((2, 1), (3.0,)), radius=1.0)
DEEP = Game(
    NetworkClass((2, 4, 1), (1.5, 1.2), True), NetworkClass((2, 4, 1), (1.1, 0.7), True), radius=1.0
)
B, C = 2.0, 3 * math.sqrt(5)
DEVIATION = math.sqrt(math.log(20) / (2 * 50))


def test_our_constants_by_hand():
    bound = estimation_bound(TINY, n=50, strength=0.25, delta=0.05)
    assert bound.loss_complexity == pytest.approx(0.75 * 2 * expit(B) * B / math.sqrt(50))
    assert bound.loss_confidence == pytest.approx(0.75 * 2 * B * DEVIATION)
    assert bound.penalty_complexity == pytest.approx(
        0.25 * 4 * (1 + math.sqrt(3)) * expit(C) * C / math.sqrt(50)
    )
    assert bound.penalty_confidence == pytest.approx(0.25 * 6 * C * DEVIATION)
    assert bound.probability == pytest.approx(0.9)


def test_printed_constants_by_hand():
    bound = estimation_bound(TINY, n=50, strength=0.25, delta=0.05, version="printed")
    gamma_0, gamma_1 = expit(-B), expit(B)
    nu_0, nu_1 = expit(-C), expit(C)
    # As in the supplement, with prod M_v = 2, prod M_w = 3, B = 1 and l = 1.
    f_loss = max(abs(2 * gamma_1 - 1), 2 * 2 * 1) / min(gamma_0, 1 - gamma_1)
    f_nu = 2 * (1 / nu_0 + 1 / (1 - nu_1))
    f_pair = (1 + nu_0 - nu_1) / (nu_0 * (1 - nu_1)) * 3 * math.sqrt(1 + 4 * 2**2)
    loss_class = math.log(2) / math.sqrt(50) + 2 * expit(B) * B / math.sqrt(50)
    assert bound.loss_complexity == pytest.approx(0.75 * 4 * loss_class)
    assert bound.loss_confidence == pytest.approx(0.75 * 2 * f_loss * DEVIATION)
    assert bound.penalty_complexity == pytest.approx(0.25 * 2 * f_nu * C / math.sqrt(50))
    assert bound.penalty_confidence == pytest.approx(0.25 * 2 * f_pair * DEVIATION)
    assert bound.probability == pytest.approx(0.85)


def test_absolute_error_by_hand():
    ours = estimation_bound(TINY, n=50, strength=0.0, loss="absolute")
    assert ours.loss_complexity == pytest.approx(2 * B / math.sqrt(50))
    assert ours.loss_confidence == pytest.approx(2 * (1 + B) * DEVIATION)
    printed = estimation_bound(TINY, n=50, strength=0.0, loss="absolute", version="printed")
    assert printed.loss_complexity == pytest.approx(4 * (1 + 2 * B) / math.sqrt(50))
    assert printed.loss_confidence == pytest.approx(2 * (1 + 2 * B) * DEVIATION)


def test_losses_and_log_sigmoids_span_exactly_what_is_claimed():
    scores = torch.linspace(-B, B, 4001).double().requires_grad_()
    zero, one = (
        binary_cross_entropy_with_logits(scores, torch.full_like(scores, y), reduction="none")
        for y in (0.0, 1.0)
    )
    both = torch.cat([zero, one]).detach()
    assert float(both.max() - both.min()) == pytest.approx(loss_range(TINY, "log"))
    (slope,) = torch.autograd.grad(one.sum(), scores)
    assert float(slope.abs().max()) == pytest.approx(loss_gradient(TINY, "log"))
    absolute = (scores.detach()[:, None] - torch.linspace(0, 1, 101).double()).abs()
    assert float(absolute.max() - absolute.min()) == pytest.approx(loss_range(TINY, "absolute"))
    outputs = torch.linspace(-C, C, 4001).double()
    values = logsigmoid(outputs)
    assert float(values.max() - values.min()) == pytest.approx(C)


@pytest.mark.parametrize("version", ["corrected", "printed"])
@pytest.mark.parametrize("game", [TINY, DEEP], ids=["tiny", "deep"])
def test_laws(version, game):
    def bound(**changes):
        given = {"n": 400, "strength": 0.5, "delta": 0.05, "version": version, **changes}
        return estimation_bound(game, **given)

    base = bound()
    # Four times the rows, half of every term.
    for term in ("loss_complexity", "loss_confidence", "penalty_complexity", "penalty_confidence"):
        assert getattr(bound(n=1600), term) == pytest.approx(getattr(base, term) / 2, rel=1e-12)
    # Surer means larger, by the confidence terms alone and like the root of log(1 / delta).
    surer = bound(delta=0.05**4)
    assert surer.probability > base.probability
    assert surer.loss_confidence == pytest.approx(2 * base.loss_confidence)
    assert surer.penalty_confidence == pytest.approx(2 * base.penalty_confidence)
    assert surer.loss_complexity == base.loss_complexity
    assert surer.penalty_complexity == base.penalty_complexity
    totals = [bound(delta=delta).total for delta in (0.001, 0.01, 0.1, 0.3)]
    assert totals == sorted(totals, reverse=True)
    # No penalty leaves the plain bound; between, the parts mix like the objective.
    plain, half = bound(strength=0.0), bound(strength=0.5)
    assert plain.penalty_complexity == plain.penalty_confidence == 0
    assert half.loss_complexity == pytest.approx(plain.loss_complexity / 2)
    assert plain.total == pytest.approx(plain.loss_complexity + plain.loss_confidence)
    # The rows needed are those at which the bound meets what is possible anyway.
    there = bound(n=round(base.rows_needed))
    assert there.total == pytest.approx(there.largest_possible, rel=0.01)
    assert base.rows_for(base.total / 3) == pytest.approx(9 * 400)


@pytest.mark.parametrize("part", ["predictor", "critic"])
def test_a_larger_class_has_a_larger_bound(part):
    own = getattr(DEEP, part)
    for layer in range(2):
        norms = list(own.norms)
        norms[layer] *= 1.1
        larger = replace(DEEP, **{part: replace(own, norms=tuple(norms))})
        for version in ("corrected", "printed"):
            bounds = [
                estimation_bound(game, n=100, strength=0.5, version=version).total
                for game in (DEEP, larger)
            ]
            assert bounds[0] < bounds[1]


def test_our_constants_are_smaller_than_the_printed_ones():
    for game in (TINY, DEEP):
        ours = estimation_bound(game, n=100, strength=0.5)
        printed = estimation_bound(game, n=100, strength=0.5, version="printed")
        assert ours.total < printed.total / 3
        assert ours.probability > printed.probability


def test_the_printed_constants_leave_floating_point_and_say_so():
    wide = replace(TINY, critic=NetworkClass((2, 1), (1e4,)))
    printed = estimation_bound(wide, n=100, strength=0.5, version="printed")
    assert printed.total == math.inf and printed.rows_needed == math.inf
    assert estimation_bound(wide, n=100, strength=0.0, version="printed").total < math.inf
    assert estimation_bound(wide, n=100, strength=0.5).total < math.inf


def test_largest_possible_by_hand():
    bound = estimation_bound(TINY, n=50, strength=0.25)
    surest = math.log(2) + math.log(expit(C))
    assert bound.largest_possible == pytest.approx(0.75 * B + 0.25 * 2 * surest)


def test_uniform_deviations_of_a_linear_class_stay_below_and_not_far_below():
    """A class whose supremum is a maximum over a grid: logistic regression in one dimension."""
    n, delta, samples = 100, 0.1, 2000
    rng = np.random.default_rng(0)
    slopes = np.linspace(-B, B, 401)
    # x = 1 or -1 with y = 1 with probability 0.8 or 0.2: only the sign of x (2 y - 1) matters.
    agree = rng.binomial(n, 0.8, size=samples) / n
    loss_agree, loss_against = np.logaddexp(0, -slopes), np.logaddexp(0, slopes)
    deviation = np.outer(0.8 - agree, loss_agree - loss_against).max(1)
    # Half of the confidence of the bound belongs to this deviation, and all of the complexity.
    bound = estimation_bound(TINY, n=n, strength=0.0, delta=delta)
    claimed = bound.loss_complexity + bound.loss_confidence / 2
    quantile = np.quantile(deviation, 1 - delta)
    assert quantile <= claimed <= 6 * quantile
    assert np.mean(deviation > claimed) <= delta


def test_uniform_deviations_of_the_penalty_stay_below_and_not_far_below():
    """All critics with values in [-2, 2] on four cells, attributes handed to the next row."""
    n, delta, samples = 200, 0.1, 1000
    game = Game(NetworkClass((1, 1), (1.0,)), NetworkClass((2, 1), (2**0.5,)), radius=1.0)
    assert game.critic_bound == pytest.approx(2)
    rng = np.random.default_rng(0)
    score = rng.integers(0, 2, (samples, n))
    attribute = np.where(rng.random((samples, n)) < 0.8, score, 1 - score)

    def shares(other: np.ndarray) -> np.ndarray:
        return np.stack([(2 * score + other == cell).mean(1) for cell in range(4)], 1)[..., None]

    outputs = np.linspace(-2, 2, 81)
    real = np.array([0.4, 0.1, 0.1, 0.4])[:, None] - shares(attribute)
    resampled = 0.25 - shares(np.roll(attribute, 1, axis=1))
    by_cell = real * np.log(expit(outputs)) + resampled * np.log(expit(-outputs))
    deviation = by_cell.max(2).sum(1)
    # The class has complexity sum of sqrt(share / n) <= 2 / sqrt(n); the bound has two deviations.
    four_cells = Complexities(n=n, predictor=0.0, pair=2 / math.sqrt(n), is_upper_bound=True)
    bound = estimation_bound(game, n=n, strength=0.5, delta=delta, complexities=four_cells)
    claimed = (bound.penalty_complexity + bound.penalty_confidence) / 2 / 0.5
    quantile = np.quantile(deviation, 1 - delta)
    assert quantile <= claimed <= 10 * quantile
    assert np.mean(deviation > claimed) <= delta


def test_estimates_take_the_place_of_closed_forms_and_are_named_so():
    estimate = Complexities(n=50, predictor=0.1, pair=0.2, is_upper_bound=False)
    bound = estimation_bound(TINY, n=50, strength=0.5, complexities=estimate)
    assert bound.loss_complexity == pytest.approx(0.5 * 2 * expit(B) * 0.1)
    assert bound.penalty_complexity == pytest.approx(0.5 * 4 * (1 + 3**0.5) * expit(C) * 0.2)
    assert "Complexities are estimates;" in str(bound)
    assert "Estimates are from below, so this sum is no bound." in str(bound)


def test_the_bound_in_words():
    assert str(estimation_bound(TINY, n=10_000, strength=0.25, delta=0.05)) == (
        "Estimation error of 0.75 R + 0.25 R_F at n = 10000 (corrected constants):\n"
        "at most 0.3693 with probability 0.9 or more.\n"
        "  0.02642    task, complexity: 0.02 for the predictors\n"
        "  0.03672    task, confidence: log(1/0.05)\n"
        "  0.183      penalty, complexity: 0.06708 for critics on predictors\n"
        "  0.1231     penalty, confidence: log(1/0.05)\n"
        "Complexities are upper bounds from norms; scores lie within 2 of 0, critic outputs within "
        "6.708."
    )
    few = str(estimation_bound(TINY, n=50, strength=0.25, delta=0.05))
    assert few.endswith("The error cannot exceed 1.846 anyway: this says nothing below 400 rows.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"strength": 1.0}, "strength must lie in [0, 1), got 1.0; 0 is plain training"),
        ({"delta": 0.5}, "delta must lie in (0, 1/3), got 0.5; three events may fail"),
        ({"loss": "squared"}, "loss must be 'log' or 'absolute', got 'squared'"),
        ({"version": "ours"}, "version must be 'corrected' or 'printed', got 'ours'"),
        (
            {"complexities": closed_form_complexities(TINY, 60)},
            "complexities must be those at n=50 rows, got n=60",
        ),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError) as refusal:
        estimation_bound(TINY, **{"n": 50, "strength": 0.5, **options})
    assert str(refusal.value) == message
