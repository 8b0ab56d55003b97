"""Features: from any table to the float matrix a predictor reads."""

from equipoise.features.encoder import FeatureEncoder
from equipoise.features.levels import Levels
from equipoise.features.state import EncoderState, Scaling
from equipoise.features.tree_encoder import TreeEncoder
from equipoise.features.tree_state import TreeEncoderState

__all__ = [
    "EncoderState",
    "FeatureEncoder",
    "Levels",
    "Scaling",
    "TreeEncoder",
    "TreeEncoderState",
]
