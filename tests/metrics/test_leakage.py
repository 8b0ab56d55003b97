"""Leakage in bits, against information known in closed form."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from equipoise.errors import InputError
from equipoise.metrics.leakage import leakage
from equipoise.tables import SensitiveTable


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks on busy cores are many times slower with two threads than with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def entropy(share: float) -> float:
    return float(-share * np.log2(share) - (1 - share) * np.log2(1 - share))


def noisy_copy(bits: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Nine in ten bits kept, the others turned round."""
    return np.where(random.random(len(bits)) < 0.9, bits, 1 - bits)


def test_gaussian_scores_leak_what_theory_says():
    """I = -log2(1 - rho^2) / 2; the value is a lower bound, and not far below."""
    random = np.random.default_rng(0)
    age, *noise = random.normal(size=(3, 4_000))
    rhos = np.array([0.0, 0.6])
    scores = rhos[:, None] * age + np.sqrt(1 - rhos**2)[:, None] * noise
    table = SensitiveTable.from_data({"age": age})
    found = leakage(np.exp(scores), table)
    known = -np.log2(1 - rhos**2) / 2
    assert found.rows == 4_000
    assert (found.bits <= known + 3 * found.standard_error).all()
    assert (found.bits >= 0.85 * known - 0.01).all()


def test_members_do_not_touch_each_other_and_the_seed_fixes_all():
    random = np.random.default_rng(4)
    age, noise = random.normal(size=(2, 400))
    table = SensitiveTable.from_data({"age": age})
    scores = np.stack([noise, age + noise])
    together = leakage(scores, table, iterations=100)
    alone = leakage(scores[1], table, iterations=100)
    assert together.bits.shape == (2,)
    assert alone.bits.shape == ()
    assert alone.bits == pytest.approx(together.bits[1], abs=1e-4)
    assert leakage(scores[1], table, iterations=100).bits == alone.bits


def test_a_noisy_copy_of_one_of_two_columns():
    random = np.random.default_rng(1)
    group, other = random.integers(0, 2, (2, 4_000))
    known = 1 - entropy(0.1)
    table = SensitiveTable.from_data({"group": group, "age": random.normal(size=4_000)})
    found = leakage(np.stack([noisy_copy(group, random), other]), table)
    assert found.bits[0] == pytest.approx(known, abs=3 * found.standard_error[0] + 0.03)
    assert found.bits[1] == pytest.approx(0, abs=0.01)


def test_given_a_discrete_outcome_only_what_goes_beyond_it_counts():
    """A follows y, and so does the score; only where y = 1 does the score copy A besides."""
    random = np.random.default_rng(2)
    y = random.integers(0, 2, 4_000)
    group = noisy_copy(y, random)
    table = SensitiveTable.from_data({"group": group})
    through_y = noisy_copy(y, random)
    assert leakage(through_y, table).bits > 0.2
    copied = np.where(y == 1, noisy_copy(group, random), through_y)
    known = 0.5 * (entropy(0.9 * 0.9 + 0.1 * 0.1) - entropy(0.1))  # half the rows copy
    found = leakage(np.stack([through_y, copied]), table, y=y)
    assert found.bits[0] == pytest.approx(0, abs=0.01)
    assert found.bits[1] == pytest.approx(known, abs=3 * found.standard_error[1] + 0.02)


def test_given_a_continuous_outcome_only_what_goes_beyond_it_counts():
    random = np.random.default_rng(3)
    y, shared, *noise = random.normal(size=(4, 3_000))
    age = SensitiveTable.from_data({"age": y + 0.6 * shared + 0.8 * noise[0]})
    assert leakage(y + noise[1], age).bits > 0.15
    found = leakage(np.stack([y + noise[1], y + shared]), age, y=y)
    assert found.bits[0] == pytest.approx(0, abs=0.02)
    known = -np.log2(1 - 0.36) / 2
    assert 0.75 * known <= found.bits[1] <= known + 3 * found.standard_error[1]


def test_too_few_rows_are_refused():
    with pytest.raises(InputError) as caught:
        leakage(np.arange(60), SensitiveTable.from_data([0, 1] * 30))
    assert str(caught.value) == (
        "scores must have at least 100 rows, for leakage to train a critic and to ask it, got 60"
    )
