"""K boosted ensembles as one stacked network: which model each member is, and its first rounds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Floats = NDArray[np.float64]

#: Rounds whose trees are summed up before they are added to those of earlier rounds. A model that
#: is looked at again and again as it grows need not start from its first tree each time.
BLOCK = 20


class Forest:
    """The LightGBM models that members refer to, by number; shared by all copies of a stack.

    Growing adds rounds and never changes earlier ones, so that a member who keeps its number of
    rounds keeps its predictions. Models that are LightGBM's ``own`` predict as LightGBM does, to
    the last bit; of the others the trees of every `BLOCK` rounds are summed up first.
    """

    def __init__(self, models: Mapping[int, Any], own: Collection[int]) -> None:
        self.models = models
        self.own = frozenset(own)
        #: Rows by where they are, with the rounds that were summed up for them and the sums.
        self._known: dict[tuple[int, int, torch.Size], tuple[Tensor, int, Floats]] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Forest:
        return self

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Keep the sums of rows that are looked at, which must not change meanwhile."""
        self._known = {}
        try:
            yield
        finally:
            self._known = None

    def outputs(self, model: int, rounds: int, x: Tensor) -> Floats:
        """Raw scores (n, o) of the first rounds of one model on rows (n, p) of float64."""
        if model in self.own:
            return self._sum(model, 0, rounds, x)
        key = model, x.data_ptr(), x.shape
        # The rows are kept as well, so that no others can be where they are.
        _, done, total = (self._known or {}).get(key, (x, 0, np.zeros(())))
        if done > rounds:
            done, total = 0, np.zeros(())
        while done + BLOCK <= rounds:
            total = total + self._sum(model, done, BLOCK, x)
            done += BLOCK
        if self._known is not None and done:
            self._known[key] = x, done, total
        return total + self._sum(model, done, rounds - done, x) if done < rounds else total

    def _sum(self, model: int, first: int, rounds: int, x: Tensor) -> Floats:
        raw: Floats = self.models[model].predict(
            x.numpy(), raw_score=True, start_iteration=first, num_iteration=rounds
        )
        return raw.reshape(len(x), -1)


class BoostedTrees(nn.Module):
    """Maps rows (K, B, p) to outputs (K, B, o): the start of each member plus its trees.

    Every tensor has the K members first, as in any stack: the start (K, o) that its trees add to,
    the model in the forest, and the rounds of it that count.
    """

    start: Tensor
    model: Tensor
    rounds: Tensor

    def __init__(self, forest: Forest, start: Tensor) -> None:
        super().__init__()
        self.members = len(start)
        self.forest = forest
        self.register_buffer("start", start)
        self.register_buffer("model", torch.arange(len(start), device="cpu"))
        self.register_buffer("rounds", torch.zeros(len(start), dtype=torch.long, device="cpu"))

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Return every member's output, (K, B, o), in double precision."""
        found = []
        members = zip(self.start, self.model.tolist(), self.rounds.tolist(), x, strict=True)
        for start, model, rounds, rows in members:
            # LightGBM takes no rounds for all rounds.
            output = start.expand(len(rows), -1)
            if rounds:
                grown = self.forest.outputs(model, rounds, rows.double())
                output = output + torch.from_numpy(grown)
            found.append(output)
        return torch.stack(found)
