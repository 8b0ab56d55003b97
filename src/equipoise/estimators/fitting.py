"""What ``fit`` does, for a single estimator and for a frontier.

`read_rows` checks the user's rows. `Fitting` checks the options of one estimator, learns how to
encode rows and trains members on them. `FitRun` holds the checkpoint file and the callback.
"""

from __future__ import annotations

import inspect
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, TypeVar

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data
from torch import Tensor

from equipoise.cores import count_jobs
from equipoise.errors import (
    ConvergenceWarning,
    InputError,
    check_choice,
    check_count,
    check_flag,
    check_number,
)
from equipoise.methods import parse_method
from equipoise.metrics import OutcomeKind, Scored
from equipoise.metrics.partition import rank
from equipoise.predictors import FAMILIES, Inputs
from equipoise.scales import center_and_spread, exponent, reduced, standardized
from equipoise.storage import CheckpointFile
from equipoise.tables import AttributeInputs, SensitiveTable, check_aligned, take_rows
from equipoise.tables.columns import read_values, refuse_repeated_names
from equipoise.tables.encoders import read_features
from equipoise.training import Callback, Member, Predictor, Supervision, Trained, TrainingData
from equipoise.training.checkpoints import Identity, Stateful, Store, digest
from equipoise.training.data import RowSet
from equipoise.training.health import HEALTH_ROWS, Health, Utility, compare, judge_health
from equipoise.training.loop import History, gradients_on
from equipoise.training.predictor import averaged, exact_device
from equipoise.training.progress import Progress, progress_shown
from equipoise.training.stopping import FEWEST_TO_STOP, with_rows_aside
from equipoise.training.workers import worker_count

if TYPE_CHECKING:
    from equipoise.estimators.base import FairEstimator

Model = TypeVar("Model", bound="FairEstimator")
Found = TypeVar("Found")
FoundCo = TypeVar("FoundCo", covariant=True)
Positions = NDArray[np.intp]
Floats = NDArray[np.float32] | NDArray[np.float64]

#: Options that a resumed run may change, or that its identity covers in another way.
_NOT_IN_IDENTITY = ("verbose", "n_jobs", "device", "network", "estimator", "cv")

#: Rows in which features are compared with sensitive columns before they are in all rows.
_FIRST_ROWS = 100

UtilityName = Literal["AUC", "macro AUC", "R2", "D2 absolute error"]
#: Task losses of a continuous outcome.
LOSSES = ("absolute", "squared", "huber")
#: The measure of utility for each task loss. Huber's has none of its own, since that would depend
#: on the standard deviation of the training rows.
UTILITIES: Mapping[str, UtilityName] = {
    "binary": "AUC",
    "multiclass": "macro AUC",
    "squared": "R2",
    "huber": "R2",
    "absolute": "D2 absolute error",
}
#: The kind of outcome that each utility is for.
OUTCOMES: Mapping[UtilityName, OutcomeKind] = {
    "AUC": "binary",
    "macro AUC": "multiclass",
    "R2": "continuous",
    "D2 absolute error": "continuous",
}

#: Remedies for overfitting, by the unit in which a family of predictors trains.
AGAINST_OVERFITTING = {
    "iteration": "fewer iterations, a larger weight_decay or a narrower hidden",
    "round": "fewer rounds or smaller trees (num_leaves of LightGBM, max_depth of XGBoost)",
}

#: For trees an outcome is centered if its mean is more standard deviations than this from zero.
_MOST_FROM_ZERO = 2.0**7
#: It is scaled if its standard deviation is outside this range.
_LEAST_SPREAD, _MOST_SPREAD = 1e-12, 1e12


