"""scikit-learn's own battery, at strength 0 and with a column of X fed as sensitive attribute."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)

from equipoise import (
    FairAdjuster,
    FairBoostingClassifier,
    FairBoostingRegressor,
    FairClassifier,
    FairEncoder,
    FairRegressor,
)
from equipoise.errors import ConvergenceWarning

ASIDE = "rows are set aside by number, whatever they weigh"
MINI_BATCHES = (
    "mini-batches and batch normalization see rows, not weights: a row of weight two is not two "
    "rows, as for scikit-learn's own SGD and MLP estimators"
)
COUNTS = "LightGBM makes its bins and leaves by numbers of rows, whatever these weigh"
# The tables of the checks have so few rows that trees would not split them by default.
LEAVES = {"min_data_in_leaf": 1, "min_data_in_bin": 1}
# Short, with large steps: the battery fits some four hundred times.
SHORT = {"iterations": 8, "learning_rate": 0.08, "hidden": (16,)}
PLAIN = [
    FairClassifier(strength=0, **SHORT, random_state=0),
    FairRegressor(strength=0, **SHORT, random_state=0),
    FairEncoder(strength=0, iterations=8, encoder_hidden=(4,), hidden=(8,), random_state=0),
    FairBoostingClassifier(strength=0, rounds=10, lightgbm=LEAVES, random_state=0),
    FairBoostingRegressor(strength=0, rounds=10, lightgbm=LEAVES, random_state=0),
    # Rows of weights are compared with repeated rows: with all of them, and leaves that are means.
    FairBoostingRegressor(
        strength=0,
        rounds=20,
        lightgbm={**LEAVES, "lambda_l2": 0.0},
        members=1,
        early_stopping=None,
        random_state=0,
    ),
]


def first_column(X):
    """Column 0 of X as the sensitive attribute; None where X is not a table a fit would accept."""
    try:
        values = np.nan_to_num(np.asarray(X, dtype=float)[:, 0])
    except (TypeError, ValueError, IndexError, np.exceptions.ComplexWarning):
        return None
    # The few tables of the checks whose first column is constant still need a valid attribute.
    return values if len(np.unique(values)) > 1 else np.arange(len(values)) % 2


def fed(estimator_class):
    """An adapter that feeds a column as A, since scikit-learn's checks pass no such thing."""

    class Fed(estimator_class):
        def fit(self, X, y=None, *, sample_weight=None):
            return super().fit(
                X, y, sensitive_features=first_column(X), sample_weight=sample_weight
            )

    Fed.__name__ = f"Fed{estimator_class.__name__}"
    Fed.__qualname__ = Fed.__name__
    globals()[Fed.__name__] = Fed  # so that the checks can pickle it
    return Fed


def fed_always(estimator_class):
    """The same for an estimator that needs A to predict, too."""

    class FedAlways(fed(estimator_class)):
        def _evaluate(self, X, sensitive_features=None):
            # A constant column is replaced at fit only: a row's A must not depend on other rows.
            given = first_column(X)
            return super()._evaluate(X, given if given is None else np.asarray(X, float)[:, 0])

    FedAlways.__name__ = FedAlways.__qualname__ = f"FedAlways{estimator_class.__name__}"
    globals()[FedAlways.__name__] = FedAlways
    return FedAlways


# Some tables of the checks have so few rows that a column of numbers would count as labels.
OPTIONS = {
    "strength": 0.3,
    "sensitive_types": {"sensitive_0": "continuous"},
    "critic_hidden": (8,),
    "random_state": 0,
}
FedAdjuster = fed_always(FairAdjuster)
FED = [
    fed(FairClassifier)(critic_steps=1, **SHORT, **OPTIONS),
    fed(FairRegressor)(critic_steps=1, **SHORT, **OPTIONS),
    fed(FairEncoder)(iterations=8, encoder_hidden=(4,), hidden=(8,), critic_steps=1, **OPTIONS),
    fed(FairBoostingClassifier)(rounds=10, lightgbm=LEAVES, **OPTIONS),
    fed(FairBoostingRegressor)(rounds=10, lightgbm=LEAVES, **OPTIONS),
    FedAdjuster(LogisticRegression(), cv=2, **SHORT, **OPTIONS),
    FedAdjuster(Ridge(), cv=2, increasing=True, **SHORT, **OPTIONS),
]


def expected_failures(estimator):
    """Checks that an estimator need not pass, and why."""
    reason = MINI_BATCHES
    if isinstance(estimator, FairBoostingRegressor) and estimator.early_stopping is None:
        return {}
    if estimator.strength == 0 and isinstance(estimator, FairBoostingClassifier):
        reason = COUNTS
    if estimator.strength == 0 and isinstance(estimator, FairBoostingRegressor):
        reason = ASIDE
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")
    }


@pytest.mark.filterwarnings("ignore:X has the sensitive column:UserWarning")  # of those fed
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
@parametrize_with_checks([*PLAIN, *FED], expected_failed_checks=expected_failures)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)


def test_what_is_lightgbms_own_failure_is_lightgbms_own():
    plain = LGBMClassifier(n_estimators=20, learning_rate=0.05, n_jobs=1, verbose=-1, **LEAVES)
    with pytest.raises(AssertionError, match="is not equivalent to fitting with removed or repeat"):
        check_sample_weight_equivalence_on_dense_data("LGBMClassifier", plain)
