"""Early stopping: rows that a member does not train on tell when it is at its best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from equipoise.errors import InputError
from equipoise.training.data import Member, RowSet, TrainingData, generator, row_numbers, take
from equipoise.training.loop import Method
from equipoise.training.predictor import Predictor

#: Share of the rows that a member sets aside; with more than five members each has a part.
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
    of the same seed have no row in common, as long as there are enough rows.
    """
    available = row_numbers(rows, n)
    order = torch.randperm(len(available), generator=generator(seed, "held-out rows"), device="cpu")
    aside = max(2, round(share * len(available)))
    aside = aside if most is None else min(aside, most)
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
    share = min(ASIDE, 1 / len(members))
    found = []
    for part, member in enumerate(members):
        rows, aside = set_aside(
            members[0].seed,
            member.rows,
            n,
            share,
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
    trained alone. ``penalty`` (K,) is the average penalty since the last check.
    """

    def __init__(
        self, tensors: Iterable[Tensor], loss: Callable[[Tensor], Tensor], *, patience: int
    ) -> None:
        self._tensors, self._loss, self._patience = list(tensors), loss, patience
        self.best = [tensor.detach().clone() for tensor in self._tensors]
        members, device = len(self.best[0]), self.best[0].device
        self.least = torch.full((members,), torch.inf, device=device)
        self._since = torch.zeros(members, dtype=torch.long, device=device)

    @torch.no_grad()
    def __call__(self, iteration: int, penalty: Tensor) -> bool:
        """Compare all members with their best; return whether training can end."""
        active = iteration - self._since < self._patience
        loss = self._loss(penalty)
        better = active & (loss < self.least)
        for kept, tensor in zip(self.best, self._tensors, strict=True):
            kept.copy_(torch.where(better.view(-1, *[1] * (tensor.dim() - 1)), tensor, kept))
        self.least = torch.where(better, loss.to(self.least), self.least)
        self._since = torch.where(better, iteration, self._since)
        return bool((iteration - self._since >= self._patience).all())

    @torch.no_grad()
    def restore(self) -> None:
        """Return every member to its best."""
        found = self.least < torch.inf
        for kept, tensor in zip(self.best, self._tensors, strict=True):
            tensor.copy_(torch.where(found.view(-1, *[1] * (tensor.dim() - 1)), kept, tensor))

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "least": self.least, "since": self._since}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for kept, saved in zip(self.best, state["best"], strict=True):
            kept.copy_(saved)
        device = self.least.device
        self.least, self._since = state["least"].to(device), state["since"].to(device)


@runtime_checkable
class Measurable(Protocol):
    """A method whose penalty can be measured without training anything."""

    def value(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Return the same penalty (K,) as `Method.penalty`, without training."""
        ...


class TradeOff:
    """(1 - strength) * task + strength * penalty of each member on the rows it set aside.

    A penalty that cannot be measured without training counts as it was on the training rows.
    """

    def __init__(
        self,
        predictor: Predictor,
        data: TrainingData,
        members: Sequence[Member],
        method: Method | None,
    ) -> None:
        self._predictor, self._method = predictor, method
        device = data.x.device
        rows = [row_numbers(member.aside, len(data), device) for member in members]
        self._rows = torch.stack(rows)
        self._resampled = self._rows.roll(self._rows.shape[1] // 2, 1)
        self._x, self._target = take(data.x, self._rows), take(data.target, self._rows)
        self._weight = data.task_weight(self._rows)
        self._strength = data.outcome.new_tensor([member.strength for member in members])

    def __call__(self, penalty: Tensor) -> Tensor:
        """Return the trade-off (K,); ``penalty`` (K,) is that on the training rows."""
        task, penalized = self.evaluated()
        if self._method is None:
            return task
        if isinstance(self._method, Measurable):
            penalty = self._method.value(penalized, self._rows, self._resampled)
        # A divergence is never negative, but the value of a critic that lags behind can be.
        return torch.lerp(task, penalty.to(task).clamp_min(0), self._strength.to(task))

    def evaluated(self) -> tuple[Tensor, Tensor]:
        """Return the task loss (K,) and the penalized values (K, m, w)."""
        predictor = self._predictor.eval()
        output, penalized = predictor(self._x)
        predictor.train()
        return predictor.task.loss(output, self._target, self._weight), penalized
