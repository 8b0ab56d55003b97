"""K copies of a user's ``torch.nn.Module``, stacked with ``torch.func``."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from equipoise.errors import InputError
from equipoise.networks.stack import OnnxGraph, Saved, Stack

CPU = torch.device("cpu")
#: Rows on which a user's network is tried before training.
_TRIED_ROWS = 8
#: A process has one set of global generators, so threads take turns.
_TURN = threading.RLock()


class StackedModule(Stack):
    """K copies of a user's network, their weights stacked on a leading axis.

    ``factory()`` is called once per seed. A user's module draws its initial weights from the global
    generators, so these are seeded for the call and restored afterwards; ``device`` is the device
    whose generator is included. The module must map (rows, n_in) to (rows, n_out). Weights that
    need no gradient are not trained.
    """

    of_user = True

    def __init__(
        self, factory: Callable[[], nn.Module], *, seeds: Sequence[int], device: torch.device = CPU
    ) -> None:
        super().__init__()
        self.members = len(seeds)
        modules = [_made(factory, seed, device) for seed in seeds]
        try:
            parameters, buffers = stack_module_state(modules)
        except (RuntimeError, ValueError, KeyError) as error:
            raise InputError(
                "network must return modules of one kind with initialized weights, got modules "
                f"that cannot be stacked ({_first_line(error)}); build the same layers at every "
                "call and give their sizes"
            ) from error
        _refuse_weights({**parameters, **buffers})
        self._names: dict[str, str] = {}
        for name, tensor in parameters.items():
            weight = nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
            self.register_parameter(self._free_name(name), weight)
        for name, tensor in buffers.items():
            self.register_buffer(self._free_name(name), tensor.detach())
        # In a list, so that nn.Module does not register the template, whose weights are not used.
        self._template = [modules[0]]

    def forward(self, x: Tensor) -> Tensor:
        """Return every member's output, (K, rows, n_out), in the precision of x."""
        template = self._template[0].train(self.training)
        state = {name: getattr(self, attribute) for name, attribute in self._names.items()}

        def one_member(state: dict[str, Tensor], rows: Tensor) -> Tensor:
            out: Tensor = functional_call(template, state, (rows,))
            return out

        out: Tensor = vmap(one_member, randomness="different")(state, x)
        if out.dim() != 3 or out.shape[1] != x.shape[1]:
            raise InputError(
                "network must return outputs of shape (rows, outputs), one row per row of inputs, "
                f"got {tuple(out.shape[1:])} for {x.shape[1]} rows; end it with a Linear layer"
            )
        if not out.is_floating_point():
            raise InputError(
                f"network must return floating point numbers, got {out.dtype}; end it with a "
                "Linear layer"
            )
        return out.to(x.dtype)

    def try_on(self, x: Tensor, n_outputs: int) -> None:
        """Raise an InputError if it cannot train on rows x (n, n_in) with ``n_outputs`` outputs."""
        rows = x[:_TRIED_ROWS].expand(self.members, -1, -1)
        try:
            tried = copy.deepcopy(self)  # a copy, so that running statistics do not change
            with GlobalStreams(0, x.device), torch.no_grad():
                shapes = [tuple(tried.train(mode)(rows).shape[1:]) for mode in (True, False)]
        except InputError:
            raise
        except Exception as error:  # a user's code may raise anything
            raise InputError(
                "network must map rows (rows, inputs) to (rows, outputs) by operations that "
                f"torch.func.vmap supports, got {type(error).__name__} on {rows.shape[1]} rows of "
                f"{rows.shape[2]} inputs ({_first_line(error)}); try the module on such a tensor"
            ) from error
        for _, found in shapes:
            if found != n_outputs:
                raise InputError(
                    f"network must return {n_outputs} outputs for each row, got {found}; its "
                    "second argument is the number of outputs"
                )

    def to_onnx(self, graph: OnnxGraph, rows: str, member: int) -> NoReturn:
        raise InputError(
            "to_onnx needs a built-in network, got one made by network=; export that module with "
            "torch.onnx.export, its inputs being the columns that encoder_ makes"
        )

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        """Make the network with the user's function; its saved outputs say how many it has."""
        factory, probe = saved.factory, saved.arrays["probe"]
        assert factory is not None
        if probe.ndim != 2:
            raise ValueError("outputs must be (rows, outputs)")
        saved.check_outputs(probe.shape[1])
        return cls(lambda: factory(saved.inputs, probe.shape[1]), seeds=[0] * saved.members)

    def _free_name(self, name: str) -> str:
        """Return an unused attribute name without dots for a tensor, and record it."""
        free = name.replace(".", "__")
        while hasattr(self, free):
            free += "_"
        self._names[name] = free
        return free


