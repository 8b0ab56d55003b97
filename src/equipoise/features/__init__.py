"""Features: from any table to the float matrix a predictor reads."""

from equipoise.features.encoder import FeatureEncoder
from equipoise.features.levels import Levels
from equipoise.features.state import EncoderState, Scaling

__all__ = ["EncoderState", "FeatureEncoder", "Levels", "Scaling"]
