"""XGBoost: growing its models, and checking the JSON text of one.

XGBoost's parser trusts the numbers of nodes and features. So every text is checked, and written
again from its checked parts, before XGBoost reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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

_LARGEST = float(np.finfo(np.float32).max)
#: Numbers in rows are clipped to this size. XGBoost puts split points at up to twice the largest
#: number, which must still fit into single precision.
_LARGEST_INPUT = 1e38


class XGBoost(Library):
    """XGBoost. Models of strength 0 are its plain models, except for "huber", which it lacks."""

    name = "xgboost"
    title = "XGBoost"
    family = "xgboost"
    description = "boosted trees (XGBoost)"
    extra = "xgboost"
    array_prefix = "xgboost"
    error = "core.XGBoostError"
    threads = "nthread"
    largest_power = 100
    objectives: ClassVar[Mapping[str, str]] = {
        "binary": "binary:logistic",
        "multiclass": "multi:softprob",
        "squared": "reg:squarederror",
        "absolute": "reg:absoluteerror",
    }
    chosen: ClassVar[Mapping[str, Any]] = {"max_depth": 4, "reg_lambda": 5.0}
    reserved: ClassVar[Mapping[str, str]] = {
        **RESERVED,
        "num_boost_round": "use rounds",
        "eval_metric": "snapshots are judged by equipoise",
        "early_stopping_rounds": "use early_stopping",
        "base_score": "boosting starts from the average",
        "booster": "only 'gbtree' never changes earlier trees, which snapshots share",
        "num_parallel_tree": "a round grows one tree for each output",
        "multi_strategy": "a round grows one tree for each output",
        "device": "trees grow on the CPU",
    }
    #: None, since the seed of a round depends on its number. A resumed run draws the same.
    random_parameters = ()

    def parameter_names(self) -> Mapping[str, str]:
        """List the names, since XGBoost has no table of its parameters."""
        main = (
            *self.reserved,
            *("subsample", "sampling_method"),
            *("colsample_bytree", "colsample_bylevel", "colsample_bynode"),
            *("max_depth", "max_leaves", "min_child_weight", "min_split_loss", "max_delta_step"),
            *("reg_lambda", "reg_alpha", "grow_policy", "max_bin", "nthread"),
            *("monotone_constraints", "interaction_constraints"),
            *("max_cat_to_onehot", "max_cat_threshold"),
        )
        aliases = {
            "eta": "learning_rate",
            "gamma": "min_split_loss",
            "lambda": "reg_lambda",
            "alpha": "reg_alpha",
            "n_jobs": "nthread",
            "random_state": "seed",
            "n_estimators": "num_boost_round",
        }
        return {name: name for name in main} | aliases

    def hessian_factor(self, classes: int) -> float:
        """Return 2, whatever the number of classes."""
        return 2.0

    def rows(
        self, x: Floats, y: Array, weight: Array | None, categorical: list[int], options: Parameters
    ) -> Any:
        """Return the rows in single precision, which is how XGBoost reads them."""
        types = ["c" if column in categorical else "q" for column in range(x.shape[1])]
        return self.module("boosting").DMatrix(
            _single(x), label=y, weight=weight, feature_types=types, enable_categorical=True
        )

    def model(self, plan: Plan) -> _XGBoostModel:
        """Return a model that starts from XGBoost's own start, or from 0."""
        return _XGBoostModel(self._booster(plan)[0], plan)

    def _booster(self, plan: Plan) -> tuple[Any, dict[str, Any]]:
        parameters = {
            **plan.parameters,
            "tree_method": "hist",
            "objective": self.objectives[plan.task] if plan.own else "reg:squarederror",
            "seed": plan.seed % 2**31,
            # Otherwise models would share one stream of random numbers and affect each other.
            "seed_per_iteration": True,
            "verbosity": 0,
            "disable_default_eval_metric": 1,
        }
        if plan.n_outputs > 1:
            parameters["num_class"] = plan.n_outputs
        if not plan.own:
            parameters["base_score"] = 0.0
        booster = self.module("boosting").Booster(parameters, [plan.rows])
        booster.num_boosted_rounds()  # any such call makes XGBoost check its parameters
        return booster, parameters

    def resumed(self, plan: Plan, text: str, rounds: int, outputs: Tensor) -> _XGBoostModel:
        booster, parameters = self._booster(plan)
        kinds = plan.rows.feature_types
        text = checked_json(text, plan.rows.num_col(), plan.n_outputs, kinds=kinds)
        booster.load_model(bytearray(text, "ascii"))
        booster.set_param(parameters)
        if booster.num_boosted_rounds() != rounds:
            raise ValueError(f"the model must have {rounds} rounds of trees")
        # XGBoost caches its predictions for these rows. From 3.3 on, if the cache is empty when a
        # round is added, the cache then lacks all earlier rounds.
        booster.predict(plan.rows, output_margin=True)
        return _XGBoostModel(booster, plan)

    def read(self, text: str, inputs: int, outputs: int) -> _XGBoostModel:
        booster = self.module("a model of boosted trees").Booster({"verbosity": 0})
        booster.load_model(bytearray(checked_json(text, inputs, outputs), "ascii"))
        return _XGBoostModel(booster)


