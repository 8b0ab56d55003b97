"""The theory as a tool: Theorem 1 and Corollary 1 of Sohn, Song and Lin (2024) as numbers.

Fold trained networks into dense layers, put classes of bounded norms around them, and read off how
far training on n rows can be from the best. docs/theory.md explains every constant.
"""

from equipoise.theory.ascent import estimate_complexities as estimate_complexities
from equipoise.theory.classes import Game as Game
from equipoise.theory.classes import NetworkClass as NetworkClass
from equipoise.theory.complexity import Complexities as Complexities
from equipoise.theory.complexity import closed_form_complexities as closed_form_complexities
from equipoise.theory.estimation import EstimationBound as EstimationBound
from equipoise.theory.estimation import estimation_bound as estimation_bound
from equipoise.theory.folding import DenseNetwork as DenseNetwork
from equipoise.theory.folding import fold as fold
from equipoise.theory.utility import UtilityBound as UtilityBound
from equipoise.theory.utility import utility_bound as utility_bound
