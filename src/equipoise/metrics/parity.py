"""Parity of rates: SP and EO of the paper, demographic parity, equalized odds, and similar metrics.

A decision rate is the share of positive decisions in a set of rows. Without decisions (a continuous
outcome), the mean score replaces it, as in supplement D.3 of Sohn, Song and Lin (2024).
Independence metrics use all rows; separation metrics use each class of Y, or the rows with Y at
most each decile.

Other means are compared between groups in the same way: true and false positive rates and, under
neither notion, precision, accuracy, calibration and the errors of a regression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.metrics.arrays import members_at_once
from equipoise.metrics.by_group import MEANS, GroupMean
from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.partition import Partition
from equipoise.metrics.registry import Computed, Metric, register_metric
from equipoise.metrics.sample import Sample
from equipoise.notions import Notion
from equipoise.tables import Kind


class Departures(NamedTuple):
    """Signed departures from parity, which are all 0 or all equal at parity, and their size."""

    signed: Tensor  # (..., R, K, sets of A, sets of within)
    size: Callable[[Tensor], Tensor]  # seminorm of such a tensor, (R, K)
    denominators: dict[str, Tensor]  # rates (R, K, sets of within) that ratios divide by, by name


def pooled_sums(values: Tensor, sample: Sample, within: Partition) -> tuple[Tensor, Tensor]:
    """Weighted sums of values (K, n) over each set of A and over all rows, inside sets of `within`.

    Returns (R, K, sets of A, sets of within) and (R, K, 1, sets of within).
    """
    attribute, weights = sample.attribute, sample.weights
    shape = (len(weights), len(values), attribute.n_bins * within.n_bins)
    sums = weights.new_zeros(shape)
    index = attribute.codes * within.n_bins + within.codes
    at_once = members_at_once(weights)
    blocks = torch.split(values, at_once), torch.split(sums, at_once, 1)
    for of_members, counted in zip(*blocks, strict=True):
        weighted = weights[:, None] * of_members  # (R, members at once, n)
        counted.scatter_add_(2, index.expand(weighted.shape), weighted)
    sums = within.pool(sums.view(*shape[:2], -1, within.n_bins), -1)
    return attribute.pool(sums, -2), sums.sum(-2, keepdim=True)


def rates(sample: Sample, within: Partition) -> tuple[Tensor, Tensor]:
    """Decision rate of each set of A and of all rows, inside each set of `within`.

    Returns (R, K, sets of A, sets of within) and (R, K, 1, sets of within); NaN for empty sets.
    """
    responses = sample.scored.responses
    sums, total = pooled_sums(responses, sample, within)
    sizes, everybody = pooled_sums(torch.ones_like(responses[:1]), sample, within)
    return sums / sizes, total / everybody


def relative_departures(sample: Sample, within: Partition) -> Departures:
    """Rate / reference rate - 1 of every set of A; undefined for a reference rate of 0.

    Discrete A: every group is compared with the reference group. Continuous A: the rows at or below
    each decile are compared with all rows. The size is the sum (levels) or mean (deciles) of
    absolute values. If several groups are equally large and none is named, each is tried as the
    reference and the largest size counts, so that names and order of groups do not matter.
    """
    of_sets, overall = rates(sample, within)
    denominators = _references(sample, of_sets, overall)
    signed = torch.stack(
        [
            torch.where(base == 0, torch.nan, of_sets / base - 1)
            for base in (each[..., None, :] for each in denominators.values())
        ]
    )

    def size(signed: Tensor) -> Tensor:
        return within.combine(sample.attribute.combine(signed.abs(), -2), -1).amax(0)

    return Departures(signed, size, denominators)


def _references(sample: Sample, of_sets: Tensor, overall: Tensor) -> dict[str, Tensor]:
    """Rates (R, K, sets of within) that ratios divide by: of all rows, or of reference groups."""
    if sample.attribute.nested:
        return {"everybody": overall[..., 0, :]}
    return {sample.attribute.labels[g]: of_sets[..., g, :] for g in sample.references}


def near_zero(sample: Sample, within: Partition) -> dict[str, Tensor]:
    """Whether reference rates are within two standard errors of 0, boolean (R, K, sets of within).

    A ratio to such a rate is too uncertain: an SP of 34 875 only says that hardly anybody in the
    reference group was selected. With k positive decisions in n rows, the rule is
    k (n + 4) <= 4 n: at most three positive decisions, or fewer if n is small.
    """
    responses = sample.scored.responses
    # The rule does not depend on the unit; dividing by a power of two keeps squares finite.
    power = torch.frexp(responses.abs().amax(-1, keepdim=True)).exponent
    small = torch.ldexp(responses, -power)
    sums, squares, sizes = (
        _references(sample, *pooled_sums(values, sample, within))
        for values in (small, small**2, torch.ones_like(small[:1]))
    )
    # mean^2 <= 4 variance / size, with variance = square / size - mean^2, multiplied out.
    return {
        label: total**2 * (sizes[label] + 4) <= 4 * squares[label] * sizes[label]
        for label, total in sums.items()
    }


def rate_departures(sample: Sample, within: Partition) -> Departures:
    """Decision rates of the groups; the size is their range, the largest over `within`."""
    of_sets, _ = rates(sample, within)
    return Departures(of_sets, _range, {})


def log_rate_departures(sample: Sample, within: Partition) -> Departures:
    """Logarithms of the groups' rates; exp(-size) is the lowest over the highest rate.

    Undefined if every group has rate 0.
    """
    of_sets, _ = rates(sample, within)
    return Departures(of_sets.log(), _range, {"every group": of_sets.amax(-2)})


def _range(signed: Tensor) -> Tensor:
    return (signed.amax(-2) - signed.amin(-2)).amax(-1)


def _reasons(
    sample: Sample,
    within: Partition,
    values: Tensor,
    found: Departures,
    unsteady: dict[str, Tensor],
) -> tuple[str | None, ...]:
    """Why each member's value (R, K) is undefined under the first weighting, or None."""
    # Read all at once: on an accelerator, reading each single value would wait.
    undefined = values[0].isnan().tolist()
    empty = sample.empty_set(within) if any(undefined) else None
    rate = "mean score" if sample.scored.threshold is None else "rate of positive decisions"

    def of_member(k: int) -> str:
        for label, base in found.denominators.items():
            near = unsteady.get(label, base == 0)
            for (s,) in near[0, k].nonzero().tolist():
                where = f"the {rate} of {label} in {within.labels[s]}"
                if base[0, k, s] == 0:
                    return f"{where} is 0, so the ratio has no denominator"
                return (
                    f"{where} is {float(base[0, k, s]):.3g}, within two standard errors of 0, so "
                    "a ratio to it could be anything"
                )
        return f"the {rate} of a group is too large for a float; rescale the scores"

    return tuple((empty or of_member(k)) if nan else None for k, nan in enumerate(undefined))


