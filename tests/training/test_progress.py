"""A bar in a terminal, lines in a log, silence otherwise."""

import io
import math

import numpy as np
import pytest
from rich.console import Console

from equipoise.errors import InputError
from equipoise.training import Progress
from equipoise.training import progress as progress_module
from equipoise.training.progress import line, progress_shown


def at(iteration, *, seconds=2.0, resumed_at=0, iterations=100):
    return Progress(
        iteration=iteration,
        iterations=iterations,
        resumed_at=resumed_at,
        seconds=seconds,
        task=np.zeros(1),
        penalty=np.zeros(1),
    )


def shown(evaluations, *, terminal, note=None, kind="xterm"):
    output = io.StringIO()
    console = Console(
        file=output,
        force_terminal=terminal,
        width=100,
        color_system="standard",
        _environ={"TERM": kind},
    )
    with progress_shown(1, note, console=console) as callback:
        assert callback is not None
        for progress in evaluations:
            assert callback(progress) is None
    return output.getvalue()


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (at(50), "iteration 50 of 100, 25.0 a second, 2 s left"),
        (at(50, resumed_at=40), "iteration 50 of 100, 5.0 a second, 10 s left"),
        (at(1, seconds=1.5), "iteration 1 of 100, 0.7 a second, 2 min 28 s left"),
        (at(1, seconds=120.0), "iteration 1 of 100, 0.0 a second, 3 h 18 min left"),
        (at(1, seconds=60.0, iterations=2), "iteration 1 of 2, 0.0 a second, 1 min 00 s left"),
        (at(40, resumed_at=40), "iteration 40 of 100, 0.0 a second, an unknown time left"),
        (at(100, resumed_at=100), "iteration 100 of 100, 0.0 a second, 0 s left"),
    ],
)
def test_a_line_says_how_far_and_how_fast(progress, text):
    assert line(progress) == text
    assert line(progress, "best so far") == f"{text}; best so far"


def test_a_log_gets_plain_lines_now_and_then(monkeypatch):
    evaluations = [at(10), at(20), at(100)]
    monkeypatch.setattr(progress_module, "LINE_SECONDS", 0.0)
    assert shown(evaluations, terminal=False) == "".join(f"{line(p)}\n" for p in evaluations)
    monkeypatch.setattr(progress_module, "LINE_SECONDS", math.inf)
    # The first and the last are always there.
    text = shown(evaluations, terminal=False, note=lambda p: f"[bold]{p.iteration}[/bold]")
    assert text == (
        f"{line(evaluations[0])}; [bold]10[/bold]\n{line(evaluations[2])}; [bold]100[/bold]\n"
    )


def test_a_terminal_gets_a_bar():
    text = shown([at(25), at(100)], terminal=True)
    assert "\x1b[" in text
    assert "━" in text
    assert line(at(25)) in text and line(at(100)) in text


def test_a_terminal_that_can_not_go_back_in_a_line_gets_lines(monkeypatch):
    evaluations = [at(25), at(100)]
    monkeypatch.setattr(progress_module, "LINE_SECONDS", 0.0)
    found = shown(evaluations, terminal=True, kind="dumb")
    assert found == "".join(f"{line(progress)}\n" for progress in evaluations)


def test_silence_is_the_default():
    with progress_shown(0) as callback:
        assert callback is None


@pytest.mark.parametrize("verbose", [2, -1, "yes", None])
def test_other_values_are_refused(verbose):
    message = rf"verbose must be 0 \(silent\) or 1 \(progress\), got {verbose!r}"
    with pytest.raises(InputError, match=message), progress_shown(verbose):
        pass
