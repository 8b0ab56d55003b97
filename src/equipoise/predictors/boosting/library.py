"""LightGBM, where it is installed, and what its parameters may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from equipoise.errors import InputError, did_you_mean

#: Parameters that are decided elsewhere, and where.
_DECIDED: Mapping[str, str] = MappingProxyType(
    {
        "objective": "the task and the penalty are the objective",
        "num_iterations": "use rounds",
        "learning_rate": "use learning_rate",
        "num_class": "y says how many classes there are",
        "seed": "use random_state",
        "alpha": "the loss of Huber changes at one spread of the outcome",
        "metric": "snapshots are judged by equipoise",
        "early_stopping_round": "use early_stopping",
        "categorical_feature": "text and categorical columns of X are categories",
        "boosting": "a snapshot is the first rounds of a model, which only 'gbdt' never changes",
        "verbosity": "use verbose",
        # LightGBM's own objective has these, and only a member of strength 0 follows it.
        "is_unbalance": "use sample_weight",
        "scale_pos_weight": "use sample_weight",
        "boost_from_average": "boosting starts from the average",
        "sigmoid": "chances are logistic in the score",
        "reg_sqrt": "transform y yourself",
    }
)

#: Parameters by which LightGBM draws rows, columns or cuts at random.
_DRAWING = (
    "bagging_fraction",
    "pos_bagging_fraction",
    "neg_bagging_fraction",
    "data_sample_strategy",
    "feature_fraction",
    "feature_fraction_bynode",
    "extra_trees",
    "use_quantized_grad",
)


def lightgbm(user: str) -> Any:
    """Return the module, or say for ``user`` how to get it."""
    try:
        import lightgbm
    except ModuleNotFoundError as absent:
        if absent.name != "lightgbm":
            raise
        raise InputError(
            f'{user} needs lightgbm, which is not installed; pip install "equipoise[boosting]"'
        ) from None
    return lightgbm


@contextmanager
def refused_in_words(parameters: Mapping[str, Any]) -> Iterator[None]:
    """Say of what LightGBM refuses which parameters it was given."""
    try:
        yield
    except lightgbm("lightgbm=").basic.LightGBMError as error:
        raise InputError(
            f"lightgbm must hold values that LightGBM takes, got {dict(parameters)}: "
            f"{' '.join(str(error).split())}; correct the parameter it names"
        ) from None


def checked_parameters(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return LightGBM parameters by their main names; refuse unknown ones and those decided here.

    LightGBM itself only warns of a name it does not know, so a slip of the pen would pass.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(
            "lightgbm must be a mapping of LightGBM's parameters by name, such as "
            f"{{'num_leaves': 15}}, got {type(given).__name__}"
        )
    names = _main_names()
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in names:
            hint = did_you_mean(name, names)
            raise InputError(f"lightgbm has no parameter {name!r}{hint}")
        main = names[name]
        if main in _DECIDED:
            raise InputError(
                f"lightgbm must not set {name!r}, got {value!r}: {_DECIDED[main]}; leave it out"
            )
        if main in found:
            raise InputError(f"lightgbm names {main!r} twice, the second time as {name!r}")
        found[main] = value
    return found


def refuse_draws(given: Mapping[str, Any] | None) -> None:
    """Refuse parameters by which LightGBM draws at random, where a run must be resumable."""
    for name, value in checked_parameters(given).items():
        if name in _DRAWING:
            raise InputError(
                f"checkpoint must be left out where lightgbm sets {name!r}, got {value!r}: "
                "LightGBM would draw anew after resuming; leave one of the two out"
            )


def _main_names() -> dict[str, str]:
    """Map every name that LightGBM's parameters go by to its main name."""
    aliases = lightgbm("lightgbm=").basic._ConfigAliases._get_all_param_aliases()
    return {alias: main for main, known in aliases.items() for alias in (main, *known)}
