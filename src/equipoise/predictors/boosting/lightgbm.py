"""LightGBM: growing its models, writing them as text, and checking such a text.

LightGBM's parser trusts its input. A damaged text can crash the process, and numbers of nodes or
features out of range would make it read outside its memory. So every text is checked before
LightGBM reads it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.predictors.boosting.library import (
    RESERVED,
    Array,
    Floats,
    Library,
    Parameters,
    Plan,
    TreeModel,
    in_range,
    require,
)

#: Makes LightGBM add numbers in the same order, whatever the number of threads.
REPRODUCIBLE: Mapping[str, Any] = MappingProxyType({"deterministic": True, "force_row_wise": True})


class LightGBM(Library):
    """LightGBM. Models of strength 0 are its plain models to the last bit."""

    name = "lightgbm"
    title = "LightGBM"
    #: LightGBM was the first library, so its names do not mention it.
    family = "boosting"
    description = "boosted trees"
    extra = "boosting"
    array_prefix = "trees"
    error = "basic.LightGBMError"
    threads = "num_threads"
    largest_power = 900
    objectives: ClassVar[Mapping[str, str]] = {
        "binary": "binary",
        "multiclass": "multiclass",
        "squared": "regression",
        "absolute": "regression_l1",
        "huber": "huber",
    }
    chosen: ClassVar[Mapping[str, Any]] = {
        "num_leaves": 10,
        "min_data_in_leaf": 10,
        "lambda_l2": 5.0,
        "cat_smooth": 20.0,
        "cat_l2": 20.0,
    }
    reserved: ClassVar[Mapping[str, str]] = {
        **RESERVED,
        "num_iterations": "use rounds",
        "alpha": "Huber's loss changes at one standard deviation of the outcome",
        "metric": "snapshots are judged by equipoise",
        "early_stopping_round": "use early_stopping",
        "categorical_feature": "text and categorical columns of X are categories",
        "boosting": "only 'gbdt' never changes earlier trees, which snapshots share",
        # These belong to LightGBM's own objective, which only members of strength 0 use.
        "is_unbalance": "use sample_weight",
        "boost_from_average": "boosting starts from the average",
        "sigmoid": "probabilities are logistic in the score",
        "reg_sqrt": "transform y yourself",
    }
    random_parameters = (
        *("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction"),
        *("feature_fraction", "feature_fraction_bynode"),
        *("data_sample_strategy", "extra_trees", "use_quantized_grad"),
    )

    needs_parameter: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction"), "bagging_freq"
    )

    def parameter_names(self) -> Mapping[str, str]:
        """Read the names from the list below, since LightGBM has no public table of them."""
        known = (each.replace("=", ",").split(",") for each in _PARAMETERS.split())
        return {name: names[0] for names in known for name in names}

    def hessian_factor(self, classes: int) -> float:
        """Return C / (C - 1) for C classes, after Friedman (2001)."""
        return classes / (classes - 1)

    def rows(
        self, x: Floats, y: Array, weight: Array | None, categorical: list[int], options: Parameters
    ) -> Any:
        dataset = self.module("boosting").Dataset
        columns = {"label": y, "weight": weight, "categorical_feature": categorical}
        return dataset(x, **columns, params=_complete(options)).construct()

    def can_split(self, rows: Any) -> bool:
        """Whether any column has bins; only columns that can be split have some."""
        return any(rows.feature_num_bin(column) for column in range(rows.num_feature()))

    def model(self, plan: Plan) -> _LightGBMModel:
        """Return a model that starts from the plan's start, or from LightGBM's own."""
        # LightGBM reads the start from the rows when the model is made.
        start = None if plan.own else plan.start.expand(plan.rows.num_data(), -1)
        return _LightGBMModel(self._booster(plan, start), plan)

    def resumed(self, plan: Plan, text: str, rounds: int, outputs: Tensor) -> _LightGBMModel:
        """Regrow a model with LightGBM's objective; continue others from their exact outputs."""
        if plan.own:
            model = self.model(plan)
            for _ in range(rounds):
                model.grow(outputs, outputs)
            return model
        text = checked_text(text, plan.n_outputs)
        return _LightGBMModel(self._booster(plan, outputs), plan, text, rounds)

    def read(self, text: str, inputs: int, outputs: int) -> _LightGBMModel:
        library = self.module("a model of boosted trees")
        booster = library.Booster(model_str=checked_text(text, outputs))
        if booster.num_feature() != inputs:
            raise ValueError(f"trees must have {inputs} features")
        return _LightGBMModel(booster)

    def _booster(self, plan: Plan, start: Tensor | None) -> Any:
        init_score = None if start is None else start.T.flatten().contiguous().numpy()
        plan.rows.set_field("init_score", init_score)
        parameters = {
            **_complete(plan.parameters),
            "objective": self.objectives[plan.task] if plan.own else "none",
            # Set here, not for the rows, which LightGBM reads as a regression without an objective.
            "num_class": plan.n_outputs,
            "seed": plan.seed % 2**31,
            "alpha": plan.unit,
        }
        return self.module("boosting").Booster(parameters, plan.rows)


