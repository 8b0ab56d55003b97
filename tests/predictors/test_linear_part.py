"""Trees at strength 0 share their output with a linear model, as rows set aside find best."""

import numpy as np
import pandas as pd
import pytest
import torch
from boosted_rows import small_trees
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score

from equipoise import FairBoostingClassifier, FairBoostingRegressor, load
from equipoise.errors import InputError
from equipoise.predictors.boosting.linear_part import MISSING, MOST_TERMS, NUMBER, LinearPart
from equipoise.training import Member, RowSet, TrainingData

# On few rows some models overfit or say little, which is not the matter here.
pytestmark = pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")


def table(n=600, seed=0):
    """Numbers, some of them missing, and a category."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame(random.normal(3, 2, (n, 4)), columns=list("abcd"))
    X["job"] = pd.Categorical(random.choice(["x", "y", "z"], n))
    signal = X["a"] - X["b"] / 2 + 2 * (X["job"] == "y")
    X.loc[::7, "d"] = np.nan
    return X, signal.to_numpy()


def linear_of(model):
    return model.predictor_.network.linear


@pytest.fixture(scope="module")
def fitted(library):
    X, signal = table()
    return FairBoostingRegressor(strength=0, random_state=0, library=library).fit(X, signal)


def test_on_a_linear_law_trees_are_about_as_good_as_ridge_regression(fitted, library):
    X, signal = table(seed=1)
    known = pd.get_dummies(table()[0].fillna(3.0), columns=["job"])
    ridge = Ridge().fit(known, table()[1])
    by_ridge = r2_score(signal, ridge.predict(pd.get_dummies(X.fillna(3.0), columns=["job"])))
    assert fitted.score(X, signal) > by_ridge - 0.01
    alone = FairBoostingRegressor(
        strength=0, early_stopping=None, members=1, random_state=0, library=library
    )
    assert alone.fit(*table()).score(X, signal) < by_ridge - 0.01
    assert float(linear_of(fitted).share.min()) > 0.9


def test_of_steps_the_linear_model_gets_hardly_a_share():
    X, _ = table(1000)
    y = 3.0 * (np.abs(X["a"] - 3) < 1) + (X["b"] * X["c"] > 9)
    model = FairBoostingRegressor(strength=0, random_state=0).fit(X, y)
    assert float(linear_of(model).share.max()) < 0.2


@pytest.mark.parametrize("options", [{"early_stopping": None}, {"strength": 0.1}], ids=str)
def test_without_rows_aside_or_with_a_penalty_there_is_none(options, library):
    X, signal = table()
    options = {"strength": 0.0, "rounds": 3, "random_state": 0, "library": library} | options
    model = FairBoostingRegressor(**options).fit(
        X, signal, sensitive_features={"even": np.arange(600) % 2}
    )
    assert model.predictor_.network.linear is None


def test_its_trees_are_those_that_grow_without_it(fitted, library):
    X, _ = table()
    network = fitted.predictor_.network
    x = torch.from_numpy(fitted.encoder_.transform(X)).expand(4, -1, -1)
    for member, rounds in enumerate(network.rounds.tolist()):
        exact = network.forest.models[member].outputs(x[member].numpy(), 0, rounds)
        np.testing.assert_array_equal(network.grown(x)[member], exact)
    share = network.linear.share[:, None, None]
    expected = (1 - share) * network.grown(x) + share * network.linear(x)
    torch.testing.assert_close(network(x), expected)


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_logistic_regression_of_the_rows_a_member_trains_on(classes):
    random = np.random.default_rng(2)
    X = random.normal(size=(800, 3))
    y = np.digitize(X @ [1.0, -1.0, 0.5] + random.logistic(size=800), [0, 1.5][: classes - 1])
    weight = random.uniform(0.5, 2, 800)
    model = FairBoostingClassifier(strength=0, rounds=10, members=1, random_state=0)
    model.fit(X, y, sample_weight=weight)
    x = torch.from_numpy(X)[None]
    found = linear_of(model)(x)[0]
    found = torch.cat([0 * found, found], 1) if classes == 2 else found
    exact = LogisticRegression(C=1e3).fit(X, y, sample_weight=weight).predict_proba(X)
    # A fifth of the rows is set aside, and the penalty is one of five.
    np.testing.assert_allclose(found.softmax(-1), exact, atol=0.1)


def part(data, **options):
    members = [Member(0.0, 0, RowSet(range(60)), RowSet(range(60, 80)))]
    return LinearPart.fitted(data, members, "squared", 1, **{"categorical": (1,)} | options)


def rows(n=80):
    random = np.random.default_rng(3)
    x = np.stack([random.normal(size=n), random.integers(0, 2, n), random.normal(size=n)], 1)
    x[:5, 1] = 2.0  # too few rows for a term of their own
    x[::4, 2] = np.nan
    target = torch.from_numpy(x[:, 0] + x[:, 1])
    return TrainingData(x=torch.from_numpy(x), target=target, outcome=target[:, None])


def test_its_terms_are_numbers_categories_and_whether_a_value_is_missing():
    data = rows()
    found = part(data)
    terms = list(zip(found.column[0].tolist(), found.level[0].tolist(), strict=True))
    assert terms == [(0, NUMBER), (1, 0.0), (1, 1.0), (2, NUMBER), (2, MISSING)]
    found.bias.zero_()
    found.weight.copy_(torch.tensor([1.0, 10.0, 100.0, 1000.0, 10_000.0])[None, :, None])
    first, last = (data.x[:, column][~data.x[:, column].isnan()] for column in (0, 2))
    x = [[0.0, 1.0, torch.nan], [99.0, 0.0, -99.0], [torch.nan, torch.nan, 0.0]]
    expected = [
        -first.mean() + 100 + 10_000,
        first.max() - first.mean() + 10 + 1000 * (last.min() - last.mean()),
        # No training row lacks the first number, so it is read as 0; the others lack a category.
        -first.mean() - 1000 * last.mean(),
    ]
    outputs = found(torch.tensor([x], dtype=torch.float64))[0, :, 0]
    torch.testing.assert_close(outputs, torch.stack(expected))


def test_with_too_many_terms_it_is_a_constant():
    data = rows()
    wide = data.x[:, :1].expand(-1, MOST_TERMS + 1).clone()
    found = part(TrainingData(x=wide, target=data.target, outcome=data.outcome), categorical=())
    assert found.weight.shape == (1, 0, 1)
    expected = data.target[:60].mean().expand(1, 80, 1)
    torch.testing.assert_close(found(wide[None]), expected)


def test_it_is_saved_and_a_file_that_names_other_columns_is_refused(fitted, tmp_path):
    X, _ = table(seed=1)
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), fitted.predict(X))
    linear_of(fitted).column[0, 0] += 99
    fitted.save(tmp_path / "forged")
    linear_of(fitted).column[0, 0] -= 99
    with pytest.raises(InputError, match="forged"):
        load(tmp_path / "forged")


@pytest.mark.parametrize("name", ["center", "weight", "bias", "share"])
def test_a_file_with_other_shapes_is_refused(fitted, tmp_path, name):
    linear = linear_of(fitted)
    whole = getattr(linear, name)
    setattr(linear, name, whole[..., :0])
    fitted.save(tmp_path / "forged")
    setattr(linear, name, whole)
    with pytest.raises(InputError, match="forged"):
        load(tmp_path / "forged")


def test_it_may_see_the_sensitive_features():
    X, signal = table()
    A = {"group": np.where(np.arange(600) % 3 == 0, "p", "q"), "age": X["b"].to_numpy()}
    y = signal + 5 * (A["group"] == "p")
    model = FairBoostingRegressor(strength=0, sensitive_at_prediction=True, random_state=0)
    model.fit(X.drop(columns="b"), y, sensitive_features=A)
    found = model.score(X.drop(columns="b"), y, sensitive_features=A)
    assert found > 0.97 and float(linear_of(model).share.min()) > 0.5


class Killed(Exception):
    """What ends a run where a power cut would."""


def test_a_resumed_model_has_the_share_of_an_uninterrupted_one(library, tmp_path):
    X, signal = table()
    options = {"strength": 0, "random_state": 1, "rounds": 60, "early_stopping": 10}
    options |= {"members": 2, **small_trees(library)}
    y = signal + np.sin(3 * X["c"])
    whole = FairBoostingRegressor(**options).fit(X, y)

    def killed(progress):
        if progress.iteration == 20:
            raise Killed

    file = tmp_path / "run.checkpoint"
    with pytest.raises(Killed):
        FairBoostingRegressor(**options).fit(
            X, y, checkpoint=file, checkpoint_every=0, callback=killed
        )
    resumed = FairBoostingRegressor(**options).fit(X, y, checkpoint=file, resume=True)
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))
    assert torch.equal(linear_of(resumed).share, linear_of(whole).share)


def test_a_model_that_is_done_grows_no_more():
    X, signal = table()
    y = signal + np.random.default_rng(4).normal(size=600) + np.sin(3 * X["c"])
    model = FairBoostingRegressor(strength=0, early_stopping=10, random_state=0).fit(X, y)
    network = model.predictor_.network
    grown = [network.forest.models[member].rounds() for member in range(4)]
    assert grown == (network.rounds + 10).clamp_max(200).tolist() and len(set(grown)) > 1
