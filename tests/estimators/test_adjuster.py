"""FairAdjuster: the scores of any model, adjusted by a small network that sees them and A."""

import pickle
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from equipoise import FairAdjuster, FairFrontier, load
from equipoise.errors import InputError
from tests.error_parts import says

SHORT = {"iterations": 60, "random_state": 0}


def people(n=400, *, seed=0):
    """Rows whose first feature depends on both sensitive columns."""
    random = np.random.default_rng(seed)
    A = pd.DataFrame({"sex": random.choice(["F", "M"], n), "age": random.normal(40, 10, n)})
    skill = random.normal(size=n) + (A["sex"] == "M") + (A["age"] - 40) / 10
    X = pd.DataFrame({"skill": skill, "hours": random.normal(size=n)})
    y = np.where(skill + X["hours"] + random.normal(size=n) > 0.5, "yes", "no")
    return X, y, A


def normal_scores(kind, n=2000, *, seed=0):
    """A score that is normal around a, z without that shift, a label that depends on z alone."""
    random = np.random.default_rng(seed)
    a = random.normal(size=n) if kind == "continuous" else random.choice([-1.0, 1.0], n)
    z = random.normal(size=n)
    y = (random.random(n) < expit(2 * z)).astype(int)
    return pd.DataFrame({"score": z + a}), z, y, pd.DataFrame({"a": a})


def distance(score, a):
    """Largest distance of the distribution functions of the score below and above a's mean."""
    low, high = (np.sort(score[side]) for side in (a <= a.mean(), a > a.mean()))
    both = np.concatenate([low, high])
    shares = [np.searchsorted(part, both, "right") / len(part) for part in (low, high)]
    return np.abs(shares[0] - shares[1]).max()


@pytest.mark.parametrize("increasing", [False, True])
@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_the_best_fair_score_is_found_where_it_is_known(kind, increasing):
    """It is the score minus its mean given A."""
    X, _, y, A = normal_scores(kind)
    short = {"iterations": 600, "learning_rate": 2e-3, "random_state": 0}
    model = FairAdjuster(strength=0.9, increasing=increasing, **short)
    model.fit(X, y, sensitive_features=A)
    X, z, y, A = normal_scores(kind, seed=1)
    adjusted = model.decision_function(X, sensitive_features=A)
    best, plain = roc_auc_score(y, z), roc_auc_score(y, X["score"])
    assert plain < best - 0.08
    assert roc_auc_score(y, adjusted) > best - 0.01
    assert distance(X["score"].to_numpy(), A["a"]) > 0.3
    assert distance(adjusted, A["a"]) < 0.12


@pytest.mark.parametrize("increasing", [False, True])
def test_a_stronger_penalty_leaves_a_smaller_gap_in_every_range_of_a(increasing):
    """Mean and spread of the score depend on a, most at its ends, where few people are."""
    random = np.random.default_rng(0)
    n = 9000
    a, z = random.normal(size=n), random.normal(size=n)
    y = (random.random(n) < expit(2 * z + a)).astype(int)
    X = pd.DataFrame({"score": z * np.exp(a / 2) + a + 3 * (a < -1.6) * (a + 1.6)})
    A = pd.DataFrame({"a": a, "sex": random.choice(["F", "M"], n)})
    frontier = FairFrontier(
        FairAdjuster(increasing=increasing, iterations=600),
        strengths=(0.0, 0.6, 0.95),
        seeds=1,
        evaluate_every=600,
        validation=0.3,
        metrics=["gap"],
        random_state=0,
    ).fit(X, y, sensitive_features=A)
    last = frontier.table()
    gaps = last[["gap a", "gap sex"]].max(axis=1).to_numpy()
    assert gaps[0] > 0.3 and (np.diff(gaps) < -0.05).all() and gaps[-1] < 0.05
    assert last["utility"].iloc[-1] > roc_auc_score(y, z) - 0.02


