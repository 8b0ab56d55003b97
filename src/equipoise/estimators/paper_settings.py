"""The paper's network and training as options of the estimators (Sohn, Song and Lin 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: How every model of the paper is trained. The number of iterations is ours: the paper has none.
PAPER_TRAINING: Mapping[str, Any] = MappingProxyType(
    {
        "method": "sbp",
        "divergence": "js",
        "scaling": "minmax",
        "embedding": "none",
        "normalization": "batch",
        "critic_normalization": "batch",
        "gradient_penalty": 0.0,
        "optimizer": "sgd",
        "learning_rate": 0.005,
        "critic_learning_rate": 0.005,
        "momentum": 0.2,
        "weight_decay": 0.0,
        "schedule": "constant",
        "iterations": 20_000,
        "batch_size": 300,
    }
)

#: The strengths of the paper's curves, each with five seeds.
PAPER_STRENGTHS = (0.1, 0.3, 0.5, 0.7, 0.9)

#: A classifier of the paper.
PAPER_CLASSIFIER: Mapping[str, Any] = MappingProxyType(
    {**PAPER_TRAINING, "hidden": (64, 64, 64), "critic_hidden": (64, 64), "critic_steps": 1}
)

#: A regressor of the paper: a smaller network, and absolute error.
PAPER_REGRESSOR: Mapping[str, Any] = MappingProxyType(
    {
        **PAPER_TRAINING,
        "loss": "absolute",
        "hidden": (16, 16, 16),
        "critic_hidden": (16, 16),
        "critic_steps": 1,
    }
)
