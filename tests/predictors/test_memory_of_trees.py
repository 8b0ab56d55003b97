"""A round leaves nothing but its trees in memory."""

import ctypes
import gc

import numpy as np

from equipoise import FairBoostingClassifier
from equipoise.predictors.boosting.growing import ROUNDS_OF_A_RELEASE


def pointers():
    """Pointers to arrays that are still there."""
    return sum(type(each) is ctypes.c_void_p for each in gc.get_objects())


def test_a_fit_leaves_no_arrays_of_its_rounds():
    random = np.random.default_rng(0)
    X, A = random.normal(size=(100, 2)), random.normal(size=100)
    rounds = 5 * ROUNDS_OF_A_RELEASE
    model = FairBoostingClassifier(rounds=rounds, members=1, early_stopping=None, random_state=0)
    gc.collect()
    before = pointers()
    gc.disable()  # or Python might find some of them by itself
    try:
        model.fit(X, X[:, 0] > 0, sensitive_features={"age": A})
    finally:
        gc.enable()
    # A round has a few; those since the last release may be left.
    assert pointers() - before <= rounds
