"""Log a frontier to MLflow while it trains: losses, utility and unfairness of every member.

Needs MLflow (pip install mlflow). By default MLflow writes to the folder mlruns/ or the file
mlflow.db.
"""

import sys
from collections.abc import Callable
from typing import Any

from equipoise import FairClassifier, FairFrontier, load_dataset
from equipoise.training import Progress

FRONTIER = FairFrontier(
    FairClassifier(iterations=600), strengths=(0.0, 0.5, 0.9), seeds=2, random_state=0
)


def log_to(mlflow: Any) -> Callable[[Progress], None]:
    """Return a callback that logs every evaluation to the active run."""

    def log(progress: Progress) -> None:
        mlflow.log_metrics(progress.numbers(), step=progress.iteration)

    return log


def main() -> None:
    try:
        import mlflow
    except ModuleNotFoundError:
        sys.exit("this example needs MLflow, which is not installed; pip install mlflow")
    data = load_dataset("synthetic")
    with mlflow.start_run():
        mlflow.log_params(FRONTIER.get_params())
        FRONTIER.fit(data.X, data.y, sensitive_features=data.A, callback=log_to(mlflow))


if __name__ == "__main__":
    main()
