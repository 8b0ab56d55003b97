"""Trains a frontier in processes that are killed, again and again, until one comes to the end.

Run as ``python killed_runs.py FOLDER``; writes into FOLDER what an uninterrupted run ended with
(whole.npz), what the one after the killed ones ended with (resumed.npz), and for every kill where
the checkpoint stood and how many unfinished files lay beside it (kills.json). Processes are
forked, so that only one of them has to import torch.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

from equipoise.datasets import make_synthetic
from equipoise.storage import CheckpointFile
from tests.composing import composed

#: Kills while a checkpoint is on its way to the disk, then kills at moments drawn at random.
KILLS_WHILE_WRITING, RANDOM_KILLS = 2, 3
#: Checkpoints that a process writes before it is killed over the next one.
WRITTEN = 2


def dropout_network(inputs: int, outputs: int) -> torch.nn.Module:
    """Draws from torch's own generator at every step."""
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 8),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(8, outputs),
    )


def train(**run: object) -> dict[str, np.ndarray]:
    """Return everything a frontier ended with."""
    data = make_synthetic(300, random_state=5)
    frontier = composed(
        strengths=(0.0, 0.9),
        seeds=2,
        network=dropout_network,
        critic_hidden=(8,),
        batch_size=50,
        iterations=24,
        evaluate_every=1,
        metrics=["KS-GSP"],
        random_state=1,
        device="cpu",
    )
    frontier.fit(data.X, data.y, sensitive_features=data.A, **run)
    ended = {f"table {name}": column.to_numpy() for name, column in frontier.table().items()}
    ended |= {f"history {name}": values for name, values in vars(frontier.history_).items()}
    for number, weights in frontier.fitted_curve().snapshots.weights.items():
        ended |= {f"{number} {name}": tensor.numpy() for name, tensor in weights.items()}
    return ended


def in_a_process(target: Path, **run: object) -> int:
    """Fork a process that trains and writes to ``target``; return its number."""
    process = os.fork()
    if process:
        return process
    signal.alarm(100)  # ends it, should it hang
    try:
        ended = train(**run)
        np.savez(target, **ended)
        os._exit(0)
    except BaseException as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
        os._exit(1)


def ended_by(process: int) -> int:
    """Wait for a process; return its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def kill_while_writing(after: int) -> None:
    """Let this process kill itself once a checkpoint is written but does not have its name yet."""
    calls = 0

    def killing(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = killing


def main(folder: Path) -> None:
    begun = time.monotonic()
    assert ended_by(in_a_process(folder / "whole.npz")) == 0
    length = time.monotonic() - begun
    resumed = folder / "resumed.npz"
    run = {"checkpoint": folder / "run.checkpoint", "checkpoint_every": 0, "resume": True}
    kept = os.fsync
    kills = []
    for kind in ["writing"] * KILLS_WHILE_WRITING + ["random"] * RANDOM_KILLS:
        if kind == "writing":
            kill_while_writing(after=WRITTEN)
        process = in_a_process(resumed, **run)
        os.fsync = kept
        if kind == "random":
            time.sleep(random.uniform(0.0, 0.2) * length)
            os.kill(process, signal.SIGKILL)
        # A late kill may find that the process has come to the end.
        assert ended_by(process) in (-signal.SIGKILL, 0)
        unfinished = len(list(folder.glob(".run.checkpoint.*.part")))
        state = CheckpointFile(run["checkpoint"]).read()
        stood_at = 0 if state is None else state["parts"]["run"]["state"]["checked"]
        kills.append({"kind": kind, "stood_at": stood_at, "unfinished": unfinished})
    assert ended_by(in_a_process(resumed, **run)) == 0
    (folder / "kills.json").write_text(json.dumps(kills), encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
