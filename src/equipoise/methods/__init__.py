"""Fairness methods: what each adds to a training step, and what each can do."""

from equipoise.methods.declaration import Capabilities as Capabilities
from equipoise.methods.declaration import Context as Context
from equipoise.methods.declaration import Declaration as Declaration
from equipoise.methods.declaration import Problem as Problem
from equipoise.methods.registry import METHODS as METHODS
from equipoise.methods.registry import capability_table as capability_table
from equipoise.methods.registry import methods_for as methods_for
from equipoise.methods.registry import parse_method as parse_method
from equipoise.methods.registry import refuse_unsupported as refuse_unsupported
from equipoise.methods.registry import refuse_unused_options as refuse_unused_options
from equipoise.methods.registry import register_method as register_method
from equipoise.methods.sbp import SBP as SBP
