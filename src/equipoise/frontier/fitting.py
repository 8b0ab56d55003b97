"""Training a frontier: from the user's rows to the curve of all snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from torch import Tensor

from equipoise.errors import InputError, check_flag, check_number, check_whole
from equipoise.estimators import Classifies, Regresses
from equipoise.estimators.fitting import RunOptions, warn_if_interrupted
from equipoise.estimators.inputs import (
    Outcome,
    checked_features,
    checked_outcome,
    held_out_inputs,
    learn_inputs,
    read_seed,
    row_weights,
)
from equipoise.frontier.curve import Curve, FromRows, Strand, table_of
from equipoise.frontier.families import families_of, template_of
from equipoise.frontier.rows import HeldOut, Positions, Split, rebuilt, split_rows
from equipoise.frontier.snapshots import (
    Entry,
    Judge,
    Recorder,
    Snapshots,
    criteria_for,
    entries_of,
    joined,
    scores_of,
)
from equipoise.methods import parse_method
from equipoise.networks import select_members
from equipoise.predictors.boosting.library import refuse_draws
from equipoise.predictors.recipe import Recipe
from equipoise.storage import CheckpointFile
from equipoise.tables import SensitiveTable, check_aligned
from equipoise.training import Callback, Member, Progress, TrainingData
from equipoise.training.engine import HEALTH_ROWS
from equipoise.training.predictor import exact_device
from equipoise.training.progress import progress_shown


@dataclass(frozen=True, eq=False)
class Fitted:
    """The curve, which rows it came from, and how sensitive columns were typed, as text."""

    curve: Curve
    split: Split
    sensitive: str


@torch.inference_mode(False)  # training needs gradients, also where they are switched off
@torch.enable_grad()
def fit_curve(
    options: Mapping[str, Any],
    defaults: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any,
    run: RunOptions,
    store: CheckpointFile | None,
) -> Fitted:
    """Train all members of every family and keep the snapshots on a front; see `FairFrontier.fit`.

    ``defaults`` are what the options are where nobody has set them; ``store`` is that of the run.
    """
    families = families_of(options, defaults)
    seed = read_seed(options["random_state"])
    members = read_members(options, seed)
    templates = {family: template_of(options, family, seed) for family in families}
    recipes = {family: _recipe(template, options) for family, template in templates.items()}
    if store is not None and "boosting" in families:
        refuse_draws(templates["boosting"].get_params()["lightgbm"])
    devices = {family: template._device() for family, template in templates.items()}
    if sensitive_features is None:
        raise InputError(
            "sensitive_features is required to judge snapshots: call "
            "fit(X, y, sensitive_features=A)"
        )
    check_aligned(X=X, y=y, sensitive_features=sensitive_features, sample_weight=sample_weight)
    for template in templates.values():
        X = checked_features(template, X, reset=True)
    y = checked_outcome(X, y)
    weights = row_weights(sample_weight, len(y))
    table = template._read_sensitive(sensitive_features, len(y), weights)
    assert table is not None
    split = split_rows(
        len(y),
        validation=options["validation"],
        test=options["test"],
        seed=seed,
        counted=None if weights is None else weights > 0,
    )
    # All are ready before any is trained: what is wrong for one family is told at once.
    ready = [
        _Ready(
            family,
            template,
            recipes[family],
            members,
            entries_of(members, ensemble=options["ensemble"], predictor=family),
            deal(template, X, y, table, weights, split, devices[family]),
        )
        for family, template in templates.items()
    ]
    everybody = [entry for each in ready for entry in each.entries]
    found: list[_Found] = []
    for each in ready:
        before = [earlier.snapshots for earlier in found]
        found.append(_fit_strand(each, options, everybody, before, run, store))
        if found[-1].cut_short:
            break
    curve = Curve(
        strands=tuple(each.strand for each in found),
        snapshots=joined([each.snapshots for each in found]),
        validation_rows=len(ready[0].parts.validation),
        test=ready[0].parts.test,
    )
    given = table if weights is None else table.take(weights > 0)
    return Fitted(curve, split, given.describe())


@dataclass(frozen=True, eq=False)
class _Ready:
    """One family before training; ``entries`` are its members and their averages."""

    family: str
    template: Classifies | Regresses
    recipe: Recipe
    members: Sequence[Member]
    entries: tuple[Entry, ...]
    parts: Parts


@dataclass(frozen=True, eq=False)
class _Found:
    """A strand, its snapshots, and whether Ctrl-C or a callback ended training."""

    strand: Strand
    snapshots: Snapshots
    cut_short: bool


def _recipe(template: Classifies | Regresses, options: Mapping[str, Any]) -> Recipe:
    """Return the recipe of a family, checked as often as its snapshots are wanted."""
    recipe = template._recipe()
    every = options["evaluate_every" if recipe.unit == "iteration" else "evaluate_every_rounds"]
    return replace(recipe, training=replace(recipe.training, check_every=every))


def _fit_strand(
    ready: _Ready,
    options: Mapping[str, Any],
    everybody: Sequence[Entry],
    before: Sequence[Snapshots],
    run: RunOptions,
    store: CheckpointFile | None,
) -> _Found:
    """Train all members of one family together.

    everybody: entries of all families; before: snapshots of those already trained.
    """
    recipe, template, parts, entries = ready.recipe, ready.template, ready.parts, ready.entries
    criteria = criteria_for(options["metrics"], options["notion"], parts.validation, parts.test)
    judge = Judge(parts.validation, criteria, parts.validation_x.device)
    units = {"center": parts.outcome.center, "scale": parts.outcome.scale}
    recorder = Recorder(
        lambda predictor: judge(scores_of(predictor, parts.validation_x, entries, **units)),
        criteria,
        entries,
    )

    def so_far() -> Snapshots:
        return joined([*before, recorder.snapshots()])

    note = best_within(so_far, options["progress_budget"])
    told = None
    if run.callback is not None:
        told = with_snapshots(run.callback, so_far, everybody, len(entries))
    with progress_shown(options["verbose"], note) as shown:
        trained = recipe.train(
            parts.data,
            ready.members,
            template._inputs(parts.outcome, parts.trained_on),
            on_check=recorder,
            supervision=run.supervision(
                None if store is None else Stage(store, later=bool(before)),
                options,
                parts.data,
                more=_held_out_tensors(parts),
                parts={"snapshots": recorder},
                callbacks=[shown, told],
            ),
        )
    warn_if_interrupted(trained, recipe.training.iterations, store)
    prototype = select_members(trained.predictor, [0])
    strand = Strand(
        predictor=ready.family,
        entries=entries,
        prototype=prototype,
        history=trained.history,
        member_health=trained.health,
        template=template,
        evidence=FromRows(
            seen=parts.data.sample(HEALTH_ROWS),
            given_outcome=recipe.notion.conditions_on_outcome,
            has_critic=parse_method(options["method"]).has_critic,
            test=parts.test_x,
            **units,
        ),
    )
    cut_short = bool(trained.interrupted_at) or trained.called_off
    return _Found(strand, recorder.snapshots(), cut_short)


def _held_out_tensors(parts: Parts) -> dict[str, Iterable[Tensor]]:
    """What snapshots are judged and reported by, for a resumed run to be the same run."""

    def tensors(x: Tensor, rows: HeldOut) -> list[Tensor]:
        seen = [rows.y, rows.table.encode(), rows.table.known]
        weights = [] if rows.weights is None else [rows.weights]
        return [x, *(torch.from_numpy(values.copy()) for values in [*seen, *weights])]

    return {
        "validation rows": tensors(parts.validation_x, parts.validation),
        "test rows": tensors(parts.test_x, parts.test),
    }


def read_members(options: Mapping[str, Any], seed: int) -> tuple[Member, ...]:
    """Every strength with every seed: seed, seed + 1, ..."""
    given = options["strengths"]
    strengths = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(strengths, list | tuple):
        raise InputError(f"strengths must be a tuple of numbers in [0, 1), got {given!r}")
    if not strengths or any(each in strengths[:place] for place, each in enumerate(strengths)):
        raise InputError(f"strengths must be distinct numbers, at least one, got {given!r}")
    for name in ("seeds", "evaluate_every", "evaluate_every_rounds"):
        check_whole(name, options[name])
    if check_flag("ensemble", options["ensemble"]) and options["seeds"] < 2:
        raise InputError(
            f"ensemble=True averages over seeds and needs at least 2, got seeds={options['seeds']}"
        )
    return tuple(
        Member(strength, seed + number)
        for number in range(options["seeds"])
        for strength in strengths
    )


@dataclass(frozen=True, eq=False)
class Parts:
    """What trains, what picks and what reports.

    Attributes
    ----------
    data : TrainingData
    outcome : Outcome
        Of the training rows.
    trained_on : SensitiveTable
        Of the training rows.
    validation, test : HeldOut
    validation_x, test_x : Tensor of float64, shape (n, p)
        Their encoded features.
    """

    data: TrainingData
    outcome: Outcome
    trained_on: SensitiveTable
    validation: HeldOut
    test: HeldOut
    validation_x: Tensor
    test_x: Tensor


def deal(
    template: Classifies | Regresses,
    X: Any,
    y: NDArray[Any],
    table: SensitiveTable,
    weights: NDArray[np.float64] | None,
    split: Split,
    device: torch.device,
) -> Parts:
    """Encode every part by what the training rows alone say; the template learns how."""

    def weights_of(rows: Positions) -> NDArray[np.float64] | None:
        return None if weights is None else weights[rows]

    outcome = template._read_outcome(y[split.train], weights_of(split.train))
    validation, test = (
        HeldOut.read(part, y[rows], table.take(rows), weights_of(rows), outcome)
        for part, rows in (("validation", split.validation), ("test", split.test))
    )
    trained_on = rebuilt(table, split.train)
    encoder = template._new_encoder()
    x = learn_inputs(template, encoder.fit_transform(_safe_indexing(X, split.train)), trained_on)

    def held_out_x(rows: Positions) -> Tensor:
        encoded = encoder.transform(_safe_indexing(X, rows))
        return torch.from_numpy(held_out_inputs(template, encoded, table.take(rows))).double()

    exact = exact_device(device)
    validation_x, test_x = (held_out_x(r).to(exact) for r in (split.validation, split.test))
    template.encoder_ = encoder
    template.sensitive_ = trained_on.describe()
    template._keep_outcome(outcome)
    data = template._training_data(x, outcome, trained_on, weights_of(split.train)).to(device)
    return Parts(data, outcome, trained_on, validation, test, validation_x, test_x)


#: Under what name the state of a later family holds that of the finished one before it.
_BEFORE = "before"


@dataclass(frozen=True)
class Stage:
    """The part of a checkpoint that is of one family; printed, it names the file.

    The file holds the state of the family in training, so that any other run that is given the file
    finds out what wrote it; the state of the family before is inside it.

    Attributes
    ----------
    file : CheckpointFile
    later : bool
        Whether another family was trained before, the only one.
    """

    file: CheckpointFile
    later: bool

    def __str__(self) -> str:
        return str(self.file)

    def read(self) -> dict[str, Any] | None:
        """Return the state of this family, or None."""
        kept = self.file.read()
        if kept is None or not self.later:
            return None if kept is None else kept.get(_BEFORE, kept)
        return kept if _BEFORE in kept else None

    def refuse(self, error: Exception) -> NoReturn:
        """Say that the file holds no state of a run."""
        self.file.refuse(error)

    def write(self, state: dict[str, Any]) -> None:
        """Replace the state of this family."""
        if self.later:
            kept = self.file.read()
            assert kept is not None
            state = {**state, _BEFORE: kept.get(_BEFORE, kept)}
        self.file.write(state)


#: What returns all snapshots so far, those of families trained before included.
SoFar = Callable[[], Snapshots]


def with_snapshots(
    callback: Callback, so_far: SoFar, entries: Sequence[Entry], evaluated: int
) -> Callback:
    """Return a callback that passes on the progress with the rows of its evaluation.

    entries: of all families; evaluated: how many of them each evaluation judges.
    """

    def tell(progress: Progress) -> bool | None:
        rows = table_of(so_far(), entries).tail(evaluated)
        return callback(replace(progress, snapshots=rows))

    return tell


def best_within(so_far: SoFar, budget: float) -> Callable[[Progress], str]:
    """Return what says how good the best snapshot is whose unfairness is within the budget."""
    check_number(
        "progress_budget", budget, "must be a number of at least 0", lambda most: most >= 0
    )
    return lambda _: _best_in_words(so_far(), budget)


def _best_in_words(snapshots: Snapshots, budget: float) -> str:
    criteria = snapshots.criteria
    metric = criteria.metrics[0]
    counted = snapshots.unfairness[:, list(criteria.by_attribute(metric).values())]
    # An undefined value is within no budget.
    within = (counted <= budget).all(axis=1) & ~np.isnan(snapshots.utility)
    if not within.any():
        return f"nothing with {metric} <= {budget:g} yet"
    best = snapshots.utility[within].max()
    return f"best {criteria.utility} {best:.3f} with {metric} <= {budget:g}"
