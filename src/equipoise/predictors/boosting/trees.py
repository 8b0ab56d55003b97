"""K boosted ensembles as one stack: each member is the first rounds of one model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import InputError
from equipoise.networks import OnnxGraph, Saved, Stack
from equipoise.predictors.boosting.library import Floats, Library, TreeModel
from equipoise.predictors.boosting.lightgbm import LightGBM
from equipoise.predictors.boosting.linear_part import LinearPart
from equipoise.predictors.boosting.xgboost import XGBoost

#: Libraries by name. To add one, write its class and its line here.
LIBRARIES: Mapping[str, Library] = {library.name: library for library in (LightGBM(), XGBoost())}
#: Trees are summed in blocks of this many rounds. The sums of complete blocks can be cached, so
#: that evaluating a growing model does not start from its first tree each time.
BLOCK = 10
#: Prefix in the names of arrays for models with the library's own objective.
_OWN = "own_"


class Forest:
    """The models of a library, by number; all copies of a stack share them.

    Growing adds rounds and never changes earlier ones. So a member that keeps its number of rounds
    keeps its predictions. Models with the library's ``own`` objective predict exactly as the
    library does. The trees of other models, and of all while sums are cached, are summed in blocks
    of `BLOCK` rounds.
    """

    def __init__(
        self, library: Library, models: Mapping[int, TreeModel], own: Collection[int]
    ) -> None:
        self.library = library
        self.models = models
        self.own = frozenset(own)
        #: By model and address of rows: the rows, the number of rounds summed, and the sums.
        self._cache: dict[tuple[int, int, torch.Size], tuple[Tensor, int, Floats]] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Forest:
        return self

    @contextmanager
    def caching(self) -> Iterator[None]:
        """Cache the sums of evaluated rows; these rows must not change meanwhile."""
        self._cache = {}
        try:
            yield
        finally:
            self._cache = None

    def outputs(self, model: int, rounds: int, x: Tensor) -> Floats:
        """Return outputs (n, o) of the first rounds of one model on rows (n, p) of float64."""
        if model in self.own and self._cache is None:
            return self.models[model].outputs(x.numpy(), 0, rounds)
        key = model, x.data_ptr(), x.shape
        # The cache holds the rows, too, so that no other rows can get their address.
        _, done, total = (self._cache or {}).get(key, (x, 0, np.zeros(())))
        if done > rounds:
            done, total = 0, np.zeros(())
        while done + BLOCK <= rounds:
            total = total + self.models[model].outputs(x.numpy(), done, BLOCK)
            done += BLOCK
        if self._cache is not None and done:
            self._cache[key] = x, done, total
        if done < rounds:
            total = total + self.models[model].outputs(x.numpy(), done, rounds - done)
        return total


class BoostedTrees(Stack):
    """Maps rows (K, B, p) to outputs (K, B, o): a member's start plus the sum of its trees.

    Its tensors have the K members first: the start (K, o), the number of the model in the forest,
    and the number of its rounds that are used. A ``linear`` model can have a share of the output.
    """

    start: Tensor
    model: Tensor
    rounds: Tensor
    linear: LinearPart | None

    def __init__(self, forest: Forest, start: Tensor, linear: LinearPart | None = None) -> None:
        super().__init__()
        self.members = len(start)
        self.linear = linear
        self.forest = forest
        self.register_buffer("start", start)
        self.register_buffer("model", torch.arange(len(start), device="cpu"))
        self.register_buffer("rounds", torch.zeros(len(start), dtype=torch.long, device="cpu"))

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Return every member's output, (K, B, o), in double precision."""
        trees = self.grown(x)
        return trees if self.linear is None else self.linear.blended(trees, self.linear(x.double()))

    def grown(self, x: Tensor) -> Tensor:
        """Return the outputs (K, B, o) of the trees alone."""
        outputs = []
        members = zip(self.start, self.model.tolist(), self.rounds.tolist(), x, strict=True)
        for start, model, rounds, rows in members:
            output = start.expand(len(rows), -1)
            if rounds:  # libraries would read 0 as all rounds
                trees = self.forest.outputs(model, rounds, rows.double())
                output = output + torch.from_numpy(trees)
            outputs.append(output)
        return torch.stack(outputs)

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> NoReturn:
        raise InputError("to_onnx cannot write boosted trees; use save")

    def arrays(self, needed: Sequence[Mapping[str, Tensor]]) -> dict[str, NDArray[Any]]:
        """Return the text of every model, by name, with the rounds that members need."""
        rounds: dict[int, int] = {}
        for model, count in _rounds(needed):
            rounds[model] = max(count, rounds.get(model, 0))
        forest, name = self.forest, self.forest.library.array_prefix
        return {
            f"{_OWN if model in forest.own else ''}{name}.{model}": np.frombuffer(
                forest.models[model].text(count).encode("ascii"), np.uint8
            )
            for model, count in sorted(rounds.items())
            if count
        }

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        start = saved.state["start"]
        if start.dim() != 2 or start.dtype != torch.float64:
            raise ValueError("trees must have one start for each member and output")
        outputs = start.shape[-1]
        saved.check_outputs(outputs)
        texts = {name: name.removeprefix(_OWN).rpartition(".") for name in saved.arrays}
        prefixes = {prefix for prefix, _, _ in texts.values()}
        found = (each for each in LIBRARIES.values() if each.array_prefix in prefixes)
        library = next(found, LightGBM())
        models, own = {}, []
        for name, (prefix, _, number) in texts.items():
            if prefix == library.array_prefix:
                text = saved.arrays[name].tobytes().decode("ascii")
                models[int(number)] = library.read(text, saved.inputs, outputs)
                own += [int(number)] if name.startswith(_OWN) else []
        for wanted, count in _rounds(saved.needed):
            if count and not 0 < count <= models[wanted].rounds():
                raise ValueError(f"there are fewer than {count} rounds of trees")
        linear = LinearPart.restored(saved) if "linear.share" in saved.state else None
        return cls(Forest(library, models, own), start, linear)

    def never_missing(self) -> frozenset[int]:
        """Columns with splits that have no side for missing values, in any member."""
        used = {model for model, rounds in _rounds([self.state_dict()]) if rounds}
        return frozenset().union(*(self.forest.models[each].never_missing() for each in used))


def _rounds(states: Sequence[Mapping[str, Tensor]]) -> Iterator[tuple[int, int]]:
    """Yield the model and the number of rounds of every member."""
    for state in states:
        yield from zip(state["model"].tolist(), state["rounds"].tolist(), strict=True)