def _register(
    name: str,
    notion: Notion,
    departures: Callable[[Sample, Partition], Departures],
    description: str,
    formula: str,
) -> None:
    """Register the size of departures as a metric."""
    is_ratio = departures is log_rate_departures
    of_paper = departures is relative_departures
    both: frozenset[Kind] = frozenset({"discrete", "continuous"})
    numbers: frozenset[OutcomeKind] = frozenset({"binary", "continuous"})

    def compute(sample: Sample) -> Computed:
        within = sample.within(notion)
        found = departures(sample, within)
        size = found.size(found.signed)
        values = torch.exp(-size) if is_ratio else size
        unsteady = near_zero(sample, within) if of_paper else {}
        for near in unsteady.values():
            values = torch.where(near.any(-1), torch.nan, values)
        return Computed(values, _reasons(sample, within, values, found, unsteady))

    def deviation(sample: Sample, center: Sample) -> Tensor:
        found = departures(sample, sample.within(notion))
        return found.size(found.signed - departures(center, center.within(notion)).signed)

    register_metric(
        Metric(
            name=name,
            notion=notion,
            description=description,
            formula=formula,
            compute=compute,
            attributes=both if of_paper else frozenset({"discrete"}),
            outcomes=numbers if of_paper else frozenset({"binary"}),
            # Among rows with Y <= y the groups differ in Y itself, and so do their scores.
            exact_for=frozenset({"binary"}) if notion is Notion.SEPARATION else numbers,
            needs_decisions=True,
            range=(0.0, float("inf") if of_paper else 1.0),
            fair_value=1.0 if is_ratio else 0.0,
            is_ratio=is_ratio,
            deviation=deviation,
        )
    )


