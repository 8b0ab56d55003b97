"""Progress of a run, for callbacks, as a bar in a terminal, or as lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


#: Columns of a table of snapshots that identify the row; the others are measures.
_IDENTIFYING = ["strength", "seed", "predictor", "averaged", "iteration", "on_front"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Progress:
    """Progress of a run right after an evaluation, as a ``callback`` receives it.

    Attributes
    ----------
    iteration, iterations : int
        Iterations done, and iterations in all.
    resumed_at : int
        Iteration at which this process began: 0, or that of the checkpoint.
    seconds : float
        Time since this process began.
    task, penalty : ndarray of float64, shape (K,)
        Losses of the K members, averaged since the previous evaluation.
    phase : str
        Empty while the predictor trains. In an earlier phase its name, such as "density ratio";
        iterations and losses are then those of its networks.
    snapshots : DataFrame or None
        Rows of ``FairFrontier.table()`` for this evaluation (``on_front`` as of now). None from an
        estimator, which evaluates nothing while it trains.
    """

    iteration: int
    iterations: int
    resumed_at: int
    seconds: float
    task: NDArray[np.float64]
    penalty: NDArray[np.float64]
    phase: str = ""
    snapshots: pd.DataFrame | None = None

    @property
    def iterations_per_second(self) -> float:
        """Speed of this process."""
        return (self.iteration - self.resumed_at) / max(self.seconds, 1e-9)

    @property
    def seconds_left(self) -> float:
        """Time to the last iteration at this speed; unknown (inf) before the first iteration."""
        left = self.iterations - self.iteration
        speed = self.iterations_per_second
        return left / speed if speed > 0 else float("inf") if left else 0.0

    def numbers(self) -> dict[str, float]:
        """Return losses and measures of every member in one flat mapping, for loggers.

        Examples of names are "task/member 0", "KS-GSP age/member 0" and, in a phase,
        "density ratio/network 0". Undefined values are left out.

        >>> import numpy as np
        >>> Progress(iteration=50, iterations=100, resumed_at=0, seconds=1.0,
        ...          task=np.array([0.5, 0.4]), penalty=np.array([0.1, np.nan])).numbers()
        {'task/member 0': 0.5, 'task/member 1': 0.4, 'penalty/member 0': 0.1}
        """
        if self.phase:
            return {f"{self.phase}/network {n}": float(loss) for n, loss in enumerate(self.task)}
        measures: dict[str, Iterable[tuple[Hashable, float]]] = {}
        members: Iterable[Hashable] = range(len(self.task))
        if self.snapshots is not None:
            table = self.snapshots.set_index("member").drop(columns=_IDENTIFYING, errors="ignore")
            measures = {str(name): column.items() for name, column in table.items()}
            # Rows of averages follow those of members. A second family has higher member numbers.
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


#: Called after every evaluation; it ends training by returning True.
Callback = Callable[[Progress], bool | None]


#: Least seconds between two updates of the bar, and between two lines of a log.
BAR_SECONDS = 0.1
LINE_SECONDS = 10.0


@contextmanager
def progress_shown(
    verbose: int, note: Callable[[Progress], str] | None = None, *, console: Console | None = None
) -> Iterator[Callback | None]:
    """Yield a callback that shows progress on standard error, or None if ``verbose=0``.

    ``note(progress)`` is shown at the end of the line.
    """
    if verbose not in (0, 1):
        raise InputError(f"verbose must be 0 (silent) or 1 (progress), got {verbose!r}")
    if not verbose:
        yield None
        return
    # Imported here, since a silent run does not need it.
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True) if console is None else console
    # A terminal that cannot redraw a line (TERM=dumb) would show the bar only at the end.
    redraws = (console.is_terminal and not console.is_dumb_terminal) or console.is_jupyter
    columns = BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)
    # Refreshed at evaluations only, so no other thread competes with training.
    bar = Bar(*columns, console=console, auto_refresh=False)
    last = -float("inf")

    def callback(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        pause = BAR_SECONDS if redraws else LINE_SECONDS
        if now - last < pause and progress.iteration != progress.iterations:
            return
        last = now
        text = line(progress, "" if note is None or progress.phase else note(progress))
        if redraws:
            done, total = progress.iteration, progress.iterations
            bar.update(task, completed=done, total=total, description=text, refresh=True)
        else:
            console.print(text, markup=False, highlight=False, soft_wrap=True)

    with bar if redraws else nullcontext():
        task = bar.add_task("training starts", total=1)
        yield callback


def line(progress: Progress, note: str = "") -> str:
    """Return the progress of a run as one line of text.

    >>> import numpy as np
    >>> losses = np.zeros(1)
    >>> line(Progress(iteration=300, iterations=1500, resumed_at=100, seconds=5.0, task=losses,
    ...               penalty=losses), "best AUC 0.871")
    'iteration 300 of 1500, 40.0 a second, 30 s left; best AUC 0.871'
    """
    return (
        (f"{progress.phase}: " if progress.phase else "")
        + f"iteration {progress.iteration} of {progress.iterations}, "
        f"{progress.iterations_per_second:.1f} a second, {_duration(progress.seconds_left)} left"
        + (f"; {note}" if note else "")
    )


def _duration(seconds: float) -> str:
    """Return a duration as text, in its two largest units."""
    if seconds == float("inf"):
        return "an unknown time"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, seconds = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
