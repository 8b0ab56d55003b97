"""Networks whose every weight carries a leading member axis K."""

from equipoise.networks.layers import Embedding as Embedding
from equipoise.networks.layers import Pieces as Pieces
from equipoise.networks.layers import PiecewiseLinear as PiecewiseLinear
from equipoise.networks.layers import StackedBatchNorm as StackedBatchNorm
from equipoise.networks.layers import StackedLinear as StackedLinear
from equipoise.networks.layers import find_pieces as find_pieces
from equipoise.networks.mlp import Normalization as Normalization
from equipoise.networks.mlp import StackedMLP as StackedMLP
from equipoise.networks.mlp import StackedVote as StackedVote
from equipoise.networks.own import GlobalStreams as GlobalStreams
from equipoise.networks.own import StackedModule as StackedModule
from equipoise.networks.stack import NetworkFactory as NetworkFactory
from equipoise.networks.stack import OnnxGraph as OnnxGraph
from equipoise.networks.stack import Saved as Saved
from equipoise.networks.stack import Stack as Stack
from equipoise.networks.stack import copy_members as copy_members
from equipoise.networks.stack import member_tensors as member_tensors
from equipoise.networks.stack import select_members as select_members
