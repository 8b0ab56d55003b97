"""Tables: frames in; sensitive columns typed once; features encoded for networks and for trees."""

from typing import Any, Final

from equipoise.tables.columns import check_aligned, take_rows
from equipoise.tables.encoder import EncoderState, FeatureEncoder, Levels, Scaling
from equipoise.tables.features import Encoder, LearnedState, Unfamiliar
from equipoise.tables.kinds import Kind, SensitiveColumn
from equipoise.tables.sensitive_table import AttributeInputs, LearnedInput, SensitiveTable
from equipoise.tables.tree_encoder import TreeEncoder, TreeEncoderState

#: Encoders by the name under which a file holds what they have learned.
ENCODERS: Final[dict[str, type[Encoder[Any]]]] = {
    "encoder": FeatureEncoder,
    "tree_encoder": TreeEncoder,
}

__all__ = [
    "ENCODERS",
    "AttributeInputs",
    "Encoder",
    "EncoderState",
    "FeatureEncoder",
    "Kind",
    "LearnedInput",
    "LearnedState",
    "Levels",
    "Scaling",
    "SensitiveColumn",
    "SensitiveTable",
    "TreeEncoder",
    "TreeEncoderState",
    "Unfamiliar",
    "check_aligned",
    "take_rows",
]
