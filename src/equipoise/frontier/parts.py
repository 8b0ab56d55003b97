"""The rows of a frontier, dealt into parts and encoded as the training rows say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from torch import Tensor

from equipoise.estimators import Classifies, Regresses
from equipoise.estimators.attributes import held_out_inputs, learn_inputs
from equipoise.estimators.inputs import Outcome
from equipoise.frontier.rows import HeldOut, Positions, Split, rebuilt
from equipoise.tables import SensitiveTable
from equipoise.training import TrainingData
from equipoise.training.predictor import exact_device


@dataclass(frozen=True, eq=False)
class Parts:
    """What trains, what picks and what reports.

    Attributes
    ----------
    data : TrainingData
    outcome : Outcome
        Of the training rows.
    trained_on : SensitiveTable
        Of the training rows.
    validation, test : HeldOut
    validation_x, test_x : Tensor of float64, shape (n, p)
        Their encoded features.
    """

    data: TrainingData
    outcome: Outcome
    trained_on: SensitiveTable
    validation: HeldOut
    test: HeldOut
    validation_x: Tensor
    test_x: Tensor


def deal(
    template: Classifies | Regresses,
    X: Any,
    y: NDArray[Any],
    table: SensitiveTable,
    weights: NDArray[np.float64] | None,
    split: Split,
    device: torch.device,
) -> Parts:
    """Encode every part by what the training rows alone say; the template learns how."""

    def weights_of(rows: Positions) -> NDArray[np.float64] | None:
        return None if weights is None else weights[rows]

    outcome = template._read_outcome(y[split.train], weights_of(split.train))
    validation, test = (
        HeldOut.read(part, y[rows], table.take(rows), weights_of(rows), outcome)
        for part, rows in (("validation", split.validation), ("test", split.test))
    )
    trained_on = rebuilt(table, split.train)
    encoder = template._new_encoder()
    x = learn_inputs(template, encoder.fit_transform(_safe_indexing(X, split.train)), trained_on)

    def held_out_x(rows: Positions) -> Tensor:
        encoded = encoder.transform(_safe_indexing(X, rows))
        return torch.from_numpy(held_out_inputs(template, encoded, table.take(rows))).double()

    exact = exact_device(device)
    validation_x, test_x = (held_out_x(r).to(exact) for r in (split.validation, split.test))
    template.encoder_ = encoder
    template.sensitive_ = trained_on.describe()
    template._keep_outcome(outcome)
    data = template._training_data(x, outcome, trained_on, weights_of(split.train)).to(device)
    return Parts(data, outcome, trained_on, validation, test, validation_x, test_x)