def _single(x: Floats) -> NDArray[np.float32]:
    """Return rows in single precision, with too large numbers clipped."""
    return np.clip(x, -_LARGEST_INPUT, _LARGEST_INPUT).astype(np.float32)


class _XGBoostModel(TreeModel):
    def __init__(self, booster: Any, plan: Plan | None = None) -> None:
        super().__init__(plan)
        self._booster = booster

    def grow(self, gradient: Tensor, hessian: Tensor) -> None:
        rows, number = self.plan.rows, self.rounds()
        if self.plan.own:
            self._booster.update(rows, number)
        else:
            grad, hess = (each.squeeze(-1).float().numpy() for each in (gradient, hessian))
            self._booster.boost(rows, number, grad=grad, hess=hess)

    def training_outputs(self) -> Tensor:
        margin = self._booster.predict(self.plan.rows, output_margin=True)
        outputs = torch.from_numpy(margin).double().view(-1, self.plan.n_outputs)
        return outputs if self.plan.own else outputs + self.plan.start

    def rounds(self) -> int:
        rounds: int = self._booster.num_boosted_rounds()
        return rounds

    def outputs(self, x: Floats, first: int, rounds: int) -> Floats:
        # XGBoost would add its own start, which only a model in training has, to later rounds, too.
        later = first > 0 and self._plan is not None
        margin = self._booster.inplace_predict(
            _single(x),
            iteration_range=(first, first + rounds),
            predict_type="margin",
            base_margin=np.zeros((len(x), self.plan.n_outputs)) if later else None,
        )
        return np.asarray(margin, np.float64).reshape(len(x), -1)

    def text(self, rounds: int) -> str:
        booster = self._booster if rounds == self.rounds() else self._booster[:rounds]
        return bytes(booster.save_raw("json")).decode("ascii")


_BASE_SCORE = re.compile(r"\[?-?[\dE.+-]+(,-?[\dE.+-]+)*\]?")
#: Arrays of a tree by name, and whether they hold whole numbers.
_NODES = {
    **dict.fromkeys(("left_children", "right_children", "parents", "split_indices"), True),
    **dict.fromkeys(("split_type", "default_left"), True),
    **dict.fromkeys(("base_weights", "loss_changes", "split_conditions", "sum_hessian"), False),
}
_CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
_ROOT = 2**31 - 1
#: XGBoost stores the categories of a split as a bit set, up to the largest category. This is the
#: limit on the bits of a whole model.
_MOST_BITS = 2**31


