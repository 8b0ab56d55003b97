"""Scutari: the closed form of its paper, scikit-learn's regressions, and the bound to the digit."""

import numpy as np
import pytest
import torch
from scipy.special import expit, logit
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss

from equipoise import FairClassifier, FairEncoder, FairRegressor, load
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError
from equipoise.methods import Context
from equipoise.methods.scutari import LinearFit, LogisticFit, Parts, solve, within
from equipoise.notions import Notion
from equipoise.training import Member, RowSet, TrainingData
from tests.composing import composed
from tests.error_parts import says


def drawn(columns, *, n=300, seed=0):
    """Features that follow the sensitive columns, and an outcome of both."""
    random = np.random.default_rng(seed)
    s = random.normal(size=(n, columns)) @ random.normal(size=(columns, columns))
    x = s @ random.normal(size=(columns, 4)) + random.normal(size=(n, 4)) + 2
    y = x @ [1.0, -1.0, 0.5, 0.0] + s.sum(1) + random.normal(size=n)
    return x, s, y


def even(n):
    return np.full(n, 1 / n)


def parts_of(x, s):
    """S and U = X less its regression on S, centered, by scikit-learn."""
    return s - s.mean(0), x - LinearRegression().fit(s, x).predict(s)


def predicted(coefficients, x, s):
    return np.column_stack([x, s, np.ones(len(x))]) @ coefficients


@pytest.mark.parametrize("bound", [0.2, 0.1, 0.01])
def test_one_sensitive_column_has_the_closed_form(bound):
    """a = a_ols * sqrt(r / (1 - r) var(U b) / var(S a_ols)), wherever the bound binds."""
    x, s, y = drawn(1)
    centered, rest = parts_of(x, s)
    of_rest = LinearRegression().fit(rest, y).predict(rest) - y.mean()
    of_sensitive = LinearRegression().fit(centered, y).predict(centered) - y.mean()
    assert of_sensitive.var() / (of_sensitive.var() + of_rest.var()) > bound
    shrunk = np.sqrt(bound / (1 - bound) * of_rest.var() / of_sensitive.var())
    expected = y.mean() + of_rest + shrunk * of_sensitive
    coefficients, share = within(LinearFit(Parts.of(x, s, even(300)), y).at, bound)
    np.testing.assert_allclose(predicted(coefficients, x, s), expected, atol=1e-8)
    assert share == pytest.approx(bound, abs=1e-10)


def test_without_a_ridge_it_is_least_squares_on_x_and_s():
    x, s, y = drawn(3)
    both = np.column_stack([x, s])
    coefficients, _ = LinearFit(Parts.of(x, s, even(300)), y).at(0.0)
    ols = LinearRegression().fit(both, y)
    np.testing.assert_allclose(coefficients[:-1], ols.coef_, atol=1e-9)
    assert coefficients[-1] == pytest.approx(ols.intercept_, abs=1e-9)


def test_a_ridge_is_on_the_sensitive_part_alone():
    x, s, y = drawn(3)
    centered, rest = parts_of(x, s)
    ridge = Ridge(alpha=0.7 * 300).fit(centered, y)
    expected = ridge.predict(centered) + LinearRegression().fit(rest, y).predict(rest) - y.mean()
    coefficients, share = LinearFit(Parts.of(x, s, even(300)), y).at(0.7)
    np.testing.assert_allclose(predicted(coefficients, x, s), expected, atol=1e-9)
    variances = ridge.predict(centered).var(), LinearRegression().fit(rest, y).predict(rest).var()
    assert share == pytest.approx(variances[0] / sum(variances), abs=1e-12)


def test_columns_that_repeat_one_another_change_nothing():
    """One-hot blocks add up to a constant, and a column may come twice."""
    x, s, y = drawn(2)
    group = np.eye(3)[np.arange(300) % 3]
    shares = []
    for repeated in (x, np.column_stack([x, x[:, :1], np.ones(300)])):
        parts = Parts.of(repeated, np.column_stack([s, group]), even(300))
        coefficients, share = within(LinearFit(parts, y).at, 0.05)
        shares.append(share)
        assert np.abs(coefficients).max() < 100
    assert shares == pytest.approx([0.05, 0.05], abs=1e-10)


@pytest.mark.parametrize("fit", [LinearFit, LogisticFit])
def test_weight_two_is_the_row_twice(fit):
    x, s, y = drawn(2)
    y = (y > y.mean()) * 1.0 if fit is LogisticFit else y
    counts = 1 + np.arange(300) % 2
    twice = [np.repeat(part, counts, axis=0) for part in (x, s, y)]
    weighted = fit(Parts.of(x, s, counts / counts.sum()), y).at(0.1)
    repeated = fit(Parts.of(*twice[:2], even(len(twice[2]))), twice[2]).at(0.1)
    np.testing.assert_allclose(weighted[0], repeated[0], atol=1e-7)
    assert weighted[1] == pytest.approx(repeated[1], abs=1e-9)


def classes(columns):
    x, s, y = drawn(columns, n=400, seed=1)
    random = np.random.default_rng(2)
    return x, s, (random.random(400) < expit(0.7 * (y - y.mean()))).astype(float)