@dataclass(frozen=True, eq=False)
class Rows:
    """The user's rows, checked."""

    X: Any
    y: NDArray[Any]
    weights: NDArray[np.float64] | None  # None if all rows count the same
    table: SensitiveTable | None  # None without sensitive features
    positive: Any = None  # the label of y to score; None for the last of the sorted labels
    groups: Positions | None = None  # numbers of the groups that folds must not divide

    def __len__(self) -> int:
        return len(self.y)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which rows have a weight above 0, (n,)."""
        return np.ones(len(self), dtype=bool) if self.weights is None else self.weights > 0

    def alone(self, positions: Positions) -> Rows:
        """Return these rows, with sensitive columns encoded as if there were no others.

        They have no groups yet.
        """
        columns = () if self.table is None else self.table.columns
        typed = tuple(column.take(positions).alone() for column in columns)
        return Rows(
            take_rows(self.X, positions),
            self.y[positions],
            None if self.weights is None else self.weights[positions],
            SensitiveTable(typed) if typed else None,
            self.positive,
        )


def read_rows(
    models: Sequence[FairEstimator],
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: Any,
    *,
    positive: Any = None,
) -> Rows:
    """Check rows for models that type sensitive columns the same way.

    Each model stores the number and names of the feature columns.
    """
    check_aligned(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
    for model in models:
        X = checked_features(model, X, reset=True)
    y = checked_outcome(X, y)
    weights = row_weights(sample_weight, len(y))
    table = models[0]._read_sensitive(sensitive_features, len(y), weights)
    if table is not None and any(_why_aware(model) is None for model in models):
        _warn_of_sensitive_features(X, table)
    return Rows(X, y, weights, table, positive)


def _warn_of_sensitive_features(X: Any, table: SensitiveTable) -> None:
    """Point out sensitive columns among the features, by their name or their values."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    named = isinstance(frame, nw.DataFrame)

    def values_in(part: Any) -> list[NDArray[Any]]:
        """Numbers or levels of each column, (n,); NaN or None where missing."""
        return [
            np.fromiter((*column.levels, None), dtype=object)[column.codes]
            if column.numbers is None
            else column.numbers
            for column in read_features(nw.to_native(part, pass_through=True))
        ]

    names = [str(name) for name in frame.columns] if named else [""] * X.shape[1]
    found = []
    for column in table.columns:
        if column.name in names:
            found.append(repr(column.name))
        values: NDArray[Any] | None = column.values
        if values is None:
            values = np.fromiter(column.categories, dtype=object)[column.codes]
        known = np.flatnonzero(~column.missing)
        first = known[:_FIRST_ROWS]
        for place, begins in enumerate(values_in(frame[first])):
            # Few columns begin like the attribute, so that few are read as a whole.
            if names[place] == column.name or not np.all(begins == values[first]):
                continue
            (whole,) = values_in(frame[:, [place]])
            if np.all(whole[known] == values[known]):
                where = f"as {names[place]!r}" if named else f"in column {place}"
                found.append(f"{column.name!r} ({where})")
    if found:
        warnings.warn(
            f"X has the sensitive column {', '.join(found)}, so the score sees it at prediction, "
            "the same as with sensitive_at_prediction=True; leave it out of X if the score must "
            "not see it",
            stacklevel=5,
        )


