"""Divergences between real pairs and resampled pairs, as functions of critic outputs.

Each is the variational form E_P[T] - E_Q[f*(T)] of a divergence D(P || Q), where P is the law of
(score, A) and Q that of (score, A'), written so that a critic whose output is 0 everywhere, that
is, one that only guesses, gives exactly 0 whatever the weights; training the critic maximizes the
value towards the divergence. (Nowozin, Cseke and Tomioka 2016; Arjovsky, Chintala and Bottou 2017.)
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
    """What a critic output c counts for a real pair, and for a resampled one; both are 0 at 0."""

    real_term: Callable[[Tensor], Tensor]
    resampled_term: Callable[[Tensor], Tensor]

    def __call__(
        self,
        real: Tensor,
        resampled: Tensor,
        real_weight: Tensor | None = None,
        resampled_weight: Tensor | None = None,
    ) -> Tensor:
        """Return the value (K,) of critic outputs (K, n) on real and on resampled pairs.

        Weights, where given, are (K, n) too and multiply the terms before the mean.

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
    """Mean (K,) of values (K, n) with weights (K, n) that average one; None are all one."""
    return (values if weight is None else values * weight).mean(-1)


#: What the best critic attains, and its output. "js" is twice the Jensen-Shannon divergence (the
#: paper's R_F, shifted to be 0 at independence, so that strengths mean the same as there); "kl" the
#: Kullback-Leibler divergence, here the mutual information; "hellinger" the squared Hellinger
#: distance, in [0, 2]: the output is the log density ratio. "chi2" is Pearson's divergence: the
#: output is the density ratio less one. "wasserstein" is the Wasserstein-1 distance by duality, for
#: critics whose gradient is at most one.
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
