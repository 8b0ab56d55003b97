import numpy as np
import pytest
import torch

from equipoise.density_ratio import CountedRatio, NetworkRatio, RatioSettings, build_density_ratio
from equipoise.errors import InputError
from equipoise.training import Member, OptimizerSettings, RowSet, TrainingData, run_phase

#: Table 5 of the paper: P(Y = 1 | A = a) = sigmoid(a), P(A = 1) = 1/2; beta(a, y) = p(y|a) / p(y).
TOY = {(1, 1): 1.1877, (0, 1): 0.8123, (1, 0): 0.6995, (0, 0): 1.3005}


def toy_rows(n=40_000, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a = (torch.rand(n, generator=generator) < 0.5).float()
    y = (torch.rand(n, generator=generator) < torch.sigmoid(a)).float()
    return table(a, y)


def table(a, y, **others):
    return TrainingData(
        x=torch.zeros(len(a), 1),
        target=y,
        outcome=y[:, None],
        outcome_class=y.long(),
        attribute=a[:, None],
        attribute_cell=a.long(),
        **others,
    )


def trained(ratio):
    for phase in ratio.phases:
        run_phase(phase)
    return ratio


def beta_at(ratio, data, a, y):
    """beta(a, y), read off a resampled row that has a and a row that has y."""
    row = int((data.target == y).nonzero()[0])
    drawn = int((data.attribute[:, 0] == a).nonzero()[0])
    return ratio(torch.tensor([[row]]), torch.tensor([[drawn]])).item()


def test_the_network_recovers_table_5_within_three_hundredths():
    data = toy_rows()
    ratio = trained(build_density_ratio(data, [Member(0.5, 0)], kind="network"))
    for (a, y), truth in TOY.items():
        assert beta_at(ratio, data, a, y) == pytest.approx(truth, abs=0.03)


def test_counting_recovers_table_5_and_is_chosen_for_discrete_data():
    data = toy_rows()
    ratio = build_density_ratio(data, [Member(0.5, 0)], kind="auto")
    assert isinstance(ratio, CountedRatio)
    for (a, y), truth in TOY.items():
        assert beta_at(ratio, data, a, y) == pytest.approx(truth, abs=0.02)


def test_counting_is_exact_on_a_table_by_hand():
    a = torch.tensor([0.0, 0, 0, 1, 1, 1, 1, 1])
    y = torch.tensor([0.0, 0, 1, 0, 1, 1, 1, 1])
    data = table(a, y)
    ratio = build_density_ratio(data, [Member(0.5, 0)], kind="counts")
    assert beta_at(ratio, data, 0, 0) == pytest.approx((2 / 8) / ((3 / 8) * (3 / 8)))
    assert beta_at(ratio, data, 1, 1) == pytest.approx((4 / 8) / ((5 / 8) * (5 / 8)))


def test_counting_weights_rows_leaves_out_unknown_ones_and_keeps_members_apart():
    a = torch.tensor([0.0, 0, 1, 1, 1, 0])
    y = torch.tensor([0.0, 1, 0, 1, 1, 1])
    repeats = torch.tensor([2, 1, 3, 1, 1, 2])
    weighted = build_density_ratio(
        table(a, y, weight=repeats.float()), [Member(0.5, 0)], kind="counts"
    )
    repeated_data = table(a.repeat_interleave(repeats), y.repeat_interleave(repeats))
    repeated = build_density_ratio(repeated_data, [Member(0.5, 0)], kind="counts")
    for pair in TOY:
        assert beta_at(weighted, table(a, y), *pair) == pytest.approx(
            beta_at(repeated, repeated_data, *pair)
        )
    unknown = TrainingData(
        **{**vars(table(a, y)), "attribute_cell": torch.tensor([0, 0, 1, 1, 1, -1])}
    )
    members = [Member(0.5, 0), Member(0.5, 0, RowSet(range(4)))]
    both = build_density_ratio(unknown, members, kind="counts")
    known = build_density_ratio(table(a[:5], y[:5]), [Member(0.5, 0)], kind="counts")
    first = build_density_ratio(table(a[:4], y[:4]), [Member(0.5, 0)], kind="counts")
    rows, drawn = torch.tensor([[0, 1]]), torch.tensor([[3, 2]])
    torch.testing.assert_close(
        both(rows.expand(2, -1), drawn.expand(2, -1))[0], known(rows, drawn)[0]
    )
    torch.testing.assert_close(
        both(rows.expand(2, -1), drawn.expand(2, -1))[1], first(rows, drawn)[0]
    )


def test_the_network_finds_a_gaussian_ratio():
    """A and Y bivariate Gaussian with correlation r: log beta is a known quadratic."""
    r = 0.5
    generator = torch.Generator().manual_seed(1)
    a, noise = torch.randn(2, 20_000, generator=generator)
    y = r * a + (1 - r**2) ** 0.5 * noise
    data = TrainingData(
        x=torch.zeros(len(a), 1), target=y, outcome=y[:, None], attribute=a[:, None]
    )
    ratio = trained(build_density_ratio(data, [Member(0.5, 0)], kind="auto"))
    assert isinstance(ratio, NetworkRatio)
    inner = (a.abs() < 1.5) & (y.abs() < 1.5)
    rows = inner.nonzero()[:2000].T
    estimate = ratio(rows, rows.roll(1, 1))[0].log().numpy()
    first, second = a[rows.roll(1, 1)[0]].double().numpy(), y[rows[0]].double().numpy()
    log_beta = -0.5 * np.log(1 - r**2) - (
        r**2 * (first**2 + second**2) - 2 * r * first * second
    ) / (2 * (1 - r**2))
    assert np.corrcoef(estimate, log_beta)[0, 1] > 0.98
    assert np.abs(estimate - log_beta).mean() < 0.06


def test_the_network_stops_early_where_held_out_loss_was_least():
    """Independent A and Y: nothing to learn, so it stops long before its limit, near beta = 1."""
    generator = torch.Generator().manual_seed(2)
    a, y = torch.randn(2, 2000, generator=generator)
    data = TrainingData(x=torch.zeros(2000, 1), target=y, outcome=y[:, None], attribute=a[:, None])
    settings = RatioSettings(patience=3, iterations=5000)
    ratio = NetworkRatio(data, [Member(0.5, 0)], settings=settings)
    assert run_phase(*ratio.phases).iterations[-1] <= 1500
    rows = torch.arange(2000)[None]
    assert (ratio(rows, rows.roll(1, 1)) - 1).abs().mean() < 0.1


def test_members_of_equal_seed_share_a_network_and_others_do_not():
    data = toy_rows(400)
    settings = RatioSettings(iterations=100, optimizer=OptimizerSettings())
    members = [Member(0.1, 1), Member(0.9, 1), Member(0.1, 2)]
    ratio = trained(NetworkRatio(data, members, settings=settings))
    assert len(next(ratio.network.parameters())) == 2
    rows = torch.arange(20).expand(3, -1)
    beta = ratio(rows, rows.roll(1, 1))
    torch.testing.assert_close(beta[0], beta[1], rtol=1e-6, atol=1e-6)
    assert (beta[0] - beta[2]).abs().max() > 1e-3


def test_a_table_of_all_rows_and_classes_is_what_the_network_says(monkeypatch):
    data = toy_rows(400)
    members = [Member(0.1, 1), Member(0.9, 2), Member(0.5, 1)]
    ratio = NetworkRatio(data, members, settings=RatioSettings(iterations=50))
    history = run_phase(*ratio.phases)
    rows = torch.stack(
        [torch.randperm(400, generator=torch.Generator().manual_seed(n)) for n in range(3)]
    )
    tabulated = ratio(rows, rows.roll(1, 1))
    monkeypatch.setattr("equipoise.density_ratio.LARGEST_TABLE", 2 * 400 * 2 - 1)
    ratio.phases[0].finish(history)
    torch.testing.assert_close(ratio(rows, rows.roll(1, 1)), tabulated)


def test_no_weight_and_bad_options():
    data = toy_rows(100)
    assert build_density_ratio(data, [Member(0.5, 0)], kind="none") is None
    with pytest.raises(
        InputError,
        match="density_ratio must be one of 'auto', 'counts', 'network', 'none', got 'gan'",
    ):
        build_density_ratio(data, [Member(0.5, 0)], kind="gan")
    continuous = TrainingData(
        x=data.x, target=data.target, outcome=data.outcome, attribute=data.attribute
    )
    with pytest.raises(
        InputError,
        match="density_ratio='counts' needs discrete sensitive features and a discrete outcome, "
        "got continuous values; use density_ratio='network' or 'auto'",
    ):
        build_density_ratio(continuous, [Member(0.5, 0)], kind="counts")
    with pytest.raises(
        InputError, match="density_ratio='network' needs at least 4 rows, got n_samples=3"
    ):
        build_density_ratio(toy_rows(3), [Member(0.5, 0)], kind="network")


def test_a_network_out_of_patience_stays_as_if_trained_alone():
    generator = torch.Generator().manual_seed(3)
    a, y = torch.randn(2, 300, generator=generator, dtype=torch.float64)
    data = TrainingData(
        x=torch.zeros(300, 1, dtype=torch.float64),
        target=y,
        outcome=(y + a)[:, None],
        attribute=a[:, None],
    )
    settings = RatioSettings(patience=1, check_every=1, iterations=200)
    members = [Member(0.5, seed) for seed in range(6)]
    together = trained(NetworkRatio(data, members, settings=settings))
    rows = torch.arange(300)[None]
    ratios = together(rows.expand(6, -1), rows.roll(1, 1).expand(6, -1))
    stops = set()
    for k, member in enumerate(members):
        alone = NetworkRatio(data, [member], settings=settings)
        stops.add(int(run_phase(*alone.phases).iterations[-1]))
        torch.testing.assert_close(ratios[k], alone(rows, rows.roll(1, 1))[0])
    assert len(stops) > 1  # else nobody would have had to wait for another


def test_ratios_are_cut_at_fifty():
    data = toy_rows(400)
    ratio = NetworkRatio(data, [Member(0.5, 0)], settings=RatioSettings(iterations=10))
    history = run_phase(*ratio.phases)
    ratio.network.critic.layers[-1].bias.data.fill_(10.0)
    ratio.phases[0].finish(history)
    rows = torch.arange(5)[None]
    assert (ratio(rows, rows.roll(1, 1)) == 50).all()
