"""Bootstrap intervals: exact laws, agreement of both ways to draw, and measured coverage."""

import numpy as np
import pytest
import torch
from scipy.stats import kstwo, norm

from equipoise.errors import InputError
from equipoise.inference import bootstrap
from equipoise.inference.bootstrap import (
    EXACT_ROWS,
    SCORE_EDGES,
    THRESHOLD_FOUND,
    basic_interval,
    compress,
    deviation_interval,
    drawn_deviations,
)
from equipoise.inference.dependence_intervals import dependence_interval
from equipoise.metrics import METRICS, find_metric
from equipoise.metrics.sample import prepare
from equipoise.metrics.utility import youden_of_weightings, youden_threshold
from equipoise.tables import SensitiveTable

SEMINORMS = [
    pytest.param(metric, kind, outcome, id=f"{metric.name}-{kind}-{outcome}")
    for metric in METRICS.values()
    if metric.deviation is not None
    for kind in sorted(metric.attributes)
    for outcome in ("binary", "continuous")
    if outcome in metric.outcomes
]


def data(n, seed=0, members=1, outcome="binary"):
    rng = np.random.default_rng(seed)
    age, group = rng.normal(size=n), rng.integers(0, 3, n)
    y = rng.integers(0, 2, n) if outcome == "binary" else rng.normal(size=n)
    scores = rng.normal(size=(members, n)) + 0.3 * age + 0.2 * group + 0.5 * y
    table = SensitiveTable.from_data({"continuous": age, "discrete": group})
    return 1 / (1 + np.exp(-scores)), table, y


def size(metric, value):
    return -torch.log(value) if metric.is_ratio else value


@pytest.mark.parametrize(("metric", "kind", "outcome"), SEMINORMS)
def test_sizes_differ_by_at_most_the_deviation(metric, kind, outcome):
    scores, table, y = data(150, members=2, outcome=outcome)
    sample = prepare(scores, y).against(table[kind])
    draws = np.random.default_rng(1).multinomial(150, np.full(150, 1 / 150), size=50)
    drawn = sample.reweight(torch.from_numpy(draws.astype(float)))
    deviation = metric.deviation(drawn, sample)
    change = size(metric, metric.compute(drawn).values) - size(
        metric, metric.compute(sample).values
    )
    defined = ~change.isnan()
    # A draw's ratio to a rate near 0 is no value to report; its departure still counts.
    assert not bool(deviation[defined].isnan().any())
    assert int(defined.sum()) >= 50
    assert bool((change.abs() <= deviation + 1e-12)[defined].all())
    assert bool((deviation > 1e-3)[defined].all())
    assert metric.deviation(sample, sample).abs().max() == 0


def test_what_draws_miss_is_a_share_of_a_row_of_each_large_set_and_nothing_where_scores_are_equal():
    group = np.repeat(["a", "b", "c"], [40, 100, 10])
    table = SensitiveTable.from_data({"g": group})
    scores = np.stack([np.arange(150.0), np.zeros(150)])
    (missed, tied) = find_metric("KS-GSP").missed(prepare(scores).against(table["g"])).tolist()
    share = 0.5826 - 1 / 6
    assert missed == pytest.approx(share / 40 + share / 100)  # ten rows are drawn from everybody's
    assert tied == pytest.approx(missed / 150)  # a single distinct score


@pytest.mark.parametrize(
    ("metric", "kind", "outcome"), [case for case in SEMINORMS if case.values[0].from_counts]
)
def test_summing_up_rows_of_equal_score_changes_nothing(metric, kind, outcome):
    scores, table, y = data(500, members=2, outcome=outcome)
    sample = prepare(scores.round(1), y).against(table[kind])
    found = [float(metric.compute(compress(sample, k)[0]).values) for k in (0, 1)]
    assert found == pytest.approx(metric.compute(sample).values[0].tolist(), rel=1e-12)
    assert [compress(sample, k)[1] for k in (0, 1)] == [0, 0]


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
@pytest.mark.parametrize("outcome", ["binary", "continuous"])
def test_summing_up_many_scores_moves_distances_less_than_the_bound(kind, outcome):
    scores, table, y = data(60_000, outcome=outcome)
    sample = prepare(scores, y, threshold=None).against(table[kind])
    small, share = compress(sample, 0)
    assert small.weights.sum() == 60_000
    assert 0 < share <= 1.1 * (10 if outcome == "continuous" else 2) / SCORE_EDGES
    for name, terms in (("KS-GSP", 3), ("KS-GEO", 6)):
        exact = float(METRICS[name].compute(sample).values)
        binned = float(METRICS[name].compute(small).values)
        assert binned <= exact + 1e-12
        assert exact - binned <= terms * share
        # Well below the bound: between two edges the difference of distributions moves little.
        assert exact - binned <= terms * share / 4


