"""Critics that predict A, from the score and from a hidden layer."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mutual_info_score, roc_auc_score
from torch import nn

import equipoise
from equipoise import FairClassifier, FairEncoder
from equipoise.critic import CriticSettings
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.methods import Context
from equipoise.methods.attribute_critic import AttributeCritic, conditional_entropy
from equipoise.networks import StackedMLP
from equipoise.notions import Notion
from equipoise.training import TASKS, Member, OptimizerSettings, Predictor, RowSet, TrainingData
from equipoise.training.data import generators
from tests.composing import composed

MEMBERS = [Member(0.5, 0), Member(0.9, 1)]
SHIFT, SHARE = 1.5, 0.3


def rows_of(group, score, y=None):
    """Rows whose score is their only feature."""
    y = torch.zeros_like(group) if y is None else y
    return TrainingData(
        x=score[:, None],
        target=y.float(),
        outcome=y.float()[:, None],
        outcome_class=y,
        attribute=group.float()[:, None],
        attribute_cell=group,
    )


def built(data, notion=Notion.INDEPENDENCE, members=MEMBERS, **settings):
    settings = {"hidden": (16, 16), "optimizer": OptimizerSettings(learning_rate=3e-3)} | settings
    return AttributeCritic(
        Context(
            data=data,
            members=members,
            notion=notion,
            critic=CriticSettings(**settings),
        )
    )


def found_value(data, notion, iterations=300):
    """Average of the penalty over the last fifth of the iterations, (K,)."""
    method = built(data, notion)
    order = torch.Generator().manual_seed(1)
    values = []
    for _ in range(iterations):
        rows = torch.randint(len(data), (1, 1000), generator=order).expand(2, -1)
        values.append(method.penalty(data.x[rows], rows, rows).detach())
    return torch.stack(values[-iterations // 5 :]).mean(0)


def shifted_groups(n, shift=SHIFT):
    generator = torch.Generator().manual_seed(0)
    group = (torch.rand(n, generator=generator) < SHARE).long()
    return group, torch.randn(n, generator=generator) + shift * group


def information():
    """Mutual information of a binary A and a score that it shifts, by quadrature."""

    def integrand(s):
        joint = np.array([1 - SHARE, SHARE]) * stats.norm.pdf(s, [0, SHIFT])
        chance = joint / joint.sum()
        return joint.sum() * stats.entropy(chance)

    return stats.entropy([SHARE, 1 - SHARE]) - integrate.quad(integrand, -8, 10)[0]


def test_the_best_critic_attains_the_mutual_information_in_nats():
    found = found_value(rows_of(*shifted_groups(20_000)), Notion.INDEPENDENCE)
    assert found.tolist() == pytest.approx([information()] * 2, abs=0.012)


def test_a_score_that_tells_nothing_costs_nothing():
    found = found_value(rows_of(*shifted_groups(20_000, shift=0.0)), Notion.INDEPENDENCE)
    assert found.tolist() == pytest.approx([0, 0], abs=0.006)


def test_separation_counts_only_what_the_outcome_does_not_tell():
    """A score that is Y and noise tells of A through Y alone."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(20_000, generator=generator) < 0.5).long()
    group = (torch.rand(20_000, generator=generator) < 0.2 + 0.6 * y).long()
    data = rows_of(group, torch.randn(20_000, generator=generator) + 2 * y, y)
    assert (found_value(data, Notion.INDEPENDENCE, 150) > 0.08).all()
    assert found_value(data, Notion.SEPARATION).tolist() == pytest.approx([0, 0], abs=0.006)


def test_entropy_given_strata_is_entropy_less_mutual_information():
    generator = np.random.default_rng(0)
    stratum = generator.integers(3, size=500)
    group = (generator.random(500) < np.array([0.1, 0.4, 0.9])[stratum]).astype(int)
    found = conditional_entropy(*map(torch.from_numpy, (group, stratum)), torch.ones(500))
    expected = stats.entropy(np.bincount(group)) - mutual_info_score(group, stratum)
    assert found.item() == pytest.approx(expected, rel=1e-9)
    # Weights count rows.
    counts = generator.integers(1, 4, size=500)
    repeated = np.repeat(group, counts), np.repeat(stratum, counts)
    expected = stats.entropy(np.bincount(repeated[0])) - mutual_info_score(*repeated)
    weighted = conditional_entropy(*map(torch.from_numpy, (group, stratum, counts)))
    assert weighted.item() == pytest.approx(expected, rel=1e-9)


def test_the_value_is_entropy_less_log_loss_and_its_slope_that_of_the_loss_reversed():
    group, score = shifted_groups(400)
    data = rows_of(group, score)
    method = built(data, members=MEMBERS[:1])
    rows = torch.arange(400)[None]
    for _ in range(20):
        method.penalty(data.x[rows], rows, rows)
    penalized = data.x[rows].requires_grad_()
    value = method.penalty(penalized, rows, rows)
    (slope,) = torch.autograd.grad(value.sum(), penalized)
    again = data.x[rows].requires_grad_()
    seen = (again - again.mean(1)) / again.std(1, unbiased=False)
    logit = method.networks(seen).squeeze(-1)
    entropy = stats.entropy(np.bincount(group))
    expected = entropy - log_loss(group, logit.detach().sigmoid()[0].numpy())
    assert value.item() == pytest.approx(expected, abs=1e-5)
    loss = nn.functional.binary_cross_entropy_with_logits(logit[0], group.float())
    (of_loss,) = torch.autograd.grad(loss, again)
    torch.testing.assert_close(slope, -of_loss, rtol=1e-3, atol=1e-7)


