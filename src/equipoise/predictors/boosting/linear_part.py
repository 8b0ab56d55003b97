"""Linear models of the columns of trees, with which their outputs are averaged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from equipoise.networks import Saved
from equipoise.predictors.linear import linear_models
from equipoise.scales import center_and_spread
from equipoise.training import Member, TrainingData
from equipoise.training.predictor import EVALUATION_ROWS

#: Fewest rows with a category, or with a missing value, that get a term of their own.
ROWS_OF_A_LEVEL = 10
#: With more terms there is no linear model, only a constant: it would take longer than its trees.
MOST_TERMS = 500
#: In place of the code of a category, which is 0 or more.
MISSING, NUMBER = -1.0, -2.0
_TERM = ("column", "level", "low", "high", "center", "stand_in")


class LinearPart(nn.Module):
    """Linear models of K members, (K, B, p) -> (K, B, o), and their ``share`` (K,) of the output.

    All members have the same q terms, and each has its ``weight`` (K, q, o) and ``bias`` (K, o). A
    term reads one ``column`` (K, q). If its ``level`` is `NUMBER`, it is the number less its
    ``center``; below ``low`` and above ``high``, where no training row was, it does not change. A
    missing number is read as ``stand_in``. Otherwise a term is 1 where the column has that level or
    is `MISSING`, and else 0.
    """

    column: Tensor
    level: Tensor
    low: Tensor
    high: Tensor
    center: Tensor
    stand_in: Tensor
    weight: Tensor
    bias: Tensor
    share: Tensor

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name in type(self).__annotations__:
            self.register_buffer(name, tensors[name])

    @classmethod
    def fitted(
        cls,
        data: TrainingData,
        members: Sequence[Member],
        task: str,
        n_outputs: int,
        categorical: Collection[int],
    ) -> Self:
        """Return the models of all members, whose share is still 0."""
        found = list(_terms(data, categorical))
        values = torch.tensor(found if len(found) <= MOST_TERMS else [], dtype=torch.float64)
        *terms, scale = values.view(-1, 1 + len(_TERM)).unbind(1)
        terms[0] = terms[0].long()
        models = linear_models(
            data, members, task, n_outputs, inputs=lambda x: _evaluated(x, *terms) / scale
        )
        return cls(
            {
                **{
                    name: term.repeat(len(members), 1)
                    for name, term in zip(_TERM, terms, strict=True)
                },
                "weight": torch.stack([weight.T / scale[:, None] for weight, _ in models]),
                "bias": torch.stack([bias for _, bias in models]),
                "share": torch.zeros(len(members), dtype=torch.float64),
            }
        )

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        """Return the models of a file; ValueError if they fit neither columns nor outputs."""
        part = cls({name: saved.state[f"linear.{name}"] for name in cls.__annotations__})
        outside = (part.column < 0) | (part.column >= saved.inputs)
        if part.column.dtype != torch.long or bool(outside.any()):
            raise ValueError(f"a linear model must read some of {saved.inputs} columns")
        members, outputs = saved.state["start"].shape
        terms = members, part.column.shape[-1]
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_TERM, terms)
        shapes |= {"weight": (*terms, outputs), "bias": (members, outputs), "share": (members,)}
        for name, shape in shapes.items():
            tensor = getattr(part, name)
            if tensor.shape != shape or (name != "column" and tensor.dtype != torch.float64):
                raise ValueError(f"{name} of a linear model must be numbers of shape {shape}")
        return part

    def of(self, members: slice) -> LinearPart:
        """Return the models of some of the members."""
        return LinearPart({name: tensor[members] for name, tensor in self.named_buffers()})

    def forward(self, x: Tensor) -> Tensor:
        found = []
        models = zip(*(getattr(self, n) for n in _TERM), self.weight, self.bias, strict=True)
        for rows, (*terms, weight, bias) in zip(x, models, strict=True):
            parts = torch.split(rows, EVALUATION_ROWS)
            found.append(torch.cat([_evaluated(part, *terms) @ weight + bias for part in parts]))
        return torch.stack(found)

    def blended(self, trees: Tensor, linear: Tensor) -> Tensor:
        """Return the outputs (K, B, o) of which linear models have their share."""
        return torch.lerp(trees, linear, self.share[:, None, None])


def _evaluated(
    x: Tensor,
    column: Tensor,
    level: Tensor,
    low: Tensor,
    high: Tensor,
    center: Tensor,
    stand_in: Tensor,
) -> Tensor:
    """Return the terms (B, q) of rows x (B, p)."""
    values = x[:, column]
    missing = values.isnan()
    numbers = torch.where(missing, stand_in, values).clamp(low, high) - center
    levels = torch.where(missing, MISSING, values) == level
    return torch.where(level == NUMBER, numbers, levels.to(numbers))


def _terms(data: TrainingData, categorical: Collection[int]) -> Iterator[tuple[float, ...]]:
    """Yield what `_TERM` names and the scale of every term.

    A number that is missing is read as the mean. In a column where none was missing it is read as
    0, as LightGBM does.
    """
    weights = None if data.weight is None else data.weight.numpy().astype(np.float64)
    for column, values in enumerate(data.x.T.numpy()):
        known = ~np.isnan(values)
        numbers = values[known]
        if len(numbers) and column not in categorical:
            center, scale = center_and_spread(numbers, None if weights is None else weights[known])
            if scale > 0:
                stand_in = 0.0 if known.all() else center
                yield column, NUMBER, numbers.min(), numbers.max(), center, stand_in, scale
        counted = [(MISSING, len(values) - len(numbers))]
        if column in categorical:
            counted += zip(*np.unique(numbers, return_counts=True), strict=True)
        for level, count in counted:
            if ROWS_OF_A_LEVEL <= count < len(values):
                yield column, level, 0.0, 0.0, 0.0, 0.0, 1.0