class GlobalStreams:
    """Seeds the global generators of torch, numpy and Python within ``with`` blocks.

    A user's network draws from these. Each further ``with`` block continues where the previous one
    ended, and after a block the generators are as they were before it. Threads take turns, so that
    they do not affect each other's draws.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self._seed = seed
        self._device = device
        self._inside: dict[str, Any] | None = None

    def __enter__(self) -> None:
        _TURN.acquire()
        self._outside = self._read()
        if self._inside is None:
            self._start()
        else:
            self._write(self._inside)

    def __exit__(self, *_: object) -> None:
        self._inside = self._read()
        self._write(self._outside)
        _TURN.release()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the generators for the next block, as tensors and plain values."""
        if self._inside is None:
            with self:
                pass
        assert self._inside is not None
        state = dict(self._inside)
        version, words, gauss = state["python"]
        state["python"] = [version, torch.tensor(words, dtype=torch.int64, device="cpu"), gauss]
        keys = state["numpy"]["state"]["key"]
        inner = {**state["numpy"]["state"], "key": torch.from_numpy(keys.astype(np.int64))}
        state["numpy"] = {**state["numpy"], "state": inner}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from this state in the next ``with`` block."""
        version, words, gauss = state["python"]
        inner = state["numpy"]["state"]
        keys = inner["key"].numpy().astype(np.uint32)
        self._inside = {
            **state,
            "python": (version, tuple(words.tolist()), gauss),
            "numpy": {**state["numpy"], "state": {**inner, "key": keys}},
        }

    def _start(self) -> None:
        torch.default_generator.manual_seed(self._seed)
        if self._device.type == "cuda":
            with torch.cuda.device(self._device):
                torch.cuda.manual_seed(self._seed)
        elif self._device.type == "mps":
            torch.mps.manual_seed(self._seed)
        np.random.seed(self._seed % 2**32)  # noqa: NPY002 - the global one is meant
        random.seed(self._seed)

    def _read(self) -> dict[str, Any]:
        state = {
            "torch": torch.get_rng_state(),
            "numpy": np.random.get_state(legacy=False),  # noqa: NPY002
            "python": random.getstate(),
        }
        if self._device.type == "cuda":
            state["device"] = torch.cuda.get_rng_state(self._device)
        elif self._device.type == "mps":
            state["device"] = torch.mps.get_rng_state()
        return state

    def _write(self, state: Mapping[str, Any]) -> None:
        torch.set_rng_state(state["torch"])
        np.random.set_state(state["numpy"])  # noqa: NPY002
        random.setstate(state["python"])
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(state["device"], self._device)
        elif self._device.type == "mps":
            torch.mps.set_rng_state(state["device"])


def _made(factory: Callable[[], nn.Module], seed: int, device: torch.device) -> nn.Module:
    with GlobalStreams(seed, device):
        module = factory()
    if not isinstance(module, nn.Module):
        raise InputError(
            "network must be a function that returns a torch.nn.Module, got "
            f"{type(module).__name__}; return the module itself"
        )
    return module


def _refuse_weights(tensors: Mapping[str, Tensor]) -> None:
    """Refuse complex weights, and modules without weights to train."""
    for name, tensor in tensors.items():
        if tensor.is_complex():
            raise InputError(
                f"network must have real weights, got {name!r} of {tensor.dtype}; keep real and "
                "imaginary parts as two weights"
            )
    if not any(tensor.requires_grad for tensor in tensors.values()):
        raise InputError(
            "network must have weights to train, got "
            f"{'none that needs a gradient' if tensors else 'a module without any'}; add a layer "
            "such as torch.nn.Linear, or leave requires_grad on"
        )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
