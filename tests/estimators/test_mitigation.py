"""On the synthetic family, whose unfairness is known, default models lose three quarters of it.

Mixed A: one continuous column, one of three levels. Dependence is measured on 50 000 new rows by
the paper's KS metrics, for each column; what is known is the value of the best plain score. For
regression under separation the paper's KS-GEO compares rows with Y <= y, which does not vanish
even for a score that satisfies separation exactly; there KS-GSP of the score less its mean given Y
is used, which does.
"""

import functools

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

from equipoise import FairClassifier, FairEncoder, FairRegressor, SensitiveTable
from equipoise.datasets import make_synthetic
from equipoise.metrics import measure

MODELS = {"classification": FairClassifier, "regression": FairRegressor}


def dependence(score, data, notion):
    """KS dependence on (age, group), (2,)."""
    y = data.y.to_numpy()
    table = SensitiveTable.from_data(data.A)
    if notion == "independence":
        metric, scores = "KS-GSP", score
    elif data.description.task == "classification":
        metric, scores = "KS-GEO", score
    else:
        metric, scores = "KS-GSP", score - np.polyval(np.polyfit(y, score, 3), y)
    return np.array([measure(metric, scores, column, y).values.item() for column in table.columns])


def predicted(model, X):
    return model.predict_proba(X)[:, 1] if hasattr(model, "classes_") else model.predict(X)


def utility(score, data):
    by = roc_auc_score if data.description.task == "classification" else r2_score
    return by(data.y, score)


@functools.cache
def tables(task):
    """Rows to train on, and to test on."""
    return (
        make_synthetic(6000, task=task, random_state=1),
        make_synthetic(50_000, task=task, random_state=2),
    )


@functools.cache
def plain_score(task):
    """Scores of the test rows without mitigation, which no notion changes."""
    train, test = tables(task)
    plain = MODELS[task](strength=0, hidden=(32, 32), iterations=400, random_state=0)
    return predicted(plain.fit(train.X, train.y), test.X)


@pytest.mark.parametrize("notion", ["independence", "separation"])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_known_dependence_falls_by_three_quarters_at_a_stated_utility(task, notion):
    train, test = tables(task)
    truth = train.truth
    known = dependence(truth.plain_score(test.X), test, notion)

    plain = plain_score(task)
    assert (dependence(plain, test, notion) > 0.8 * known).all()
    assert utility(plain, test) > truth.plain_utility - 0.06

    # A regression under separation needs more than 600 on some processors.
    iterations = 600 if task == "classification" else 1000
    fair = MODELS[task](
        notion=notion, strength=0.98, hidden=(32, 32), iterations=iterations, random_state=0
    )
    fair.fit(train.X, train.y, sensitive_features=train.A)
    fair_score = predicted(fair, test.X)
    assert (dependence(fair_score, test, notion) < 0.25 * known).all()
    # The best utility at exactly no dependence is known; what we reach lies close to it.
    assert utility(fair_score, test) > truth.fair_utility(notion) - 0.05


def test_a_fair_representation_keeps_the_outcome_and_little_of_the_attribute():
    """Probes trained on the representation: Y stays predictable, age and group hardly so."""
    train = make_synthetic(4000, random_state=1)
    test = make_synthetic(8000, random_state=2)

    def probed(strength):
        encoder = FairEncoder(
            strength=strength, encoder_hidden=(8,), hidden=(16,), iterations=400, random_state=0
        ).fit(train.X, train.y, sensitive_features=train.A)
        seen, new = encoder.transform(train.X), encoder.transform(test.X)
        outcome = LogisticRegression().fit(seen, train.y).predict_proba(new)[:, 1]
        group = HistGradientBoostingClassifier(max_iter=50, random_state=0)
        age = HistGradientBoostingRegressor(max_iter=50, random_state=0)
        return (
            roc_auc_score(test.y, outcome),
            roc_auc_score(
                test.A["group"],
                group.fit(seen, train.A["group"]).predict_proba(new),
                multi_class="ovr",
            ),
            r2_score(test.A["age"], age.fit(seen, train.A["age"]).predict(new)),
        )

    plain_outcome, plain_group, plain_age = probed(0)
    assert plain_outcome > 0.87
    assert plain_group > 0.68
    assert plain_age > 0.1
    outcome, group, age = probed(0.9)
    assert outcome > train.truth.fair_utility("independence") - 0.05
    assert group < 0.55
    assert age < 0.02
