"""Agarwal: fairlearn's randomised classifier, row by row, in a model that needs no fairlearn."""

import sys
import warnings

import numpy as np
import onnxruntime
import pytest
import torch
from fairlearn.reductions import DemographicParity, EqualizedOdds, ExponentiatedGradient
from scipy.special import expit
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from equipoise import FairClassifier, load
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.methods.agarwal import largest_distance, vote_of
from equipoise.networks import StackedVote
from equipoise.notions import Notion
from tests.composing import composed

CONSTRAINTS = {"independence": DemographicParity, "separation": EqualizedOdds}


@pytest.fixture(scope="module")
def rows():
    return make_synthetic(800, random_state=0)


def fitted(rows, **options):
    model = FairClassifier(method="agarwal", **({"random_state": 0} | options))
    return model.fit(rows.X, rows.y, sensitive_features=rows.A[["group"]])


@pytest.fixture(scope="module", params=CONSTRAINTS)
def mitigated(rows, request):
    return fitted(rows, notion=request.param, strength=0.8)


def encoded(model, rows):
    return model.encoder_.transform(rows.X).astype(float)


def plain_distance(x, rows, notion):
    plain = LogisticRegression(C=1e4, max_iter=1000).fit(x, rows.y)
    _, cell = np.unique(rows.A["group"], return_inverse=True)
    return largest_distance(plain.predict(x), rows.y.to_numpy(), cell, Notion.parse(notion)), cell


