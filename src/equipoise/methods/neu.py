"""Neutralized representations: a head learns on mixtures of rows with equal Y and different A."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from equipoise.errors import InputError
from equipoise.methods.declaration import Capabilities, Context, Declaration
from equipoise.networks import copy_members
from equipoise.training import BatchStream, History, Member, Phase, PredictorStep, TrainingData
from equipoise.training.data import mean_one, row_numbers, take

#: Shares of the first row in the mixtures of a pair; a share of one half is neutral.
MIXTURES = (0.6, 0.7, 0.8, 0.9)


class Neutralized:
    """Du et al. 2021: the head trains on mixtures of two rows with equal Y and different A.

    First all members train plainly with the same settings; members of strength 0 stop there. Then
    the first hidden layer is frozen, and the layers after it are trained further. A pair of rows
    has hidden values z1 and z2. The task loss is the squared error at (z1 + z2) / 2, where the
    target is the mean of the plain network's two scores. The penalty is the absolute difference
    between the scores at u z1 + (1 - u) z2 and at (z1 + z2) / 2, averaged over u in
    :data:`MIXTURES`. Batch normalization keeps the statistics of plain training, because mixtures
    vary less than the rows to predict.
    """

    def __init__(self, context: Context, *, name: str = "neu") -> None:
        data, members, predictor = context.data, context.members, context.predictor
        assert predictor is not None
        self._data = data
        self._predictor = predictor
        needed_by = f"method={name!r} freezes the first hidden layer"
        self._layers = predictor.network.hidden_layers(needed_by)
        self._partners = Partners(data, context.attribute, members)
        self._trains = torch.tensor(
            [member.strength > 0 for member in members], device=data.x.device
        )
        self._shares = data.x.new_tensor([0.5, *MIXTURES])[:, None, None]
        self.networks: nn.Module = nn.Module()
        self._plain = copy.deepcopy(predictor).train()
        self._plain_scores: Tensor
        plain = [replace(member, strength=0.0) for member in members]
        settings = context.settings
        self.phases = (
            Phase(
                label="plain training",
                needed_by=f"method={name!r}",
                step=PredictorStep(self._plain, data, plain, method=None, settings=settings),
                batches=BatchStream(
                    plain, len(data), batch_size=settings.batch_size, device=data.x.device
                ),
                settings=settings,
                serves=range(len(members)),
                finish=self._start_from_plain,
            ),
        )

    def _start_from_plain(self, history: History) -> History:
        """Copy the plain networks to the predictor, and keep their scores."""
        copy_members(self._plain, self._predictor, torch.ones_like(self._trains))
        output, _ = self._plain.evaluate(self._data.x)
        self._plain_scores = self._plain.task.score(output)
        return history

    def losses(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Return the squared error at the middle of pairs, and the penalty, (K,) each."""
        self._predictor.eval()
        partners, has_partner = self._partners(rows, resampled)
        _, weight = self._data.pair_weights(rows, partners)
        weight = has_partner.to(self._data.x.dtype) if weight is None else weight * has_partner
        weight = mean_one(weight)
        with torch.no_grad():
            own, other = (
                self._layers.first_hidden(take(self._data.x, r)) for r in (rows, partners)
            )
        mixed = (other[:, None] + self._shares * (own - other)[:, None]).flatten(1, 2)
        output = self._layers.behind_first_hidden(mixed)
        score = self._predictor.task.score(output)
        score = score.view(len(score), len(self._shares), *rows.shape[1:], -1)
        middle = score[:, 0]
        target = (self._plain_score(rows) + self._plain_score(partners)) / 2
        error = (middle - target).square().mean(-1)
        difference = (score[:, 1:] - middle[:, None]).abs().mean((1, 3))
        task, penalty = ((loss * weight).mean(-1) for loss in (error, difference))
        # Members of strength 0 do not change: their loss is reported without a gradient.
        return torch.where(self._trains, task, task.detach()), penalty

    def _plain_score(self, rows: Tensor) -> Tensor:
        """Return the scores (K, B, s) of the plain networks for rows (K, B)."""
        index = rows.unsqueeze(-1).expand(*rows.shape, self._plain_scores.shape[-1])
        return self._plain_scores.gather(1, index)