@pytest.mark.parametrize("options", [{}, {"increasing": True}, {"hidden": ()}], ids=str)
def test_no_network_turns_the_score_around(options):
    """With a strong penalty nothing but their start tells them which way is up."""
    X, _, y, A = normal_scores("discrete")
    adjuster = FairAdjuster(iterations=40, **options)
    frontier = FairFrontier(
        adjuster, strengths=(0.5, 0.999), seeds=6, evaluate_every=20, metrics=["SP"]
    ).fit(X, y, sensitive_features=A)
    assert (frontier.table()["utility"] > 0.6).all()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_increasing_for_every_value_of_the_sensitive_features(task):
    X, y, A = people()
    base = LogisticRegression() if task == "classification" else LinearRegression()
    target = y if task == "classification" else X["skill"] + X["hours"]
    model = FairAdjuster(base, strength=0.8, increasing=True, learning_rate=0.002, **SHORT)
    model.fit(X, target, sensitive_features=A)
    grid = pd.DataFrame({"skill": np.linspace(-4, 5, 200), "hours": 0.0})
    answer = model.predict if task == "regression" else model.decision_function
    inner = model.encoder_.transform(model._features(grid))[:, 0]
    for sex in ("F", "M"):
        for age in (15, 35, 60, 90):
            alike = pd.DataFrame({"sex": sex, "age": age}, index=grid.index)
            adjusted = answer(grid, sensitive_features=alike)
            assert (np.diff(adjusted) >= 0).all()
            assert (np.diff(adjusted)[np.diff(inner) > 0] > 0).all()


def test_each_class_increases_with_its_own_score():
    random = np.random.default_rng(0)
    scores, A = random.normal(size=(300, 3)), random.choice(["F", "M"], 300)
    y = (scores + random.gumbel(size=(300, 3))).argmax(axis=1)
    model = FairAdjuster(strength=0.5, increasing=True, **SHORT).fit(
        scores, y, sensitive_features=A
    )
    for place in range(3):
        grid = np.zeros((50, 3))
        grid[:, place] = np.linspace(-2, 2, 50)
        logits = model.decision_function(grid, sensitive_features=["F"] * 50)
        assert (np.diff(logits[:, place]) > 0).all()
    assert model.score(scores, y, sensitive_features=A) > 0.5


class Counting(LogisticRegression):
    """Counts its fits, and keeps the rows of each."""

    fits: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        type(self).fits.append((len(X), sample_weight))
        return super().fit(X, y, sample_weight)


@pytest.fixture
def fits():
    Counting.fits = []
    return Counting.fits


def test_the_model_is_fitted_for_each_fold_and_asked_once_more_for_all_rows(fits):
    X, y, A = people(300)
    FairAdjuster(Counting(), cv=3, **SHORT).fit(X, y, sensitive_features=A)
    assert [rows for rows, _ in fits] == [200, 200, 200]
    FairAdjuster(Counting(), cv=3, ensemble=False, **SHORT).fit(X, y, sensitive_features=A)
    assert [rows for rows, _ in fits[3:]] == [200, 200, 200, 300]


@pytest.mark.parametrize(
    ("base", "method"),
    [
        (LogisticRegression(), "predict_proba"),
        (LinearSVC(), "decision_function"),
        (LinearRegression(), "predict"),
    ],
)
def test_new_rows_get_the_average_of_the_models_of_the_folds(base, method):
    X, y, A = people(300)
    target = X["skill"] if method == "predict" else y
    folds = KFold(3)
    model = FairAdjuster(base, cv=folds, **SHORT).fit(X, target, sensitive_features=A)
    parts = [
        clone(base).fit(X.iloc[rows], target.iloc[rows] if method == "predict" else y[rows])
        for rows, _ in folds.split(X)
    ]
    mean = np.mean([getattr(part, method)(X) for part in parts], axis=0)
    average = model.estimator_
    np.testing.assert_allclose(getattr(average, method)(X), mean, rtol=1e-12)
    assert not any(
        hasattr(average, each)
        for each in ("predict_proba", "decision_function")
        if not hasattr(base, each)
    )
    again = pickle.loads(pickle.dumps(average))
    if method == "predict":
        assert is_regressor(average) and not is_classifier(average)
        np.testing.assert_allclose(again.predict(X), mean, rtol=1e-12)
    else:
        assert is_classifier(average) and not is_regressor(average)
        votes = mean[:, 1] > 0.5 if mean.ndim == 2 else mean > 0
        assert again.predict(X).tolist() == np.where(votes, "yes", "no").tolist()


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, ("ensemble", "estimator=None", "False")),
        (
            {"estimator": LogisticRegression().fit([[0], [1]], [0, 1]), "cv": "prefit"},
            ("ensemble", "cv='prefit'", "False"),
        ),
        ({"estimator": LogisticRegression()}, ("ensemble", "True or False", "'no'")),
    ],
)
def test_an_ensemble_that_changes_nothing_is_refused(options, parts):
    X, y, A = people(60)
    ensemble = "no" if "'no'" in parts else False
    with pytest.raises(InputError) as error:
        FairAdjuster(**options, ensemble=ensemble).fit(X, y, sensitive_features=A)
    says(error.value, *parts)