def test_logistic_without_a_ridge_is_scikit_learns():
    x, s, y = classes(2)
    both = np.column_stack([x, s])
    plain = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(both, y)
    coefficients, _ = LogisticFit(Parts.of(x, s, even(400)), y).at(0.0)
    np.testing.assert_allclose(coefficients[:-1], plain.coef_[0], atol=1e-5)
    assert coefficients[-1] == pytest.approx(plain.intercept_[0], abs=1e-5)


def test_logistic_with_a_ridge_on_the_sensitive_part_and_its_share_of_the_deviance():
    """Scikit-learn's ridge is on everything; columns of U in tiny units escape it."""
    x, s, y = classes(2)
    centered, rest = parts_of(x, s)
    ridge, unit = 0.05, 1e4
    both = np.column_stack([centered, unit * rest])
    theirs = LogisticRegression(C=1 / (ridge * 400), tol=1e-12, max_iter=10_000, solver="newton-cg")
    theirs.fit(both, y)
    coefficients, share = LogisticFit(Parts.of(x, s, even(400)), y).at(ridge)
    ours = predicted(coefficients, x, s)
    np.testing.assert_allclose(ours, theirs.decision_function(both), atol=1e-4)
    without = theirs.decision_function(np.column_stack([0 * centered, unit * rest]))
    full, reduced = (log_loss(y, expit(value)) for value in (ours, without))
    null = log_loss(y, np.full(400, y.mean()))
    assert share == pytest.approx((reduced - full) / (null - full), abs=1e-4)


@pytest.mark.parametrize("fit", [LinearFit, LogisticFit])
def test_the_share_is_the_bound(fit):
    x, s, y = classes(3)
    model = fit(Parts.of(x, s, even(400)), y)
    largest = model.at(0.0)[1]
    for bound in (0.9 * largest, 0.5 * largest, 0.01 * largest):
        assert within(model.at, bound)[1] == pytest.approx(bound, abs=1e-8)
    assert within(model.at, 2 * largest)[1] == pytest.approx(largest, abs=1e-10)


def test_features_that_are_all_sensitive_leave_a_constant():
    _, s, y = drawn(2)
    coefficients, _ = within(LinearFit(Parts.of(s @ np.ones((2, 1)), s, even(300)), y).at, 0.1)
    fitted = predicted(coefficients, s @ np.ones((2, 1)), s)
    assert fitted == pytest.approx(np.full(300, y.mean()), abs=1e-6)


def test_members_see_their_own_rows():
    x, s, y = (torch.from_numpy(part) for part in drawn(1, n=100))
    data = TrainingData(x=torch.cat([x, s], 1), target=y, outcome=y[:, None])
    some = TrainingData(x=data.x[:60], target=y[:60], outcome=y[:60, None])
    members = [Member(0.5, 0, RowSet(range(60))), Member(0.5, 0, RowSet(range(40, 100)))]
    both, alone = (
        solve(
            Context(
                data=rows,
                members=which,
                notion=Notion.INDEPENDENCE,
                task="squared",
                attribute_inputs=1,
            )
        ).evaluate(data.x)[0]
        for rows, which in ((data, members), (some, [Member(0.5, 0)]))
    )
    torch.testing.assert_close(both[0], alone[0], rtol=1e-9, atol=1e-9)
    assert (both[1] - both[0]).abs().max() > 1e-3


@pytest.fixture(scope="module")
def numbers():
    return make_synthetic(600, task="regression", random_state=0)


@pytest.fixture(scope="module")
def labels():
    return make_synthetic(600, random_state=0)


def fitted_on(model, rows):
    return model.fit(rows.X, rows.y, sensitive_features=rows.A)


def linear_share(prediction, A):
    """R2 of predictions on A: as U is uncorrelated with S, the very share that is bounded."""
    group = (A["group"].to_numpy()[:, None] == ["a", "b", "c"]).astype(float)
    s = np.column_stack([A["age"], group])
    return LinearRegression().fit(s, prediction).score(s, prediction)


def test_the_share_falls_in_proportion_to_one_minus_strength(numbers):
    shares = {}
    for strength in (0.0, 0.3, 0.9, 0.99):
        model = fitted_on(FairRegressor(method="scutari", strength=strength), numbers)
        prediction = model.predict(numbers.X, sensitive_features=numbers.A)
        shares[strength] = linear_share(prediction, numbers.A)
    assert shares[0.0] > 0.1
    for strength, share in shares.items():
        assert share == pytest.approx((1 - strength) * shares[0.0], abs=1e-5)


