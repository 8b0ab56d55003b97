"""equipoise: fair supervised learning for any sensitive attribute."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.auditing import audit as audit
    from equipoise.datasets import load_dataset as load_dataset
    from equipoise.distributed.auditing import audit_files as audit_files
    from equipoise.distributed.fitting import fit_files as fit_files
    from equipoise.estimators import FairAdjuster as FairAdjuster
    from equipoise.estimators import FairBoostingClassifier as FairBoostingClassifier
    from equipoise.estimators import FairBoostingRegressor as FairBoostingRegressor
    from equipoise.estimators import FairClassifier as FairClassifier
    from equipoise.estimators import FairEncoder as FairEncoder
    from equipoise.estimators import FairRegressor as FairRegressor
    from equipoise.frontier import FairFrontier as FairFrontier
    from equipoise.frontier import load as load
    from equipoise.penalty import SBPPenalty as SBPPenalty
    from equipoise.tables import SensitiveTable as SensitiveTable

#: The module that defines each public name. A name is imported at first use, because most modules
#: import torch, which ``equipoise --help`` does not need.
_HOMES = {
    "FairAdjuster": "equipoise.estimators",
    "FairBoostingClassifier": "equipoise.estimators",
    "FairBoostingRegressor": "equipoise.estimators",
    "FairClassifier": "equipoise.estimators",
    "FairEncoder": "equipoise.estimators",
    "FairFrontier": "equipoise.frontier",
    "FairRegressor": "equipoise.estimators",
    "SBPPenalty": "equipoise.penalty",
    "SensitiveTable": "equipoise.tables",
    "audit": "equipoise.auditing.assess",
    "audit_files": "equipoise.distributed.auditing",
    "fit_files": "equipoise.distributed.fitting",
    "load": "equipoise.frontier",
    "load_dataset": "equipoise.datasets",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