def test_a_frontier_fits_the_model_to_training_rows_once_for_all_strengths(fits):
    X, y, A = people(300)
    adjuster = FairAdjuster(Counting(), cv=KFold(2), iterations=40)
    frontier = FairFrontier(
        adjuster, strengths=(0.0, 0.5, 0.9), seeds=2, metrics=["KS-GSP"], random_state=0
    )
    frontier.fit(X, y, sensitive_features=A)
    assert [rows for rows, _ in fits] == [90, 90]
    model = frontier.select(min_utility=0).model
    assert isinstance(model, FairAdjuster)
    assert model.score(X, y, sensitive_features=A) > 0.6


def test_training_scores_come_from_models_that_did_not_see_the_row():
    """A model that only remembers has nothing to say about rows that it did not see."""

    class Memory(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_, self.seen_ = np.unique(y), dict(zip(X[:, 0], y, strict=True))
            return self

        def decision_function(self, X):
            return np.array([float(self.seen_.get(key, key % 2 / 10)) for key in X[:, 0]])

    random = np.random.default_rng(0)
    X, y = np.arange(600.0)[:, None], random.integers(0, 2, 600)
    A = random.choice(["F", "M"], 600)
    model = FairAdjuster(Memory(), strength=0, **SHORT).fit(X, y, sensitive_features=A)
    trained_on = np.array(sorted(model.encoder_.state().medians.values()))
    assert trained_on[0] < 0.2
    remembered = model.decision_function(X, sensitive_features=A)
    assert np.abs(remembered).max() < 1.5  # as uncertain as the model is about new rows


def test_a_fitted_model_stays_as_it_is(fits):
    X, y, A = people()
    fitted = Counting().fit(X[:200], y[:200])
    before = fitted.coef_.copy()
    adjuster = FairAdjuster(fitted, cv="prefit", iterations=40)
    assert clone(adjuster).estimator is fitted
    clone(adjuster).set_params(random_state=0).fit(X, y, sensitive_features=A)
    frontier = FairFrontier(adjuster, strengths=(0.5,), seeds=1, random_state=0)
    frontier.fit(X, y, sensitive_features=A)
    assert len(fits) == 1
    assert np.array_equal(fitted.coef_, before)


def test_it_is_what_its_model_is():
    classifier = FairAdjuster(make_pipeline(StandardScaler(), LogisticRegression()))
    regressor = FairAdjuster(LinearRegression())
    assert is_classifier(classifier) and not is_regressor(classifier)
    assert is_regressor(regressor) and not is_classifier(regressor)
    assert is_classifier(FairAdjuster()) and is_regressor(FairAdjuster(task="regression"))
    assert hasattr(classifier, "predict_proba") and not hasattr(regressor, "predict_proba")
    assert FairAdjuster(LinearRegression(), strength=0.25).strength == 0.25


def test_regression_at_strength_zero_keeps_a_good_prediction():
    X, _, A = people(1000)
    y = X["skill"] * 3 + np.random.default_rng(0).normal(size=1000) + 100
    model = FairAdjuster(LinearRegression(), strength=0, random_state=0, iterations=500)
    predicted = model.fit(X, y, sensitive_features=A).predict(X, sensitive_features=A)
    plain = LinearRegression().fit(X, y).predict(X)
    assert r2_score(y, predicted) > r2_score(y, plain) - 0.02


@pytest.mark.parametrize("base", [LogisticRegression(), LinearSVC()])
def test_the_score_is_that_of_the_positive_label(base):
    X, y, A = people()
    adjuster = FairAdjuster(base, increasing=True, iterations=40)
    frontier = FairFrontier(adjuster, strengths=(0.0,), seeds=1, random_state=0)
    frontier.fit(X, y, sensitive_features=A, positive="no")
    model = frontier.select(max_gap=1).model
    assert model.classes_.tolist() == ["yes", "no"]
    probability = model.predict_proba(X, sensitive_features=A)[:, 1]
    assert roc_auc_score(y == "no", probability) > 0.8


def test_sample_weights_reach_the_model(fits):
    X, y, A = people(200)
    weights = np.arange(200) % 3  # rows of weight 0 are left out
    adjuster = FairAdjuster(Counting(), cv=2, ensemble=False, **SHORT)
    adjuster.fit(X, y, sensitive_features=A, sample_weight=weights)
    assert sum(rows for rows, _ in fits[:2]) == 133 == fits[2][0]
    assert fits[2][1].mean() == pytest.approx(1)
    assert set((fits[2][1] / fits[2][1].min()).round(9)) == {1, 2}


def test_rows_with_a_missing_sensitive_value():
    X, y, A = people()
    A.loc[::10, "sex"] = None
    model = FairAdjuster(LogisticRegression(), missing_sensitive="skip", **SHORT)
    model.fit(X, y, sensitive_features=A)
    assert np.isfinite(model.decision_function(X, sensitive_features=A)).all()
    with pytest.raises(InputError) as error:
        FairAdjuster(LogisticRegression(), **SHORT).fit(X, y, sensitive_features=A)
    says(error.value, "sensitive_features", "'sex'", "skip")


class WithoutScores(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise AssertionError("nothing may be trained")

    def predict(self, X):
        return np.zeros(len(X))


class NeverFitted(WithoutScores):
    def predict_proba(self, X):
        raise AssertionError("nothing may be scored")


class Constant(NeverFitted):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


class Broken(Constant):
    def predict_proba(self, X):
        return np.full((len(X), 2), np.nan)


def rare(y):
    labels = y.astype(object)
    labels[0] = "rare"
    return labels.astype(str)


@pytest.mark.parametrize(
    ("estimator", "options", "parts"),
    [
        (StandardScaler(), {}, ("estimator must be a classifier or a regr", "StandardScaler")),
        (WithoutScores(), {}, ("estimator must have scores", "predict_proba", "WithoutScores")),
        (NeverFitted(), {"cv": "prefit"}, ("estimator must be fitted", "prefit", "call its fit")),
        (NeverFitted(), {"cv": 1}, ("cv must be a whole number of folds of at least 2", "got 1")),
        (NeverFitted(), {"cv": "loo"}, ("cv must be", "'prefit'", "'loo'", "cv=5")),
        (NeverFitted(), {"cv": 500}, ("cv must be at most the number of rows, 400", "got 500")),
        (NeverFitted(), {"cv": TimeSeriesSplit(3)}, ("cv must score every row once", "row 0 0 ti")),
        (NeverFitted(), {"cv": GroupKFold(2)}, ("cv must split 400 rows", "GroupKFold", "cv=5")),
        (NeverFitted(), {"task": "regression"}, ("task has no meaning", "a classifier")),
        (NeverFitted(), {"increasing": "yes"}, ("increasing must be True or False", "'yes'")),
        (
            NeverFitted(),
            {"increasing": True, "normalization": "batch"},
            ("normalization must be 'none'", "increasing=True", "'batch'", "leave it out"),
        ),
        (NeverFitted(), {"method": "scutari"}, ("method must be one", "'scutari'", "'sbp'")),
        (Constant(), {}, ("estimator must give scores that differ", "got 0 in every row")),
        (Broken(), {}, ("estimator must give finite scores, got nan from Broken in row 0")),
        (None, {"task": "ranking"}, ("task must be 'classification' or 'regression'", "'ranking'")),
    ],
)
def test_what_cannot_be_adjusted_is_said_before_the_network_trains(estimator, options, parts):
    X, y, A = people()
    with pytest.raises(InputError) as error:
        FairAdjuster(estimator, **SHORT, **options).fit(X, y, sensitive_features=A)
    says(error.value, *([parts] if isinstance(parts, str) else parts))


def test_folds_without_a_class_are_refused_before_anything_is_trained():
    X, y, A = people()
    by_label = PredefinedSplit((y == "yes").astype(int))
    for labels, cv, parts in (
        (y, by_label, ("with no row of class 'no' to fit in fold 1", "use fewer folds")),
        (rare(y), 5, ("cv must leave rows of every class", "got 5", "'rare'", "join classes")),
    ):
        with pytest.raises(InputError) as error:
            FairAdjuster(NeverFitted(), cv=cv).fit(X, labels, sensitive_features=A)
        says(error.value, *parts)


def test_what_a_fit_needs_is_said_before_the_model_is_fitted():
    X, y, A = people()
    model = FairAdjuster(NeverFitted(), strength=0)
    for arguments, parts in (
        ({}, ("sensitive_features is required at any strength", "sensitive_features=A")),
        ({"sensitive_features": A[:7]}, ("sensitive_features", "7")),
        (
            {"sensitive_features": A, "sample_weight": np.ones(400)},
            ("sample_weight must be left out", "NeverFitted", "cv='prefit'"),
        ),
    ):
        with pytest.raises(InputError) as error:
            model.fit(X, y, **arguments)
        says(error.value, *parts)


@pytest.mark.parametrize("in_frontier", [False, True])
def test_a_method_that_cannot_is_refused_before_the_model_is_fitted(in_frontier):
    X, y, A = people()
    for options, parts in (
        ({"method": "kde"}, ("method='kde' does not support", "continuous", "sbp")),
        ({"density_ratio": "network"}, ("density_ratio", "separation")),
    ):
        # A frontier reads its own strengths, not that of the estimator.
        strength = 0.0 if in_frontier else 0.5
        model = FairAdjuster(NeverFitted(), strength=strength, **options)
        if in_frontier:
            model = FairFrontier(model, strengths=(0.0, 0.5), seeds=1)
        with pytest.raises(InputError) as error:
            model.fit(X, y, sensitive_features=A)
        says(error.value, *parts)


class Classes(LogisticRegression):
    """Notes the persons of each fit, and of the scores that follow it."""

    fits: ClassVar[list] = []

    def fit(self, X, y):
        Classes.fits.append((set(X["person"]), []))
        return super().fit(X, y)

    def predict_proba(self, X):
        Classes.fits[-1][1].append(set(X["person"]))
        return super().predict_proba(X)


class Numbers(LinearRegression):
    """The same for a continuous outcome."""

    def fit(self, X, y):
        Classes.fits.append((set(X["person"]), []))
        return super().fit(X, y)

    def predict(self, X):
        Classes.fits[-1][1].append(set(X["person"]))
        return super().predict(X)


@pytest.mark.parametrize("cv", [3, GroupKFold(3)], ids=["number", "splitter"])
@pytest.mark.parametrize("base", [Classes(), Numbers()], ids=["classes", "numbers"])
def test_folds_keep_the_groups_of_a_frontier_whole(base, cv):
    X, y, A = people()
    X["person"] = np.random.default_rng(1).permutation(np.repeat(np.arange(100), 4))
    if is_regressor(base):
        y = X["skill"] + X["hours"]
    Classes.fits.clear()
    frontier = FairFrontier(
        FairAdjuster(base, cv=cv, ensemble=False, iterations=20),
        strengths=(0.0, 0.5),
        seeds=1,
        random_state=0,
    ).fit(X, y, sensitive_features=A, groups=X["person"])
    *folds, (everybody, _) = Classes.fits
    assert everybody == set(X["person"][frontier.fitted_curve().split.train])
    scored = [scored for _, (scored,) in folds]
    assert [fitted & scored for (fitted, _), scored in zip(folds, scored, strict=True)] == [
        set()
    ] * 3
    assert set.union(*scored) == everybody and sum(map(len, scored)) == len(everybody)


def test_more_folds_than_groups_are_refused():
    X, y, A = people()
    model = FairFrontier(FairAdjuster(NeverFitted(), cv=9), strengths=(0.5,), seeds=1)
    with pytest.raises(InputError) as error:
        model.fit(X, y, sensitive_features=A, groups=np.arange(400) % 10)
    says(error.value, "cv must be at most the number of groups among training rows", "got 9")


@pytest.mark.parametrize(
    ("scores", "parts"),
    [
        ([[0.1, 0.2]] * 4, ("X must be the score, 1 column", "got 2 columns")),
        ([[0.5]] * 4, ("X must give scores that differ", "0.5 in every row")),
        (
            [[0.1], [np.nan], [0.3], [0.4]],
            ("'x0'", "finite numbers", "missing value in 1 of 4 rows"),
        ),
        (pd.DataFrame({"s": list("abcd")}), ("'s'", "finite numbers", "text", "convert")),
    ],
)
def test_scores_that_cannot_be_adjusted_are_refused(scores, parts):
    with pytest.raises(InputError) as error:
        FairAdjuster().fit(scores, [0, 1, 0, 1], sensitive_features=list("FFMM"))
    says(error.value, *parts)


def test_a_model_of_other_classes_is_refused():
    X, y, A = people()
    fitted = LogisticRegression().fit(X, y == "yes")
    with pytest.raises(InputError) as error:
        FairAdjuster(fitted, cv="prefit").fit(X, y, sensitive_features=A)
    says(error.value, "estimator must have the classes of y", "['no', 'yes']", "[False, True]")


@pytest.mark.parametrize("frame", [True, False])
@pytest.mark.parametrize("kind", ["two classes", "three classes", "numbers"])
@pytest.mark.parametrize("increasing", [False, True])
def test_saved_loaded_and_exported(frame, kind, increasing, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    X, y, A = people(300)
    y = {"two classes": y, "three classes": np.where(X["hours"] > 1, "maybe", y)}.get(
        kind, X["skill"] * 2 + (y == "yes")
    )
    X = X.assign(city=pd.Categorical(np.where(X["hours"] > 0, "Ulm", "Bern")))
    if not frame:
        X = X.drop(columns="city").to_numpy()
        base = LinearRegression() if kind == "numbers" else LogisticRegression()
    else:
        lightgbm = pytest.importorskip("lightgbm")
        family = lightgbm.LGBMRegressor if kind == "numbers" else lightgbm.LGBMClassifier
        base = family(n_estimators=5, verbose=-1, n_jobs=1)
    model = FairAdjuster(base, increasing=increasing, **SHORT).fit(X, y, sensitive_features=A)
    expected = model.predict(X, sensitive_features=A)
    path = tmp_path / "model.equipoise"
    model.save(path)

    again = load(path, estimator=model.estimator_)
    assert again.get_params()["cv"] == "prefit"
    assert np.array_equal(again.predict(X, sensitive_features=A), expected)
    assert again.n_features_in_ == model.n_features_in_
    assert hasattr(again, "feature_names_in_") == frame

    alone = load(path)
    scores = model._features(X)
    assert alone.estimator is None and alone.feature_names_in_.tolist() == list(scores)
    assert np.array_equal(alone.predict(scores, sensitive_features=A), expected)
    alone.save(path)
    assert np.array_equal(
        load(path, estimator=model.estimator_).predict(X, sensitive_features=A), expected
    )

    other = clone(base).fit(X[:200], y[:200])
    with pytest.raises(InputError) as error:
        load(path, estimator=other)
    says(error.value, "estimator must be the fitted model", "scores differ", "estimator_")

    model.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    given = {name: scores[name].to_numpy() for name in scores}
    given |= {"sex": A["sex"].to_numpy(object), "age": A["age"].to_numpy()}
    (answer, *_) = session.run(None, given)
    if kind == "numbers":
        np.testing.assert_allclose(answer, expected, rtol=1e-9)
    else:
        assert np.array_equal(answer, expected)


def test_a_frontier_of_adjusters_is_saved_and_loaded_with_its_model(tmp_path):
    X, y, A = people()
    adjuster = FairAdjuster(LogisticRegression(), increasing=True, iterations=40)
    frontier = FairFrontier(adjuster, strengths=(0.0, 0.9), seeds=1, random_state=0)
    frontier.fit(X, y, sensitive_features=A)
    model = frontier.select(max_gap=1).model
    path = tmp_path / "frontier.equipoise"
    frontier.save(path)
    again = load(path, estimator=model.estimator_)
    assert again.estimator.estimator is model.estimator_
    expected = model.predict_proba(X, sensitive_features=A)
    found = again.select(max_gap=1).model
    assert np.array_equal(found.predict_proba(X, sensitive_features=A), expected)
    alone = load(path).select(max_gap=1).model
    scores = model._features(X)
    assert np.array_equal(alone.predict_proba(scores, sensitive_features=A), expected)


def test_a_model_is_only_for_files_of_adjusters_of_models(tmp_path):
    X, y, A = people()
    path = tmp_path / "scores.equipoise"
    FairAdjuster(**SHORT).fit(X[["skill"]], y, sensitive_features=A).save(path)
    with pytest.raises(InputError) as error:
        load(path, estimator=LogisticRegression().fit(X, y))
    says(error.value, "estimator must be left out", "no FairAdjuster of a model", "LogisticReg")
    assert load(path).predict(X[["skill"]], sensitive_features=A).shape == (400,)


def test_loaded_without_its_model_it_says_what_it_takes(tmp_path):
    X, y, A = people()
    path = tmp_path / "model.equipoise"
    FairAdjuster(LogisticRegression(), **SHORT).fit(X, y, sensitive_features=A).save(path)
    with pytest.raises(InputError) as error:
        load(path).predict(X, sensitive_features=A)
    says(error.value, "X must hold the scores of the model", "model_score", "load(path, estimator")
