"""How a method declares itself, what it can do, which there are, and the context of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Literal

import pandas as pd
import torch
from torch import Tensor

from equipoise.critic import CriticGame, CriticSettings
from equipoise.density_ratio import RatioKind
from equipoise.errors import InputError, did_you_mean, refuse_unread
from equipoise.notions import Notion
from equipoise.tables import SensitiveTable
from equipoise.training import Member, Method, Objective, Predictor, TrainingData, TrainingSettings
from equipoise.training.data import generators

#: Options of networks that a method trains beside the predictor.
CRITIC = frozenset(
    {"critic_hidden", "critic_steps", "critic_normalization", "critic_learning_rate"}
)
#: Options of critics that tell real from resampled pairs.
GAME = CRITIC | {"divergence", "gradient_penalty"}
#: Options of the predictor's network; methods that solve linear models have no use for them.
NETWORK = frozenset(
    {
        "hidden",
        "network",
        "embedding",
        "normalization",
        "optimizer",
        "learning_rate",
        "momentum",
        "weight_decay",
        "schedule",
        "iterations",
        "batch_size",
    }
)
#: Every option that some method reads and another does not.
OPTIONS = GAME | NETWORK | {"density_ratio"}


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a method gets to make itself ready for a run."""

    data: TrainingData
    members: Sequence[Member]
    notion: Notion
    critic: CriticSettings = field(default_factory=CriticSettings)
    density_ratio: RatioKind = "auto"
    penalized_width: int = 1  # columns of what the penalty looks at
    predictor: Predictor | None = None  # what an objective trains, by these settings
    settings: TrainingSettings = field(default_factory=TrainingSettings)
    task: str = "binary"  # name of the task loss
    #: How many of the last columns of ``data.x`` are sensitive features, for a method that needs
    #: them to predict.
    attribute_inputs: int = 0

    @property
    def attribute(self) -> Tensor:
        """The sensitive attributes (n, q)."""
        if self.data.attribute is None:
            raise InputError("sensitive_features is required unless strength=0")
        return self.data.attribute

    @property
    def known_attribute(self) -> Tensor:
        """The attributes (n, q), zeros where unknown, so that nothing can depend on them there."""
        if self.data.known is None:
            return self.attribute
        return torch.where(self.data.known[:, None], self.attribute, 0.0)

    @property
    def outcome(self) -> Tensor | None:
        """The outcome (n, v) that the notion conditions on; None under independence."""
        return self.data.outcome if self.notion.conditions_on_outcome else None

    def generators(self, purpose: str) -> list[torch.Generator]:
        return generators([member.seed for member in self.members], purpose)

    def game(self, attribute_width: int, outcome: Tensor | None) -> CriticGame:
        """Return critics that see scores, attributes and, where given, the outcome (n, v)."""
        game = CriticGame(
            self.penalized_width,
            attribute_width,
            0 if outcome is None else outcome.shape[1],
            settings=self.critic,
            generators=self.generators("critic"),
        ).to(self.data.x)
        game.start()
        return game


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One method of the registry; exactly one of build, objective and solve makes it ready."""

    name: str  # as in ``method="sbp"``
    title: str  # its name in words
    reference: str  # authors (year), title, where
    summary: str  # one sentence
    capabilities: Capabilities
    build: Callable[[Context], Method] | None = None  # makes a penalty
    objective: Callable[[Context], Objective] | None = None  # in place of task and penalty
    solve: Callable[[Context], Predictor] | None = None  # finds the models without training
    options: frozenset[str] = frozenset()  # of OPTIONS, what it reads beside those of NETWORK
    sits_on: Literal["score", "hidden"] = "score"  # where there is no encoder

    def __post_init__(self) -> None:
        if (self.build, self.objective, self.solve).count(None) != 2:
            raise InputError(
                f"a declaration must have one of build, objective and solve, got {self.name!r} "
                "with none or several; leave the others out"
            )
        if unknown := self.options - OPTIONS:
            raise InputError(
                f"options must be among {', '.join(sorted(OPTIONS))}, got "
                f"{', '.join(sorted(unknown))} for {self.name!r}; leave these out"
            )

    def reads(self, option: str) -> bool:
        """Whether an option of an estimator can change what this method does."""
        if option in NETWORK:
            return self.solve is None
        return option not in OPTIONS or option in self.options

    @property
    def has_critic(self) -> bool:
        """Whether the penalty is a divergence that a critic estimates: 0 is guessing."""
        return "divergence" in self.options

    def __str__(self) -> str:
        return f"{self.name}: {self.title}. {self.summary}"


#: What a score that satisfies a method's penalty no longer tells: its whole distribution given A,
#: only its mean given A, or only the rate of positive decisions given A; "none" where dependence is
#: lowered without a measure of it in the loss.
Controls = Literal["distribution", "mean", "decisions", "none"]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What one method supports; what it does not support is refused before training."""

    neural: bool = True  # trains a neural network, else a model of its own
    independence: bool = True
    separation: bool = True
    discrete: bool = True  # kinds of sensitive features
    continuous: bool = True
    mixed: bool = True  # both kinds at once
    many_groups: bool = True  # more than two groups of discrete features (columns are crossed)
    classes: bool = True  # outcomes of two classes
    many_classes: bool = True  # of more
    numbers: bool = True  # continuous outcomes
    representation: bool = True  # may sit on an encoder's output (FairEncoder), not only a score
    sample_weight: bool = True
    unknown: bool = True  # rows whose sensitive features are missing
    needs_attribute: bool = False  # to predict
    controls: Controls = "distribution"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a training run asks of its method."""

    notion: Notion
    continuous: tuple[str, ...] = ()  # names of sensitive columns
    discrete: tuple[str, ...] = ()
    groups: int = 1  # cells of the discrete ones, crossed
    classes: int | None = 2  # of the outcome; None where it is continuous
    representation: bool = False
    weighted: bool = False
    unknown: bool = False

    @classmethod
    def of(
        cls,
        table: SensitiveTable,
        *,
        notion: Notion,
        classes: int | None,
        representation: bool = False,
        weighted: bool = False,
    ) -> Problem:
        discrete = [column for column in table.columns if column.kind == "discrete"]
        return cls(
            notion=notion,
            continuous=tuple(c.name for c in table.columns if c.kind == "continuous"),
            discrete=tuple(column.name for column in discrete),
            groups=prod(len(column.categories) for column in discrete),
            classes=classes,
            representation=representation,
            weighted=weighted,
            unknown=not table.known.all(),
        )


def unsupported(problem: Problem, can: Capabilities) -> list[str]:
    """What ``problem`` asks for and ``can`` does not cover, in words, the most frequent first."""
    continuous, discrete = ", ".join(problem.continuous), ", ".join(problem.discrete)
    classes = problem.classes or 0
    able = can.separation if problem.notion.conditions_on_outcome else can.independence
    both = f"mixed sensitive features (continuous {continuous}; discrete {discrete})"
    asked: list[tuple[object, bool, str]] = [
        (True, able, f"notion='{problem.notion}'"),
        (continuous and discrete, can.mixed, both),
        (
            continuous and not discrete,
            can.continuous,
            f"continuous sensitive features ({continuous})",
        ),
        (discrete and not continuous, can.discrete, f"discrete sensitive features ({discrete})"),
        (
            problem.groups > 2,
            can.many_groups,
            f"more than two groups ({discrete}: {problem.groups})",
        ),
        (problem.classes is None, can.numbers, "a continuous outcome"),
        (classes == 2, can.classes, "an outcome of two classes"),
        (classes > 2, can.many_classes, f"an outcome of more than two classes ({classes})"),
        (problem.representation, can.representation, "a penalty on a representation (FairEncoder)"),
        (problem.weighted, can.sample_weight, "sample_weight"),
        (problem.unknown, can.unknown, "missing_sensitive='skip'"),
    ]
    return [words for needed, covered, words in asked if needed and not covered]


_LISTED: dict[str, Declaration] = {}
_KNOWN: dict[str, Declaration] = {}
#: The methods that tables and errors offer, by name.
METHODS: Mapping[str, Declaration] = MappingProxyType(_LISTED)


def register_method(method: Declaration, *, listed: bool = True) -> None:
    """Make ``method=NAME`` known to every estimator.

    listed: whether tables and errors offer it; otherwise only its name finds it.
    """
    if _KNOWN.get(method.name, method) != method:
        raise InputError(f"name must be new, got {method.name!r}, which is a method; rename yours")
    _KNOWN[method.name] = method
    if listed:
        _LISTED[method.name] = method


def parse_method(name: str) -> Declaration:
    """Return the method called ``name``.

    >>> parse_method("sbp").title
    'Penalty by simple random sampling'
    """
    try:
        return _KNOWN[name]
    except (KeyError, TypeError):
        hint = did_you_mean(name, _KNOWN)
        allowed = ", ".join(map(repr, METHODS))
        raise InputError(f"method must be one of {allowed}, got {name!r}{hint}") from None


def methods_for(problem: Problem) -> tuple[str, ...]:
    """Names of the methods that can do all that ``problem`` asks for.

    >>> "sbp" in methods_for(Problem(notion=Notion.SEPARATION, continuous=("age",)))
    True
    """
    return tuple(
        name for name, method in METHODS.items() if not unsupported(problem, method.capabilities)
    )


def refuse_unsupported(method: Declaration, problem: Problem) -> None:
    """Raise an InputError that names the methods that can, where ``method`` cannot."""
    if missing := unsupported(problem, method.capabilities):
        able = ", ".join(map(repr, methods_for(problem))) or "none"
        raise InputError(
            f"method={method.name!r} does not support {' or '.join(missing)}; "
            f"methods that support all that is asked here: {able}"
        )


def refuse_unused_options(
    method: Declaration, notion: Notion, changed: Mapping[str, object]
) -> None:
    """Raise an InputError where an option that would change nothing was set.

    changed: the options that differ from their defaults, with their values.
    """
    for option, value in changed.items():
        if not method.reads(option):
            able = ", ".join(repr(name) for name, other in METHODS.items() if other.reads(option))
            remedy = f"use a method that has it: {able}"
            refuse_unread(option, value, f"method={method.name!r}", remedy)
    if "density_ratio" in changed and not notion.conditions_on_outcome:
        ratio = changed["density_ratio"]
        refuse_unread("density_ratio", ratio, f"notion='{notion}'", "set notion='separation'")


def capability_table() -> pd.DataFrame:
    """What each method supports, one a row, by the paper's columns and a few more.

    "two groups" and "two classes" mean that more of them are refused. "controls" says of which
    part of the score's dependence on A the penalty takes care.

    Examples
    --------
    >>> table = capability_table()
    >>> table.loc["kde", ["separation", "discrete A", "continuous A", "discrete Y"]].tolist()
    ['yes', 'yes', 'no', 'two classes']
    """
    rows = {name: _row(method) for name, method in METHODS.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")


def _row(method: Declaration) -> dict[str, str]:
    can = method.capabilities
    # A reference opens with its authors and, in brackets, the year.
    source, closing, _ = method.reference.partition(")")
    return {
        "source": source + closing,
        "neural network": _word(can.neural),
        "independence": _word(can.independence),
        "separation": _word(can.separation),
        "discrete A": _word(can.discrete, limit=None if can.many_groups else "two groups"),
        "continuous A": _word(can.continuous),
        "mixed A": _word(can.mixed),
        "discrete Y": _word(can.classes, limit=None if can.many_classes else "two classes"),
        "continuous Y": _word(can.numbers),
        "representation": _word(can.representation),
        "A to predict": _word(can.needs_attribute),
        "controls": can.controls,
    }


def _word(able: bool, *, limit: str | None = None) -> str:
    return (limit or "yes") if able else "no"
