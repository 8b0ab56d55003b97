import copy
import io
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm, qmc
from torch import nn

from equipoise import SBPPenalty
from equipoise.errors import InputError

CORRELATION = 0.5


def gaussian_pairs(n, generator, correlation=CORRELATION):
    first, second = torch.randn(2, n, generator=generator)
    return first, correlation * first + math.sqrt(1 - correlation**2) * second


def integrated_divergences():
    """f-divergences of the bivariate Gaussian from the product of its margins, on a fine grid."""
    grid = np.linspace(-8, 8, 601)
    cell = (grid[1] - grid[0]) ** 2
    s, a = np.meshgrid(grid, grid)
    share = 1 - CORRELATION**2
    log_q = -(s**2 + a**2) / 2 - math.log(2 * math.pi)
    log_p = -(s**2 - 2 * CORRELATION * s * a + a**2) / (2 * share) - math.log(
        2 * math.pi * math.sqrt(share)
    )
    p, q = np.exp(log_p), np.exp(log_q)
    log_middle = np.logaddexp(log_p, log_q) - math.log(2)
    return {
        "js": ((p * (log_p - log_middle)).sum() + (q * (log_q - log_middle)).sum()) * cell,
        "kl": (p * (log_p - log_q)).sum() * cell,
        "chi2": ((p - q) ** 2 / q).sum() * cell,
        "hellinger": ((np.sqrt(p) - np.sqrt(q)) ** 2).sum() * cell,
    }


def transported_distance():
    """Wasserstein-1 by optimal assignment of two quasi-random samples of 2048 points."""
    product = norm.ppf(qmc.Sobol(2, seed=0).random(2048))
    joint = product @ np.array([[1, CORRELATION], [0, math.sqrt(1 - CORRELATION**2)]])
    distance = np.linalg.norm(joint[:, None] - product[None], axis=2)
    return distance[linear_sum_assignment(distance)].mean()


@pytest.fixture(scope="module")
def known_divergences():
    return {**integrated_divergences(), "wasserstein": transported_distance()}


def test_the_integration_agrees_with_closed_forms(known_divergences):
    assert known_divergences["kl"] == pytest.approx(-0.5 * math.log(1 - CORRELATION**2), rel=1e-6)
    assert known_divergences["chi2"] == pytest.approx(
        CORRELATION**2 / (1 - CORRELATION**2), rel=1e-6
    )


@pytest.mark.parametrize("divergence", ["js", "kl", "chi2", "hellinger", "wasserstein"])
def test_a_trained_critic_finds_the_divergence_within_ten_percent(divergence, known_divergences):
    generator = torch.Generator().manual_seed(0)
    penalty = SBPPenalty(
        divergence=divergence,
        learning_rate=6e-3,
        gradient_penalty=10 if divergence == "wasserstein" else 0,
    )
    for _ in range(150):
        penalty(*gaussian_pairs(2000, generator))
    penalty.eval()
    with torch.no_grad():
        value = penalty(*gaussian_pairs(200_000, generator)).item()
    assert value == pytest.approx(known_divergences[divergence], rel=0.1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalization": "batch"},
        {"normalization": "spectral"},
        {"divergence": "wasserstein", "gradient_penalty": 10},
        {"notion": "separation"},
    ],
    ids=str,
)
@pytest.mark.parametrize("width", [1, 3])
def test_the_gradient_agrees_with_finite_differences(options, width):
    generator = torch.Generator().manual_seed(1)
    score, a = torch.randn(2, 24, width, generator=generator, dtype=torch.float64)
    y = (torch.rand(24, generator=generator) < 0.5,) if "notion" in options else ()
    penalty = SBPPenalty(hidden=(6,), **options)
    for _ in range(5):
        penalty(score, a, *y)

    drawn = a.roll(1, 0)[None]
    outcome = y[0][None, :, None].double() if y else None
    weights = (None, penalty.ratio.ratio(drawn, outcome)) if y else (None, None)

    def value(score):
        # A copy each time: in training mode a call moves running statistics along.
        return copy.deepcopy(penalty.game).value(score[None], a[None], drawn, outcome, weights)

    assert torch.autograd.gradcheck(value, score.requires_grad_(), eps=1e-6, atol=1e-6)


def test_a_critic_that_guesses_gives_exactly_zero_and_every_critic_starts_so():
    score, a = gaussian_pairs(50, torch.Generator().manual_seed(0))
    assert SBPPenalty().eval()(score, a).item() == 0.0