@pytest.mark.parametrize("threshold", ["youden", 0.3, 0.5123, 0.7])
def test_summing_up_keeps_decisions_exact(threshold):
    scores, table, y = data(30_000)
    sample = prepare(scores, y, threshold=threshold).against(table["discrete"])
    for name in ("SP", "EO", "demographic parity ratio", "equalized odds difference"):
        exact = float(METRICS[name].compute(sample).values)
        small = float(METRICS[name].compute(compress(sample, 0)[0]).values)
        assert small == pytest.approx(exact, rel=1e-12)


def test_summing_up_leaves_out_rows_without_a():
    group = [None, "a", "b", "a", "b", None] * 10
    column = SensitiveTable.from_data({"g": group}, missing="skip")["g"]
    sample = prepare(np.linspace(0, 1, 60)).against(column)
    assert compress(sample, 0)[0].weights.sum() == 40


def test_both_ways_to_draw_give_the_same_intervals_up_to_chance():
    n = EXACT_ROWS + 4_000
    scores, table, y = data(n)
    columns = [table["discrete"]]
    metrics = ("KS-GSP", "KS-GEO", "SP", "equalized odds difference")
    counted = bootstrap(metrics, scores, columns, y, draws=300, threshold=0.6)
    sample = prepare(scores, y, threshold=0.6).against(columns[0])
    generator = np.random.default_rng(7)
    rows = generator.multinomial(n, np.full(n, 1 / n), size=300).astype(float)
    drawn = sample.reweight(torch.from_numpy(rows))
    for name, interval in zip(metrics, counted, strict=True):
        metric = METRICS[name]
        assert interval.note.startswith("drawn from binned scores")
        assert interval.value == float(metric.compute(sample).values)
        deviations = metric.deviation(drawn, sample)[:, 0].numpy()
        _, high = deviation_interval(interval.value, deviations, 0.95, metric)
        assert interval.high - interval.value == pytest.approx(high - interval.value, rel=0.15)


def test_the_same_seed_gives_the_same_intervals_and_another_seed_others():
    scores, table, y = data(200, members=2)
    first = bootstrap(["KS-GSP", "EO"], scores, table, y, draws=40, random_state=3)
    assert first == bootstrap(["KS-GSP", "EO"], scores, table, y, draws=40, random_state=3)
    assert first != bootstrap(["KS-GSP", "EO"], scores, table, y, draws=40, random_state=4)
    expected = [
        value
        for column in table.columns
        for metric in ("KS-GSP", "EO")
        for value in METRICS[metric].compute(prepare(scores, y).against(column)).values[0].tolist()
    ]
    assert [each.value for each in first] == expected


def test_the_global_random_state_is_untouched():
    scores, table, y = data(50)
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    bootstrap(["KS-GSP"], scores, table, y, draws=5)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_a_member_alone_has_the_interval_it_has_among_others():
    scores, table, y = data(200, members=3)
    together = bootstrap(["KS-GEO"], scores, [table["discrete"]], y, draws=30)
    (alone,) = bootstrap(["KS-GEO"], scores[2], [table["discrete"]], y, draws=30)
    assert (alone.low, alone.high) == pytest.approx((together[2].low, together[2].high))


def test_every_registered_metric_has_an_interval_around_its_value():
    scores, table, y = data(300)
    defined = [metric for metric in METRICS.values() if "binary" in metric.outcomes]
    found = bootstrap(defined, scores, [table["discrete"]], y, draws=20)
    for metric, interval in zip(defined, found, strict=True):
        low, high = metric.range
        assert low <= interval.low <= interval.high <= high, interval
        assert interval.low < interval.high, interval
        assert interval.reason == ""
        assert ("the threshold was found on these rows" in interval.note) == metric.needs_decisions
        assert (interval.level, interval.n) == (0.95, 300)


@pytest.mark.parametrize("name", ["GDP", "HGR|Y", "dCor", "HSIC|Y"])
def test_measures_of_dependence_have_the_intervals_of_an_audit(name):
    """A basic interval of draws left the value outside in 58 % of samples."""
    scores, table, y = data(200, members=2, outcome="continuous")
    found = bootstrap([name], scores, [table["continuous"]], y, draws=30, random_state=5)
    for score, interval in zip(scores, found, strict=True):
        alone = SensitiveTable((table["continuous"],))
        given = {"y": y, "outcome": "continuous"} if name.endswith("|Y") else {}
        expected = dependence_interval(
            name.removesuffix("|Y"), score, alone, **given, draws=30, random_state=5
        )
        assert interval == expected
        assert interval.low <= interval.value <= interval.high


