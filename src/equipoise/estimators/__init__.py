"""scikit-learn estimators: FairClassifier, FairRegressor, FairEncoder."""

from equipoise.estimators.classifier import FairClassifier as FairClassifier
from equipoise.estimators.encoder import FairEncoder as FairEncoder
from equipoise.estimators.regressor import FairRegressor as FairRegressor
