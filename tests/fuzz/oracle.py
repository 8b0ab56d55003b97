"""What may come of a call: an answer, or an error that names what to correct; nothing else."""

from __future__ import annotations

import inspect
import random
import re
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch
from sklearn.exceptions import DataConversionWarning

from equipoise.errors import ConvergenceWarning, DataNotFound, InputError

from .draw import Column, Draw, Table

Kind = Literal["answered", "refused", "foreign", "nonsense", "slow"]
FAULTS = ("foreign", "nonsense", "slow")
#: Longest that one case may take, in seconds of the processor; of the clock six times that, so that
#: a busy machine makes no case slow.
LIMIT = 20.0
_ERRSTATE: Any = np.geterr()
#: What is said on purpose: about new rows by scikit-learn and our encoders, about many classes.
_MEANT = re.compile(
    "The number of unique classes is greater than|X has feature names, but"
    "|X does not have valid feature names, but|X has categories not seen|X has missing values in"
    "|X column .* had no value"
)
_WARNINGS = (ConvergenceWarning, DataConversionWarning)


class Refused(Exception):
    """The call was refused as it should be, and the case ends."""


class Nonsense(Exception):
    """An answer breaks a law, or what should be refused was not."""


class Foreign(Exception):
    """An error or a warning that we did not mean to raise."""


class Slow(BaseException):
    """The case ran past its limit. Not an Exception, so that nobody catches it on the way."""


@dataclass(frozen=True)
class Result:
    """What came of one case; seconds are those of the processor."""

    seed: int
    entry: str
    kind: Kind
    detail: str
    seconds: float
    notes: Mapping[str, Any]

    @property
    def signature(self) -> str:
        """What cases of the same cause have in common."""
        words = re.sub(
            r"0x[0-9a-f]+|[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", self.detail.splitlines()[0]
        )
        place = [line.strip() for line in self.detail.splitlines() if "equipoise/" in line]
        where = re.sub(
            r'.*equipoise/([^"]*)", line (\d+), in (\w+)', r"\1:\2 \3", "".join(place[-1:])
        )
        return f"{self.kind} | {self.entry} | {words[:110]} | {where}"


class Call:
    """Calls functions of the library under watch."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.settled = False

    def __call__(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call and return the answer; raise Refused where the error is as it should be.

        Columns and tables of the case are handed over in their form. ``names_`` are words of which
        the message of an error must have one, beside the names of the arguments. After `settle`
        nothing may be refused any more.
        """
        names = options.pop("names_", ())
        global_draws = options.pop("draws_globally_", False)
        given = [_plain(value) for value in args]
        named = {name: _plain(value) for name, value in options.items()}
        before = fingerprint([given, named])
        state = _global_state(numpy=not global_draws)
        with warnings.catch_warnings(record=True) as heard, np.errstate(**_ERRSTATE):
            warnings.simplefilter("always")
            try:
                answer = function(*given, **named)
            except (InputError, DataNotFound) as error:
                self._check_message(str(error), [*_arguments(function), *names])
                self._refuse(error)
            finally:
                changed = _global_state(numpy=not global_draws) != state
        for each in heard:
            if not issubclass(each.category, _WARNINGS) and not _MEANT.match(str(each.message)):
                raise Foreign(f"{each.category.__name__}: {each.message} ({_place(each)})")
        if changed:
            raise Nonsense("a global random state, default or thread count has changed")
        if fingerprint([given, named]) != before:
            raise Nonsense("an argument was changed")
        return answer

    def settle(self) -> None:
        """From here on the same values are given again: refusing them is nonsense."""
        self.settled = True

    def _refuse(self, error: Exception) -> None:
        if self.settled:
            raise Nonsense(f"refused the same values given again: {error}") from error
        raise Refused(f"{type(error).__name__}: {error}") from None

    @staticmethod
    def _check_message(message: str, names: Iterable[str]) -> None:
        if not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names):
            raise Foreign(f"InputError names no argument: {message}")


def _place(warning: warnings.WarningMessage) -> str:
    return "/".join(warning.filename.split("/")[-3:]) + f":{warning.lineno}"


