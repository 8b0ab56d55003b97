"""The density ratio beta(a', y) = p(a', y) / (p(a') p(y)), the weight of resampled pairs.

Separation needs it: with these weights the best critic compares p(score | a, y) with p(score | y)
and nothing else (Sohn, Song and Lin 2024, proposition 2, where a' is the resampled attribute). If A
and Y are discrete, beta can be counted. Otherwise a small network estimates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from equipoise.divergences import DIVERGENCES
from equipoise.errors import InputError, check_choice
from equipoise.networks import StackedMLP, member_tensors, select_members
from equipoise.training import (
    BatchStream,
    History,
    Member,
    NetworkStep,
    OptimizerSettings,
    Phase,
    TrainingData,
    TrainingSettings,
)
from equipoise.training.data import RowSet, generators, row_numbers, streams_of, take
from equipoise.training.loop import gradients_on
from equipoise.training.optimizers import minimize
from equipoise.training.stopping import EarlyStopping, set_aside
from equipoise.training.workers import total

RatioKind = Literal["auto", "counts", "network", "none"]

#: Widths of the network's hidden layers.
HIDDEN = (64, 64)
#: Share of the rows that are held out for early stopping.
HELD_OUT = 0.2
#: Larger ratios are clamped, since one such pair would outweigh the rest of its batch.
LARGEST_RATIO = 50.0
#: Most numbers in a table of beta for all rows and classes.
LARGEST_TABLE = 20_000_000
#: Rows for which the table is filled at once, so that the layers stay in the processor's cache.
PART = 4_096


@dataclass(frozen=True, kw_only=True)
class RatioSettings(TrainingSettings):
    """How the density-ratio network trains: it is stopped early on held-out rows.

    With ``patience=None`` no rows are held out, and the last iterate is used. Large steps that
    decay reach the held-out loss of small constant ones on large and small data sets, in a quarter
    of the time.
    """

    iterations: int = 300
    batch_size: int = 1_000
    optimizer: OptimizerSettings = field(
        default_factory=lambda: OptimizerSettings(learning_rate=1e-2)
    )
    check_every: int = 25
    patience: int | None = 150


@gradients_on()
def build_density_ratio(
    data: TrainingData, members: Sequence[Member], *, kind: RatioKind
) -> CountedRatio | NetworkRatio | None:
    """Return beta for every member, estimated on its own rows; None for no weights (SBP_NW).

    A `NetworkRatio` can be used once its ``phases`` are trained.
    """
    check_choice("density_ratio", kind, get_args(RatioKind))
    discrete = data.attribute_cell is not None and data.outcome_class is not None
    if kind == "counts" and not discrete:
        raise InputError(
            "density_ratio='counts' needs discrete sensitive features and a discrete outcome, got "
            "continuous values; use density_ratio='network' or 'auto'"
        )
    if kind == "none":
        return None
    if kind == "counts" or (kind == "auto" and discrete):
        return CountedRatio(data, members)
    return NetworkRatio(data, members, settings=RatioSettings())


class CountedRatio:
    """Beta from (weighted) counts of attribute cells and outcome classes, exact for these rows.

    Processes that train together count the rows of all.
    """

    def __init__(self, data: TrainingData, members: Sequence[Member]) -> None:
        assert data.attribute_cell is not None and data.outcome_class is not None
        known = data.attribute_cell >= 0
        self._cell = data.attribute_cell
        self._class = data.outcome_class
        weight = known.to(data.x.dtype) if data.weight is None else known * data.weight
        every = data.to_build_for
        assert every.attribute_cell is not None and every.outcome_class is not None
        shape = int(every.attribute_cell.max()) + 1, int(every.outcome_class.max()) + 1
        # In the order of the members, in which all processes add their counts.
        distinct = dict.fromkeys(member.rows for member in members)
        tables = {rows: self._table(weight, rows, shape) for rows in distinct}
        self._tables = torch.stack([tables[member.rows] for member in members])

    def _table(self, weight: Tensor, rows: RowSet | None, shape: tuple[int, int]) -> Tensor:
        """Return beta for every (cell, class)."""
        chosen = row_numbers(rows, len(weight), weight.device)
        flat = (self._cell[chosen].clamp_min(0) * shape[1] + self._class[chosen]).cpu()
        counts = total(torch.bincount(flat, weight[chosen].cpu().double(), shape[0] * shape[1]))
        joint = counts.view(shape) / counts.sum()
        independent = joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)
        return (joint / independent.clamp_min(1e-300)).to(weight)

    def __call__(self, rows: Tensor, resampled: Tensor) -> Tensor:
        """Return beta (K, B) for the attributes of ``resampled`` and the outcomes of ``rows``."""
        member = torch.arange(len(rows), device=rows.device)[:, None]
        cell = self._cell[resampled].clamp_min(0)
        ratio: Tensor = self._tables[member, cell, self._class[rows]]
        return ratio


class RatioNetwork(nn.Module):
    """K critics that tell (a, y) from (a', y); the odds that they give are beta."""

    def __init__(
        self, attribute_width: int, outcome_width: int, *, generators: Sequence[torch.Generator]
    ) -> None:
        super().__init__()
        width = attribute_width + outcome_width
        self.critic = StackedMLP(width, HIDDEN, 1, generators=generators, normalization="none")

    def forward(self, attribute: Tensor, outcome: Tensor) -> Tensor:
        """Return log beta (K, B) for attributes (K, B, q) and outcomes (K, B, v)."""
        logit: Tensor = self.critic(torch.cat([attribute, outcome], -1)).squeeze(-1)
        return logit

    def ratio(self, attribute: Tensor, outcome: Tensor) -> Tensor:
        """Return beta (K, B), clamped, without gradient."""
        with torch.no_grad():
            log_ratio: Tensor = self(attribute, outcome)
            return log_ratio.exp().clamp_max(LARGEST_RATIO)

    def loss(
        self,
        attribute: Tensor,
        resampled: Tensor,
        outcome: Tensor,
        weights: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> Tensor:
        """Return the negative of the paper's R_beta (K,), shifted so that guessing gives 0."""
        rows = attribute.shape[1]
        logit = self(torch.cat([attribute, resampled], 1), torch.cat([outcome, outcome], 1))
        return -DIVERGENCES["js"](logit[:, :rows], logit[:, rows:], *weights)


class NetworkRatio:
    """Beta from a :class:`RatioNetwork`, which its phase trains before the run.

    Members with the same seed and the same rows share a network.
    """

    def __init__(
        self, data: TrainingData, members: Sequence[Member], *, settings: RatioSettings
    ) -> None:
        assert data.attribute is not None
        self.data = data
        streams, self._which = streams_of(members)
        self.network = RatioNetwork(
            data.attribute.shape[1],
            data.outcome.shape[1],
            generators=generators([seed for seed, _ in streams], "density ratio"),
        ).to(data.x)
        self._optimizer = settings.optimizer.build(self.network.parameters())
        #: Beta of every row and class (streams, n, classes), so that no batch needs the network
        #: again; None if Y is continuous, rows change, or the table would be too large.
        self.table: Tensor | None = None
        self._of_all: MembersRatio
        self._stopping: EarlyStopping | None = None
        if settings.patience is not None:
            parts = [
                set_aside(*each, len(data), HELD_OUT, needed_by="density_ratio='network'")
                for each in streams
            ]
            held_out = torch.stack([aside for _, aside in parts]).to(data.x.device)
            streams = [(seed, rows) for (seed, _), (rows, _) in zip(streams, parts, strict=True)]
            self._stopping = EarlyStopping(
                (tensor for _, tensor in member_tensors(self.network)),
                lambda _: self._loss(held_out, held_out.roll(1, 1)),
                patience=settings.patience,
            )
        self.phases = (
            Phase(
                label="density ratio",
                needed_by="density_ratio='network'",
                step=NetworkStep(self.network, self._update, [self._optimizer], settings),
                batches=BatchStream(
                    [Member(0.0, seed, rows) for seed, rows in streams],
                    len(data),
                    batch_size=settings.batch_size,
                    device=data.x.device,
                ),
                settings=settings,
                serves=self._which,
                finish=self._finish,
                stopping=self._stopping,
            ),
        )

    def __call__(self, rows: Tensor, resampled: Tensor) -> Tensor:
        """Return beta (K, B) for the attributes of ``resampled`` and the outcomes of ``rows``."""
        return self._of_all(rows, resampled)

    def part(self, members: slice) -> MembersRatio:
        """Return beta for some of the members, once the phase is trained."""
        return MembersRatio(self, self._which[members])

    def _loss(self, rows: Tensor, resampled: Tensor) -> Tensor:
        attribute = self.data.attribute
        assert attribute is not None
        return self.network.loss(
            attribute[rows],
            attribute[resampled],
            self.data.outcome[rows],
            self.data.pair_weights(rows, resampled),
        )

    def _update(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        loss = self._loss(rows, resampled)
        minimize(loss, self._optimizer)
        return loss.detach(), torch.zeros_like(loss)

    def _tabulated(self) -> Tensor | None:
        data = self.data
        if data.outcome_class is None or data.window is not None:
            return None
        classes = int(data.outcome_class.max()) + 1
        streams = self.network.critic.members
        if streams * len(data) * classes > LARGEST_TABLE:
            return None
        assert data.attribute is not None
        beta = data.x.new_ones(streams, len(data), classes)
        for number in range(classes):
            of_class = (data.outcome_class == number).nonzero()[:1]
            if not len(of_class):
                continue
            for first in range(0, len(data), PART):
                attribute = data.attribute[first : first + PART].expand(streams, -1, -1)
                outcome = data.outcome[of_class].expand(*attribute.shape[:2], -1)
                beta[:, first : first + PART, number] = self.network.ratio(attribute, outcome)
        return beta

    def _finish(self, history: History) -> History:
        self.table = self._tabulated()
        self._of_all = self.part(slice(None))
        if self._stopping is None:
            return history
        # If the held-out loss was never finite, the best network is still the random start.
        never_finite = self._stopping.least.isinf().cpu().numpy() & (history.stopped_at == 0)
        stopped_at = np.where(never_finite, history.iterations[0], history.stopped_at)
        return replace(history, stopped_at=stopped_at)


class MembersRatio:
    """Beta for some members, from networks that a `NetworkRatio` has trained."""

    def __init__(self, trained: NetworkRatio, which: Sequence[int]) -> None:
        self._trained, self._which = trained, which
        self._stream = torch.tensor(which, device=trained.data.x.device)[:, None]
        self._chosen: RatioNetwork | None = None

    def __call__(self, rows: Tensor, resampled: Tensor) -> Tensor:
        """Return beta (K, B) for the attributes of ``resampled`` and the outcomes of ``rows``."""
        data, table = self._trained.data, self._trained.table
        if table is not None:
            assert data.outcome_class is not None
            _, n, classes = table.shape
            place = (self._stream * n + resampled) * classes + take(data.outcome_class, rows)
            return take(table.view(-1), place)
        assert data.attribute is not None
        if self._chosen is None:
            chosen = select_members(self._trained.network, self._which)
            self._chosen = chosen.requires_grad_(False)
        return self._chosen.ratio(data.attribute[resampled], data.outcome[rows])


DensityRatio = CountedRatio | NetworkRatio | MembersRatio
