"""How weights change: settings of optimizers, the optimizers, and the one place where they step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from equipoise.errors import check_choice, check_number
from equipoise.networks import kernels_on
from equipoise.training.workers import average_gradients

#: The module of kernels that update all weights at once.
_KERNELS = "equipoise.training.update_kernels"


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Adam, or stochastic gradient descent with momentum as in the paper.

    ``weight_decay`` is for Adam only. Before each step every weight shrinks by the fraction
    learning_rate * weight_decay (decoupled; Loshchilov and Hutter 2019).
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
        # As floats, since torch refuses whole numbers beyond 64 bits.
        for name in ("learning_rate", "momentum", "weight_decay"):
            object.__setattr__(self, name, float(getattr(self, name)))

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimizer for these parameters, which must be on their device already."""
        weights = list(parameters)
        rate: float | Tensor = self.learning_rate
        if weights[0].is_cuda or kernels_on(weights[0].device, _KERNELS):
            # A CUDA graph and kernels read the learning rate from a tensor.
            rate = torch.tensor(rate, dtype=torch.float32, device=weights[0].device)
        if self.kind == "sgd":
            return SGD(weights, rate, self.momentum)
        return Adam(weights, rate)


@dataclass(frozen=True)
class _Flat:
    """Weights of an optimizer and their moments, one after the other in one tensor each.

    The tensors of the networks and of the optimizer's state are views of these.
    """

    tensors: Mapping[str, Tensor]  # (n,) each: the weights, and moments by name
    step: Tensor  # the number of the latest step
    places: Tensor  # of members in the weights, as the kernels want them

    @property
    def kernels(self) -> Any:
        return kernels_on(self.tensors["weights"].device, _KERNELS)

    def holds(self, views: Iterable[Mapping[str, Tensor]]) -> bool:
        """Whether these are all the views, in this order; others may have taken their place."""
        begin = 0
        for view in views:
            for name, flat in self.tensors.items():
                if name not in view or view[name].data_ptr() != flat[begin:].data_ptr():
                    return False
            begin += view["weights"].numel()
        return begin == len(self.tensors["weights"])


class _Optimizer(torch.optim.Optimizer):
    """Updates of weights, without what loads torch's compiler.

    Its own optimizers load it when they are built, which takes about a second.
    """

    #: What is kept for each weight, and what of that has its shape.
    kept: tuple[str, ...]
    moments: tuple[str, ...]
    flat: _Flat | None = None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        weights = {"params": list(param_group["params"])}
        self.param_groups.append(self.defaults | param_group | weights)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Change all weights that have a gradient."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            gradients = [weight.grad for weight in weights]
            self.flat = self._laid_flat(weights)
            if self.flat is None:
                self.update(group, weights, gradients)
            else:
                flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
                self.update_flat(group, self.flat, flat)

    @abstractmethod
    def update(
        self, group: Mapping[str, Any], weights: list[Tensor], gradients: list[Tensor]
    ) -> None:
        """Change these weights of a group by torch's own operations."""

    @abstractmethod
    def update_flat(self, group: Mapping[str, Any], flat: _Flat, gradients: Tensor) -> None:
        """Change the weights by the kernels for them."""

    def _laid_flat(self, weights: list[Tensor]) -> _Flat | None:
        """Return these weights and their moments as flat tensors; None where no kernel is."""
        kernels = kernels_on(weights[0].device, _KERNELS)
        if kernels is None or any(weight.dtype != torch.float32 for weight in weights):
            return None
        views = ({"weights": weight, **self.state[weight]} for weight in weights)
        if self.flat is not None and self.flat.holds(views):
            return self.flat
        steps = {float(self.state[weight].get("step", 0)) for weight in weights}
        if len(steps) > 1:  # some have had a gradient more often than others
            return None
        step = weights[0].new_tensor(steps.pop())
        flat = {"weights": torch.cat([weight.reshape(-1) for weight in weights])}
        for name in self.moments:
            of_each = (self.state[weight].get(name) for weight in weights)
            pairs = zip(weights, of_each, strict=True)
            filled = [torch.zeros_like(own) if kept is None else kept for own, kept in pairs]
            flat[name] = torch.cat([each.reshape(-1) for each in filled])
        begin = 0
        for weight in weights:
            end = begin + weight.numel()
            views_of = {name: each[begin:end].view(weight.shape) for name, each in flat.items()}
            weight.data = views_of.pop("weights")
            self.state[weight] = views_of | ({"step": step} if "step" in self.kept else {})
            begin = end
        return _Flat(flat, step, kernels.places_of(weights))


