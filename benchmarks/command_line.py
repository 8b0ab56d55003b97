"""The command line on a million rows: time until ``fit`` trains, time and memory of ``predict``.

Every command runs in its own process, as a user starts it. ``fit`` has default settings and is
stopped after its first snapshots are judged, when it has made its largest arrays. The times of
``--help`` and ``demo`` are measured, too.

Writes benchmarks/results/command_line.json, which docs/command-line.md quotes.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, sleep
from typing import IO

ROWS = 1_000_000
NUMBERS, CATEGORIES = 8, 4
RESULTS = Path(__file__).parent / "results" / "command_line.json"
PACKAGES = ("numpy", "pandas", "pyarrow", "torch")
COMMAND = (sys.executable, "-c", "from equipoise.cli import main; main()")
FIRST_LINE = re.compile(r"iteration (\d+) of \d+, ([\d.]+) a second")
#: Minutes, for the demo and for judging all members on 200 000 rows.
LONG = True


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        size = write_people(Path("people.csv"))
        found = {}
        for name, measured in MEASUREMENTS.items():
            found[name] = measured()
            print(f"{name}: {found[name]}", flush=True)
    content = {
        "what": f"people.csv of {ROWS:,} rows, {NUMBERS} numbers, {CATEGORIES} categories, an "
        "outcome of two classes, age and sex",
        "megabytes": round(size / 1e6),
        "seconds_are": "of one run, from the start of the process; processor_seconds are what it "
        "used of one core",
        "threads": 1,
        "device": f"{platform.machine()} CPU, {os.cpu_count()} cores",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        **found,
    }
    RESULTS.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_people(path: Path) -> int:
    """Write the file piece by piece; return its size in bytes."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(0)
    piece = 100_000
    for start in range(0, ROWS, piece):
        sex = random.choice(["F", "M"], piece)
        age = random.integers(18, 80, piece)
        numbers = random.normal(size=(piece, NUMBERS)).round(4)
        numbers[:, 0] += 0.5 * (sex == "M") - 0.01 * (age - 45)
        frame = pd.DataFrame(numbers, columns=[f"number_{n}" for n in range(NUMBERS)])
        for number in range(CATEGORIES):
            frame[f"category_{number}"] = random.integers(0, 5 * (number + 1), piece)
            frame[f"category_{number}"] = "level " + frame[f"category_{number}"].astype(str)
        frame["age"], frame["sex"] = age, sex
        frame["hired"] = numbers[:, :3].sum(axis=1) + random.normal(size=piece) > 0
        frame.to_csv(path, mode="a", header=start == 0, index=False)
    return path.stat().st_size


def time_to_training() -> dict[str, float]:
    """Start a fit, and stop it after its first snapshots."""
    begun = perf_counter()
    options = ("--target", "hired", "--sensitive", "age,sex", "--device", "cpu")
    watched: list[tuple[float, float]] = [(0.0, 0.0)]
    said = Path("said.txt")
    with said.open("w") as file:
        process = started("fit", "people.csv", *options, stderr=file)
    while (found := FIRST_LINE.search(said.read_text())) is None:
        assert process.poll() is None, f"fit ended before it trained: {said.read_text()}"
        watched.append((perf_counter() - begun, processor_seconds(process.pid)))
        sleep(0.05)
    ended_at = perf_counter() - begun
    process.send_signal(signal.SIGKILL)
    _, _, usage = os.wait4(process.pid, 0)
    # The pace counts from the first step, and includes judging the first snapshots.
    training_at = ended_at - int(found[1]) / float(found[2])
    used = [processor for wall, processor in watched if wall <= training_at][-1]
    return {
        "seconds_to_training": round(training_at, 1),
        "processor_seconds_to_training": round(used, 1),
        "seconds": round(ended_at, 1),
        "processor_seconds": round(watched[-1][1], 1),
        "peak_gib": round(usage.ru_maxrss / 2**20, 2),
    }


def processor_seconds(process: int) -> float:
    """Return the processor time of a process so far, from Linux's /proc (see proc(5))."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def predicting() -> dict[str, float]:
    """Score the million rows with a model of a small run."""
    small = Path("small.csv")
    with Path("people.csv").open("rb") as file:
        small.write_bytes(b"".join(file.readline() for _ in range(2_001)))
    shutil.rmtree("run", ignore_errors=True)
    options = ("--target", "hired", "--sensitive", "age,sex", "--device", "cpu", "--max-gap", "1")
    ended("fit", "small.csv", *options, "--strengths", "0.5", "--seeds", "1", "--iterations", "100")
    return ended("predict", "run", "people.csv", "--out", "scores.parquet")


def ended(*arguments: str) -> dict[str, float]:
    """Run one command to its end."""
    begun = perf_counter()
    with Path("said.txt").open("w") as said:
        process = started(*arguments, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, Path("said.txt").read_text()
    return {
        "seconds": round(perf_counter() - begun, 2),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_gib": round(usage.ru_maxrss / 2**20, 2),
    }


MEASUREMENTS = {
    "fit": time_to_training,
    "predict": predicting,
    "help": lambda: ended("--help"),
    "demo": lambda: ended("demo", "--out", "demo"),
}


def started(*arguments: str, stderr: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
