"""How long, in what portions and at what pace to train."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from equipoise.errors import check_choice, check_whole
from equipoise.training.optimizers import OptimizerSettings


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of one training run.

    ``schedule="decay"`` lowers the predictor's learning rate linearly to zero over the second half
    of the run, so that the last iterate of the game is settled; ``"constant"`` is the paper's.
    """

    iterations: int = 1_500
    batch_size: int = 300
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    schedule: Literal["decay", "constant"] = "decay"
    check_every: int = 50

    def __post_init__(self) -> None:
        # A run of 2.5 iterations would never come to its last; a single row has no other.
        for name, least in (("iterations", 1), ("batch_size", 2), ("check_every", 1)):
            check_whole(name, getattr(self, name), least=least)
        check_choice("schedule", self.schedule, ("decay", "constant"))

    def learning_rate_share(self, iteration: int) -> float:
        """Which share of the learning rate applies after ``iteration`` steps."""
        if self.schedule == "constant":
            return 1.0
        return min(1.0, 2 * (1 - iteration / self.iterations))
