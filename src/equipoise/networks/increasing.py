"""A stack of networks that are increasing in a score, for every value of the other inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import one_hot, softplus

from equipoise.networks.mlp import BESIDE_LINEAR, KNOT_ROWS, StackedMLP
from equipoise.networks.stack import OnnxGraph, Saved, Stack, member_tensors, of_member

#: Most pieces into which a score is cut, at its quantiles.
_MOST_PIECES = 16
#: Least slope with which training begins, where the score of a model does not tell the outcome.
_LEAST_SLOPE = 0.01
#: The log odds of a rank have the logistic distribution; with this factor its variance is one.
_RANK_SCALE = math.sqrt(3) / math.pi


def score_knots(scores: Tensor, pieces: int = _MOST_PIECES) -> list[NDArray[np.float64]]:
    """Return for each column of scores (n, c) where its pieces begin, at its quantiles."""
    step = -(-len(scores) // KNOT_ROWS)
    levels = np.linspace(0, 1, pieces + 1)[:-1]
    rows = scores[::step].cpu().double().numpy()
    return [np.unique(np.quantile(column, levels, method="lower")) for column in rows.T]


class IncreasingStack(Stack):
    """K networks: (K, rows, n_in) -> (K, rows, c), whose first inputs are scores, c or 2 c, ...

    Output i is b_i(a) + sum over j of softplus(h_ij(a)) * piece_ij(s_i): strictly increasing in
    score i for every value of the other inputs a. With more scores than outputs, output i is the
    sum of such terms over scores i, c + i, and so on. A piece is the part of the score, from 0 on,
    between two knots, the outermost without an end. A perceptron on a alone returns the levels b
    and the slopes before softplus h. All members share the knots.
    """

    shares_rows = True

    def __init__(self, knots: Sequence[NDArray[np.float64]], by_others: StackedMLP) -> None:
        """``knots``: where the pieces of each score begin; ``by_others``: the perceptron on a."""
        super().__init__()
        self.members = by_others.members
        self.scores = len(knots)
        self.width = by_others.width - sum(map(len, knots))
        self.by_others = by_others
        column = np.repeat(np.arange(self.scores), [len(each) for each in knots])
        start = np.concatenate(knots)
        self.score_column: Tensor
        self.start: Tensor
        self.register_buffer("score_column", torch.from_numpy(column).repeat(self.members, 1))
        self.register_buffer("start", torch.from_numpy(start).float().repeat(self.members, 1))

    @property
    def groups(self) -> tuple[int, ...]:
        """Sizes of groups of members that share rows."""
        return self.by_others.groups

    @groups.setter
    def groups(self, sizes: tuple[int, ...]) -> None:
        self.by_others.groups = sizes

    @torch.no_grad()
    def start_linear(self, member: int, weight: Tensor, bias: Tensor) -> None:
        """Let a member begin near weight (c, n_in) @ inputs + bias (c,), each score on its own."""
        head = self.by_others.head
        assert head.bias is not None
        column = self.score_column[member]
        slope = weight[column % self.width, column].clamp_min(_LEAST_SLOPE)
        head.weight[member] *= BESIDE_LINEAR
        head.bias[member] = torch.cat([bias, slope + torch.log(-torch.expm1(-slope))])

    def forward(self, x: Tensor) -> Tensor:
        level, slope = self.by_others(x[..., self.scores :]).split(
            [self.width, self.start.shape[1]], dim=-1
        )
        column = self.score_column[0]
        low, high, zero = self._ends(column, self.start[:1])
        piece = x.index_select(-1, column).clamp(low, high) - zero
        if 1 < len(piece) < len(slope):
            sizes = torch.tensor(self.groups, device=x.device)
            piece = piece.repeat_interleave(sizes, 0)
        owner = one_hot(column % self.width, self.width).to(x.dtype)
        out: Tensor = level + (softplus(slope) * piece) @ owner
        return out

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        def constant(values: Any) -> str:
            return graph.constant(np.asarray(values))

        column = self.score_column[member].cpu()
        start = torch.from_numpy(of_member(self.start, member))[None]
        axis, end = constant([1]), constant([np.iinfo(np.int64).max])

        def after(value: str, first: int) -> str:
            return graph.add("Slice", value, constant([first]), end, axis)

        shape = self.by_others.to_onnx(graph, after(rows, self.scores), member)
        level = graph.add("Slice", shape, constant([0]), constant([self.width]), axis)
        slope = after(shape, self.width)
        # softplus in a form that does not overflow; not all runtimes have the operator in float64.
        tail = graph.add("Exp", graph.add("Neg", graph.add("Abs", slope)))
        tail = graph.add("Log", graph.add("Add", constant(1.0), tail))
        slope = graph.add("Add", graph.add("Max", slope, constant(0.0)), tail)
        low, high, zero = (constant(end.numpy()) for end in self._ends(column, start))
        piece = graph.add("Gather", rows, constant(column.numpy()), axis=1)
        piece = graph.add("Min", graph.add("Max", piece, low), high)
        piece = graph.add("Sub", piece, zero)
        owner = constant(np.eye(self.width)[column.numpy() % self.width])
        return graph.add("Add", level, graph.add("MatMul", graph.add("Mul", slope, piece), owner))

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        column, start = saved.state["score_column"], saved.state["start"]
        knots = _saved_knots(column, start)
        others = saved.part("by_others", inputs=saved.inputs - len(knots))
        stack = cls(knots, StackedMLP.restored(others))
        if stack.width < 1 or len(knots) % stack.width:
            raise ValueError("the pieces of scores do not fit the outputs")
        saved.check_outputs(stack.width)
        return stack

    @staticmethod
    def _ends(column: Tensor, start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Lower and upper ends of the pieces, (..., m) each, and where they are zero.

        The outermost have no end. Pieces are zero for a score of 0, near the middle.
        """
        first = torch.ones_like(column, dtype=torch.bool)
        first[1:] = column[1:] != column[:-1]
        endless = torch.full_like(start, torch.inf)
        low = torch.where(first, -endless, start)
        high = torch.where(first.roll(-1), endless, start.roll(-1, -1))
        return low, high, torch.zeros_like(start).clamp(low, high)


