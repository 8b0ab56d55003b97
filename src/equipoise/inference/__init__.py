"""Inference: bootstrap intervals, permutation tests, certificates."""

from equipoise.inference.bootstrap import Interval, basic_interval, bootstrap

__all__ = ["Interval", "basic_interval", "bootstrap"]
