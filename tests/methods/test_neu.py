"""NEU: which rows are paired, what the losses are, and what does not move."""

import numpy as np
import pytest
import torch
from method_settings import Setting, simulated
from sklearn.metrics import roc_auc_score

from equipoise import FairClassifier, load
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.methods import Context
from equipoise.methods.neu import MIXTURES, Neutralized, Partners
from equipoise.networks import StackedMLP
from equipoise.notions import Notion
from equipoise.predictors import Inputs
from equipoise.training import (
    TASKS,
    Member,
    OptimizerSettings,
    Predictor,
    RowSet,
    TrainingData,
    TrainingSettings,
    run_phase,
)
from tests.composing import composed

SETTING = Setting("neu", "independence", "classification")


def rows_with(outcome, attribute, **more):
    outcome = torch.tensor(outcome)
    return TrainingData(
        x=torch.randn(len(outcome), 3, generator=torch.Generator().manual_seed(0)),
        target=outcome.float(),
        outcome=outcome.float()[:, None],
        outcome_class=outcome,
        attribute=torch.tensor(attribute, dtype=torch.float32).reshape(len(outcome), -1),
        **more,
    )


def all_partners(partners, member, row, n):
    """What every row number as a source of chance makes of one row."""
    resampled = torch.zeros(member + 1, n, dtype=torch.long)
    resampled[member] = torch.arange(n)
    found, paired = partners(torch.full_like(resampled, row), resampled)
    return found[member], paired[member]


@pytest.mark.parametrize("kind", ["discrete", "continuous", "mixed"])
def test_partners_have_equal_y_and_different_a_and_all_of_them_are_equally_likely(kind):
    random = np.random.default_rng(0)
    n = 60
    y = random.integers(0, 3, n)
    group, age = random.integers(0, 3, n), random.integers(20, 50, n)
    columns = {"discrete": [group], "continuous": [age], "mixed": [group, age]}[kind]
    attribute = np.column_stack(columns).astype(np.float32)
    data = rows_with(y, attribute)
    partners = Partners(data, data.attribute, [Member(0.5, 0)])
    for row in range(n):
        found, paired = all_partners(partners, 0, row, n)
        allowed = np.flatnonzero((y == y[row]) & (attribute != attribute[row]).any(1))
        assert paired.all()
        counts = np.bincount(found, minlength=n)
        assert set(np.flatnonzero(counts)) == set(allowed)
        # n draws over the allowed ones, as evenly as whole numbers can be.
        assert counts[allowed].max() - counts[allowed].min() <= 1


def test_partners_are_rows_that_the_member_may_see_and_whose_attribute_is_known():
    random = np.random.default_rng(1)
    n = 40
    y, a = random.integers(0, 2, n), random.integers(0, 2, n)
    known = np.arange(n) % 5 > 0
    data = rows_with(y, a, known=torch.from_numpy(known))
    seen = [tuple(range(0, 20)), tuple(range(10, 30))]
    partners = Partners(data, data.attribute, [Member(0.5, 0, RowSet(rows)) for rows in seen])
    for row in range(10, 20):
        resampled = torch.tensor(seen)
        found, paired = partners(torch.full_like(resampled, row), resampled)
        assert paired.all() == known[row] and paired.any() == known[row]
        for member, rows in enumerate(seen):
            allowed = {r for r in rows if known[r] and y[r] == y[row] and a[r] != a[row]}
            assert set(found[member].tolist()) == (allowed if known[row] else {row})


def test_a_row_without_partner_stands_for_itself_and_counts_nothing():
    data = rows_with([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])
    partners = Partners(data, data.attribute, [Member(0.5, 0)])
    found, paired = partners(torch.arange(5)[None], torch.tensor([[0, 1, 2, 3, 4]]))
    assert paired.tolist() == [[True, True, True, False, False]]
    assert found[0, :2].tolist() == [2, 2] and found[0, 3:].tolist() == [3, 4]


def test_no_pairs_at_all_is_an_error():
    rows = rows_with([0, 0, 1, 1], [0, 0, 1, 1])
    with pytest.raises(InputError) as refused:
        Partners(rows, rows.attribute, [Member(0.5, 0)])
    assert str(refused.value) == (
        "method='neu' needs rows with equal y and different sensitive features, got none: within "
        "each class of y they are the same; use another method"
    )


def ready(data, members, *, iterations=3, hidden=(5, 4)):
    starts = [torch.Generator().manual_seed(member.seed) for member in members]
    network = StackedMLP(data.x.shape[1], hidden, 1, generators=starts).to(data.x)
    predictor = Predictor(network, TASKS["binary"])
    settings = TrainingSettings(iterations=iterations, batch_size=20)
    method = Neutralized(
        Context(
            data=data,
            members=members,
            notion=Notion.INDEPENDENCE,
            predictor=predictor,
            settings=settings,
        )
    )
    run_phase(*method.phases)
    return predictor, method


