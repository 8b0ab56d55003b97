"""Fairness methods: what each adds to a training step."""

from equipoise.methods.registry import METHODS as METHODS
from equipoise.methods.registry import MethodFactory as MethodFactory
from equipoise.methods.registry import parse_method as parse_method
from equipoise.methods.sbp import SBP as SBP