def test_the_score_can_not_hide_by_shrinking():
    score, a = gaussian_pairs(400, torch.Generator().manual_seed(0))
    values = []
    for scale in (1.0, 0.01):
        penalty = SBPPenalty()
        for _ in range(30):
            value = penalty(scale * score + 5, a)
        values.append(value.item())
    assert values[0] == pytest.approx(values[1], rel=0.05)


def test_evaluation_trains_nothing():
    score, a = gaussian_pairs(50, torch.Generator().manual_seed(0))
    penalty = SBPPenalty()
    penalty(score, a)
    penalty.eval()
    before = copy.deepcopy(penalty.state_dict())
    penalty(score, a)
    after = penalty.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before if k.startswith("game.critic"))


def test_the_penalty_leaves_no_gradient_in_the_critic_and_none_is_lost_in_the_score():
    score, a = gaussian_pairs(50, torch.Generator().manual_seed(0))
    score.requires_grad_()
    penalty = SBPPenalty()
    value = penalty(score, a)
    for parameter in penalty.parameters():
        parameter.grad = None
    value.backward()
    assert all(parameter.grad is None for parameter in penalty.parameters())
    assert score.grad.abs().max() > 0


def test_it_trains_under_no_grad_too():
    score, a = gaussian_pairs(400, torch.Generator().manual_seed(0))
    penalty = SBPPenalty()
    with torch.no_grad():
        first = penalty(score, a).item()
        for _ in range(60):
            last = penalty(score, a).item()
    assert last > first + 0.01


def test_five_added_lines_mitigate_in_a_plain_loop():
    """A predictor that starts fully dependent on a keeps what is left of x without it."""
    generator = torch.Generator().manual_seed(0)
    merit, a = torch.randn(2, 2000, generator=generator)
    x = torch.stack([merit, a], 1)
    target = merit + a
    correlations = []
    for strength in (0.0, 0.99):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
        penalty = SBPPenalty()
        for _ in range(500):
            rows = torch.randint(2000, (256,), generator=generator)
            score = model(x[rows]).squeeze(-1)
            task = nn.functional.mse_loss(score, target[rows])
            loss = (1 - strength) * task + strength * penalty(score, a[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            score = model(x).squeeze(-1)
        correlations.append(abs(np.corrcoef(score, a)[0, 1]))
    assert correlations[0] > 0.65
    assert correlations[1] < 0.15


def test_integer_weights_count_rows():
    """Weight 0 removes a row: the critic learns the same from a batch without it."""
    score, a = gaussian_pairs(400, torch.Generator().manual_seed(0))
    poisoned = torch.cat([score, torch.full((400,), 3.0)]), torch.cat([a, torch.full((400,), 9.0)])
    weight = torch.cat([torch.ones(400), torch.zeros(400)])
    penalty = SBPPenalty()
    for _ in range(50):
        value = penalty(*poisoned, sample_weight=weight)
    for parameter in penalty.game.critic.parameters():
        assert parameter.isfinite().all()
    # The rows without weight would be told apart at once; with weight 0 only the Gaussian
    # dependence is left, whose value is below 0.08.
    assert 0 < value.item() < 0.15


def test_a_resumed_run_goes_on_bit_for_bit():
    generator = torch.Generator().manual_seed(0)
    batches = [gaussian_pairs(64, generator) for _ in range(8)]
    y = [(a > 0).float() for _, a in batches]
    whole = SBPPenalty(notion="separation")
    for (score, a), label in zip(batches, y, strict=True):
        expected = whole(score, a, label)
    first = SBPPenalty(notion="separation")
    for (score, a), label in zip(batches[:4], y[:4], strict=True):
        first(score, a, label)
    saved = io.BytesIO()
    torch.save(first.state_dict(), saved)
    saved.seek(0)
    from_file, from_memory = SBPPenalty(notion="separation"), SBPPenalty(notion="separation")
    from_file.load_state_dict(torch.load(saved, weights_only=True))
    from_memory.load_state_dict(first.state_dict())
    for (score, a), label in zip(batches[4:], y[4:], strict=True):
        values = [penalty(score, a, label) for penalty in (from_file, from_memory, first)]
    assert all(torch.equal(value, expected) for value in values)


def test_same_random_state_same_values_and_the_global_generator_is_untouched():
    score, a = gaussian_pairs(64, torch.Generator().manual_seed(0))
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    values = [SBPPenalty(random_state=seed)(score, a).item() for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(1), expected)
    assert values[0] == values[1] != values[2]


ROWS = torch.zeros(4)


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        (
            {"notion": "separation"},
            (ROWS, ROWS),
            r"y is required under notion='separation', got None; call penalty\(score, a, y\)",
        ),
        (
            {},
            (ROWS, ROWS, ROWS),
            "y must be left out under notion='independence', .* leave it out or set notion=",
        ),
        ({}, (ROWS, ROWS[:3]), "a must have as many rows as score, got 3 and 4"),
        ({}, (ROWS.long(), ROWS), "score must be floating point, got torch.int64"),
        (
            {},
            (ROWS.view(2, 2, 1), ROWS),
            r"score must have shape \(n,\) or \(n, width\), got \(2, 2, 1\)",
        ),
        ({}, (ROWS[:1], ROWS[:1]), "a batch must have at least 2 rows to resample from, got 1"),
        (
            {},
            (ROWS, ROWS / 0),
            "a must be finite, got infinite values or NaN, .* leave out such rows. Nothing",
        ),
    ],
)
def test_bad_batches_are_refused(options, arguments, message):
    with pytest.raises(InputError, match=message):
        SBPPenalty(**options)(*arguments)


