"""Taking single members out of a stack, and putting them back.

Every tensor of a stacked module has the member axis first, so members are rows of its state.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn


def member_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All parameters and buffers, each with the member axis K first."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def select_members(module: nn.Module, members: Sequence[int]) -> nn.Module:
    """Return a copy of ``module`` that holds only these members, in this order."""
    chosen = copy.deepcopy(module)
    for part in chosen.modules():
        if hasattr(part, "members"):
            setattr(part, "members", len(members))  # noqa: B010 - nn.Module types it a Tensor
    index = torch.tensor(list(members), dtype=torch.long, device="cpu")
    for _, tensor in member_tensors(chosen):
        tensor.data = tensor.data[index.to(tensor.device)].clone()
        tensor.grad = None
    return chosen


def copy_members(source: nn.Module, target: nn.Module, members: Tensor) -> None:
    """Overwrite the members marked in the boolean (K,) ``members`` of ``target``."""
    with torch.no_grad():
        pairs = zip(member_tensors(source), member_tensors(target), strict=True)
        for (_, new), (_, old) in pairs:
            mask = members.view(-1, *[1] * (old.dim() - 1))
            old.copy_(torch.where(mask, new, old))
