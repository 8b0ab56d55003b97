"""Seed to case: which entry it goes into, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch

from .draw import Draw
from .entries import ENTRIES
from .oracle import LIMIT, Result, judge

_NAMES = tuple(ENTRIES)
_SHARES = np.cumsum([entry.share for entry in ENTRIES.values()])


def run_case(seed: int, *, entry: str | None = None, limit: float | None = LIMIT) -> Result:
    """Run the case of one seed, in the entry that the seed picks unless one is named."""
    torch.set_num_threads(1)
    draw = Draw(seed)
    if entry is None:
        place = np.random.default_rng([seed, 1]).random() * _SHARES[-1]
        entry = _NAMES[int(np.searchsorted(_SHARES, place, side="right"))]
    return judge(seed, entry, ENTRIES[entry].run, draw, limit)


def run_cases(seeds: Iterable[int], entry: str | None = None) -> list[Result]:
    """Run the cases of several seeds, without what was drawn for them."""
    return [replace(run_case(seed, entry=entry), notes={}) for seed in seeds]
