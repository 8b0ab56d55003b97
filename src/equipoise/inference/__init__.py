"""Inference: one number type, bootstrap intervals, permutation tests, certificates."""

from equipoise.inference.bootstrap import basic_interval, bootstrap
from equipoise.inference.certificate import Certificate, certify
from equipoise.inference.estimate import Estimate, holm
from equipoise.inference.permutation import permutation_test

__all__ = [
    "Certificate",
    "Estimate",
    "basic_interval",
    "bootstrap",
    "certify",
    "holm",
    "permutation_test",
]