def checked_features(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Check X as scikit-learn does; a frame keeps its columns, an array becomes numeric.

    ``reset`` stores the number and names of the columns; otherwise X must have those stored.
    """
    if nw.dependencies.is_into_series(X):
        raise InputError(
            f"X must have two dimensions, got a {type(X).__name__}; pass a frame of one column, "
            "such as X.to_frame()"
        )
    if isinstance(X, np.ma.MaskedArray):
        X = np.where(np.ma.getmaskarray(X), np.nan, X.data)
    refuse_repeated_names(X, argument="X")
    with _errors_about("X"):
        if not nw.dependencies.is_into_dataframe(X):
            return validate_data(
                estimator, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan"
            )
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    if len(X) == 0:
        raise InputError("X must have at least one row, got 0 sample(s)")
    return X


class _InputTypeError(InputError, TypeError):
    """An `InputError` where scikit-learn's checks expect a TypeError."""


@contextmanager
def _errors_about(argument: str) -> Iterator[None]:
    """Raise scikit-learn's errors as an `InputError` that names the argument."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        kind = _InputTypeError if isinstance(error, TypeError) else InputError
        message = str(error)
        named = re.search(rf"\b{argument}\b", message) is not None
        raise kind(message if named else f"{argument} is refused: {message}") from None


def checked_outcome(X: Any, y: Any) -> NDArray[Any]:
    """Return y as an array (n,) with one value for each row of X."""
    if y is None:
        raise InputError(
            "This estimator requires y to be passed, but the target y is None; call fit(X, y)"
        )
    given = read_values(y, argument="y", remedy="leave out rows whose outcome is unknown")
    with _errors_about("y"):
        values: NDArray[Any] = column_or_1d(given, warn=True)
        check_consistent_length(X, values)
        assert_all_finite(values, input_name="y")
    if len(values) < 2:
        raise InputError(f"X must have at least 2 rows to train on, got n_samples={len(values)}")
    return values


def row_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Return sample weights (n,) of at most 1; None if none are given.

    Only ratios of weights count, so all are divided by the power of two that brings the largest
    near 1. A weight that is then too small for float32 becomes 0.
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
    with _errors_about("sample_weight"):
        weights: NDArray[np.float64] = column_or_1d(values, dtype=np.float64)
        assert_all_finite(weights, input_name="sample_weight")
    check_count("sample_weight", len(weights), n, "rows")
    if (weights < 0).any():
        row = int((weights < 0).argmax())
        raise InputError(
            f"sample_weight must not be negative, got {weights[row]} in row {row}; give weight 0 "
            "to rows that should not count"
        )
    if not weights.any():
        raise InputError("sample_weight must be positive for some row, got zeros only")
    weights, _ = reduced(weights)
    return np.where(weights < np.finfo(np.float32).tiny, 0.0, weights)


@dataclass(frozen=True)
class Outcome:
    """The encoded outcome Y.

    A continuous outcome is trained on as (y - center) / scale. A constant outcome has scale 0, so
    every prediction is that constant.
    """

    target: NDArray[Any]  # for the task loss: numbers, or class numbers, (n,)
    encoded: NDArray[np.float32]  # for a critic that conditions on Y, (n, v)
    classes: NDArray[Any] | None = None  # the labels; None if Y is continuous
    center: float = 0.0
    scale: float = 1.0

    @property
    def n_outputs(self) -> int:
        """How many outputs the predictor needs: one, or one per class if more than two."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    def further(self, y: NDArray[Any]) -> Outcome:
        """Encode the outcome of other rows, (n,), as that of these."""
        if self.classes is None:
            standard = standardized(y.astype(np.float64), self.center, self.scale)
            target = standard.astype(np.float32)
            return replace(self, target=target, encoded=target[:, None])
        order = np.argsort(self.classes)
        ordered = self.classes[order]
        place = np.searchsorted(ordered, y).clip(max=len(ordered) - 1)
        unknown = ordered[place] != y
        if unknown.any():
            raise InputError(
                f"y must have the classes seen before, {ordered.tolist()}, got "
                f"{y[unknown].tolist()[0]!r}; leave out such rows"
            )
        return self._of_classes(order[place])

    def _of_classes(self, numbers: NDArray[Any]) -> Outcome:
        """The outcome of rows whose classes have these numbers (n,)."""
        assert self.classes is not None
        if len(self.classes) == 2:
            zero_or_one = numbers.astype(np.float32)
            return replace(self, target=zero_or_one, encoded=zero_or_one[:, None])
        one_hot = np.eye(len(self.classes), dtype=np.float32)[numbers]
        return replace(self, target=numbers.astype(np.int64), encoded=one_hot)

    def scoring(self, positive: Any) -> Outcome:
        """The same outcome of two classes, of which ``positive`` is the one that is scored."""
        labels = [] if self.classes is None else self.classes.tolist()
        if len(labels) != 2 or positive not in labels:
            found = f"the labels {labels}" if labels else "a continuous outcome"
            raise InputError(
                f"positive must be one of the two labels of y, got {positive!r} for {found}; "
                f"{'name one of them' if len(labels) == 2 else 'leave it out'}"
            )
        if positive == labels[1]:
            return self
        assert self.classes is not None
        return replace(
            self, target=1 - self.target, encoded=1 - self.encoded, classes=self.classes[::-1]
        )


def read_classes(labels: NDArray[Any]) -> Outcome:
    """Encode labels of two or more classes."""
    with _errors_about("y"):
        check_classification_targets(labels)
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"y must hold at least two classes, got one class: {classes.tolist()[0]!r}; "
            "check the target column or the split"
        )
    blank = np.zeros(0, dtype=np.float32)
    return Outcome(blank, blank, classes=classes)._of_classes(numbers)


def read_numbers(
    y: NDArray[Any], weights: NDArray[np.float64] | None = None, *, own_units: bool = False
) -> Outcome:
    """Encode a continuous outcome: standardized by its weighted mean and standard deviation.

    With ``own_units``, for trees, the target keeps the user's units unless its values are too far
    from zero, too small or too large for single precision, in which LightGBM reads them.
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
    if abs(center) <= _MOST_FROM_ZERO * scale:
        center = 0.0
    if _LEAST_SPREAD <= scale <= _MOST_SPREAD:
        scale = 1.0
    elif scale > 0:
        scale = float(np.ldexp(1.0, exponent(np.array([scale])) - 1))
    target = standardized(values, center, scale)
    return Outcome(target, standard[:, None], center=center, scale=scale)


def training_data(
    x: Floats, outcome: Outcome, table: SensitiveTable | None, weights: Floats | None
) -> TrainingData:
    """Return the rows to train on as tensors."""
    discrete = outcome.classes is not None

    def tensor(values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values))

    return TrainingData(
        x=tensor(x),
        target=tensor(outcome.target),
        outcome=tensor(outcome.encoded),
        outcome_class=tensor(outcome.target.astype(np.int64)) if discrete else None,
        attribute=None if table is None else tensor(table.encode()),
        attribute_cell=tensor(table.cells()) if table is not None and table.is_discrete else None,
        weight=None if weights is None else tensor(weights.astype(np.float32)),
        known=None if table is None or table.known.all() else tensor(table.known),
    )


def read_seed(random_state: Any) -> int:
    """Return a seed: the given integer, a draw from the given RandomState, or a fresh one."""
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
    """Return the named device; "auto" is CUDA if available, else the CPU."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=torch.device(device)).device
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"device must be 'auto' or a device torch can use here, got {device!r}: {reason}"
        ) from None


