"""Table 5: how well a network finds the density ratio beta where it is known.

P(Y = 1 | A = a) = 1 / (1 + exp(-a)) and P(A = a) = 1/2, for a in {0, 1} (Sohn, Song and Lin 2024,
supplement, "Estimation performance from D_beta on a toy experiment"). The network has two hidden
layers of 64 without normalization and is trained on batches of 100 for 10 000 iterations, of which
the last counts; descent of learning rate 0.005 and momentum 0.9 is that of the released program.
The paper does not say how many rows there were.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
import torch

from equipoise.density_ratio import CountedRatio, NetworkRatio, RatioSettings
from equipoise.errors import InputError
from equipoise.estimators.fitting import read_device
from equipoise.training import Member, OptimizerSettings, RowSet, TrainingData, run_phase

#: What the paper prints for each cell (a, y), in its order: point estimate and deviation.
PUBLISHED: Mapping[tuple[int, int], tuple[float, float]] = MappingProxyType(
    {
        (1, 1): (1.1810, 0.0077),
        (0, 1): (0.8126, 0.0029),
        (1, 0): (0.7082, 0.0018),
        (0, 0): (1.2955, 0.0048),
    }
)
_BATCH = 100
_DESCENT = OptimizerSettings(kind="sgd", learning_rate=0.005, momentum=0.9)


def true_ratio(a: int, y: int) -> float:
    """beta(a, y) = p(y | a) / p(y).

    >>> round(true_ratio(1, 1), 4)
    1.1877
    """
    given = [1 / (1 + math.exp(-value)) for value in (0, 1)]
    chance = given if y == 1 else [1 - share for share in given]
    return chance[a] / (sum(chance) / 2)


def density_ratio_toy(
    *,
    iterations: int = 10_000,
    replications: int = 5,
    rows: int = 20_000,
    device: str = "auto",
) -> pd.DataFrame:
    """Estimate beta in all four cells, by the network and by counting, beside truth and paper.

    Parameters
    ----------
    iterations : int
        Steps of the network.
    replications : int
        Times that rows are drawn and a network is trained on them; all are trained together.
    rows : int
        Rows that each replication draws, for the network and for counting alike.
    device : str
        "auto", "cpu", "cuda".

    Returns
    -------
    DataFrame
        One cell a row: cell, true, paper, paper_std, network, network_std, counts, counts_std.
        Estimates are means over the replications, with their sample deviations (undefined for one).
    """
    for name, value in (("iterations", iterations), ("replications", replications)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    if rows < _BATCH:
        raise InputError(f"rows must be at least {_BATCH}, one batch, got {rows}")
    data = _drawn(replications, rows).to(read_device(device))
    members = [
        Member(0.0, number, RowSet(range(number * rows, (number + 1) * rows)))
        for number in range(replications)
    ]
    settings = RatioSettings(
        optimizer=_DESCENT,
        batch_size=_BATCH,
        iterations=iterations,
        patience=None,
        schedule="constant",
    )
    network = NetworkRatio(data, members, settings=settings)
    for phase in network.phases:
        run_phase(phase)
    found = {
        "network": _at_cells(network, data, replications),
        "counts": _at_cells(CountedRatio(data, members), data, replications),
    }
    table = pd.DataFrame(
        {
            "cell": [f"p({y}|{a})/p({y})" for a, y in PUBLISHED],
            "true": [true_ratio(a, y) for a, y in PUBLISHED],
            "paper": [mean for mean, _ in PUBLISHED.values()],
            "paper_std": [deviation for _, deviation in PUBLISHED.values()],
        }
    )
    for name, estimates in found.items():
        table[name] = estimates.mean()
        table[f"{name}_std"] = estimates.std()
    return table


def _drawn(replications: int, rows: int) -> TrainingData:
    """Rows of every replication, one after the other, each from a generator of its own."""
    drawn = [np.random.default_rng(number).random((2, rows)) for number in range(replications)]
    uniform = np.concatenate(drawn, axis=1)
    a = (uniform[0] < 0.5).astype(np.int64)
    y = (uniform[1] < 1 / (1 + np.exp(-a))).astype(np.int64)
    cell, number = torch.from_numpy(a), torch.from_numpy(y)
    return TrainingData(
        x=torch.zeros(len(a), 1),
        target=number.float(),
        outcome=number.float()[:, None],
        outcome_class=number,
        attribute=cell.float()[:, None],
        attribute_cell=cell,
    )


def _at_cells(
    ratio: CountedRatio | NetworkRatio, data: TrainingData, replications: int
) -> pd.DataFrame:
    """Estimates of all cells, one replication a row.

    A ratio is asked for by rows: one that has y, and one that has a.
    """
    assert data.attribute_cell is not None and data.outcome_class is not None
    of_a, of_y = (
        {value: int((column == value).nonzero()[0]) for value in (0, 1)}
        for column in (data.attribute_cell, data.outcome_class)
    )
    asked = torch.tensor([(of_y[y], of_a[a]) for a, y in PUBLISHED], device=data.x.device)
    having_y, having_a = asked.T.expand(replications, -1, -1).unbind(1)
    return pd.DataFrame(ratio(having_y, having_a).double().cpu().numpy())
