"""Checks that nothing is lost if commands are killed at any step or moment, or the disk is full.

Every command runs on a small table. Afterwards one of these must hold: the old run is complete and
gives its old results; the new run is complete; or the new run can be resumed and then gives the
numbers of an undisturbed run. If a run says "finished", all its files exist and belong together.
Scores, audits and comparisons are the old or the new ones, complete. An audit that was set aside is
back as soon as an audit is asked for again. No temporary files remain once a command has written
again.

Writes benchmarks/results/crashes.json. The tests run a small part of it.
"""

from __future__ import annotations

import errno
import io
import json
import os
import platform
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from equipoise.cli.commands import app
from equipoise.cli.running import run as run_command
from equipoise.runs.folder import CHECKPOINT, FILES, SETTINGS
from equipoise.runs.record import read_record, sha256

LONG = True
RESULTS = Path(__file__).parent / "results" / "crashes.json"
PACKAGES = ("equipoise", "torch", "numpy", "pandas", "pyarrow", "scikit-learn")
KILLS = 120
SEED = 14
#: Longest time for a command, which takes less than a second.
SECONDS = 60

FIT = (
    *("fit", "people.csv", "--target", "hired", "--sensitive", "sex", "--id", "person"),
    *("--strengths", "0,0.9", "--seeds", "1", "--iterations", "4", "--evaluate-every", "2"),
    # So few rows do not suffice for a gap.
    *("--device", "cpu", "--metrics", "ks-gsp,sp", "--max-unfairness", "0.9", "--out", "run"),
    *("--allow-nearest", "--allow-useless"),
)
#: The old run, from which `select` takes another model than `fit` took.
OLD_FIT = (*FIT, "--seed", "6")
NEW_FIT = (*FIT, "--seed", "1")
PREDICT = ("predict", "run", "people.csv", "--out", "scores.csv", "--overwrite")
AUDIT = ("audit", "people.csv", "--score", "grade", "--sensitive", "sex", "--out", "audit")
COMPARE = ("compare", "run", "second", "--out", "compare.html")
COMMANDS = {
    "fit": NEW_FIT,
    "overwrite": (*NEW_FIT, "--overwrite"),
    "select": ("select", "run", "--min-utility", "0.1", "--allow-useless"),
    "predict": (*PREDICT, "--threshold", "0.3"),
    "audit": (*AUDIT, "--max-gap", "0.3", "--overwrite"),
    "compare": ("compare", "second", "run", "--out", "compare.html", "--overwrite"),
}
#: What commands write beside the run, and the command that writes it for the first time.
BESIDE = {
    "predict": ("scores.csv", PREDICT),
    "audit": ("audit", AUDIT),
    "compare": ("compare.html", COMPARE),
}


class Lost(Exception):
    """The law was broken."""


def demand(holds: bool, what: str) -> None:
    """Raise unless something holds."""
    if not holds:
        raise Lost(what)


def people(n: int = 120) -> pd.DataFrame:
    """Return a table of people whose grade helps them to be hired."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], n)
    grade = rng.normal(size=n) + 0.8 * (sex == "M")
    hired = np.where(grade + rng.normal(size=n) > 0.4, "yes", "no")
    names = [f"p{i:03d}" for i in range(n)]
    hours = rng.normal(38, 6, n).round(1)
    return pd.DataFrame(
        {"person": names, "sex": sex, "hours": hours, "grade": grade.round(3), "hired": hired}
    )


def say(*arguments: str) -> tuple[int, str]:
    """Run a command line in this process; return its exit code and its output."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = run_command(app, list(arguments))
    return code, said.getvalue()


def well(*arguments: str) -> None:
    """Run a command line that must succeed."""
    code, said = say(*arguments)
    demand(code == 0, f"{' '.join(arguments)} ended with {code}: {said}")


