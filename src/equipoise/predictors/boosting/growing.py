"""K LightGBM models that grow round by round, on rows that are binned once for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.errors import ConvergenceWarning
from equipoise.predictors.boosting.continued import Continued
from equipoise.predictors.boosting.library import lightgbm, refused_in_words
from equipoise.predictors.boosting.objectives import TreeObjective, level_and_unit
from equipoise.predictors.boosting.text_check import checked_text
from equipoise.predictors.boosting.trees import Forest
from equipoise.training import Member, TrainingData

#: Sums in one order whatever the number of threads and the load of the machine.
REPRODUCIBLE: Mapping[str, Any] = MappingProxyType({"deterministic": True, "force_row_wise": True})


class Growing:
    """The models of K members in training, and their outputs on the m rows that each trains on.

    Members of strength 0 follow LightGBM's own objective, so that they are LightGBM's own models to
    the last bit; the others follow the slopes they are given. Where LightGBM finds no column to
    split on, all are its own: a constant.

    Attributes
    ----------
    forest : Forest
    start : Tensor of float64, shape (K, o)
        What each member's trees add to; LightGBM's own models have theirs in the first tree.
    rows : Tensor of int64, shape (K, m)
        Which rows of the data each member trains on.
    target : Tensor, shape (K, m)
        Their targets: class numbers, or float64.
    weight : Tensor of float64, shape (K, m)
        Their sample weights.
    level, unit : Tensor of float64, shape (K,)
        Mean and spread of each member's targets where they have units of their own, as in
        regression, else 0 and 1.
    outputs : Tensor of float64, shape (K, m, o)
    """

    def __init__(
        self,
        data: TrainingData,
        members: Sequence[Member],
        *,
        objective: TreeObjective,
        n_outputs: int,
        categorical: Sequence[int],
        parameters: Mapping[str, Any],
        most_rounds: int,
    ) -> None:
        self._most_rounds = most_rounds
        self._library = lightgbm("boosting")
        self._objective = objective
        self._given = parameters
        self._parameters = {**REPRODUCIBLE, **parameters, "metric": "none", "verbosity": -1}
        self._classes = n_outputs
        self._members = tuple(members)
        everything = torch.arange(len(data), device="cpu")
        self.rows = torch.stack(
            [
                torch.tensor(member.rows, device="cpu") if member.rows else everything
                for member in members
            ]
        )
        self._place = _inverse(self.rows, len(data)) if any(m.rows for m in members) else None
        target = data.target.double() if data.target.is_floating_point() else data.target
        weight = (
            torch.ones(len(data), dtype=torch.float32, device="cpu")
            if data.weight is None
            else data.weight
        )
        self.target, self.weight = target[self.rows], weight.double()[self.rows]
        self.level, self.unit = (
            torch.full((len(members),), value, dtype=torch.float64, device="cpu")
            for value in (0, 1)
        )
        if objective.has_units:
            self.level, self.unit = level_and_unit(self.target, self.weight)
        self._datasets = self._binned(data, list(categorical))
        splits = {rows: _has_splits(dataset) for rows, dataset in self._datasets.items()}
        if not all(splits.values()):
            _warn_of_constants(self._parameters, self.rows.shape[1])
        self._own = [member.strength == 0 or not splits[member.rows] for member in members]
        starts = torch.stack(
            [objective.start(*each).double() for each in zip(self.target, self.weight, strict=True)]
        )
        self.start = torch.where(torch.tensor(self._own, device="cpu")[:, None], 0.0, starts)
        self.outputs = starts[:, None].repeat(1, self.rows.shape[1], 1)
        own = [member for member, is_own in enumerate(self._own) if is_own]
        self.forest = Forest(self._models(starts), own)

    def places(self, rows: Tensor) -> Tensor:
        """Where rows (K, B) of the data stand among each member's own."""
        return rows if self._place is None else self._place.gather(1, rows)

    def grow(self, member: int, slope: Tensor, curvature: Tensor) -> None:
        """Add a round to one member's model, if it can still grow, and update its outputs.

        slope, curvature: (m, o).
        """
        model = self.forest.models[member]
        given = _as_lightgbm(slope), _as_lightgbm(curvature)
        with refused_in_words(self._given):
            model.update(fobj=None if self._own[member] else lambda *_: given)
        shown = torch.from_numpy(_shown(model)).view(*slope.shape)
        # LightGBM's own objectives show chances, custom ones outputs.
        self.outputs[member] = self._objective.to_output(shown) if self._own[member] else shown

    def rounds(self, member: int) -> int:
        """How many rounds a member's model has."""
        rounds: int = self.forest.models[member].current_iteration()
        return rounds

    def state_dict(self) -> dict[str, Any]:
        """What every member has grown: rounds, text of its trees, outputs."""
        models = [self.forest.models[member] for member in range(len(self._own))]
        return {
            "rounds": [model.current_iteration() for model in models],
            # LightGBM's own models are grown again instead.
            "texts": [
                "" if own else model.model_to_string()
                for own, model in zip(self._own, models, strict=True)
            ],
            "outputs": self.outputs,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what members with the same options had grown on the same rows."""
        models = dict(self.forest.models)
        for member, rounds in enumerate(state["rounds"]):
            if not 0 <= rounds <= self._most_rounds:
                raise ValueError(f"a member grows at most {self._most_rounds} rounds")
            if self._own[member]:
                for _ in range(rounds):
                    models[member].update()
            elif rounds:
                self._start_from(member, state["outputs"][member])
                text = checked_text(state["texts"][member], self._classes)
                models[member] = Continued(text, rounds, self._new_model(member))
        self.forest.models = models
        self.outputs.copy_(state["outputs"])

    def _binned(self, data: TrainingData, categorical: list[int]) -> dict[tuple[int, ...], Any]:
        """Return the rows of every member in LightGBM's form, once for each set of rows."""
        datasets = {}
        for member, rows in zip(self._members, self.rows, strict=True):
            if member.rows not in datasets:
                dataset = self._library.Dataset(
                    data.x[rows].numpy(),
                    label=data.target[rows].numpy(),
                    weight=None if data.weight is None else data.weight[rows].numpy(),
                    categorical_feature=categorical,
                    params=self._parameters,
                )
                with refused_in_words(self._given):
                    datasets[member.rows] = dataset.construct()
        return datasets

    def _models(self, starts: Tensor) -> dict[int, Any]:
        """Return one model a member, before its first round."""
        models: dict[int, Any] = {}
        # A model takes over the start of its rows when it is made; LightGBM's own have none, so
        # they are made before there is one.
        for member in sorted(range(len(self._own)), key=lambda member: not self._own[member]):
            if not self._own[member]:
                self._start_from(member, starts[member].expand(self.rows.shape[1], -1))
            models[member] = self._new_model(member)
        return models

    def _start_from(self, member: int, outputs: Tensor) -> None:
        """Let the next model on a member's rows start from outputs (m, o)."""
        dataset = self._datasets[self._members[member].rows]
        dataset.set_init_score(outputs.T.flatten().contiguous().numpy())

    def _new_model(self, member: int) -> Any:
        dataset = self._datasets[self._members[member].rows]
        with refused_in_words(self._given):
            return self._library.Booster(self._parameters_of(member), dataset)

    def _parameters_of(self, member: int) -> dict[str, Any]:
        return {
            **self._parameters,
            "objective": self._objective.name if self._own[member] else "none",
            # Not of the rows: without an objective, LightGBM takes them for those of a regression.
            "num_class": self._classes,
            "seed": self._members[member].seed % 2**31,
            # Where the loss of Huber changes from squared to absolute.
            "alpha": float(self.unit[member]),
        }


def _has_splits(dataset: Any) -> bool:
    """Whether some column of LightGBM's form of the rows can be split; bins are of those only."""
    return any(dataset.feature_num_bin(column) for column in range(dataset.num_feature()))


def _warn_of_constants(parameters: Mapping[str, Any], rows: int) -> None:
    least = parameters.get("min_data_in_leaf", 20)
    warnings.warn(
        f"No column of X can be split so that min_data_in_leaf={least} of the {rows} training rows "
        "are on either side, so trees predict a constant. Give more rows or columns that vary, or "
        f"set lightgbm={{'min_data_in_leaf': {max(1, rows // 10)}}}.",
        ConvergenceWarning,
        stacklevel=2,
    )


def _inverse(rows: Tensor, n: int) -> Tensor:
    """Where each of n rows stands in rows (K, m), (K, n); 0 where it does not."""
    place = torch.zeros(len(rows), n, dtype=torch.long, device="cpu")
    return place.scatter_(1, rows, torch.arange(rows.shape[1], device="cpu").expand_as(rows))


def _as_lightgbm(values: Tensor) -> NDArray[np.float64]:
    """One output as (m,), several as (m, o)."""
    found: NDArray[np.float64] = values.squeeze(-1).numpy()
    return found


def _shown(model: Any) -> NDArray[np.float64]:
    """What a model shows of its training rows, (m,) or (m, o)."""
    seen: list[NDArray[np.float64]] = []

    def look(shown: NDArray[np.float64], _: Any) -> tuple[str, float, bool]:
        seen.append(shown)
        return "", 0.0, False

    model.eval_train(look)
    return seen[0]