def test_a_metric_that_does_not_apply_is_there_with_its_reason():
    scores, table, y = data(100)
    (interval,) = bootstrap(["demographic parity ratio"], scores, [table["continuous"]], y)
    assert np.isnan([interval.value, interval.low, interval.high]).all()
    assert "is defined for discrete attributes" in interval.reason


def test_an_undefined_value_has_no_interval():
    column = SensitiveTable.from_data({"g": [0] * 30 + [1] * 20})["g"]
    scores = np.repeat([0.0, 1.0], [30, 20])
    (interval,) = bootstrap(["SP"], scores, [column], threshold=0.5, draws=10)
    assert np.isnan([interval.value, interval.low, interval.high]).all()
    assert interval.reason.startswith("the rate of positive decisions of g = 0 in all rows is 0")


def test_undefined_draws_are_counted():
    """A rate of 0 in the reference group of a draw leaves SP without a denominator."""
    column = SensitiveTable.from_data({"g": [0] * 60 + [1] * 40})["g"]
    scores = np.concatenate([np.arange(60) < 4, np.arange(40) < 20]).astype(float)
    (interval,) = bootstrap(["SP"], scores, [column], threshold=0.5, draws=200, random_state=1)
    generator = np.random.default_rng(1)
    expected = sum((generator.integers(100, size=100) >= 4).all() for _ in range(200))
    assert expected > 0
    assert interval.note == f"undefined in {expected} of 200 draws, which are left out"


SMALL = ("KS-GSP", "SP", "demographic parity difference", "demographic parity ratio")


