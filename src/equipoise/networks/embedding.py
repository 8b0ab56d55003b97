"""Numbers as pieces: what lets a network answer differently to values that lie close together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.networks.stack import OnnxGraph, of_member

#: What a network's first layer sees of a column: its value alone, or its pieces as well.
Embedding = Literal["pieces", "none"]

#: Rows that knots are found on; more would move them by less than a piece.
KNOT_ROWS = 50_000
#: Values with a knot of their own: the most frequent ones, if this many rows have them.
_FREQUENT = 24
_FREQUENT_ROWS = 10
#: Knots spread evenly over the distinct values.
_EVEN = 8
#: Pieces of all columns together; where there are more columns than this allows for, each is cut
#: less finely, or not at all. A first layer has weights for every piece of every member.
MOST_PIECES = 16_384
#: Least distance of two knots, as a share of the column's range; least range that is cut at all.
_CLOSEST = 1e-6
_SMALLEST_RANGE = 1e-24


@dataclass(frozen=True, eq=False)
class Pieces:
    """Intervals between neighbouring knots of some of the columns, (m,) each.

    column: which column an interval lies on. start: its lower end. slope: one over its length.
    """

    column: NDArray[np.int64]
    start: NDArray[np.float64]
    slope: NDArray[np.float64]


def find_pieces(x: Tensor) -> Pieces:
    """Cut the columns of encoded rows x (n, p) at their knots; 0/1 columns stay whole.

    Amounts and counts heap at a few values (zero, round numbers, a tax bracket) whose outcome can
    differ from that of their neighbours; quantiles of the rows would spend every knot on the one
    largest heap. So frequent values get knots of their own, and a few more are spread evenly over
    the distinct values.
    """
    step = -(-len(x) // KNOT_ROWS)
    rows = x[::step].cpu().double().numpy()
    found = {place: find_knots(rows[:, place]) for place in range(rows.shape[1])}
    cut = {place: knots for place, knots in found.items() if len(knots) > 2}
    if sum(len(knots) - 1 for knots in cut.values()) > MOST_PIECES:
        each = MOST_PIECES // len(cut)
        cut = {place: _thinned(knots, each) for place, knots in cut.items()} if each > 1 else {}
    column, start, slope = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    for place, knots in cut.items():
        column.append(np.full(len(knots) - 1, place))
        start.append(knots[:-1])
        slope.append(1 / np.diff(knots))
    return Pieces(np.concatenate(column), np.concatenate(start), np.concatenate(slope))


def _thinned(knots: NDArray[np.float64], pieces: int) -> NDArray[np.float64]:
    """Knots of at most so many pieces, evenly chosen, the outermost among them."""
    if len(knots) - 1 <= pieces:
        return knots
    return knots[np.linspace(0, len(knots) - 1, pieces + 1).round().astype(np.int64)]


def find_knots(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where a column (n,) is cut, ascending, from its least to its largest value.

    >>> find_knots(np.repeat([0.0, 1.0, 3.0, 4.0], 30))
    array([0., 1., 3., 4.])
    """
    distinct, counts = np.unique(values, return_counts=True)
    frequent = np.argsort(-counts, kind="stable")[:_FREQUENT]
    frequent = frequent[counts[frequent] >= _FREQUENT_ROWS]
    even = np.linspace(0, len(distinct) - 1, _EVEN).round().astype(np.int64)
    knots = distinct[np.union1d(frequent, even)]
    # Neighbours that single precision hardly tells apart would make a piece infinitely steep.
    apart = np.diff(knots, prepend=-np.inf) > _CLOSEST * max(np.ptp(knots), _SMALLEST_RANGE)
    return knots[apart]


class PiecewiseLinear(nn.Module):
    """Columns, and beside them their pieces: (K, p, rows) -> (K, p + m, rows).

    A piece is 0 below its interval, 1 above it and rises linearly in between: the piecewise linear
    encoding of Gorishniy, Rubachev and Babenko (2022, "On embeddings for numerical features in
    tabular deep learning"). Made on the batch, since m more columns of all rows may not fit into
    memory. Nothing here trains; all members share the pieces.
    """

    def __init__(self, pieces: Pieces, *, members: int) -> None:
        super().__init__()
        self.column: Tensor
        self.start: Tensor
        self.slope: Tensor
        for name in ("column", "start", "slope"):
            values = torch.from_numpy(getattr(pieces, name))
            if values.is_floating_point():
                values = values.float()
            self.register_buffer(name, values.repeat(members, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Append the pieces to the columns."""
        along = x.index_select(1, self.column[0])
        along = (along - self.start.unsqueeze(-1)) * self.slope.unsqueeze(-1)
        return torch.cat([x, along.clamp_(0, 1)], 1)

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> str:
        """Add the pieces to the columns of ``rows`` (rows, p)."""
        along = graph.add("Gather", rows, graph.constant(self.column[0].cpu().numpy()), axis=1)
        along = graph.add("Sub", along, graph.constant(of_member(self.start, member)))
        along = graph.add("Mul", along, graph.constant(of_member(self.slope, member)))
        zero, one = (graph.constant(np.array(end)) for end in (0.0, 1.0))
        return graph.add("Concat", rows, graph.add("Clip", along, zero, one), axis=1)
