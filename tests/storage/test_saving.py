"""A saved model comes back the same: class, options, answers, what it says about itself."""

import os
from dataclasses import asdict

import numpy as np
import pytest
import safetensors
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tiny_models import NAMES, TINY, answers, fitted, labels, mixed_frame
from torch import nn

from equipoise import FairClassifier, FairRegressor, load
from equipoise.errors import InputError
from tests.error_parts import says


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.equipoise"


def assert_same_answers(first, second, X):
    one, two = answers(first, X), answers(second, X)
    assert one.keys() == two.keys() and one
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name, strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_comes_back_the_same(name, path):
    model, X = fitted(name)
    model.save(path)
    again = load(path)
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert_same_answers(again, model, X)
    assert asdict(again.health_) == asdict(model.health_)
    assert again.sensitive_ == model.sensitive_
    for part, array in vars(model.history_).items():
        np.testing.assert_array_equal(getattr(again.history_, part), array, strict=True)
    assert again.encoder_.names_ == model.encoder_.names_
    learned = {key for key in vars(model) if key.endswith("_")}
    assert {key for key in vars(again) if key.endswith("_")} == learned
    assert again.n_features_in_ == model.n_features_in_
    if "feature_names_in_" in learned:
        np.testing.assert_array_equal(again.feature_names_in_, model.feature_names_in_, strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_model_can_be_saved_again(name, path):
    model, X = fitted(name)
    model.save(path)
    load(path).save(path)
    assert_same_answers(load(path), model, X)


def test_new_rows_get_the_same_answers(path):
    model, _ = fitted("two classes, pandas")
    model.save(path)
    assert_same_answers(load(path), model, mixed_frame(500, seed=7))


def test_training_a_loaded_model_anew_gives_the_same_weights(path):
    model, X = fitted("numbers, array, rank")
    model.save(path)
    refitted = clone(load(path)).fit(X, 50 + 9 * X[:, 0])
    assert_same_answers(refitted, model, X)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([3, 7, -2]),
        np.array([0, 1, 2], dtype=np.int8),
        np.array([1.0, 2.0, 3.0], dtype=np.float32),
        np.array(["no", "yes", "\udcff\N{GRINNING FACE}\"'\\"]),
        np.array(["no", "yes", "maybe"], dtype=object),
        np.array([False, True, True]),
    ],
    ids=lambda classes: f"{classes.dtype}-{classes[0]}",
)
def test_labels_keep_their_type(classes, path):
    X = np.random.default_rng(0).normal(size=(len(labels()), 2))
    model = FairClassifier(**TINY).fit(X, classes[labels()])
    model.save(path)
    again = load(path)
    np.testing.assert_array_equal(again.classes_, model.classes_, strict=True)
    assert [type(c) for c in again.classes_] == [type(c) for c in model.classes_]
    assert_same_answers(again, model, X)


def test_columns_are_checked_as_before(path):
    model, X = fitted("two classes, pandas")
    model.save(path)
    again = load(path)
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        again.predict(X.rename(columns={"hours": "ours"}))
    with pytest.raises(InputError, match="X column 'job' must hold text or categories as at fit"):
        again.predict(X.assign(job=1.0))
    with pytest.warns(UserWarning, match=r"not seen at fit, encoded as zeros: 'job' \('pilot'\)"):
        again.predict(X.assign(job="pilot"))


def test_more_categories_than_columns_come_back(path):
    codes = np.array([f"c{i}" for i in range(300)] * 2)
    X = mixed_frame(600)[["hours"]].assign(code=codes)
    model = FairRegressor(**TINY).fit(X, np.arange(600.0))
    model.save(path)
    assert model.encoder_.names_[-1] == "code is infrequent"
    assert_same_answers(load(path), model, X)


def test_a_random_state_goes_on_where_it_was(path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = FairRegressor(**{**TINY, "random_state": np.random.RandomState(5)}).fit(X, X[:, 0])
    model.save(path)
    again = load(path)
    assert again.random_state.randint(10**9) == model.random_state.randint(10**9)


def test_options_of_numpy_types_come_back_equal(path):
    options = {**TINY, "strength": np.float64(0), "batch_size": np.int64(30), "hidden": [4, 3]}
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = FairRegressor(**options).fit(X, X[:, 0])
    model.save(path)
    assert load(path).get_params() == model.get_params()


def test_the_file_is_safetensors_that_anybody_can_open(path):
    model, _ = fitted("representation")
    model.save(path)
    with safetensors.safe_open(path, framework="np") as file:
        assert set(file.metadata()) == {"equipoise_format", "equipoise_model", "equipoise_sha256"}
        weight = file.get_tensor("weights.encoder.layers.1.weight")
    np.testing.assert_array_equal(weight, model.predictor_.encoder.layers[1].weight.numpy())


def test_an_older_model_is_replaced_and_nothing_else_is_left(path):
    fitted("text only")[0].save(path)
    model, X = fitted("representation")
    model.save(str(path))
    assert_same_answers(load(str(path)), model, X)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"notes of a whole year", b"\x80\x04K\x01."])
