"""LightGBM: its models, texts of its models, and whether a text is one.

LightGBM's parser trusts its input: a text that is not what it says it is can end the process, and
numbers of nodes and features that are out of range would be followed out of its memory. So a text
is checked before LightGBM reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.predictors.boosting.library import (
    Array,
    Floats,
    Library,
    Parameters,
    Plan,
    TreeModel,
    demand,
    within,
)

#: Sums in one order whatever the number of threads and the load of the machine.
REPRODUCIBLE: Mapping[str, Any] = MappingProxyType({"deterministic": True, "force_row_wise": True})


class LightGBM(Library):
    """Models of strength 0 are LightGBM's own to the last bit."""

    name = "lightgbm"
    title = "LightGBM"
    #: They were the first, so they are plainly called so.
    family = "boosting"
    words = "boosted trees"
    extra = "boosting"
    files = "trees"
    error = "basic.LightGBMError"
    largest_power = 900
    objectives: ClassVar[Mapping[str, str]] = {
        "binary": "binary",
        "multiclass": "multiclass",
        "squared": "regression",
        "absolute": "regression_l1",
        "huber": "huber",
    }
    decided: ClassVar[Mapping[str, str]] = {
        "objective": "the task and the penalty are the objective",
        "num_iterations": "use rounds",
        "learning_rate": "use learning_rate",
        "num_class": "y says how many classes there are",
        "seed": "use random_state",
        "alpha": "the loss of Huber changes at one spread of the outcome",
        "metric": "snapshots are judged by equipoise",
        "early_stopping_round": "use early_stopping",
        "categorical_feature": "text and categorical columns of X are categories",
        "boosting": "only the trees of 'gbdt' stay as they are, so that snapshots can share them",
        "verbosity": "use verbose",
        # LightGBM's own objective has these, and only a member of strength 0 follows it.
        "is_unbalance": "use sample_weight",
        "scale_pos_weight": "use sample_weight",
        "boost_from_average": "boosting starts from the average",
        "sigmoid": "probabilities are logistic in the score",
        "reg_sqrt": "transform y yourself",
    }
    drawing = (
        *("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction"),
        *("feature_fraction", "feature_fraction_bynode"),
        *("data_sample_strategy", "extra_trees", "use_quantized_grad"),
    )

    idle_without: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction"), "bagging_freq"
    )

    def names(self) -> Mapping[str, str]:
        """Read them off the list below: LightGBM has no public table."""
        known = (each.replace("=", ",").split(",") for each in _PARAMETERS.split())
        return {name: names[0] for names in known for name in names}

    def hessian_factor(self, classes: int) -> float:
        """Classes over one less, after Friedman (2001)."""
        return classes / (classes - 1)

    def rows(
        self, x: Floats, target: Array, weight: Array | None, kinds: list[int], given: Parameters
    ) -> Any:
        about = {"label": target, "weight": weight, "categorical_feature": kinds}
        rows = self.module("boosting").Dataset(x, **about, params=_complete(given))
        return rows.construct()

    def can_split(self, rows: Any) -> bool:
        """Whether there are bins: only columns that can be split have some."""
        return any(rows.feature_num_bin(column) for column in range(rows.num_feature()))

    def model(self, plan: Plan) -> _Model:
        """Return a model that starts from the plan's start, or from LightGBM's own."""
        # A model takes over the start of its rows when it is made.
        start = None if plan.own else plan.start.expand(plan.rows.num_data(), -1)
        return _Model(self._booster(plan, start), plan)

    def resumed(self, plan: Plan, text: str, rounds: int, outputs: Tensor) -> _Model:
        """Grow LightGBM's own models again; others go on from their outputs, to the last bit."""
        if plan.own:
            model = self.model(plan)
            for _ in range(rounds):
                model.grow(outputs, outputs)
            return model
        text = checked_text(text, plan.n_outputs)
        return _Model(self._booster(plan, outputs), plan, text, rounds)

    def read(self, text: str, inputs: int, outputs: int) -> _Model:
        library = self.module("a model of boosted trees")
        booster = library.Booster(model_str=checked_text(text, outputs))
        if booster.num_feature() != inputs:
            raise ValueError(f"trees must be of {inputs} features")
        return _Model(booster)

    def _booster(self, plan: Plan, start: Tensor | None) -> Any:
        given = None if start is None else start.T.flatten().contiguous().numpy()
        plan.rows.set_field("init_score", given)
        parameters = {
            **_complete(plan.parameters),
            "objective": self.objectives[plan.task] if plan.own else "none",
            # Not of the rows: without an objective, LightGBM takes them for those of a regression.
            "num_class": plan.n_outputs,
            "seed": plan.seed % 2**31,
            "alpha": plan.unit,
        }
        return self.module("boosting").Booster(parameters, plan.rows)


