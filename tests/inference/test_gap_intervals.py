"""Intervals, p-values and certificates of the gap: one rule, and coverage of a known truth."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from equipoise.errors import InputError
from equipoise.inference.certificate import radius
from equipoise.inference.gap import gap_estimates
from equipoise.metrics import find_metric, prepare
from equipoise.tables import SensitiveTable


def estimates(scores, a, kind="discrete", y=None, *, metric=None, threshold=None, **options):
    table = SensitiveTable.from_data({"a": a}, types={"a": kind})
    name = metric or ("gap" if y is None else "gap given Y")
    outcome = options.pop("outcome", None)
    weights = options.pop("weights", None)
    scored = prepare(scores, y, threshold=threshold, outcome=outcome, weights=weights)
    return gap_estimates(find_metric(name), scored.against(table["a"]), **options)


@pytest.mark.parametrize("shift", [0.0, 0.15, 0.3, 1.0])
@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_gap_interval_and_p_value_follow_one_rule(shift, kind):
    random = np.random.default_rng(0)
    a = random.integers(0, 3, 600) if kind == "discrete" else random.uniform(0, 2, 600)
    scores = random.normal(size=(40, 600)) + shift * (a > 1.5)
    for found in estimates(scores, a, kind):
        assert (found.value > 0) == (found.low > 0) == (found.p <= 0.05)
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert found.certificate >= found.high


def test_two_groups_by_hand():
    """All of one group above 0, none of the other: D = 1 at scores above 0."""
    (found,) = estimates(np.repeat([0.0, 1.0], 200), np.repeat(["f", "m"], 200))
    assert found.high == 1
    assert found.value == pytest.approx(np.sqrt(1 - found.chance**2))
    assert found.low == pytest.approx(1 - found.chance)
    assert found.where.startswith("a = f, 100 points at scores above 0 (")
    assert found.p == 1 / 1000


def test_the_certificate_adds_the_radius_of_massart_or_bretagnolle():
    random = np.random.default_rng(0)
    scores, a = random.normal(size=1000), np.repeat([0, 1], [400, 600])
    (found,) = estimates(scores, a)
    distance = np.hypot(found.value, found.chance) if found.value else None
    (many,) = estimates(scores, a, candidates=10)
    assert many.certificate - found.certificate == pytest.approx(
        radius(400, 600, 0.005) - radius(400, 600, 0.05), abs=1e-12
    )
    assert distance is None or found.certificate == pytest.approx(distance + radius(400, 600, 0.05))


@pytest.mark.parametrize(("n", "data_sets"), [(200, 250), (1000, 250)])
def test_intervals_and_certificates_cover_a_known_truth(n, data_sets):
    """Normal scores, one of three groups shifted: D in the population is 2 Phi(shift / 2) - 1."""
    random = np.random.default_rng(n)
    a = np.arange(n) % 3
    truth = 2 * norm.cdf(0.4) - 1  # of the shifted group against the others; others have less
    scores = random.normal(size=(data_sets, n)) + 0.8 * (a == 2)
    found = estimates(scores, a)
    covered = sum(each.low <= truth <= each.high for each in found)
    certified = sum(truth <= each.certificate for each in found)
    for hits in (covered, certified):
        assert binomtest(hits, data_sets, 0.95, alternative="less").pvalue > 0.001


def test_a_group_whose_share_is_nearer_to_one_half_has_a_longer_interval():
    """90 % of many and half of a few get the decision: by hand, and with the truth covered."""
    few, many = 100, 900
    a = np.repeat(["f", "m"], [few, many])
    decisions = np.r_[np.arange(few) % 2, (np.arange(many) % 10 > 0)].astype(float)
    (found,) = estimates(decisions, a, metric="decision gap", threshold=0.5)
    own, others, share = 0.5, 0.9, 0.86
    wide = (own * (1 - own) / few + others * (1 - others) / many) ** 0.5
    wide /= (share * (1 - share) * (1 / few + 1 / many)) ** 0.5
    distance, chance = 0.4, found.chance
    assert wide == pytest.approx(1.394, abs=1e-3)
    assert found.high == pytest.approx(distance + chance * wide)
    assert found.low == pytest.approx((distance - chance) / (1 + chance * (wide - 1) / distance))
    random = np.random.default_rng(5)
    drawn = np.c_[random.random((150, few)) < own, random.random((150, many)) < others]
    held = [
        each.low <= 0.4 <= each.high
        for each in estimates(drawn * 1.0, a, metric="decision gap", threshold=0.5)
    ]
    assert binomtest(sum(held), 150, 0.95, alternative="less").pvalue > 0.01


def test_unequal_weights_have_no_certificate_and_say_why():
    random = np.random.default_rng(0)
    weights = random.integers(1, 3, 400)
    (found,) = estimates(random.normal(size=400), np.arange(400) % 2, weights=weights)
    assert np.isnan(found.certificate) and "no certificate" in found.note


def test_groups_too_small_are_named_with_their_sizes():
    random = np.random.default_rng(0)
    a = np.repeat(["x", "y", "z"], [200, 200, 7])
    (found,) = estimates(random.normal(size=407), a)
    assert found.unjudged == "a = z (7 in, 400 out)"


@pytest.mark.parametrize("rows", [1, 2, 5, 10])
def test_a_group_of_a_few_rows_gives_no_interval_that_excludes_0(rows):
    random = np.random.default_rng(rows)
    a = np.repeat(["x", "y"], [200, rows])
    for found in estimates(random.normal(size=(20, 200 + rows)), a):
        assert np.isnan(found.value) and f"a = y ({rows} in, 200 out)" in found.reason


@pytest.mark.parametrize(
    ("option", "value"), [("level", 1.0), ("permutations", 0), ("candidates", 0)]
)
def test_bad_options_are_refused_by_name(option, value):
    with pytest.raises(InputError, match=option):
        estimates(np.arange(100.0), np.arange(100) % 2, **{option: value})
