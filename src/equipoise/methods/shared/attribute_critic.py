"""Critics that predict a binary attribute from what is penalized, and how much that tells them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from equipoise.critic import CriticSettings, frozen
from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError
from equipoise.methods.shared.batch_statistics import row_weights, standardized
from equipoise.networks import StackedLinear, StackedMLP
from equipoise.notions import Notion
from equipoise.training import Member, TrainingData
from equipoise.training.members import generators
from equipoise.training.step import minimize


def conditional_entropy(group: Tensor, stratum: Tensor, weight: Tensor) -> Tensor:
    """H(group | stratum) in nats, from weighted counts; a scalar.

    group: (n,) of 0 and 1. stratum: (n,) numbers of strata. weight: (n,).
    """
    cell = (2 * stratum + group.long()).cpu()
    counts = torch.zeros(2 * (int(stratum.max()) + 1), dtype=torch.float64, device="cpu")
    counts.index_add_(0, cell, weight.cpu().double())
    joint = counts.view(-1, 2) / counts.sum()
    of_pairs, of_strata = (torch.special.entr(table).sum() for table in (joint, joint.sum(1)))
    entropy: Tensor = of_pairs - of_strata
    return entropy


class AttributeCritic:
    """K critics that predict A, 0 or 1; the penalty is the entropy that this takes away.

    That is H(A) less the critics' log loss, with H(A | Y) under separation, where critics see Y as
    well. The best critic attains the mutual information of A and what it sees (given Y), in nats;
    one that knows nothing but how frequent A is gives 0. The gradient is that of the log loss,
    reversed.
    """

    def __init__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        penalized_width: int,
        notion: Notion,
        critic: CriticSettings,
        density_ratio: RatioKind,
    ) -> None:
        if data.attribute_cell is None:
            raise InputError(
                "a critic that predicts the sensitive feature needs a discrete one of two groups"
            )
        self._data = data
        self._settings = critic
        self._group = (data.attribute_cell > 0).to(data.x.dtype)
        self._outcome = data.outcome if notion.conditions_on_outcome else None
        self._entropy = self._entropies(members)
        self._critic = StackedMLP(
            penalized_width + (0 if self._outcome is None else data.outcome.shape[1]),
            critic.hidden,
            1,
            generators=generators([member.seed for member in members], "critic"),
            normalization=critic.normalization,
        )
        if critic.normalization != "spectral":
            # A head of zeros: nobody is penalized for what no critic has learned yet.
            nn.init.zeros_(self._critic.head_weight)
        self._critic.to(data.x)
        self._set_base_rates(members)
        self._optimizer = critic.optimizer.build(self._critic.parameters())
        self.networks: nn.Module = self._critic

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Train the critics on this batch and return what they can tell of A, (K,)."""
        weight = row_weights(self._data, rows)
        seen = standardized(penalized, weight)
        for _ in range(self._settings.steps):
            minimize(-self._value(seen.detach(), rows, weight), self._optimizer)
        with frozen(self._critic):
            return self._value(seen, rows, weight)

    def _value(self, seen: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        if self._outcome is not None:
            seen = torch.cat([seen, self._outcome[rows]], -1)
        logit: Tensor = self._critic(seen).squeeze(-1)
        loss = softplus(logit) - logit * self._group[rows]
        return self._entropy - (loss * weight).sum(-1)

    def _entropies(self, members: Sequence[Member]) -> Tensor:
        """Entropy of A (given Y) among each member's rows, (K,)."""
        stratum = torch.zeros_like(self._group, dtype=torch.long)
        if self._outcome is not None:
            assert self._data.outcome_class is not None
            stratum = self._data.outcome_class
        found = []
        for rows in self._rows(members):
            weight = row_weights(self._data, rows[None])[0]
            found.append(conditional_entropy(self._group[rows], stratum[rows], weight))
        return torch.stack(found).to(self._group)

    def _set_base_rates(self, members: Sequence[Member]) -> None:
        """Let every critic begin with the log odds of A among its member's rows."""
        rates = torch.stack(
            [
                (row_weights(self._data, rows[None])[0] * self._group[rows]).sum()
                for rows in self._rows(members)
            ]
        )
        head = self._critic.layers[-1]
        assert isinstance(head, StackedLinear) and head.bias is not None
        with torch.no_grad():
            head.bias.copy_(torch.logit(rates, eps=1e-6)[:, None])

    def _rows(self, members: Sequence[Member]) -> list[Tensor]:
        every = torch.arange(len(self._data), device=self._group.device)
        return [torch.tensor(m.rows, device=every.device) if m.rows else every for m in members]