@pytest.mark.parametrize("sizes", [(200, 1), (150, 10, 3)])
def test_a_group_of_a_few_rows_does_not_exclude_fairness_by_itself(sizes):
    """Draws of one row are all alike: 200 of 200 intervals of KS-GSP excluded 0."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    column = SensitiveTable.from_data({"g": group}, types={"g": "discrete"})["g"]
    excluded = dict.fromkeys(SMALL, 0)
    for seed in range(40):
        scores = np.random.default_rng(seed).random(len(group))
        found = bootstrap(SMALL, scores, [column], threshold=0.6, draws=39, random_state=seed)
        for name, interval in zip(SMALL, found, strict=True):
            excluded[name] += not interval.low <= METRICS[name].fair_value <= interval.high
            # G groups are at most G - 1 apart.
            assert interval.high <= len(sizes) - 1 or name == "SP"
    # At a coverage of 95 %, seven or more of 40 miss with probability 0.3 %.
    assert max(excluded.values()) < 7, excluded


def test_a_small_group_gets_the_reach_of_kolmogorovs_law():
    """One group of 20 among 20 000 rows: the reach is the quantile of sup abs(F_20 - F)."""
    rng = np.random.default_rng(0)
    group = np.r_[np.zeros(20_000, int), np.ones(20, int)]
    column = SensitiveTable.from_data({"g": group})["g"]
    (interval,) = bootstrap(["KS-GSP"], rng.random(len(group)), [column], draws=400)
    assert interval.high - interval.value == pytest.approx(kstwo.ppf(0.95, 20), rel=0.1)


def test_the_largest_value_bounds_the_interval():
    """Deciles of A: sup abs(F_B - F) <= 1 - P(B), whose mean over the nine is 0.5."""
    age = np.arange(400.0)
    column = SensitiveTable.from_data({"age": age})["age"]
    (interval,) = bootstrap(["KS-GSP"], age, [column], draws=50)
    assert interval.value == pytest.approx(0.5, abs=1e-12)
    assert interval.high == pytest.approx(0.5, abs=1e-12)


def test_a_threshold_found_on_the_rows_is_found_anew_in_every_draw():
    scores, table, y = data(300, seed=3)
    columns = [table["discrete"]]
    names = ("SP", "equalized odds difference")
    found = bootstrap(names, scores, columns, y, draws=99)
    given = float(prepare(scores, y).threshold)
    fixed = bootstrap(names, scores, columns, y, draws=99, threshold=given)
    for of_rows, of_user in zip(found, fixed, strict=True):
        assert of_rows.value == of_user.value
        assert of_rows.high - of_rows.low > of_user.high - of_user.low
        assert (of_rows.note, of_user.note) == (THRESHOLD_FOUND, "")


def test_decisions_summed_up_deviate_as_rows_do():
    """With one threshold for all draws, sums of decisions give the deviations of the rows."""
    scores, table, y = data(300, seed=4)
    sample = prepare(scores, y, threshold=0.6).against(table["discrete"])
    drawn = torch.from_numpy(
        np.random.default_rng(1).multinomial(300, np.full(300, 1 / 300), size=9).astype(float)
    )
    for name in ("SP", "EO", "demographic parity ratio", "equalized odds difference"):
        metric = METRICS[name]
        expected = metric.deviation(sample.reweight(drawn), sample)[:, 0]
        found = drawn_deviations([metric], sample, drawn)[metric.name]
        torch.testing.assert_close(found, expected)


def test_youden_of_weightings_is_that_of_each():
    scores, _, y = data(80, seed=5)
    weights = torch.from_numpy(np.random.default_rng(2).integers(0, 4, (6, 80)).astype(float))
    scored = prepare(scores, y)
    found = youden_of_weightings(scored.ranking, scored.y, weights)
    for weight, threshold in zip(weights, found, strict=True):
        expected = youden_threshold(scores[0], y, weights=weight.numpy())
        gains = [youden_j(scores[0], y, weight, float(cut)) for cut in (threshold, expected)]
        assert gains[0] == pytest.approx(gains[1], abs=1e-12)


def youden_j(scores, y, weight, threshold):
    decided = torch.from_numpy(scores > threshold)
    positive = torch.from_numpy(y == 1)
    rates = [
        float((weight * decided * inside).sum() / (weight * inside).sum())
        for inside in (positive, ~positive)
    ]
    return rates[0] - rates[1]


def test_a_named_reference_is_used():
    scores, table, y = data(100)
    column = table["discrete"]
    for reference in (0, 2):
        (interval,) = bootstrap(
            ["SP"], scores, [column], y, draws=5, references={"discrete": reference}
        )
        sample = prepare(scores, y).against(column, reference)
        assert interval.value == float(METRICS["SP"].compute(sample).values)


def test_the_deviation_interval_takes_the_right_order_statistic():
    deviations = np.arange(1, 20) / 100  # 19 draws: the 19th of 19 is exceeded once in 20
    low, high = deviation_interval(0.5, deviations, 0.95, METRICS["KS-GSP"])
    assert (low, high) == pytest.approx((0.5 - 0.19, 0.5 + 0.19))
    low, high = deviation_interval(0.5, deviations[:11], 0.9, METRICS["KS-GSP"])
    assert (low, high) == pytest.approx((0.5 - 0.11, 0.5 + 0.11))  # ceil(0.9 * 12) = 11
    low, high = deviation_interval(0.5, deviations, 0.5, METRICS["demographic parity ratio"])
    assert (low, high) == pytest.approx((0.5 * np.exp(-0.1), 0.5 * np.exp(0.1)))
    assert deviation_interval(0.01, deviations, 0.95, METRICS["KS-GSP"])[0] == 0.0


def test_the_basic_interval_reflects_quantiles():
    """Of 99 draws, numbers 5 and 95: a further draw is beyond either once in twenty."""
    draws = np.arange(1, 100) / 100
    assert basic_interval(0.6, draws, 0.9, (0.0, 1.0)) == pytest.approx((0.25, 1.0))


def test_the_basic_interval_holds_its_own_value():
    low, high = basic_interval(0.2, np.linspace(0.5, 0.6, 20), 0.9, (0.0, 1.0))
    assert (low, high) == (0.0, 0.2)


@pytest.mark.parametrize("shift", [0.0, 0.5])
@pytest.mark.parametrize("name", ["KS-GSP", "demographic parity difference"])
def test_intervals_cover_the_truth(name, shift):
    """200 samples of 200 rows; true values in closed form. Percentile intervals cover 0 never."""
    truth = {
        "KS-GSP": 2 * norm.cdf(shift / 2) - 1,
        "demographic parity difference": norm.cdf(shift) - norm.cdf(0),
    }[name]
    rng = np.random.default_rng(0)
    group = np.arange(200) % 2
    column = SensitiveTable.from_data({"g": group})["g"]
    covered = 0
    for seed in range(200):
        scores = rng.normal(size=200) + shift * group
        (interval,) = bootstrap(
            [name], scores, [column], threshold=0.0, draws=99, random_state=seed
        )
        covered += interval.low <= truth <= interval.high
    # At least 95 %, less three standard errors of 200 samples.
    assert covered / 200 >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 1}, "draws must be a whole number of at least 2, got 1"),
        ({"level": 95}, "level must lie strictly between 0 and 1, got 95; try level=0.95"),
    ],
)
def test_bad_options_are_refused_in_words(options, message):
    scores, table, y = data(50)
    with pytest.raises(InputError) as caught:
        bootstrap(["KS-GSP"], scores, table, y, **options)
    assert str(caught.value) == message
