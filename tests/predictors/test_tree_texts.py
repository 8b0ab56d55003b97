"""A text of trees is taken as LightGBM writes it, or never reaches LightGBM."""

import re

import lightgbm
import numpy as np
import pandas as pd
import pytest

from equipoise import FairBoostingClassifier
from equipoise.datasets import make_synthetic
from equipoise.predictors.boosting.lightgbm import checked_text


def grown(X, y, **parameters):
    """A small model of trees, and its text."""
    options = {"rounds": 3, "learning_rate": 0.05, "members": 1, "random_state": 0}
    model = FairBoostingClassifier(strength=0, lightgbm=parameters, **options)
    model.fit(X, y)
    return model, model.predictor_.network.forest.models[0].text(3)


@pytest.fixture(scope="module")
def rows():
    return make_synthetic(600, random_state=3)


@pytest.fixture(scope="module")
def text(rows):
    return grown(rows.X, rows.y, num_leaves=5)[1]


def changed(pattern, replacement, text):
    """The text with the first match replaced, the sizes of trees as they have become."""
    made, count = re.subn(pattern, replacement, text, count=1)
    assert count == 1
    trees = re.split(r"(?=^Tree=|^end of trees)", made.partition("\n\n")[2], flags=re.MULTILINE)
    sizes = " ".join(str(len(tree)) for tree in trees if tree.startswith("Tree="))
    return re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={sizes}", made, count=1)


def test_a_text_of_trees_is_taken_as_it_is(text):
    head = text[: text.index("end of trees")]
    assert checked_text(text, 1) == head + "end of trees\n"
    assert checked_text(changed("shrinkage=0.05", "shrinkage=0.1", text), 1) != head
    assert changed("shrinkage=0.05", "shrinkage=0.05", text) == text


@pytest.mark.parametrize(
    ("pattern", "replacement", "what"),
    [
        (r"\Atree", "three", "the version"),
        (r"version=v4", "version=v5", "the version"),
        (r"feature_names=Column_0", "feature_names=größe", "the version"),
        (r"num_class=1", "num_class=2", "the number of outputs"),
        (r"num_tree_per_iteration=1", "num_tree_per_iteration=1000000", "the number of outputs"),
        (r"max_feature_idx=\d+", "max_feature_idx=70000", "the names of features"),
        (r"max_feature_idx=\d+\n", "", "the fields"),
        (r"label_index=0", "label_index=0\nlinear_tree=1", "the fields"),
        (r"feature_names=Column_0 ", "feature_names=", "the names of features"),
        (r"Tree=1", "Tree=2", "the number of a tree"),
        (r"num_leaves=5", "num_leaves=500000000", "a tree's length"),
        (r"num_leaves=5", "num_leaves=0", "the number of leaves"),
        (r"num_leaves=5", "num_leaves=five", "num_leaves"),
        (r"num_cat=0", "num_cat=1", "the categories"),
        (r"split_feature=\d", "split_feature=99", "the feature of a split"),
        (r"split_feature=\d", "split_feature=-1", "the feature of a split"),
        (r"decision_type=\d", "decision_type=3", "the categories"),
        (r"decision_type=\d", "decision_type=64", "the kind of a split"),
        (r"left_child=\S+", "left_child=0", "the nodes of a tree"),
        (r"left_child=\S+", "left_child=90", "the nodes of a tree"),
        (r"right_child=(\S+) (\S+)", r"right_child=\1 \1", "the nodes of a tree"),
        (  # Nodes 1 and 2 hang on one another.
            r"left_child=.*\nright_child=.*",
            "left_child=-1 2 1 -3\nright_child=-2 3 -4 -5",
            "the nodes of a tree",
        ),
        (r"leaf_value=\S+ ", "leaf_value=", "a tree's length"),
        (r"leaf_value=\S+", "leaf_value=nan", "leaf_value"),
        (r"leaf_value=\S+", "leaf_value=1e999", "leaf_value"),
        (r"leaf_weight=\S+ ", "leaf_weight=", "a tree's length"),
        (r"internal_count=\S+ ", "internal_count=", "a tree's length"),
        (r"threshold=\S+ ", "threshold=", "a tree's length"),
        (r"shrinkage=0.05", "shrinkage=", "a tree's length"),
        (r"is_linear=0", "is_linear=1", "the leaves"),
        (r"is_linear=0\n", "", "the fields"),
    ],
)
def test_a_text_that_is_not_what_it_says_never_reaches_lightgbm(pattern, replacement, what, text):
    message = f"a text of boosted trees is wrong about {what}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        checked_text(changed(pattern, replacement, text), 1)


def test_a_cut_text_is_refused_wherever_it_is_cut(text):
    end = text.index("end of trees") + len("end of trees")
    places = np.random.default_rng(0).integers(0, end, 40).tolist()
    for place in (0, 1, 4, 5, end, *places):
        with pytest.raises(ValueError, match=r"\S"):
            checked_text(text[:place], 1)


def test_what_is_taken_of_damaged_texts_lightgbm_can_read(rows):
    """LightGBM's parser may end the process over the others."""
    # Letters of no order that tell the outcome, so that splits are by sets of them.
    letters = np.random.default_rng(1).permutation(list("abcdefghijkl"))
    kind = pd.Categorical(letters[np.arange(600) % 6 + 6 * np.asarray(rows.y)])
    X = rows.X.assign(kind=kind)
    small = {"num_leaves": 4, "min_data_per_group": 5, "min_data_in_leaf": 5, "cat_smooth": 1}
    model, text = grown(X, rows.y, **small)
    x = model.encoder_.transform(X)
    text = text[: text.index("end of trees")] + "end of trees\n"
    assert "cat_threshold" in text and checked_text(text, 1) == text
    random = np.random.default_rng(0)
    odd = ["-1", "0", "1", "7", "99", "4294967296", "1e308", "1.5", "x", ""]
    taken = 0
    for _ in range(400):
        numbers = list(re.finditer(r"(?<=[= ])-?[\d.e+-]+", text))
        place = numbers[random.integers(len(numbers))]
        other = str(random.choice(odd))
        made = changed("", "", text[: place.start()] + other + text[place.end() :])
        try:
            accepted = checked_text(made, 1)
        except (ValueError, OverflowError):
            continue
        taken += accepted != text
        lightgbm.Booster(model_str=accepted).predict(x, raw_score=True)
    assert 20 < taken < 200