def _arguments(function: Callable[..., Any]) -> list[str]:
    owner = getattr(function, "__self__", None)
    names = list(inspect.signature(function).parameters)
    if owner is not None and not isinstance(owner, type):
        names += inspect.signature(type(owner).__init__).parameters
    return names


def _global_state(*, numpy: bool) -> tuple[object, ...]:
    state: tuple[object, ...] = (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.get_num_threads(),
        hash(torch.random.get_rng_state().numpy().tobytes()),
        hash(random.getstate()),
    )
    if numpy:
        drawn = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
        state = (*state, drawn["pos"], hash(drawn["key"].tobytes()))
    return state


def _plain(value: Any) -> Any:
    return value.data if isinstance(value, Column | Table) else value


def fingerprint(value: Any) -> Any:
    """What tells whether a value was changed."""
    if isinstance(value, dict):
        return [(repr(name), fingerprint(item)) for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [fingerprint(item) for item in value] if len(value) < 10 else repr(value)
    if isinstance(value, np.ndarray):
        content = repr(value.tolist()) if value.dtype.kind == "O" else value.tobytes()
        return (value.dtype.str, value.shape, content, value.flags.writeable)
    if isinstance(value, torch.Tensor):
        return (value.detach().double().numpy().tobytes(), value.shape, value.requires_grad)
    if isinstance(value, pd.DataFrame):
        columns = [fingerprint(value.iloc[:, i]) for i in range(value.shape[1])]
        return [repr(list(value.columns)), columns]
    if isinstance(value, pd.Series):
        return [str(value.dtype), repr(value.tolist()), repr(value.index.tolist())]
    if isinstance(value, pl.DataFrame | pl.Series):
        return repr(
            value.to_dict(as_series=False) if isinstance(value, pl.DataFrame) else value.to_list()
        )
    if isinstance(value, pa.Table | pa.Array):
        return repr(value.to_pylist())
    return repr(value) if isinstance(value, int | float | str | bool | None) else id(value)


# ------------------------------------------------------------------------------------------ laws


def agree(found: Any, expected: Any, what: str, *, tolerance: float = 1e-9) -> None:
    """Numbers are the same up to rounding: relative to the largest, and for sizes near 1."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        raise Nonsense(f"{what} changes the shape from {expected.shape} to {found.shape}")
    if not found.size:
        return
    same = np.isnan(found) & np.isnan(expected) | (found == expected)
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    with np.errstate(all="ignore"):
        near = np.abs(found - expected) <= tolerance * max(scale, 1e-300)
    if not (same | near).all():
        where = np.unravel_index(np.argmin(same | near), found.shape)
        raise Nonsense(f"{what} changes the answer from {expected[where]!r} to {found[where]!r}")


def must(condition: Any, otherwise: str) -> None:
    if not condition:
        raise Nonsense(otherwise)


# --------------------------------------------------------------------------------------- running


def judge(
    seed: int, entry: str, run: Callable[[Draw, Call], None], draw: Draw, limit: float | None
) -> Result:
    """Run one case and say what came of it."""
    kind: Kind = "answered"
    detail = "answered"
    start = time.process_time()
    try:
        with _limited(limit), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # what the case itself does; calls are listened to
            run(draw, Call(draw))
    except Refused as refused:
        kind, detail = "refused", str(refused)
    except Nonsense as nonsense:
        kind, detail = "nonsense", f"{nonsense}\n{traceback.format_exc()}"
    except Slow:
        kind, detail = "slow", f"ran past {limit:g} s\n{traceback.format_exc()}"
    except Exception as error:
        said = str(error) if isinstance(error, Foreign) else f"{type(error).__name__}: {error}"
        kind, detail = "foreign", f"{' '.join(said.split())}\n{traceback.format_exc()}"
    return Result(seed, entry, kind, detail, time.process_time() - start, draw.notes)


@contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise Slow

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, 1), signal.SIGALRM: (signal.ITIMER_REAL, 6)}
    before = {number: signal.signal(number, stop) for number in timers}
    try:
        for timer, times in timers.values():
            signal.setitimer(timer, times * seconds)
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
