"""Critics that predict a binary attribute from what is penalized, and how much that tells them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from equipoise.critic import frozen
from equipoise.errors import InputError
from equipoise.methods.declaration import Context
from equipoise.methods.shared.batch import standardized
from equipoise.networks import StackedLinear
from equipoise.training.data import row_numbers
from equipoise.training.loop import minimize


class AttributeCritic:
    """K critics that predict A, 0 or 1; the penalty is how much they lower its entropy.

    That is H(A) less the critics' log loss, with H(A | Y) under separation, where critics see Y as
    well. The best critic attains the mutual information of A and what it sees (given Y), in nats;
    one that knows only how frequent A is gives 0. The gradient is that of the log loss, reversed.
    """

    def __init__(self, context: Context) -> None:
        data, critic = context.data, context.critic
        if data.attribute_cell is None:
            raise InputError(
                "a critic that predicts the sensitive feature needs a discrete one of two groups"
            )
        self._data = data
        self._steps = critic.steps
        self._group = (data.attribute_cell > 0).to(data.x.dtype)
        self._outcome = context.outcome
        stratum = torch.zeros_like(self._group, dtype=torch.long)
        if self._outcome is not None:
            assert data.outcome_class is not None
            stratum = data.outcome_class
        entropies, rates = [], []
        for member in context.members:
            rows = row_numbers(member.rows, len(data), self._group.device)
            weight, group = data.row_weights(rows[None])[0], self._group[rows]
            entropies.append(conditional_entropy(group, stratum[rows], weight))
            rates.append((weight * group).sum())
        self._entropy = torch.stack(entropies).to(self._group)
        width = context.penalized_width + (0 if self._outcome is None else data.outcome.shape[1])
        self._critic = critic.network(width, context.generators("critic")).to(data.x)
        head = self._critic.layers[-1]
        assert isinstance(head, StackedLinear) and head.bias is not None
        with torch.no_grad():
            # Every critic begins with the log odds of A among its member's rows.
            head.bias.copy_(torch.logit(torch.stack(rates), eps=1e-6)[:, None])
        self._optimizer = critic.optimizer.build(self._critic.parameters())
        self.networks: nn.Module = self._critic

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Train the critics on this batch and return what they can tell of A, (K,)."""
        weight = self._data.row_weights(rows)
        seen = standardized(penalized, weight)
        for _ in range(self._steps):
            minimize(-self._value(seen.detach(), rows, weight), self._optimizer)
        with frozen(self._critic):
            return self._value(seen, rows, weight)

    def _value(self, seen: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        if self._outcome is not None:
            seen = torch.cat([seen, self._outcome[rows]], -1)
        logit: Tensor = self._critic(seen).squeeze(-1)
        loss = softplus(logit) - logit * self._group[rows]
        return self._entropy - (loss * weight).sum(-1)


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
