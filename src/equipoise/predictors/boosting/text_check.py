"""Whether a text is a model as LightGBM writes it, found out before LightGBM reads it.

LightGBM's parser trusts its input: a text that is not what it says it is can end the process, and
numbers of nodes and features that are out of range would be followed out of its memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_END = "end of trees\n"
_PLACE = re.compile(r"(-?\d+( -?\d+)*)?")
_NUMBER = re.compile(r"(inf|[-+.e\d ])*")
_OBJECTIVE = re.compile(r"(binary|multiclass|regression|regression_l1|huber)( \w+:[\d.]+)*")
_HEAD = (
    *("num_class", "num_tree_per_iteration", "label_index", "max_feature_idx"),
    *("feature_names", "feature_infos", "tree_sizes"),
)
_TREE = (
    *("num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type"),
    *("left_child", "right_child", "leaf_value", "leaf_weight", "leaf_count", "internal_value"),
    *("internal_weight", "internal_count", "is_linear", "shrinkage"),
)
_CATEGORIES = ("cat_boundaries", "cat_threshold")
_LINEAR = ("leaf_const", "num_features", "leaf_features", "leaf_coeff")


def checked_text(text: str, outputs: int) -> str:
    """Return the head and the trees of a model of so many outputs; ValueError where it is none.

    What LightGBM writes after the trees says how they came about, and is left out.
    """
    head, _, body = text.partition("\n\n")
    first, version, *lines = head.split("\n")
    _demand(text.isascii() and (first, version) == ("tree", "version=v4"), "the version")
    found = _fields(lines, _HEAD, optional=("objective", "monotone_constraints"))
    features = _single(found, "max_feature_idx") + 1
    _demand(features >= 1 and _single(found, "label_index") == 0, "the features")
    for name in ("num_class", "num_tree_per_iteration"):
        _demand(_single(found, name) == outputs, "the number of outputs")
    for name in ("feature_names", "feature_infos"):
        _demand(len(found[name].split(" ")) == features, "the names of features")
    if "monotone_constraints" in found:
        _demand(len(_places(found, "monotone_constraints")) == features, "the constraints")
    _demand(_OBJECTIVE.fullmatch(found.get("objective", "binary")) is not None, "the objective")
    sizes = _places(found, "tree_sizes")
    _demand(bool((sizes > 0).all()) and len(sizes) % outputs == 0, "the sizes of trees")
    ends = np.cumsum(sizes)
    _demand(body.startswith(_END, int(ends[-1]) if len(ends) else 0), "the end of the trees")
    for number, (size, end) in enumerate(zip(sizes.tolist(), ends.tolist(), strict=True)):
        name, *tree = body[end - size : end].rstrip("\n").split("\n")
        _demand(name == f"Tree={number}", "the number of a tree")
        _check_tree(_fields(tree, _TREE, optional=(*_CATEGORIES, *_LINEAR)), features)
    return f"{head}\n\n{body[: int(ends[-1]) if len(ends) else 0]}{_END}"


def _check_tree(tree: Mapping[str, str], features: int) -> None:
    """Refuse a tree that is not whole, or leads out of itself."""
    leaves, categorical = _single(tree, "num_leaves"), _single(tree, "num_cat")
    _demand(leaves >= 1 and categorical >= 0, "the number of leaves")
    nodes = leaves - 1
    counts = {
        **dict.fromkeys(("split_gain", "threshold", "internal_value", "internal_weight"), nodes),
        **{"leaf_value": leaves, "shrinkage": 1},
    }
    numbers = {name: _numbers(tree, name) for name in counts}
    _demand(all(len(numbers[name]) == count for name, count in counts.items()), "a tree's length")
    for name, numeric in (("leaf_weight", True), ("leaf_count", False)):
        size = len(_numbers(tree, name) if numeric else _places(tree, name))
        _demand(size == leaves or (leaves == 1 and size == 0), "a tree's length")
    places = {
        name: _places(tree, name)
        for name in ("split_feature", "decision_type", "left_child", "right_child")
    }
    places["internal_count"] = _places(tree, "internal_count")
    _demand(all(len(values) == nodes for values in places.values()), "a tree's length")
    _demand(_within(places["split_feature"], features), "the feature of a split")
    _demand(_within(places["decision_type"], 12), "the kind of a split")
    children = np.stack([places["left_child"], places["right_child"]])
    everything = [*range(-leaves, 0), *range(1, nodes)] if nodes else []
    # Each node and leaf hangs on one node, which comes before it.
    _demand(np.array_equal(np.sort(children.ravel()), everything), "the nodes of a tree")
    _demand(bool(((children < 0) | (children > np.arange(nodes))).all()), "the nodes of a tree")
    sets = numbers["threshold"][places["decision_type"] % 2 == 1]
    _demand(bool(((sets >= 0) & (sets < categorical) & (sets % 1 == 0)).all()), "the categories")
    _demand(all((name in tree) == (categorical > 0) for name in _CATEGORIES), "the categories")
    if categorical:
        bounds, words = (_places(tree, name) for name in _CATEGORIES)
        whole = len(bounds) == categorical + 1 and bounds[0] == 0 and bounds[-1] == len(words)
        _demand(whole and bool((np.diff(bounds) > 0).all()), "the categories")
        _demand(_within(words, 2**32), "the categories")
    _check_linear(tree, leaves, features)


def _check_linear(tree: Mapping[str, str], leaves: int, features: int) -> None:
    """Refuse linear models in the leaves that are not whole."""
    linear = _single(tree, "is_linear")
    _demand(linear in (0, 1) and all((n in tree) == bool(linear) for n in _LINEAR), "the leaves")
    if not linear:
        return
    counts = _places(tree, "num_features")
    # Numbers of one leaf are one after the other, with more spaces between leaves.
    spread = {name: " ".join(tree[name].split()) for name in ("leaf_features", "leaf_coeff")}
    used = _places(spread, "leaf_features")
    sizes = [len(_numbers(tree, "leaf_const")), len(counts)]
    _demand(sizes == [leaves, leaves] and _within(counts, features + 1), "the leaves")
    _demand(len(used) == len(_numbers(spread, "leaf_coeff")) == counts.sum(), "the leaves")
    _demand(_within(used, features), "the leaves")


def _fields(
    lines: list[str], names: tuple[str, ...], *, optional: tuple[str, ...]
) -> dict[str, str]:
    """Return values by name; each name once, all that are needed and no others."""
    pairs = [line.partition("=")[::2] for line in lines]
    found = dict(pairs)
    _demand(len(found) == len(pairs) and set(names) <= found.keys(), "the fields")
    _demand(found.keys() <= {*names, *optional}, "the fields")
    return found


def _single(fields: Mapping[str, str], name: str) -> int:
    values = _places(fields, name)
    _demand(len(values) == 1, name)
    return int(values[0])


def _places(fields: Mapping[str, str], name: str) -> Ints:
    """Whole numbers with one space between them."""
    text = fields[name]
    _demand(_PLACE.fullmatch(text) is not None, name)
    return np.array(text.split(), dtype=np.int64)


def _numbers(fields: Mapping[str, str], name: str) -> NDArray[np.float64]:
    """Numbers with one space between them."""
    text = fields[name]
    _demand(_NUMBER.fullmatch(text) is not None and text == " ".join(text.split()), name)
    found = np.array(text.split(), dtype=np.float64)
    # A split at infinity sends what is known one way and what is missing the other.
    _demand(not np.isnan(found).any(), name)
    _demand(name == "threshold" or bool(np.isfinite(found).all()), name)
    return found


def _within(values: Ints, end: int) -> bool:
    return bool(((values >= 0) & (values < end)).all())


def _demand(right: bool, what: str) -> None:
    if not right:
        raise ValueError(f"a text of boosted trees is wrong about {what}")
