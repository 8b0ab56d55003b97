"""One iteration: forward once, let the method add its penalty, update the predictor; settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from equipoise.errors import check_choice, check_number, check_whole
from equipoise.training.data import Member, TrainingData, take
from equipoise.training.predictor import Predictor


class Method(Protocol):
    """What a fairness method adds to a step.

    Nothing in :meth:`penalty` may wait for a value from the device or choose a shape by one: on a
    GPU the step is captured once, as a CUDA graph, and replayed. A method that trains networks
    before the run has them in an attribute ``phases``, a sequence of `Phase`.
    """

    #: The auxiliary networks it trains, so that a failing member can be put back as a whole and a
    #: run can be resumed. Their optimizers are attributes of the method or of these networks.
    networks: nn.Module

    def penalty(self, penalized: Tensor, rows: Tensor, resampled: Tensor) -> Tensor:
        """Update the auxiliary networks, then return the penalty (K,) of ``penalized``.

        penalized: (K, B, w) score or representation of the batch. rows, resampled: (K, B) row
        numbers of the batch and of the rows whose attributes stand in for it.
        """
        ...


@runtime_checkable
class Objective(Protocol):
    """A method that replaces the task loss as well; it knows the predictor that it trains.

    What :class:`Method` says of a step and of ``networks`` holds here, too.
    """

    networks: nn.Module

    def losses(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        """Return what takes the place of task loss and penalty, each (K,)."""
        ...


class PredictorStep:
    """(1 - strength) * task + strength * penalty, for every member at once.

    The predictor runs forward once; the method's own updates use that score detached.
    """

    def __init__(
        self,
        predictor: Predictor,
        data: TrainingData,
        members: Sequence[Member],
        *,
        method: Method | Objective | None,
        settings: TrainingSettings,
    ) -> None:
        self._predictor = predictor
        self._data = data
        self._method = method
        strength = data.x.new_tensor([member.strength for member in members])
        self._shares = 1 - strength, strength
        # Decay counters overfitting to the task, so it counts with the task: a member that mostly
        # follows the penalty would lose its weights to it.
        decays = settings.optimizer.kind == "adam" and settings.optimizer.weight_decay > 0
        self._decay = settings.optimizer.weight_decay * (1 - strength) if decays else None
        self._settings = settings
        self._share = 1.0
        self._optimizer = settings.optimizer.build(
            weight for weight in predictor.parameters() if weight.requires_grad
        )
        self.modules: nn.Module = nn.ModuleList([predictor, *([method.networks] if method else [])])

    def prepare(self, iteration: int) -> None:
        share = self._settings.learning_rate_share(iteration - 1)
        if share != self._share:
            set_learning_rate(self._optimizer, share * self._settings.optimizer.learning_rate)
            self._share = share

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return [self._optimizer, *([] if self._method is None else optimizers_of(self._method))]

    def __call__(self, rows: Tensor, resampled: Tensor) -> tuple[Tensor, Tensor]:
        data = self._data
        if self._decay is not None:
            decay(self._optimizer, self._decay)
        method, predictor = self._method, self._predictor
        if isinstance(method, Objective):
            task, penalty = method.losses(rows, resampled)
        else:
            output, penalized = predictor(take(data.x, rows))
            task = predictor.task.loss(output, take(data.target, rows), data.task_weight(rows))
            if method is None:
                minimize(task, self._optimizer)
                return task.detach(), torch.zeros_like(task)
            penalty = method.penalty(penalized, rows, resampled)
        minimize((task, penalty), self._optimizer, self._shares)
        return task.detach(), penalty.detach()


def optimizers_of(method: Method | Objective) -> list[torch.optim.Optimizer]:
    """Optimizers that the method or its networks hold; together they train all of its weights."""
    holders: list[Any] = [method, *method.networks.modules()]
    held = [value for holder in holders for value in vars(holder).values()]
    found = [value for value in held if isinstance(value, torch.optim.Optimizer)]
    trained = {
        id(weight) for each in found for group in each.param_groups for weight in group["params"]
    }
    assert all(id(weight) in trained for weight in method.networks.parameters()), (
        f"{type(method).__name__} hides an optimizer: make it an attribute"
    )
    return found


def minimize(
    losses: Tensor | Sequence[Tensor],
    optimizer: torch.optim.Optimizer,
    shares: Sequence[Tensor] | None = None,
) -> None:
    """Take one step down the losses (K,), or down their sum weighed by shares (K,) each.

    Members add up: the sum over them has each member's own gradient.
    """
    terms = [losses] if isinstance(losses, Tensor) else list(losses)
    optimizer.zero_grad(set_to_none=True)
    # Shares enter as gradients, which saves a multiplication.
    torch.autograd.backward(
        terms, [torch.ones_like(term) for term in terms] if shares is None else list(shares)
    )
    optimizer.step()


@torch.no_grad()
def decay(optimizer: torch.optim.Optimizer, shares: Tensor) -> None:
    """Take the shares (K,) of the learning rate off the weights of each member."""
    for group in optimizer.param_groups:
        kept = 1 - group["lr"] * shares
        for weight in group["params"]:
            weight.mul_(kept.view(-1, *[1] * (weight.dim() - 1)))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate from the next step on."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Adam, or stochastic gradient descent with momentum as in the paper.

    ``weight_decay`` is for Adam alone: before a step every weight shrinks by this share of the
    learning rate (decoupled; Loshchilov and Hutter 2019).
    """

    kind: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.2
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_choice("optimizer", self.kind, ("adam", "sgd"))
        check_number("learning_rate", self.learning_rate, "must be positive", lambda rate: rate > 0)
        check_number("momentum", self.momentum, "must lie in [0, 1)", lambda m: 0 <= m < 1)
        check_number("weight_decay", self.weight_decay, "must not be negative", lambda d: d >= 0)
        # torch takes no whole numbers beyond 64 bits.
        for name in ("learning_rate", "momentum", "weight_decay"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimizer over these parameters, which are on their device already."""
        weights = list(parameters)
        if weights[0].is_cuda:
            return self._build_on_gpu(weights)
        if self.kind == "adam":
            return torch.optim.Adam(weights, lr=self.learning_rate)
        return torch.optim.SGD(weights, lr=self.learning_rate, momentum=self.momentum)

    def _build_on_gpu(self, weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        """One kernel for all weights, and a learning rate that a CUDA graph reads anew."""
        rate = torch.tensor(self.learning_rate, dtype=torch.float32, device=weights[0].device)
        if self.kind == "sgd":
            return torch.optim.SGD(weights, lr=rate, momentum=self.momentum, fused=True)
        adam = torch.optim.Adam(weights, lr=rate, fused=True, capturable=True)
        # torch warns of steps before the capture; ours are on purpose.
        adam._warned_capturable_if_run_uncaptured = True
        return adam


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of one training run.

    ``schedule="decay"`` lowers the predictor's learning rate linearly to zero over the second half
    of the run, so that the last iterate is settled; ``"constant"`` is the paper's.
    """

    iterations: int = 1_500
    batch_size: int = 300
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    schedule: Literal["decay", "constant"] = "decay"
    check_every: int = 50

    def __post_init__(self) -> None:
        for name, least in (("iterations", 1), ("batch_size", 2), ("check_every", 1)):
            check_whole(name, getattr(self, name), least=least)
        check_choice("schedule", self.schedule, ("decay", "constant"))

    def learning_rate_share(self, iteration: int) -> float:
        """Which share of the learning rate applies after ``iteration`` steps."""
        if self.schedule == "constant":
            return 1.0
        return min(1.0, 2 * (1 - iteration / self.iterations))
