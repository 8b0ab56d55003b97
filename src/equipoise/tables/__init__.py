"""Tables: frames in; sensitive columns typed once; features encoded for networks and for trees."""

from equipoise.tables.alignment import check_aligned
from equipoise.tables.attribute_inputs import AttributeInputs
from equipoise.tables.encoder import FeatureEncoder
from equipoise.tables.kinds import Kind, SensitiveColumn
from equipoise.tables.levels import Levels
from equipoise.tables.sensitive_table import SensitiveTable
from equipoise.tables.state import EncoderState, Scaling
from equipoise.tables.tree_encoder import TreeEncoder
from equipoise.tables.tree_state import TreeEncoderState

__all__ = [
    "AttributeInputs",
    "EncoderState",
    "FeatureEncoder",
    "Kind",
    "Levels",
    "Scaling",
    "SensitiveColumn",
    "SensitiveTable",
    "TreeEncoder",
    "TreeEncoderState",
    "check_aligned",
]