#: What decides how trees grow, by main name, with other names for it.
_PARAMETERS = """
bagging_fraction=bagging,sub_row,subsample bagging_freq=subsample_freq
bagging_seed=bagging_fraction_seed bin_construct_sample_cnt=subsample_for_bin
boosting=boost,boosting_type
categorical_feature=cat_column,cat_feature,categorical_column,categorical_features
data_random_seed=data_seed device_type=device
early_stopping_round=early_stopping,early_stopping_rounds,n_iter_no_change
enable_bundle=bundle,is_enable_bundle extra_trees=extra_tree
feature_contri=fc,feature_contrib,feature_penalty,fp feature_fraction=colsample_bytree,sub_feature
feature_fraction_bynode=colsample_bynode,sub_feature_bynode
forcedsplits_filename=forced_splits,forced_splits_file,forced_splits_filename,fs
is_enable_sparse=enable_sparse,is_sparse,sparse is_unbalance=unbalance,unbalanced_sets
lambda_l1=l1_regularization,reg_alpha lambda_l2=l2_regularization,lambda,reg_lambda
learning_rate=eta,shrinkage_rate linear_tree=linear_trees max_bin=max_bins
max_delta_step=max_leaf_output,max_tree_output metric=metric_types,metrics
min_data_in_leaf=min_child_samples,min_data,min_data_per_leaf,min_samples_leaf
min_gain_to_split=min_split_gain
min_sum_hessian_in_leaf=min_child_weight,min_hessian,min_sum_hessian,min_sum_hessian_per_leaf
monotone_constraints=mc,monotone_constraint,monotonic_cst
monotone_constraints_method=mc_method,monotone_constraining_method
monotone_penalty=mc_penalty,monotone_splits_penalty,ms_penalty
neg_bagging_fraction=neg_bagging,neg_sub_row,neg_subsample num_class=num_classes
num_iterations=max_iter,n_estimators,n_iter,nrounds,num_boost_round,num_iteration,num_round,num_rounds,num_tree,num_trees
num_leaves=max_leaf,max_leaf_nodes,max_leaves,num_leaf
num_threads=n_jobs,nthread,nthreads,num_thread objective=app,application,loss,objective_type
pos_bagging_fraction=pos_bagging,pos_sub_row,pos_subsample seed=random_seed,random_state
verbosity=verbose alpha boost_from_average cat_l2 cat_smooth cegb_penalty_feature_coupled
cegb_penalty_feature_lazy cegb_penalty_split cegb_tradeoff data_sample_strategy deterministic
extra_seed feature_fraction_seed feature_pre_filter force_col_wise force_row_wise
forcedbins_filename gpu_device_id gpu_platform_id gpu_use_dp interaction_constraints linear_lambda
max_bin_by_feature max_cat_threshold max_cat_to_onehot max_depth min_data_in_bin min_data_per_group
num_grad_quant_bins other_rate path_smooth quant_train_renew_leaf reg_sqrt scale_pos_weight sigmoid
stochastic_rounding top_rate use_missing use_quantized_grad zero_as_missing
"""