def learned_inputs(model: FairEstimator) -> AttributeInputs:
    """Return how a fitted model encodes sensitive features; without columns if it needs none."""
    return AttributeInputs(
        getattr(model, "attribute_inputs_", ()),
        getattr(model, "attribute_encoder_", None),
        getattr(model, "attribute_gaps_", ()),
    )


def n_inputs(model: FairEstimator) -> int:
    """Return the number of inputs of a fitted model's predictor."""
    return len(model.encoder_.names_) + learned_inputs(model).width


def categorical_inputs(model: FairEstimator) -> tuple[int, ...]:
    """Return the positions of the inputs that hold codes of categories."""
    first, encoder = len(model.encoder_.names_), learned_inputs(model).encoder
    attributes = () if encoder is None else encoder.categorical_
    return (*model.encoder_.categorical_, *(first + place for place in attributes))


def _why_aware(model: FairEstimator) -> str | None:
    """Return the option for which a model sees sensitive features to predict; None without one."""
    if parse_method(model.method).capabilities.needs_attribute:
        return f"method={model.method!r}"
    return "sensitive_at_prediction=True" if model.sensitive_at_prediction else None


def _check_aware(model: FairEstimator) -> None:
    aware = check_flag("sensitive_at_prediction", model.sensitive_at_prediction)
    if aware and parse_method(model.method).capabilities.needs_attribute:
        raise InputError(
            f"sensitive_at_prediction (--sensitive-at-prediction) must be False for "
            f"method={model.method!r}, which always sees the sensitive features at prediction, in "
            "its own way, got True; leave it out"
        )


def learn_inputs(model: FairEstimator, x: Floats, table: SensitiveTable | None) -> Floats:
    """Return the inputs (n, n_inputs) to train on.

    These are the encoded features x (n, p), followed by the sensitive features if the model sees
    them to predict.
    """
    why = _why_aware(model)
    if why is None:
        return x
    if table is None:
        raise InputError(
            f"sensitive_features is required at any strength for {why}, which "
            "needs them to predict: call fit(X, y, sensitive_features=A)"
        )
    inputs = AttributeInputs.of(
        table, model._new_encoder() if model.sensitive_at_prediction else None
    )
    model.attribute_inputs_ = inputs.columns
    if inputs.encoder is not None:
        model.attribute_encoder_, model.attribute_gaps_ = inputs.encoder, inputs.gaps
    return np.concatenate([x, inputs.encode(table)], axis=1)


def new_inputs(model: FairEstimator, x: Floats, sensitive_features: Any) -> Floats:
    """Return the inputs (n, n_inputs) of new rows with encoded features x (n, p)."""
    inputs = learned_inputs(model)
    if not inputs.columns:
        if sensitive_features is None:
            return x
        raise InputError(
            f"sensitive_features must be left out to predict with method={model.method!r}, which "
            "does not look at them; leave them out, or fit with sensitive_at_prediction=True"
        )
    if sensitive_features is None:
        raise InputError(
            f"sensitive_features is required to predict with {_why_aware(model)}: call "
            f"predict(X, sensitive_features=A) with the columns {', '.join(inputs.names)}"
        )
    return np.concatenate([x, inputs.read(sensitive_features, len(x))], axis=1)


