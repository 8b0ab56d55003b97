"""Training a frontier: from the user's rows to the curve of all snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equipoise.errors import InputError
from equipoise.estimators.attributes import learned_inputs
from equipoise.estimators.inputs import (
    checked_features,
    checked_outcome,
    read_device,
    read_seed,
    row_weights,
)
from equipoise.estimators.run_options import RunOptions, warn_if_interrupted
from equipoise.frontier.criteria import criteria_for
from equipoise.frontier.curve import Curve
from equipoise.frontier.entries import entries_of
from equipoise.frontier.evidence import FromRows
from equipoise.frontier.judging import Judge, scores_of
from equipoise.frontier.options import read_members, template_of
from equipoise.frontier.parts import Parts, deal
from equipoise.frontier.progress import best_within, with_snapshots
from equipoise.frontier.rows import HeldOut, Split, split_rows
from equipoise.frontier.snapshots import Recorder
from equipoise.methods import parse_method
from equipoise.networks import select_members
from equipoise.training import Predictor
from equipoise.training.engine import HEALTH_ROWS
from equipoise.training.progress_bar import progress_shown


@dataclass(frozen=True, eq=False)
class Fitted:
    """The curve, which rows it came from, and how sensitive columns were typed, as text."""

    curve: Curve
    split: Split
    sensitive: str


def fit_curve(
    options: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any,
    run: RunOptions,
) -> Fitted:
    """Train all members at once and keep the snapshots on a front; see `FairFrontier.fit`."""
    store = run.store(options["random_state"])
    seed = read_seed(options["random_state"])
    members = read_members(options, seed)
    template = template_of(options, seed)
    recipe = template._recipe()
    training = replace(recipe.training, check_every=options["evaluate_every"])
    recipe = replace(recipe, training=training)
    device = read_device(options["device"])
    if sensitive_features is None:
        raise InputError(
            "sensitive_features is required to judge snapshots: call "
            "fit(X, y, sensitive_features=A)"
        )
    X = checked_features(template, X, reset=True)
    y = checked_outcome(X, y)
    table = template._read_sensitive(sensitive_features, len(y))
    assert table is not None
    weights = row_weights(sample_weight, len(y))
    split = split_rows(
        len(y),
        validation=options["validation"],
        test=options["test"],
        seed=seed,
        counted=None if weights is None else weights > 0,
    )
    parts = deal(template, X, y, table, weights, split, device)
    criteria = criteria_for(options["metrics"], options["notion"], parts.validation, parts.test)
    entries = entries_of(members, ensemble=options["ensemble"])
    judge = Judge(parts.validation, criteria, device)
    units = {"center": parts.outcome.center, "scale": parts.outcome.scale}
    recorder = Recorder(
        lambda predictor: judge(scores_of(predictor, parts.validation_x, entries, **units)),
        criteria,
        entries,
    )
    note = best_within(recorder, options["progress_budget"])
    told = None if run.callback is None else with_snapshots(run.callback, recorder, entries)
    with progress_shown(options["verbose"], note) as shown:
        trained = recipe.train(
            parts.data,
            members,
            task=template._task(parts.outcome),
            n_outputs=parts.outcome.n_outputs,
            sensitive=parts.trained_on,
            attribute_inputs=learned_inputs(template).width,
            on_check=recorder,
            supervision=run.supervision(
                store,
                options,
                parts.data,
                more=_held_out_tensors(parts),
                parts={"snapshots": recorder},
                callbacks=[shown, told],
            ),
        )
    warn_if_interrupted(trained, recipe.training.iterations, store)
    prototype = select_members(trained.predictor, [0])
    assert isinstance(prototype, Predictor)
    curve = Curve(
        entries=entries,
        prototype=prototype,
        history=trained.history,
        member_health=trained.health,
        snapshots=recorder.snapshots(),
        template=template,
        evidence=FromRows(
            seen=parts.data.first(HEALTH_ROWS),
            given_outcome=recipe.notion.conditions_on_outcome,
            has_critic=parse_method(options["method"]).has_critic,
            test=parts.test_x,
            **units,
        ),
        validation_rows=len(parts.validation),
        test=parts.test,
    )
    return Fitted(curve, split, table.describe())


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