def test_scores_are_those_of_fairlearn(mitigated, rows):
    x = encoded(mitigated, rows)
    distance, cell = plain_distance(x, rows, mitigated.notion)
    bound = (1 - 0.8) * distance
    theirs = ExponentiatedGradient(
        LogisticRegression(C=1e4, max_iter=1000),
        CONSTRAINTS[mitigated.notion](difference_bound=bound),
        eps=bound,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs.fit(x, rows.y, sensitive_features=cell)
        expected = theirs._pmf_predict(x)
    found = mitigated.predict_proba(rows.X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert np.array_equal(mitigated.predict(rows.X) == 1, expected[:, 1] > 0.5)


def test_rates_of_randomised_decisions_are_within_the_bound(mitigated, rows):
    """Up to what the reduction leaves open: as much again as the bound."""
    notion = Notion.parse(mitigated.notion)
    distance, cell = plain_distance(encoded(mitigated, rows), rows, mitigated.notion)
    vote = mitigated.predict_proba(rows.X)[:, 1]
    found = largest_distance(vote, rows.y.to_numpy(), cell, notion)
    assert distance > 0.1
    assert found < 2 * (1 - 0.8) * distance


def test_distances_are_from_the_rate_of_all_within_classes_under_separation():
    decision = np.array([1, 1, 1, 0, 1, 0, 0, 0])
    y = np.array([1, 1, 1, 1, 0, 0, 0, 0])
    group = np.array([0, 1, 1, 1, 0, 0, 1, 1])
    # All: 4 of 8; group 0 2 of 3, group 1 2 of 5.
    assert largest_distance(decision, y, group, Notion.INDEPENDENCE) == pytest.approx(2 / 3 - 1 / 2)
    # y = 1: 3/4, groups 1 and 2/3. y = 0: 1/4, groups 1/2 and 0.
    assert largest_distance(decision, y, group, Notion.SEPARATION) == pytest.approx(1 / 4)


def test_at_strength_zero_it_is_logistic_regression(rows):
    model = fitted(rows, strength=0)
    x = encoded(model, rows)
    plain = LogisticRegression(C=1e4, max_iter=1000).fit(x, rows.y)
    assert np.array_equal(model.predict(rows.X), plain.predict(x))
    assert set(model.predict_proba(rows.X)[:, 1].round(9)) == {0.0, 1.0}


def test_a_vote_is_the_share_of_the_classifiers_that_say_yes():
    weight = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
    vote = StackedVote(weight, np.array([[0.0, -1.0, 0.0]]), np.array([[0.3, 0.7, 0.0]]))
    x = torch.tensor([[[1.0, 0.0], [1.0, 2.0], [-1.0, 2.0], [0.0, 1.0]]], dtype=torch.float64)
    found = expit(vote(x)[0, :, 0].numpy())
    np.testing.assert_allclose(found, [0.3, 1.0, 0.7, 0.0], atol=1e-11)
    assert vote(x).isfinite().all()


@pytest.mark.parametrize("constant", [0, 1])
def test_a_classifier_that_decides_the_same_for_all_is_a_vote_like_any_other(constant):
    """Fairlearn has one where a weighing of the rows makes one decision right for all of them."""
    x = np.random.default_rng(0).normal(size=(50, 3))
    linear = LogisticRegression().fit(x, x[:, 0] > 0)
    same = DummyClassifier(strategy="constant", constant=constant).fit(x, np.full(50, constant))
    network = StackedVote(*(part[None] for part in vote_of([linear, same], [0.3, 0.1])))
    found = expit(network(torch.from_numpy(x)[None])[0, :, 0].numpy())
    expected = 0.75 * linear.predict(x) + 0.25 * same.predict(x)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_saved_model_and_its_onnx_file_need_no_fairlearn(mitigated, rows, tmp_path, monkeypatch):
    expected = mitigated.predict_proba(rows.X)
    mitigated.save(tmp_path / "model.equipoise")
    mitigated.to_onnx(tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, "fairlearn", None)
    again = load(tmp_path / "model.equipoise")
    assert np.array_equal(again.predict_proba(rows.X), expected)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    columns = {name: column.to_numpy(float) for name, column in rows.X.items()}
    (found,) = session.run(["probabilities"], columns)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_damaged_vote_is_refused(mitigated, tmp_path):
    from equipoise.predictors import predictor_arrays, predictor_in

    arrays = predictor_arrays(mitigated.predictor_, 8)
    arrays["weights.network.share"] = arrays["weights.network.share"][:, :-1]
    with pytest.raises(ValueError, match="the weights of a vote do not fit together"):
        predictor_in(arrays, mitigated.predictor_.task, 8, 1, None)


def test_a_frontier_has_one_snapshot_of_each_strength(rows):
    frontier = composed(
        method="agarwal", strengths=(0.0, 0.5, 0.9), seeds=1, metrics=["SP"], random_state=0
    ).fit(rows.X, rows.y, sensitive_features=rows.A[["group"]])
    table = frontier.table()
    assert table["iteration"].tolist() == [1, 1, 1]
    model = frontier.select(max_unfairness=2.0, draws=20).model
    best = table["utility"].idxmax()
    assert model.strength == table["strength"][best]
    votes = [
        len(snapshot["network.share"][0])
        for snapshot in frontier.fitted_curve().snapshots.weights.values()
    ]
    assert len(set(votes)) == 1  # padded to the largest number of classifiers


def test_a_missing_fairlearn_is_said_with_the_remedy(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "fairlearn", None)
    with pytest.raises(InputError) as refused:
        fitted(rows)
    assert str(refused.value) == (
        "method='agarwal' needs fairlearn, which is not installed; "
        'pip install "equipoise[fairlearn]"'
    )


def test_what_it_can_not_do_is_refused(rows):
    model = FairClassifier(method="agarwal", random_state=0)
    with pytest.raises(InputError, match="does not support mixed sensitive features"):
        model.fit(rows.X, rows.y, sensitive_features=rows.A)
    with pytest.raises(InputError, match="does not support sample_weight"):
        model.fit(
            rows.X, rows.y, sensitive_features=rows.A[["group"]], sample_weight=np.arange(800)
        )
    with pytest.raises(InputError, match="needs discrete sensitive features at any strength"):
        FairClassifier(method="agarwal", strength=0).fit(rows.X, rows.y)
