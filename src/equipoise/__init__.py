"""equipoise: fair supervised learning for any sensitive attribute."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.audit import audit as audit
    from equipoise.datasets import load_dataset as load_dataset
    from equipoise.estimators import FairBoostingClassifier as FairBoostingClassifier
    from equipoise.estimators import FairBoostingRegressor as FairBoostingRegressor
    from equipoise.estimators import FairClassifier as FairClassifier
    from equipoise.estimators import FairEncoder as FairEncoder
    from equipoise.estimators import FairRegressor as FairRegressor
    from equipoise.frontier import FairFrontier as FairFrontier
    from equipoise.frontier import load as load
    from equipoise.penalty import SBPPenalty as SBPPenalty
    from equipoise.sensitive import SensitiveTable as SensitiveTable

__all__ = [
    "FairBoostingClassifier",
    "FairBoostingRegressor",
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

#: Where each public name is defined. They are loaded when they are first asked for, since they
#: load torch, and ``equipoise --help`` has no use for it.
_HOMES = {
    "FairBoostingClassifier": "equipoise.estimators",
    "FairBoostingRegressor": "equipoise.estimators",
    "FairClassifier": "equipoise.estimators",
    "FairEncoder": "equipoise.estimators",
    "FairFrontier": "equipoise.frontier",
    "FairRegressor": "equipoise.estimators",
    "SBPPenalty": "equipoise.penalty",
    "SensitiveTable": "equipoise.sensitive",
    "audit": "equipoise.audit.assess",
    "load": "equipoise.frontier",
    "load_dataset": "equipoise.datasets",
}


class _Package(ModuleType):
    """The package as a module whose public names load themselves.

    A property for each: importing the subpackage ``equipoise.audit`` binds its name here, and the
    function of that name must stay what users find under it.
    """

    def __dir__(self) -> list[str]:
        modules = [name for name, value in vars(self).items() if isinstance(value, ModuleType)]
        return sorted({*__all__, *modules, *dir(ModuleType)})


def _public(name: str) -> property:
    def find(_: ModuleType) -> Any:
        return getattr(import_module(_HOMES[name]), name)

    def keep(_: ModuleType, module: object) -> None:
        """Leave the public name alone when the import system binds a subpackage to it."""

    return property(find, keep)


for _name in __all__:
    setattr(_Package, _name, _public(_name))
sys.modules[__name__].__class__ = _Package