def checked_json(text: str, inputs: int, outputs: int, kinds: list[str] | None = None) -> str:
    """Return the checked text of a model of this size; ValueError if the text is not valid.

    kinds: the kinds of the columns, "q" or "c", if they are known.
    """
    try:
        document = json.loads(text)
        learner, version = document["learner"], document["version"]
        booster, parameters = learner["gradient_booster"], learner["learner_model_param"]
        model, objective = booster["model"], learner["objective"]
        score, types = parameters["base_score"], learner["feature_types"]
        trees, info, ends = model["trees"], model["tree_info"], model["iteration_indptr"]
        counts = [parameters[name] for name in ("num_class", "num_feature", "num_target")]
        parallel = model["gbtree_model_param"]["num_parallel_tree"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"a text of boosted trees lacks {error}") from None
    require(len(_array(version, True)) == 3, "the version")
    require((booster["name"], parallel) == ("gbtree", "1"), "the kind of model")
    classes = str(outputs) if outputs > 1 else "0"
    require(counts == [classes, str(inputs), "1"], "the number of inputs or outputs")
    known = {**XGBoost.objectives, "huber": "reg:squarederror"}.values()
    require(isinstance(objective, dict) and objective.get("name") in known, "the objective")
    require(isinstance(score, str) and _BASE_SCORE.fullmatch(score) is not None, "the start")
    # Whether XGBoost estimates the start from the rows; a resumed model must not do it again.
    averaged = parameters.get("boost_from_average", "1")
    require(averaged in ("0", "1"), "the start")
    starts = [float(part) for part in score.strip("[]").split(",")]
    require(len(starts) in (1, outputs) and bool(np.isfinite(starts).all()), "the start")
    require(isinstance(types, list) and len(types) == inputs, "the columns")
    require(all(kind in ("q", "c") for kind in types), "the columns")
    require(kinds is None or types == kinds, "the columns")
    require(isinstance(trees, list) and len(trees) % outputs == 0, "the number of trees")
    rounds = len(trees) // outputs
    require(ends == [outputs * each for each in range(rounds + 1)], "the rounds")
    require(info == list(range(outputs)) * rounds, "the outputs of trees")
    written = [_tree(number, tree, types) for number, tree in enumerate(trees)]
    bits = sum(max(tree["categories"], default=0) * len(tree["categories_nodes"]) for tree in trees)
    require(bits <= _MOST_BITS, "the categories")
    document = {
        "learner": {
            "attributes": {},
            "feature_names": [],
            "feature_types": types,
            "gradient_booster": {
                "model": {
                    "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
                    "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
                    "iteration_indptr": ends,
                    "tree_info": info,
                    "trees": written,
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": score,
                "boost_from_average": averaged,
                "num_class": classes,
                "num_feature": str(inputs),
                "num_target": "1",
            },
            "objective": {
                "name": objective["name"],
                **({"softmax_multiclass_param": {"num_class": classes}} if outputs > 1 else {}),
                "reg_loss_param": {"scale_pos_weight": "1"},
            },
        },
        "version": version,
    }
    return json.dumps(document, allow_nan=False)


def _tree(number: int, tree: Any, types: list[str]) -> dict[str, Any]:
    """Return a tree, after checking that it is complete and refers only to what exists."""
    require(isinstance(tree, dict) and {*_NODES, *_CATEGORIES} <= tree.keys(), "a tree")
    nodes = {name: _array(tree[name], whole) for name, whole in _NODES.items()}
    sets = {name: _array(tree[name], True) for name in _CATEGORIES}
    size = len(nodes["parents"])
    require(size >= 1 and all(len(each) == size for each in nodes.values()), "a tree's length")
    left, right, parents = (nodes[n] for n in ("left_children", "right_children", "parents"))
    inner = np.flatnonzero(left != -1)
    require(bool(((left == -1) == (right == -1)).all()), "the nodes of a tree")
    children = np.stack([left[inner], right[inner]])
    # Each node but the first has one parent, which comes before it.
    require(np.array_equal(np.sort(children.ravel()), np.arange(1, size)), "the nodes of a tree")
    require(bool((children > inner).all()), "the nodes of a tree")
    require(int(parents[0]) == _ROOT, "the nodes of a tree")
    require(all(bool((parents[each] == inner).all()) for each in children), "the nodes of a tree")
    features, kinds = nodes["split_indices"], nodes["split_type"]
    require(in_range(features, len(types)) and in_range(kinds, 2), "the feature of a split")
    require(in_range(nodes["default_left"], 2), "the side of missing values")
    categorical = np.flatnonzero((kinds == 1) & (left != -1))
    require(all(types[features[node]] == "c" for node in categorical), "the categories")
    require(np.array_equal(sets["categories_nodes"], categorical), "the categories")
    sizes, starts = sets["categories_sizes"], sets["categories_segments"]
    require(len(sizes) == len(categorical) and bool((sizes > 0).all()), "the categories")
    require(np.array_equal(starts, np.cumsum(sizes) - sizes), "the categories")
    require(len(sets["categories"]) == sizes.sum(), "the categories")
    require(in_range(sets["categories"], _MOST_BITS), "the categories")
    parameters = {"num_deleted": "0", "num_feature": str(len(types)), "num_nodes": str(size)}
    return {
        **{name: tree[name] for name in (*_NODES, *_CATEGORIES)},
        "id": number,
        "tree_param": {**parameters, "size_leaf_vector": "1"},
    }


def _array(values: Any, whole: bool) -> NDArray[Any]:
    """Return a list of whole numbers, or of finite numbers, as an array."""
    kind = int if whole else float
    require(isinstance(values, list) and all(type(each) is kind for each in values), "a number")
    if whole:
        require(all(abs(each) < 2**31 for each in values), "a number")
    found = np.array(values, np.int64 if whole else np.float64)
    require(bool(np.isfinite(found).all()) and bool((abs(found) <= _LARGEST).all()), "a number")
    return found
