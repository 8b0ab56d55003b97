"""equipoise: fair supervised learning for any sensitive attribute."""

from equipoise.audit import audit as audit
from equipoise.datasets import load_dataset as load_dataset
from equipoise.estimators import FairClassifier as FairClassifier
from equipoise.estimators import FairEncoder as FairEncoder
from equipoise.estimators import FairRegressor as FairRegressor
from equipoise.frontier import FairFrontier as FairFrontier
from equipoise.frontier import load as load
from equipoise.penalty import SBPPenalty as SBPPenalty
from equipoise.sensitive import SensitiveTable as SensitiveTable

__all__ = [
    "FairClassifier",
    "FairEncoder",
    "FairFrontier",
    "FairRegressor",
    "SBPPenalty",
    "SensitiveTable",
    "audit",
    "load",
    "load_dataset",
]
