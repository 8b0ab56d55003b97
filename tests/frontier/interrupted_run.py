"""Trains a frontier that only Ctrl-C can end, then tells what ``fit`` returned.

Prints "evaluated" at every evaluation, then one line of JSON.
"""

import json
import signal
import warnings

import torch

from equipoise import FairFrontier
from equipoise.datasets import make_synthetic


def main() -> None:
    data = make_synthetic(300, random_state=5)
    frontier = FairFrontier(
        strengths=(0.5,),
        seeds=1,
        hidden=(8,),
        critic_hidden=(8,),
        iterations=10_000_000,
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
        "selected": frontier.select(min_utility=0).iteration,
        "handler": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    }
    print(json.dumps(answer))


# Guarded: collecting doctests imports every file of the tests.
if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
