"""Any ``torch.nn.Module``, K times, through ``torch.func``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from equipoise.errors import InputError


class StackedModule(nn.Module):
    """K copies of a user's network, their weights stacked on a leading axis.

    ``factory()`` is called once per seed, with torch's global generator seeded for that call
    and restored afterwards, since a user's module draws its start weights from it. The module
    must map (rows, n_in) to (rows, n_out).
    """

    def __init__(self, factory: Callable[[], nn.Module], *, seeds: Sequence[int]) -> None:
        super().__init__()
        self.members = len(seeds)
        modules = [_seeded(factory, seed) for seed in seeds]
        parameters, buffers = stack_module_state(modules)
        self._names = {name: name.replace(".", "__") for name in (*parameters, *buffers)}
        for name, tensor in parameters.items():
            self.register_parameter(self._names[name], nn.Parameter(tensor.detach()))
        for name, tensor in buffers.items():
            self.register_buffer(self._names[name], tensor)
        # A plain list hides the template from nn.Module: its own weights are never used.
        self._template = [modules[0]]

    def forward(self, x: Tensor) -> Tensor:
        """Return every member's output, (K, rows, n_out)."""
        template = self._template[0].train(self.training)
        state = {name: getattr(self, attribute) for name, attribute in self._names.items()}

        def one_member(state: dict[str, Tensor], rows: Tensor) -> Tensor:
            out: Tensor = functional_call(template, state, (rows,))
            return out

        out: Tensor = vmap(one_member, randomness="different")(state, x)
        if out.dim() != 3:
            raise InputError(
                "network must return one row of outputs per row of inputs, shape (rows, outputs), "
                f"got {tuple(out.shape[1:])} for {x.shape[1]} rows; end it with a Linear layer"
            )
        return out


def _seeded(factory: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = factory()
    if not isinstance(module, nn.Module):
        raise InputError(
            f"network must be a function that returns a torch.nn.Module, it returned "
            f"{type(module).__name__}"
        )
    return module
