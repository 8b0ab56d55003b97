"""Values of every option: some that are right, some that must be refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.methods import METHODS

from .draw import Draw

NAN, INF = float("nan"), float("inf")
_NO_WIDTHS = ((0,), (-3,), 4, None, ("4",), (4.5,), "44", (NAN,), ((4,),))
_NO_COUNT = (0, -1, 1.5, NAN, INF, "3", None, (3,))
_NO_RATE = (0.0, -1.0, NAN, INF, "0.1", None, (0.1,))
_NO_SHARE = (-0.1, NAN, INF, "0.5", None, (0.5,))
_NO_WORD = ("", "other", None, 3, ("none",))

#: Right values and wrong ones, by option.
OPTIONS: Mapping[str, tuple[Sequence[Any], Sequence[Any]]] = {
    "notion": (("independence", "separation"), (*_NO_WORD, "Independence ")),
    "strength": ((0, 0.5, 0.9, 0.999, np.float32(0.5)), (*_NO_SHARE, 1, 1.0, 2)),
    "method": (tuple(METHODS), (*_NO_WORD, "spb")),
    "divergence": (("js", "kl", "chi2", "hellinger"), (*_NO_WORD, "JS")),
    "density_ratio": (("auto", "counts", "network", "none"), (*_NO_WORD, "count")),
    "hidden": (((4,), (), (3, 2), [4]), _NO_WIDTHS),
    "encoder_hidden": (((3,), (1,), (4, 2)), (*_NO_WIDTHS, ())),
    "critic_hidden": (((4,), (3, 2), [4], ()), _NO_WIDTHS),
    "scaling": (("rank", "minmax", "standard", "none"), _NO_WORD),
    "embedding": (("pieces", "none"), _NO_WORD),
    "linear_path": ((False, True), ("yes", None, 2)),
    "normalization": (("batch", "none"), (*_NO_WORD, "spectral")),
    "critic_steps": ((1, 2, np.int64(2)), _NO_COUNT),
    "critic_normalization": (("none", "batch", "spectral"), _NO_WORD),
    "gradient_penalty": ((0.0, 0.1, 10), (-1.0, NAN, INF, "0", None)),
    "optimizer": (("adam", "sgd"), (*_NO_WORD, "Adam")),
    "learning_rate": ((1e-3, 0.1), _NO_RATE),
    "critic_learning_rate": ((1e-3, 0.1), _NO_RATE),
    "momentum": ((0.0, 0.2, 0.9), (-0.1, 1.5, NAN, "0", None)),
    "weight_decay": ((0.0, 1.0), (-1.0, NAN, INF, "0", None)),
    "schedule": (("decay", "constant"), _NO_WORD),
    "iterations": ((1, 2, 3), _NO_COUNT),
    "epochs": ((None, 0.5, 2, np.float32(1)), (0, -1.0, NAN, INF, "3", (3,), True)),
    "batch_size": ((4, 16, 1000), (*_NO_COUNT, 1, "big")),
    "members": ((1, 2, np.int64(3)), _NO_COUNT),
    "sensitive_types": ((None, {}), ("discrete", {"none such": "discrete"}, {"a0": "x"}, 3, [1])),
    "missing_sensitive": (("error", "skip"), _NO_WORD),
    "sensitive_at_prediction": ((False, True), ("yes", None, 2)),
    "random_state": ((0, 1, 2**32 - 1, np.int64(7), None), ("0", -1, 1.5, (1,), True)),
    "device": (("cpu", "auto"), ("gpu", None, 3, "cpu:x", "")),
    "n_jobs": ((None, 1, 2, -1), ("1", 0, 1.5, True)),
    "engine": (("local",), (*_NO_WORD, "Ray")),
    "verbose": ((0,), ("1", None, -1, 1.5)),
    "loss": (("squared", "absolute", "huber"), (*_NO_WORD, "l2")),
    "task": (("classification", "regression"), _NO_WORD),
    "network": ((None,), (3, "mlp", (4,))),
    "rounds": ((1, 2, 3), _NO_COUNT),
    "warmup": ((0, 1, 10), (-1, 1.5, NAN, "3", None)),
    "early_stopping": ((None, 1, 2), (0, -1, 1.5, "3", NAN)),
    "library": (("lightgbm",), (*_NO_WORD, "catboost")),
    "xgboost": ((None,), ([("max_depth", 3)], "deep", {"max_dept": 3})),
    "lightgbm": (
        (None, {"num_leaves": 3}, {"min_data_in_leaf": 1}, {"max_depth": 2}),
        (3, "num_leaves=3", {"objective": "binary"}, {3: 4}, {"num_leaves": -1}, {"nope": 1}),
    ),
    "strengths": (
        ((0.0, 0.5), (0.9,), [0.0, 0.9]),
        ((), (1.0,), (-0.1,), "0.5", None, (NAN,), 0.5),
    ),
    "seeds": ((1, 2), _NO_COUNT),
    "ensemble": ((False, True), ("yes", None, 2)),
    "evaluate_every": ((1, 2), _NO_COUNT),
    "metrics": (
        ("default", ("KS-GSP",), ["KS-GSP", "GDP"]),
        ("KS", (), None, ("nope",), (3,), ("KS-GSP", "KS-GSP")),
    ),
    "validation": ((0.2, 0.4), (*_NO_SHARE, 0.0, 1.0, 2, ())),
    "test": ((0.2, 0.4), (*_NO_SHARE, 0.0, 1.0, 2, ())),
    # Options of SBPPenalty by its own names.
    "steps": ((1, 2), _NO_COUNT),
    # Options of audit.
    "threshold": (("paper", "youden", None, 0.5, 0.0), ("other", NAN, INF, (0.1, 0.2, 0.3))),
    "outcome": ((None, "binary", "multiclass", "continuous"), ("", "other", 3, ("binary",))),
    "favourable": (("high", "low"), _NO_WORD),
    "intersections": ((True, False), ("yes", None, 2)),
    "level": ((0.95, 0.5), (0, 1, -1, NAN, "0.9", None)),
    "draws": ((2, 10), (0, 1, -1, 1.5, NAN, "20", None)),
    "permutations": ((1, 9), _NO_COUNT),
    "candidates": ((1, 5), _NO_COUNT),
    "references": ((None, {}), ({"none such": 1}, 3, "a", {"a0": "none such"})),
}  # fmt: skip


def options_for(
    draw: Draw, names: Sequence[str], *, changes: int = 2
) -> tuple[dict[str, Any], str | None]:
    """A few options set to right values, and in odd cases the name of one that is wrong."""
    chosen = {}
    for name in draw.random.permutation(list(names))[: draw.whole(0, changes)]:
        chosen[str(name)] = draw.pick(OPTIONS[name][0])
    if not draw.odd():
        return chosen, None
    wrong = str(draw.pick(list(names)))
    return chosen | {wrong: draw.pick(OPTIONS[wrong][1])}, wrong
