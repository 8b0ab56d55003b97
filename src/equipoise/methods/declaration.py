"""Declarations of methods, what each supports, the registry, and the context of a run."""

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

#: Options of networks that a method trains in addition to the predictor.
CRITIC = frozenset(
    {"critic_hidden", "critic_steps", "critic_normalization", "critic_learning_rate"}
)
#: Options of critics that tell real pairs from resampled pairs.
GAME = CRITIC | {"divergence", "gradient_penalty"}
#: Options of the predictor's network. Methods that solve for linear models do not use them.
NETWORK = frozenset(
    {
        *("hidden", "network", "embedding", "linear_path", "normalization", "optimizer"),
        *("learning_rate", "momentum", "weight_decay", "schedule", "iterations", "batch_size"),
        *("epochs", "early_stopping", "members"),
    }
)
#: Options that some methods read and others do not.
OPTIONS = GAME | NETWORK | {"density_ratio"}


@dataclass(frozen=True, kw_only=True)
class Context:
    """Everything that a method is built from."""

    data: TrainingData
    members: Sequence[Member]
    notion: Notion
    critic: CriticSettings = field(default_factory=CriticSettings)
    density_ratio: RatioKind = "auto"
    penalized_width: int = 1  # number of columns of the penalized values
    predictor: Predictor | None = None  # the predictor that an objective trains
    settings: TrainingSettings = field(default_factory=TrainingSettings)
    task: str = "binary"  # name of the task loss
    #: How many of the last columns of ``data.x`` are sensitive features, for a method that needs
    #: them to predict.
    attribute_inputs: int = 0

    @property
    def attribute(self) -> Tensor:
        """The sensitive attributes (n, q)."""
        if self.data.attribute is None:
            raise InputError(
                "sensitive_features is required unless strength=0, got None; pass "
                "sensitive_features=A to fit"
            )
        return self.data.attribute

    @property
    def known_attribute(self) -> Tensor:
        """The attributes (n, q), with zeros where they are unknown."""
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
        """Return critics that see scores, attributes and, if it is given, the outcome (n, v)."""
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
    """One method of the registry; it has exactly one of build, objective and solve."""

    name: str  # as in ``method="sbp"``
    title: str  # its name in words
    reference: str  # authors (year), title, publication
    summary: str  # one sentence
    capabilities: Capabilities
    build: Callable[[Context], Method] | None = None  # makes a penalty
    objective: Callable[[Context], Objective] | None = None  # replaces task loss and penalty
    solve: Callable[[Context], Predictor] | None = None  # finds the models without training
    options: frozenset[str] = frozenset()  # those of OPTIONS, besides NETWORK, that it reads
    sits_on: Literal["score", "hidden"] = "score"  # what is penalized if there is no encoder
    #: Whether it keeps nothing of single rows: they may change while it trains, and be spread over
    #: several processes.
    by_batch: bool = False

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
        """Whether an option of an estimator has an effect on this method."""
        if option == "early_stopping":
            return self.build is not None
        if option in NETWORK:
            return self.solve is None
        return option not in OPTIONS or option in self.options

    @property
    def has_critic(self) -> bool:
        """Whether the penalty is a divergence estimated by a critic, where 0 means guessing."""
        return "divergence" in self.options

    def __str__(self) -> str:
        return f"{self.name}: {self.title}. {self.summary}"