def beside_ranks(ranks: IncreasingStack, x: Tensor) -> Tensor:
    """Return scores, their ranks and all other inputs, (G, rows, c + n_in), for x (G, rows, n_in).

    ``ranks`` are log odds, the same for all members.
    """
    score, others = x.tensor_split([ranks.scores], -1)
    some = {name: tensor[: len(x)] for name, tensor in member_tensors(ranks)}
    found: Tensor = functional_call(ranks, some, (x,))
    return torch.cat([score, _RANK_SCALE * found, others], -1)


class RankedStack(Stack):
    """K networks that see how each score ranks among people alike: (K, rows, n_in) -> (K, rows, c).

    The first c inputs are scores, all others are a. ``ranks`` gives the log odds of P(S < s | a)
    for each score s. The ``network`` sees the scores, then these ranks, then a. A rank does not
    depend on a, however the distribution of the score does, so a network that is near the ranks is
    near independence for every value of a, rare and extreme ones included.
    """

    shares_rows = True

    def __init__(self, ranks: IncreasingStack, network: Stack) -> None:
        """``ranks``: trained before, and the same for all members."""
        super().__init__()
        self.ranks = ranks.requires_grad_(False)
        self.network = network
        self.members, self.width = network.members, network.width

    @property
    def groups(self) -> tuple[int, ...]:
        """Sizes of groups of members that share rows."""
        return self.network.groups

    @groups.setter
    def groups(self, sizes: tuple[int, ...]) -> None:
        self.network.groups = sizes

    def start_linear(self, member: int, weight: Tensor, bias: Tensor) -> None:
        """Let a member begin near weight (c, c + n_in) @ what it sees + bias (c,)."""
        self.network.start_linear(member, weight, bias)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.network(beside_ranks(self.ranks, x))
        return out

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        def columns(first: int, last: int) -> str:
            ends = (graph.constant(np.asarray([end])) for end in (first, last, 1))
            return graph.add("Slice", rows, *ends)

        scores = self.ranks.scores
        scale = graph.constant(np.asarray(_RANK_SCALE))
        ranks = graph.add("Mul", self.ranks.to_onnx(graph, rows, member), scale)
        parts = columns(0, scores), ranks, columns(scores, np.iinfo(np.int64).max)
        return self.network.to_onnx(graph, graph.add("Concat", *parts, axis=1), member)

    def arrays(self, needed: Sequence[Mapping[str, Tensor]]) -> dict[str, NDArray[Any]]:
        return self.network.arrays(needed)

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        ranks = IncreasingStack.restored(saved.part("ranks"))
        if ranks.scores != ranks.width:
            raise ValueError("there must be one rank for each score")
        own = saved.part("network", inputs=saved.inputs + ranks.scores, outputs=saved.outputs)
        own = replace(own, arrays=saved.arrays)
        kind = IncreasingStack if "score_column" in own.state else StackedMLP
        return cls(ranks, kind.restored(own))


def _saved_knots(column: Tensor, start: Tensor) -> list[NDArray[np.float64]]:
    """Return the knots of each score; ValueError if they are not in order."""
    if column.shape != start.shape or column.dim() != 2 or column.dtype != torch.int64:
        raise ValueError("the pieces of scores do not fit together")
    places, starts = column[0].numpy(), start[0].double().numpy()
    count = int(places[-1]) + 1 if len(places) else 0
    if not np.array_equal(np.unique(places), np.arange(count)) or (np.diff(places) < 0).any():
        raise ValueError("the pieces of scores must be in the order of the scores")
    knots = [starts[places == place] for place in range(count)]
    ordered = all(np.isfinite(each).all() and (np.diff(each) > 0).all() for each in knots)
    if not count or not ordered:
        raise ValueError("the pieces of a score must begin at increasing numbers")
    return knots
