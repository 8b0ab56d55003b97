"""One iteration as a CUDA graph: captured once, then replayed without Python in between."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

#: Iterations run eagerly first, in which optimizers and libraries allocate what they need.
WARM_UP = 3


class CapturedIteration:
    """Calls ``iterate(batch)``; from the fourth call on by replaying what it launched.

    Products of float32 go through tensor cores (TF32, ten bits of mantissa); the error is far below
    the noise of mini-batches. Evaluation does not go through here and is exact. Streams and graph
    are on the device of the batch, whichever device is current.

    ``iterate`` must do the same work on the same tensors at every call. Where it cannot be
    captured, since a user's network reads values back, it runs eagerly, with a warning.
    """

    def __init__(self, iterate: Callable[[Tensor], None]) -> None:
        self._iterate = iterate
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Tensor

    def __call__(self, batch: Tensor) -> None:
        """Train on one batch."""
        with torch.cuda.device(batch.device):
            self._call(batch)

    def _call(self, batch: Tensor) -> None:
        self._calls += 1
        if self._calls <= WARM_UP:
            self._run_aside(batch)
            return
        if self._calls == WARM_UP + 1:
            self._capture(batch)
        if self._graph is None:
            with _tensor_cores():
                self._iterate(batch)
            return
        self._batch.copy_(batch)
        self._graph.replay()

    def _run_aside(self, batch: Tensor) -> None:
        """Run on a stream of its own, as CUDA asks of what is captured later."""
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside), _tensor_cores():
            self._iterate(batch)
        torch.cuda.current_stream().wait_stream(aside)

    def _capture(self, batch: Tensor) -> None:
        self._batch = batch.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph), _tensor_cores():
                self._iterate(self._batch)
        except RuntimeError as problem:
            reason = str(problem).splitlines()[0]
            warnings.warn(
                "the training step could not be captured as a CUDA graph, so every iteration is "
                f"launched anew, which is several times slower ({reason}); a network of your own "
                "must not read values back (.item(), print) while it trains",
                stacklevel=2,
            )
            return
        self._graph = graph


@contextmanager
def _tensor_cores() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