def test_losses_are_the_formula_row_by_row():
    """Du et al. with the middle of pairs, written out for one row after the other."""
    data, _, _ = simulated(SETTING, 60, seed=0, double=True)
    members = [Member(0.5, 0), Member(0.9, 1)]
    predictor, method = ready(data, members)
    rows = torch.stack([torch.arange(0, 30), torch.arange(20, 50)])
    resampled = rows.flip(1)
    plain = predictor.evaluate(data.x)[1]
    with torch.no_grad():  # a head that has moved on since plain training
        for weight in predictor.network.layers[3].parameters():
            weight.add_(0.3)
    found = method.losses(rows, resampled)
    partners, paired = Partners(data, data.attribute, members)(rows, resampled)
    assert paired.all()
    predictor.eval()
    for k in range(2):
        errors, roughness = [], []
        for i, j in zip(rows[k].tolist(), partners[k].tolist(), strict=True):
            hidden = predictor.network.first_hidden(data.x[[i, j]].expand(2, -1, -1))[k]

            def answer(share, hidden=hidden, k=k):
                mixed = share * hidden[0] + (1 - share) * hidden[1]
                return torch.sigmoid(
                    predictor.network.behind_first_hidden(mixed.expand(2, 1, -1))[k, 0, 0]
                )

            target = (plain[k, i, 0] + plain[k, j, 0]) / 2
            errors.append((answer(0.5) - target) ** 2)
            roughness.append(sum(abs(answer(u) - answer(0.5)) for u in MIXTURES) / len(MIXTURES))
        expected = torch.stack([torch.stack(part).mean() for part in (errors, roughness)])
        torch.testing.assert_close(torch.stack(found)[:, k], expected, rtol=1e-9, atol=1e-12)


def test_where_features_tell_nothing_but_y_there_is_nothing_to_neutralize():
    """Partners look alike then: the middle is the row itself, and plain training stays."""
    y = np.arange(40) % 2
    data = rows_with(y, np.arange(40) // 2 % 2)
    data.x[:] = data.target[:, None]
    _, method = ready(data, [Member(0.9, 0)], iterations=5)
    task, penalty = method.losses(torch.arange(40)[None], torch.arange(40)[None].flip(1))
    assert task.item() < 1e-12 and penalty.item() < 1e-6


def weights(trained, member):
    return {name: tensor[member].clone() for name, tensor in trained.state_dict().items()}


def test_the_first_layer_statistics_and_plain_members_do_not_move_and_the_head_does():
    data, _, _ = simulated(SETTING, 200, seed=0, double=True)
    # Decay moves weights that have no slope, too.
    recipe = SETTING.recipe(iterations=30, optimizer=OptimizerSettings(weight_decay=0.3))
    inputs = Inputs(task="binary", n_outputs=1)
    plain = recipe.train(data, [Member(0.0, 0)], inputs).predictor
    both = recipe.train(data, [Member(0.0, 0), Member(0.9, 0)], inputs).predictor
    before, rest, moved = weights(plain, 0), weights(both, 0), weights(both, 1)
    for name in before:
        torch.testing.assert_close(rest[name], before[name], rtol=0, atol=1e-12)
    stays = [name for name in before if "running" in name or name.startswith("network.layers.0.")]
    assert len(stays) == 3
    # Of the same seed, and the same up to how products of a stack are rounded.
    for name in stays:
        torch.testing.assert_close(moved[name], rest[name], rtol=0, atol=1e-12)
    head = "network.layers.3.weight"
    assert (moved[head] - before[head]).abs().max() > 1e-3


def test_rows_without_partner_weigh_nothing():
    """Whatever they hold: row 5 alone has its class."""
    data = rows_with(
        [0, 0, 1, 1, 0, 2], [0, 1, 0, 1, 1, 1], weight=torch.tensor([1.0, 2, 1, 0.5, 0.5, 1])
    )
    _, method = ready(data, [Member(0.5, 0)], iterations=1)
    with_it, without = (torch.arange(n)[None] for n in (6, 5))
    chance = torch.tensor([[3, 1, 0, 4, 2, 5]])
    for loss, expected in zip(
        method.losses(with_it, chance), method.losses(without, chance[:, :5]), strict=True
    ):
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)


def test_snapshots_of_a_resting_member_are_all_the_same():
    drawn = make_synthetic(600, random_state=0)
    options = {"hidden": (8, 8), "iterations": 30, "random_state": 0}
    frontier = composed(
        method="neu", strengths=(0.0, 0.9), seeds=1, evaluate_every=10, **options
    ).fit(drawn.X, drawn.y, sensitive_features=drawn.A)
    table = frontier.table()
    resting = table[table["strength"] == 0]
    assert resting["utility"].nunique() == 1 and len(resting) == 3
    assert table[table["strength"] > 0]["utility"].nunique() > 1


def test_several_classes_weights_and_a_saved_model(tmp_path):
    drawn = make_synthetic(400, random_state=0)
    y = np.digitize(drawn.X.iloc[:, 0], [-0.5, 0.5])
    model = FairClassifier(
        method="neu",
        strength=0.5,
        hidden=(8, 8),
        iterations=200,
        learning_rate=0.01,
        random_state=0,
    )
    model.fit(drawn.X, y, sensitive_features=drawn.A, sample_weight=np.linspace(0.5, 1.5, 400))
    assert model.predict_proba(drawn.X).shape == (400, 3)
    assert roc_auc_score(y, model.predict_proba(drawn.X), multi_class="ovr") > 0.8
    model.save(tmp_path / "model.equipoise")
    again = load(tmp_path / "model.equipoise")
    assert np.array_equal(again.predict_proba(drawn.X), model.predict_proba(drawn.X))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"hidden": ()}, "hidden=()"),
        ({"network": lambda p, o: torch.nn.Linear(p, o)}, "a network of your own"),
    ],
)
def test_networks_without_a_first_hidden_layer_are_refused(options, found):
    drawn = make_synthetic(100, random_state=0)
    model = FairClassifier(method="neu", iterations=2, random_state=0, **options)
    with pytest.raises(InputError) as refused:
        model.fit(drawn.X, drawn.y, sensitive_features=drawn.A)
    assert str(refused.value) == (
        "method='neu' freezes the first hidden layer of the built-in network, got "
        f"{found}; set hidden, such as hidden=(64, 64, 64), and leave network out"
    )
