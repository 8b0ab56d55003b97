"""Neutralized representations: a head learns on mixtures of rows of equal Y and different A."""

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

#: Shares of the first of two rows in their mixtures; one half is the neutral one.
MIXTURES = (0.6, 0.7, 0.8, 0.9)


class Neutralized:
    """Du et al. 2021: mixtures of pairs (same Y, different A) in place of rows.

    First all members are trained plainly, with the same settings; those of strength 0 stay there.
    Then the first hidden layer is frozen, and the layers behind it learn to give for z = (z1 + z2)
    / 2, the middle of the hidden values of a pair, the middle of what the plain network gave for
    the two (mean squared error), and the same for the mixtures u z1 + (1 - u) z2 (absolute
    difference from the middle, averaged over u in :data:`MIXTURES`). The latter is the penalty.
    Batch normalization keeps the statistics of plain training: those of mixtures, which spread
    less, would be wrong for the rows to predict.
    """

    def __init__(self, context: Context, *, name: str = "neu") -> None:
        data, members, predictor = context.data, context.members, context.predictor
        assert predictor is not None
        self._data = data
        self._predictor = predictor
        asked_by = f"method={name!r} freezes the first hidden layer"
        self._layers = predictor.network.hidden_layers(asked_by)
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
                asked_by=f"method={name!r}",
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
        """Let the predictor start at the plain networks, and keep their scores."""
        copy_members(self._plain, self._predictor, torch.ones_like(self._trains))
        output, _ = self._plain.evaluate(self._data.x)
        self._plain_scores = self._plain.task.score(output)
        return history

    def losses(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Return squared error at the middle of pairs, and roughness towards it, (K,) each."""
        self._predictor.eval()
        partners, found = self._partners(rows, resampled)
        _, weight = self._data.pair_weights(rows, partners)
        weight = mean_one(found.to(self._data.x.dtype) if weight is None else weight * found)
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
        roughness = (score[:, 1:] - middle[:, None]).abs().mean((1, 3))
        task, penalty = ((loss * weight).mean(-1) for loss in (error, roughness))
        # Members of strength 0 stay as they are: their loss is reported, without gradient.
        return torch.where(self._trains, task, task.detach()), penalty

    def _plain_score(self, rows: Tensor) -> Tensor:
        """What the plain networks gave for rows (K, B), (K, B, s)."""
        index = rows.unsqueeze(-1).expand(*rows.shape, self._plain_scores.shape[-1])
        return self._plain_scores.gather(1, index)


class Partners:
    """For each row, the rows of equal Y and different A among those that a member may see.

    Rows are sorted by class and, within it, by A; who may be a partner is then the range of the
    class less the range of the row's own A. Rows of unknown A have no partner and are none.
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
        self._rows = torch.tensor([[len(rows) or len(data)] for rows in distinct], device=device)
        self._order, self._rank, self._start, self._own_start, self._own, self._count = (
            torch.stack(parts) for parts in zip(*tables, strict=True)
        )
        if not self._count.any():
            raise InputError(
                "method='neu' needs rows of equal y whose sensitive features differ, got none; "
                "within each class of y all have the same sensitive features"
            )

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Return a partner for each of rows (K, B), and whether there is one; (K, B) each.

        ``resampled`` (K, B) is the source of randomness: its rank among all rows becomes a rank
        among the possible partners. A row without partner is returned itself.
        """
        which = self._which
        count, start = self._count[which, rows], self._start[which, rows]
        place = self._rank[which, resampled] * count // self._rows[which[:, 0]]
        beyond = start + place >= self._own_start[which, rows]
        position = start + place + beyond * self._own[which, rows]
        partner = self._order[which, position.clamp_max(self._order.shape[1] - 1)]
        return torch.where(count > 0, partner, rows), count > 0


def _ranges(rows: Tensor, group: Tensor, value: Tensor, known: Tensor) -> tuple[Tensor, ...]:
    """Sorted rows, and for every row of all n: rank, start, own start, own and other rows; (n,).

    rows: numbers of the rows that count, (m,). group, value: class and number of A, (n,).
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
    summary="After plain training the layers behind the first hidden one learn anew, on mixtures "
    "of rows of equal Y and different A, to answer alike whatever the mixture.",
    capabilities=Capabilities(numbers=False, representation=False, controls="none"),
    objective=Neutralized,
)
