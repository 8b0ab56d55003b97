"""Log a frontier to Weights & Biases while it trains, and stop when it no longer improves.

Needs wandb (pip install wandb) and an account, or WANDB_MODE=offline.
"""

import re
import sys
from collections.abc import Callable
from typing import Any

from equipoise import FairClassifier, FairFrontier, load_dataset
from equipoise.training import Progress

FRONTIER = FairFrontier(
    FairClassifier(iterations=2000), strengths=(0.0, 0.5, 0.9), seeds=2, random_state=0
)
#: Training ends after this many evaluations without a new snapshot on a front.
PATIENCE = 5


def log_to(run: Any) -> Callable[[Progress], bool]:
    """Return a callback that logs every evaluation, and ends training when nothing improves."""
    waited = 0

    def log(progress: Progress) -> bool:
        nonlocal waited
        assert progress.snapshots is not None
        improved = int(progress.snapshots["on_front"].sum())
        waited = 0 if improved else waited + 1
        numbers = {**progress.numbers(), "new on a front": improved}
        # Weights & Biases can sort and filter only by names of letters, digits and underscores.
        named = {re.sub(r"\W", "_", name): number for name, number in numbers.items()}
        run.log(named, step=progress.iteration)
        return waited >= PATIENCE

    return log


def main() -> None:
    try:
        import wandb
    except ModuleNotFoundError:
        sys.exit("this example needs wandb, which is not installed; pip install wandb")
    data = load_dataset("synthetic")
    with wandb.init(project="equipoise", config=FRONTIER.get_params()) as run:
        FRONTIER.fit(data.X, data.y, sensitive_features=data.A, callback=log_to(run))


if __name__ == "__main__":
    main()
