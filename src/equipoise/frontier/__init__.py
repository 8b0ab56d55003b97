"""The whole frontier at once: train every strength and seed together, then choose."""

from equipoise.frontier.estimator import FairFrontier, load
from equipoise.frontier.selection import Selection, SelectionRow

__all__ = ["FairFrontier", "Selection", "SelectionRow", "load"]