def test_a_classifier_is_saved_and_selected_and_asks_for_a(labels, tmp_path):
    options = {"method": "scutari", "random_state": 0}
    model = fitted_on(FairClassifier(strength=0.9, **options), labels)
    assert model.history_.iterations.tolist() == [1] and model.health_.ok
    probability = model.predict_proba(labels.X, sensitive_features=labels.A)[:, 1]
    decided = model.predict(labels.X, sensitive_features=labels.A)
    assert np.array_equal(decided == model.classes_[1], probability > 0.5)
    model.save(tmp_path / "model.equipoise")
    again = load(tmp_path / "model.equipoise")
    one = {"X": labels.X[:1], "sensitive_features": labels.A[:1]}
    assert again.predict_proba(**one)[0, 1] == pytest.approx(probability[0], abs=1e-12)

    frontier = fitted_on(composed(strengths=(0.0, 0.9), seeds=1, **options), labels)
    table = frontier.table()
    assert table["iteration"].tolist() == [1, 1]
    assert table["KS-GSP group"][1] < 0.6 * table["KS-GSP group"][0]
    frontier.save(tmp_path / "frontier.equipoise")
    chosen = [
        each.select(max_gap=1.0, draws=20).model.decision_function(
            labels.X, sensitive_features=labels.A
        )
        for each in (frontier, load(tmp_path / "frontier.equipoise"))
    ]
    assert np.array_equal(*chosen)


def test_what_predicting_needs_is_said(labels):
    model = fitted_on(FairClassifier(method="scutari", strength=0.5), labels)
    X, A = labels.X, labels.A
    with pytest.raises(
        InputError, match=r"^sensitive_features is required to predict with method="
    ):
        model.predict(X)
    for given, message in (
        (A.rename(columns={"age": "aeg"}), "the columns seen at fit, age, group, got aeg, group"),
        (A[:7], "must have one row for each of the 600 rows of X, got 7"),
        (
            A.assign(group="z"),
            "column 'group' must have the categories seen at fit, got 'z' in row 0; ",
        ),
        (A.assign(age=[None, *A["age"][1:]]), "column 'age' must be known to predict, got a miss"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict(X, sensitive_features=given)
    with pytest.raises(InputError, match=r"^to_onnx cannot write a model of method='scutari'"):
        model.to_onnx("model.onnx")
    plain = FairClassifier(strength=0, iterations=2, hidden=(4,), random_state=0).fit(X, labels.y)
    with pytest.raises(InputError, match="must be left out to predict with method='sbp', which"):
        plain.predict(X, sensitive_features=A)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            FairRegressor(loss="absolute"),
            "^loss must be 'squared' for method='scutari', .* got 'absolute'; leave loss out",
        ),
        (FairRegressor(notion="separation"), "does not support notion='separation'; methods that"),
        (FairRegressor(network=lambda p, o: torch.nn.Linear(p, o)), "^network has no meaning for"),
        (FairEncoder(), r"does not support a penalty on a representation \(FairEncoder\)"),
    ],
)
def test_what_it_can_not_do_is_refused(model, message, numbers, labels):
    rows = labels if isinstance(model, FairEncoder) else numbers
    with pytest.raises(InputError, match=message):
        fitted_on(model.set_params(method="scutari"), rows)


def test_it_needs_a_at_strength_zero_and_classes_that_overlap(labels, tmp_path):
    model = FairClassifier(method="scutari", strength=0)
    with pytest.raises(InputError, match=r"^sensitive_features is required at any strength for"):
        model.fit(labels.X, labels.y)
    with pytest.raises(InputError, match="separate the two classes without error"):
        model.fit(labels.X, labels.X.iloc[:, 0] > 0, sensitive_features=labels.A)
    with pytest.raises(
        InputError, match=r"^checkpoint must be left out for a method that does not train"
    ):
        model.set_params(random_state=0).fit(
            labels.X, labels.y, sensitive_features=labels.A, checkpoint=tmp_path / "run"
        )


def test_at_strength_zero_it_is_logistic_regression(labels):
    model = fitted_on(FairClassifier(method="scutari", strength=0, scaling="none"), labels)
    found = model.decision_function(labels.X, sensitive_features=labels.A)
    group = (labels.A["group"].to_numpy()[:, None] == ["b", "c"]).astype(float)
    both = np.column_stack([labels.X, labels.A["age"], group])
    plain = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(both, labels.y)
    np.testing.assert_allclose(found, logit(plain.predict_proba(both)[:, 1]), atol=1e-3)


def test_a_rare_level_of_one_class_alone_is_refused():
    """Its coefficient runs off to infinity, and along with it the bound is met for nothing."""
    x, s, y = drawn(1)
    positive = (y > np.median(y)).astype(float)
    rare = np.zeros(300)
    rare[np.flatnonzero(positive == 0)[:4]] = 1.0
    fit = LogisticFit(Parts.of(np.column_stack([x[:, :2] / 3, rare]), s, even(300)), positive)
    with pytest.raises(InputError) as refusal:
        fit.at(0.0)
    parts = "method='scutari'", "no finite coefficients", "rare values", "merge rare levels"
    assert says(refusal.value, *parts)


def test_callbacks_of_a_frontier_are_told_what_the_one_check_saw(labels):
    told = []
    frontier = composed(method="scutari", strengths=(0.0, 0.9), seeds=1, random_state=0)
    frontier.fit(labels.X, labels.y, sensitive_features=labels.A, callback=told.append)
    ((iteration, snapshots),) = [(each.iteration, each.snapshots) for each in told]
    assert iteration == 1 and len(snapshots) == 2
