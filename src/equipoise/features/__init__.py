"""Features: from any table to the float matrix a predictor reads."""

from equipoise.features.encoder import FeatureEncoder, Scaling

__all__ = ["FeatureEncoder", "Scaling"]
