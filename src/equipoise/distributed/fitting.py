"""`fit_files`: estimators and frontiers fitted to tables in files, of any number of rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.base import clone, is_regressor

from equipoise.cluster import Cluster, connected
from equipoise.distributed.rows import TableRows
from equipoise.distributed.sources import (
    FilePart,
    FilePieces,
    Table,
    files_of,
    kind_in_words,
    pieces_of,
)
from equipoise.distributed.survey import (
    HELD_OUT,
    PART,
    SAMPLE,
    Draws,
    FitColumns,
    Survey,
    survey,
)
from equipoise.distributed.training import ClusterTraining
from equipoise.errors import InputError, check_choice, check_whole, refuse_unread
from equipoise.estimators import FairEncoder
from equipoise.estimators.base import FairEstimator
from equipoise.estimators.fitting import (
    FitElsewhere,
    Fits,
    Fitting,
    fit_elsewhere,
    read_device,
    read_seed,
)
from equipoise.files.columns import as_names, assign_roles, check_columns
from equipoise.files.reading import column_types, find_data_file
from equipoise.frontier import FairFrontier
from equipoise.frontier.fitting import DrawnRows, Roles, check_options, estimators_of
from equipoise.methods import METHODS, parse_method
from equipoise.predictors import FAMILIES
from equipoise.tables.sensitive_table import check_types
from equipoise.training import Member

Fitted = TypeVar("Fitted", bound=Fits)

#: Rows that a worker has in memory by default.
WINDOW = 2**20


def fit_files(
    estimator: Fitted,
    paths: Table,
    *,
    target: str,
    sensitive: str | Sequence[str],
    features: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
    weight: str | None = None,
    key: str | None = None,
    positive: Any = None,
    engine: Literal["ray"] = "ray",
    workers: int = 1,
    window: int = WINDOW,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
    resume: bool = False,
) -> Fitted:
    """Fit an estimator or a frontier to Parquet or Arrow files of any number of rows, with Ray.

    One pass reads all files: it checks every value and draws the rows from which encoders, kinds of
    sensitive columns and scales are learned, all of them up to 200,000. Then the workers train
    together, each on rows of its own, with the mean of their gradients. So the result depends on
    the number of workers as it does on the seed. With one worker and rows that fit into memory it
    is that of ``fit`` on the same rows.

    Parameters
    ----------
    estimator : FairClassifier, FairRegressor, FairEncoder, FairAdjuster or FairFrontier
        Its options count as for ``fit``; ``batch_size`` is that of all workers together. An
        adjuster must have ``estimator=None``: scores are columns. Networks on CPUs only.
    paths : path, glob or several of them, or ray.data.Dataset
        The files of one table. A dataset is run once and written to temporary files.
    target, weight : str
        Columns of outcomes and of weights.
    sensitive, features, drop : str or sequence of str
        Sensitive columns, features (by default all other columns), and columns to leave out.
    key : str, optional
        Person, household or other group, whose rows stay in one part of a frontier; not a feature
        unless ``features`` names it.
    positive : label of the target, optional
        As for :meth:`FairFrontier.fit`; only for frontiers.
    engine : {"ray"}
        Uses the cluster that the process is connected to, else that of RAY_ADDRESS, else the cores
        of this machine.
    workers : int
        Processes that train together, each on one core.
    window : int
        Most training rows that a worker has in memory. If there are more, every epoch of a run has
        the next rows.
    checkpoint, checkpoint_every, resume
        As for :meth:`FairClassifier.fit`. If a worker or a machine is lost, the others go on from
        the latest checkpoint, which is kept in memory, too.

    Returns
    -------
    estimator
        The same object, fitted.

    Examples
    --------
    >>> model = fit_files(FairClassifier(strength=0.9), "people/*.parquet", target="hired",
    ...                   sensitive=["age", "sex"], workers=2)  # doctest: +SKIP
    """
    check_choice("engine", engine, ("ray",))
    request = FitRequest.of(
        estimator,
        target=target,
        sensitive=as_names("sensitive", sensitive),
        features=None if features is None else as_names("features", features),
        drop=as_names("drop", drop),
        weight=weight,
        key=key,
        workers=workers,
        window=window,
    )
    request.check_positive(positive)
    kept: dict[str, Any] = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every}
    with (
        fit_elsewhere(estimator, **kept, resume=resume) as fit,
        request.of_task().read(paths) as read,
    ):
        read.fit(estimator, fit, positive=positive)
    return estimator


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """What is to be fitted, checked as far as no file is needed for that."""

    models: tuple[FairEstimator, ...]  # the estimator, or those of a frontier
    shares: tuple[float, float]  # of validation rows and test rows; 0 without a frontier
    seed: int
    target: str
    sensitive: tuple[str, ...]
    features: tuple[str, ...] | None
    drop: tuple[str, ...]
    weight: str | None
    key: str | None
    workers: int
    window: int
    has_classes: bool | None = None  # whether the target holds classes; None: its values say it

    @classmethod
    def of(cls, estimator: Any, *, workers: int, window: int, **columns: Any) -> FitRequest:
        """Check an estimator and its options."""
        check_whole("workers", workers)
        check_whole("window", window, least=1_000)
        shares = (0.0, 0.0)
        given = [estimator]
        if isinstance(estimator, FairFrontier):
            given = estimators_of(estimator.estimator)
            if estimator.engine != "local":
                refuse_unread("engine", estimator.engine, "fit_files", "leave it out")
            check_options(estimator)
            shares = _share("validation", estimator.validation), _share("test", estimator.test)
            if sum(shares) >= 1:
                raise InputError(
                    "validation and test must leave rows to train on, got shares "
                    f"{shares[0]:g} and {shares[1]:g}; lower them"
                )
        for model in given:
            _check_model(model, workers, by_itself=estimator is model)
        check_types(given[0].sensitive_types or {}, columns["sensitive"])
        seed = read_seed(estimator.random_state)
        return cls(
            models=tuple(given),
            shares=shares,
            seed=seed,
            workers=workers,
            window=window,
            **columns,
        )

    def of_task(self) -> FitRequest:
        """The same request, in which the estimator says whether the target holds classes."""
        first = self.models[0]
        if isinstance(first, FairEncoder):
            return replace(self, has_classes=first.task == "classification")
        return replace(self, has_classes=not is_regressor(first))

    def check_positive(self, positive: Any) -> None:
        """Refuse a positive label where nothing reads it."""
        if positive is not None and not any(self.shares):
            refuse_unread("positive", positive, "an estimator", "fit a FairFrontier")

    @contextmanager
    def read(self, paths: Table) -> Iterator[FilesRead]:
        """Compare the files, then read them all once; the cluster stays connected meanwhile."""
        with files_of(paths, lambda names: self._columns(names).names) as files:
            columns = self._columns(list(column_types(find_data_file(files[0].path))))
            _check_kinds(files[0], columns)
            pieces = pieces_of(files)
            rows = sum(piece.rows for file in pieces for piece in file.pieces)
            draws = self._draws(rows, columns)
            with connected() as cluster:
                # Few rows are read here sooner than processes start.
                in_order = map if draws.sample >= 1 else cluster.in_order
                found = survey(in_order, pieces, columns, draws)
                yield FilesRead(self, cluster, files, pieces, columns, draws, found)

    def _columns(self, names: Sequence[str]) -> FitColumns:
        """The roles of columns with these names."""
        given: dict[str, Sequence[str]] = {
            "sensitive": self.sensitive,
            "target": (self.target,),
            "weight": () if self.weight is None else (self.weight,),
            "drop": self.drop,
        }
        if self.features is not None:
            given["features"] = self.features
        roles = assign_roles(names, given)
        if self.key is not None:
            check_columns("key", [self.key], names)
        features = [name for name, role in roles.items() if role == "feature"]
        if self.features is None:
            features = [name for name in features if name != self.key]
        first = self.models[0]
        return FitColumns(
            target=self.target,
            sensitive=self.sensitive,
            features=tuple(features),
            weight=self.weight,
            key=self.key,
            missing=first.missing_sensitive,
            types=first.sensitive_types or {},
            has_classes=self.has_classes,
        )

    def _draws(self, rows: int, columns: FitColumns) -> Draws:
        """How rows are drawn; refuse methods that need them all in memory."""
        validation, test = (min(share, HELD_OUT / rows) for share in self.shares)
        trains = rows * (1 - validation - test)
        if trains > self.workers * self.window:
            for model in self.models:
                if not parse_method(model.method).by_batch and _is_penalized(model, self.shares):
                    raise InputError(
                        f"method must be one of {_BY_BATCH} where training rows do not fit into "
                        f"memory, got {model.method!r} with about {trains:,.0f} rows, of which "
                        f"{self.workers} workers hold {self.workers * self.window:,}; raise window "
                        "or workers, or take another method"
                    )
        return Draws(self.seed, validation, test, min(1.0, SAMPLE / trains))


#: Methods whose rows may change while they train.
_BY_BATCH = ", ".join(repr(name) for name, each in METHODS.items() if each.by_batch)


def _share(name: str, share: Any) -> float:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise InputError(
            f"{name} must be a share strictly between 0 and 1 for files, got {share!r}; rows are "
            "drawn by a hash"
        )
    return float(share)


def _is_penalized(model: FairEstimator, shares: Sequence[float]) -> bool:
    return any(shares) or model.strength > 0


def _check_model(model: Any, workers: int, *, by_itself: bool) -> None:
    """Refuse models that cannot be trained from files, or not by several workers."""
    name = type(model).__name__
    if not isinstance(model, FairEstimator):
        raise InputError(
            "estimator must be a FairClassifier, FairRegressor, FairEncoder, FairAdjuster or a "
            f"FairFrontier of them, got {name}; for example fit_files(FairClassifier(), ...)"
        )
    family = FAMILIES[model.family]
    if not family.weights_suffice:
        raise InputError(
            f"estimator must be a network for files, got {name}, whose {family.many} need all rows "
            "at once; fit it to a part of the rows, and a FairAdjuster to its scores in files"
        )
    if getattr(model, "estimator", None) is not None:
        raise InputError(
            f"estimator must leave out estimator in {name} for files, got "
            f"{type(model.estimator).__name__}; write its scores of rows that it was not trained "
            "on into a column, and name that as features"
        )
    if by_itself:
        Fitting(clone(model))
        Member(model.strength, 0)
    device = read_device(model.device).type
    if device != "cpu":
        raise InputError(
            f"device must be 'cpu' for files, which workers train on one core each, got "
            f"{device!r}; set device='cpu'"
        )
    declared = parse_method(model.method)
    if declared.solve is not None:
        raise InputError(
            f"method must train in iterations for files, got {model.method!r}, which solves for "
            "its model with all rows at once; use method='sbp'"
        )
    if workers == 1:
        return
    remedy = "or set workers=1"
    if not declared.by_batch and (not by_itself or model.strength > 0):
        raise InputError(
            f"method must be one of {_BY_BATCH} for several workers, got {model.method!r} and "
            f"workers={workers}; take one of these, {remedy}"
        )
    for option in ("normalization", "critic_normalization"):
        if getattr(model, option) == "batch":
            raise InputError(
                f"{option} must not be 'batch' for several workers, whose batches are normalized "
                f"apart, got workers={workers}; set {option}='none', {remedy}"
            )
    if getattr(model, "network", None) is not None:
        raise InputError(
            f"network must be left out for several workers, which cannot know how its layers "
            f"depend on a batch, got workers={workers}; leave it out, {remedy}"
        )


def _check_kinds(file: FilePart, columns: FitColumns) -> None:
    """Refuse columns that no model can read."""
    types = column_types(find_data_file(file.path))
    for name in columns.names:
        kind = kind_in_words(types[name])
        if kind not in ("numbers", "booleans", "text", "nothing") and name != columns.key:
            raise InputError(
                f"data file {file} must hold numbers, booleans or text in column {name!r}, got "
                f"{kind}; convert it, or name it as drop"
            )


@dataclass(frozen=True)
class FilesRead:
    """Files after the first pass: what they hold, and a sample of their rows."""

    request: FitRequest
    cluster: Cluster
    files: tuple[FilePart, ...]
    pieces: tuple[FilePieces, ...]
    columns: FitColumns
    draws: Draws
    found: Survey

    @property
    def sample(self) -> pd.DataFrame:
        """The drawn rows."""
        return pd.DataFrame(self._drawn[list(self.columns.names)])

    @cached_property
    def _drawn(self) -> pd.DataFrame:
        """The drawn rows and their parts; text, which is read as categories, is text again."""
        rows = self.found.rows
        types = column_types(find_data_file(self.files[0].path))
        text = [name for name in self.columns.names if not pa.types.is_dictionary(types[name])]
        categories = rows[text].select_dtypes("category").columns
        return rows.astype(dict.fromkeys(categories, object))

    @property
    def rows(self) -> int:
        """Number of rows of all files."""
        return sum(piece.rows for file in self.pieces for piece in file.pieces)

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.path.stat().st_size for file in self.files)

    @cached_property
    def digest(self) -> str:
        """What recognizes the files: names, sizes, and ends, which describe a Parquet file."""
        sha256 = hashlib.sha256()
        for file in self.files:
            size = file.path.stat().st_size
            sha256.update(f"{file.path.name} {size} ".encode())
            with file.path.open("rb") as content:
                content.seek(max(0, size - _END))
                sha256.update(content.read())
        return sha256.hexdigest()

    def fit(
        self,
        estimator: Any,
        fit: FitElsewhere,
        *,
        positive: Any = None,
        features: Sequence[str] | None = None,
    ) -> None:
        """Learn from the sample and train on all rows; ``features`` are some of those read."""
        request, drawn = self.request, self._drawn
        columns = self.columns
        if features is not None:
            columns = replace(columns, features=tuple(features))
        total, weighted = self.found.total, columns.weight is not None
        table = TableRows(
            pieces=tuple(piece for file in self.pieces for piece in file.pieces),
            training=tuple(self.found.training.tolist()),
            columns=columns,
            draws=self.draws,
            weight=self.found.weight / max(1, total) if weighted else 1.0,
            window=request.window,
            seed=request.seed,
            in_sample=self.draws.sample >= 1,
        )
        table.check(request.workers)
        more: dict[str, Any] = {}
        if isinstance(estimator, FairFrontier):
            part = drawn[PART].to_numpy()
            held = [np.flatnonzero(part == number) for number in (1, 2)]
            rows = DrawnRows(held[0], held[1], drawn.index.to_numpy())
            more["roles"] = Roles(positive=positive, drawn=rows)
        fit(
            ClusterTraining(self.cluster, table, request.workers),
            stated={
                "files": self.digest,
                "columns": [*columns.names],
                "workers": request.workers,
                "window": request.window,
            },
            X=drawn[list(columns.features)],
            y=drawn[columns.target],
            sensitive_features=drawn[list(columns.sensitive)],
            sample_weight=drawn[columns.weight] if weighted else None,
            **more,
        )


#: Bytes at the end of a file that recognize it.
_END = 2**16
