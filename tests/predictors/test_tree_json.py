"""A text of XGBoost's trees is taken as it was written, or never reaches XGBoost."""

import copy
import json

import numpy as np
import pytest
import xgboost

from equipoise import FairBoostingClassifier
from equipoise.errors import InputError
from equipoise.predictors.boosting.xgboost import checked_json

INPUTS = 3


def rows(n=600):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 6, n)
    X = np.column_stack([rng.normal(size=(n, 2)), kind])
    return X, X[:, 0] + np.isin(kind, (1, 4)) + rng.normal(size=n) > 0.5


@pytest.fixture(scope="module")
def document():
    X, y = rows()
    kinds = ["q", "q", "c"]
    matrix = xgboost.DMatrix(X, y, feature_types=kinds, enable_categorical=True)
    options = {"objective": "binary:logistic", "max_depth": 3, "max_cat_to_onehot": 1}
    return json.loads(xgboost.train(options, matrix, 3).save_raw("json"))


def tree(document):
    return document["learner"]["gradient_booster"]["model"]["trees"][0]


def test_a_text_of_trees_predicts_as_it_did(document):
    assert tree(document)["categories"]
    model = xgboost.Booster()
    model.load_model(bytearray(checked_json(json.dumps(document), INPUTS, 1), "ascii"))
    before = xgboost.Booster()
    before.load_model(bytearray(json.dumps(document), "ascii"))
    X, _ = rows()
    found, expected = (each.inplace_predict(X, predict_type="margin") for each in (model, before))
    np.testing.assert_array_equal(found, expected)


def set_in(name, value, place=0):
    def change(document):
        tree(document)[name][place] = value

    return change


def set_parameter(name, value):
    def change(document):
        document["learner"]["learner_model_param"][name] = value

    return change


def without(name):
    return lambda document: tree(document).pop(name)


def set_model(name, value):
    def change(document):
        document["learner"]["gradient_booster"]["model"][name] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_in("left_children", 10**9),
        set_in("left_children", 0),
        set_in("left_children", -2),
        set_in("right_children", 1),
        set_in("parents", 0),
        set_in("parents", 2, 1),
        set_in("split_indices", INPUTS),
        set_in("split_indices", -1),
        set_in("split_indices", 1.0),
        set_in("split_indices", 2**70),
        set_in("split_type", 2),
        set_in("split_type", 1),
        set_in("default_left", 2),
        set_in("split_conditions", float("nan")),
        set_in("split_conditions", 1e300),
        set_in("base_weights", float("inf"), -1),
        set_in("base_weights", "1", -1),
        set_in("categories", -1),
        set_in("categories", 2**40),
        set_in("categories", 2**31 - 1),
        set_in("categories_nodes", 0),
        set_in("categories_sizes", 10**6),
        set_in("categories_segments", 1),
        lambda document: tree(document)["split_indices"].append(0),
        lambda document: tree(document).update(categories=7),
        without("parents"),
        without("categories"),
        set_parameter("num_feature", "70000"),
        set_parameter("num_class", "3"),
        set_parameter("num_target", "2"),
        set_parameter("base_score", "[nan]"),
        set_parameter("base_score", "1E999"),
        set_parameter("base_score", "[5E-1,5E-1]"),
        set_model("iteration_indptr", [0, 1, 2, 10**9]),
        set_model("tree_info", [0, 0, 5]),
        set_model("trees", {}),
        lambda document: document["learner"].update(feature_types=["q", "q", "q"]),
        lambda document: document["learner"].update(feature_types=["q"]),
        lambda document: document["learner"].update(objective={"name": "rank:map"}),
        lambda document: document["learner"]["gradient_booster"].update(name="dart"),
        lambda document: document.update(version="3"),
        lambda document: document.pop("learner"),
    ],
)
def test_a_text_that_is_not_what_it_says_never_reaches_xgboost(document, change):
    changed = copy.deepcopy(document)
    change(changed)
    with pytest.raises((ValueError, OverflowError)):
        checked_json(json.dumps(changed), INPUTS, 1)


def test_a_cut_text_is_refused_wherever_it_is_cut(document):
    text = json.dumps(document)
    for place in (0, 1, *np.random.default_rng(0).integers(2, len(text), 40).tolist()):
        with pytest.raises(ValueError, match=r"\S"):
            checked_json(text[:place], INPUTS, 1)
    with pytest.raises(ValueError, match="lacks"):
        checked_json("[" * 100_000, INPUTS, 1)


def test_what_is_taken_of_damaged_texts_xgboost_can_read(document):
    """XGBoost may end the process over the others."""
    random = np.random.default_rng(0)
    X, _ = rows()
    odd = [-1, 0, 1, 2, 7, 99, 2**31, 1e30, 1.5, "x", None]
    taken = 0
    for _ in range(300):
        changed = copy.deepcopy(document)
        one = changed["learner"]["gradient_booster"]["model"]["trees"][random.integers(3)]
        lists = [name for name, values in one.items() if isinstance(values, list) and values]
        values = one[random.choice(lists)]
        values[random.integers(len(values))] = odd[random.integers(len(odd))]
        try:
            text = checked_json(json.dumps(changed), INPUTS, 1)
        except (ValueError, OverflowError):
            continue
        taken += changed != document
        model = xgboost.Booster()
        model.load_model(bytearray(text, "ascii"))
        model.inplace_predict(X, predict_type="margin")
    assert 20 < taken < 250


def test_a_file_with_other_trees_is_an_error_in_words(tmp_path):
    """The checksum is right: somebody made this file by hand."""
    from equipoise import load
    from equipoise.storage import Contents, read_model_file, write_model_file

    X, y = rows()
    model = FairBoostingClassifier(strength=0, rounds=2, library="xgboost", random_state=0)
    path = tmp_path / "model"
    model.fit(X, y).save(path)
    contents = read_model_file(path)
    text = contents.arrays["own_xgboost.0"].tobytes().replace(b'"split_indices":[0', b'"x":[7')
    arrays = {**contents.arrays, "own_xgboost.0": np.frombuffer(text, np.uint8)}
    path.unlink()
    write_model_file(path, Contents(contents.document, arrays))
    with pytest.raises(InputError, match="path must name a model"):
        load(path)
