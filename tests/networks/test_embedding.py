"""Pieces: any piecewise linear function of a column is a linear function of them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from equipoise import FairClassifier
from equipoise.networks import PiecewiseLinear, StackedMLP, find_pieces, select_members
from equipoise.networks.mlp import KNOT_ROWS, MOST_PIECES, find_knots


def embedded(layer: PiecewiseLinear, x: torch.Tensor) -> torch.Tensor:
    """Columns and pieces of rows (n, p) as the first member sees them, (n, p + m)."""
    members = len(layer.column)
    return layer(x.T.expand(members, -1, -1))[0].T


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_any_function_through_the_knots_is_a_sum_of_pieces(seed):
    rng = np.random.default_rng(seed)
    x = torch.tensor(rng.normal(size=(200, 1)).round(rng.integers(0, 4))).float()
    layer = PiecewiseLinear(find_pieces(x), members=1).double()
    knots = find_knots(x[:, 0].double().numpy())
    heights = rng.normal(size=len(knots))
    new = torch.tensor(rng.uniform(-5, 5, size=(50, 1)))  # beyond the knots as well
    pieces = embedded(layer, new)[:, 1:].numpy()
    found = heights[0] + pieces @ np.diff(heights)
    np.testing.assert_allclose(found, np.interp(new[:, 0], knots, heights), rtol=0, atol=1e-4)


def test_columns_come_first_unchanged_and_pieces_in_their_order():
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0], [6.0, 1.0]])
    layer = PiecewiseLinear(find_pieces(x), members=2)
    new = torch.tensor([[1.0, 1.0], [3.0, 0.0], [9.0, 0.5]])
    expected = [[1.0, 1.0, 0.5, 0.0], [3.0, 0.0, 1.0, 0.25], [9.0, 0.5, 1.0, 1.0]]
    assert torch.equal(embedded(layer, new), torch.tensor(expected))


def test_frequent_values_have_knots_of_their_own_and_rare_ones_share_a_few():
    heaps = np.repeat([0.0, 0.31, 0.32], [500, 12, 10])
    rare = np.linspace(0.5, 2, 700)
    knots = find_knots(np.concatenate([heaps, rare]))
    assert {0.0, 0.31, 0.32, 2.0} <= set(knots)
    # Eight evenly spread over the 703 distinct values, the least of which is a heap already.
    assert len(knots) == 3 + 7
    assert 0.32 not in find_knots(np.concatenate([heaps[:-1], rare]))  # nine rows are too few


def test_no_more_than_the_24_most_frequent_values():
    counts = np.arange(10, 60)
    knots = find_knots(np.repeat(np.arange(50.0), counts))
    assert set(np.arange(26.0, 50.0)) <= set(knots)
    assert len(knots) == len(set(range(26, 50)) | {0, 7, 14, 21, 28, 35, 42, 49})


def test_columns_of_two_values_and_constant_ones_stay_whole():
    x = torch.tensor([[0.0, 3.0, -1.0], [1.0, 3.0, 0.0], [1.0, 3.0, 1.0]])
    assert find_pieces(x).column.tolist() == [2, 2]
    none = find_pieces(x[:, :2])
    assert len(none.start) == 0
    layer = PiecewiseLinear(none, members=1)
    assert torch.equal(embedded(layer, x[:, :2]), x[:, :2])


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1.0, 1e37])
def test_pieces_stay_finite_whatever_the_scale(scale):
    x = torch.tensor([[0.0], [1e-9], [0.5], [0.5 + 1e-7], [1.0]], dtype=torch.float64) * scale
    layer = PiecewiseLinear(find_pieces(x.float()), members=1)
    assert (layer.slope > 0).all() and layer.slope.isfinite().all()
    out = embedded(layer, 2 * x.float() - scale)[:, 1:]
    assert ((out >= 0) & (out <= 1)).all()


def test_knots_do_not_depend_on_the_order_of_rows_and_are_found_on_some_of_many():
    x = torch.randn(3000, 2, generator=torch.Generator().manual_seed(0))
    mixed = x[torch.randperm(3000, generator=torch.Generator().manual_seed(1))]
    assert np.array_equal(find_pieces(x).start, find_pieces(mixed).start)
    many = torch.arange(2.0 * KNOT_ROWS).unsqueeze(1)
    assert np.array_equal(find_pieces(many).start, find_pieces(many[::2]).start)


def test_selected_members_keep_their_pieces():
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    starts = [torch.Generator().manual_seed(seed) for seed in (1, 2, 3)]
    stack = StackedMLP(3, (4,), 1, generators=starts, normalization="none", pieces=find_pieces(x))
    rows = x.expand(3, -1, -1)
    chosen = select_members(stack, [2, 0])
    torch.testing.assert_close(chosen(rows[:2]), stack(rows)[[2, 0]])


def test_pieces_do_not_train_and_the_first_layer_sees_them():
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    pieces = find_pieces(x)
    stack = StackedMLP(3, (4,), 1, generators=[torch.Generator()], pieces=pieces)
    assert {name for name, _ in stack.named_buffers()} >= {"layers.0.start", "layers.0.slope"}
    assert not any(name.startswith("layers.0.") for name, _ in stack.named_parameters())
    assert stack.layers[1].weight.shape == (1, 4, 3 + len(pieces.start))


def test_neighboring_values_of_opposite_outcome_are_told_apart():
    """An outcome that alternates along a column: odd amounts pay, even ones do not."""
    amount = np.random.default_rng(0).integers(0, 20, 2000)
    y = amount % 2
    found = {}
    for embedding in ("pieces", "none"):
        model = FairClassifier(strength=0, iterations=150, embedding=embedding, random_state=0)
        model.fit(amount[:, None].astype(float), y)
        found[embedding] = roc_auc_score(y, model.decision_function(amount[:, None].astype(float)))
    assert found["pieces"] > 0.99
    assert found["none"] < 0.9


@pytest.mark.parametrize("columns", [600, 5_000, MOST_PIECES])
def test_many_columns_are_cut_less_finely_so_that_the_first_layer_stays_in_bounds(columns):
    values = torch.from_numpy(np.random.default_rng(0).normal(size=60)).float()
    heaps = values[:6].repeat(10)  # six knots for the heaps, the same for every column
    pieces = find_pieces(heaps[:, None].expand(-1, columns))
    knots = find_knots(heaps.double().numpy())
    each = min(len(knots) - 1, MOST_PIECES // columns)
    counts = np.bincount(pieces.column, minlength=columns)
    assert set(counts) == {each if each > 1 else 0}
    if each > 1:
        ends = pieces.start[:each] + 1 / pieces.slope[:each]
        np.testing.assert_allclose([pieces.start[0], ends[-1]], knots[[0, -1]], rtol=1e-6)
