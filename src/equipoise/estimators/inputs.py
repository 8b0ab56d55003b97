"""What users hand to ``fit`` and ``predict``, checked and made plain arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from equipoise.errors import InputError
from equipoise.methods import parse_method
from equipoise.scales import center_and_spread, exponent, reduced, standardized
from equipoise.tables import AttributeInputs, SensitiveTable
from equipoise.tables.columns import read_values, refuse_repeated_names
from equipoise.training import TrainingData

if TYPE_CHECKING:
    from equipoise.estimators.base import FairEstimator


def checked_features(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Check X as scikit-learn does; frames keep their typed columns, arrays become numeric."""
    if nw.dependencies.is_into_series(X):
        raise InputError(
            f"X must have two dimensions, got a {type(X).__name__}; pass a frame of one column, "
            "such as X.to_frame()"
        )
    if isinstance(X, np.ma.MaskedArray):
        X = np.where(np.ma.getmaskarray(X), np.nan, X.data)
    refuse_repeated_names(X, argument="X")
    with _told_as("X"):
        if not nw.dependencies.is_into_dataframe(X):
            return validate_data(
                estimator, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan"
            )
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    if len(X) == 0:
        raise InputError("X must have at least one row, got 0 sample(s)")
    return X


class _InputTypeError(InputError, TypeError):
    """What scikit-learn wants a TypeError for."""


@contextmanager
def _told_as(argument: str) -> Iterator[None]:
    """Tell what scikit-learn says about an argument as an error of ours that names it."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        kind = _InputTypeError if isinstance(error, TypeError) else InputError
        said = str(error)
        named = re.search(rf"\b{argument}\b", said) is not None
        raise kind(said if named else f"{argument} is refused: {said}") from None


def row_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Return sample weights (n,) of at most 1; None when there are none.

    Only their ratios count, so they are halved or doubled until the largest is near 1. A weight too
    small beside the largest for float32 is 0.
    """
    if sample_weight is None:
        return None
    values = read_values(
        sample_weight, argument="sample_weight", remedy="give rows that should not count weight 0"
    )
    if values.dtype.kind not in "biuf":
        raise InputError(
            f"sample_weight must hold numbers, got {values.dtype} such as {values.flat[0]!r}"
        )
    with _told_as("sample_weight"):
        weights: NDArray[np.float64] = column_or_1d(values, dtype=np.float64)
        assert_all_finite(weights, input_name="sample_weight")
    if len(weights) != n:
        raise InputError(
            f"sample_weight must have one value for each of the {n} rows, got {len(weights)}"
        )
    if (weights < 0).any():
        row = int((weights < 0).argmax())
        raise InputError(
            f"sample_weight must not be negative, got {weights[row]} in row {row}; "
            "leave out rows that should not count, or give them weight 0"
        )
    if not weights.any():
        raise InputError("sample_weight must be positive for some row, got zeros only")
    weights, _ = reduced(weights)
    return np.where(weights < np.finfo(np.float32).tiny, 0.0, weights)


#: Spreads off zero, and sizes of the spread, at which trees keep the outcome's own units.
_OFF_ZERO = 2.0**7
_LEAST_SPREAD, _MOST_SPREAD = 1e-12, 1e12


