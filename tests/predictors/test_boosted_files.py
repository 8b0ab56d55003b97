"""Boosted models in files: the same to the last bit, without pickle, refused where damaged."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import safetensors
from boosted_rows import small_trees

from equipoise import FairBoostingClassifier, FairBoostingRegressor, load
from equipoise.errors import InputError

SMALL = {
    "rounds": 20,
    "learning_rate": 0.08,
    "batch_size": 128,
    "critic_hidden": (8,),
    "members": 2,
    "random_state": 4,
}


def frame(n=400):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"hours": rng.normal(40, 9, n), "job": rng.choice(["a", "b", "ü"], n)})
    X.loc[::9, "hours"] = np.nan
    return X, rng.normal(size=n) + 2 * X["job"].eq("ü"), rng.normal(size=n)


def models(library):
    X, signal, a = frame()
    options = {**SMALL, **small_trees(library)}
    yield "two classes", FairBoostingClassifier(**options).fit(X, signal > 0, sensitive_features=a)
    y = np.array(["x", "y", "z"])[np.digitize(signal, [-0.3, 0.8])]
    yield "three classes", FairBoostingClassifier(**options).fit(X, y, sensitive_features=a)
    plain = FairBoostingClassifier(**options | {"strength": 0})
    yield "plain", plain.fit(X, y)
    yield (
        "numbers",
        FairBoostingRegressor(loss="huber", **options).fit(X, 90 * signal, sensitive_features=a),
    )
    yield (
        "nothing to grow",
        FairBoostingRegressor(**options | {"strength": 0, "rounds": 1, "early_stopping": None}).fit(
            X, 90 * signal
        ),
    )


@pytest.fixture(scope="module")
def fitted(library):
    return dict(models(library))


NAMES = ["two classes", "three classes", "plain", "numbers", "nothing to grow"]


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_model_is_the_same_to_the_last_bit(fitted, tmp_path, name):
    model, (X, _, _) = fitted[name], frame()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is type(model)
    for answer in ("predict", "predict_proba", "decision_function"):
        if hasattr(model, answer):
            expected = getattr(model, answer)(X)
            np.testing.assert_array_equal(getattr(again, answer)(X), expected, strict=True)
    assert again.get_params() == model.get_params()
    assert again.health_ == model.health_
    for part, values in vars(model.history_).items():
        np.testing.assert_array_equal(vars(again.history_)[part], values)
    # What was loaded can be saved as well.
    again.save(tmp_path / "again")
    third = load(tmp_path / "again")
    np.testing.assert_array_equal(third.predict(X), model.predict(X))


def test_the_file_holds_arrays_json_and_the_librarys_own_text(fitted, library, tmp_path):
    path = tmp_path / "model"
    fitted["two classes"].save(path)
    with safetensors.safe_open(path, framework="np") as file:
        document = json.loads(file.metadata()["equipoise_model"])
        name = {"lightgbm": "trees.0", "xgboost": "xgboost.0"}[library]
        text = file.get_tensor(name).tobytes().decode("ascii")
    assert document["class"] == "FairBoostingClassifier"
    assert text.startswith({"lightgbm": "tree\nversion=v4\n", "xgboost": '{"learner":'}[library])
    rounds = int(fitted["two classes"].predictor_.network.rounds[0])
    assert text.count({"lightgbm": "\nTree=", "xgboost": '"tree_param":'}[library]) == rounds
    # Opcodes that every pickle of an object has to have.
    assert b"\x80\x04\x95" not in path.read_bytes()


def test_every_changed_byte_is_noticed(fitted, tmp_path):
    path = tmp_path / "model"
    fitted["two classes"].save(path)
    content = path.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(content), 25):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(InputError, match=r"^path must name "):
            load(path)
    path.write_bytes(content[:-7])
    with pytest.raises(InputError, match=r"^path must name "):
        load(path)


def test_trees_have_no_onnx_file(fitted, tmp_path):
    with pytest.raises(InputError) as refused:
        fitted["numbers"].to_onnx(tmp_path / "model.onnx")
    assert "trees of FairBoostingRegressor; use save" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_trees_takes_no_network(fitted, tmp_path):
    path = tmp_path / "model"
    fitted["numbers"].save(path)
    with pytest.raises(InputError, match="network must be left out"):
        load(path, network=lambda inputs, outputs: None)


def test_rows_are_checked_after_loading_as_before(fitted, tmp_path):
    X, _, _ = frame()
    fitted["two classes"].save(tmp_path / "model")
    again = load(tmp_path / "model")
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        again.predict(X.rename(columns={"hours": "ours"}))


def test_a_split_between_known_and_missing_comes_back(tmp_path):
    """LightGBM writes its threshold as infinity."""
    random = np.random.default_rng(0)
    known = random.random(80) < 0.5
    X = np.column_stack([np.where(known, np.arange(80) % 2, np.nan), random.random(80)])
    options = {"min_data_in_leaf": 1, "num_leaves": 3}
    model = FairBoostingRegressor(strength=0, rounds=3, members=1, lightgbm=options, random_state=0)
    model.fit(X, np.where(known, 0.0, 5.0) + random.random(80))
    path = tmp_path / "model"
    model.save(path)
    with safetensors.safe_open(path, framework="np") as file:
        (name,) = (name for name in file.keys() if "trees" in name)  # noqa: SIM118
        text = file.get_tensor(name).tobytes().decode("ascii")
    assert re.search(r"threshold=.*\binf\b", text)
    again = load(path)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
