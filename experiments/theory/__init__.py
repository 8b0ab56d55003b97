"""The theory as a tool: Theorem 1 and Corollary 1 of Sohn, Song and Lin (2024) as numbers.

Fold trained networks into dense layers, put classes of bounded norms around them, and read off how
far training on n rows can be from the best. docs/theory.md explains every constant.
"""

from experiments.theory.bounds import EstimationBound as EstimationBound
from experiments.theory.bounds import UtilityBound as UtilityBound
from experiments.theory.bounds import estimation_bound as estimation_bound
from experiments.theory.bounds import utility_bound as utility_bound
from experiments.theory.complexity import Complexities as Complexities
from experiments.theory.complexity import closed_form_complexities as closed_form_complexities
from experiments.theory.complexity import estimate_complexities as estimate_complexities
from experiments.theory.networks import DenseNetwork as DenseNetwork
from experiments.theory.networks import Game as Game
from experiments.theory.networks import NetworkClass as NetworkClass
from experiments.theory.networks import fold as fold
