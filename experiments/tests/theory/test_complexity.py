"""Rademacher complexities: closed forms above, estimates below, exact where a class is linear."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from equipoise.errors import InputError
from experiments.theory import (
    Game,
    NetworkClass,
    closed_form_complexities,
    estimate_complexities,
)

LINEAR = Game(NetworkClass((2, 1), (1.5,)), NetworkClass((2, 1), (0.8,)), radius=1.0)
DEEP = Game(
    NetworkClass((2, 4, 3, 1), (1.5, 1.2, 0.9), True),
    NetworkClass((3, 4, 1), (1.1, 1.3), True),
    radius=1.0,
)


def rows(n: int, columns: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, generator=generator)
    return x / x.norm(dim=1, keepdim=True), torch.rand(n, columns, generator=generator)


def test_a_linear_class_by_enumeration_of_all_signs():
    x, a = rows(8, 1)
    signs = np.array(list(itertools.product((-1, 1), repeat=8)))
    exact = 1.5 * np.linalg.norm(signs @ x.double().numpy(), axis=1).mean() / 8
    found = estimate_complexities(LINEAR, x, a, draws=1000, starts=1, steps=80)
    assert not found.is_upper_bound and found.n == 8
    assert found.predictor == pytest.approx(exact, abs=4 * found.predictor_error)
    assert found.predictor_error < exact / 30
    assert exact <= closed_form_complexities(LINEAR, 8).predictor <= 1.3 * exact


def test_a_linear_pair_attains_a_norm_as_well():
    # The supremum of sum eps (w_1 v x + w_2 a) is 0.8 |(1.5 |sum eps x|, sum eps a)|.
    x, a = rows(8, 1)
    signs = np.array(list(itertools.product((-1, 1), repeat=8)))
    score = 1.5 * np.linalg.norm(signs @ x.double().numpy(), axis=1)
    exact = 0.8 * np.hypot(score, signs @ a[:, 0].double().numpy()).mean() / 8
    found = estimate_complexities(LINEAR, x, a, draws=1000, starts=1, steps=100)
    assert found.pair == pytest.approx(exact, abs=4 * found.pair_error)
    assert exact <= closed_form_complexities(LINEAR, 8).pair <= 1.3 * exact


def test_closed_forms_by_hand():
    found = closed_form_complexities(LINEAR, 16)
    assert found.predictor == pytest.approx(1.5 / 4)
    assert found.pair == pytest.approx(0.8 * math.sqrt(1.5**2 + 1) / 4)
    deep = closed_form_complexities(DEEP, 16)
    score = 1.5 * 1.2 * 0.9 * math.sqrt(2)
    assert deep.predictor == pytest.approx((1 + math.sqrt(2 * math.log(2) * 2)) * score / 4)
    carried = 2 + 1
    joined = 1.1 * 1.3 * (score ** (2 / 3) + carried) ** 1.5
    assert deep.pair == pytest.approx((1 + math.sqrt(2 * math.log(2) * 3)) * joined / 4)


def test_attributes_are_carried_at_the_scales_that_cost_least():
    # Layers (V_1, s_1 I), (V_2, s_2 I), then W_1 (v_3, I / (s_0 s_1 s_2)), inputs (x, s_0 a).
    columns, radius = 3, math.sqrt(2)  # two attributes and the constant; x and its constant

    def product(logs: np.ndarray) -> float:
        scales = np.exp(logs)
        carried = math.sqrt(columns) * scales
        hidden = math.hypot(1.5, carried[1]) * math.hypot(1.2, carried[2])
        behind = 1.1 * 1.3 * max(0.9, 1 / scales.prod())
        return behind * hidden * math.hypot(radius, carried[0])

    starts = [np.array(start) for start in itertools.product((-0.5, 0.5), repeat=3)]
    options = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 10_000, "maxfev": 10_000}
    least = min(
        minimize(product, start, method="Nelder-Mead", options=options).fun for start in starts
    )
    score = DEEP.score_bound
    assert least == pytest.approx(1.43 * (score ** (2 / 3) + columns) ** 1.5, rel=1e-6)


@pytest.mark.parametrize("n", [20, 80])
def test_estimates_of_deep_classes_are_below_the_closed_forms(n):
    x, a = rows(n, 2)
    below = estimate_complexities(DEEP, x, a, draws=8, starts=2, steps=80)
    above = closed_form_complexities(DEEP, n)
    assert above.predictor / 12 < below.predictor < above.predictor
    assert above.pair / 25 < below.pair < above.pair


def test_a_longer_ascent_from_more_starts_finds_no_less():
    x, a = rows(30, 2)
    short = estimate_complexities(DEEP, x, a, draws=4, starts=1, steps=10)
    long = estimate_complexities(DEEP, x, a, draws=4, starts=1, steps=60)
    assert long.predictor > short.predictor and long.pair > short.pair


def test_a_deep_class_is_richer_than_the_linear_class_inside_it():
    # Two hidden units give relu(z) - relu(-z) = z, at half the product of norms.
    x, a = rows(30, 1)
    deep = replace(LINEAR, predictor=NetworkClass((2, 2, 1), (1.5 * 2**0.5, 2**0.5)))
    linear = estimate_complexities(LINEAR, x, a, draws=10, starts=1, steps=100)
    found = estimate_complexities(deep, x, a, draws=10, starts=4, steps=150)
    assert found.predictor > linear.predictor


def test_complexities_fall_like_one_over_the_root_of_n():
    for name in ("predictor", "pair"):
        at = [getattr(closed_form_complexities(DEEP, n), name) for n in (100, 400)]
        assert at[0] == pytest.approx(2 * at[1], rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda x, a: (3 * x, a),
            "rows of x must have norm radius=1 at most, the longest has 3; scale or shorten them, "
            "and train on them like that",
        ),
        (
            lambda x, a: (x, 2 * a - 1),
            "attributes must lie in [0, 1], got values from -0.5 to 1; rescale them before "
            "training the critic",
        ),
        (
            lambda x, a: (x, a[:, :1]),
            "attributes must have shape (n, 2) with one n for both, got (2, 1)",
        ),
        (
            lambda x, a: (x, a[:1]),
            "attributes must have shape (n, 2) with one n for both, got (1, 2)",
        ),
        (lambda x, a: (x[0], a), "x must have shape (n, 2) with one n for both, got (2,)"),
    ],
)
def test_rows_outside_the_domain_are_refused(change, message):
    x = torch.tensor([[0.6, 0.8], [1.0, 0.0]])
    a = torch.tensor([[0.25, 1.0], [0.5, 0.5]])
    with pytest.raises(InputError) as refusal:
        estimate_complexities(DEEP, *change(x, a))
    assert str(refusal.value) == message


def test_numbers_of_draws_are_checked():
    with pytest.raises(InputError) as refusal:
        estimate_complexities(DEEP, *rows(3, 2), draws=1)
    assert str(refusal.value) == (
        "draws must be at least 2, starts and steps at least 1, got draws=1, starts=2, steps=200"
    )
    with pytest.raises(InputError, match="n must be at least 1, got 0"):
        closed_form_complexities(DEEP, 0)


def test_signs_and_starts_come_from_the_seed_alone():
    x, a = rows(10, 2)
    one, same, other = (
        estimate_complexities(DEEP, x, a, draws=3, steps=5, random_state=seed) for seed in (1, 1, 2)
    )
    assert one == same and one != other
