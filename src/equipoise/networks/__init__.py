"""Networks whose every weight carries a leading member axis K."""

from equipoise.networks.embedding import Embedding as Embedding
from equipoise.networks.embedding import Pieces as Pieces
from equipoise.networks.embedding import PiecewiseLinear as PiecewiseLinear
from equipoise.networks.embedding import find_pieces as find_pieces
from equipoise.networks.factory import GlobalStreams as GlobalStreams
from equipoise.networks.factory import StackedModule as StackedModule
from equipoise.networks.layers import StackedBatchNorm as StackedBatchNorm
from equipoise.networks.layers import StackedLinear as StackedLinear
from equipoise.networks.members import copy_members as copy_members
from equipoise.networks.members import select_members as select_members
from equipoise.networks.mlp import Normalization as Normalization
from equipoise.networks.mlp import StackedMLP as StackedMLP
from equipoise.networks.vote import StackedVote as StackedVote
