"""Early stopping: rows that a member does not train on tell when it is at its best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isqrt
from typing import Any

import torch
from torch import Tensor

from equipoise.errors import InputError
from equipoise.training.data import Member, RowSet, TrainingData, generator, row_numbers, take
from equipoise.training.predictor import Predictor
from equipoise.training.workers import mean

#: Share of the rows that a member sets aside.
ASIDE = 0.2
#: With fewer rows none are set aside: a handful of them would not tell when to stop.
FEWEST_TO_STOP = 20
#: Most rows to set aside; more would cost time and hardly change the moment to stop.
MOST_ASIDE = 5_000


def set_aside(
    seed: int,
    rows: RowSet | None,
    n: int,
    share: float,
    *,
    needed_by: str,
    most: int | None = None,
    part: int = 0,
) -> tuple[RowSet, Tensor]:
    """Split rows at random by the member's seed: rows to train on, and rows for early stopping.

    ``rows`` are those of the n rows that the member may see (None means all). ``needed_by`` is the
    option that needs the split. ``most`` limits the number of rows set aside. Different ``part``s
    of the same seed have no row in common, as long as there are enough rows; then the rows are
    shuffled anew.
    """
    available = row_numbers(rows, n)
    aside = max(2, round(share * len(available)))
    aside = aside if most is None else min(aside, most)
    again, part = divmod(part, max(1, len(available) // aside))
    draws = generator(seed + again, "held-out rows")
    order = torch.randperm(len(available), generator=draws, device="cpu")
    if len(available) - aside < 2:
        raise InputError(
            f"{needed_by} needs at least 4 rows, got n_samples={len(available)}; give more rows"
        )
    order = order.roll(-part * aside)
    return RowSet(available[order[aside:]]), available[order[:aside]]


def with_rows_aside(
    members: Sequence[Member], n: int, classes: Tensor | None = None
) -> list[Member]:
    """Give members different rows to set aside, drawn by the seed of the first.

    n: number of all rows. If there are ``classes`` (n,), every class keeps a training row.
    """
    found = []
    for part, member in enumerate(members):
        rows, aside = set_aside(
            members[0].seed,
            member.rows,
            n,
            ASIDE,
            needed_by="early_stopping",
            most=MOST_ASIDE,
            part=part,
        )
        if classes is not None:
            rows, aside = _with_every_class(rows, aside, classes)
        found.append(replace(member, rows=rows, aside=RowSet(aside)))
    return found


def _with_every_class(rows: RowSet, aside: Tensor, classes: Tensor) -> tuple[RowSet, Tensor]:
    """If only rows set aside have a class, swap one of them with a row of the largest class."""
    training, aside, classes = rows.numbers.clone(), aside.clone(), classes.cpu()
    for missing in sorted(set(classes[aside].tolist()) - set(classes[training].tolist())):
        place = int((classes[aside] == missing).nonzero()[0])
        largest = int(torch.bincount(classes[training]).argmax())
        other = int((classes[training] == largest).nonzero()[-1])
        back = int(aside[place])
        aside[place], training[other] = training[other].clone(), back
    return RowSet(training), aside


class EarlyStopping:
    """Keeps each of K members at its smallest ``loss(penalty)`` (K,), on rows it does not train on.

    tensors: what makes a member, (K, ...) each. Training ends once every member has gone
    ``patience`` iterations without a smaller loss; what a member kept until then is final, as if it
    trained alone. With ``at_once`` such a member returns to its best at once, and not only when
    all are done. ``penalty`` (K,) is the average penalty since the last check.
    """

    def __init__(
        self,
        tensors: Iterable[Tensor],
        loss: Callable[[Tensor], Tensor],
        *,
        patience: int,
        at_once: bool = False,
    ) -> None:
        self._tensors, self._loss, self._patience = list(tensors), loss, patience
        self._at_once = at_once
        self.best = [tensor.detach().clone() for tensor in self._tensors]
        members, device = len(self.best[0]), self.best[0].device
        self.least = torch.full((members,), torch.inf, device=device)
        self._since = torch.zeros(members, dtype=torch.long, device=device)
        self._done = torch.zeros(members, dtype=torch.bool, device=device)

    @torch.no_grad()
    def __call__(self, iteration: int, penalty: Tensor) -> bool:
        """Compare all members with their best; return whether training can end."""
        loss = mean(self._loss(penalty).to(self.least))
        better = ~self._done & (loss < self.least)
        for kept, tensor in zip(self.best, self._tensors, strict=True):
            kept.copy_(torch.where(better.view(-1, *[1] * (tensor.dim() - 1)), tensor, kept))
        self.least = torch.where(better, loss, self.least)
        self._since = torch.where(better, iteration, self._since)
        self._done |= iteration - self._since >= self._patience
        if self._at_once:
            self._return(self._done)
        return bool(self._done.all())

    @torch.no_grad()
    def restore(self) -> None:
        """Return every member to its best."""
        self._return(self.least < torch.inf)

    def _return(self, which: Tensor) -> None:
        """Return the members (K,) of which this is true to their best."""
        for kept, tensor in zip(self.best, self._tensors, strict=True):
            tensor.copy_(torch.where(which.view(-1, *[1] * (tensor.dim() - 1)), kept, tensor))

    def state_dict(self) -> dict[str, Any]:
        return {
            "best": self.best,
            "least": self.least,
            "since": self._since,
            "done": self._done,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for kept, saved in zip(self.best, state["best"], strict=True):
            kept.copy_(saved)
        device = self.least.device
        self.least, self._since = state["least"].to(device), state["since"].to(device)
        self._done = state["done"].to(device)


class TradeOff:
    """(1 - strength) * task + strength * penalty of each member; the task on rows it set aside.

    With ``counts`` the penalty is a divergence, and `counted_divergence` measures it: a critic that
    is still learning would see little dependence at first, and the start would look best. It is
    counted on training rows, too, since networks learn outcomes by heart but hardly dependence. On
    fewer rows chance would decide which weights look fair. Any other penalty counts as it was on
    the training rows. ``given_outcome`` says whether the notion conditions on Y.
    """

    def __init__(
        self,
        predictor: Predictor,
        data: TrainingData,
        members: Sequence[Member],
        *,
        counts: bool,
        given_outcome: bool,
    ) -> None:
        self._predictor = predictor
        device = data.x.device
        rows = torch.stack([row_numbers(member.aside, len(data), device) for member in members])
        self._target, self._weight = take(data.target, rows), data.task_weight(rows)
        self._strength = data.outcome.new_tensor([member.strength for member in members])
        self._groups: Tensor | None = None
        if counts and data.attribute is not None and bool((self._strength > 0).any()):
            more = MOST_ASIDE - rows.shape[1]
            if more > 0 and members[0].rows is not None:
                training = [row_numbers(member.rows, len(data), device) for member in members]
                rows = torch.cat([rows, torch.stack([each[:more] for each in training])], dim=1)
            self._share = data.row_weights(rows)
            self._stratum = torch.zeros_like(rows)
            if given_outcome:
                classes = data.outcome_class
                numbers = take(data.outcome[:, 0], rows)
                self._stratum = (
                    equal_parts(numbers, FEWEST_PARTS) if classes is None else take(classes, rows)
                )
            self._parts = count_parts(rows.shape[1] // (1 + int(self._stratum.max())))
            self._groups = equal_parts(take(data.attribute, rows).movedim(-1, 1), self._parts)
        self._x = take(data.x, rows)

    def __call__(self, penalty: Tensor) -> Tensor:
        """Return the trade-off (K,); ``penalty`` (K,) is that on the training rows."""
        output, penalized = self.evaluated()
        task = self.task_loss(output[:, : self._target.shape[1]])
        if self._groups is not None:
            score = equal_parts(penalized.movedim(-1, 1).to(self._share), self._parts)
            counted = score, self._groups, self._stratum, self._share
            penalty = counted_divergence(*counted, parts=self._parts)
        return torch.lerp(task, penalty.to(task).clamp_min(0), self._strength.to(task))

    def evaluated(self) -> tuple[Tensor, Tensor]:
        """Return outputs (K, m, o) and penalized values (K, m, w); rows set aside are first."""
        predictor = self._predictor.eval()
        found: tuple[Tensor, Tensor] = predictor(self._x)
        predictor.train()
        return found

    def task_loss(self, output: Tensor) -> Tensor:
        """Return the task loss (K,) of outputs for the rows set aside."""
        return self._predictor.task.loss(output, self._target, self._weight)


#: Scores and continuous attributes are cut into so many parts of equal size, the more the more
#: rows: parts hide what happens within one, and chance grows with their number.
FEWEST_PARTS, MOST_PARTS = 4, 10
#: p parts need (p - 1)^2 times so many rows.
_ROWS_OF_A_SQUARE = 50


def count_parts(rows: int) -> int:
    """Return the number of parts in which chance gives a divergence of at most 0.005.

    The `counted_divergence` of independent columns is (parts - 1)^2 / (4 rows) on average.

    >>> [count_parts(rows) for rows in (100, 1_800, 5_000)]
    [4, 7, 10]
    """
    return min(max(1 + isqrt(rows // _ROWS_OF_A_SQUARE), FEWEST_PARTS), MOST_PARTS)


def equal_parts(values: Tensor, parts: int) -> Tensor:
    """Return the part, from 0 on, that each of the values (..., m) falls into; ties fall together.

    >>> equal_parts(torch.tensor([[5.0, 1.0, 2.0, 9.0], [0.0, 1.0, 0.0, 0.0]]), 4)
    tensor([[2, 0, 1, 3],
            [0, 3, 0, 0]])
    """
    ordered = values.sort(-1).values.contiguous()
    below = torch.searchsorted(ordered, values.contiguous())
    return below * parts // values.shape[-1]


def counted_divergence(
    score: Tensor, groups: Tensor, stratum: Tensor, share: Tensor, *, parts: int
) -> Tensor:
    """Return twice the Jensen-Shannon divergence (K,) between p(score, A) and p(score) p(A).

    score (K, w, m), groups (K, d, m): parts, of which a 0/1 column has two. stratum (K, m): the
    divergence is that given the stratum. share (K, m): weights of the rows. The largest over the
    columns counts, less what chance gives on average: (parts - 1)^2 / (4 m) for each stratum.
    """
    strata = int(stratum.max()) + 1
    largest = torch.zeros(len(score), dtype=share.dtype, device=share.device)
    for one in score.unbind(1):
        for other in groups.unbind(1):
            cell = (stratum * parts + one) * parts + other
            counts = share.new_zeros(len(score), strata * parts * parts)
            joint = counts.scatter_add(1, cell, share).view(-1, strata, parts, parts)
            total = joint.sum((-2, -1), keepdim=True).clamp_min(1e-12)
            product = joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True) / total
            middle = ((joint + product) / 2).clamp_min(1e-12)
            found = torch.xlogy(joint, joint / middle) + torch.xlogy(product, product / middle)
            used = (product.sum(-1) > 0).sum(-1) - 1, (product.sum(-2) > 0).sum(-1) - 1
            chance = (used[0] * used[1]).clamp_min(0).sum(-1) / (4 * score.shape[-1])
            largest = torch.maximum(largest, found.sum((1, 2, 3)) - chance)
    return largest