class Adam(_Optimizer):
    """Adam (Kingma and Ba 2015)."""

    moments = ("exp_avg", "exp_avg_sq")
    kept = (*moments, "step")
    _settings: Mapping[str, Any] = MappingProxyType({"beta1": 0.9, "beta2": 0.999, "eps": 1e-8})

    def __init__(self, weights: Sequence[Tensor], rate: float | Tensor) -> None:
        super().__init__(weights, {"lr": rate})

    def update(
        self, group: Mapping[str, Any], weights: list[Tensor], gradients: list[Tensor]
    ) -> None:
        for weight in weights:
            if not self.state[weight]:
                count = torch.zeros((), dtype=torch.float32, device=weight.device)
                moments = torch.zeros_like(weight), torch.zeros_like(weight)
                self.state[weight] = dict(zip(self.kept, (*moments, count), strict=True))
        first, second, counts = (
            [self.state[weight][name] for weight in weights] for name in self.kept
        )
        adam(
            weights,
            gradients,
            first,
            second,
            [],
            counts,
            fused=_fused(weights),
            # The count is on the device, as a CUDA graph needs it.
            capturable=weights[0].is_cuda,
            amsgrad=False,
            lr=group["lr"],
            weight_decay=0.0,
            maximize=False,
            **self._settings,
        )

    def update_flat(self, group: Mapping[str, Any], flat: _Flat, gradients: Tensor) -> None:
        flat.step.add_(1)
        weights, first, second = (flat.tensors[name] for name in ("weights", *self.moments))
        given = weights, gradients, first, second, flat.step, group["lr"]
        flat.kernels.adam(*given, **self._settings)


class SGD(_Optimizer):
    """Stochastic gradient descent with momentum."""

    moments = kept = ("momentum_buffer",)

    def __init__(self, weights: Sequence[Tensor], rate: float | Tensor, momentum: float) -> None:
        super().__init__(weights, {"lr": rate, "momentum": momentum})

    def update(
        self, group: Mapping[str, Any], weights: list[Tensor], gradients: list[Tensor]
    ) -> None:
        (name,) = self.kept
        buffers: list[Tensor | None] = [self.state[weight].get(name) for weight in weights]
        sgd(
            weights,
            gradients,
            buffers,
            fused=_fused(weights),
            weight_decay=0.0,
            momentum=group["momentum"],
            lr=group["lr"],
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        for weight, buffer in zip(weights, buffers, strict=True):
            self.state[weight][name] = buffer

    def update_flat(self, group: Mapping[str, Any], flat: _Flat, gradients: Tensor) -> None:
        weights, moments = (flat.tensors[name] for name in ("weights", *self.moments))
        flat.kernels.sgd(weights, gradients, moments, group["lr"], group["momentum"])


def _fused(weights: Sequence[Tensor]) -> bool:
    """Whether one call can update all weights; torch has it for these devices."""
    return weights[0].device.type in ("cpu", "cuda")


def minimize(
    losses: Tensor | Sequence[Tensor],
    optimizer: torch.optim.Optimizer,
    shares: Sequence[Tensor] | None = None,
) -> None:
    """Take one step down the losses (K,), or down their sum weighted by shares (K,).

    Members share no weights, so the gradient of the sum over members is each member's own gradient.
    """
    terms = [losses] if isinstance(losses, Tensor) else list(losses)
    # What `zero_grad` does, without its bookkeeping, which takes longer than a small layer.
    for group in optimizer.param_groups:
        for weight in group["params"]:
            weight.grad = None
    # Shares are passed as gradients of the losses, which saves a multiplication.
    torch.autograd.backward(
        terms, [torch.ones_like(term) for term in terms] if shares is None else list(shares)
    )
    average_gradients(optimizer)
    optimizer.step()


@torch.no_grad()
def decay(optimizer: torch.optim.Optimizer, shares: Tensor) -> None:
    """Shrink the weights of each member by learning rate * shares (K,)."""
    flat = optimizer.flat if isinstance(optimizer, _Optimizer) else None
    (group, *_) = optimizer.param_groups
    # Weights that have had no gradient do not lie there, and others may have been replaced.
    views = ({"weights": weight, **optimizer.state[weight]} for weight in group["params"])
    if flat is not None and flat.holds(views):
        flat.kernels.shrink(flat.tensors["weights"], flat.places, shares, group["lr"])
        return
    for group in optimizer.param_groups:
        factor = 1 - group["lr"] * shares
        for weight in group["params"]:
            weight.mul_(factor.view(-1, *[1] * (weight.dim() - 1)))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate from the next step on."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
