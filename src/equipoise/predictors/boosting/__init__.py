"""Boosted trees whose rounds follow the gradients of the task and of the penalty."""

from equipoise.predictors.boosting.library import Library as Library
from equipoise.predictors.boosting.recipe import BoostingRecipe as BoostingRecipe
from equipoise.predictors.boosting.trees import LIBRARIES as LIBRARIES
from equipoise.predictors.boosting.trees import BoostedTrees as BoostedTrees
