"""Divergences between real pairs and resampled pairs, as functions of critic outputs.

Let P be the distribution of (score, A) and Q that of (score, A'). Each function is the variational
form E_P[T] - E_Q[f*(T)] of a divergence D(P || Q). Training the critic raises this value towards
the divergence. A critic that only guesses has output 0 everywhere and gives exactly 0, whatever the
weights. (Nowozin, Cseke and Tomioka 2016; Arjovsky, Chintala and Bottou 2017.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from equipoise.errors import InputError


@dataclass(frozen=True)
class Divergence:
    """Terms that a critic output c adds for a real and for a resampled pair; both are 0 at c=0."""

    real_term: Callable[[Tensor], Tensor]
    resampled_term: Callable[[Tensor], Tensor]

    def __call__(
        self,
        real: Tensor,
        resampled: Tensor,
        real_weight: Tensor | None = None,
        resampled_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the value (K,) from critic outputs (K, n) on real and on resampled pairs.

        Weights are (K, n), too, and multiply the terms before the mean.

        >>> guess = torch.zeros(1, 4)
        >>> DIVERGENCES["js"](guess, guess)
        tensor([0.])
        """
        if real.shape != resampled.shape:
            raise InputError(
                "critic outputs on real and resampled pairs must have one shape, got "
                f"{tuple(real.shape)} and {tuple(resampled.shape)}"
            )
        return weighted_mean(self.real_term(real), real_weight) + weighted_mean(
            self.resampled_term(resampled), resampled_weight
        )


def weighted_mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Mean (K,) of values (K, n) with weights (K, n) of mean one; None means equal weights."""
    return (values if weight is None else values * weight).mean(-1)


#: Divergences by name, with the value that the best critic attains.
#: "js": twice the Jensen-Shannon divergence. This is the paper's R_F, shifted to be 0 at
#: independence, so strengths mean the same as in the paper.
#: "kl": the Kullback-Leibler divergence, here the mutual information of score and A.
#: "hellinger": the squared Hellinger distance, in [0, 2].
#: "chi2": Pearson's divergence.
#: "wasserstein": the Wasserstein-1 distance by duality, for critics whose gradient is at most one.
#: The best critic outputs the log density ratio for "js", "kl" and "hellinger", and the density
#: ratio minus one for "chi2".
DIVERGENCES: Mapping[str, Divergence] = MappingProxyType(
    {
        "js": Divergence(
            lambda c: logsigmoid(c) + math.log(2), lambda c: logsigmoid(-c) + math.log(2)
        ),
        "kl": Divergence(lambda c: c, lambda c: -torch.expm1(c)),
        "chi2": Divergence(lambda c: 2 * c, lambda c: -2 * c - c.square()),
        "hellinger": Divergence(lambda c: -torch.expm1(-c / 2), lambda c: -torch.expm1(c / 2)),
        "wasserstein": Divergence(lambda c: c, lambda c: -c),
    }
)
