"""Parity of decision rates: SP and EO of the paper, demographic parity and equalized odds.

A rate is the share of positive decisions in a set of rows; where nothing is decided (a continuous
outcome), the mean score takes its place, as in supplement D.3 of Sohn, Song and Lin (2024).
Independence metrics look at all rows; separation metrics at each class of Y, or at the rows with Y
at most each decile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from equipoise.metrics.outcome import OutcomeKind
from equipoise.metrics.partition import Partition
from equipoise.metrics.registry import Computed, Metric, register_metric
from equipoise.metrics.sample import Sample
from equipoise.notions import Notion
from equipoise.tables import Kind


class Departures(NamedTuple):
    """Signed departures from parity, all 0 or all equal for parity, and how to size them up."""

    signed: Tensor  # (..., R, K, sets of A, sets of within)
    size: Callable[[Tensor], Tensor]  # seminorm of such a tensor, (R, K)
    denominators: dict[str, Tensor]  # (R, K, sets of within), by whose rate was divided by


def cell_sums(values: Tensor, weights: Tensor, codes: Tensor, n_cells: int) -> Tensor:
    """Weighted sum of each of K values (K, n) in each cell, under R weightings.

    weights: (R, n); codes: (n,) cell of each row. Returns (R, K, n_cells).
    """
    draws = len(weights)
    sums = torch.zeros((draws, len(values), n_cells), dtype=weights.dtype, device=weights.device)
    index = codes.expand(draws, -1)
    for k, row in enumerate(values):  # member by member: (R, n) is all that need be in memory
        sums[:, k].scatter_add_(1, index, weights * row)
    return sums


def rates(sample: Sample, within: Partition) -> tuple[Tensor, Tensor]:
    """Decision rate of each set of A, and of all rows, inside each set of `within`.

    Returns (R, K, sets of A, sets of within) and (R, K, 1, sets of within); NaN for empty sets.
    """
    attribute = sample.attribute
    shape = (attribute.n_bins, within.n_bins)
    codes = attribute.codes * within.n_bins + within.codes
    n_cells = shape[0] * shape[1]
    responses = sample.scored.responses
    sums = cell_sums(responses, sample.weights, codes, n_cells)
    sizes = cell_sums(torch.ones_like(responses[:1]), sample.weights, codes, n_cells)
    sums, sizes = sums.view(*sums.shape[:2], *shape), sizes.view(*sizes.shape[:2], *shape)
    sums, sizes = within.pool(sums, -1), within.pool(sizes, -1)
    overall = sums.sum(-2, keepdim=True) / sizes.sum(-2, keepdim=True)
    return attribute.pool(sums, -2) / attribute.pool(sizes, -2), overall


def relative_departures(sample: Sample, within: Partition) -> Departures:
    """Rate / reference rate - 1 of every set of A; undefined for a reference rate of 0.

    Discrete A: every group against the reference group. Continuous A: the rows at or below each
    decile against all rows. Their size is the sum (levels) or mean (deciles) of absolute values.
    Where several groups are equally large and none is named, each is tried as the reference and the
    largest size counts, so that no name or order of groups decides.
    """
    of_sets, overall = rates(sample, within)
    if sample.attribute.nested:
        bases = {"everybody": overall}
    else:
        labels = sample.attribute.labels
        bases = {labels[g]: of_sets[..., g : g + 1, :] for g in sample.references}
    signed = torch.stack(
        [torch.where(base == 0, torch.nan, of_sets / base - 1) for base in bases.values()]
    )
    denominators = {label: base[..., 0, :] for label, base in bases.items()}

    def size(signed: Tensor) -> Tensor:
        return within.combine(sample.attribute.combine(signed.abs(), -2), -1).amax(0)

    return Departures(signed, size, denominators)


def rate_departures(sample: Sample, within: Partition) -> Departures:
    """Decision rates of the groups; their size is the range, the largest over `within`."""
    of_sets, _ = rates(sample, within)
    return Departures(of_sets, _range, {})


def log_rate_departures(sample: Sample, within: Partition) -> Departures:
    """Logarithms of the groups' rates; exp(-size) is lowest over highest rate.

    Undefined where every group has rate 0.
    """
    of_sets, _ = rates(sample, within)
    return Departures(of_sets.log(), _range, {"every group": of_sets.amax(-2)})


def _range(signed: Tensor) -> Tensor:
    return (signed.amax(-2) - signed.amin(-2)).amax(-1)


def _reasons(
    sample: Sample, within: Partition, values: Tensor, found: Departures
) -> tuple[str | None, ...]:
    """Why each member's value (R, K) is undefined under the first weighting, or None."""
    # Read at once: on an accelerator every look at a single value waits for all before it.
    undefined = values[0].isnan().tolist()
    empty = sample.empty_set(within) if any(undefined) else None
    rate = "mean score" if sample.scored.threshold is None else "rate of positive decisions"

    def of_member(k: int) -> str:
        for label, base in found.denominators.items():
            for (s,) in (base[0, k] == 0).nonzero().tolist():
                where = f"{label} in {within.labels[s]}"
                return f"the {rate} of {where} is 0, so the ratio has no denominator"
        return f"the {rate} of a group is beyond what a float can hold; rescale the scores"

    return tuple((empty or of_member(k)) if nan else None for k, nan in enumerate(undefined))


def _register(
    name: str,
    notion: Notion,
    departures: Callable[[Sample, Partition], Departures],
    description: str,
    formula: str,
) -> None:
    """Enrol the size of departures among all rows, or among rows of equal outcome, as a metric."""
    is_ratio = departures is log_rate_departures
    of_paper = departures is relative_departures
    both: frozenset[Kind] = frozenset({"discrete", "continuous"})
    numbers: frozenset[OutcomeKind] = frozenset({"binary", "continuous"})

    def compute(sample: Sample) -> Computed:
        within = sample.within(notion)
        found = departures(sample, within)
        size = found.size(found.signed)
        values = torch.exp(-size) if is_ratio else size
        return Computed(values, _reasons(sample, within, values, found))

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
            # Within Y <= y the groups differ in Y itself, and so do their scores.
            exact_for=frozenset(
                {"binary", "multiclass"} if notion.conditions_on_outcome else get_args(OutcomeKind)
            ),
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
    "How far the groups' decision rates are from the reference, in proportion.",
    "discrete A: sum over a of |P(D=1 | A=a) / P(D=1 | A=ref) - 1|; "
    "continuous A: mean over the nine deciles a of |P(D=1 | A<=a) / P(D=1) - 1|; "
    "continuous Y: E(score | .) instead of P(D=1 | .)",
)
_register(
    "EO",
    Notion.SEPARATION,
    relative_departures,
    "SP among rows of equal outcome, added up over the outcomes.",
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
