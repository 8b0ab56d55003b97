"""scikit-learn estimators: networks, boosted trees, an encoder, and an adjuster of any model."""

from equipoise.estimators.adjuster import FairAdjuster as FairAdjuster
from equipoise.estimators.base import Classifies as Classifies
from equipoise.estimators.base import Regresses as Regresses
from equipoise.estimators.boosting import FairBoostingClassifier as FairBoostingClassifier
from equipoise.estimators.boosting import FairBoostingRegressor as FairBoostingRegressor
from equipoise.estimators.network import FairClassifier as FairClassifier
from equipoise.estimators.network import FairEncoder as FairEncoder
from equipoise.estimators.network import FairRegressor as FairRegressor
