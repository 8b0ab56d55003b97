"""How many bits about A the score leaks: mutual information, found by the library's critic.

The critic learns the log density ratio c between real pairs (score, A) and pairs whose A was
resampled. On rows it never saw,

    E_real[c] - E_resampled[exp(c) - 1]  <=  I(score; A),

whatever c is, with equality for the true ratio (Nguyen, Wainwright and Jordan 2010); divided by
log 2 it is in bits. Given y, A is resampled among rows of equal y and the bound is for
I(score; A | y).

**Bias.** In expectation the value is a lower bound: what the critic failed to learn is missing, and
a critic that learned noise makes it fall below zero. So a value at or below zero says that the
critic found nothing, and a positive one how much there is at least, up to the standard error. It
cannot report more than about log2(rows) bits (McAllester and Stratos 2020), and far below that
its scatter grows with the information itself. For a continuous y, A is resampled within 2 n^(1/3)
groups of neighbouring y; what y tells about A inside a group adds to the value then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor, nn

from equipoise.critic import CriticGame, CriticSettings
from equipoise.errors import InputError, check_whole
from equipoise.metrics.arrays import as_scores
from equipoise.metrics.outcome import OutcomeKind, kind_where_given, outcome_array
from equipoise.metrics.strata import rows_of, strata_of
from equipoise.networks import copy_members
from equipoise.tables import SensitiveTable
from equipoise.tables.kinds import standardized_ranks
from equipoise.training import BatchStream, Member, OptimizerSettings, run
from equipoise.training.members import generators
from equipoise.training.step import minimize

Floats = NDArray[np.float64]

#: Most rows that are used; drawn at random where there are more.
LEAKAGE_ROWS = 20_000
_FOLDS = 2
_STOP_SHARE = 0.2
_BATCH = 512
_CHECK_EVERY = 50
_PATIENCE = 5
_SETTINGS = CriticSettings(
    divergence="js",  # the same optimum as "kl", reached by calmer steps
    hidden=(32, 32),
    normalization="none",
    optimizer=OptimizerSettings(learning_rate=4e-3),
)
# Resampled partners per held-out row, and blocks of rows the standard error is taken over.
_DRAWS = 16
_BLOCKS = 20


@dataclass(frozen=True)
class Leakage:
    """A lower bound, in expectation, for the bits about A that the score holds.

    Attributes
    ----------
    bits, standard_error : ndarray of float64
        (K,) for scores (K, n), scalar arrays for scores (n,).
    rows : int
        Rows the value was computed on, each by a critic that had not seen it.
    """

    bits: Floats
    standard_error: Floats
    rows: int


def leakage(
    scores: Any,
    sensitive_features: SensitiveTable,
    *,
    y: Any = None,
    outcome: OutcomeKind | None = None,
    iterations: int = 2_000,
    random_state: int = 0,
) -> Leakage:
    """Estimate how many bits about A the score leaks, jointly for all columns.

    Two critics per score are trained, each on one half of the rows (a fifth of it decides when to
    stop), and each is asked about the half it has not seen.

    Parameters
    ----------
    scores : array of shape (n,) or (K, n)
    sensitive_features : SensitiveTable
        Rows with a missing value are left out; at most `LEAKAGE_ROWS` rows are used.
    y : array of shape (n,), optional
        Estimate what the score tells about A beyond y: I(score; A | y).
    outcome : {"binary", "multiclass", "continuous"}, optional
        Kind of y, by the rules of `equipoise.metrics.outcome` unless given.
    iterations : int
        Most training steps of the critics.
    random_state : int
        Fixes everything random.

    Returns
    -------
    Leakage
    """
    check_whole("iterations", iterations)
    check_whole("random_state", random_state, least=0)
    matrix = as_scores(scores).cpu().numpy()
    rows = rows_of(matrix, sensitive_features, y)
    if len(rows) < 100:
        raise InputError(
            "scores must have at least 100 rows, for leakage to train a critic and to ask it, got "
            f"{len(rows)}"
        )
    random = np.random.default_rng(random_state)
    rows = random.permutation(rows)[:LEAKAGE_ROWS]
    rows = rows[: len(rows) // _FOLDS * _FOLDS]
    strata, context = _strata(y, outcome, rows)
    pairs = _Pairs(
        matrix[:, rows], sensitive_features.take(rows).encode(), strata, context, random_state
    )
    step = _CriticStep(pairs, random_state)
    _train(step, iterations)
    values = pairs.held_out_values(step.best)
    bits = values / math.log(2)
    error = bits.std(axis=0, ddof=1) / math.sqrt(len(bits))
    shape = np.shape(scores)[:-1]  # no K axis where none was given
    return Leakage(bits.mean(axis=0).reshape(shape), error.reshape(shape), len(rows))


def _strata(
    y: Any, outcome: OutcomeKind | None, rows: NDArray[np.intp]
) -> tuple[NDArray[np.int64], Floats | None]:
    """Stratum of every row, and y as the critic sees it, (n, v)."""
    kind = kind_where_given(y, outcome)
    if kind is None:
        return np.zeros(len(rows), dtype=np.int64), None
    values = outcome_array(y)[rows]
    strata = strata_of(values, kind, groups=round(2 * len(rows) ** (1 / 3)))
    if kind == "continuous":
        return strata, standardized_ranks(values.astype(np.float64))[:, None]
    return strata, np.eye(int(strata.max()) + 1)[strata]


class _Pairs:
    """Rows as tensors, in folds: member k * folds + f has score k and is asked about fold f."""

    def __init__(
        self,
        scores: Floats,
        attribute: NDArray[np.float32],
        strata: NDArray[np.int64],
        context: Floats | None,
        random_state: int,
    ) -> None:
        n = scores.shape[1]
        fold = np.arange(n) % _FOLDS  # rows come shuffled
        self.asked = [np.flatnonzero(fold == f) for f in range(_FOLDS)]
        self.fitted, self.stopping = [], []
        for f in range(_FOLDS):
            others = np.flatnonzero(fold != f)
            aside = round(_STOP_SHARE * len(others))
            self.stopping.append(others[:aside])
            self.fitted.append(others[aside:])
        self.members = len(scores) * _FOLDS
        self.scores = torch.stack(
            [_normal_scores(score, score[rows]) for score in scores for rows in self.fitted]
        )
        self._attribute = torch.from_numpy(attribute)
        self._context = None if context is None else torch.from_numpy(context).float()
        self._strata = strata
        self._random = np.random.default_rng(random_state)

    @property
    def widths(self) -> tuple[int, int, int]:
        """Widths of score, attribute and outcome in the critic's input."""
        return 1, self._attribute.shape[1], 0 if self._context is None else self._context.shape[1]

    def partners(self, rows: NDArray[np.intp], among: NDArray[np.intp]) -> NDArray[np.intp]:
        """Another random row of its stratum for each of `rows`, all of which are in `among`."""
        order = among[np.argsort(self._strata[among], kind="stable")]
        sizes = np.bincount(self._strata[among], minlength=int(self._strata.max()) + 1)
        first = np.cumsum(sizes) - sizes
        place = np.empty(len(self._strata), dtype=np.int64)
        place[order] = np.arange(len(order))
        stratum = self._strata[rows]
        size = sizes[stratum]
        # A shift by 1 to size - 1 inside the stratum; a row alone in it has only itself.
        shift = 1 + (self._random.random(len(rows)) * (size - 1)).astype(np.int64)
        return np.asarray(order[first[stratum] + (place[rows] - first[stratum] + shift) % size])

    def value(self, game: CriticGame, rows: Tensor, partners: Tensor) -> Tensor:
        """What `game` makes of real and resampled pairs; rows, partners: (M, B). Returns (M,)."""
        score = self.scores.gather(1, rows).unsqueeze(-1)
        context = None if self._context is None else self._context[rows]
        return game.value(score, self._attribute[rows], self._attribute[partners], context)

    def per_member(self, by_fold: list[NDArray[np.intp]]) -> Tensor:
        """Rows (M, B) from rows of each fold."""
        return torch.from_numpy(np.stack(by_fold)).repeat(self.members // _FOLDS, 1)

    def held_out_values(self, game: CriticGame) -> Floats:
        """Bound in nats on blocks of rows the critics have not seen, (blocks, K)."""
        asking = CriticGame(
            *self.widths,
            settings=replace(game.settings, divergence="kl"),
            generators=[torch.Generator() for _ in range(self.members)],
        )
        asking.load_state_dict(game.state_dict())
        asking.eval()
        size = len(self.asked[0]) // _BLOCKS
        values = torch.zeros(_BLOCKS, self.members, dtype=torch.float64, device="cpu")
        with torch.no_grad():
            for _ in range(_DRAWS):
                drawn = [self.partners(rows, rows) for rows in self.asked]
                rows, partners = self.per_member(self.asked), self.per_member(drawn)
                for block in range(_BLOCKS):
                    # The last block takes the rows that remain.
                    end = (block + 1) * size if block + 1 < _BLOCKS else None
                    some = slice(block * size, end)
                    values[block] += self.value(asking, rows[:, some], partners[:, some]) / _DRAWS
        # Both folds are blocks of the same score.
        return np.concatenate(values.view(_BLOCKS, -1, _FOLDS).permute(2, 0, 1).numpy())


class _CriticStep:
    """One update of all critics."""

    def __init__(self, pairs: _Pairs, random_state: int) -> None:
        self.pairs = pairs
        self.seeds = [random_state] * pairs.members
        self.game = CriticGame(
            *pairs.widths, settings=_SETTINGS, generators=generators(self.seeds, "critic")
        )
        self.game.start()
        self.best = CriticGame(
            *pairs.widths, settings=_SETTINGS, generators=generators(self.seeds, "critic")
        )
        self.modules: nn.Module = self.game

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Train on one batch; A is resampled within strata, not from `resampled`."""
        drawn = [
            self.pairs.partners(rows[f].numpy(), fitted)
            for f, fitted in enumerate(self.pairs.fitted)
        ]
        loss = -self.pairs.value(self.game, rows, self.pairs.per_member(drawn))
        minimize(loss, self.game.optimizer)
        return loss.detach(), torch.zeros_like(loss)


def _train(step: _CriticStep, iterations: int) -> None:
    """Train until no critic gets better on its stopping rows; `step.best` keeps the best."""
    pairs = step.pairs
    stopping = pairs.per_member(pairs.stopping)
    partners = [
        pairs.per_member([pairs.partners(rows, rows) for rows in pairs.stopping]) for _ in range(4)
    ]
    best = torch.zeros(pairs.members, dtype=torch.float32, device="cpu")  # a critic that guesses
    waited = torch.zeros(pairs.members, dtype=torch.long, device="cpu")

    def keep_best(_: int) -> bool:
        nonlocal best, waited
        step.game.eval()
        with torch.no_grad():
            value = torch.stack([pairs.value(step.game, stopping, p) for p in partners]).mean(0)
        step.game.train()
        better = value > best
        copy_members(step.game, step.best, better)
        best, waited = torch.where(better, value, best), torch.where(better, 0, waited + 1)
        return bool((waited >= _PATIENCE).all())

    _guess(step.best)
    members = [
        Member(0.0, seed, tuple(pairs.fitted[m % _FOLDS].tolist()))
        for m, seed in enumerate(step.seeds)
    ]
    stream = BatchStream(
        members, len(pairs.scores[0]), batch_size=_BATCH, device=torch.device("cpu")
    )
    run(step, stream, iterations=iterations, check_every=_CHECK_EVERY, on_check=keep_best)


def _guess(game: CriticGame) -> None:
    """Make every critic answer 0, so that one that never learned anything reports exactly 0."""
    with torch.no_grad():
        for parameter in game.critic.parameters():
            parameter.zero_()


def _normal_scores(score: Floats, reference: Floats) -> Tensor:
    """Normal quantiles of the ranks of `score` (n,) among `reference` (m,), float32 (n,).

    Information does not change under increasing maps, and a critic reads a Gaussian score best.
    """
    ascending = np.sort(reference)
    below = np.searchsorted(ascending, score, side="left")
    up_to = np.searchsorted(ascending, score, side="right")
    return torch.from_numpy(ndtri(((below + up_to) / 2 + 0.5) / (len(reference) + 1))).float()
