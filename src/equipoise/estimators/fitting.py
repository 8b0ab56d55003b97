"""From the user's rows to trained members: the one sequence of an estimator and of a frontier.

`read_rows` checks what the user gave. `Fitting` checks the options of one estimator, learns from
rows how to encode them, and trains members on them. `Run` looks after the training.
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
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

import narwhals as nw
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data
from torch import Tensor

from equipoise.errors import ConvergenceWarning, InputError, check_flag, check_number
from equipoise.methods import parse_method
from equipoise.metrics import OutcomeKind, Scored
from equipoise.metrics.partition import rank
from equipoise.predictors import FAMILIES, Inputs
from equipoise.scales import center_and_spread, exponent, reduced, standardized
from equipoise.storage import CheckpointFile
from equipoise.tables import AttributeInputs, SensitiveTable, check_aligned, take_rows
from equipoise.tables.columns import read_values, refuse_repeated_names
from equipoise.training import Callback, Member, Predictor, Supervision, Trained, TrainingData
from equipoise.training.checkpoints import Identity, Stateful, Store, digest
from equipoise.training.health import HEALTH_ROWS, Health, Utility, compare
from equipoise.training.loop import gradients_on
from equipoise.training.predictor import exact_device
from equipoise.training.progress import Progress, progress_shown

if TYPE_CHECKING:
    from equipoise.estimators.base import FairEstimator

Model = TypeVar("Model", bound="FairEstimator")
Positions = NDArray[np.intp]
Floats = NDArray[np.float32] | NDArray[np.float64]

#: Options that change nothing about what is trained, or that other parts of an identity cover.
_NOT_OF_THE_RUN = ("verbose", "device", "network")

UtilityName = Literal["AUC", "macro AUC", "R2"]
#: What is called utility, by the kind of outcome.
UTILITIES: Mapping[OutcomeKind, UtilityName] = {
    "binary": "AUC",
    "multiclass": "macro AUC",
    "continuous": "R2",
}

#: What helps against overfitting, by the unit in which a family trains.
AGAINST_OVERFITTING = {
    "iteration": "fewer iterations, a larger weight_decay or a narrower hidden",
    "round": "fewer rounds or smaller trees (num_leaves of LightGBM, max_depth of XGBoost)",
}

#: Spreads off zero, and sizes of the spread, at which trees keep the outcome's own units.
_OFF_ZERO = 2.0**7
_LEAST_SPREAD, _MOST_SPREAD = 1e-12, 1e12


@dataclass(frozen=True, eq=False)
class Rows:
    """The user's rows, checked; weights are None where all count the same, table without A."""

    X: Any
    y: NDArray[Any]
    weights: NDArray[np.float64] | None
    table: SensitiveTable | None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which rows have a weight above 0, (n,)."""
        return np.ones(len(self), dtype=bool) if self.weights is None else self.weights > 0

    def alone(self, positions: Positions) -> Rows:
        """Return these rows as if the others had never been there: their categories and ranks."""
        table = None
        if self.table is not None:
            table = SensitiveTable(
                tuple(column.take(positions).alone() for column in self.table.columns)
            )
        return Rows(
            take_rows(self.X, positions),
            self.y[positions],
            None if self.weights is None else self.weights[positions],
            table,
        )


def read_rows(
    models: Sequence[FairEstimator], X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> Rows:
    """Check rows for models that read sensitive features alike; each learns the columns' names."""
    check_aligned(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
    for model in models:
        X = checked_features(model, X, reset=True)
    y = checked_outcome(X, y)
    weights = row_weights(sample_weight, len(y))
    return Rows(X, y, weights, models[0]._read_sensitive(sensitive_features, len(y), weights))


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
        zero_or_one = numbers.astype(np.float32)
        return Outcome(zero_or_one, zero_or_one[:, None], classes=classes)
    one_hot = np.eye(len(classes), dtype=np.float32)[numbers]
    return Outcome(numbers.astype(np.int64), one_hot, classes=classes)


def read_numbers(
    y: NDArray[Any], weights: NDArray[np.float64] | None = None, *, own_units: bool = False
) -> Outcome:
    """Read a continuous outcome; the task gets it in standard units, or in its own.

    Mean and spread count rows by their ``weights`` (n,). LightGBM reads an outcome in single
    precision, so its own units are kept where that can tell values apart: at most 128 spreads off
    zero, with a spread from 1e-12 to 1e12.
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


class Fitting(Generic[Model]):
    """One estimator on its way to trained members; all its options are checked at once.

    The model learns the encoding of features and outcome, and nothing about how training went.
    """

    # What `learn` made of the rows that train.
    outcome: Outcome
    table: SensitiveTable | None
    data: TrainingData

    def __init__(self, model: Model) -> None:
        self.model = model
        self.recipe = replace(model._recipe(), changed=changed_options(model))
        self.device = read_device(model.device)

    def learn(self, rows: Rows) -> None:
        """Learn from these rows how features and outcome are encoded, and encode them."""
        model = self.model
        self.table = rows.table
        self.outcome = model._read_outcome(rows.y, rows.weights)
        model._keep_outcome(self.outcome)
        model.sensitive_ = "none given" if rows.table is None else rows.table.describe()
        model.encoder_ = model._new_encoder()
        x = learn_inputs(model, model.encoder_.fit_transform(rows.X), rows.table)
        weights = None if rows.weights is None else model._scaled_weights(rows.weights)
        self.data = training_data(x, self.outcome, rows.table, weights).to(self.device)

    def encode(self, X: Any, table: SensitiveTable) -> Tensor:
        """Return inputs (n, p) of other rows, in double precision where scores are computed."""
        x, inputs = self.model.encoder_.transform(X), learned_inputs(self.model)
        if inputs.columns:
            x = np.concatenate([x, inputs.encode(table)], axis=1)
        return torch.from_numpy(x).double().to(exact_device(self.device))

    def train(
        self,
        members: Sequence[Member],
        run: Run,
        *,
        verbose: int,
        note: Callable[[Progress], str] | None = None,
        on_check: Callable[[int, Predictor], bool] | None = None,
    ) -> Trained:
        """Train members on the rows learned from; ``note`` ends each line of progress."""
        inputs = Inputs(
            task=self.model._task(self.outcome),
            n_outputs=self.outcome.n_outputs,
            sensitive=self.table,
            attribute_inputs=learned_inputs(self.model).width,
            categorical=self.model.encoder_.categorical_,
        )
        with progress_shown(verbose, note) as shown:
            return self.recipe.train(
                self.data,
                members,
                inputs,
                on_check=on_check,
                supervision=run.supervision(self.data, shown),
            )

    @property
    def remedy(self) -> str:
        """Options that help against overfitting."""
        return AGAINST_OVERFITTING[FAMILIES[self.model.family].unit]

    def health_of(self, trained: Trained) -> Health:
        """Return the health of a single member, whose rows set aside say whether it overfits."""
        (health,), (member,) = trained.health, trained.members
        if not member.rows:
            return health
        aside = np.setdiff1d(np.arange(len(self.data)), member.rows)
        found = []
        for rows in (member.rows, tuple(aside.tolist())):
            seen = self.data.sample(HEALTH_ROWS, rows)
            output, _ = trained.predictor.evaluate(seen.x)
            scores = trained.predictor.task.score(output.double())
            found += utilities_of(scores, seen)
        return compare(health, member.strength, *found, part="set-aside", remedy=self.remedy)

    def warn_if_interrupted(self, trained: Trained, run: Run) -> None:
        """Say that Ctrl-C ended training, and what can be done about it."""
        if not trained.interrupted_at:
            return
        remedy = (
            f"call fit(..., checkpoint='{run.file}', resume=True) to go on from the last checkpoint"
            if run.file is not None and run.file.exists()
            else "it cannot be resumed without one: fit(..., checkpoint=path) keeps checkpoints"
        )
        unit = FAMILIES[self.model.family].unit
        moment = f"{unit} {trained.interrupted_at} of {self.recipe.training.iterations}"
        if trained.interrupted_in:
            moment += f", while it trained what comes first ({trained.interrupted_in}),"
        warnings.warn(
            f"training was interrupted at {moment} and returns what it had until then; {remedy}",
            ConvergenceWarning,
            stacklevel=4,
        )


def utilities_of(scores: Tensor, rows: TrainingData) -> list[Utility]:
    """Return the utility of E models, from scores (E, n, s) in the units of the targets.

    It is not finite where a class has no row, or all rows have the same outcome.
    """
    columns = scores.shape[-1]
    flat, y = scores.transpose(1, 2).flatten(0, 1), rows.target.to(scores)
    weights = torch.ones_like(y) if rows.weight is None else rows.weight.to(scores)
    kind: OutcomeKind = "binary" if columns == 1 else "multiclass"
    if rows.outcome_class is None:
        kind = "continuous"
    scored = Scored(flat, rank(flat), weights[None], None, None, kind, y)
    sizes = effective_sizes(y, weights, kind, columns)
    values = scored.utility(columns=columns)[0].tolist()
    return [Utility(UTILITIES[kind], value, sizes) for value in values]


def effective_sizes(
    y: Tensor, weights: Tensor, kind: OutcomeKind, columns: int
) -> tuple[float, ...]:
    """How many rows of each class speak for a utility, by `Utility`; of all where y is a number."""
    codes = torch.zeros_like(y, dtype=torch.long) if kind == "continuous" else y.long()
    classes = {"continuous": 1, "binary": 2}.get(kind, columns)
    total, squares = (
        torch.bincount(codes, each, minlength=classes) for each in (weights, weights.square())
    )
    return tuple((total.square() / squares).nan_to_num().tolist())


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """How one training is looked after."""

    callback: Callback | None
    options: Mapping[str, Any]  # that a state in the store must be of
    file: CheckpointFile | None = None
    store: Store | None = None  # where in the file this training keeps its state
    seconds: float = 0.0  # least time between checkpoints
    # Rows beside those that train on which the result depends.
    rows: Mapping[str, Iterable[Tensor]] = field(default_factory=dict)
    parts: Mapping[str, Stateful] = field(default_factory=dict)  # what else must be remembered

    def supervision(self, data: TrainingData, shown: Callback | None) -> Supervision:
        """Return the supervision of a training on these rows; ``shown`` shows its progress."""
        told = tuple(callback for callback in (shown, self.callback) if callback is not None)
        if self.store is None:
            return Supervision(callbacks=told)
        return Supervision(
            store=self.store,
            seconds=self.seconds,
            identity=_identity(self.options, data, self.rows),
            parts=self.parts,
            callbacks=told,
        )


class Fits(BaseEstimator, ABC):
    """What ``fit`` trains: an estimator, or a frontier of several."""

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
            Weights of the rows, in training and wherever a frontier judges; only their ratios
            count. Rows of weight 0 are left out, as if they had not been given: their classes and
            categories are not known, and their values rank nothing.
        checkpoint : path of a file, optional
            Where to keep the state of the run; needs an integer ``random_state``.
        checkpoint_every : float
            Least seconds between checkpoints, which are written at evaluations; 0 is at each one.
        resume : bool
            Go on from the checkpoint to what an uninterrupted run gives (bit for bit on one CPU);
            begin where there is none yet. A finished run is returned as it was.
        callback : callable, optional
            Receives an :class:`equipoise.training.Progress` at every evaluation of a frontier, or
            every 50 iterations or 10 rounds of an estimator; returning True ends training.

        Ctrl-C ends training and returns what there is, with a warning; a second one raises.
        """
        with (
            gradients_on(),
            begin_run(self._run_options(), checkpoint, checkpoint_every, resume, callback) as run,
        ):
            self._fit(run, X, y, sensitive_features, sample_weight)
        return self

    @abstractmethod
    def _run_options(self) -> dict[str, Any]:
        """Return the options that a run must share with the checkpoint it goes on from."""

    @abstractmethod
    def _fit(self, run: Run, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> None:
        """Train, and keep what was learned."""


@contextmanager
def begin_run(
    options: Mapping[str, Any],
    checkpoint: str | PathLike[str] | None,
    checkpoint_every: float,
    resume: bool,
    callback: Callback | None,
) -> Iterator[Run]:
    """Check what ``fit`` was asked besides training, and lock the checkpoint until the end.

    ``options`` are those of the estimator or frontier.
    """
    check_number(
        "checkpoint_every",
        checkpoint_every,
        "must be a number of seconds of at least 0",
        lambda seconds: seconds >= 0,
    )
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
        yield Run(callback=callback, options=options)
        return
    file = CheckpointFile(checkpoint)
    if not isinstance(options["random_state"], int | np.integer):
        raise InputError(
            "random_state must be a whole number when checkpoints are kept, got "
            f"{options['random_state']!r}: a resumed run has to draw what the first one drew"
        )
    with file.in_use():
        if file.exists() and not resume:
            raise InputError(
                f"checkpoint must be new unless resume=True, got '{file}', which is there; "
                "call fit(..., resume=True) to go on from it, or remove it to start anew"
            )
        yield Run(
            file=file, store=file, seconds=checkpoint_every, callback=callback, options=options
        )


def changed_options(model: FairEstimator) -> dict[str, Any]:
    """Options of an estimator that differ from their defaults, with their values."""
    defaults = inspect.signature(type(model)).parameters
    return {
        name: value
        for name, value in model.get_params(deep=False).items()
        if same_form(value) != same_form(defaults[name].default)
    }


def same_form(value: Any) -> Any:
    """Return an option in the one form in which equal options are equal.

    A list, an array and a tuple of the same numbers ask for the same, and so do 1 and 1.0.

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


def _identity(
    options: Mapping[str, Any], data: TrainingData, more: Mapping[str, Iterable[Tensor]]
) -> Identity:
    """Return what makes a run of these options on these rows the run it is."""
    stated = {
        name: repr(same_form(value))
        for name, value in options.items()
        if name.rpartition("__")[2] not in _NOT_OF_THE_RUN
    }
    stated |= {f"version of {name}": version(name) for name in ("equipoise", "torch")}
    tensors: dict[str, list[Tensor | None]] = {
        "features": [data.x],
        "outcomes": [data.target, data.outcome],
        "sensitive features": [data.attribute, data.known],
        "sample weights": [data.weight],
    }
    given: dict[str, Iterable[Tensor]] = {
        name: [tensor for tensor in group if tensor is not None] for name, group in tensors.items()
    }
    return Identity(
        stated | {"device": data.x.device.type},
        {name: digest(group) for name, group in {**given, **more}.items()},
    )
