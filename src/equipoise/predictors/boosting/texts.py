"""Trees as the text that LightGBM writes, and back: the same predictions, to the last bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from equipoise.predictors.boosting.library import lightgbm
from equipoise.predictors.boosting.text_check import checked_text
from equipoise.predictors.boosting.trees import Forest

#: Names of models whose trees are summed up in blocks, and of LightGBM's own.
_PREFIX, _OWN_PREFIX = "trees.", "own_trees."


def forest_arrays(forest: Forest, needed: Iterable[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """Return the text of every model, by name, as far as some member needs it.

    needed: models and rounds (K,) of members.
    """
    rounds: dict[int, int] = {}
    for models, counts in needed:
        for model, count in zip(models.tolist(), counts.tolist(), strict=True):
            rounds[model] = max(count, rounds.get(model, 0))
    return {
        f"{_OWN_PREFIX if model in forest.own else _PREFIX}{model}": np.frombuffer(
            _text(forest.models[model], count), np.uint8
        )
        for model, count in sorted(rounds.items())
        if count
    }


def forest_in(
    arrays: Mapping[str, NDArray[Any]],
    inputs: int,
    outputs: int,
    needed: Iterable[tuple[Tensor, Tensor]],
) -> Forest:
    """Return the forest of models of so many inputs and outputs that `forest_arrays` wrote.

    ValueError where a text is none of LightGBM's, or has fewer rounds than are needed.
    """
    texts = {
        (prefix, int(name.removeprefix(prefix))): array.tobytes().decode("ascii")
        for name, array in arrays.items()
        for prefix in (_PREFIX, _OWN_PREFIX)
        if name.startswith(prefix)
    }
    library = lightgbm("a model of boosted trees")
    models = {
        model: library.Booster(model_str=checked_text(text, outputs))
        for (_, model), text in texts.items()
    }
    if any(model.num_feature() != inputs for model in models.values()):
        raise ValueError(f"trees must be of {inputs} features")
    for wanted, counts in needed:
        for model, count in zip(wanted.tolist(), counts.tolist(), strict=True):
            if count and not 0 < count <= models[model].current_iteration():
                raise ValueError(f"there are fewer than {count} rounds of trees")
    return Forest(models, [model for prefix, model in texts if prefix == _OWN_PREFIX])


def _text(model: Any, rounds: int) -> bytes:
    text: str = model.model_to_string(num_iteration=rounds)
    return text.encode("ascii")
