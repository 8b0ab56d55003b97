"""The frontier: train every strength and seed together, then select a model."""

from equipoise.frontier.estimator import FairFrontier, load
from equipoise.frontier.selection import Selection, SelectionRow

__all__ = ["FairFrontier", "Selection", "SelectionRow", "load"]
