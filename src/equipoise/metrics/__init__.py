"""Metrics: utility, parity of decisions, distance of distributions, dependence.

Importing this package registers every metric in `METRICS`.
"""

# Modules that register metrics.
from equipoise.metrics import dependence, distribution, gap, parity
from equipoise.metrics.by_group import ByGroup, by_group
from equipoise.metrics.outcome import OutcomeKind, outcome_kind
from equipoise.metrics.registry import (
    METRICS,
    Computed,
    Measurement,
    Metric,
    find_metric,
    measure,
    register_metric,
)
from equipoise.metrics.sample import Intersection, Sample, Scored, intersect, prepare
from equipoise.metrics.utility import auc, mae, mse, r2, youden_threshold

__all__ = [
    "METRICS",
    "ByGroup",
    "Computed",
    "Intersection",
    "Measurement",
    "Metric",
    "OutcomeKind",
    "Sample",
    "Scored",
    "auc",
    "by_group",
    "dependence",
    "distribution",
    "find_metric",
    "gap",
    "intersect",
    "mae",
    "measure",
    "mse",
    "outcome_kind",
    "parity",
    "prepare",
    "r2",
    "register_metric",
    "youden_threshold",
]
