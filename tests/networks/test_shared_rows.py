"""Members that share rows: one product for a group gives what each member gives alone."""

import numpy as np
import pytest
import torch

from equipoise.networks import (
    IncreasingStack,
    RankedStack,
    StackedMLP,
    find_pieces,
    score_knots,
    select_members,
)
from equipoise.training import Member, OptimizerSettings, TrainingData, TrainingSettings
from equipoise.training.data import BatchStream, RowSet, generators
from equipoise.training.loop import PredictorStep
from equipoise.training.predictor import TASKS, Predictor

ROWS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
NETWORKS = {
    "pieces": {"hidden": (6, 5), "pieces": find_pieces(ROWS), "normalization": "none"},
    "batch normalization": {"hidden": (6,), "normalization": "batch"},
    "linear path": {"hidden": (6,), "normalization": "none", "linear_path": True},
    "linear model": {"hidden": (), "normalization": "none"},
}
KINDS = [*NETWORKS, "increasing", "ranked"]


def increasing(seeds, scores=1, others=2):
    """Networks with one output, which increase in the first inputs."""
    knots = score_knots(ROWS[:, [0] * scores])
    outputs = 1 + sum(map(len, knots))
    start = generators(seeds, "predictor")
    inner = StackedMLP(others, (6,), outputs, generators=start, normalization="none")
    return IncreasingStack(knots, inner)


def stack(kind, members):
    if kind == "increasing":
        return increasing(range(members))
    if kind == "ranked":
        ranks = select_members(increasing([9]), [0] * members)
        return RankedStack(ranks, increasing(range(members), scores=2))
    network = StackedMLP(
        3, n_out=1, generators=generators(range(members), "predictor"), **NETWORKS[kind]
    )
    if network.linear is not None:
        weight, bias = torch.tensor([[1.0, -2.0, 0.5]]), torch.tensor([0.3])
        for member in range(members):
            network.start_linear(member, weight * member, bias)
    return network


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [(5,), (2, 3), (1, 1, 3)])
def test_outputs_and_gradients_are_those_of_rows_given_to_each_member(kind, groups):
    x = torch.randn(len(groups), 20, 3, generator=torch.Generator().manual_seed(1))
    owners = torch.repeat_interleave(torch.arange(len(groups)), torch.tensor(groups))
    found = []
    for given in (x[owners], x):
        network = stack(kind, 5)
        network.groups = groups
        output = network(given)
        output.square().sum().backward()
        found.append([output.detach(), *(w.grad for w in network.parameters() if w.requires_grad)])
    for of_each, shared in zip(*found, strict=True):
        torch.testing.assert_close(shared, of_each, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_are_the_same_for_all_members(kind):
    predictor = Predictor(stack(kind, 4), TASKS["binary"]).double().eval()
    output, score = predictor.evaluate(ROWS.double())
    each = predictor.network(ROWS.double().expand(4, -1, -1)).detach()
    torch.testing.assert_close(output, each, rtol=1e-12, atol=1e-12)
    assert np.ptp(output.numpy(), axis=0).max() > 0.1  # members differ
    torch.testing.assert_close(score, each.sigmoid(), rtol=1e-12, atol=1e-12)


def test_members_of_a_stream_read_its_rows_once():
    """Seeds 0, 0, 1: two streams; the other member of seed 0 has rows of its own."""
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(2))
    data = TrainingData(x=x, target=(x[:, 0] > 0).float(), outcome=x[:, :1])
    seen = []

    class Seeing(Predictor):
        def forward(self, x):
            seen.append(x)
            return super().forward(x)

    members = [Member(0.0, 0), Member(0.5, 0), Member(0.0, 1), Member(0.0, 0, RowSet(range(60)))]
    settings = TrainingSettings(batch_size=20, optimizer=OptimizerSettings())
    predictor = Seeing(stack("batch normalization", 4), TASKS["binary"])
    step = PredictorStep(predictor, data, members, method=None, settings=settings)
    batches = BatchStream(members, 60, batch_size=20, device=x.device)
    rows, resampled = batches.spread(batches.draw())
    step(rows, resampled)
    assert predictor.network.groups == (2, 1, 1)
    torch.testing.assert_close(seen[0], x[rows[[0, 2, 3]]], rtol=0, atol=0)
