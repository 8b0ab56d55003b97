"""Boosted trees whose rounds follow the task and the penalty: what differs from networks."""

from equipoise.predictors.boosting.library import Library as Library
from equipoise.predictors.boosting.recipe import BoostingRecipe as BoostingRecipe
from equipoise.predictors.boosting.trees import LIBRARIES as LIBRARIES
from equipoise.predictors.boosting.trees import BoostedTrees as BoostedTrees
