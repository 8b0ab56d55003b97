"""Triton kernels for what a GPU would otherwise do in many small launches.

Everything here has a library path beside it, which is what runs on a CPU, in double precision or
without Triton, and what the kernels are tested against. Gradients of kernels can be taken once,
not twice. A kernel runs on the device of its tensors, whichever is the current one.
"""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

#: Rows that one program can hold; larger batches take the library's way.
MOST_ROWS = 8192


def fused_kernels(x: Tensor) -> Any:
    """Return the module of kernels if they can work on x (..., rows), else None."""
    fits = x.is_cuda and x.dtype == torch.float32 and x.shape[-1] <= MOST_ROWS
    return _fused() if fits else None


@functools.cache
def _fused() -> Any:
    here = find_spec("triton") is not None
    return import_module("equipoise.networks.kernels.fused") if here else None