#: Parameters that decide how trees grow: the main name, then other names for it.
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


_heard = threading.local()


def _be_quiet() -> None:
    """Let LightGBM print nothing in this thread: each thread has its own level of messages.

    Whatever reads a verbosity sets the level, and rows of nothing are the cheapest to read.
    """
    if not hasattr(_heard, "quiet"):
        nothing, dataset = np.zeros((2, 1)), LightGBM().module("boosting").Dataset
        dataset(nothing, params={"verbosity": -1}).construct()
        _heard.quiet = True


class _LightGBMModel(TreeModel):
    """A LightGBM model. If it was resumed, ``before`` is the text of its first ``rounds`` rounds.

    A resumed booster continues from the scores of the earlier trees, so that new trees are the same
    to the last bit. But it does not contain the earlier trees.
    """

    def __init__(
        self, booster: Any, plan: Plan | None = None, before: str = "", rounds: int = 0
    ) -> None:
        super().__init__(plan)
        self._booster = booster
        self._before, self._rounds = before, rounds
        self._complete: tuple[int, Any] | None = None  # rounds, and a booster with all trees

    def grow(self, gradient: Tensor, hessian: Tensor) -> None:
        _be_quiet()
        # One output has shape (m,), several have (m, o).
        gradients = gradient.squeeze(-1).numpy(), hessian.squeeze(-1).numpy()
        self._booster.update(fobj=None if self.plan.own else lambda *_: gradients)

    def training_outputs(self) -> Tensor:
        predictions: list[Floats] = []

        def metric(values: Floats, _: Any) -> tuple[str, float, bool]:
            predictions.append(values)
            return "", 0.0, False

        self._booster.eval_train(metric)  # LightGBM passes training predictions to metrics only
        found = torch.from_numpy(predictions[0]).view(-1, self.plan.n_outputs)
        # With LightGBM's own objectives these are probabilities, otherwise outputs.
        to_output = {"binary": torch.logit, "multiclass": torch.log}.get(self.plan.task)
        return to_output(found) if self.plan.own and to_output else found

    def rounds(self) -> int:
        grown: int = self._booster.current_iteration()
        return self._rounds + grown

    def outputs(self, x: Floats, first: int, rounds: int) -> Floats:
        raw: Floats = self._complete_booster().predict(
            x, raw_score=True, start_iteration=first, num_iteration=rounds
        )
        return raw.reshape(len(x), -1)

    def text(self, rounds: int) -> str:
        text: str = self._complete_booster().model_to_string(num_iteration=rounds)
        return text

    def never_missing(self) -> frozenset[int]:
        # For a column without missing values in training, LightGBM reads a missing number as 0 and
        # sends a missing category to the right.
        nodes = self._complete_booster().trees_to_dataframe().dropna(subset=["split_feature"])
        names = nodes.loc[nodes["missing_type"] == "None", "split_feature"].unique()
        return frozenset(int(name.removeprefix("Column_")) for name in names)

    def _complete_booster(self) -> Any:
        """Return a booster with all trees, the earlier ones of a resumed model included."""
        rounds = self.rounds()
        if not self._before:
            return self._booster
        if self._complete is None or self._complete[0] != rounds:
            text = self._before
            if rounds > self._rounds:
                text = joined(text, self._booster.model_to_string())
            self._complete = rounds, LightGBM().module("boosting").Booster(model_str=text)
        return self._complete[1]


