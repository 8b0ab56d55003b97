"""Boosted trees whose rounds follow the task and the penalty: what differs from networks."""

from equipoise.boosting.recipe import BoostingRecipe as BoostingRecipe
from equipoise.boosting.texts import forest_arrays as forest_arrays
from equipoise.boosting.texts import forest_in as forest_in
from equipoise.boosting.trees import BoostedTrees as BoostedTrees
from equipoise.boosting.trees import Forest as Forest
