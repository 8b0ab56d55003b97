"""Laws for every method of the registry, in every setting that it declares to support.

A method enrols by being registered. Variants obey the laws of training, and need not mitigate.
"""

import numpy as np
import pytest
import torch
from fairlearn.metrics import demographic_parity_difference, equalized_odds_difference
from method_settings import (
    OBJECTIVES,
    PENALTIES,
    SETTINGS,
    TASKS,
    TRAINED,
    inputs,
    simulated,
)
from sklearn.metrics import r2_score, roc_auc_score
from torch.utils._python_dispatch import TorchDispatchMode

from equipoise import FairClassifier
from equipoise.datasets import make_synthetic
from equipoise.methods import METHODS, Context
from equipoise.metrics import measure
from equipoise.predictors import Inputs
from equipoise.training import Member, OptimizerSettings, phases_of, run_phase

every_setting = pytest.mark.parametrize("setting", SETTINGS, ids=str)
every_penalty = pytest.mark.parametrize("setting", PENALTIES, ids=str)
every_objective = pytest.mark.parametrize("setting", OBJECTIVES, ids=str)


@pytest.fixture
def short_pretraining(monkeypatch):
    """For laws that hold however long a network was trained before the first step."""
    monkeypatch.setattr("equipoise.methods.conditional.MOST_STEPS", 20)


def test_every_method_is_enrolled():
    assert {setting.method for setting in SETTINGS} == set(METHODS)


@pytest.mark.parametrize("method", TRAINED)
def test_at_strength_zero_the_method_does_not_matter_bit_for_bit(method):
    """Solved methods are their own plain linear models there, which their own tests check."""
    drawn = make_synthetic(300, random_state=0)
    options = {"strength": 0, "hidden": (8,), "iterations": 20, "random_state": 3}
    # Every method trains on all rows then, also those that never stop early.
    options |= {"members": 2, "early_stopping": None}
    plain = FairClassifier(**options).fit(drawn.X, drawn.y)
    named = FairClassifier(method=method, **options)
    named.fit(drawn.X, drawn.y, sensitive_features=drawn.A)
    assert np.array_equal(plain.decision_function(drawn.X), named.decision_function(drawn.X))


def trained_scores(setting, data, members, x=None, **training):
    """Scores (K, n) on the training rows, or on rows x."""
    recipe = setting.recipe(**training)
    needed = data.attribute.shape[1] if setting.capabilities.needs_attribute else 0
    trained = recipe.train(
        data, members, Inputs(task=TASKS[setting.task], n_outputs=1, attribute_inputs=needed)
    )
    output, _ = trained.predictor.evaluate(data.x if x is None else x)
    return trained.predictor.task.score(output)[..., 0].numpy()


@pytest.mark.usefixtures("short_pretraining")
@every_setting
def test_members_together_equal_members_alone(setting):
    """In double precision, where rounding does not grow over a few iterations."""
    data, _, _ = simulated(setting, 240, seed=0, double=True)
    members = [Member(0.0, 0), Member(0.5, 0), Member(0.9, 1)]
    together = trained_scores(setting, data, members, iterations=8)
    alone = [trained_scores(setting, data, [member], iterations=8)[0] for member in members]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-8)
    # The member of strength 0 alone was plain training; the penalty moved the next one.
    assert np.abs(together[1] - together[0]).max() > 1e-6


@pytest.mark.usefixtures("short_pretraining")
@every_setting
def test_what_an_unknown_attribute_would_have_been_changes_nothing(setting):
    if not setting.capabilities.unknown:
        pytest.skip("declared: rows of unknown attributes are refused")
    unknown = np.arange(0, 240, 3)
    data, _, _ = simulated(setting, 240, seed=0, unknown=unknown, double=True)
    other = type(data)(**vars(data))
    other.attribute[unknown] = 7.0
    members = [Member(0.9, 0)]
    scores = [trained_scores(setting, rows, members, iterations=5) for rows in (data, other)]
    assert np.array_equal(*scores)


