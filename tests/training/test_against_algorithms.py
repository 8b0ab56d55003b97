import functools

import pytest
import torch
from literal_algorithms import train_literally, unstack
from simulated_rows import simulate

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioSettings
from equipoise.methods import SBP, Context
from equipoise.networks import StackedMLP
from equipoise.notions import Notion
from equipoise.training import (
    TASKS,
    BatchStream,
    Member,
    OptimizerSettings,
    Predictor,
    RowSet,
    TrainingSettings,
    train,
)
from equipoise.training.data import generators


@pytest.fixture
def data():
    return simulate()


SGD = OptimizerSettings(kind="sgd", learning_rate=0.05, momentum=0.2)


def build(data, members, *, notion, critic, density_ratio="none"):
    seeds = [member.seed for member in members]
    network = StackedMLP(data.x.shape[1], (8, 8), 1, generators=generators(seeds, "predictor"))
    predictor = Predictor(network.to(data.x), TASKS["binary"])
    method = SBP(
        Context(
            data=data,
            members=members,
            notion=notion,
            critic=critic,
            density_ratio=density_ratio,
        )
    )
    method.networks.to(data.x)
    return predictor, method


@pytest.mark.parametrize("normalization", ["none", "batch"])
@pytest.mark.parametrize("critic_steps", [1, 3])
@pytest.mark.parametrize("notion", list(Notion))
def test_the_engine_is_the_papers_algorithm(data, notion, critic_steps, normalization):
    beta = None
    if notion.conditions_on_outcome:
        # Algorithm 2 on discrete A, so that beta is a table both sides can look up.
        data = type(data)(
            x=data.x,
            target=data.target,
            outcome=data.outcome,
            outcome_class=data.outcome_class,
            attribute=data.attribute[:, 1:],
            attribute_cell=data.attribute[:, 1].long(),
        )
        cell, label = data.attribute_cell, data.outcome_class

        def beta(j, i):
            joint = torch.stack(
                [((cell == a) & (label == b)).double().mean() for a in (0, 1) for b in (0, 1)]
            ).view(2, 2)
            table = joint / (joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True))
            return table[cell[j], label[i]]

    member = Member(0.7, seed=5)
    critic = CriticSettings(
        hidden=(8,), steps=critic_steps, normalization=normalization, optimizer=SGD
    )
    predictor, method = build(
        data, [member], notion=notion, critic=critic, density_ratio="auto" if beta else "none"
    )
    h, D = unstack(predictor.network, 0), unstack(method.networks.critic, 0)
    settings = TrainingSettings(iterations=25, batch_size=60, optimizer=SGD, schedule="constant")
    trained = train(data, [member], predictor=predictor, method=method, settings=settings)
    batches = BatchStream([member], len(data), batch_size=60, device=torch.device("cpu"))
    train_literally(
        h,
        D,
        batches,
        data.x,
        data.attribute,
        data.target,
        strength=0.7,
        iterations=25,
        critic_steps=critic_steps,
        learning_rate=0.05,
        momentum=0.2,
        beta=beta,
    )
    for layer, literal in zip(trained.predictor.network.layers, h, strict=True):
        for name, mine in layer.named_parameters():
            expected = getattr(literal, name)
            torch.testing.assert_close(mine[0], expected, rtol=1e-9, atol=1e-10)


def settings(iterations=30):
    return TrainingSettings(iterations=iterations, batch_size=60, check_every=10)


def train_members(data, members, *, iterations=30, notion=Notion.INDEPENDENCE, kind="none"):
    predictor, method = build(
        data, members, notion=notion, critic=CriticSettings(hidden=(8,)), density_ratio=kind
    )
    return train(data, members, predictor=predictor, method=method, settings=settings(iterations))


@pytest.mark.parametrize("notion", list(Notion))
def test_members_trained_together_equal_members_trained_alone(data, notion, monkeypatch):
    # A short training of the density ratio is enough for this law.
    short = functools.partial(RatioSettings, iterations=200)
    monkeypatch.setattr("equipoise.density_ratio.RatioSettings", short)
    half = RowSet(range(0, 240, 2))
    other = RowSet(range(1, 240, 2))
    members = [
        Member(0.0, 1, half),
        Member(0.5, 1, half),
        Member(0.9, 2, half),
        Member(0.5, 3, other),
    ]
    kind = "network" if notion.conditions_on_outcome else "none"
    together = train_members(data, members, notion=notion, kind=kind)
    scores = together.predictor.evaluate(data.x)[1]
    for k, member in enumerate(members):
        alone = train_members(data, [member], notion=notion, kind=kind)
        torch.testing.assert_close(
            scores[k], alone.predictor.evaluate(data.x)[1][0], rtol=1e-6, atol=1e-7
        )
        assert together.history.penalty[:, k] == pytest.approx(
            alone.history.penalty[:, 0], rel=1e-5, abs=1e-7
        )


def test_permuting_strengths_permutes_results(data):
    strengths = (0.0, 0.4, 0.8)
    forward = train_members(data, [Member(s, 1) for s in strengths])
    backward = train_members(data, [Member(s, 1) for s in reversed(strengths)])
    torch.testing.assert_close(
        forward.predictor.evaluate(data.x)[1],
        backward.predictor.evaluate(data.x)[1].flip(0),
        rtol=1e-6,
        atol=1e-7,
    )


def test_same_seed_same_weights_bit_for_bit_and_global_state_untouched(data):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first = train_members(data, [Member(0.5, 7)])
    assert torch.equal(torch.rand(2), expected)
    second = train_members(data, [Member(0.5, 7)])
    other = train_members(data, [Member(0.5, 8)])
    for a, b in zip(first.predictor.parameters(), second.predictor.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(next(first.predictor.parameters()), next(other.predictor.parameters()))


def test_strength_zero_is_plain_training_bit_for_bit(data):
    beside_others = train_members(data, [Member(0.0, 1), Member(0.9, 1)])
    network = StackedMLP(4, (8, 8), 1, generators=generators([1, 1], "predictor")).to(data.x)
    plain = train(
        data,
        [Member(0.0, 1), Member(0.0, 1)],
        predictor=Predictor(network, TASKS["binary"]),
        method=None,
        settings=settings(),
    )
    for a, b in zip(
        beside_others.predictor.parameters(), plain.predictor.parameters(), strict=True
    ):
        assert torch.equal(a[0], b[0])
