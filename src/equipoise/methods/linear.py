"""Linear models that were solved elsewhere, as predictors that can be saved and selected."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.networks import StackedLinear, StackedMLP
from equipoise.training import TASKS, Predictor


def linear_predictor(coefficients: NDArray[np.float64], task: str) -> Predictor:
    """Return K linear models in double precision; coefficients (K, p + 1), the constant last.

    >>> model = linear_predictor(np.array([[2.0, 1.0]]), "squared")
    >>> model.evaluate(torch.tensor([[3.0]]))[0]
    tensor([[[7.]]], dtype=torch.float64)
    """
    members, inputs = len(coefficients), coefficients.shape[1] - 1
    network = StackedMLP(inputs, (), 1, generators=[torch.Generator()] * members).double()
    (layer,) = network.layers
    assert isinstance(layer, StackedLinear) and layer.bias is not None
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(coefficients[:, None, :-1]))
        layer.bias.copy_(torch.from_numpy(coefficients[:, -1:]))
    return Predictor(network, TASKS[task])