class Watch(TorchDispatchMode):
    """Refuses what would wait for a device, choose a shape by its values, or needs float64.

    Data are in single precision here, and some devices know no other.
    """

    REFUSED = ("_local_scalar_dense", "nonzero", "masked_select", "_unique", "unique_dim")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        boolean = name in ("index", "index_put_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if boolean or name.startswith(self.REFUSED):
            raise AssertionError(f"a training step must not use {name}")
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float64:
                raise AssertionError(f"a training step must not make float64, as {name} does")
        return made


def ready(setting, data, members):
    """The method, made ready as a recipe does it."""
    recipe = setting.recipe()
    method = setting.declared.build(
        Context(
            data=data,
            members=members,
            notion=recipe.notion,
            critic=recipe.critic,
            density_ratio=recipe.density_ratio,
        )
    )
    for phase in phases_of(method):
        run_phase(phase)
    return method


def test_watching_sees_what_a_step_must_not_do():
    values = torch.tensor([1.0, 0.0])
    for forbidden in (values.sum().item, values.nonzero, lambda: values[values > 0]):
        with Watch(), pytest.raises(AssertionError, match="a training step must not use"):
            forbidden()


@every_objective
def test_losses_never_wait_for_the_device(setting):
    weights = np.linspace(0.5, 1.5, 120)
    data, _, _ = simulated(setting, 120, seed=0, weights=weights, unknown=[5, 6])
    recipe = setting.recipe(iterations=2)
    members = [Member(0.5, 0), Member(0.9, 1)]
    predictor = recipe._predictor(data.x, 1, TASKS[setting.task], [0, 1], linear_path=False)
    method = setting.declared.objective(
        Context(
            data=data,
            members=members,
            notion=recipe.notion,
            predictor=predictor,
            settings=recipe.training,
        )
    )
    run_phase(*method.phases)
    rows = torch.arange(80).view(2, 40)
    predictor.zero_grad()
    with Watch():
        losses = method.losses(rows, rows.flip(1))
        sum(losses).sum().backward()
    assert [loss.shape for loss in losses] == [(2,), (2,)]
    assert all((loss > 0).all() for loss in losses)
    moved = [weight.grad for weight in predictor.parameters() if weight.grad is not None]
    assert all((slope.flatten(1).abs().sum(1) > 0).all() for slope in moved) and moved


@pytest.mark.usefixtures("short_pretraining")
@every_penalty
def test_a_penalty_never_waits_for_the_device(setting):
    weights = np.linspace(0.5, 1.5, 120)
    data, _, _ = simulated(setting, 120, seed=0, weights=weights, unknown=[5, 6])
    method = ready(setting, data, [Member(0.5, 0), Member(0.9, 1)])
    rows = torch.arange(80).view(2, 40)
    score = data.x[rows][..., :1].sigmoid().requires_grad_()
    with Watch():
        penalty = method.penalty(score, rows, rows.flip(1))
        penalty.sum().backward()
    assert penalty.shape == (2,)
    assert (score.grad.abs().sum((1, 2)) > 0).all()


@pytest.mark.usefixtures("short_pretraining")
@every_penalty
def test_weights_count_rows_where_no_network_is_trained(setting):
    """Weight 2 is the row twice, in the same batch."""
    plain, _, _ = simulated(setting, 120, seed=0, double=True)
    method = ready(setting, plain, [Member(0.5, 0)])
    if list(method.networks.parameters()):
        pytest.skip("a network sees each row once, whatever its weight")
    counts = 1 + (np.arange(120) % 3 == 0)
    weighted, _, _ = simulated(setting, 120, seed=0, weights=counts.astype(float), double=True)
    once = torch.arange(120)
    twice = once.repeat_interleave(torch.from_numpy(counts))
    score = plain.x[:, :1].sigmoid()
    values = [
        ready(setting, rows_of, [Member(0.5, 0)]).penalty(score[rows][None], rows[None], rows[None])
        for rows_of, rows in ((weighted, once), (plain, twice))
    ]
    torch.testing.assert_close(*values, rtol=1e-6, atol=1e-9)


STRENGTHS = (0.0, 0.8, 0.95)
#: Methods whose penalty has another scale.
OTHER_STRENGTHS = {"neu": (0.0, 0.92)}
#: Least utility a mitigated score must keep: a share of what is possible without dependence.
KEPT_SHARE = 0.5


def unfairness(score, setting, test, table):
    """What the method declares to control, for each sensitive column; (columns,)."""
    y = test.y.to_numpy()
    separation = setting.notion == "separation"
    controls = setting.capabilities.controls
    if controls == "decisions":
        difference = equalized_odds_difference if separation else demographic_parity_difference
        return np.array(
            [
                difference(y, score > 0.5, sensitive_features=column.codes)
                for column in table.columns
            ]
        )
    # Less its mean given Y, a score that satisfies separation depends on A no more.
    degree = 1 if setting.task == "classification" else 3
    values = score - np.polyval(np.polyfit(y, score, degree), y) if separation else score
    if controls == "mean":
        return np.array([explained_share(values, test.A)])
    metric = "KS-GSP"
    if separation and setting.task == "classification":
        metric, values = "KS-GEO", score
    return np.array([measure(metric, values, column, y).values.item() for column in table.columns])


def explained_share(values, A):
    """Multiple correlation with a polynomial in age and the groups, by least squares."""
    groups = (A["group"].to_numpy()[:, None] == np.array(["a", "b", "c"])).astype(float)
    functions = np.column_stack([groups, np.vander(A["age"], 4)[:, :3]])
    fitted = functions @ np.linalg.lstsq(functions, values, rcond=None)[0]
    return fitted.std() / values.std()


@every_setting
def test_the_unfairness_it_controls_falls_by_half_at_a_useful_score(setting):
    data, _, _ = simulated(setting, 3000, seed=1)
    test = make_synthetic(6000, task=setting.task, random_state=2)
    _, table, _ = simulated(setting, 6000, seed=2)
    members = [Member(strength, 0) for strength in OTHER_STRENGTHS.get(setting.method, STRENGTHS)]
    scores = trained_scores(
        setting,
        data,
        members,
        x=torch.tensor(
            inputs(setting, test, make_synthetic(3000, task=setting.task, random_state=1))
        ),
        density_ratio="auto",
        iterations=250,
        optimizer=OptimizerSettings(learning_rate=2e-3),
        critic=OptimizerSettings(learning_rate=6e-3),
        batch_size=200,
    )
    if setting.task == "classification":
        utility = np.array([2 * roc_auc_score(test.y, score) - 1 for score in scores])
        possible = 2 * test.truth.fair_utility(setting.notion) - 1
    else:
        y = (test.y - test.y.mean()) / test.y.std()
        utility = np.array([r2_score(y, score) for score in scores])
        possible = test.truth.fair_utility(setting.notion)
    found = np.array([unfairness(score, setting, test, table) for score in scores])
    useful = utility > KEPT_SHARE * possible
    assert useful[0]
    halved = (found < found[0] / 2).all(1)
    assert (useful & halved).any(), (utility / possible, found / found[0])