def test_widths_must_stay():
    penalty = SBPPenalty()
    penalty(torch.zeros(4, 2), torch.zeros(4))
    with pytest.raises(
        InputError,
        match=r"widths of \(score, a, y\) must stay as in the first call, \(2, 1, 0\), "
        r"got \(1, 1, 0\)",
    ):
        penalty(ROWS, ROWS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"notion": "parity"}, "notion must be 'independence' or 'separation', got 'parity'"),
        ({"density_ratio": "counts"}, "density_ratio must be 'network' or 'none', got 'counts'"),
        ({"steps": 0}, "^steps must be a whole number of at least 1, got 0"),
        (
            {"normalization": "layer"},
            "^normalization must be one of 'batch', 'spectral', 'none', got 'layer'",
        ),
        ({"gradient_penalty": -1}, "gradient_penalty must not be negative, got -1"),
        (
            {"gradient_penalty": 10, "normalization": "batch"},
            "gradient_penalty needs a critic without batch normalization, got "
            "normalization='batch', .*; set normalization='none'",
        ),
        (
            {"divergence": "wasserstein"},
            "divergence='wasserstein' needs a critic with a bounded gradient, got "
            "normalization='none' and gradient_penalty=0; set normalization='none' and "
            "gradient_penalty=10",
        ),
        ({"optimizer": "rmsprop"}, "optimizer must be 'adam' or 'sgd', got 'rmsprop'"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        SBPPenalty(**options)


@pytest.mark.parametrize(
    ("options", "setting", "remedy"),
    [
        ({"momentum": 0.9}, "optimizer='adam'", "optimizer='sgd'"),
        ({"density_ratio": "none"}, "notion='independence'", "notion='separation'"),
    ],
)
def test_options_that_would_change_nothing_are_refused(options, setting, remedy):
    ((option, value),) = options.items()
    with pytest.raises(InputError) as refused:
        SBPPenalty(**options)
    for part in (option, f"no meaning for {setting}", f"got {value!r}", "leave it out", remedy):
        assert part in str(refused.value)
    SBPPenalty(notion="separation", optimizer="sgd", **options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"hidden": (-3,)}, "hidden"),
        ({"hidden": (0,)}, "hidden"),
        ({"hidden": "64"}, "hidden"),
        ({"hidden": 64}, "hidden"),
        ({"steps": 1.5}, "steps"),
        ({"gradient_penalty": math.nan}, "gradient_penalty"),
        ({"learning_rate": None}, "learning_rate"),
        ({"learning_rate": math.inf}, "learning_rate"),
        ({"momentum": "high"}, "momentum"),
        ({"divergence": ["js"]}, "divergence"),
        ({"random_state": None}, "random_state"),
        ({"density_ratio": "nonn"}, "density_ratio"),
    ],
)
def test_options_of_a_wrong_kind_are_named(options, named):
    with pytest.raises(InputError, match=f"^{named} must "):
        SBPPenalty(**options)


SCORES = torch.tensor([0.1, 0.4, -0.2, 0.3])


