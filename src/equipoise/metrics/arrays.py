"""Conversion between NumPy and torch, so that every formula is written once, in torch.

A NumPy array becomes a tensor that shares its memory; `like` returns the result in the type of the
scores. Formulas use float64. Converting float32 scores to it changes neither their order nor their
ties.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError

Array = NDArray[Any] | Tensor
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


def as_scores(scores: Any) -> Tensor:
    """Scores (n,) or (K, n) as a float64 tensor (K, n) on the same device."""
    tensor = as_numbers("scores", scores)
    if tensor.ndim not in (1, 2) or tensor.shape[-1] == 0 or tensor.numel() == 0:
        raise InputError(
            "scores must have shape (n,) or (K, n) with at least one row, "
            f"got {tuple(tensor.shape)}; pass one score for each row"
        )
    return tensor.reshape(-1, tensor.shape[-1])


def as_weights(weights: Any, n: int, device: torch.device) -> Tensor:
    """Row weights (n,) or (R, n) as a float64 tensor (R, n); ones for None."""
    if weights is None:
        return torch.ones((1, n), dtype=torch.float64, device=device)
    tensor = as_numbers("weights", weights).to(device)
    if tensor.ndim not in (1, 2) or tensor.shape[-1] != n or tensor.numel() == 0:
        raise InputError(
            f"weights must have shape (n,) or (R, n) with n = {n} as in scores, "
            f"got {tuple(tensor.shape)}; pass one weight for each row"
        )
    if bool((tensor < 0).any()):
        raise InputError(
            f"weights must not be negative, got {float(tensor.min())}; a weight is the number of "
            "rows that a row counts for"
        )
    sums = tensor.sum(-1)
    least, most = float(sums.min()), float(sums.max())
    if not 2 <= least <= most <= 2.0**53:  # above, float64 cannot count rows exactly
        rule, total = ("most 2**53", most) if most > 2.0**53 else ("least 2", least)
        raise InputError(
            f"weights must sum to at {rule}, since a weight is the number of rows that a row "
            f"counts for, got a sum of {total:g}; scale them to sum to the number of rows"
        )
    return tensor.reshape(-1, n)


def as_numbers(argument: str, values: Any) -> Tensor:
    """An array of finite numbers as a float64 tensor of the same shape and device."""
    if isinstance(values, Tensor):
        tensor = values.detach().to(torch.float64)
    else:
        array = _as_floats(argument, values)
        # torch cannot share the memory of read-only or negatively strided arrays.
        shareable = array.flags.writeable and all(stride >= 0 for stride in array.strides)
        tensor = torch.from_numpy(array if shareable else array.copy())
    finite = torch.isfinite(tensor)
    if not bool(finite.all()):
        where = tuple((~finite).nonzero()[0].tolist())
        raise InputError(
            f"{argument} must be finite, got {float(tensor[where])} at position "
            f"{where[0] if len(where) == 1 else where}; drop or fill these rows"
        )
    return tensor


def _as_floats(argument: str, values: Any) -> Floats:
    """An array of floats; text is refused even if it reads as numbers, masked values become NaN."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.where(np.ma.getmaskarray(values), np.nan, values.data)
    try:
        array = np.asarray(values)
        words = array.dtype.kind == "O" and any(isinstance(each, str) for each in array.flat)
        if array.dtype.kind in "biufO" and not words:
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(
        f"{argument} must hold numbers, got {type(values).__name__} that does not convert to "
        "floats; convert it first"
    )


def like(result: Tensor, scores: Any, weights: Any) -> Array:
    """Return `result` (R, K) in the type of `scores`.

    The K axis is dropped if scores are (n,), the R axis if weights are None or (n,).
    """
    if np.ndim(scores) == 1:
        result = result[..., 0]
    if weights is None or np.ndim(weights) == 1:
        result = result[0]
    if isinstance(scores, Tensor):
        return result
    return np.asarray(result.numpy())


#: Numbers that a GPU works on at once, which bounds its memory.
_NUMBERS_AT_ONCE = 2**24


def members_at_once(weights: Tensor) -> int:
    """Return how many members to work on at once with weights (R, n).

    One on a CPU, where more take no less time. A GPU would wait for each of them.
    """
    return max(1, _NUMBERS_AT_ONCE // weights.numel()) if weights.is_cuda else 1
