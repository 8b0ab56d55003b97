"""Tables: frames in; sensitive columns typed once; features encoded for networks and for trees."""

from typing import Any, Final

from equipoise.tables.columns import check_aligned as check_aligned
from equipoise.tables.columns import take_rows as take_rows
from equipoise.tables.encoders import Encoder as Encoder
from equipoise.tables.encoders import EncoderState as EncoderState
from equipoise.tables.encoders import FeatureEncoder as FeatureEncoder
from equipoise.tables.encoders import Levels as Levels
from equipoise.tables.encoders import Scaling as Scaling
from equipoise.tables.encoders import TreeEncoder as TreeEncoder
from equipoise.tables.encoders import TreeEncoderState as TreeEncoderState
from equipoise.tables.encoders import Unfamiliar as Unfamiliar
from equipoise.tables.sensitive_table import MAX_DISCRETE_NUMBERS as MAX_DISCRETE_NUMBERS
from equipoise.tables.sensitive_table import AttributeInputs as AttributeInputs
from equipoise.tables.sensitive_table import Kind as Kind
from equipoise.tables.sensitive_table import LearnedInput as LearnedInput
from equipoise.tables.sensitive_table import SensitiveColumn as SensitiveColumn
from equipoise.tables.sensitive_table import SensitiveTable as SensitiveTable

#: Encoders by the name under which a file holds what they have learned.
ENCODERS: Final[dict[str, type[Encoder[Any]]]] = {
    "encoder": FeatureEncoder,
    "tree_encoder": TreeEncoder,
}