def test_a_critic_begins_by_knowing_how_frequent_the_group_is_among_its_members_rows():
    group, score = shifted_groups(300)
    few = RowSet(range(0, 300, 3))
    asleep = OptimizerSettings(kind="sgd", learning_rate=1e-30, momentum=0.0)
    members = [Member(0.5, 0), Member(0.5, 0, few)]
    method = built(rows_of(group, score), members=members, optimizer=asleep)
    rates = method.networks(torch.randn(2, 5, 1)).sigmoid()
    expected = torch.stack([group.float().mean(), group[few.numbers].float().mean()])
    torch.testing.assert_close(rates[..., 0], expected[:, None].expand(2, 5))
    # So nothing is penalized before anything was learned.
    rows = torch.arange(300)[None]
    alone = built(rows_of(group, score), members=members[:1], optimizer=asleep)
    assert alone.penalty(score[rows][..., None], rows, rows).item() == pytest.approx(0, abs=1e-6)


def test_a_hidden_penalty_sees_the_last_hidden_layer_and_leaves_the_output_alone():
    network = StackedMLP(3, (5, 4), 1, generators=generators([0, 1], "predictor"))
    predictor = Predictor(network, TASKS["binary"])
    x = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(0))
    predictor.eval()
    output, score = predictor(x)
    predictor.penalize_hidden(method="adel")
    same, hidden = predictor(x)
    assert torch.equal(output, same)
    torch.testing.assert_close(score, output.sigmoid())
    head = network.layers[-1]
    by_hand = torch.einsum("koi,kri->kro", head.weight, hidden) + head.bias[:, None]
    torch.testing.assert_close(by_hand, output)
    assert hidden.shape == (2, 20, 4) and (hidden >= 0).all()


@pytest.fixture(scope="module")
def rows():
    drawn = make_synthetic(2000, random_state=0)
    return drawn.X, drawn.y, drawn.A[["group"]] == "a"


OPTIONS = {
    "method": "adel",
    "iterations": 300,
    "random_state": 0,
    "hidden": (16, 8),
    "members": 1,
    "early_stopping": None,
}


def test_adel_hides_the_group_from_the_hidden_layer(rows):
    X, y, A = rows
    fitted = {
        strength: FairClassifier(strength=strength, **OPTIONS).fit(X, y, sensitive_features=A)
        for strength in (0.01, 0.9)
    }
    found = {}
    for strength, model in fitted.items():
        _, hidden = model._evaluate(X)
        assert hidden.shape == (2000, 8)
        guess = LogisticRegression(max_iter=1000).fit(hidden, A["group"])
        found[strength] = roc_auc_score(A["group"], guess.decision_function(hidden))
    assert found[0.01] > 0.7
    assert found[0.9] - 0.5 < (found[0.01] - 0.5) / 2
    # Probabilities are of the output, not of the layer.
    assert fitted[0.9].predict_proba(X).shape == (2000, 2)


def test_a_model_by_adel_is_kept_like_any_other(rows, tmp_path):
    X, y, A = rows
    model = FairClassifier(strength=0.5, **(OPTIONS | {"iterations": 20}))
    model.fit(X, y, sensitive_features=A).save(tmp_path / "model")
    kept = equipoise.load(tmp_path / "model")
    np.testing.assert_array_equal(kept.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"hidden": ()}, "hidden=()"),
        ({"network": nn.Linear, "hidden": FairClassifier().hidden}, "a network of your own"),
    ],
)
def test_without_a_hidden_layer_adel_says_what_it_needs(rows, options, given):
    X, y, A = rows
    model = FairClassifier(strength=0.5, **(OPTIONS | options))
    with pytest.raises(InputError) as refused:
        model.fit(X, y, sensitive_features=A)
    assert str(refused.value) == (
        "method='adel' penalizes the last hidden layer of the built-in network, got "
        f"{given}; set hidden, such as hidden=(64, 64, 64), and leave network out"
    )


@pytest.mark.parametrize("method", ["adel", "edwards_storkey"])
def test_an_encoder_may_be_censored(rows, method):
    X, y, A = rows
    options = {"encoder_hidden": (6,), "hidden": (8,), "iterations": 200, "random_state": 0}

    def told(strength):
        model = FairEncoder(method=method, strength=strength, **options)
        code = model.fit(X, y, sensitive_features=A).transform(X)
        assert code.shape == (2000, 6)
        guess = LogisticRegression(max_iter=1000).fit(code, A["group"])
        return roc_auc_score(A["group"], guess.decision_function(code)) - 0.5

    assert told(0.95) < 0.7 * told(0.01)


def test_scores_of_several_members_by_adel_are_averaged(rows):
    X, y, A = rows
    frontier = composed(
        method="adel",
        strengths=(0.0, 0.9),
        seeds=2,
        ensemble=True,
        hidden=(8, 4),
        iterations=40,
        evaluate_every=20,
        random_state=0,
    ).fit(X, y, sensitive_features=A)
    averages = frontier.table().query("seed == -1")
    assert set(averages["strength"]) == {0.0, 0.9}
    assert (averages["utility"] > 0.5).all()
