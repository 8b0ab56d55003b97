"""Metrics: utility, parity of decisions, distance of distributions, dependence.

Importing this package registers every metric in `METRICS`.
"""

# Modules that register metrics.
from equipoise.metrics import dependence as dependence
from equipoise.metrics import distribution as distribution
from equipoise.metrics import gap as gap
from equipoise.metrics import parity as parity
from equipoise.metrics.by_group import ByGroup as ByGroup
from equipoise.metrics.by_group import by_group as by_group
from equipoise.metrics.outcome import OutcomeKind as OutcomeKind
from equipoise.metrics.outcome import outcome_kind as outcome_kind
from equipoise.metrics.registry import METRICS as METRICS
from equipoise.metrics.registry import Computed as Computed
from equipoise.metrics.registry import Measurement as Measurement
from equipoise.metrics.registry import Metric as Metric
from equipoise.metrics.registry import find_metric as find_metric
from equipoise.metrics.registry import measure as measure
from equipoise.metrics.registry import register_metric as register_metric
from equipoise.metrics.sample import Intersection as Intersection
from equipoise.metrics.sample import Sample as Sample
from equipoise.metrics.sample import Scored as Scored
from equipoise.metrics.sample import intersect as intersect
from equipoise.metrics.sample import prepare as prepare
from equipoise.metrics.utility import auc as auc
from equipoise.metrics.utility import d2_absolute_error as d2_absolute_error
from equipoise.metrics.utility import mae as mae
from equipoise.metrics.utility import mse as mse
from equipoise.metrics.utility import r2 as r2
from equipoise.metrics.utility import youden_threshold as youden_threshold