class Bench:
    """A folder with a table and an old run, and the results of undisturbed commands."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.table = home / "people.csv"
        people().to_csv(self.table, index=False)
        self.after: dict[str, dict[str, bytes]] = {}
        self.old = home / "old"
        self.old.mkdir()
        with self.inside(self.old):
            well(*OLD_FIT)
            shutil.copytree("run", "second")
            for _, command in BESIDE.values():
                well(*command)
        self.before = answers(self.old)
        for name, command in COMMANDS.items():
            with self.work(name) as place:
                well(*command)
                if name in BESIDE:
                    self.after[name] = found_in(place / BESIDE[name][0])
                    changed = self.after[name] != found_in(self.old / BESIDE[name][0])
                else:
                    well(*PREDICT)
                    self.after[name] = answers(place)
                    changed = self.before != self.after[name]
                demand(changed or name == "fit", f"{name} must change something")

    def sizes(self) -> list[int]:
        """Return sizes in bytes such that, at each, another file of a run has no room."""
        found = {path.stat().st_size for path in (self.old / "run").iterdir()}
        return [0, *(size - 1 for size in sorted(found))]

    @contextmanager
    def inside(self, place: Path) -> Iterator[None]:
        """Work in a folder that has the table."""
        here = Path.cwd()
        if not (place / "people.csv").exists():
            os.link(self.table, place / "people.csv")
        os.chdir(place)
        try:
            yield
        finally:
            os.chdir(here)

    @contextmanager
    def work(self, name: str) -> Iterator[Path]:
        """A copy of what the command ``name`` starts from, which is the working folder."""
        with tempfile.TemporaryDirectory(dir=self.home) as made:
            place = Path(made) / "work"
            place.mkdir()
            if name != "fit":
                shutil.copytree(self.old / "run", place / "run")
            if name == "compare":
                shutil.copytree(self.old / "second", place / "second")
            if name in BESIDE:
                written = self.old / BESIDE[name][0]
                (shutil.copytree if written.is_dir() else shutil.copy)(
                    written, place / written.name
                )
            with self.inside(place):
                yield place

    def check(self, name: str, place: Path) -> str:
        """Raise `Lost` unless the law holds; say what was found."""
        with self.inside(place):
            if name in BESIDE:
                return self._check_beside(name, place)
            found = self._check_opens(name, place)
            if name != "select" and found != "new":
                found = self._check_goes_on(name, found)
            if found in ("old", "new"):
                well("report", "run")  # who writes removes what is left
            well(*PREDICT)
            demand(answers(place) in (self.before, self.after[name]), "the end is another one")
            self._check_tidy(place)
            return found

    def _check_beside(self, name: str, place: Path) -> str:
        out, first = BESIDE[name]
        if name == "audit":
            code, said = say(*first)  # puts back what was set aside, and must not replace it
            demand(code == 1 and "which holds an audit" in said, f"no old or new audit: {said}")
        found = found_in(place / out)
        old, new = found_in(self.old / out), self.after[name]
        demand(found in (old, new), f"{out} is neither old nor new")
        well(*COMMANDS[name])
        demand(found_in(place / out) == new, f"{out} is not written again")
        beside = {path.name for path in place.iterdir()} - {"second"}
        demand(beside == {"people.csv", "run", out}, f"leftovers: {sorted(beside)}")
        return "old" if found == old else "new"

    def _check_opens(self, name: str, place: Path) -> str:
        """Whether the run is the old or the new one; "unfinished" where it can not be opened."""
        code, said = say(*PREDICT)
        if code:
            demand(name == "fit", f"the old run can not be used: {said}")
            demand("error: RUN must be" in said, f"not known for what it is: {said}")
            return "unfinished"
        self._check_whole(place)
        found = answers(place)
        demand(found in (self.before, self.after[name]), "answers are neither old nor new")
        return "old" if found == self.before else "new"

    def _check_whole(self, place: Path) -> None:
        record = read_record(place / "run" / SETTINGS)
        demand(record.state == "finished", f"the run is {record.state}")
        for file in FILES:
            demand(
                (place / "run" / file).exists() == (file != CHECKPOINT), f"{file} is not as it was"
            )
        for file, digest in record.files.items():
            demand(sha256(place / "run" / file) == digest, f"{file} is of another run")

    def _check_goes_on(self, name: str, found: str) -> str:
        """Resume, or begin again where there is nothing to resume."""
        code, said = say("fit", "--resume", "--out", "run")
        if code == 0:
            return f"{found}, resumed"
        if found == "old":
            demand("which is finished" in said, f"can not be resumed: {said}")
            return found
        demand("must be a folder that equipoise fit wrote" in said, f"can not be resumed: {said}")
        well(*COMMANDS[name])
        return "nothing"

    def _check_tidy(self, place: Path) -> None:
        self._check_whole(place)
        inside = {path.name for path in (place / "run").iterdir()}
        demand(inside == set(FILES) - {CHECKPOINT}, f"leftovers: {sorted(inside)}")
        beside = {path.name for path in place.iterdir()}
        demand(beside == {"people.csv", "run", "scores.csv"}, f"leftovers: {sorted(beside)}")


def answers(place: Path) -> dict[str, bytes]:
    """Return what identifies a run: its table, and the scores of its model."""
    names = ("run/table.csv", "scores.csv")
    return {name: (place / name).read_bytes() for name in names}


def found_in(path: Path) -> dict[str, bytes]:
    """Return the content of a file, or of all files of a folder, by name."""
    paths = path.iterdir() if path.is_dir() else [path]
    return {each.name: each.read_bytes() for each in paths}


#: What changes a folder; opening counts where it is for writing.
CHANGES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir")
#: What needs room on the disk.
NEEDS_ROOM = ("open", "os.mkdir", "os.fsync")


def watch(step: Callable[[str], None]) -> None:
    """Call ``step(what)`` before every change of the working folder, for the rest of the process.

    Python's audit hooks report every such call, also inside libraries, except fsync.
    """
    here, inside = str(Path.cwd()), False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal inside
        if inside or event not in CHANGES:
            return
        path = arguments[0]
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        if not isinstance(path, str | os.PathLike):
            return
        text = os.fspath(path)
        if isinstance(text, str) and os.path.isabs(text) and not text.startswith(here):
            return
        inside = True
        try:
            step(event)
        finally:
            inside = False

    sync = os.fsync

    def fsync(file: int) -> None:
        nonlocal inside
        inside = True
        try:
            step("os.fsync")
        finally:
            inside = False
        sync(file)

    os.fsync = fsync  # type: ignore[assignment]
    sys.addaudithook(hook)


def in_a_child(work: Callable[[], int], *, kill_after: float | None = None) -> int:
    """Run a function in a forked process; return its exit code, negative if a signal ended it."""
    child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            torch.set_num_threads(1)  # threads of the other process are not there
            os._exit(work())
        finally:  # whatever happens, this process must not go on as a second one
            os._exit(99)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def steps_of(bench: Bench, name: str, kept: Path) -> list[Path]:
    """Copy the folder before every step: this is what a kill at that step would leave."""
    with bench.work(name) as place:

        def work() -> int:
            count = 0

            def step(_: str) -> None:
                nonlocal count
                shutil.copytree(place, kept / f"{name}-{count:03d}", symlinks=True)
                count += 1

            watch(step)
            return say(*COMMANDS[name])[0]

        code = in_a_child(work)
        demand(code == 0, f"{name} ended with {code}")
    return sorted(kept.glob(f"{name}-*"))


def on_a_full_disk(bench: Bench, name: str, at: int) -> str:
    """Run a command with a disk that is full from the step ``at`` on."""
    with bench.work(name) as place:

        def work() -> int:
            count = 0

            def step(event: str) -> None:
                nonlocal count
                count += 1
                if count == at + 1 or (count > at and event in NEEDS_ROOM):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "here")

            watch(step)
            code, said = say(*COMMANDS[name])
            return 98 if "Traceback" in said or "a fault of the program" in said else code

        code = in_a_child(work)
        demand(code in (0, 1), f"ended with {code}")
        return bench.check(name, place)


def with_files_cut_at(bench: Bench, name: str, size: int) -> str:
    """Run a command with a disk that is full after this many bytes of a file."""
    with bench.work(name) as place:

        def work() -> int:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            code, said = say(*COMMANDS[name])
            return 98 if "Traceback" in said or "a fault of the program" in said else code

        code = in_a_child(work)
        demand(code in (0, 1), f"ended with {code}")
        return bench.check(name, place)


def killed(bench: Bench, name: str, after: float) -> str:
    """Kill a command after so many seconds."""
    with bench.work(name) as place:
        in_a_child(lambda: say(*COMMANDS[name])[0], kill_after=after)
        return bench.check(name, place)


def duration(bench: Bench, name: str) -> float:
    """Seconds that a command takes in a process of its own."""
    with bench.work(name):
        start = time.perf_counter()
        in_a_child(lambda: say(*COMMANDS[name])[0])
        return time.perf_counter() - start


def counted(found: Iterator[str]) -> dict[str, int]:
    """Count how often each result was found."""
    return {str(what): int(n) for what, n in pd.Series(list(found)).value_counts().items()}


def main() -> None:
    torch.set_num_threads(1)
    content: dict[str, Any] = {
        "law": "the old work whole, or the new one whole or resumable; nothing left behind",
        "command_lines": {name: " ".join(command) for name, command in COMMANDS.items()},
        "seed": SEED,
        "device": f"{platform.machine()} CPU, 1 thread",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
    }
    with tempfile.TemporaryDirectory() as made:
        bench = Bench(Path(made))
        for name in COMMANDS:
            steps = steps_of(bench, name, Path(made))
            states = [bench.check(name, place) for place in steps]
            content.setdefault("killed_at_every_step", {})[name] = counted(iter(states))
            print(f"killed before each of {len(steps)} steps of {name}: {counted(iter(states))}")
            full = (on_a_full_disk(bench, name, at) for at in range(len(steps)))
            content.setdefault("disk_full_from_every_step", {})[name] = counted(full)
            print(f"disk full: {content['disk_full_from_every_step'][name]}", flush=True)
            cut = (with_files_cut_at(bench, name, size) for size in bench.sizes())
            content.setdefault("disk_full_within_a_file", {})[name] = counted(cut)
            print(f"within a file: {content['disk_full_within_a_file'][name]}", flush=True)
        rng = random.Random(SEED)
        for name in COMMANDS:
            longest = duration(bench, name)
            found = counted(
                killed(bench, name, rng.uniform(0, longest)) for _ in range(KILLS // len(COMMANDS))
            )
            content.setdefault("killed_at_random_moments", {})[name] = found
            print(f"killed {KILLS // len(COMMANDS)} times: {name}: {found}", flush=True)
    content["lost"] = 0
    RESULTS.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
