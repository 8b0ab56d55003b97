"""Whether training ended well, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equipoise.training.data import Member, TrainingData
from equipoise.training.loop import History
from equipoise.training.predictor import Predictor

#: Rows of a member, drawn at random, that it is judged by; more would not change a verdict.
HEALTH_ROWS = 8_000
#: A model overfits where utility on training rows exceeds that on others by more than this ...
OVERFIT_BY = 0.05
#: ... and as many standard errors of the difference.
OVERFIT_ERRORS = 2.0
#: Standard errors above chance that a score must reach: 95 % of useless scores do not.
ABOVE_CHANCE = 1.645
#: A score whose standard deviation is below this share of the outcome's is called constant.
CONSTANT_SHARE = 0.01
#: A linear correlation this large is plain to see ...
VISIBLE_CORRELATION = 0.2
#: ... and forces the divergence above this value (2 JS is about r^2 / 4 = 0.01 for small r).
BLIND_VALUE = 0.001
#: Guessing gives 0; a critic this far below it no longer follows the score.
LOST_VALUE = -0.01
#: At a strength this large, a critic that still tells pairs apart this well was not hindered.
PLAIN_VALUE = 0.3
LARGE_STRENGTH = 0.9


@dataclass(frozen=True)
class Health:
    """How training of one member ended.

    score_spread: standard deviation of the score on training rows, relative to the outcome's.
    correlation: largest absolute linear correlation of score and encoded attribute (given Y
    under separation); None without attributes. critic_value: the penalty's average over the last
    check; None without a critic. stopped_at: iteration at which the loss was not finite, 0 if
    never. messages: what a person should know; empty when all is well. utility: "AUC", "macro AUC"
    or "R2", with its value on the member's training rows and on rows that did not train; None where
    no such rows were looked at, so that nothing is known about overfitting.
    """

    score_spread: float
    correlation: float | None
    critic_value: float | None
    stopped_at: int
    messages: tuple[str, ...]
    utility: str | None = None
    training_utility: float | None = None
    held_out_utility: float | None = None

    @property
    def ok(self) -> bool:
        """Whether there is nothing to report."""
        return not self.messages

    def __str__(self) -> str:
        if self.messages:
            return "\n".join(self.messages)
        if self.utility is None:
            return "healthy on training rows; overfitting not checked: no other rows were looked at"
        return "healthy"


@dataclass(frozen=True)
class Utility:
    """Utility of one model on some rows, and how many rows of each class speak for it.

    ``sizes`` is one number for R2, else one for each class. Rows of weights w count as
    (sum w)^2 / sum w^2 rows (Kish 1965).
    """

    name: str  # "AUC", "macro AUC" or "R2"
    value: float
    sizes: tuple[float, ...]

    @property
    def error(self) -> float:
        """The standard error.

        That of R2 is at most 2 (1 - R2) / sqrt(n) for normal rows. A macro AUC is a mean over
        classes, so its error is at most the mean of theirs.
        """
        if self.name == "R2":
            return 2 * (1 - self.value) / math.sqrt(self.sizes[0])
        return _auc_error(self.value, self.sizes)

    @property
    def chance(self) -> float:
        """What a score that is independent of the outcome stays below in 95 % of samples.

        For AUC one half and 1.645 errors of the rank test, sqrt((m + n + 1) / (12 m n)). R2 is at
        most the squared correlation r^2 of score and outcome, and n r^2 is then about chi-squared.
        """
        if self.name == "R2":
            return ABOVE_CHANCE**2 / self.sizes[0]
        return 0.5 + ABOVE_CHANCE * _auc_error(0.5, self.sizes)


def _auc_error(auc: float, sizes: Sequence[float]) -> float:
    """The mean over classes of the standard error of an AUC of one class against the others.

    The variance is A (1 - A) (1 + k (1 - A) / (2 - A) + k A / (1 + A)) / (m n), where
    k = (m + n) / 2 - 1: that of Hanley and McNeil (1982) with the mean of both sizes (Newcombe
    2006). At A = 1/2 it is the variance of the rank test.
    """
    total = sum(sizes)
    more = max(0.0, total / 2 - 1)
    spread = auc * (1 - auc) * (1 + more * (1 - auc) / (2 - auc) + more * auc / (1 + auc))
    return sum(math.sqrt(spread / (size * (total - size))) for size in sizes) / len(sizes)


def compare(
    health: Health, strength: float, trained: Utility, other: Utility, *, part: str, remedy: str
) -> Health:
    """Add what utility on training rows and on other rows says of overfitting and of chance.

    ``part`` names the other rows, ``remedy`` the options that help against overfitting.
    """
    if not (math.isfinite(trained.value) and math.isfinite(other.value)):
        return health
    messages = list(health.messages)
    excess = trained.value - other.value
    if excess > OVERFIT_BY + OVERFIT_ERRORS * math.hypot(trained.error, other.error):
        messages.append(
            f"The model overfits: {trained.name} {trained.value:.3f} on training rows, "
            f"{other.value:.3f} on {part} rows. Try {remedy}, or give it more rows."
        )
    # A score that is nearly constant has been told so.
    if other.value <= other.chance and health.score_spread >= CONSTANT_SHARE:
        advice = "Look for features that tell more about it, or give it more rows"
        if strength > 0:
            advice = f"That may be the price of strength {strength}. Lower it, or look for features"
            advice += " that tell more about the outcome"
        messages.append(
            f"The score may say nothing about the outcome: {other.name} {other.value:.3f} on "
            f"{part} rows, where a useless score reaches up to {other.chance:.3f}. {advice}."
        )
    return replace(
        health,
        messages=tuple(messages),
        utility=trained.name,
        training_utility=trained.value,
        held_out_utility=other.value,
    )


@dataclass(frozen=True)
class Failure:
    """A network of a phase before the run whose loss was no longer finite."""

    asked_by: str  # the option that needs the network
    label: str  # the phase
    step: int  # when it failed
    untrained: bool  # it had learned nothing by then, so the member could not be trained

    def __str__(self) -> str:
        result = (
            "before it had learned anything, so this member was not trained"
            if self.untrained
            else "and it keeps its last good weights"
        )
        return (
            f"{self.asked_by} trains a network before the run ({self.label}): its loss was no "
            f"longer finite at step {self.step}, {result}. Look for extreme values in X, y, "
            "sensitive_features and sample_weight."
        )


def failures_in(
    history: History, members: Sequence[int], *, asked_by: str, label: str
) -> list[tuple[Failure, ...]]:
    """Return for each member the failure of its network in a phase, if it failed.

    members: (K,) which network of ``history`` each member uses.
    """
    first = history.iterations[0]
    found = {
        network: (Failure(asked_by, label, int(step), bool(step <= first)),)
        for network, step in enumerate(history.stopped_at)
        if step
    }
    return [found.get(network, ()) for network in members]


def judge_health(
    predictor: Predictor,
    data: TrainingData,
    members: Sequence[Member],
    history: History,
    *,
    given_outcome: bool,
    has_critic: bool,
    failures: Sequence[Sequence[Failure]] | None = None,
) -> tuple[Health, ...]:
    """Judge every member of ``predictor`` by a sample of its own rows and the history up to here.

    ``failures`` are, for each member, those of networks that were trained for it before the run.
    """
    samples: dict[tuple[int, ...], tuple[TrainingData, Tensor]] = {}
    for rows in dict.fromkeys(member.rows for member in members):
        seen = data.sample(HEALTH_ROWS, rows)
        _, penalized = predictor.evaluate(seen.x)
        samples[rows] = seen.to(torch.device("cpu")), penalized.cpu()
    found = [() for _ in members] if failures is None else failures
    values = history.penalty[-1] if has_critic else [None] * len(members)
    judged = []
    for place, each in enumerate(zip(members, values, history.stopped_at, found, strict=True)):
        seen, penalized = samples[each[0].rows]
        judged.append(diagnose(seen, penalized[place], *each, given_outcome=given_outcome))
    return tuple(judged)


def diagnose(
    data: TrainingData,
    penalized: Tensor,
    member: Member,
    value: float | None,
    stopped_at: int,
    failures: Sequence[Failure] = (),
    *,
    given_outcome: bool,
) -> Health:
    """Judge a member by its values (n, w) on training rows and the last ``value`` of its critic.

    Without a critic the penalty has a scale of its own, and its value says nothing here.
    """
    # Spread of the widest score column over the spread of the outcome.
    spread = float(penalized.std(0).max() / data.outcome.std(0).max().clamp_min(1e-12))
    correlation = critic_value = None
    if member.strength > 0 and data.attribute is not None:
        correlation = _largest_correlation(penalized, data, given_outcome)
        critic_value = None if value is None else float(value)
    messages = [str(failure) for failure in failures]
    if stopped_at and not any(failure.untrained for failure in failures):
        messages.append(
            f"The loss was no longer finite at iteration {stopped_at}: this member (strength "
            f"{member.strength}, seed {member.seed}) was stopped and keeps its last good weights. "
            "Try a smaller learning_rate or another divergence."
        )
    if spread < CONSTANT_SHARE:
        messages.append(
            f"The score is nearly constant (its spread is {spread:.1%} of the outcome's): it "
            "tells nothing about anybody, so it treats all groups alike and is of no use. "
            f"Lower the strength (now {member.strength}) or train longer."
        )
    elif correlation is not None and critic_value is not None:
        messages.extend(_about_critic(correlation, critic_value, member.strength))
    return Health(spread, correlation, critic_value, int(stopped_at), tuple(messages))


def _about_critic(correlation: float, value: float, strength: float) -> list[str]:
    """Say whether the critic lost sight of the dependence, or still sees it plainly."""
    remedy = (
        "so the penalty may mitigate little. Try more critic_steps, a larger "
        "critic_learning_rate, critic_normalization='batch' or another divergence."
    )
    if value < LOST_VALUE:
        return [f"The critic collapsed: its value {value:.4f} is worse than guessing (0), {remedy}"]
    if value < BLIND_VALUE and correlation > VISIBLE_CORRELATION:
        return [
            f"The critic collapsed: it sees no dependence (value {value:.4f}) although score and "
            f"sensitive attribute correlate at {correlation:.2f}, {remedy}"
        ]
    if value > PLAIN_VALUE and strength >= LARGE_STRENGTH:
        return [
            f"At strength {strength} the critic still sees a plain dependence (value {value:.2f}): "
            "the features may carry little beyond the sensitive attribute. Train longer, or look "
            "for features that stand for it."
        ]
    return []


def _largest_correlation(penalized: Tensor, data: TrainingData, given_outcome: bool) -> float:
    assert data.attribute is not None
    columns = [penalized, data.attribute, data.outcome]
    if data.known is not None:
        columns = [column[data.known] for column in columns]
    score, attribute, outcome = (column.double() for column in columns)
    context = torch.ones(len(score), 1, dtype=score.dtype, device=score.device)
    if given_outcome:
        context = torch.cat([context, outcome], 1)
    score, attribute = (_unit_residual(context, part) for part in (score, attribute))
    return float((score.T @ attribute).abs().max())


def _unit_residual(context: Tensor, columns: Tensor) -> Tensor:
    """Columns less their least-squares fit on the context, scaled to unit length."""
    # The pseudo-inverse allows for one-hot outcomes, whose columns sum to the constant.
    residual = columns - context @ (torch.linalg.pinv(context) @ columns)
    length = torch.linalg.vector_norm(residual, dim=0).clamp_min(1e-9 * len(columns) ** 0.5)
    unit: Tensor = residual / length
    return unit
