"""What the options of a frontier stand for: the members to train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.training import Member


def read_members(options: Mapping[str, Any], seed: int) -> tuple[Member, ...]:
    """Every strength with every seed: seed, seed + 1, ..."""
    strengths = tuple(options["strengths"])
    if not strengths or len(set(strengths)) < len(strengths):
        raise InputError(
            f"strengths must be distinct numbers, at least one, got {options['strengths']!r}"
        )
    for name in ("seeds", "evaluate_every", "evaluate_every_rounds"):
        value = options[name]
        if not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
    if options["ensemble"] and options["seeds"] < 2:
        raise InputError(
            f"ensemble=True averages over seeds and needs at least 2, got seeds={options['seeds']}"
        )
    return tuple(
        Member(strength, seed + number)
        for number in range(options["seeds"])
        for strength in strengths
    )
