"""How a score ranks among people alike in the sensitive attributes, learned before an adjuster.

The distribution function of the score given a, P(S <= s | a), is learned from pairs of a row (s, a)
and the score t of another row: the log odds of s <= t given a, with cross-entropy as the loss. Of
all functions of (t, a) the distribution function has the least (distribution regression: Foresi and
Peracchi 1995, "The conditional distribution of excess returns"). A score whose value is its rank
given a does not depend on a.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from equipoise.divergences import weighted_mean
from equipoise.networks import IncreasingStack, StackedMLP, score_knots
from equipoise.networks.mlp import SINGLE
from equipoise.training import (
    BatchStream,
    Member,
    NetworkStep,
    OptimizerSettings,
    Phase,
    TrainingData,
    TrainingSettings,
    minimize,
    run_phase,
)
from equipoise.training.data import generators, take

#: Iterations after which ranks hardly improve, on 1 000 to 16 000 rows.
RANK_ITERATIONS = 1_000
_BATCH_SIZE = 1_000
_SEED = 0
_OPTIMIZER = OptimizerSettings(learning_rate=1e-2)
#: Widths of the perceptron on a.
_HIDDEN = (32, 32)
#: Most pieces of a score. They are more than those of an adjuster, since all people of some a may
#: have scores that are extreme for everybody else.
_PIECES = 32
#: Standard deviation of the logistic distribution.
_SPREAD = math.pi / math.sqrt(3)


def learn_ranks(data: TrainingData, scores: int, *, iterations: int) -> IncreasingStack:
    """Return a network of the log odds of P(S <= s | a) for each of the first ``scores`` inputs.

    It is learned from all rows of ``data``, whose outcomes are not read. It depends on nothing
    else, so that it is the same for members that train together and apart.
    """
    x = data.x
    knots = score_knots(x[:, :scores], _PIECES)
    by_others = StackedMLP(
        x.shape[1] - scores,
        _HIDDEN,
        scores + sum(map(len, knots)),
        generators=generators([_SEED], "ranks"),
        normalization="none",
    )
    ranks = IncreasingStack(knots, by_others)
    # Where scores have the logistic distribution and do not depend on a, this is the answer.
    ranks.start_linear(0, _SPREAD * torch.eye(scores, **SINGLE), torch.zeros(scores, **SINGLE))
    ranks = ranks.to(x)
    settings = TrainingSettings(iterations=iterations, batch_size=_BATCH_SIZE, optimizer=_OPTIMIZER)
    optimizer = settings.optimizer.build(ranks.parameters())

    def update(rows: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        own, a = take(x, rows).tensor_split([scores], -1)
        drawn = take(x, others)[..., :scores]
        # A tie counts as half below.
        below = ((own < drawn).to(x.dtype) + (own <= drawn).to(x.dtype)) / 2
        output = ranks(torch.cat([drawn, a], -1))
        loss = weighted_mean((softplus(output) - below * output).mean(-1), data.task_weight(rows))
        minimize(loss, optimizer)
        return loss.detach(), torch.zeros_like(loss)

    run_phase(
        Phase(
            label="ranks",
            needed_by="FairAdjuster",
            step=NetworkStep(ranks, update, [optimizer], settings),
            batches=BatchStream(
                [Member(0.0, _SEED)], len(x), batch_size=settings.batch_size, device=x.device
            ),
            settings=settings,
            serves=(0,),
            finish=lambda history: history,
        )
    )
    return ranks.requires_grad_(False)
