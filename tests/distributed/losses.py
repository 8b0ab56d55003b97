"""Workers and nodes of a cluster that are really killed."""

import os
import signal
import threading
import time
from contextlib import contextmanager

import psutil


def at_work(name, among=None):
    """Processes of this test that do what has this name now, of one node or of all."""
    found = []
    for process in (among or psutil.Process()).children(recursive=True):
        try:
            if process.cmdline()[:1] == [name]:
                found.append(process)
        except psutil.Error:
            continue  # it has ended
    return found


@contextmanager
def meanwhile(act, times=1):
    """Call `act` until it has succeeded so many times, while the block runs."""
    done, stop = [], threading.Event()

    def repeat():
        while len(done) < times and not stop.is_set():
            if act():
                done.append(time.monotonic())
            time.sleep(0.01)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join(timeout=20)


def kill(name="ray::_call", among=None):
    """Kill a worker that does what has this name, of one node or of all."""
    for process in at_work(name, among):
        os.kill(process.pid, signal.SIGKILL)
        return True
    return False
