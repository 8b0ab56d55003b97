"""Inference: bootstrap intervals, permutation tests, certificates."""

from equipoise.inference.bootstrap import Interval, basic_interval, bootstrap
from equipoise.inference.certificate import Certificate, certify
from equipoise.inference.permutation import PermutationTest, permutation_test

__all__ = [
    "Certificate",
    "Interval",
    "PermutationTest",
    "basic_interval",
    "bootstrap",
    "certify",
    "permutation_test",
]