class Partners:
    """For each row, the rows with equal Y and different A among those that a member may see.

    Rows are sorted by class and, within a class, by A. The partners of a row are then the range of
    its class without the range of its own A. Rows with unknown A take no part.
    """

    def __init__(self, data: TrainingData, attribute: Tensor, members: Sequence[Member]) -> None:
        assert data.outcome_class is not None
        distinct = list(dict.fromkeys(member.rows for member in members))
        device = data.x.device
        self._which = torch.tensor([[distinct.index(m.rows)] for m in members], device=device)
        _, value = torch.unique(attribute, dim=0, return_inverse=True)
        known = torch.ones_like(value, dtype=torch.bool) if data.known is None else data.known
        tables = [
            _ranges(row_numbers(rows, len(data), device), data.outcome_class, value, known)
            for rows in distinct
        ]
        counts = [len(row_numbers(rows, len(data))) for rows in distinct]
        self._rows = torch.tensor(counts, device=device)[:, None]
        self._order, self._rank, self._start, self._own_start, self._own, self._count = (
            torch.stack(parts) for parts in zip(*tables, strict=True)
        )
        if not self._count.any():
            raise InputError(
                "method='neu' needs rows with equal y and different sensitive features, got none: "
                "within each class of y they are the same; use another method"
            )

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Return a partner for each of rows (K, B), and whether it has one; (K, B) each.

        ``resampled`` (K, B) provides the randomness: its rank among all rows is turned into a rank
        among the possible partners. For a row without partners the row itself is returned.
        """
        which = self._which
        count, start = self._count[which, rows], self._start[which, rows]
        position = start + self._rank[which, resampled] * count // self._rows[which[:, 0]]
        # Skip the rows that have the same A.
        skip = position >= self._own_start[which, rows]
        position = position + skip * self._own[which, rows]
        partner = self._order[which, position.clamp_max(self._order.shape[1] - 1)]
        return torch.where(count > 0, partner, rows), count > 0


def _ranges(rows: Tensor, group: Tensor, value: Tensor, known: Tensor) -> tuple[Tensor, ...]:
    """Return six tensors (n,): the sorted rows, and five numbers for each of the n rows.

    These are its rank, where its class starts, where the rows with its own A start, and how many
    rows of its class have the same A and another A. rows: (m,), numbers of the rows in use. group:
    (n,), class of Y. value: (n,), number of the value of A.
    """
    key = group * (value.max() + 1) + value
    eligible = rows[known[rows]]
    sorted_keys, places = key[eligible].sort(stable=True)
    sorted_groups = group[eligible][places]
    start = torch.searchsorted(sorted_groups, group)
    end = torch.searchsorted(sorted_groups, group, right=True)
    own_start = torch.searchsorted(sorted_keys, key)
    own = torch.searchsorted(sorted_keys, key, right=True) - own_start
    order = torch.zeros_like(group)
    order[: len(eligible)] = eligible[places]
    rank = torch.zeros_like(group)
    rank[rows] = torch.arange(len(rows), device=rows.device)
    return order, rank, start, own_start, own, torch.where(known, end - start - own, 0)


DECLARATION = Declaration(
    name="neu",
    title="Neutralized representations",
    reference="Du, Mukherjee, Wang, Tang, Awadallah and Hu (2021), Fairness via representation "
    "neutralization, NeurIPS",
    summary="After plain training, the layers after the first hidden layer are trained further, on "
    "mixtures of rows with equal Y and different A, to give the same score for every mixture.",
    capabilities=Capabilities(numbers=False, representation=False, controls="none"),
    objective=Neutralized,
)