@dataclass(frozen=True)
class Outcome:
    """The outcome Y, encoded once: for the task loss, and for a critic that conditions on it.

    target: (n,) float, or class numbers. seen: (n, v) float32 for the critic. classes: the
    labels; center and scale: of a continuous outcome, which is trained on in standard units or, for
    trees, in its own. The scale of a constant is 0, so that nothing but this is predicted.
    """

    target: NDArray[Any]
    seen: NDArray[np.float32]
    classes: NDArray[Any] | None = None
    center: float = 0.0
    scale: float = 1.0

    @property
    def n_outputs(self) -> int:
        """How many outputs the predictor needs: one, or one per class beyond two classes."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)


def read_classes(labels: NDArray[Any]) -> Outcome:
    """Read labels of two or more classes."""
    with _told_as("y"):
        check_classification_targets(labels)
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"y must hold at least two classes, got one class: {classes.tolist()[0]!r}; "
            "check the target column or the split"
        )
    if len(classes) == 2:
        return Outcome(
            numbers.astype(np.float32), numbers.astype(np.float32)[:, None], classes=classes
        )
    one_hot = np.eye(len(classes), dtype=np.float32)[numbers]
    return Outcome(numbers.astype(np.int64), one_hot, classes=classes)


def read_numbers(
    y: NDArray[Any], weights: NDArray[np.float64] | None = None, *, own_units: bool = False
) -> Outcome:
    """Read a continuous outcome; the task gets it in standard units, or in its own.

    Rows count by their ``weights`` (n,) in what is standard.
    Those of its own are kept as far as single precision, in which LightGBM reads an outcome, can
    tell its values apart: not more than 128 spreads off zero, and of a spread from 1e-12 to 1e12.
    """
    try:
        values = y.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"y must be numeric for regression, got {y.dtype} such as {y.tolist()[0]!r}; "
            "FairClassifier takes labels"
        ) from None
    center, scale = center_and_spread(values, weights)
    standard = standardized(values, center, scale).astype(np.float32)
    if not own_units:
        return Outcome(standard, standard[:, None], center=center, scale=scale)
    if abs(center) <= _OFF_ZERO * scale:
        center = 0.0
    if _LEAST_SPREAD <= scale <= _MOST_SPREAD:
        scale = 1.0
    elif scale > 0:
        scale = float(np.ldexp(1.0, exponent(np.array([scale])) - 1))
    target = standardized(values, center, scale)
    return Outcome(target, standard[:, None], center=center, scale=scale)


def checked_outcome(X: Any, y: Any) -> NDArray[Any]:
    """Return y as an array (n,) with one value for each row of X."""
    if y is None:
        raise InputError(
            "This estimator requires y to be passed, but the target y is None; call fit(X, y)"
        )
    given = read_values(y, argument="y", remedy="leave out rows whose outcome is unknown")
    with _told_as("y"):
        values: NDArray[Any] = column_or_1d(given, warn=True)
        check_consistent_length(X, values)
        assert_all_finite(values, input_name="y")
    if len(values) < 2:
        raise InputError(f"X must have at least 2 rows to train on, got n_samples={len(values)}")
    return values


def training_data(
    x: NDArray[Any],
    outcome: Outcome,
    table: SensitiveTable | None,
    weights: NDArray[np.float64] | None,
) -> TrainingData:
    """Put together the rows to train on, as tensors."""
    discrete = outcome.classes is not None

    def tensor(values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values))

    return TrainingData(
        x=tensor(x),
        target=tensor(outcome.target),
        outcome=tensor(outcome.seen),
        outcome_class=tensor(outcome.target.astype(np.int64)) if discrete else None,
        attribute=None if table is None else tensor(table.encode()),
        attribute_cell=tensor(table.cells()) if table is not None and table.is_discrete else None,
        weight=None if weights is None else tensor(weights.astype(np.float32)),
        known=None if table is None or table.known.all() else tensor(table.known),
    )


def read_seed(random_state: Any) -> int:
    """Return the seed: the integer given, one drawn from a given RandomState, or a fresh one."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if whole and random_state >= 0:
        return int(random_state)
    raise InputError(
        "random_state must be None, a non-negative integer or a numpy RandomState, "
        f"got {random_state!r}"
    )


def read_device(device: str) -> torch.device:
    """Return the device named; "auto" is the accelerator where CUDA has one, else the CPU."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=torch.device(device)).device
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise InputError(
            f"device must be 'auto' or a device torch can use here, got {device!r}: {said}"
        ) from None


Floats = NDArray[np.float32] | NDArray[np.float64]


def learned_inputs(model: FairEstimator) -> AttributeInputs:
    """Return what a fitted model makes of sensitive features; nothing where it needs none."""
    return AttributeInputs(getattr(model, "attribute_inputs_", ()))


def n_inputs(model: FairEstimator) -> int:
    """Return the number of inputs of a fitted model's network."""
    return len(model.encoder_.names_) + learned_inputs(model).width


def learn_inputs(model: FairEstimator, x: Floats, table: SensitiveTable | None) -> Floats:
    """Return the inputs (n, n_inputs) that train: features x (n, p), and what a method needs."""
    if not parse_method(model.method).capabilities.needs_attribute:
        return x
    if table is None:
        raise InputError(
            f"sensitive_features is required at any strength for method={model.method!r}, which "
            "needs them to predict: call fit(X, y, sensitive_features=A)"
        )
    inputs = AttributeInputs.of(table)
    model.attribute_inputs_ = inputs.columns
    return np.concatenate([x, inputs.encode(table)], axis=1)


def new_inputs(model: FairEstimator, x: Floats, sensitive_features: Any) -> Floats:
    """Return the inputs (n, n_inputs) of new rows with encoded features x (n, p)."""
    inputs = learned_inputs(model)
    if inputs.columns and sensitive_features is None:
        names = ", ".join(column[0] for column in inputs.columns)
        raise InputError(
            f"sensitive_features is required to predict with method={model.method!r}: call "
            f"predict(X, sensitive_features=A) with the columns {names}"
        )
    if not inputs.columns and sensitive_features is not None:
        raise InputError(
            f"sensitive_features must be left out to predict with method={model.method!r}, which "
            "does not look at them"
        )
    if not inputs.columns:
        return x
    return np.concatenate([x, inputs.read(sensitive_features, len(x))], axis=1)
