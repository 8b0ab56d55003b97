"""Tables: frames in; sensitive columns typed once; features encoded for networks and for trees."""

from typing import Any, Final

from equipoise.tables.columns import check_aligned as check_aligned
from equipoise.tables.columns import take_rows as take_rows
from equipoise.tables.encoder import EncoderState as EncoderState
from equipoise.tables.encoder import FeatureEncoder as FeatureEncoder
from equipoise.tables.encoder import Levels as Levels
from equipoise.tables.encoder import Scaling as Scaling
from equipoise.tables.features import Encoder as Encoder
from equipoise.tables.features import LearnedState as LearnedState
from equipoise.tables.features import Unfamiliar as Unfamiliar
from equipoise.tables.kinds import Kind as Kind
from equipoise.tables.kinds import SensitiveColumn as SensitiveColumn
from equipoise.tables.sensitive_table import AttributeInputs as AttributeInputs
from equipoise.tables.sensitive_table import LearnedInput as LearnedInput
from equipoise.tables.sensitive_table import SensitiveTable as SensitiveTable
from equipoise.tables.tree_encoder import TreeEncoder as TreeEncoder
from equipoise.tables.tree_encoder import TreeEncoderState as TreeEncoderState

#: Encoders by the name under which a file holds what they have learned.
ENCODERS: Final[dict[str, type[Encoder[Any]]]] = {
    "encoder": FeatureEncoder,
    "tree_encoder": TreeEncoder,
}