_NUMBERED = re.compile(r"^Tree=\d+$", re.MULTILINE)


def joined(first: str, second: str) -> str:
    """Return the text of a model with the trees of two texts for the same columns."""
    (head, *trees), (_, *more) = (
        _NUMBERED.split(text[: text.index(_END.rstrip())]) for text in (first, second)
    )
    # Without the sizes of trees, LightGBM reads one tree after the other.
    head = re.sub(r"^tree_sizes=.*\n", "", head, flags=re.MULTILINE)
    numbered = [f"Tree={place}{tree}" for place, tree in enumerate(trees + more)]
    return head + "".join(numbered) + second[second.index(_END.rstrip()) :]


Ints = NDArray[np.int64]
_END = "end of trees\n"
_INTEGERS = re.compile(r"(-?\d+( -?\d+)*)?")
_NUMBERS = re.compile(r"(inf|[-+.e\d ])*")
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
    """Return the head and the trees of a model's text; ValueError if the text is not valid.

    The parameters and importances that LightGBM writes after the trees are left out.
    """
    head, _, body = text.partition("\n\n")
    first, version, *lines = head.split("\n")
    require(text.isascii() and (first, version) == ("tree", "version=v4"), "the version")
    found = _fields(lines, _HEAD, ("objective", "monotone_constraints"))
    features = _integer(found, "max_feature_idx") + 1
    require(features >= 1 and _integer(found, "label_index") == 0, "the features")
    for name in ("num_class", "num_tree_per_iteration"):
        require(_integer(found, name) == outputs, "the number of outputs")
    for name in ("feature_names", "feature_infos"):
        require(len(found[name].split(" ")) == features, "the names of features")
    if "monotone_constraints" in found:
        require(len(_integers(found, "monotone_constraints")) == features, "the constraints")
    require(_OBJECTIVE.fullmatch(found.get("objective", "binary")) is not None, "the objective")
    sizes = _integers(found, "tree_sizes")
    require(bool((sizes > 0).all()) and len(sizes) % outputs == 0, "the sizes of trees")
    ends = np.cumsum(sizes)
    require(body.startswith(_END, int(ends[-1]) if len(ends) else 0), "the end of the trees")
    for number, (size, end) in enumerate(zip(sizes.tolist(), ends.tolist(), strict=True)):
        name, *tree = body[end - size : end].rstrip("\n").split("\n")
        require(name == f"Tree={number}", "the number of a tree")
        _check_tree(_fields(tree, _TREE, (*_CATEGORIES, *_LINEAR)), features)
    return f"{head}\n\n{body[: int(ends[-1]) if len(ends) else 0]}{_END}"


