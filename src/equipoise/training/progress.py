"""What is told about a run while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


#: Columns of a table of snapshots that say whose row it is, not how it did.
_WHO = ["strength", "seed", "predictor", "averaged", "iteration", "on_front"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Progress:
    """Where a run stands right after an evaluation; what a ``callback`` receives.

    Attributes
    ----------
    iteration, iterations : int
        Iterations done, and those there will be.
    resumed_at : int
        Iteration this process began at: 0, or that of the checkpoint.
    seconds : float
        Time since then.
    task, penalty : ndarray of float64, shape (K,)
        Losses of the K members, averaged since the evaluation before.
    snapshots : DataFrame or None
        Rows of ``FairFrontier.table()`` of this evaluation (``on_front`` as of now); None from an
        estimator, which evaluates nothing as it trains.
    """

    iteration: int
    iterations: int
    resumed_at: int
    seconds: float
    task: NDArray[np.float64]
    penalty: NDArray[np.float64]
    snapshots: pd.DataFrame | None = None

    @property
    def iterations_per_second(self) -> float:
        """Pace of this process."""
        return (self.iteration - self.resumed_at) / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        """Time to the last iteration at this pace; unknown (inf) before the first."""
        left = self.iterations - self.iteration
        pace = self.iterations_per_second
        return left / pace if pace > 0 else float("inf") if left else 0.0

    def numbers(self) -> dict[str, float]:
        """Losses and measures of every member in one flat mapping, as loggers take them.

        Names are such as "task/member 0" and "KS-GSP age/member 0". What is undefined is left out.

        >>> import numpy as np
        >>> Progress(iteration=50, iterations=100, resumed_at=0, seconds=1.0,
        ...          task=np.array([0.5, 0.4]), penalty=np.array([0.1, np.nan])).numbers()
        {'task/member 0': 0.5, 'task/member 1': 0.4, 'penalty/member 0': 0.1}
        """
        measures: dict[str, Iterable[tuple[Hashable, float]]] = {}
        members: Iterable[Hashable] = range(len(self.task))
        if self.snapshots is not None:
            table = self.snapshots.set_index("member").drop(columns=_WHO, errors="ignore")
            measures = {str(name): column.items() for name, column in table.items()}
            # Averages come after the members; members of a second family are counted on.
            members = table.index[: len(self.task)].tolist()
        columns: dict[str, Iterable[tuple[Hashable, float]]] = {
            "task": zip(members, self.task, strict=True),
            "penalty": zip(members, self.penalty, strict=True),
            **measures,
        }
        return {
            f"{name}/member {member}": float(value)
            for name, values in columns.items()
            for member, value in values
            if not np.isnan(value)
        }


#: Called after every evaluation; returning True ends training.
Callback = Callable[[Progress], bool | None]