#: What a penalty of 0 makes the same for every A: the whole distribution of the score, only its
#: mean, or only the rate of positive decisions. "none" if the loss does not measure dependence.
Controls = Literal["distribution", "mean", "decisions", "none"]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What one method supports; anything else is refused before training."""

    neural: bool = True  # trains a neural network, otherwise another model
    independence: bool = True
    separation: bool = True
    discrete: bool = True  # kinds of sensitive features
    continuous: bool = True
    mixed: bool = True  # both kinds at once
    many_groups: bool = True  # more than two groups of discrete features (columns are crossed)
    classes: bool = True  # outcomes of two classes
    many_classes: bool = True  # outcomes of more classes
    numbers: bool = True  # continuous outcomes
    representation: bool = True  # a penalty on an encoder's output (FairEncoder)
    sample_weight: bool = True
    unknown: bool = True  # rows with missing sensitive features
    needs_attribute: bool = False  # whether predicting needs the sensitive features
    controls: Controls = "distribution"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a training run requires of its method."""

    notion: Notion
    continuous: tuple[str, ...] = ()  # names of continuous sensitive columns
    discrete: tuple[str, ...] = ()  # names of discrete sensitive columns
    groups: int = 1  # number of groups, with the discrete columns crossed
    classes: int | None = 2  # of the outcome; None if it is continuous
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
    """Return, in words, what ``problem`` requires and ``can`` does not cover."""
    continuous, discrete = ", ".join(problem.continuous), ", ".join(problem.discrete)
    classes = problem.classes or 0
    notion = can.separation if problem.notion.conditions_on_outcome else can.independence
    mixed = f"mixed sensitive features (continuous {continuous}; discrete {discrete})"
    only_continuous = f"continuous sensitive features ({continuous})"
    only_discrete = f"discrete sensitive features ({discrete})"
    many_groups = f"more than two groups ({discrete}: {problem.groups})"
    requirements: list[tuple[object, bool, str]] = [
        (True, notion, f"notion='{problem.notion}'"),
        (continuous and discrete, can.mixed, mixed),
        (continuous and not discrete, can.continuous, only_continuous),
        (discrete and not continuous, can.discrete, only_discrete),
        (problem.groups > 2, can.many_groups, many_groups),
        (problem.classes is None, can.numbers, "a continuous outcome"),
        (classes == 2, can.classes, "an outcome of two classes"),
        (classes > 2, can.many_classes, f"an outcome of more than two classes ({classes})"),
        (problem.representation, can.representation, "a penalty on a representation (FairEncoder)"),
        (problem.weighted, can.sample_weight, "sample_weight (--weight)"),
        (problem.unknown, can.unknown, "missing_sensitive='skip' (--missing-sensitive)"),
    ]
    return [words for required, covered, words in requirements if required and not covered]


_LISTED: dict[str, Declaration] = {}
_KNOWN: dict[str, Declaration] = {}
#: The methods that tables and error messages show, by name.
METHODS: Mapping[str, Declaration] = MappingProxyType(_LISTED)


def register_method(method: Declaration, *, listed: bool = True) -> None:
    """Make ``method=NAME`` known to every estimator.

    listed: whether tables and error messages show the method.
    """
    if _KNOWN.get(method.name, method) != method:
        raise InputError(f"name must be new, got {method.name!r}, which is taken; rename yours")
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
    """Return the names of the methods that support everything that ``problem`` requires.

    >>> "sbp" in methods_for(Problem(notion=Notion.SEPARATION, continuous=("age",)))
    True
    """
    return tuple(
        name for name, method in METHODS.items() if not unsupported(problem, method.capabilities)
    )


def refuse_unsupported(method: Declaration, problem: Problem) -> None:
    """Raise an InputError if ``method`` does not support the problem; it names methods that do."""
    if missing := unsupported(problem, method.capabilities):
        able = ", ".join(map(repr, methods_for(problem))) or "none"
        raise InputError(
            f"method={method.name!r} does not support {' or '.join(missing)}; "
            f"methods that support this run: {able}"
        )


def refuse_unused_options(
    method: Declaration, notion: Notion, changed: Mapping[str, object]
) -> None:
    """Raise an InputError if an option was set that has no effect.

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
    """Return a table of what each method supports, one method per row.

    The columns are those of the paper and a few more. "two groups" and "two classes" mean that more
    are refused. "controls" says which part of the score's dependence on A the penalty acts on.

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
    # A reference begins with authors and, in parentheses, the year.
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