def _check_tree(tree: Mapping[str, str], features: int) -> None:
    """Refuse a tree that is incomplete or refers to nodes or features that do not exist."""
    leaves, categorical = _integer(tree, "num_leaves"), _integer(tree, "num_cat")
    require(leaves >= 1 and categorical >= 0, "the number of leaves")
    nodes = leaves - 1
    counts = {
        **dict.fromkeys(("split_gain", "threshold", "internal_value", "internal_weight"), nodes),
        **{"leaf_value": leaves, "shrinkage": 1},
    }
    numbers = {name: _numbers(tree, name) for name in counts}
    require(all(len(numbers[name]) == count for name, count in counts.items()), "a tree's length")
    for name, numeric in (("leaf_weight", True), ("leaf_count", False)):
        size = len(_numbers(tree, name) if numeric else _integers(tree, name))
        require(size == leaves or (leaves == 1 and size == 0), "a tree's length")
    names = ("split_feature", "decision_type", "left_child", "right_child", "internal_count")
    integers = {name: _integers(tree, name) for name in names}
    require(all(len(values) == nodes for values in integers.values()), "a tree's length")
    require(in_range(integers["split_feature"], features), "the feature of a split")
    require(in_range(integers["decision_type"], 12), "the kind of a split")
    children = np.stack([integers["left_child"], integers["right_child"]])
    everything = [*range(-leaves, 0), *range(1, nodes)] if nodes else []
    # Each node but the root, and each leaf, has one parent, which comes before it.
    require(np.array_equal(np.sort(children.ravel()), everything), "the nodes of a tree")
    require(bool(((children < 0) | (children > np.arange(nodes))).all()), "the nodes of a tree")
    sets = numbers["threshold"][integers["decision_type"] % 2 == 1]
    require(bool(((sets >= 0) & (sets < categorical) & (sets % 1 == 0)).all()), "the categories")
    require(all((name in tree) == (categorical > 0) for name in _CATEGORIES), "the categories")
    if categorical:
        bounds, words = (_integers(tree, name) for name in _CATEGORIES)
        whole = len(bounds) == categorical + 1 and bounds[0] == 0 and bounds[-1] == len(words)
        require(whole and bool((np.diff(bounds) > 0).all()), "the categories")
        require(in_range(words, 2**32), "the categories")
    _check_linear(tree, leaves, features)


def _check_linear(tree: Mapping[str, str], leaves: int, features: int) -> None:
    """Refuse incomplete linear models in the leaves."""
    linear = _integer(tree, "is_linear")
    require(linear in (0, 1) and all((n in tree) == bool(linear) for n in _LINEAR), "the leaves")
    if not linear:
        return
    counts = _integers(tree, "num_features")
    # Between leaves there are several spaces.
    spread = {name: " ".join(tree[name].split()) for name in ("leaf_features", "leaf_coeff")}
    used = _integers(spread, "leaf_features")
    sizes = [len(_numbers(tree, "leaf_const")), len(counts)]
    require(sizes == [leaves, leaves] and in_range(counts, features + 1), "the leaves")
    require(len(used) == len(_numbers(spread, "leaf_coeff")) == counts.sum(), "the leaves")
    require(in_range(used, features), "the leaves")


def _fields(lines: list[str], names: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, str]:
    """Return values by name; each name occurs once, all ``names`` are there, and no others."""
    pairs = [line.partition("=")[::2] for line in lines]
    found = dict(pairs)
    require(len(found) == len(pairs) and set(names) <= found.keys(), "the fields")
    require(found.keys() <= {*names, *optional}, "the fields")
    return found


def _integer(fields: Mapping[str, str], name: str) -> int:
    values = _integers(fields, name)
    require(len(values) == 1, name)
    return int(values[0])


def _integers(fields: Mapping[str, str], name: str) -> Ints:
    """Return whole numbers that are separated by one space."""
    text = fields[name]
    require(_INTEGERS.fullmatch(text) is not None, name)
    return np.array(text.split(), dtype=np.int64)


def _numbers(fields: Mapping[str, str], name: str) -> NDArray[np.float64]:
    """Return numbers that are separated by one space."""
    text = fields[name]
    require(_NUMBERS.fullmatch(text) is not None and text == " ".join(text.split()), name)
    found = np.array(text.split(), dtype=np.float64)
    # A split at infinity is allowed: it separates known from missing values.
    require(not np.isnan(found).any(), name)
    require(name == "threshold" or bool(np.isfinite(found).all()), name)
    return found
