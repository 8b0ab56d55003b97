"""What the options of a frontier stand for: the members to train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from equipoise.errors import InputError, check_flag, check_whole
from equipoise.training import Member


def read_members(options: Mapping[str, Any], seed: int) -> tuple[Member, ...]:
    """Every strength with every seed: seed, seed + 1, ..."""
    given = options["strengths"]
    strengths = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(strengths, list | tuple):
        raise InputError(f"strengths must be a tuple of numbers in [0, 1), got {given!r}")
    if not strengths or any(each in strengths[:place] for place, each in enumerate(strengths)):
        raise InputError(f"strengths must be distinct numbers, at least one, got {given!r}")
    for name in ("seeds", "evaluate_every", "evaluate_every_rounds"):
        check_whole(name, options[name])
    if check_flag("ensemble", options["ensemble"]) and options["seeds"] < 2:
        raise InputError(
            f"ensemble=True averages over seeds and needs at least 2, got seeds={options['seeds']}"
        )
    return tuple(
        Member(strength, seed + number)
        for number in range(options["seeds"])
        for strength in strengths
    )
