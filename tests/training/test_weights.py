"""Sample weights and unknown attributes, to the exact number."""

import numpy as np
import pytest
import torch
from simulated_rows import simulate
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error

from equipoise.training import TASKS, TrainingData

ROWS = torch.tensor([[0, 1, 2, 3]])
DRAWN = torch.tensor([[2, 3, 0, 1]])
WEIGHT = torch.tensor([1.0, 2.0, 3.0, 0.5], dtype=torch.float64)


def weighted(**others):
    given = {name: each if each is None else each[:4] for name, each in vars(simulate()).items()}
    return TrainingData(**{**given, **others})


def test_without_weights_nothing_is_weighed():
    assert weighted().task_weight(ROWS) is None
    assert weighted().pair_weights(ROWS, DRAWN) == (None, None)


def test_real_pairs_weigh_as_their_row_and_resampled_pairs_as_the_product_of_both():
    data = weighted(weight=WEIGHT)
    torch.testing.assert_close(data.task_weight(ROWS)[0], WEIGHT / WEIGHT.mean())
    real, drawn = data.pair_weights(ROWS, DRAWN)
    torch.testing.assert_close(real[0], WEIGHT / WEIGHT.mean())
    product = torch.tensor([3.0, 1.0, 3.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(drawn[0], product / 2)


def test_unknown_rows_count_for_the_task_and_not_for_the_penalty():
    data = weighted(known=torch.tensor([True, False, True, True]))
    assert data.task_weight(ROWS) is None
    real, drawn = data.pair_weights(ROWS, DRAWN)
    torch.testing.assert_close(real[0], torch.tensor([4, 0, 4, 4]).double() / 3)
    torch.testing.assert_close(drawn[0], torch.tensor([2, 0, 2, 0]).double())


@pytest.mark.parametrize("task", TASKS)
def test_task_losses_are_weighted_means_as_scikit_learn_computes_them(task):
    generator = torch.Generator().manual_seed(0)
    width = 3 if task == "multiclass" else 1
    output = torch.randn(1, 4, width, generator=generator, dtype=torch.float64)
    target = torch.tensor([[0, 1, 1, 0]]) if task in ("binary", "multiclass") else DRAWN
    target = target if task == "multiclass" else target.double()
    mean_weight = WEIGHT[None] / WEIGHT.mean()
    loss = TASKS[task].loss(output, target, mean_weight).item()
    truth, score = target[0].numpy(), TASKS[task].score(output)[0].numpy()
    weight = WEIGHT.numpy()
    off = np.abs(score[:, 0] - truth)
    expected = {
        "binary": lambda: log_loss(truth, score[:, 0], sample_weight=weight),
        "multiclass": lambda: log_loss(truth, score, sample_weight=weight, labels=[0, 1, 2]),
        "absolute": lambda: mean_absolute_error(truth, score[:, 0], sample_weight=weight),
        "squared": lambda: mean_squared_error(truth, score[:, 0], sample_weight=weight),
        "huber": lambda: np.average(np.where(off < 1, off**2 / 2, off - 0.5), weights=weight),
    }[task]()
    assert loss == pytest.approx(expected, rel=1e-9)
