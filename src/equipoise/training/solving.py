"""Members whose models were found without training, seen as a run of one iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from equipoise.errors import InputError
from equipoise.training.data import TrainingData
from equipoise.training.engine import Trained, judge_health
from equipoise.training.loop import Standing
from equipoise.training.members import Member
from equipoise.training.predictor import Predictor
from equipoise.training.supervision import Supervision, reporter


def solved(
    data: TrainingData,
    members: Sequence[Member],
    *,
    predictor: Predictor,
    given_outcome: bool,
    on_check: Callable[[int, Predictor], bool] | None = None,
    supervision: Supervision | None = None,
) -> Trained:
    """Judge solved models as trained ones are: one check, at iteration 1, then their health."""
    supervision = Supervision() if supervision is None else supervision
    if supervision.store is not None:
        raise InputError(
            "checkpoint must be left out for a method that is solved at once, got "
            f"'{supervision.store}': there is nothing to resume"
        )
    predictor.eval()
    output, _ = predictor.evaluate(data.x)
    count = len(members)
    weight = None if data.weight is None else data.weight.expand(count, -1)
    with torch.no_grad():
        task = predictor.task.loss(output, data.target.expand(count, -1), weight)
    standing = Standing(torch.zeros(count, dtype=torch.long, device=data.x.device))
    report = reporter(supervision.callbacks, standing, 1)
    standing.checked, standing.ended = 1, True
    standing.records.append((1, torch.stack([task, torch.zeros_like(task)])))
    # As in a training run, callbacks are told of what the check has seen.
    if on_check is not None:
        on_check(1, predictor)
    report(1)
    history = standing.history()
    health = judge_health(
        predictor, data, members, history, given_outcome=given_outcome, has_critic=False
    )
    return Trained(predictor, history, health)
