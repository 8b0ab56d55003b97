"""Trains frontiers that are interrupted, and tells what ``fit`` returned.

Run as ``python interrupted_run.py``, whatever the process that starts it does with Ctrl-C. Trains
once where Ctrl-C does nothing (``ignored``, ends by itself), then where only Ctrl-C ends it
(``raised``). Prints "evaluated" at every evaluation, and one line of JSON at each end.
"""

import json
import signal
import warnings

import torch

from equipoise.datasets import make_synthetic
from tests.composing import composed

#: What Ctrl-C does, and how many iterations there are.
RUNS = {"ignored": (signal.SIG_IGN, 200), "raised": (signal.default_int_handler, 10_000_000)}


def main(ctrl_c: str) -> None:
    handler, iterations = RUNS[ctrl_c]
    signal.signal(signal.SIGINT, handler)
    data = make_synthetic(300, random_state=5)
    frontier = composed(
        strengths=(0.5,),
        seeds=1,
        hidden=(8,),
        critic_hidden=(8,),
        iterations=iterations,
        evaluate_every=10,
        metrics=["KS-GSP"],
        random_state=1,
        device="cpu",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frontier.fit(
            data.X,
            data.y,
            sensitive_features=data.A,
            callback=lambda progress: print("evaluated", flush=True),
        )
    answer = {
        "warnings": [str(warning.message) for warning in caught],
        "iterations": frontier.table()["iteration"].tolist(),
        "history": frontier.history_.iterations.tolist(),
        "selected": frontier.select(min_utility=0, allow_useless=True).iteration,
        "handler": signal.getsignal(signal.SIGINT) is handler,
    }
    print(json.dumps(answer), flush=True)


# Guarded: collecting doctests imports every file of the tests.
if __name__ == "__main__":
    torch.set_num_threads(1)
    for ctrl_c in RUNS:
        main(ctrl_c)
