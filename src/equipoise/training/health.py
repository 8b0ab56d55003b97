"""The health of a trained member: did training end well, and if not, what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equipoise.training.data import Member, TrainingData
from equipoise.training.loop import History
from equipoise.training.predictor import Predictor

#: Number of rows, drawn at random, on which a member is judged; more would not change the result.
HEALTH_ROWS = 8_000
#: A model overfits if its utility on training rows exceeds that on other rows by OVERFIT_BY plus
#: OVERFIT_ERRORS standard errors of the difference.
OVERFIT_BY = 0.05
OVERFIT_ERRORS = 2.0
#: Standard errors above the chance level that a score must reach; 95 % of useless scores do not.
ABOVE_CHANCE = 1.645
#: A score is nearly constant if its standard deviation is below this share of the outcome's.
CONSTANT_SHARE = 0.01
#: A critic should notice a linear correlation this large. It forces the divergence above
#: BLIND_VALUE: 2 JS is about r^2 / 4, which is 0.01 at r = 0.2.
VISIBLE_CORRELATION = 0.2
BLIND_VALUE = 0.001
#: Guessing gives 0. A critic below this value no longer follows the score.
LOST_VALUE = -0.01
#: At LARGE_STRENGTH or more, a critic's value above STRONG_VALUE means that the penalty had little
#: effect.
STRONG_VALUE = 0.3
LARGE_STRENGTH = 0.9


@dataclass(frozen=True)
class Health:
    """How training of one member ended."""

    score_spread: float  # standard deviation of the score on training rows, over the outcome's
    #: Largest absolute linear correlation of the score and an encoded attribute (given Y under
    #: separation); None without attributes.
    correlation: float | None
    critic_value: float | None  # average of the penalty over the last check; None without a critic
    stopped_at: int  # first iteration with a loss that was not finite, or 0
    messages: tuple[str, ...]  # problems and what to do about them; empty if there are none
    #: Name of the utility, such as "AUC", and its values; None without rows besides training rows.
    utility: str | None = None
    part: str = "validation"  # the rows that the model did not train on
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
            return "healthy on training rows; overfitting not checked: there were no other rows"
        return (
            f"healthy: {self.utility} {self.training_utility:.3f} on training rows, "
            f"{self.held_out_utility:.3f} on {self.part} rows"
        )


@dataclass(frozen=True)
class Utility:
    """Utility of one model on some rows, and the number of rows of each class.

    ``sizes`` has one number for a continuous outcome, otherwise one for each class. Rows with
    weights w count as (sum w)^2 / sum w^2 rows (Kish 1965).
    """

    name: str  # "AUC", "macro AUC", "R2" or "D2 absolute error"
    value: float
    sizes: tuple[float, ...]

    @property
    def error(self) -> float:
        """The standard error, or an upper bound on it.

        For R2 it is at most 2 (1 - R2) / sqrt(n) if rows are normal. D2 of the absolute error
        varies less, since absolute errors vary less than squared ones. A macro AUC is a mean over
        classes, so its standard error is at most the mean of theirs.
        """
        if len(self.sizes) == 1:
            return 2 * (1 - self.value) / math.sqrt(self.sizes[0])
        return _auc_error(self.value, self.sizes)

    @property
    def chance(self) -> float:
        """The value that a score independent of the outcome exceeds in 5 % of samples.

        For AUC this is 0.5 + 1.645 sqrt((m + n + 1) / (12 m n)), by the rank test. R2 is at most
        the squared correlation r^2 of score and outcome, and n r^2 is about chi-squared. D2 of the
        absolute error is at most c / n times chi-squared, c = 1 / (4 f(m) E|Y - m|) for the density
        f(m) of Y at its median m (Koenker and Machado 1999). c is at most 1 if f is largest at m.
        """
        if len(self.sizes) == 1:
            return ABOVE_CHANCE**2 / self.sizes[0]
        return 0.5 + ABOVE_CHANCE * _auc_error(0.5, self.sizes)


def _auc_error(auc: float, sizes: Sequence[float]) -> float:
    """Mean over classes of the standard error of the AUC of that class against the others."""
    total = sum(sizes)
    spread = auc_spread(auc, total)
    return sum(math.sqrt(spread / (size * (total - size))) for size in sizes) / len(sizes)


def auc_spread(auc: float, rows: float) -> float:
    """Variance of an AUC times m n, for m positives and n negatives, m + n = `rows`.

    It is A (1 - A) (1 + k (1 - A) / (2 - A) + k A / (1 + A)), where k = (m + n) / 2 - 1: the
    formula of Hanley and McNeil (1982) with the mean of both sizes (Newcombe 2006). At A = 1/2 it
    is that of the rank test.
    """
    k = max(0.0, rows / 2 - 1)
    return auc * (1 - auc) * (1 + k * (1 - auc) / (2 - auc) + k * auc / (1 + auc))


def compare(
    health: Health,
    strength: float,
    trained: Utility,
    other: Utility,
    *,
    part: str,
    remedy: str | None = None,
) -> Health:
    """Add messages on overfitting and on useless scores, from the utility on two sets of rows.

    ``part`` names the rows of ``other``, such as "validation". ``remedy`` names options that help
    against overfitting; None if training stopped where these rows were predicted best, so that
    there is nothing to mend.
    """
    if not (math.isfinite(trained.value) and math.isfinite(other.value)):
        return health
    messages = list(health.messages)
    excess = trained.value - other.value
    if remedy is not None and excess > OVERFIT_BY + OVERFIT_ERRORS * math.hypot(
        trained.error, other.error
    ):
        messages.append(
            f"The model overfits: {trained.name} {trained.value:.3f} on training rows, "
            f"{other.value:.3f} on {part} rows. Try {remedy}, or give it more rows."
        )
    # A nearly constant score has a message of its own already.
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
        part=part,
        training_utility=trained.value,
        held_out_utility=other.value,
    )


@dataclass(frozen=True)
class Failure:
    """A network of a phase before the run whose loss was no longer finite."""

    needed_by: str  # the option that needs the network
    label: str  # the phase
    step: int  # the step at which it failed
    untrained: bool  # whether it had learned nothing before, so its members cannot be trained

    def __str__(self) -> str:
        result = (
            "before it had learned anything, so this member was not trained"
            if self.untrained
            else "and it keeps its last good weights"
        )
        return (
            f"{self.needed_by} trains a network before the run ({self.label}): its loss was no "
            f"longer finite at step {self.step}, {result}. Look for extreme values in X, y, "
            "sensitive_features and sample_weight."
        )


def failures_in(
    history: History, members: Sequence[int], *, needed_by: str, label: str
) -> list[tuple[Failure, ...]]:
    """Return the failure of each member's network in a phase, if it failed.

    members: (K,), which network of ``history`` each member uses.
    """
    first_check = history.iterations[0]
    failures = {
        network: (Failure(needed_by, label, int(step), bool(step <= first_check)),)
        for network, step in enumerate(history.stopped_at)
        if step
    }
    return [failures.get(network, ()) for network in members]


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
    """Judge every member of ``predictor`` on a sample of its own rows and by the history so far.

    failures: for each member, failures of networks that were trained for it before the run.
    """
    samples = {
        rows: data.sample(HEALTH_ROWS, rows)
        for rows in dict.fromkeys(member.rows for member in members)
    }
    if len(samples) == 1:
        (seen,) = samples.values()
        _, penalized = predictor.evaluate(seen.x)
    else:  # each member on its own rows alone
        x = torch.stack([samples[member.rows].x for member in members])
        with torch.no_grad():
            _, penalized = predictor(x.to(predictor.weight.dtype))
    samples = {rows: seen.to(torch.device("cpu")) for rows, seen in samples.items()}
    penalized = penalized.cpu()
    found = [() for _ in members] if failures is None else failures
    values = history.penalty[-1] if has_critic else [None] * len(members)
    judged = []
    for place, each in enumerate(zip(members, values, history.stopped_at, found, strict=True)):
        seen = samples[each[0].rows]
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
    """Judge a member by its penalized values (n, w) on training rows and its critic's last value.

    ``value`` is None without a critic, because other penalties have other scales.
    """
    # Spread of the widest column of the score, relative to the spread of the outcome.
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
            "treats all groups alike but predicts nothing. Lower the strength (now "
            f"{member.strength}) or train longer."
        )
    elif correlation is not None and critic_value is not None:
        messages.extend(_about_critic(correlation, critic_value, member.strength))
    return Health(spread, correlation, critic_value, int(stopped_at), tuple(messages))


def _about_critic(correlation: float, value: float, strength: float) -> list[str]:
    """Return a message if the critic misses the dependence, or still sees a strong one."""
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
    if value > STRONG_VALUE and strength >= LARGE_STRENGTH:
        return [
            f"At strength {strength} the critic still sees a strong dependence (value "
            f"{value:.2f}): the features may tell little beyond the sensitive attribute. Train "
            "longer, or look for features that stand for it."
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
    """Residuals of the columns after a least-squares fit on the context, scaled to unit length."""
    # The context of one-hot outcomes is singular (they sum to one), hence the pseudo-inverse.
    residual = columns - context @ (torch.linalg.pinv(context) @ columns)
    length = torch.linalg.vector_norm(residual, dim=0).clamp_min(1e-9 * len(columns) ** 0.5)
    unit: Tensor = residual / length
    return unit
