"""Inference: one number type, bootstrap intervals, permutation tests, certificates."""

from equipoise.inference.bootstrap import basic_interval, bootstrap
from equipoise.inference.certificate import Certificate, certify
from equipoise.inference.estimate import Estimate, holm
from equipoise.inference.gap import gap_estimates
from equipoise.inference.groups import GroupEstimates, group_estimates
from equipoise.inference.permutation import permutation_test

__all__ = [
    "Certificate",
    "Estimate",
    "GroupEstimates",
    "basic_interval",
    "bootstrap",
    "certify",
    "gap_estimates",
    "group_estimates",
    "holm",
    "permutation_test",
]
