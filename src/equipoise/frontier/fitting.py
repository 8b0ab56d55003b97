"""Training a frontier: from the user's rows to the curve of all snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equipoise.errors import InputError
from equipoise.estimators import Classifies, Regresses
from equipoise.estimators.inputs import (
    checked_features,
    checked_outcome,
    read_seed,
    row_weights,
)
from equipoise.estimators.run_options import RunOptions, warn_if_interrupted
from equipoise.frontier.criteria import criteria_for
from equipoise.frontier.curve import Curve
from equipoise.frontier.entries import Entry, entries_of
from equipoise.frontier.evidence import FromRows
from equipoise.frontier.families import families_of, template_of
from equipoise.frontier.judging import Judge, scores_of
from equipoise.frontier.options import read_members
from equipoise.frontier.parts import Parts, deal
from equipoise.frontier.progress import best_within, with_snapshots
from equipoise.frontier.rows import HeldOut, Split, split_rows
from equipoise.frontier.snapshots import Recorder, Snapshots, joined
from equipoise.frontier.stages import Stage
from equipoise.frontier.strand import Strand
from equipoise.methods import parse_method
from equipoise.networks import select_members
from equipoise.predictors.boosting import BoostingRecipe
from equipoise.predictors.boosting.library import refuse_draws
from equipoise.predictors.recipe import Recipe
from equipoise.storage import CheckpointFile
from equipoise.tables import check_aligned
from equipoise.training import Member, Predictor
from equipoise.training.engine import HEALTH_ROWS
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
    recipe: Recipe | BoostingRecipe
    members: Sequence[Member]
    entries: tuple[Entry, ...]
    parts: Parts


@dataclass(frozen=True, eq=False)
class _Found:
    """A strand, its snapshots, and whether Ctrl-C or a callback ended training."""

    strand: Strand
    snapshots: Snapshots
    cut_short: bool


def _recipe(
    template: Classifies | Regresses, options: Mapping[str, Any]
) -> Recipe | BoostingRecipe:
    """Return the recipe of a family, checked as often as its snapshots are wanted."""
    recipe = template._recipe()
    trees = isinstance(recipe, BoostingRecipe)
    every = options["evaluate_every_rounds" if trees else "evaluate_every"]
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
            task=template._task(parts.outcome),
            n_outputs=parts.outcome.n_outputs,
            sensitive=parts.trained_on,
            on_check=recorder,
            supervision=run.supervision(
                None if store is None else Stage(store, later=bool(before)),
                options,
                parts.data,
                more=_held_out_tensors(parts),
                parts={"snapshots": recorder},
                callbacks=[shown, told],
            ),
            **template._input_facts(),
        )
    warn_if_interrupted(trained, recipe.training.iterations, store)
    prototype = select_members(trained.predictor, [0])
    assert isinstance(prototype, Predictor)
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
