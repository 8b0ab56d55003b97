"""Laws of every registered family: members apart, models kept, training ended, a frontier."""

import functools

import pytest
import torch
from sklearn.base import clone

from equipoise import FairBoostingClassifier, FairClassifier, FairFrontier
from equipoise.datasets import make_synthetic
from equipoise.estimators.fitting import Fitting, read_rows
from equipoise.networks import select_members
from equipoise.predictors import FAMILIES, Inputs, predictor_arrays, predictor_in
from equipoise.training import Member

CRITIC = {"critic_hidden": (4,), "batch_size": 100}
#: A small classifier of every family.
SMALL = {
    "network": FairClassifier(hidden=(8,), iterations=12, device="cpu", **CRITIC),
    "boosting": FairBoostingClassifier(rounds=12, **CRITIC),
    "xgboost": FairBoostingClassifier(library="xgboost", rounds=12, **CRITIC),
}
MEMBERS = [Member(0.1, 5), Member(0.9, 6), Member(0.9, 7)]
family = pytest.mark.parametrize("family", SMALL)


@functools.cache
def drawn():
    return make_synthetic(240, random_state=1)


def trained(family, members=MEMBERS, on_check=None):
    """Members of a family, and the rows (n, p) they were trained on."""
    model = clone(SMALL[family])
    rows = read_rows([model], drawn().X, drawn().y, drawn().A, None)
    fitting = Fitting(model)
    fitting.learn(rows, penalized=True)
    found = fitting.recipe.train(
        fitting.data, members, Inputs(task="binary", n_outputs=1), on_check=on_check
    )
    return found.predictor.settled(), fitting.data.x.double()


def test_every_family_is_tried():
    assert {name: model.family for name, model in SMALL.items()} == {name: name for name in SMALL}
    for name, each in FAMILIES.items():
        # Pages of the documentation, too, may have registered a family.
        ours = all(kind.__module__.startswith("equipoise.") for kind in each.stacks.values())
        assert name in SMALL or not ours


@family
def test_members_together_equal_members_alone(family):
    together, x = trained(family)
    for k, member in enumerate(MEMBERS):
        alone, _ = trained(family, [member])
        expected, found = (each.evaluate(x)[0] for each in (alone, together))
        torch.testing.assert_close(found[k], expected[0], rtol=1e-3, atol=1e-4)


@family
def test_a_member_taken_out_answers_as_before(family):
    predictor, x = trained(family)
    chosen = select_members(predictor, [2, 0])
    torch.testing.assert_close(chosen.evaluate(x)[0], predictor.evaluate(x)[0][[2, 0]])


@family
def test_a_model_read_from_its_arrays_is_the_same(family):
    predictor, x = trained(family)
    one = select_members(predictor, [1])
    arrays = predictor_arrays(one, x.shape[1])
    again = predictor_in(arrays, one.task, x.shape[1], 1, None)
    assert torch.equal(again.evaluate(x)[0], one.evaluate(x)[0])


@family
@pytest.mark.parametrize(
    ("inputs", "outputs"), [(1, 0), (0, 1)], ids=["another input", "another output"]
)
def test_arrays_of_another_size_are_refused(family, inputs, outputs):
    predictor, x = trained(family)
    one = select_members(predictor, [1])
    arrays = predictor_arrays(one, x.shape[1])
    with pytest.raises(ValueError, match=r"\w"):
        predictor_in(arrays, one.task, x.shape[1] + inputs, 1 + outputs, None)


@family
def test_a_check_ends_training(family):
    seen = []

    def enough(iteration, predictor):
        seen.append(iteration)
        return True

    trained(family, on_check=enough)
    assert len(seen) == 1


@family
def test_a_frontier_offers_it_beside_others(family):
    other = "boosting" if family == "network" else "network"
    both = [SMALL[family], SMALL[other]]
    frontier = FairFrontier(both, strengths=(0.0, 0.9), seeds=1, random_state=0)
    more = make_synthetic(600, random_state=1)
    frontier.fit(more.X, more.y, sensitive_features=more.A)
    assert set(frontier.table()["predictor"]) == {family, other}
