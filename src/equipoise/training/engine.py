"""Training members together: data, predictor and method in, trained stack out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from equipoise.training.batches import BatchStream
from equipoise.training.data import TrainingData
from equipoise.training.health import Health, diagnose
from equipoise.training.loop import History, run
from equipoise.training.members import Member, stream_seed
from equipoise.training.predictor import Predictor
from equipoise.training.settings import TrainingSettings
from equipoise.training.step import Method, PredictorStep

#: Rows looked at to judge health; more would not change a verdict.
HEALTH_ROWS = 20_000


@dataclass(frozen=True)
class Trained:
    """The trained stack, what the checks saw and how each member ended."""

    predictor: Predictor
    history: History
    health: tuple[Health, ...]


def train(
    data: TrainingData,
    members: Sequence[Member],
    *,
    predictor: Predictor,
    method: Method | None,
    settings: TrainingSettings,
    given_outcome: bool = False,
    on_check: Callable[[int], bool] | None = None,
) -> Trained:
    """Train all members at once; ``given_outcome`` says that the notion conditions on Y."""
    predictor.train()
    step = PredictorStep(predictor, data, members, method=method, settings=settings)
    batches = BatchStream(members, len(data), batch_size=settings.batch_size, device=data.x.device)
    with _private_global_generator(stream_seed(members[0].seed, "user module")):
        history = run(
            step,
            batches,
            iterations=settings.iterations,
            check_every=settings.check_every,
            on_check=on_check,
        )
    predictor.eval()
    health = judge_health(predictor, data, members, history, given_outcome=given_outcome)
    return Trained(predictor, history, health)


def judge_health(
    predictor: Predictor,
    data: TrainingData,
    members: Sequence[Member],
    history: History,
    *,
    given_outcome: bool,
) -> tuple[Health, ...]:
    """Judge every member of ``predictor`` by its training rows and the history up to here."""
    seen = data.first(HEALTH_ROWS)
    _, penalised = predictor.evaluate(seen.x)
    return tuple(
        diagnose(penalised[k], seen, member, history, k, given_outcome=given_outcome)
        for k, member in enumerate(members)
    )


@contextmanager
def _private_global_generator(seed: int) -> Iterator[None]:
    """Seed torch's global generators for a user's own layers (dropout) and put them back after."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
