"""Predictors: networks and boosted trees behind one interface."""

from equipoise.networks import IncreasingStack, RankedStack, Stack, StackedVote
from equipoise.predictors.boosting import LIBRARIES, BoostedTrees
from equipoise.predictors.family import FAMILIES as FAMILIES
from equipoise.predictors.family import Family as Family
from equipoise.predictors.family import Inputs as Inputs
from equipoise.predictors.family import Recipe as Recipe
from equipoise.predictors.family import Weights as Weights
from equipoise.predictors.family import predictor_arrays as predictor_arrays
from equipoise.predictors.family import predictor_in as predictor_in
from equipoise.predictors.family import register_family as register_family

_STACKS: dict[str, type[Stack]] = {
    "share": StackedVote,
    "score_column": IncreasingStack,
    "ranks.score_column": RankedStack,
}
register_family("network", Family("network", "networks", "iteration", _STACKS))
for _library in LIBRARIES.values():
    _words = _library.description
    register_family(
        _library.family,
        Family(_words, _words, "round", {"rounds": BoostedTrees}, weights_suffice=False),
    )
