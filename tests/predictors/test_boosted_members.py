"""Members of a stack of boosted trees never influence one another."""

import numpy as np
import pytest
import torch
from boosted_rows import Tilted, prepared, simulate

from equipoise.critic import CriticSettings
from equipoise.notions import Notion
from equipoise.predictors import Inputs
from equipoise.predictors.boosting import BoostingRecipe
from equipoise.training import Member, RowSet, TrainingSettings, train

# Whole vectors of a processor: torch rounds what is left over of rows in another way.
N, BATCH = 256, 64
HALVES = RowSet(range(0, N, 2)), RowSet(range(1, N, 2))


def grown(data, members, *, library, task="binary", rounds=12, method="sbp", **options):
    recipe = BoostingRecipe(
        notion=Notion.INDEPENDENCE,
        method=method,
        density_ratio="auto",
        critic=CriticSettings(hidden=(8,), steps=2),
        training=TrainingSettings(iterations=rounds, batch_size=BATCH, check_every=5),
        learning_rate=0.2,
        warmup=3,
        library=library,
        **options,
    )
    return recipe.train(data, members, Inputs(task=task, n_outputs=data.outcome.shape[1]))


def outputs(trained, x):
    return trained.predictor.evaluate(x)[0]


def tilted():
    return Tilted(torch.from_numpy(np.random.default_rng(5).normal(size=N)).float())


def followed(data, members, method, *, task="binary", rounds=12, **parameters):
    """Train with a penalty of the test's own."""
    step, _ = prepared(data, members, task, method=method, **parameters)
    return train(
        data,
        members,
        predictor=step.modules[0],
        method=method,
        step=step,
        settings=TrainingSettings(iterations=rounds, batch_size=BATCH, check_every=5),
        has_critic=False,
    )


DRAWS = {
    "lightgbm": {"bagging_fraction": 0.5, "bagging_freq": 1},
    "xgboost": {"subsample": 0.5},
}
MIXED = [(0.0, 1), (0.6, 1), (0.9, 2), (0.6, 2), (0.0, 2)]


@pytest.mark.parametrize("task", ["binary", "multiclass", "squared", "absolute", "huber"])
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("draws", [False, True])
def test_members_together_equal_members_alone(task, halves, draws, library):
    parameters = {"library": library, **(DRAWS[library] if draws else {})}
    data = simulate(task, N, weighted=True)
    members = [
        Member(strength, seed, HALVES[k % 2] if halves else None)
        for k, (strength, seed) in enumerate(MIXED)
    ]

    def found(members):
        return outputs(followed(data, members, tilted(), task=task, **parameters), data.x)

    together = found(members)
    # Up to rounding: torch computes the last few numbers of an array otherwise than the others.
    for k, member in enumerate(members):
        torch.testing.assert_close(together[k], found([member])[0], rtol=1e-5, atol=1e-5)
    assert len({each.numpy().tobytes() for each in together[1:4]}) == 3


@pytest.mark.parametrize("method", ["sbp", "gdp", "dcov"])
def test_critics_and_sums_of_pairs_together_equal_those_alone(method, library):
    """Up to rounding: how torch multiplies stacks of matrices depends on how many there are."""
    data = simulate("binary", N, weighted=True)
    members = [Member(strength, seed) for strength, seed in MIXED]
    together = outputs(grown(data, members, rounds=8, method=method, library=library), data.x)
    for k, member in enumerate(members):
        alone = outputs(grown(data, [member], rounds=8, method=method, library=library), data.x)
        torch.testing.assert_close(together[k], alone[0], rtol=1e-4, atol=1e-4)


class NoLongerFinite:
    """A method that is not a number for the second member from some call on."""

    def __init__(self, method, last_good_call):
        self._method, self._left = method, last_good_call
        self.networks = method.networks

    def penalty(self, penalized, rows, resampled):
        self._left -= 1
        found = self._method.penalty(penalized, rows, resampled)
        spoilt = torch.ones(len(found))
        if self._left < 0:
            spoilt[1] = torch.nan
        return found * spoilt


@pytest.mark.parametrize(("last_good", "kept"), [(13, 10), (10, 10), (3, 0)])
def test_a_member_whose_penalty_is_no_longer_finite_keeps_its_last_good_rounds(
    last_good, kept, library
):
    data = simulate("binary", N)
    members = [Member(0.4, 1), Member(0.6, 1), Member(0.0, 1)]
    broken = followed(
        data, members, NoLongerFinite(tilted(), last_good), rounds=20, library=library
    )
    whole = followed(data, members, tilted(), rounds=20, library=library)
    assert broken.history.stopped_at.tolist() == [0, last_good + 1, 0]
    assert broken.predictor.network.rounds.tolist() == [20, kept, 20]
    found, expected = outputs(broken, data.x), outputs(whole, data.x)
    for k in (0, 2):
        assert torch.equal(found[k], expected[k])
    if kept:
        shorter = followed(data, members, tilted(), rounds=kept, library=library)
        assert torch.equal(found[1], outputs(shorter, data.x)[1])
    else:
        start = torch.logit(data.target.mean()).to(found).expand(N, 1)
        torch.testing.assert_close(found[1], start, rtol=1e-6, atol=1e-6)
    assert broken.health[0].stopped_at == broken.health[2].stopped_at == 0
    message = broken.health[1].messages[0]
    for words in (f"no longer finite at iteration {last_good + 1}", "strength 0.6, seed 1", "Try"):
        assert words in message


def test_same_seed_same_model_and_another_seed_another(library):
    data = simulate("binary", N)
    first, again, other = (
        outputs(grown(data, [Member(0.8, seed)], library=library), data.x) for seed in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
