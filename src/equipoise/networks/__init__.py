"""Networks for K members at once: every weight has a leading member axis K."""

from equipoise.networks.increasing import IncreasingStack as IncreasingStack
from equipoise.networks.increasing import RankedStack as RankedStack
from equipoise.networks.increasing import beside_ranks as beside_ranks
from equipoise.networks.increasing import score_knots as score_knots
from equipoise.networks.mlp import MOST_PIECES as MOST_PIECES
from equipoise.networks.mlp import Embedding as Embedding
from equipoise.networks.mlp import Normalization as Normalization
from equipoise.networks.mlp import Pieces as Pieces
from equipoise.networks.mlp import PiecewiseLinear as PiecewiseLinear
from equipoise.networks.mlp import StackedBatchNorm as StackedBatchNorm
from equipoise.networks.mlp import StackedLinear as StackedLinear
from equipoise.networks.mlp import StackedMLP as StackedMLP
from equipoise.networks.mlp import StackedVote as StackedVote
from equipoise.networks.mlp import find_pieces as find_pieces
from equipoise.networks.mlp import fused_kernels as fused_kernels
from equipoise.networks.mlp import kernels_on as kernels_on
from equipoise.networks.own import GlobalStreams as GlobalStreams
from equipoise.networks.own import StackedModule as StackedModule
from equipoise.networks.stack import NetworkFactory as NetworkFactory
from equipoise.networks.stack import OnnxGraph as OnnxGraph
from equipoise.networks.stack import Saved as Saved
from equipoise.networks.stack import Stack as Stack
from equipoise.networks.stack import copy_members as copy_members
from equipoise.networks.stack import member_tensors as member_tensors
from equipoise.networks.stack import select_members as select_members
