"""scikit-learn estimators: FairClassifier, FairRegressor, FairEncoder; and load for saved ones."""

from equipoise.estimators.classifier import FairClassifier as FairClassifier
from equipoise.estimators.encoder import FairEncoder as FairEncoder
from equipoise.estimators.loading import load as load
from equipoise.estimators.regressor import FairRegressor as FairRegressor
