"""From the user's rows to trained members: the one sequence of an estimator and of a frontier.

`read_rows` checks what the user gave; `Fitting` has the options of one estimator checked, learns
from rows how to encode them, and trains members on them; `Run` looks after the training.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import ConvergenceWarning, InputError, check_flag, check_number
from equipoise.estimators.inputs import (
    Outcome,
    checked_features,
    checked_outcome,
    learn_inputs,
    learned_inputs,
    read_device,
    row_weights,
    training_data,
)
from equipoise.predictors import FAMILIES, Inputs
from equipoise.storage import CheckpointFile
from equipoise.tables import SensitiveTable, check_aligned, take_rows
from equipoise.training import Callback, Member, Predictor, Supervision, Trained, TrainingData
from equipoise.training.checkpoints import Identity, Stateful, Store, digest
from equipoise.training.predictor import exact_device
from equipoise.training.progress import Progress, progress_shown

if TYPE_CHECKING:
    from equipoise.estimators.base import FairEstimator

Model = TypeVar("Model", bound="FairEstimator")
Positions = NDArray[np.intp]
#: Options that change nothing about what is trained, or that other parts of an identity cover.
_NOT_OF_THE_RUN = ("verbose", "device", "network")


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
            stacklevel=3,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """How one training is looked after."""

    file: CheckpointFile | None
    # Where in the file this training keeps its state; the file itself unless given.
    store: Store | None
    seconds: float  # least time between checkpoints
    callback: Callback | None
    options: Mapping[str, Any]  # that a state in the store must be of
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
    run = Run(file=None, store=None, seconds=0.0, callback=callback, options=options)
    if checkpoint is None:
        if resume:
            raise InputError(
                "resume=True needs the file to go on from, got checkpoint=None; call "
                "fit(..., checkpoint=path, resume=True)"
            )
        yield run
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