def test_what_is_not_a_model_is_not_overwritten(content, path):
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        fitted("text only")[0].save(path)
    assert says(
        str(refused.value),
        "path",
        "must be new or hold a model",
        f"'{path}', which is another kind of file",
        "choose another name",
    )
    assert path.read_bytes() == content


def test_a_failing_disk_leaves_the_older_model(path, monkeypatch):
    model, X = fitted("text only")
    model.save(path)

    def full(_):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        fitted("representation")[0].save(path)
    assert_same_answers(load(path), model, X)
    assert list(path.parent.iterdir()) == [path]


def test_where_a_model_can_not_go(tmp_path):
    model, _ = fitted("text only")
    with pytest.raises(InputError) as refused:
        model.save(tmp_path)
    assert says(
        str(refused.value), "path", "name a file", f"the folder '{tmp_path}'", "add a file name"
    )
    with pytest.raises(InputError) as refused:
        model.save(tmp_path / "new" / "model")
    assert says(
        str(refused.value),
        "path",
        "lie in a folder that",
        f"'{tmp_path / 'new' / 'model'}'",
        f"create '{tmp_path / 'new'}' first",
    )


def test_what_can_not_be_saved(path):
    with pytest.raises(NotFittedError):
        FairClassifier().save(path)

    class Own(FairRegressor):
        pass

    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(InputError) as refused:
        Own(**TINY).fit(X, X[:, 0]).save(path)
    assert says(
        str(refused.value),
        "save writes the estimators of",
        "Own, a class of your",
        "save the equipoise estimator and wrap it",
    )
    model = FairRegressor(**TINY).fit(X, X[:, 0]).set_params(device=object())
    with pytest.raises(InputError) as refused:
        model.save(path)
    assert says(
        str(refused.value),
        "device",
        "be a plain value (number",
        "object",
        "replace it with set_params before",
    )
    assert not path.exists()


def small_network(n_inputs, n_outputs):
    return nn.Sequential(
        nn.Linear(n_inputs, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, n_outputs)
    )


@pytest.fixture
def own(path):
    X = np.random.default_rng(0).normal(size=(90, 2))
    options = {"iterations": 12, "early_stopping": None, "random_state": 0}
    model = FairClassifier(strength=0, network=small_network, **options).fit(X, labels(90))
    model.save(path)
    return model, X


def test_a_network_of_ones_own_comes_back_with_its_function(own, path):
    model, X = own
    again = load(path, network=small_network)
    assert_same_answers(again, model, X)
    assert again.get_params() == model.get_params()
    with pytest.raises(InputError) as refused:
        load(path)
    assert says(
        str(refused.value),
        f"network is required for '{path}'",
        "the model was fitted with",
        "call load(path, network=...) with the",
    )


def test_another_network_is_refused(own, path):
    def wider(n_inputs, n_outputs):
        return nn.Sequential(nn.Linear(n_inputs, 5), nn.Tanh(), nn.Linear(5, n_outputs))

    with pytest.raises(InputError, match=r"^network must be the function the model was fitted .*"):
        load(path, network=wider)

    def same_weights(n_inputs, n_outputs):
        module = small_network(n_inputs, n_outputs)
        module[2] = nn.ReLU()
        return module

    with pytest.raises(InputError) as refused:
        load(path, network=same_weights)
    assert str(refused.value).startswith(
        "network must be the function the model was fitted with, got one whose outputs differ by "
        "up to 0."
    )


def test_a_built_in_network_takes_no_function(path):
    fitted("text only")[0].save(path)
    with pytest.raises(InputError) as refused:
        load(path, network=small_network)
    assert says(
        str(refused.value),
        "network",
        f"be left out for '{path}', whose model has a built-in network",
        f"{small_network!r}",
    )


@pytest.mark.parametrize("place", [3, None, b"model.equipoise", ["model.equipoise"]])
def test_what_is_no_path_is_refused(place):
    model, _ = fitted(NAMES[0])
    with pytest.raises(InputError, match=r"^path must be the path of a file"):
        model.save(place)
    with pytest.raises(InputError, match=r"^path must be the path of a file"):
        load(place)
    if place is not None:
        with pytest.raises(InputError, match=r"^checkpoint must be the path of a file"):
            FairClassifier(random_state=0).fit([[0.0], [1.0]], [0, 1], checkpoint=place)
