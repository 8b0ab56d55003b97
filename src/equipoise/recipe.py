"""A recipe: everything that decides a training run except data, strengths and seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError
from equipoise.methods import parse_method
from equipoise.networks import StackedMLP, StackedModule
from equipoise.notions import Notion
from equipoise.training import (
    TASKS,
    Member,
    Predictor,
    Trained,
    TrainingData,
    TrainingSettings,
    train,
)
from equipoise.training.members import generators, stream_seed

NetworkFactory = Callable[[int, int], nn.Module]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How members are built and trained.

    ``hidden`` are the predictor's widths, unless ``network(n_inputs, n_outputs)`` makes a module of
    the user's own. With ``encoder_hidden`` the penalty sits on the output of an encoder of these
    widths and ``hidden`` are those of the head behind it.
    """

    notion: Notion
    method: str
    density_ratio: RatioKind
    critic: CriticSettings
    training: TrainingSettings
    hidden: tuple[int, ...]
    encoder_hidden: tuple[int, ...] = ()
    network: NetworkFactory | None = None

    def __post_init__(self) -> None:
        parse_method(self.method)
        for name in ("hidden", "encoder_hidden"):
            widths = getattr(self, name)
            if not all(isinstance(width, int) and width > 0 for width in widths):
                raise InputError(
                    f"{name} must be a tuple of positive widths, got {widths!r}; "
                    "() is a linear model"
                )

    def train(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        task: str,
        n_outputs: int,
        on_check: Callable[[int, Predictor], bool] | None = None,
    ) -> Trained:
        """Build and train these members together.

        ``on_check(iteration, predictor)`` is called every ``training.check_every`` iterations and
        after the last one; it may look at the weights, and ends training by returning True.
        """
        seeds = [member.seed for member in members]
        predictor = self._predictor(data.x.shape[1], n_outputs, task, seeds).to(data.x.device)
        method = None
        if any(member.strength > 0 for member in members):
            method = parse_method(self.method)(
                data,
                members,
                penalised_width=self.encoder_hidden[-1] if self.encoder_hidden else n_outputs,
                notion=self.notion,
                critic=self.critic,
                density_ratio=self.density_ratio,
            )
        return train(
            data,
            members,
            predictor=predictor,
            method=method,
            settings=self.training,
            given_outcome=self.notion.conditions_on_outcome,
            on_check=None if on_check is None else lambda at: on_check(at, predictor),
        )

    def _predictor(
        self, n_inputs: int, n_outputs: int, task: str, seeds: Sequence[int]
    ) -> Predictor:
        if self.network is not None:
            make = self.network
            return Predictor(
                StackedModule(
                    lambda: make(n_inputs, n_outputs),
                    seeds=[stream_seed(seed, "predictor") for seed in seeds],
                ),
                TASKS[task],
            )
        starts: list[torch.Generator] = generators(seeds, "predictor")
        encoder = None
        if self.encoder_hidden:
            encoder = StackedMLP(n_inputs, self.encoder_hidden, None, generators=starts)
            n_inputs = self.encoder_hidden[-1]
        network = StackedMLP(n_inputs, self.hidden, n_outputs, generators=starts)
        return Predictor(network, TASKS[task], encoder=encoder)
