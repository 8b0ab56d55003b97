"""The paper's network and training by name: plain options, which others may come on top of."""

import pytest
import torch
from sklearn.base import clone
from torch import nn

from equipoise import FairClassifier, FairEncoder, FairFrontier, FairRegressor
from equipoise.datasets import make_synthetic
from equipoise.networks import StackedBatchNorm, StackedLinear

EVERY = [FairClassifier, FairRegressor, FairEncoder]


@pytest.mark.parametrize("estimator", EVERY)
def test_the_papers_settings_are_options_that_scikit_learn_sees(estimator):
    options = estimator.as_in_paper().get_params()
    expected = {
        "scaling": "minmax",
        "embedding": "none",
        "normalization": "batch",
        "critic_normalization": "batch",
        "optimizer": "sgd",
        "learning_rate": 0.005,
        "critic_learning_rate": 0.005,
        "momentum": 0.2,
        "schedule": "constant",
        "iterations": 20_000,
        "batch_size": 300,
    }
    assert {name: options[name] for name in expected} == expected
    assert clone(estimator.as_in_paper()).get_params() == options


@pytest.mark.parametrize("estimator", EVERY)
def test_an_option_given_beside_the_name_counts(estimator):
    model = estimator.as_in_paper(iterations=500, divergence="kl", random_state=3)
    changed = {"iterations": 500, "divergence": "kl", "random_state": 3}
    assert model.get_params() == {**estimator.as_in_paper().get_params(), **changed}


def test_a_misspelt_option_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'iteration'"):
        FairClassifier.as_in_paper(iteration=500)


def test_the_papers_regression_is_smaller_and_of_absolute_error():
    model = FairRegressor.as_in_paper()
    assert (model.loss, model.hidden, model.critic_hidden) == ("absolute", (16,) * 3, (16, 16))
    assert FairFrontier.as_in_paper(model).estimator is model
    classifier = FairFrontier.as_in_paper().estimator
    assert (classifier.hidden, classifier.critic_hidden) == ((64, 64, 64), (64, 64))


def test_the_papers_frontier_has_the_papers_strengths():
    frontier = FairFrontier.as_in_paper()
    assert frontier.strengths == (0.1, 0.3, 0.5, 0.7, 0.9)
    assert (frontier.seeds, frontier.evaluate_every) == (5, "default")


def test_the_papers_network_is_dense_normalized_and_cut_three_times():
    rows = make_synthetic(200, random_state=0)
    model = FairClassifier.as_in_paper(strength=0, iterations=3, random_state=0)
    layers = list(model.fit(rows.X, rows.y).predictor_.network.layers)
    kinds = [type(layer) for layer in layers]
    assert kinds == [StackedLinear, StackedBatchNorm, nn.ReLU] * 3 + [StackedLinear]
    inputs = len(model.encoder_.names_)
    shapes = [tuple(layer.weight.shape[1:]) for layer in layers if isinstance(layer, StackedLinear)]
    assert shapes == [(64, inputs), (64, 64), (64, 64), (1, 64)]
    assert layers[1].epsilon == 1e-3


def test_weight_decay_takes_its_share_of_the_learning_rate_off_every_weight():
    """With Adam alone: a weight that the loss does not see shrinks by 1 - rate * decay a step."""
    rows = make_synthetic(100, random_state=0)
    numbers = rows.X.select_dtypes("number").iloc[:, :1].assign(same=1.0)

    def unused(decay, optimizer="adam"):
        model = FairClassifier(
            strength=0,
            hidden=(),
            embedding="none",
            iterations=4,
            schedule="constant",
            learning_rate=0.1,
            weight_decay=decay,
            optimizer=optimizer,
            members=1,
            early_stopping=None,
            random_state=0,
        ).fit(numbers, rows.y)
        return model.predictor_.network.layers[0].weight[0, 0, 1]  # of a column of zeros

    torch.testing.assert_close(unused(0.5), unused(0.0) * 0.95**4)
    default = FairClassifier().weight_decay  # with "sgd" another one is refused
    torch.testing.assert_close(unused(default, "sgd"), unused(0.0))
