"""scikit-learn estimators: networks, boosted trees, and an encoder."""

from equipoise.estimators.answers import Classifies as Classifies
from equipoise.estimators.answers import Regresses as Regresses
from equipoise.estimators.boosting import FairBoostingClassifier as FairBoostingClassifier
from equipoise.estimators.boosting import FairBoostingRegressor as FairBoostingRegressor
from equipoise.estimators.classifier import FairClassifier as FairClassifier
from equipoise.estimators.encoder import FairEncoder as FairEncoder
from equipoise.estimators.regressor import FairRegressor as FairRegressor
