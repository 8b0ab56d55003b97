"""The theory as a tool: Theorem 1 and Corollary 1 of Sohn, Song and Lin (2024) as numbers.

Fold trained networks into dense layers, put classes of bounded norms around them, and read off how
far training on n rows can be from the best. docs/theory.md explains every constant.
"""

from experiments.theory.ascent import estimate_complexities as estimate_complexities
from experiments.theory.classes import Game as Game
from experiments.theory.classes import NetworkClass as NetworkClass
from experiments.theory.complexity import Complexities as Complexities
from experiments.theory.complexity import closed_form_complexities as closed_form_complexities
from experiments.theory.estimation import EstimationBound as EstimationBound
from experiments.theory.estimation import estimation_bound as estimation_bound
from experiments.theory.folding import DenseNetwork as DenseNetwork
from experiments.theory.folding import fold as fold
from experiments.theory.utility import UtilityBound as UtilityBound
from experiments.theory.utility import utility_bound as utility_bound
