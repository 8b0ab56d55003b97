"""Divergences between real pairs and resampled pairs, as functions of critic outputs.

Each is the variational form E_P[T] - E_Q[f*(T)] of a divergence D(P || Q), where P is the law of
(score, A) and Q that of (score, A'), written so that a critic whose output is 0 everywhere, that
is, one that only guesses, gives exactly 0 whatever the weights; training the critic maximises the
value towards the divergence. (Nowozin, Cseke and Tomioka 2016; Arjovsky, Chintala and Bottou 2017.)

``real`` and ``resampled`` are critic outputs (K, n); weights, where given, are of the same shape
and multiply the terms before the mean. All return (K,).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from equipoise.errors import InputError

Divergence = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


def jensen_shannon(
    real: Tensor,
    resampled: Tensor,
    real_weight: Tensor | None = None,
    resampled_weight: Tensor | None = None,
) -> Tensor:
    """Twice the Jensen-Shannon divergence: E log D + E log(1 - D) + 2 log 2, D = sigmoid(output).

    This is the paper's penalty R_F shifted to be 0 at independence, so strengths mean the same.

    >>> guess = torch.zeros(1, 4)
    >>> float(jensen_shannon(guess, guess))
    0.0
    """
    _same_shape(real, resampled)
    return _mean(logsigmoid(real) + math.log(2), real_weight) + _mean(
        logsigmoid(-resampled) + math.log(2), resampled_weight
    )


def kullback_leibler(
    real: Tensor,
    resampled: Tensor,
    real_weight: Tensor | None = None,
    resampled_weight: Tensor | None = None,
) -> Tensor:
    """Kullback-Leibler divergence, here the mutual information: E[c] - E[exp(c) - 1].

    At the optimum the output c is the log density ratio.
    """
    _same_shape(real, resampled)
    return _mean(real, real_weight) - _mean(torch.expm1(resampled), resampled_weight)


def pearson_chi2(
    real: Tensor,
    resampled: Tensor,
    real_weight: Tensor | None = None,
    resampled_weight: Tensor | None = None,
) -> Tensor:
    """Pearson's chi-squared divergence: E[2 c] - E[2 c + c^2]; optimum c = ratio - 1."""
    _same_shape(real, resampled)
    return _mean(2 * real, real_weight) - _mean(
        2 * resampled + resampled.square(), resampled_weight
    )


def squared_hellinger(
    real: Tensor,
    resampled: Tensor,
    real_weight: Tensor | None = None,
    resampled_weight: Tensor | None = None,
) -> Tensor:
    """Squared Hellinger distance, integral of (sqrt p - sqrt q)^2: 2 - E exp(-c/2) - E exp(c/2).

    At the optimum the output c is the log density ratio; the value lies in [0, 2].
    """
    _same_shape(real, resampled)
    return -_mean(torch.expm1(-real / 2), real_weight) - _mean(
        torch.expm1(resampled / 2), resampled_weight
    )


def wasserstein(
    real: Tensor,
    resampled: Tensor,
    real_weight: Tensor | None = None,
    resampled_weight: Tensor | None = None,
) -> Tensor:
    """Wasserstein-1 distance by duality: E[c] - E[c], for critics of slope at most one."""
    _same_shape(real, resampled)
    return _mean(real, real_weight) - _mean(resampled, resampled_weight)


DIVERGENCES: Mapping[str, Divergence] = MappingProxyType(
    {
        "js": jensen_shannon,
        "kl": kullback_leibler,
        "chi2": pearson_chi2,
        "hellinger": squared_hellinger,
        "wasserstein": wasserstein,
    }
)


def parse_divergence(name: str) -> Divergence:
    """Return the divergence called ``name``."""
    try:
        return DIVERGENCES[name]
    except KeyError:
        allowed = ", ".join(map(repr, DIVERGENCES))
        raise InputError(f"divergence must be one of {allowed}, got {name!r}") from None


def _mean(terms: Tensor, weight: Tensor | None) -> Tensor:
    return (terms if weight is None else terms * weight).mean(-1)


def _same_shape(real: Tensor, resampled: Tensor) -> None:
    if real.shape != resampled.shape:
        raise InputError(
            "critic outputs on real and resampled pairs must have one shape, got "
            f"{tuple(real.shape)} and {tuple(resampled.shape)}"
        )
