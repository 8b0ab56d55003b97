"""Progress for a person to read: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from equipoise.errors import InputError
from equipoise.training.progress import Callback, Progress

if TYPE_CHECKING:
    from rich.console import Console

#: Least seconds between two updates of a bar, and between two lines of a log.
BAR_SECONDS = 0.1
LINE_SECONDS = 10.0


@contextmanager
def progress_shown(
    verbose: int,
    note: Callable[[Progress], str] | None = None,
    *,
    console: Console | None = None,
) -> Iterator[Callback | None]:
    """Yield a callback that shows progress on standard error; None with ``verbose=0``.

    ``note(progress)`` is shown at the end of the line.
    """
    if verbose not in (0, 1):
        raise InputError(f"verbose must be 0 (silent) or 1 (progress), got {verbose!r}")
    if not verbose:
        yield None
        return
    # Imported here: a silent run has no use for it.
    from rich.console import Console

    console = Console(stderr=True) if console is None else console
    # A terminal that cannot go back in a line (TERM=dumb) would show the bar at the end only.
    moves = console.is_terminal and not console.is_dumb_terminal
    show = _bar if moves or console.is_jupyter else _lines
    with show(console) as put:
        last = -LINE_SECONDS

        def callback(progress: Progress) -> None:
            nonlocal last
            now = time.monotonic()
            pause = BAR_SECONDS if show is _bar else LINE_SECONDS
            if now - last >= pause or progress.iteration == progress.iterations:
                put(progress, "" if note is None else note(progress))
                last = now

        yield callback


def line(progress: Progress, note: str = "") -> str:
    """Say in one line how far a run is.

    >>> import numpy as np
    >>> losses = np.zeros(1)
    >>> line(Progress(iteration=300, iterations=1500, resumed_at=100, seconds=5.0, task=losses,
    ...               penalty=losses), "best AUC 0.871")
    'iteration 300 of 1500, 40.0 a second, 30 s left; best AUC 0.871'
    """
    return (
        f"iteration {progress.iteration} of {progress.iterations}, "
        f"{progress.iterations_per_second:.1f} a second, {_duration(progress.seconds_left)} left"
        + (f"; {note}" if note else "")
    )


def _duration(seconds: float) -> str:
    """Say how long, in the two largest units."""
    if seconds == float("inf"):
        return "an unknown time"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, seconds = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


_Put = Callable[[Progress, str], None]


@contextmanager
def _bar(console: Console) -> Iterator[_Put]:
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)
    # Refreshed by hand, at evaluations: no thread of its own competes with training.
    with Bar(*columns, console=console, auto_refresh=False) as bar:
        task = bar.add_task("training starts", total=1)

        def put(progress: Progress, note: str) -> None:
            bar.update(
                task,
                completed=progress.iteration,
                total=progress.iterations,
                description=line(progress, note),
                refresh=True,
            )

        yield put


@contextmanager
def _lines(console: Console) -> Iterator[_Put]:
    def put(progress: Progress, note: str) -> None:
        console.print(line(progress, note), markup=False, highlight=False, soft_wrap=True)

    yield put
