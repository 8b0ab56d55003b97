"""A recipe: everything that decides a training run except data, strengths and seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import torch
from torch import Tensor, nn

from equipoise.critic import CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError, check_choice, check_widths
from equipoise.methods import (
    Declaration,
    Problem,
    parse_method,
    refuse_unsupported,
    refuse_unused_options,
)
from equipoise.networks import (
    Embedding,
    Normalization,
    Pieces,
    StackedMLP,
    StackedModule,
    find_pieces,
)
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable
from equipoise.training import (
    TASKS,
    Member,
    Method,
    Objective,
    Predictor,
    Supervision,
    Trained,
    TrainingData,
    TrainingSettings,
    solved,
    train,
)
from equipoise.training.loop import gradients_on
from equipoise.training.members import generators, stream_seed
from equipoise.training.predictor import exact_device

NetworkFactory = Callable[[int, int], nn.Module]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How members are built and trained.

    ``hidden`` are the predictor's widths, unless ``network(n_inputs, n_outputs)`` makes a module of
    the user's own. With ``encoder_hidden`` the penalty sits on the output of an encoder of these
    widths and ``hidden`` are those of the head behind it. ``embedding`` says what the first layer
    sees of a column, ``normalization`` what follows the layers; a network of the user's own has
    neither.
    """

    notion: Notion
    method: str
    density_ratio: RatioKind
    critic: CriticSettings
    training: TrainingSettings
    hidden: tuple[int, ...]
    encoder_hidden: tuple[int, ...] = ()
    embedding: Embedding = "none"
    normalization: Normalization = "batch"
    network: NetworkFactory | None = None

    def __post_init__(self) -> None:
        parse_method(self.method)
        for name in ("hidden", "encoder_hidden"):
            object.__setattr__(self, name, check_widths(name, getattr(self, name)))
        check_choice("density_ratio", self.density_ratio, get_args(RatioKind))
        check_choice("embedding", self.embedding, get_args(Embedding))
        check_choice("normalization", self.normalization, ("batch", "none"))

    @gradients_on()
    def train(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        task: str,
        n_outputs: int,
        sensitive: SensitiveTable | None = None,
        attribute_inputs: int = 0,
        on_check: Callable[[int, Predictor], bool] | None = None,
        supervision: Supervision | None = None,
    ) -> Trained:
        """Build and train these members together.

        ``sensitive`` is the table behind ``data.attribute``: with it a method that can not do what
        is asked refuses in words before anything is trained. ``attribute_inputs`` is how many of
        the last columns of ``data.x`` are sensitive features that the method needs to predict.

        ``on_check(iteration, predictor)`` is called every ``training.check_every`` iterations and
        after the last one; it may look at the weights, and ends training by returning True.
        ``supervision`` keeps checkpoints of the run and tells of it.
        """
        declared = parse_method(self.method)
        penalized = any(member.strength > 0 for member in members)
        if (penalized or declared.solve is not None) and sensitive is not None:
            refuse_unable(
                declared,
                Problem.of(
                    sensitive,
                    notion=self.notion,
                    classes=classes_of(task, n_outputs),
                    representation=bool(self.encoder_hidden),
                    weighted=data.weight is not None,
                ),
                critic=self.critic,
                density_ratio=self.density_ratio,
            )
        if declared.solve is not None:
            self._refuse_network()
            data = data.to(exact_device(data.x.device))
            return solved(
                data,
                members,
                predictor=declared.solve(
                    data, members, task=task, notion=self.notion, attribute_inputs=attribute_inputs
                ),
                given_outcome=self.notion.conditions_on_outcome,
                on_check=on_check,
                supervision=supervision,
            )
        seeds = [member.seed for member in members]
        predictor = self._predictor(data.x, n_outputs, task, seeds).to(data.x)
        if isinstance(predictor.network, StackedModule):
            predictor.network.try_on(data.x, n_outputs)
        method: Method | Objective | None = None
        settings = self.training
        if penalized and declared.objective is not None:
            method = declared.objective(data, members, predictor=predictor, settings=settings)
            # From here on members of strength 0 rest: no slope, so no decay either.
            resting = replace(settings.optimizer, weight_decay=0.0)
            settings = replace(settings, optimizer=resting)
        elif penalized:
            assert declared.build is not None
            if declared.sits_on == "hidden":
                predictor.penalize_hidden(method=declared.name)
            method = declared.build(
                data,
                members,
                penalized_width=self._penalized_width(declared, n_outputs),
                notion=self.notion,
                critic=self.critic,
                density_ratio=self.density_ratio,
            )
        return train(
            data,
            members,
            predictor=predictor,
            method=method,
            settings=settings,
            given_outcome=self.notion.conditions_on_outcome,
            has_critic=declared.has_critic,
            on_check=on_check,
            supervision=supervision,
        )

    def _penalized_width(self, method: Declaration, n_outputs: int) -> int:
        """Width of what the penalty looks at."""
        if self.encoder_hidden:
            return self.encoder_hidden[-1]
        return self.hidden[-1] if method.sits_on == "hidden" else n_outputs

    def _refuse_network(self) -> None:
        if self.network is not None:
            raise InputError(
                f"network has no meaning for method={self.method!r}, which makes linear models of "
                "its own; leave it out"
            )

    def _predictor(self, x: Tensor, n_outputs: int, task: str, seeds: Sequence[int]) -> Predictor:
        n_inputs = x.shape[1]
        if self.network is not None:
            make = self.network
            return Predictor(
                StackedModule(
                    lambda: make(n_inputs, n_outputs),
                    seeds=[stream_seed(seed, "predictor") for seed in seeds],
                    device=x.device,
                ),
                TASKS[task],
            )
        starts: list[torch.Generator] = generators(seeds, "predictor")
        pieces = find_pieces(x) if self.embedding == "pieces" else None

        def mlp(
            inputs: int, widths: Sequence[int], outputs: int | None, cut: Pieces | None
        ) -> StackedMLP:
            return StackedMLP(
                inputs,
                widths,
                outputs,
                generators=starts,
                normalization=self.normalization,
                pieces=cut,
            )

        if not self.encoder_hidden:
            return Predictor(mlp(n_inputs, self.hidden, n_outputs, pieces), TASKS[task])
        encoder = mlp(n_inputs, self.encoder_hidden, None, pieces)
        head = mlp(self.encoder_hidden[-1], self.hidden, n_outputs, None)
        return Predictor(head, TASKS[task], encoder=encoder)


def classes_of(task: str, n_outputs: int) -> int | None:
    """Return the number of classes of a task, None where the outcome is continuous."""
    return {"binary": 2, "multiclass": n_outputs}.get(task)


def refuse_unable(
    method: Declaration, problem: Problem, *, critic: CriticSettings, density_ratio: RatioKind
) -> None:
    """Refuse what a method can not do, and options that would change nothing."""
    refuse_unused_options(method, critic, density_ratio)
    refuse_unsupported(method, problem)