_register(
    "SP",
    Notion.INDEPENDENCE,
    relative_departures,
    "Relative difference between the decision rates of the groups and of the reference.",
    "discrete A: sum over a of |P(D=1 | A=a) / P(D=1 | A=ref) - 1|; "
    "continuous A: mean over the nine deciles a of |P(D=1 | A<=a) / P(D=1) - 1|; "
    "continuous Y: E(score | .) instead of P(D=1 | .)",
)
_register(
    "EO",
    Notion.SEPARATION,
    relative_departures,
    "SP among rows of equal outcome, summed over the outcomes.",
    "binary Y: sum over y of SP among the rows with Y=y; "
    "continuous Y: mean over the nine deciles y of SP among the rows with Y<=y",
)
_register(
    "demographic parity difference",
    Notion.INDEPENDENCE,
    rate_departures,
    "Highest minus lowest decision rate among the groups.",
    "max over a of P(D=1 | A=a) - min over a of P(D=1 | A=a)",
)
_register(
    "demographic parity ratio",
    Notion.INDEPENDENCE,
    log_rate_departures,
    "Lowest over highest decision rate among the groups; 1 is parity.",
    "min over a of P(D=1 | A=a) / max over a of P(D=1 | A=a)",
)
_register(
    "equalized odds difference",
    Notion.SEPARATION,
    rate_departures,
    "Larger of the gaps in true-positive and in false-positive rate.",
    "max over y of (max over a - min over a) of P(D=1 | A=a, Y=y)",
)
_register(
    "equalized odds ratio",
    Notion.SEPARATION,
    log_rate_departures,
    "Smaller of the ratios in true-positive and in false-positive rate.",
    "min over y of (min over a / max over a) of P(D=1 | A=a, Y=y)",
)


def group_means(mean: GroupMean, sample: Sample) -> Tensor:
    """The mean of every group, (R, K, groups, 1); NaN if no row counts."""
    scored = sample.scored
    y = scored.y
    if mean.outcome == "binary":  # the positive class is the second one
        assert scored.outcome is not None
        y = scored.outcome.codes.to(torch.float64)
    values, counted = mean.of(scored.scores, scored.responses, y)
    counted = torch.ones_like(scored.scores[:1]) if counted is None else counted
    sums, _ = pooled_sums(values * counted, sample, sample.everybody)
    sizes, _ = pooled_sums(counted.reshape(-1, counted.shape[-1]), sample, sample.everybody)
    return sums / sizes


def _register_mean(mean: GroupMean, name: str, *, ratio: bool = False) -> None:
    """Register the highest minus the lowest mean of the groups, or the lowest over the highest."""
    lowest, highest = f"min over a of {mean.formula}", f"max over a of {mean.formula}"

    def departures(sample: Sample) -> Tensor:
        of_groups = group_means(mean, sample)
        return of_groups.log() if ratio else of_groups

    def compute(sample: Sample) -> Computed:
        size = _range(departures(sample))
        values = torch.exp(-size) if ratio else size
        return Computed(values, _reasons_of_means(mean, sample, values))

    def deviation(sample: Sample, center: Sample) -> Tensor:
        return _range(departures(sample) - departures(center))

    assert mean.outcome is not None
    first = "Lowest over highest" if ratio else "Highest minus lowest"
    register_metric(
        Metric(
            name=name,
            notion=mean.notion,
            description=f"{first} {mean.name} among the groups{'; 1 is parity' if ratio else ''}.",
            formula=f"{lowest} / {highest}" if ratio else f"{highest} - {lowest}",
            compute=compute,
            attributes=frozenset({"discrete"}),
            outcomes=frozenset({mean.outcome}),
            needs_decisions=mean.uses == "decisions",
            range=(0.0, 1.0 if ratio else mean.limits[1] - mean.limits[0]),
            fair_value=1.0 if ratio else 0.0,
            is_ratio=ratio,
            deviation=deviation,
            from_counts=mean.outcome == "binary",
            needs_probabilities=mean.needs_probabilities,
        )
    )


def _reasons_of_means(mean: GroupMean, sample: Sample, values: Tensor) -> tuple[str | None, ...]:
    """Why each member's value (R, K) is undefined under the first weighting, or None."""
    undefined = values[0].isnan().tolist()
    of_groups = group_means(mean, sample)[0, :, :, 0] if any(undefined) else values
    has = mean.counted or "weight"

    def of_member(k: int) -> str:
        for (g,) in of_groups[k].isnan().nonzero().tolist():
            return f"no row of {sample.attribute.labels[g]} has {has}, so it has no {mean.name}"
        if bool((of_groups[k] == 0).all()):
            return f"the {mean.name} of every group is 0, so the ratio has no denominator"
        return f"the {mean.name} of a group is too large for a float; rescale the scores"

    return tuple(of_member(k) if nan else None for k, nan in enumerate(undefined))


for _of, _name in (
    ("true positive rate", "true positive rate"),
    ("false positive rate", "false positive rate"),
    ("precision", "predictive parity"),
):
    _register_mean(MEANS[_of], f"{_name} difference")
    _register_mean(MEANS[_of], f"{_name} ratio", ratio=True)
for _of, _name in (
    ("false negative rate", "false negative rate"),
    ("accuracy", "accuracy"),
    ("calibration gap", "calibration"),
    ("mean error", "error"),
    ("mean absolute error", "absolute error"),
):
    _register_mean(MEANS[_of], f"{_name} difference")
