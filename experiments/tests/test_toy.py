"""Table 5: the toy whose density ratio is known."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from equipoise.density_ratio import NetworkRatio, RatioSettings
from equipoise.errors import InputError
from equipoise.networks import StackedMLP
from equipoise.training import BatchStream, Member, RowSet, TrainingData, run_phase
from equipoise.training.data import generator
from experiments.paper.toy import density_ratio_toy, true_ratio

CELLS = ["p(1|1)/p(1)", "p(1|0)/p(1)", "p(0|1)/p(0)", "p(0|0)/p(0)"]
#: The row "True" of Table 5.
PRINTED = [1.1877, 0.8123, 0.6995, 1.3005]


@pytest.fixture(scope="module")
def trained():
    return density_ratio_toy(iterations=600, replications=3, rows=2000, device="cpu")


def test_the_truth_is_the_closed_form_that_the_paper_prints(trained):
    assert trained["cell"].tolist() == CELLS
    assert trained["true"].round(4).tolist() == PRINTED
    # p(1) is the mean of 1/2 and of the logistic function at 1.
    p = 1 / (1 + math.exp(-1))
    assert true_ratio(1, 1) == pytest.approx(p / ((0.5 + p) / 2), rel=1e-12)
    assert true_ratio(0, 0) == pytest.approx(0.5 / (1 - (0.5 + p) / 2), rel=1e-12)


def test_the_paper_stands_beside_it(trained):
    assert trained["paper"].tolist() == [1.1810, 0.8126, 0.7082, 1.2955]
    assert trained["paper_std"].tolist() == [0.0077, 0.0029, 0.0018, 0.0048]
    assert list(trained.columns) == [
        "cell",
        "true",
        "paper",
        "paper_std",
        "network",
        "network_std",
        "counts",
        "counts_std",
    ]


def standard_errors(n):
    """Of the counted ratios from n rows, by the delta method for a multinomial of four cells."""
    p = 1 / (1 + math.exp(-1))
    joint = np.array([[0.25, 0.25], [(1 - p) / 2, p / 2]])  # a by y
    errors = []
    for a, y in ((1, 1), (0, 1), (1, 0), (0, 0)):
        of_a, of_y = joint[a].sum(), joint[:, y].sum()
        slope = np.zeros((2, 2))
        slope[a] -= 1 / of_a
        slope[:, y] -= 1 / of_y
        slope[a, y] += 1 / joint[a, y]
        variance = (joint * slope**2).sum() - (joint * slope).sum() ** 2
        errors.append(joint[a, y] / of_a / of_y * math.sqrt(variance / n))
    return np.array(errors)


def test_counts_are_within_four_standard_errors(trained):
    # The mean of three replications of 2000 rows is nearly the ratio of 6000 rows.
    distance = (trained["counts"] - trained["true"]).abs()
    assert (distance < 4 * standard_errors(6000)).all()
    assert (trained["counts_std"] < 4 * standard_errors(2000)).all()


def test_training_moves_the_network_towards_the_truth(trained):
    first = density_ratio_toy(iterations=1, replications=3, rows=2000, device="cpu")
    before, after = ((t["network"] - t["true"]).abs() for t in (first, trained))
    assert (after < before / 2).all()


def test_replications_trained_together_are_those_trained_alone():
    options = {"iterations": 30, "rows": 200, "device": "cpu"}
    alone, both = (density_ratio_toy(replications=n, **options) for n in (1, 2))
    for name in ("network", "counts"):
        # Of two values, each lies deviation / sqrt(2) from their mean.
        distance = (alone[name] - both[name]).abs()
        np.testing.assert_allclose(distance, both[f"{name}_std"] / math.sqrt(2), rtol=0, atol=1e-6)
        assert (both[f"{name}_std"] > 1e-3).all()
        assert alone[f"{name}_std"].isna().all()


def test_the_network_is_trained_as_the_paper_says():
    """Written out with torch's own layers, loss and optimizer, on the same batches."""
    rows, iterations = 300, 40
    uniform = np.random.default_rng(0).random((2, rows))
    a = torch.tensor(uniform[0] < 0.5).float()
    y = torch.tensor(uniform[1] < 1 / (1 + np.exp(-a.numpy()))).float()
    start = StackedMLP(
        2, (64, 64), 1, generators=[generator(0, "density ratio")], normalization="none"
    )
    network = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
    )
    for theirs, ours in zip(network.parameters(), start.parameters(), strict=True):
        theirs.data = ours.data[0].reshape(theirs.shape).clone()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.005, momentum=0.9)
    batches = BatchStream(
        [Member(0.0, 0, RowSet(range(rows)))], rows, batch_size=100, device=torch.device("cpu")
    )
    real = torch.cat([torch.ones(100), torch.zeros(100)])
    for _ in range(iterations):
        (i,), (j,) = batches.spread(batches.draw())
        pairs = torch.stack([torch.cat([a[i], a[j]]), torch.cat([y[i], y[i]])], 1)
        # The paper's R_beta is a sum of two means, one for real and one for resampled pairs.
        loss = 2 * nn.functional.binary_cross_entropy_with_logits(network(pairs)[:, 0], real)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    cells = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    d = network(cells)[:, 0].sigmoid()
    found = density_ratio_toy(iterations=iterations, replications=1, rows=rows, device="cpu")
    np.testing.assert_allclose(found["network"], (d / (1 - d)).detach(), rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"replications": 0}, "replications must be at least 1, got 0"),
        ({"rows": 99}, "rows must be at least 100, one batch, got 99"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        density_ratio_toy(**options)


def independent_rows(n):
    a, y = torch.randn(2, n, generator=torch.Generator().manual_seed(2))
    return TrainingData(x=torch.zeros(n, 1), target=y, outcome=y[:, None], attribute=a[:, None])


def test_without_patience_the_last_iterate_counts():
    """However often it is looked at: with nothing to learn, stopping early would end at once."""
    data, rows = independent_rows(300), torch.arange(300)[None]
    found = []
    for check_every in (1, 60):
        settings = RatioSettings(patience=None, check_every=check_every, iterations=60)
        ratio = NetworkRatio(data, [Member(0.0, 0)], settings=settings)
        assert run_phase(*ratio.phases).iterations[-1] == 60
        found.append(ratio(rows, rows.roll(1, 1)))
    assert torch.equal(*found)
    impatient = RatioSettings(patience=1, check_every=1, iterations=60)
    stopped = NetworkRatio(data, [Member(0.0, 0)], settings=impatient)
    assert run_phase(*stopped.phases).iterations[-1] < 60


def test_without_patience_no_rows_are_held_out():
    data = independent_rows(3)
    NetworkRatio(data, [Member(0.0, 0)], settings=RatioSettings(patience=None, iterations=2))
    with pytest.raises(InputError, match="needs at least 4 rows, got n_samples=3"):
        NetworkRatio(data, [Member(0.0, 0)], settings=RatioSettings(iterations=2))
