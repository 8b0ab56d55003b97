"""Inference: one number type, bootstrap intervals, permutation tests, certificates."""

from equipoise.inference.bootstrap import basic_interval, bootstrap
from equipoise.inference.certificate import Certificate, certify
from equipoise.inference.estimate import Estimate
from equipoise.inference.groups import GroupEstimates, group_estimates
from equipoise.inference.permutation import permutation_test

__all__ = [
    "Certificate",
    "Estimate",
    "GroupEstimates",
    "basic_interval",
    "bootstrap",
    "certify",
    "group_estimates",
    "permutation_test",
]