def _complete(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {**REPRODUCIBLE, **parameters, "metric": "none", "verbosity": -1}


class _Model(TreeModel):
    """A LightGBM model; with ``before`` so many rounds of trees in this text come first.

    LightGBM goes on from a score, which is what makes the new trees the same to the last bit, but
    it does not know then what the score was made of.
    """

    def __init__(
        self, booster: Any, plan: Plan | None = None, before: str = "", rounds: int = 0
    ) -> None:
        super().__init__(plan)
        self._booster = booster
        self._before, self._rounds = before, rounds
        self._whole: tuple[int, Any] | None = None

    def grow(self, gradient: Tensor, hessian: Tensor) -> None:
        # One output as (m,), several as (m, o).
        given = gradient.squeeze(-1).numpy(), hessian.squeeze(-1).numpy()
        self._booster.update(fobj=None if self.plan.own else lambda *_: given)

    def seen(self) -> Tensor:
        seen: list[Floats] = []

        def look(shown: Floats, _: Any) -> tuple[str, float, bool]:
            seen.append(shown)
            return "", 0.0, False

        self._booster.eval_train(look)  # LightGBM shows them to a metric only
        found = torch.from_numpy(seen[0]).view(-1, self.plan.n_outputs)
        # LightGBM's own objectives show probabilities, custom ones outputs.
        to_output = {"binary": torch.logit, "multiclass": torch.log}.get(self.plan.task)
        return to_output(found) if self.plan.own and to_output else found

    def rounds(self) -> int:
        grown: int = self._booster.current_iteration()
        return self._rounds + grown

    def outputs(self, x: Floats, first: int, rounds: int) -> Floats:
        raw: Floats = self._as_one().predict(
            x, raw_score=True, start_iteration=first, num_iteration=rounds
        )
        return raw.reshape(len(x), -1)

    def text(self, rounds: int) -> str:
        text: str = self._as_one().model_to_string(num_iteration=rounds)
        return text

    def never_missing(self) -> frozenset[int]:
        # Where LightGBM saw no missing value, it takes a missing amount for 0, and a missing
        # category for one that is not on the left.
        nodes = self._as_one().trees_to_dataframe().dropna(subset=["split_feature"])
        names = nodes.loc[nodes["missing_type"] == "None", "split_feature"].unique()
        return frozenset(int(name.removeprefix("Column_")) for name in names)

    def _as_one(self) -> Any:
        rounds = self.rounds()
        if not self._before:
            return self._booster
        if self._whole is None or self._whole[0] != rounds:
            text = self._before
            if rounds > self._rounds:
                text = joined(text, self._booster.model_to_string())
            self._whole = rounds, LightGBM().module("boosting").Booster(model_str=text)
        return self._whole[1]


_NUMBERED = re.compile(r"^Tree=\d+$", re.MULTILINE)


def joined(first: str, second: str) -> str:
    """Text of a model with the trees of one text, then those of another for the same columns."""
    (head, *trees), (_, *more) = (
        _NUMBERED.split(text[: text.index(_END.rstrip())]) for text in (first, second)
    )
    # Without their sizes LightGBM reads trees one after the other.
    head = re.sub(r"^tree_sizes=.*\n", "", head, flags=re.MULTILINE)
    numbered = [f"Tree={place}{tree}" for place, tree in enumerate(trees + more)]
    return head + "".join(numbered) + second[second.index(_END.rstrip()) :]


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
    demand(text.isascii() and (first, version) == ("tree", "version=v4"), "the version")
    found = _fields(lines, _HEAD, ("objective", "monotone_constraints"))
    features = _single(found, "max_feature_idx") + 1
    demand(features >= 1 and _single(found, "label_index") == 0, "the features")
    for name in ("num_class", "num_tree_per_iteration"):
        demand(_single(found, name) == outputs, "the number of outputs")
    for name in ("feature_names", "feature_infos"):
        demand(len(found[name].split(" ")) == features, "the names of features")
    if "monotone_constraints" in found:
        demand(len(_places(found, "monotone_constraints")) == features, "the constraints")
    demand(_OBJECTIVE.fullmatch(found.get("objective", "binary")) is not None, "the objective")
    sizes = _places(found, "tree_sizes")
    demand(bool((sizes > 0).all()) and len(sizes) % outputs == 0, "the sizes of trees")
    ends = np.cumsum(sizes)
    demand(body.startswith(_END, int(ends[-1]) if len(ends) else 0), "the end of the trees")
    for number, (size, end) in enumerate(zip(sizes.tolist(), ends.tolist(), strict=True)):
        name, *tree = body[end - size : end].rstrip("\n").split("\n")
        demand(name == f"Tree={number}", "the number of a tree")
        _check_tree(_fields(tree, _TREE, (*_CATEGORIES, *_LINEAR)), features)
    return f"{head}\n\n{body[: int(ends[-1]) if len(ends) else 0]}{_END}"


def _check_tree(tree: Mapping[str, str], features: int) -> None:
    """Refuse a tree that is not whole, or leads out of itself."""
    leaves, categorical = _single(tree, "num_leaves"), _single(tree, "num_cat")
    demand(leaves >= 1 and categorical >= 0, "the number of leaves")
    nodes = leaves - 1
    counts = {
        **dict.fromkeys(("split_gain", "threshold", "internal_value", "internal_weight"), nodes),
        **{"leaf_value": leaves, "shrinkage": 1},
    }
    numbers = {name: _numbers(tree, name) for name in counts}
    demand(all(len(numbers[name]) == count for name, count in counts.items()), "a tree's length")
    for name, numeric in (("leaf_weight", True), ("leaf_count", False)):
        size = len(_numbers(tree, name) if numeric else _places(tree, name))
        demand(size == leaves or (leaves == 1 and size == 0), "a tree's length")
    names = ("split_feature", "decision_type", "left_child", "right_child", "internal_count")
    places = {name: _places(tree, name) for name in names}
    demand(all(len(values) == nodes for values in places.values()), "a tree's length")
    demand(within(places["split_feature"], features), "the feature of a split")
    demand(within(places["decision_type"], 12), "the kind of a split")
    children = np.stack([places["left_child"], places["right_child"]])
    everything = [*range(-leaves, 0), *range(1, nodes)] if nodes else []
    # Each node and leaf hangs on one node, which comes before it.
    demand(np.array_equal(np.sort(children.ravel()), everything), "the nodes of a tree")
    demand(bool(((children < 0) | (children > np.arange(nodes))).all()), "the nodes of a tree")
    sets = numbers["threshold"][places["decision_type"] % 2 == 1]
    demand(bool(((sets >= 0) & (sets < categorical) & (sets % 1 == 0)).all()), "the categories")
    demand(all((name in tree) == (categorical > 0) for name in _CATEGORIES), "the categories")
    if categorical:
        bounds, words = (_places(tree, name) for name in _CATEGORIES)
        whole = len(bounds) == categorical + 1 and bounds[0] == 0 and bounds[-1] == len(words)
        demand(whole and bool((np.diff(bounds) > 0).all()), "the categories")
        demand(within(words, 2**32), "the categories")
    _check_linear(tree, leaves, features)


def _check_linear(tree: Mapping[str, str], leaves: int, features: int) -> None:
    """Refuse linear models in the leaves that are not whole."""
    linear = _single(tree, "is_linear")
    demand(linear in (0, 1) and all((n in tree) == bool(linear) for n in _LINEAR), "the leaves")
    if not linear:
        return
    counts = _places(tree, "num_features")
    # Numbers of one leaf are one after the other, with more spaces between leaves.
    spread = {name: " ".join(tree[name].split()) for name in ("leaf_features", "leaf_coeff")}
    used = _places(spread, "leaf_features")
    sizes = [len(_numbers(tree, "leaf_const")), len(counts)]
    demand(sizes == [leaves, leaves] and within(counts, features + 1), "the leaves")
    demand(len(used) == len(_numbers(spread, "leaf_coeff")) == counts.sum(), "the leaves")
    demand(within(used, features), "the leaves")


def _fields(lines: list[str], names: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, str]:
    """Return values by name; each name once, all that are needed and no others."""
    pairs = [line.partition("=")[::2] for line in lines]
    found = dict(pairs)
    demand(len(found) == len(pairs) and set(names) <= found.keys(), "the fields")
    demand(found.keys() <= {*names, *optional}, "the fields")
    return found


def _single(fields: Mapping[str, str], name: str) -> int:
    values = _places(fields, name)
    demand(len(values) == 1, name)
    return int(values[0])


def _places(fields: Mapping[str, str], name: str) -> Ints:
    """Whole numbers with one space between them."""
    text = fields[name]
    demand(_PLACE.fullmatch(text) is not None, name)
    return np.array(text.split(), dtype=np.int64)


def _numbers(fields: Mapping[str, str], name: str) -> NDArray[np.float64]:
    """Numbers with one space between them."""
    text = fields[name]
    demand(_NUMBER.fullmatch(text) is not None and text == " ".join(text.split()), name)
    found = np.array(text.split(), dtype=np.float64)
    # A split at infinity sends what is known one way and what is missing the other.
    demand(not np.isnan(found).any(), name)
    demand(name == "threshold" or bool(np.isfinite(found).all()), name)
    return found
