"""Ctrl-C as a request to end, answered where the weights are whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def first_interrupt_asks() -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C set what the yielded function returns; a second one raises.

    Only where Ctrl-C would raise KeyboardInterrupt: in the main thread, and not where somebody
    ignores or handles the signal in a way of their own.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            signal.default_int_handler(number, frame)
        asked = True

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
