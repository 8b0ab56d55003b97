"""Critics that predict a binary attribute from the score or from a hidden layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from equipoise.critic import frozen
from equipoise.methods.batch_penalties import standardized
from equipoise.methods.declaration import CRITIC, Capabilities, Context, Declaration
from equipoise.networks import StackedLinear
from equipoise.training.data import row_numbers
from equipoise.training.optimizers import minimize


class AttributeCritic:
    """K critics that predict A, which is 0 or 1.

    The penalty is H(A) minus the critic's log loss. Under separation the critic sees Y as well, and
    H(A | Y) takes the place of H(A). The best critic attains the mutual information, in nats, of A
    and the values that it sees (given Y). A critic that knows only the frequency of A gives 0. The
    gradient of the penalty is the reversed gradient of the log loss.
    """

    def __init__(self, context: Context) -> None:
        data, critic = context.data, context.critic
        assert data.attribute_cell is not None  # continuous attributes were refused already
        self._data = data
        self._steps = critic.steps
        self._group = (data.attribute_cell > 0).to(data.x.dtype)
        self._outcome = context.outcome
        # Continuous outcomes were refused already.
        given = None if self._outcome is None else data.outcome_class
        stratum = torch.zeros_like(self._group, dtype=torch.long) if given is None else given
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
            # Every critic starts with the log odds of A among its member's rows.
            head.bias.copy_(torch.logit(torch.stack(rates), eps=1e-6)[:, None])
        self._optimizer = critic.optimizer.build(self._critic.parameters())
        self.networks: nn.Module = self._critic

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Train the critics on this batch, then return their value (K,)."""
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

    group: (n,), zeros and ones. stratum: (n,), numbers of strata. weight: (n,).
    """
    cell = (2 * stratum + group.long()).cpu()
    counts = torch.bincount(cell, weight.cpu().double(), 2 * (int(stratum.max()) + 1))
    joint = counts.view(-1, 2) / counts.sum()
    of_pairs, of_strata = (torch.special.entr(table).sum() for table in (joint, joint.sum(1)))
    entropy: Tensor = of_pairs - of_strata
    return entropy


#: The original censors a representation, and may reconstruct X from it as well. Here the critic
#: sees the score, or the representation of a FairEncoder, and nothing is reconstructed.
EDWARDS_STORKEY = Declaration(
    name="edwards_storkey",
    title="Censoring by a critic that predicts A",
    reference="Edwards and Storkey (2015), Censoring representations with an adversary, "
    "arXiv:1511.05897",
    summary="A critic predicts A from the score; the predictor learns to make the critic's log "
    "loss as large as if it knew only how frequent A is.",
    capabilities=Capabilities(
        separation=False, continuous=False, mixed=False, many_groups=False, numbers=False
    ),
    build=AttributeCritic,
    options=CRITIC,
)

#: The original adds a hidden layer to a network; a branch from this layer predicts A, with its
#: gradient reversed. Here it is the last hidden layer. Under separation the branch sees Y as well.
ADEL = Declaration(
    name="adel",
    title="Gradient reversal at a hidden layer",
    reference="Adel, Valera, Ghahramani and Weller (2019), One-network adversarial fairness, AAAI",
    summary="A critic predicts A from the last hidden layer; its reversed gradient trains this "
    "layer to reveal nothing about A.",
    capabilities=Capabilities(continuous=False, mixed=False, many_groups=False, numbers=False),
    build=AttributeCritic,
    options=CRITIC,
    sits_on="hidden",
)
