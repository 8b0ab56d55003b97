"""K boosted ensembles as one stack: which model each member is, and its first rounds."""

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
from equipoise.predictors.boosting.xgboost import XGBoost

#: Libraries by name. To add one, write its class and its line here.
LIBRARIES: Mapping[str, Library] = {library.name: library for library in (LightGBM(), XGBoost())}
#: Rounds whose trees are summed up before they are added to those of earlier rounds. A model that
#: is looked at again and again as it grows need not start from its first tree each time.
BLOCK = 20
#: What names of arrays begin with where a model is the library's own.
_OWN = "own_"


class Forest:
    """The models of a library that members refer to, by number; shared by all copies of a stack.

    Growing adds rounds and never changes earlier ones, so that a member who keeps its number of
    rounds keeps its predictions. Models that are the library's ``own`` predict as it does, to the
    last bit; of the others the trees of every `BLOCK` rounds are summed up first.
    """

    def __init__(
        self, library: Library, models: Mapping[int, TreeModel], own: Collection[int]
    ) -> None:
        self.library = library
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
            return self.models[model].outputs(x.numpy(), 0, rounds)
        key = model, x.data_ptr(), x.shape
        # The rows are kept as well, so that no others can be where they are.
        _, done, total = (self._known or {}).get(key, (x, 0, np.zeros(())))
        if done > rounds:
            done, total = 0, np.zeros(())
        while done + BLOCK <= rounds:
            total = total + self.models[model].outputs(x.numpy(), done, BLOCK)
            done += BLOCK
        if self._known is not None and done:
            self._known[key] = x, done, total
        if done < rounds:
            total = total + self.models[model].outputs(x.numpy(), done, rounds - done)
        return total


class BoostedTrees(Stack):
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
            # Libraries take no rounds for all rounds.
            output = start.expand(len(rows), -1)
            if rounds:
                grown = self.forest.outputs(model, rounds, rows.double())
                output = output + torch.from_numpy(grown)
            found.append(output)
        return torch.stack(found)

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> NoReturn:
        raise InputError("to_onnx cannot write boosted trees; use save")

    def arrays(self, needed: Sequence[Mapping[str, Tensor]]) -> dict[str, NDArray[Any]]:
        """Return the text of every model, by name, as far as some member needs it."""
        rounds: dict[int, int] = {}
        for model, count in _rounds(needed):
            rounds[model] = max(count, rounds.get(model, 0))
        forest, name = self.forest, self.forest.library.files
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
        files = {prefix for prefix, _, _ in texts.values()}
        library = next((each for each in LIBRARIES.values() if each.files in files), LightGBM())
        models, own = {}, []
        for name, (prefix, _, number) in texts.items():
            if prefix == library.files:
                text = saved.arrays[name].tobytes().decode("ascii")
                models[int(number)] = library.read(text, saved.inputs, outputs)
                own += [int(number)] if name.startswith(_OWN) else []
        for wanted, count in _rounds(saved.needed):
            if count and not 0 < count <= models[wanted].rounds():
                raise ValueError(f"there are fewer than {count} rounds of trees")
        return cls(Forest(library, models, own), start)

    def never_missing(self) -> frozenset[int]:
        """Columns that some member splits without a side for missing values."""
        used = {model for model, rounds in _rounds([self.state_dict()]) if rounds}
        return frozenset().union(*(self.forest.models[each].never_missing() for each in used))


def _rounds(states: Sequence[Mapping[str, Tensor]]) -> Iterator[tuple[int, int]]:
    """Model and rounds of every member."""
    for state in states:
        yield from zip(state["model"].tolist(), state["rounds"].tolist(), strict=True)