@pytest.mark.parametrize(
    ("weight", "found"),
    [
        (
            torch.tensor([1.0, math.nan, 1.0, 1.0]),
            "sample_weight must be finite, got infinite values or NaN",
        ),
        (
            torch.tensor([1.0, math.inf, 1.0, 1.0]),
            "sample_weight must be finite, got infinite values or NaN",
        ),
        (torch.tensor([1.0, -2.0, 1.0, 1.0]), "sample_weight must not be negative, got -2;"),
        (torch.zeros(4), "sample_weight must be positive for some row"),
        (torch.ones(3), "sample_weight must have as many rows as score, got 3 and 4"),
        (torch.ones(4, 2), r"sample_weight must have shape \(n,\), got \(4, 2\)"),
        (np.ones(4), "sample_weight must be a tensor, got ndarray; torch.as_tensor"),
        ([1.0] * 4, "sample_weight must be a tensor, got list; torch.as_tensor"),
    ],
)
def test_weights_are_checked_before_anything_is_trained(weight, found):
    penalty = SBPPenalty()
    with pytest.raises(InputError, match=found):
        penalty(SCORES, ROWS, sample_weight=weight)
    assert penalty.game is None


def test_weights_may_be_a_column_and_of_any_size():
    weight = torch.tensor([1.0, 2.0, 0.0, 4.0])

    def value(weight):
        penalty = SBPPenalty(random_state=1)
        penalty(SCORES, -SCORES, sample_weight=weight)
        return penalty(SCORES, -SCORES, sample_weight=weight).item()

    expected = value(weight)
    for other in (weight[:, None], weight.double() * 1e-200, weight.long(), weight * 2.0**100):
        assert value(other) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((pd.DataFrame({"s": [1.0, 2.0]}), ROWS[:2]), "score must be a tensor, got DataFrame"),
        (
            (ROWS, pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0]})),
            r"a must be a tensor, got DataFrame; torch.from_numpy\(SensitiveTable.from_data\(A\)",
        ),
        ((ROWS, np.zeros(4)), "a must be a tensor, got ndarray"),
        ((ROWS, [0.0] * 4), "a must be a tensor, got list"),
        ((ROWS, ROWS * 1j), "a must hold real numbers, got torch.complex64"),
        ((ROWS, torch.zeros(4, 0)), r"a must have shape \(n,\) or \(n, width\), got \(4, 0\)"),
        ((ROWS, torch.zeros(4, device="meta")), "a must be on the device of score, cpu, got meta"),
    ],
)
def test_what_is_no_tensor_of_numbers_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        SBPPenalty()(*arguments)


def test_the_precision_must_stay():
    penalty = SBPPenalty()
    penalty(SCORES, ROWS)
    with pytest.raises(InputError, match=r"score must stay torch.float32 .*, got torch.float64"):
        penalty(SCORES.double(), ROWS)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"notion": "separation"},
        {"normalization": "batch"},
        {"normalization": "spectral"},
        {"gradient_penalty": 1.0, "divergence": "wasserstein"},
    ],
)
def test_two_calls_before_one_backward_give_each_score_its_own_slope(options):
    """Gradient accumulation: the slope of a value is that of the critic that gave it."""
    draw = torch.Generator().manual_seed(0)
    a, y = torch.randn(2, 2, 64, generator=draw)
    start = a + 0.1 * torch.randn(2, 64, generator=draw)
    extra = y if options.get("notion") == "separation" else [None, None]

    def slopes(at_once):
        penalty = SBPPenalty(hidden=(8,), **options)
        for _ in range(3):  # a critic that has learned nothing has no slope
            penalty(start[0], a[0], extra[0])
        scores = [part.clone().requires_grad_() for part in start]
        values = []
        for score, attribute, outcome in zip(scores, a, extra, strict=True):
            values.append(penalty(score, attribute, outcome))
            if not at_once:
                values.pop().backward()
        if at_once:
            sum(values).backward()
        return [score.grad for score in scores]

    expected = slopes(at_once=False)
    assert all(slope.abs().max() > 0 for slope in expected)
    for found, slope in zip(slopes(at_once=True), expected, strict=True):
        torch.testing.assert_close(found, slope, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("switched_off", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("options", [{}, {"notion": "separation"}])
def test_the_critic_learns_where_gradients_are_switched_off(switched_off, options):
    def values():
        draw = torch.Generator().manual_seed(0)
        a, y = torch.randn(2, 64, generator=draw)
        penalty = SBPPenalty(hidden=(8,), **options)
        return [penalty(a, a, y if options else None).item() for _ in range(5)]

    expected = values()
    with switched_off():
        assert values() == pytest.approx(expected)


def test_batch_normalization_needs_a_hidden_layer_of_the_critic():
    with pytest.raises(InputError, match=r"^normalization has no meaning for hidden=\(\), got 'ba"):
        SBPPenalty(hidden=(), normalization="batch")
    SBPPenalty(hidden=(), normalization="spectral")
