"""K boosted ensembles as one stacked network: which model each member is, and its first rounds."""

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
from equipoise.predictors.boosting.library import lightgbm
from equipoise.predictors.boosting.text_check import checked_text

Floats = NDArray[np.float64]

#: Names of models whose trees are summed up in blocks, and of LightGBM's own.
_PREFIX, _OWN_PREFIX = "trees.", "own_trees."

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


class BoostedTrees(Stack):
    """Maps rows (K, B, p) to outputs (K, B, o): the start of each member plus its trees.

    Every tensor has the K members first, as in any stack: the start (K, o) that its trees add to,
    the model in the forest, and the rounds of it that count.
    """

    unit = "round"

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

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> NoReturn:
        """Refuse: nobody has written trees as ONNX here."""
        raise InputError("to_onnx cannot write boosted trees; use save")

    def arrays(self, needed: Sequence[Mapping[str, Tensor]]) -> dict[str, NDArray[Any]]:
        """Return the text of every model, by name, as far as some member needs it."""
        rounds: dict[int, int] = {}
        for model, count in _rounds(needed):
            rounds[model] = max(count, rounds.get(model, 0))
        forest = self.forest
        return {
            f"{_OWN_PREFIX if model in forest.own else _PREFIX}{model}": np.frombuffer(
                forest.models[model].model_to_string(num_iteration=count).encode("ascii"), np.uint8
            )
            for model, count in sorted(rounds.items())
            if count
        }

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        """Return the trees whose texts `arrays` wrote."""
        start = saved.state["start"]
        if start.dim() != 2 or start.dtype != torch.float64:
            raise ValueError("trees must have one start for each member and output")
        outputs = start.shape[-1]
        saved.check_outputs(outputs)
        texts = {
            (prefix, int(name.removeprefix(prefix))): array.tobytes().decode("ascii")
            for name, array in saved.arrays.items()
            for prefix in (_PREFIX, _OWN_PREFIX)
            if name.startswith(prefix)
        }
        library = lightgbm("a model of boosted trees")
        models = {
            model: library.Booster(model_str=checked_text(text, outputs))
            for (_, model), text in texts.items()
        }
        if any(model.num_feature() != saved.inputs for model in models.values()):
            raise ValueError(f"trees must be of {saved.inputs} features")
        for wanted, count in _rounds(saved.needed):
            if count and not 0 < count <= models[wanted].current_iteration():
                raise ValueError(f"there are fewer than {count} rounds of trees")
        own = [model for prefix, model in texts if prefix == _OWN_PREFIX]
        return cls(Forest(models, own), start)

    def never_missing(self) -> frozenset[int]:
        """Columns that are split without a side for missing values.

        LightGBM has such a side only where it saw missing values while binning; elsewhere it takes
        a missing amount for 0, and a missing category for one that is not on the left.
        """
        found: set[int] = set()
        for model in {model for model, rounds in _rounds([self.state_dict()]) if rounds}:
            nodes = self.forest.models[model].trees_to_dataframe().dropna(subset=["split_feature"])
            names = nodes.loc[nodes["missing_type"] == "None", "split_feature"].unique()
            found |= {int(name.removeprefix("Column_")) for name in names}
        return frozenset(found)


def _rounds(states: Sequence[Mapping[str, Tensor]]) -> Iterator[tuple[int, int]]:
    """Model and rounds of every member."""
    for state in states:
        yield from zip(state["model"].tolist(), state["rounds"].tolist(), strict=True)
