"""Training a frontier: from the user's rows to the curve of all snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from equipoise.errors import InputError, check_flag, check_whole
from equipoise.estimators import Classifies, FairClassifier, Regresses
from equipoise.estimators.fitting import (
    Fitting,
    Positions,
    Run,
    effective_sizes,
    read_rows,
    read_seed,
    same_form,
    utilities_of,
)
from equipoise.frontier.judging import Criteria, Floats, HeldOut, Judge, criteria_for
from equipoise.frontier.snapshots import (
    Curve,
    Entry,
    Recorder,
    Snapshots,
    Split,
    Strand,
    entries_of,
    joined,
    scores_of,
    table_of,
)
from equipoise.methods import parse_method
from equipoise.networks import select_members
from equipoise.predictors import FAMILIES
from equipoise.storage import CheckpointFile
from equipoise.tables import take_rows
from equipoise.training import Health, Member, Predictor, Progress
from equipoise.training.data import TrainingData, stream_seed
from equipoise.training.health import HEALTH_ROWS, Utility, compare, judge_health

if TYPE_CHECKING:
    from equipoise.frontier.estimator import FairFrontier

#: An estimator that a frontier can train.
Predicts = Classifies | Regresses
#: A share of all rows to draw, or the positions of the rows.
Part = float | Sequence[int] | NDArray[np.integer[Any]]
#: Units of training between snapshots unless the user says otherwise.
_EVALUATE_EVERY = {"iteration": 100, "round": 20}
#: Options that all estimators of a frontier share, since they are judged on the same rows.
_SHARED = ("notion", "sensitive_types", "missing_sensitive")
#: Limit on unfairness of the best model that progress tells of.
_LIMIT = 0.1
#: Under what name the state of an estimator holds those of the ones trained before it.
_BEFORE = "before"


def fit_curve(
    frontier: FairFrontier, run: Run, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
) -> Curve:
    """Train all members of every estimator and keep the snapshots on a front."""
    seed = read_seed(frontier.random_state)
    members = _members(frontier, seed)
    fittings = _fittings(frontier, seed)
    if sensitive_features is None:
        raise InputError(
            "sensitive_features is required to judge snapshots: call "
            "fit(X, y, sensitive_features=A)"
        )
    if run.file is not None:
        for fitting in fittings.values():
            fitting.recipe.check_resumable()
    models = [fitting.model for fitting in fittings.values()]
    rows = read_rows(models, X, y, sensitive_features, sample_weight)
    assert rows.table is not None
    split = split_rows(
        len(rows),
        validation=frontier.validation,
        test=frontier.test,
        seed=seed,
        counted=rows.counted,
    )
    # All learn before any is trained: what is wrong for one estimator is told at once.
    train = rows.alone(split.train)
    for fitting in fittings.values():
        fitting.learn(train)
    outcome = next(iter(fittings.values())).outcome
    validation, test = (
        HeldOut.read(
            part,
            rows.y[positions],
            rows.table.take(positions),
            None if rows.weights is None else rows.weights[positions],
            outcome,
        )
        for part, positions in (("validation", split.validation), ("test", split.test))
    )
    criteria = criteria_for(frontier.metrics, models[0].notion, validation, test)
    trainings = [
        _Training(
            criteria,
            validation,
            test,
            predictor,
            fitting,
            members,
            entries_of(members, ensemble=frontier.ensemble, predictor=predictor),
            fitting.encode(take_rows(rows.X, split.validation), validation.table),
            fitting.encode(take_rows(rows.X, split.test), test.table),
        )
        for predictor, fitting in fittings.items()
    ]
    everybody = [entry for each in trainings for entry in each.entries]
    strands: list[Strand] = []
    found: list[Snapshots] = []
    for training in trainings:
        strand, snapshots, ended = training.run(everybody, found, run, frontier.verbose)
        strands.append(strand)
        found.append(snapshots)
        if ended:
            break
    together = joined(found)
    health, scores = _evidence(trainings, strands, everybody, together)
    return Curve(
        strands=tuple(strands),
        snapshots=together,
        health=health,
        scores=scores,
        split=split,
        sensitive=rows.table.take(rows.counted).describe(),
        test=test,
    )


def _members(frontier: FairFrontier, seed: int) -> tuple[Member, ...]:
    """Every strength with every seed: seed, seed + 1, ..."""
    given = frontier.strengths
    strengths = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(strengths, list | tuple):
        raise InputError(f"strengths must be a tuple of numbers in [0, 1), got {given!r}")
    if not strengths or any(each in strengths[:place] for place, each in enumerate(strengths)):
        raise InputError(f"strengths must be distinct numbers, at least one, got {given!r}")
    check_whole("seeds", frontier.seeds)
    if check_flag("ensemble", frontier.ensemble) and frontier.seeds < 2:
        raise InputError(
            f"ensemble=True averages over seeds and needs at least 2, got seeds={frontier.seeds}"
        )
    return tuple(
        Member(strength, seed + number)
        for number in range(frontier.seeds)
        for strength in strengths
    )


def _fittings(frontier: FairFrontier, seed: int) -> dict[str, Fitting[Predicts]]:
    """Check the options of copies of the estimators, and name them: "network", "network 2"."""
    models = estimators_of(frontier.estimator)
    _check_estimators(models)
    found: dict[str, Fitting[Predicts]] = {}
    for model, every in zip(models, _evaluations(frontier, len(models)), strict=True):
        copied = clone(model).set_params(
            strength=max(frontier.strengths), random_state=seed, verbose=frontier.verbose
        )
        fitting = Fitting(copied)
        wanted = _EVALUATE_EVERY[FAMILIES[model.family].unit] if isinstance(every, str) else every
        training = replace(fitting.recipe.training, check_every=wanted)
        fitting.recipe = replace(fitting.recipe, training=training)
        alike = sum(other.partition(" ")[0] == model.family for other in found)
        found[f"{model.family} {alike + 1}" if alike else model.family] = fitting
    return found


def _evaluations(frontier: FairFrontier, count: int) -> list[Any]:
    """How many units of training pass between snapshots of each estimator."""
    given: Any = frontier.evaluate_every
    listed = all(isinstance(each, list | tuple) for each in (given, frontier.estimator))
    every = list(given) if listed else [given] * count
    if len(every) != count:
        raise InputError(
            f"evaluate_every must have one value for each of the {count} estimators, got "
            f"{given!r}; a single number is for all"
        )
    for each in every:
        if not (isinstance(each, str) and each == "default"):
            check_whole("evaluate_every", each)
    return every


def estimators_of(estimator: Any) -> list[Any]:
    """Return the estimators that a frontier is given, as a list."""
    if estimator is None:
        return [FairClassifier()]
    return list(estimator) if isinstance(estimator, list | tuple) else [estimator]


def _check_estimators(models: Sequence[Any]) -> None:
    """Refuse what cannot be trained, and estimators that cannot compete on one front."""
    if not models:
        raise InputError("estimator must be an estimator or a list of them, got an empty list")
    first, alone = models[0], "fit a frontier of each"
    for model in models:
        if not isinstance(model, Classifies | Regresses):
            raise InputError(
                "estimator must be a FairClassifier, FairRegressor, FairBoostingClassifier or "
                f"FairBoostingRegressor, or a list of them, got {model!r}; for example "
                "FairFrontier(FairClassifier())"
            )
        options, name = model.get_params(deep=False), type(model).__name__
        if options["random_state"] is not None:
            raise InputError(
                f"estimator must leave random_state to the frontier, got {name}"
                f"(random_state={options['random_state']!r}); set FairFrontier(random_state=...)"
            )
        if options.get("early_stopping") is not None:
            raise InputError(
                f"estimator must leave out early_stopping, got {name}"
                f"(early_stopping={options['early_stopping']!r}): a frontier keeps the best rounds "
                "for every wish as it is"
            )
        if isinstance(model, Regresses) != isinstance(first, Regresses):
            raise InputError(
                "estimator must be a list of classifiers or of regressors, got both: "
                f"{type(first).__name__} and {name}; {alone}"
            )
        for shared in _SHARED:
            one, other = getattr(first, shared), getattr(model, shared)
            if same_form(one) != same_form(other):
                raise InputError(
                    f"estimator must be a list of estimators with the same {shared}, which compete "
                    f"on one front, got {one!r} and {other!r}; {alone}"
                )


def flat_options(frontier: FairFrontier) -> dict[str, Any]:
    """Return the options of a frontier and of its estimators, none of which is an estimator."""
    options: dict[str, Any] = frontier.get_params(deep=False)
    given = options.pop("estimator")
    for place, model in enumerate(estimators_of(given)):
        prefix = f"estimator__{place}__" if isinstance(given, list | tuple) else "estimator__"
        if isinstance(model, Classifies | Regresses):  # others are refused before training
            options[f"{prefix}class"] = type(model).__name__
            options |= {f"{prefix}{name}": v for name, v in model.get_params(deep=False).items()}
    return options


def split_rows(
    n: int,
    *,
    validation: Part,
    test: Part,
    seed: int,
    counted: NDArray[np.bool_] | None = None,
) -> Split:
    """Give every one of n rows to one part; rows that nobody named or drew train.

    Shares are of all rows. They are drawn at random whatever the values, so the test rows are a
    simple random sample of the rows that do not validate. Rows that are not ``counted`` (n,) are in
    no part.

    >>> split = split_rows(10, validation=[0, 1], test=0.3, seed=0)
    >>> split.validation.tolist(), len(split.test), len(split.train)
    ([0, 1], 3, 5)
    """
    free = np.ones(n, dtype=bool) if counted is None else counted.copy()
    total = int(free.sum())
    random = np.random.default_rng(stream_seed(seed, "held-out rows"))
    parts = {"validation": validation, "test": test}
    # Rows that were named are taken out before any are drawn.
    held: dict[str, Positions] = {
        name: _named(name, part, n) for name, part in parts.items() if np.ndim(part) > 0
    }
    both = np.intersect1d(held.get("validation", []), held.get("test", [])).astype(int)
    if len(both):
        raise InputError(
            f"validation and test must share no row, got {len(both)} in both (first {both[0]})"
        )
    held = {name: rows[free[rows]] for name, rows in held.items()}
    for rows in held.values():
        free[rows] = False
    for name, part in parts.items():
        if name not in held:
            size = _size(name, part, total)
            held[name] = np.sort(random.permutation(np.flatnonzero(free))[:size])
            free[held[name]] = False
    train = np.flatnonzero(free)
    if len(train) < 2:
        raise InputError(
            f"validation and test must leave at least 2 of the {total} rows to train on, "
            f"they leave {len(train)}; lower the shares"
        )
    return Split(train, held["validation"], held["test"])


def _named(name: str, part: Any, n: int) -> Positions:
    rows = np.asarray(part)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) < 2:
        raise InputError(
            f"{name} must be a share of the rows or the positions of at least two rows, got an "
            f"array of {rows.dtype} and shape {rows.shape}"
        )
    outside = rows[(rows < 0) | (rows >= n)]
    if len(outside):
        raise InputError(f"{name} must hold positions from 0 to {n - 1}, got {outside[0]}")
    unique = np.unique(rows)
    if len(unique) < len(rows):
        raise InputError(f"{name} must name every row once, got {len(rows) - len(unique)} repeats")
    return unique.astype(np.intp)


def _size(name: str, share: Any, n: int) -> int:
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise InputError(
            f"{name} must be a share strictly between 0 and 1, or positions of rows, got {share!r}"
        )
    size = round(share * n)
    if size < 2:
        raise InputError(
            f"{name} must hold at least 2 of the {n} rows, got {size}; raise the share"
        )
    return size


@dataclass(frozen=True, eq=False)
class _Training:
    """One estimator before training: its members and their averages, inputs of held-out rows."""

    criteria: Criteria
    validation: HeldOut
    test: HeldOut
    predictor: str
    fitting: Fitting[Predicts]
    members: Sequence[Member]
    entries: tuple[Entry, ...]
    validation_x: Tensor
    test_x: Tensor

    def run(
        self, everybody: Sequence[Entry], before: Sequence[Snapshots], run: Run, verbose: int
    ) -> tuple[Strand, Snapshots, bool]:
        """Train all members together; the last value is whether the user ended training.

        everybody: entries of all estimators; before: snapshots of those already trained.
        """
        fitting, judge = (
            self.fitting,
            Judge(self.validation, self.criteria, self.validation_x.device),
        )
        recorder = Recorder(
            lambda predictor: judge(
                scores_of(predictor, self.validation_x, self.entries, **self.units)
            ),
            self.criteria,
            self.entries,
        )

        def so_far() -> Snapshots:
            return joined([*before, recorder.snapshots()])

        def tell(progress: Progress) -> bool | None:
            """Pass on the progress, with the rows of the table that its evaluation adds."""
            assert run.callback is not None
            if progress.phase:
                return run.callback(progress)
            rows = table_of(so_far(), everybody).tail(len(self.entries))
            return run.callback(replace(progress, snapshots=rows))

        trained = fitting.train(
            self.members,
            replace(
                run,
                store=None if run.file is None else Stage(run.file, len(before)),
                callback=None if run.callback is None else tell,
                rows={
                    "validation rows": [self.validation_x, *self.validation.tensors()],
                    "test rows": [self.test_x, *self.test.tensors()],
                },
                parts={"snapshots": recorder},
            ),
            verbose=verbose,
            note=lambda _: _best_in_words(so_far()),
            on_check=recorder,
        )
        fitting.warn_if_interrupted(trained, run)
        found = recorder.snapshots()
        # The last evaluation is of the members as they are now.
        last = found.utility[-len(self.entries) :].tolist()[: len(self.members)]
        own = self.entries[: len(self.members)]
        health = self.compared(trained.health, trained.predictor, own, last)
        strand = Strand(
            predictor=self.predictor,
            entries=self.entries,
            prototype=select_members(trained.predictor, [0]),
            history=trained.history,
            member_health=health,
            template=fitting.model,
            failures=trained.failures,
        )
        return strand, found, bool(trained.interrupted_at) or trained.called_off

    def compared(
        self,
        healths: Sequence[Health],
        predictor: Predictor,
        entries: Sequence[Entry],
        utilities: Sequence[float],
    ) -> tuple[Health, ...]:
        """Add to healths what training rows say beside ``utilities`` on validation rows."""
        scores = scores_of(predictor, self.seen.x.to(self.validation_x), entries)
        y, counts = (
            torch.from_numpy(each.astype(np.float64))
            for each in (self.validation.y, self.validation.counts)
        )
        sizes = effective_sizes(y, counts, self.validation.outcome, scores.shape[-1])
        found = []
        for health, entry, trained, utility in zip(
            healths, entries, utilities_of(scores, self.seen), utilities, strict=True
        ):
            other = Utility(self.criteria.utility, utility, sizes)
            told = {"part": "validation", "remedy": self.fitting.remedy}
            found.append(compare(health, entry.strength, trained, other, **told))
        return tuple(found)

    @cached_property
    def seen(self) -> TrainingData:
        """Training rows that health is judged by."""
        return self.fitting.data.sample(HEALTH_ROWS)

    @property
    def units(self) -> dict[str, float]:
        """A continuous outcome is trained on as (y - center) / scale."""
        return {"center": self.fitting.outcome.center, "scale": self.fitting.outcome.scale}


def _best_in_words(snapshots: Snapshots) -> str:
    """Say how good the best snapshot is whose unfairness is within a limit."""
    criteria = snapshots.criteria
    metric = criteria.metrics[0]
    counted = snapshots.unfairness[:, list(criteria.by_attribute(metric).values())]
    # An undefined value is within no limit.
    within = (counted <= _LIMIT).all(axis=1) & ~np.isnan(snapshots.utility)
    if not within.any():
        return f"No model is within {metric} {_LIMIT:g} yet"
    best = snapshots.utility[within].max()
    return f"best {criteria.utility} {best:.3f} within {metric} {_LIMIT:g}"


def _evidence(
    trainings: Sequence[_Training],
    strands: Sequence[Strand],
    everybody: Sequence[Entry],
    snapshots: Snapshots,
) -> tuple[dict[int, Health], dict[int, Floats]]:
    """Return health and scores (n, s) on the test rows of every kept snapshot."""
    healths, scores = {}, {}
    by_name = {
        strand.predictor: (strand, training)
        for strand, training in zip(strands, trainings, strict=False)
    }
    for number, weights in snapshots.weights.items():
        entry = everybody[snapshots.entry[number]]
        strand, training = by_name[entry.predictor]
        recipe = training.fitting.recipe
        predictor = strand.filled(entry, weights)
        judged = judge_health(
            predictor,
            training.seen,
            [Member(entry.strength, entry.seeds[0])],
            strand.history_until(entry, int(snapshots.iteration[number])),
            given_outcome=recipe.notion.conditions_on_outcome,
            has_critic=parse_method(recipe.method).has_critic,
            failures=[[each for member in entry.members for each in strand.failures[member]]],
        )
        alone = [Entry(entry.strength, (0,), entry.seeds[:1])]
        predictor = predictor.settled()
        utility = [float(snapshots.utility[number])]
        (healths[number],) = training.compared(judged, predictor, alone, utility)
        found = scores_of(predictor, training.test_x, alone, **training.units)
        scores[number] = found[0].cpu().numpy()
    return healths, scores


@dataclass(frozen=True)
class Stage:
    """The part of a checkpoint that belongs to one of several estimators; it prints as the file.

    The file holds the state of the estimator in training, so that another run that is given the
    file can tell what wrote it. Inside that state are those of the estimators trained before.
    """

    file: CheckpointFile
    number: int

    def __str__(self) -> str:
        return str(self.file)

    def read(self) -> dict[str, Any] | None:
        """Return the state of this estimator, or None."""
        states = self._states()
        return states[self.number] if self.number < len(states) else None

    def refuse(self, error: Exception) -> NoReturn:
        """Say that the file holds no state of a run."""
        self.file.refuse(error)

    def write(self, state: dict[str, Any]) -> None:
        """Replace the state of this estimator."""
        before = self._states()[: self.number]
        self.file.write({**state, _BEFORE: before} if before else state)

    def _states(self) -> list[dict[str, Any]]:
        kept = self.file.read()
        if kept is None:
            return []
        before = kept.get(_BEFORE, [])
        # An earlier version kept one state here, which its identity refuses in words.
        earlier = before if isinstance(before, list) else [before]
        return [*earlier, {name: part for name, part in kept.items() if name != _BEFORE}]
