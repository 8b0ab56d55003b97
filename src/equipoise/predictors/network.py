"""How networks are built and trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from equipoise.cores import count_jobs, torch_threads
from equipoise.errors import check_choice, check_flag, check_widths, refuse_unread
from equipoise.methods import Context
from equipoise.networks import (
    MOST_PIECES,
    Embedding,
    IncreasingStack,
    NetworkFactory,
    Normalization,
    Pieces,
    RankedStack,
    Stack,
    StackedMLP,
    StackedModule,
    beside_ranks,
    find_pieces,
    member_tensors,
    score_knots,
    select_members,
)
from equipoise.networks.mlp import KNOT_ROWS
from equipoise.predictors.family import PredictorRun, Recipe
from equipoise.predictors.linear import LinearModel, linear_models
from equipoise.predictors.ranks import RANK_ITERATIONS, learn_ranks
from equipoise.training import (
    TASKS,
    Method,
    Objective,
    Predictor,
    Trained,
    TrainingSettings,
    solved,
    train,
)
from equipoise.training.data import generators, stream_seed
from equipoise.training.loop import Lane, PredictorStep
from equipoise.training.predictor import exact_device
from equipoise.training.stopping import EarlyStopping, TradeOff

#: Fewest members of a lane. With fewer the cost of calling operations, for which threads wait in
#: turn, is larger than that of computing them.
LEAST_MEMBERS = 6
#: Multiplications in the largest layer of an iteration from which on several threads may share it.
LARGE_PRODUCT = 100_000_000
#: There is at most one piece for so many rows: with more a network learns few rows by heart.
ROWS_OF_A_PIECE = 10


@dataclass(frozen=True, kw_only=True)
class NetworkRecipe(Recipe):
    """How networks are built and trained."""

    hidden: tuple[int, ...]  # widths of the predictor, or of the head after an encoder
    encoder_hidden: tuple[int, ...] = ()  # widths of an encoder, on whose output the penalty sits
    embedding: Embedding = "none"
    linear_path: bool = False  # whether plain networks start as linear models
    normalization: Normalization = "batch"
    network: NetworkFactory | None = None  # makes a user's module, which reads none of the above
    increasing: bool = False  # whether outputs increase in the features, one each
    adjusts: bool = False  # whether the first features are scores, one for each output, to adjust

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "encoder_hidden"):
            object.__setattr__(self, name, check_widths(name, getattr(self, name)))
        check_choice("embedding", self.embedding, get_args(Embedding))
        check_flag("linear_path", self.linear_path)
        check_choice("normalization", self.normalization, ("batch", "none"))
        self._refuse_unread_options()

    def _refuse_unread_options(self) -> None:
        """Refuse changed options that this optimizer or network does not read.

        Values that say what happens anyway are allowed: weight_decay=0 for "sgd", and "none" for
        embedding and normalization of a user's module.
        """
        optimizer = self.training.optimizer
        adam = optimizer.kind == "adam", "optimizer='adam'", "set optimizer='sgd'"
        sgd = optimizer.kind == "sgd", "optimizer='sgd'", "set optimizer='adam'"
        own = self.network is not None, "a network of your own", "leave network out"
        linear = not (self.hidden or self.encoder_hidden), "hidden=()", "set hidden=(64, 64, 64)"
        unread: list[tuple[str, bool, str, str]] = [("momentum", *adam), ("hidden", *own)]
        if optimizer.weight_decay:
            unread += [("weight_decay", *sgd)]
        if self.embedding != "none":
            unread += [("embedding", *own)]
        if self.linear_path:
            unread += [("linear_path", *own)]
        if self.normalization != "none":
            unread += [("normalization", *own), ("normalization", *linear)]
        for option, is_unread, setting, remedy in unread:
            if is_unread and option in self.changed:
                refuse_unread(option, self.changed[option], setting, remedy)

    @property
    def on_representation(self) -> bool:
        return bool(self.encoder_hidden)

    def carry_out(self, run: PredictorRun) -> Trained:
        """Build and train networks, or solve for them if the method does."""
        declared, context = run.declared, run.context
        data, members = context.data, context.members
        if declared.solve is not None:
            data = data.to(exact_device(data.x.device))
            found = declared.solve(replace(context, data=data))
            return solved(data, members, predictor=found, **run.watched)
        ranks = self._ranks(run)
        predictor, method, settings = self._built(run, ranks)
        if self._has_linear_path(run):
            start_linear(predictor.network, context, of_scores=self.adjusts, ranks=ranks)
        stopping = None
        if members[0].aside is not None and not isinstance(method, Objective):
            assert settings.patience is not None
            # A penalized network swings between useful and fair weights until its learning rate
            # falls, so that it may look best early by chance, and better much later.
            patience = settings.iterations if run.penalized else settings.patience
            stopping = EarlyStopping(
                (tensor for _, tensor in member_tensors(predictor)),
                TradeOff(
                    predictor,
                    data,
                    members,
                    counts=declared.has_critic,
                    given_outcome=context.notion.conditions_on_outcome,
                ),
                patience=patience,
            )
        lanes = self._lanes(run, predictor, method, ranks)
        with torch_threads(1) if self._is_small(predictor, len(members)) else nullcontext():
            return train(
                data,
                members,
                predictor=predictor,
                method=method,
                settings=settings,
                stopping=stopping,
                has_critic=declared.has_critic,
                lanes=lanes,
                **run.watched,
            )

    def _ranks(self, run: PredictorRun) -> IncreasingStack | None:
        """Learn the ranks of scores among people alike, if fair scores are near them."""
        if not (self.adjusts and run.penalized) or run.context.notion.conditions_on_outcome:
            return None
        with torch_threads(1):
            return learn_ranks(
                run.context.data.to_build_for,
                run.inputs.n_outputs,
                iterations=min(self.training.iterations, RANK_ITERATIONS),
            )

    def _built(
        self, run: PredictorRun, ranks: IncreasingStack | None = None
    ) -> tuple[Predictor, Method | Objective | None, TrainingSettings]:
        """Return the networks of a run before training, their method and its settings."""
        declared, context, n_outputs = run.declared, run.context, run.inputs.n_outputs
        data, settings = context.data.to_build_for, self.training
        seeds = [member.seed for member in context.members]
        seen = data.x
        if ranks is not None:  # of some rows, as many as knots need
            some = data.x[:: -(-len(data) // KNOT_ROWS)]
            seen = beside_ranks(ranks, some[None])[0]
        if self.increasing:
            scores = n_outputs if ranks is None else 2 * n_outputs
            predictor = self._increasing(seen, scores, n_outputs, context.task, seeds)
        else:
            linear_path = self._has_linear_path(run)
            predictor = self._predictor(seen, n_outputs, context.task, seeds, linear_path)
        if ranks is not None:
            own = select_members(ranks, [0] * len(seeds))
            predictor.network = RankedStack(own, predictor.network)
        predictor = predictor.to(data.x)
        predictor.network.try_on(data.x, n_outputs)
        if run.penalized and declared.objective is not None:
            # From here on members of strength 0 must not change, so there is no weight decay.
            without_decay = replace(settings.optimizer, weight_decay=0.0)
            settings = replace(settings, optimizer=without_decay)
            return predictor, declared.objective(replace(context, predictor=predictor)), settings
        on_hidden = run.penalized and declared.sits_on == "hidden"
        if on_hidden:
            predictor.penalize_hidden(method=declared.name)
        widths = self.encoder_hidden or (self.hidden if on_hidden else (n_outputs,))
        return predictor, run.method(widths[-1]), settings

    def _has_linear_path(self, run: PredictorRun) -> bool:
        """Whether a linear model is a part of the networks, from which they start.

        Not with a penalty: the start would be where scores depend on A the most, and large steps
        of the linear weights would let training swing between useful and fair scores. Also the path
        would pass by an encoder, and by a hidden layer. Networks that adjust scores always start
        from the scores: with a strong penalty some would else end where scores are turned around.
        """
        return self.adjusts or (
            self.linear_path
            and bool(self.hidden)
            and self.network is None
            and not self.encoder_hidden
            and not run.penalized
        )

    def _is_small(self, predictor: Predictor, members: int) -> bool:
        """Whether one thread multiplies the matrices of an iteration about as fast as several."""
        sizes = [weight[0].numel() for weight in predictor.parameters()]
        return members * self.training.batch_size * max(sizes) < LARGE_PRODUCT

    def _lanes(
        self,
        run: PredictorRun,
        predictor: Predictor,
        method: Method | Objective | None,
        ranks: IncreasingStack | None,
    ) -> list[Lane]:
        """Split many members on a CPU into lanes.

        Layers of a user's network belong to all members at once, so there are no lanes.
        """
        data, members = run.context.data, run.context.members
        if predictor.network.of_user or data.x.device.type != "cpu":
            return []

        def step(part: PredictorRun, _: slice) -> PredictorStep:
            own, its_method, settings = self._built(part, ranks)
            members = part.context.members
            return PredictorStep(own, data, members, method=its_method, settings=settings)

        return run.lanes(min(count_jobs(self.n_jobs), len(members) // LEAST_MEMBERS), method, step)

    def _predictor(
        self, x: Tensor, n_outputs: int, task: str, seeds: Sequence[int], linear_path: bool
    ) -> Predictor:
        n_inputs = x.shape[1]
        if self.network is not None:
            make = partial(self.network, n_inputs, n_outputs)
            starts = [stream_seed(seed, "predictor") for seed in seeds]
            return Predictor(StackedModule(make, seeds=starts, device=x.device), TASKS[task])
        mlp = partial(
            StackedMLP, generators=generators(seeds, "predictor"), normalization=self.normalization
        )
        pieces = self._pieces(x)
        kind = LogitPredictor if self.adjusts else Predictor
        if not self.encoder_hidden:
            network = mlp(n_inputs, self.hidden, n_outputs, pieces=pieces, linear_path=linear_path)
            return kind(network, TASKS[task])
        encoder = mlp(n_inputs, self.encoder_hidden, None, pieces=pieces)
        head = mlp(self.encoder_hidden[-1], self.hidden, n_outputs)
        return Predictor(head, TASKS[task], encoder=encoder)

    def _pieces(self, x: Tensor) -> Pieces | None:
        if self.embedding == "none":
            return None
        return find_pieces(x, most=min(MOST_PIECES, len(x) // ROWS_OF_A_PIECE))

    def _increasing(
        self, x: Tensor, scores: int, n_outputs: int, task: str, seeds: Sequence[int]
    ) -> Predictor:
        """Return networks that increase in the first inputs, the scores, for all others."""
        knots, others = score_knots(x[:, :scores]), x[:, scores:]
        by_others = StackedMLP(
            others.shape[1],
            self.hidden,
            n_outputs + sum(map(len, knots)),
            generators=generators(seeds, "predictor"),
            normalization=self.normalization,
            pieces=self._pieces(others),
        )
        kind = LogitPredictor if self.adjusts else Predictor
        return kind(IncreasingStack(knots, by_others), TASKS[task])


def start_linear(
    network: Stack,
    context: Context,
    *,
    of_scores: bool = False,
    ranks: IncreasingStack | None = None,
) -> None:
    """Let networks with a linear path start as linear models of the rows they train on.

    ``of_scores``: the models see only the first inputs, one for each output. With ``ranks`` beside
    the scores, a member starts between the model of scores and the model of ranks, where its
    strength says: the ranks are fair already, and a strong penalty leaves little but the start.
    """
    inputs, width = context.data.x.shape[1], network.width
    seen = width if of_scores else inputs
    data, members = context.data.to_build_for, context.members
    if data is not context.data:  # the numbers of a member's rows are not those of these rows
        members = [replace(member, rows=None, aside=None) for member in members]

    def models(inputs: Callable[[Tensor], Tensor]) -> list[LinearModel]:
        return linear_models(data, members, context.task, width, inputs)

    found = models(lambda x: x[:, :seen])
    if ranks is not None:
        of_ranks = models(lambda x: beside_ranks(ranks, x[None])[0, :, seen : 2 * seen])
        for place, member in enumerate(members):
            share = member.strength
            (plain, base), (fair, level) = found[place], of_ranks[place]
            weight = torch.cat([(1 - share) * plain, share * fair], 1)
            found[place] = weight, torch.lerp(base, level, share)
    for place, (weight, bias) in enumerate(found):
        network.start_linear(place, pad(weight, (0, inputs - seen)), bias)


class LogitPredictor(Predictor):
    """Penalizes logits in place of probabilities.

    Both depend on A or neither does, but among small probabilities, which many people may have, a
    critic sees differences only by their logits.
    """

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        output = self.network(x)
        return output, output.log_softmax(-1) if output.shape[-1] > 1 else output