class Fitting(Generic[Model]):
    """The training of one estimator, step by step. The constructor checks all its options.

    The estimator itself learns the encoding of features and outcome, but no weights.
    """

    # Set by `learn`, from the training rows.
    outcome: Outcome
    table: SensitiveTable | None
    data: TrainingData
    total: int  # training rows in all; the data may hold a part of them

    def __init__(self, model: Model) -> None:
        model._count_members(0)
        check_choice("loss", model.loss, LOSSES)
        self.model = model
        count_jobs(model.n_jobs)
        changed = changed_options(model)
        self.recipe = replace(model._recipe(), changed=changed, n_jobs=model.n_jobs)
        _check_aware(model)
        self.device = read_device(model.device)

    def learn(self, rows: Rows, *, penalized: bool) -> None:
        """Learn the encoding of features and outcome from the training rows, and encode them.

        ``penalized`` says whether any member that is to be trained has a strength above 0.
        """
        model = self.model
        self.outcome = model._read_outcome(rows.y, rows.weights)
        if rows.positive is not None:
            self.outcome = self.outcome.scoring(rows.positive)
        model._keep_outcome(self.outcome)
        # Before the features are read, since an adjuster fits the model of a user for them.
        if rows.table is not None:
            self.recipe.check_method(
                rows.table,
                penalized=penalized,
                classes=None if self.outcome.classes is None else len(self.outcome.classes),
                weighted=rows.weights is not None,
            )
        model.sensitive_ = "none given" if rows.table is None else rows.table.describe()
        self.table, self.total = rows.table, len(rows)
        model.encoder_ = model._new_encoder()
        features = model.encoder_.fit_transform(model._features_to_learn(rows))
        x = learn_inputs(model, features, rows.table)
        weights = None if rows.weights is None else model._scaled_weights(rows.weights)
        self.data = training_data(x, self.outcome, rows.table, weights).to(self.device)

    def further(
        self, X: Any, y: Any, sensitive_features: Any, weights: NDArray[np.float64] | None
    ) -> TrainingData:
        """Encode other training rows, by what `learn` learned from its rows.

        ``weights`` (n,) have mean 1 over all training rows.
        """
        model, inputs = self.model, learned_inputs(self.model)
        x = model.encoder_.transform(model._features(X))
        table = None if self.table is None else self.table.further(sensitive_features)
        if table is not None and inputs.columns:
            x = np.concatenate([x, inputs.encode(table)], axis=1)
        given = read_values(y, argument="y", remedy="leave out rows whose outcome is unknown")
        found = training_data(x, self.outcome.further(given), table, weights)
        if table is not None and self.data.known is not None:
            found = replace(found, known=torch.from_numpy(table.known))
        return found

    def encode(self, X: Any, table: SensitiveTable, positions: Positions) -> Tensor:
        """Return inputs (n, p) of other rows, in double precision, on the device that scores.

        ``positions`` (n,) are those of the rows among the user's rows, for errors.
        """
        features = self.model._features(X)
        x, inputs = self.model.encoder_.transform(features), learned_inputs(self.model)
        if inputs.columns:
            x = np.concatenate([x, inputs.encode(table, positions)], axis=1)
        return torch.from_numpy(x).double().to(exact_device(self.device))

    def train(
        self,
        members: Sequence[Member],
        run: FitRun,
        *,
        verbose: int,
        note: Callable[[Progress], str] | None = None,
        on_check: Callable[[int, Predictor], bool] | None = None,
    ) -> Trained:
        """Train members on the rows of `learn`; ``note`` gives the end of a progress line."""
        rows = members[0].rows
        share = 1.0 if rows is None else len(rows) / len(self.data)
        trained_on = round(share * self.total)
        training = self.model._for_rows(self.recipe.training, self.total, trained_on)
        if (workers := worker_count()) > 1:
            batch_size = max(2, -(-training.batch_size // workers))
            training = replace(training, batch_size=batch_size)
        self.recipe = replace(self.recipe, training=training)
        inputs = Inputs(
            task=self.model._task(self.outcome),
            n_outputs=self.outcome.n_outputs,
            attribute_inputs=learned_inputs(self.model).width,
            categorical=categorical_inputs(self.model),
        )
        with progress_shown(verbose, note) as shown:
            supervision = run.supervision(self.data, shown)
            return self.recipe.train(
                self.data, members, inputs, on_check=on_check, supervision=supervision
            )

    @property
    def utility(self) -> UtilityName:
        """The measure of utility that belongs to the task loss."""
        return UTILITIES[self.model._task(self.outcome)]

    @property
    def remedy(self) -> str:
        """Advice against overfitting."""
        return AGAINST_OVERFITTING[FAMILIES[self.model.family].unit]

    def members(self, first: Member) -> list[Member]:
        """Return the members whose average is the model, with the rows that each sets aside."""
        model, declared = self.model, parse_method(self.model.method)
        # A method that solves for its model would give every member the same one.
        count = 1 if declared.solve is not None else model._count_members(self.total)
        members = [replace(first, seed=first.seed + number) for number in range(count)]
        few = len(self.data) < FEWEST_TO_STOP
        if few or model.early_stopping is None or not declared.reads("early_stopping"):
            return members
        members = with_rows_aside(members, len(self.data), self.data.outcome_class)
        if (window := self.data.window) is None:
            return members
        # They stay while other rows change, so no member trains on those of another.
        aside = torch.cat([each.aside.numbers for each in members if each.aside is not None])
        window.keep(torch.unique(aside))
        change = torch.ones(len(self.data), dtype=torch.bool)
        change[aside] = False
        rows = RowSet(change.nonzero()[:, 0])
        return [replace(each, rows=rows) for each in members]

    def health_of(self, trained: Trained) -> Health:
        """Return the health of the average of all members.

        If training set rows aside, they show whether its members overfit.
        """
        (health, *others), members = trained.health, trained.members
        if others:
            (health,) = judge_health(
                averaged(trained.predictor),
                self.data,
                [Member(members[0].strength, members[0].seed)],
                trained.history.mean(),
                given_outcome=self.recipe.notion.conditions_on_outcome,
                has_critic=parse_method(self.model.method).has_critic,
                failures=[[failure for found in trained.failures for failure in found]],
            )
        if members[0].aside is None:
            return health
        utilities = [
            self._utility(trained, [member.rows for member in members]),
            self._utility(trained, [member.aside for member in members]),
        ]
        strength = members[0].strength
        return compare(health, strength, *utilities, part="set-aside")

    def _utility(self, trained: Trained, rows: Sequence[RowSet | None]) -> Utility:
        """Return the mean utility of the members, each on its own rows."""
        samples = [self.data.sample(HEALTH_ROWS // len(rows), each) for each in rows]
        x = torch.stack([sample.x for sample in samples]).to(trained.predictor.weight)
        with torch.no_grad():
            output, _ = trained.predictor(x)
        scores = trained.predictor.task.score(output.double())
        found = [
            utilities_of(scores[[k]], sample, self.utility)[0] for k, sample in enumerate(samples)
        ]
        sizes = np.sum([each.sizes for each in found], axis=0).tolist()
        return Utility(found[0].name, float(np.mean([each.value for each in found])), tuple(sizes))

    def warn_if_interrupted(self, trained: Ended, run: FitRun) -> None:
        """Warn that Ctrl-C ended training, and say how to continue."""
        if not trained.interrupted_at:
            return
        remedy = (
            f"call fit(..., checkpoint='{run.file}', resume=True) to go on from the last checkpoint"
            if run.file is not None and run.file.exists()
            else "to be able to resume a run, call fit(..., checkpoint=path)"
        )
        unit = FAMILIES[self.model.family].unit
        moment = f"{unit} {trained.interrupted_at} of {self.recipe.training.iterations}"
        if trained.interrupted_in:
            moment += f", in the phase before it ({trained.interrupted_in}),"
        warnings.warn(
            f"training was interrupted at {moment} and returns the result so far; {remedy}",
            ConvergenceWarning,
            stacklevel=4,
        )


class Ended(Protocol):
    """What tells whether Ctrl-C ended training."""

    @property
    def interrupted_at(self) -> int:
        """The iteration, 0 if it did not."""

    @property
    def interrupted_in(self) -> str:
        """The phase before the run, if any."""


@dataclass(frozen=True)
class TrainedModel:
    """The average of all members, after training."""

    predictor: Predictor
    history: History
    health: Health
    interrupted_at: int
    interrupted_in: str


def train_model(first: Member, fitting: Fitting[Any], run: FitRun, *, verbose: int) -> TrainedModel:
    """Train the members whose average is the model; ``first`` is the first of them."""
    trained = fitting.train(fitting.members(first), run, verbose=verbose)
    return TrainedModel(
        averaged(trained.predictor).settled(),
        trained.history.mean(),
        fitting.health_of(trained),
        trained.interrupted_at,
        trained.interrupted_in,
    )


def utilities_of(scores: Tensor, rows: TrainingData, utility: UtilityName) -> list[Utility]:
    """Return the utility of E models, from scores (E, n, s) in the units of the targets.

    It is not finite if a class has no row, or if all rows have the same outcome.
    """
    columns = scores.shape[-1]
    flat, y = scores.transpose(1, 2).flatten(0, 1), rows.target.to(scores)
    weights = torch.ones_like(y) if rows.weight is None else rows.weight.to(scores)
    kind = OUTCOMES[utility]
    scored = Scored(flat, rank(flat), weights[None], None, None, kind, y)
    sizes = effective_sizes(y, weights, kind, columns)
    values = scored.utility(utility, columns=columns)[0].tolist()
    return [Utility(utility, value, sizes) for value in values]


def effective_sizes(
    y: Tensor, weights: Tensor, kind: OutcomeKind, columns: int
) -> tuple[float, ...]:
    """Effective number of rows of each class, as in `Utility`; of all rows if y is continuous."""
    codes = torch.zeros_like(y, dtype=torch.long) if kind == "continuous" else y.long()
    classes = {"continuous": 1, "binary": 2}.get(kind, columns)
    total, squares = (
        torch.bincount(codes, each, minlength=classes) for each in (weights, weights.square())
    )
    return tuple((total.square() / squares).nan_to_num().tolist())


class Work(Protocol[FoundCo]):
    """Trains members of a `Fitting` that has its rows, and returns what is left of them."""

    def __call__(self, fitting: Fitting[Any], run: FitRun, *, verbose: int) -> FoundCo:
        """Train on ``fitting.data``."""


class Train(Protocol):
    """Lets other processes do the work; returns what it returns."""

    def __call__(self, work: Work[Any], fitting: Fitting[Any], run: FitRun, verbose: int) -> Any:
        """Train on all rows, of which ``fitting.data`` may be a sample."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FitRun:
    """Checkpoints and callback of one call of ``fit``."""

    callback: Callback | None
    options: Mapping[str, Any]  # a checkpoint to resume from must have the same
    file: CheckpointFile | None = None
    store: Store | None = None  # the place in the file where this training keeps its state
    seconds: float = 0.0  # least time between checkpoints
    # Rows on which the result depends, besides the training rows.
    rows: Mapping[str, Iterable[Tensor]] = field(default_factory=dict)
    parts: Mapping[str, Stateful] = field(default_factory=dict)  # further state to keep
    train: Train | None = None  # where members are trained, if not in this process

    def carry_out(self, work: Work[Found], fitting: Fitting[Any], verbose: int) -> Found:
        """Train by ``work``, here or where this run trains."""
        if self.train is None:
            return work(fitting, self, verbose=verbose)
        found: Found = self.train(work, fitting, self, verbose)
        return found

    def supervision(self, data: TrainingData, show: Callback | None) -> Supervision:
        """Return the supervision of a training on ``data``; ``show`` displays its progress."""
        callbacks = tuple(each for each in (show, self.callback) if each is not None)
        if self.store is None:
            return Supervision(callbacks=callbacks)
        return Supervision(
            store=self.store,
            seconds=self.seconds,
            identity=self._identity(data.to_build_for),
            parts=self.parts,
            callbacks=callbacks,
        )

    def _identity(self, data: TrainingData) -> Identity:
        """Return the options, versions and rows that a resumed run must share with this one."""
        stated = {
            name: repr(same_form(value))
            for name, value in self.options.items()
            if name.rpartition("__")[2] not in _NOT_IN_IDENTITY
        }
        stated |= {f"version of {name}": version(name) for name in ("equipoise", "torch")}
        stated["device"] = data.x.device.type
        rows: dict[str, Iterable[Tensor | None]] = {
            "features": [data.x],
            "outcomes": [data.target, data.outcome],
            "sensitive features": [data.attribute, data.known],
            "sample weights": [data.weight],
            **self.rows,
        }
        hashed = {
            name: digest(tensor for tensor in tensors if tensor is not None)
            for name, tensors in rows.items()
        }
        return Identity(stated, hashed)


class Fits(BaseEstimator, ABC):
    """The method ``fit`` of estimators and frontiers."""

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
        resume: bool = False,
        callback: Callback | None = None,
    ) -> Self:
        """Train on features, outcome and sensitive features.

        Parameters
        ----------
        X : DataFrame (pandas, polars, pyarrow) or numeric array, (n, p)
            Features. Frames may hold categorical columns and missing values.
        y : (n,)
            Outcome: labels of two or more classes, or numbers for a regressor.
        sensitive_features : DataFrame, Series, array, list or dict of columns, n rows
            Any mix of discrete and continuous attributes; an estimator with ``strength=0`` needs
            none.
        sample_weight : (n,), optional
            Weights of the rows, for training and for all that a frontier measures. Only their
            ratios count. Rows of weight 0 are left out, as if they had not been given.
        checkpoint : path of a file, optional
            Where to keep the state of the run; needs an integer ``random_state``.
        checkpoint_every : float
            Least number of seconds between two checkpoints. Checkpoints are written at
            evaluations; 0 writes one at each.
        resume : bool
            Go on from the checkpoint, or start if there is none. The result is that of an
            uninterrupted run, bit for bit on the same CPU. A finished run is returned as it was.
        callback : callable, optional
            Gets an :class:`equipoise.training.Progress` at every evaluation of a frontier, or
            every 50 iterations or 10 rounds of an estimator. It ends training by returning True.

        Ctrl-C ends training with a warning and returns the result so far; a second Ctrl-C raises.
        """
        with self._training(checkpoint, checkpoint_every, resume, callback) as run:
            self._fit(run, X, y, sensitive_features, sample_weight)
        return self

    @contextmanager
    def _training(
        self,
        checkpoint: str | PathLike[str] | None,
        checkpoint_every: float,
        resume: bool,
        callback: Callback | None,
    ) -> Iterator[FitRun]:
        """What every ``fit`` does around its training."""
        options = self._run_options()
        with (
            gradients_on(),
            begin_run(options, checkpoint, checkpoint_every, resume, callback) as run,
        ):
            yield run

    def _run_options(self) -> dict[str, Any]:
        """Return the options that a checkpoint to resume from must share."""
        options: dict[str, Any] = self.get_params(deep=False)
        return options

    @abstractmethod
    def _fit(
        self, run: FitRun, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> None:
        """Train, and store what was learned."""


class FitElsewhere(Protocol):
    """Does what ``fit`` does with ``rows``, but lets ``train`` train the members.

    ``stated`` is what a checkpoint to resume from must share, besides the options of the model.
    """

    def __call__(self, train: Train, stated: Mapping[str, Any], **rows: Any) -> None:
        """Fit the model."""


@contextmanager
def fit_elsewhere(
    model: Fits,
    *,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
    resume: bool = False,
) -> Iterator[FitElsewhere]:
    """Check these arguments of ``model.fit`` before there are rows; yield what fits it."""
    with model._training(checkpoint, checkpoint_every, resume, None) as run:

        def fit(train: Train, stated: Mapping[str, Any], **rows: Any) -> None:
            model._fit(replace(run, train=train, options={**run.options, **stated}), **rows)

        yield fit


@contextmanager
def begin_run(
    options: Mapping[str, Any],
    checkpoint: str | PathLike[str] | None,
    checkpoint_every: float,
    resume: bool,
    callback: Callback | None,
) -> Iterator[FitRun]:
    """Check the arguments of ``fit`` about checkpoints and progress, and lock the checkpoint file.

    ``options`` are those of the estimator or frontier.
    """
    rule = "must be a number of seconds of at least 0"
    check_number("checkpoint_every", checkpoint_every, rule, lambda seconds: seconds >= 0)
    check_flag("resume", resume)
    if callback is not None and not callable(callback):
        raise InputError(
            "callback must be a function of one argument, the progress, got "
            f"{type(callback).__name__}"
        )
    if checkpoint is None:
        if resume:
            raise InputError(
                "resume=True needs the file to go on from, got checkpoint=None; call "
                "fit(..., checkpoint=path, resume=True)"
            )
        yield FitRun(callback=callback, options=options)
        return
    file = CheckpointFile(checkpoint)
    if not isinstance(options["random_state"], int | np.integer):
        raise InputError(
            "random_state must be a whole number when checkpoints are kept, got "
            f"{options['random_state']!r}; a resumed run must draw the same random numbers"
        )
    with file.in_use():
        if file.exists() and not resume:
            raise InputError(
                f"checkpoint must be a new file unless resume=True, got '{file}', which exists; "
                "call fit(..., resume=True) to go on from it, or remove it to start anew"
            )
        yield FitRun(
            file=file, store=file, seconds=checkpoint_every, callback=callback, options=options
        )


def changed_options(model: FairEstimator) -> dict[str, Any]:
    """Return the options of an estimator that differ from their defaults."""
    defaults = inspect.signature(type(model)).parameters
    return {
        name: value
        for name, value in model.get_params(deep=False).items()
        if same_form(value) != same_form(defaults[name].default)
    }


def same_form(value: Any) -> Any:
    """Return an option in a form in which options that mean the same are equal.

    A list, an array and a tuple of the same numbers mean the same, and so do 1 and 1.0.

    >>> same_form([64, 64.0]) == same_form(np.array([64, 64])) == (64, 64)
    True
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(same_form(item) for item in value)
    if isinstance(value, Mapping):
        return {name: same_form(item) for name, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value
