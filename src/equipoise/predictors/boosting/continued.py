"""A LightGBM model that goes on where an earlier one, of which there is the text, had ended."""

from __future__ import annotations

import re
from typing import Any

from equipoise.predictors.boosting.library import lightgbm

_TREE = re.compile(r"^Tree=\d+$", re.MULTILINE)
_END = "end of trees"


class Continued:
    """Trees known by their text, followed by those that ``model`` grows; used as one model.

    LightGBM goes on from a score, which is what makes the new trees the same to the last bit, but
    it does not know then what the score was made of.
    """

    def __init__(self, text: str, rounds: int, model: Any) -> None:
        self._text = text
        self._before = rounds
        self._model = model
        self._whole: tuple[int, Any] | None = None

    def update(self, **options: Any) -> None:
        """Grow a round."""
        self._model.update(**options)

    def eval_train(self, look: Any) -> Any:
        """Show the scores of all trees on the training rows."""
        return self._model.eval_train(look)

    def current_iteration(self) -> int:
        """How many rounds there are in all."""
        grown: int = self._model.current_iteration()
        return self._before + grown

    def predict(self, *arguments: Any, **options: Any) -> Any:
        """Predict with all trees, as LightGBM does."""
        return self._as_one().predict(*arguments, **options)

    def model_to_string(self, **options: Any) -> str:
        """Write all trees, as LightGBM does."""
        text: str = self._as_one().model_to_string(**options)
        return text

    def _as_one(self) -> Any:
        rounds = self.current_iteration()
        if self._whole is None or self._whole[0] != rounds:
            text = self._text
            if rounds > self._before:
                text = joined(text, self._model.model_to_string())
            self._whole = rounds, lightgbm("boosting").Booster(model_str=text)
        return self._whole[1]


def joined(first: str, second: str) -> str:
    """Text of a model with the trees of one text, then those of another for the same columns."""
    head, trees = _taken_apart(first)
    _, more = _taken_apart(second)
    # Without their sizes LightGBM reads trees one after the other.
    head = re.sub(r"^tree_sizes=.*\n", "", head, flags=re.MULTILINE)
    numbered = [f"Tree={place}\n{tree}" for place, tree in enumerate(trees + more)]
    return head + "".join(numbered) + second[second.index(_END) :]


def _taken_apart(text: str) -> tuple[str, list[str]]:
    """What stands before the trees, and each tree without its number."""
    head, *trees = _TREE.split(text[: text.index(_END)])
    return head, [tree.removeprefix("\n") for tree in trees]
