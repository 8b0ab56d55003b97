import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.training import BatchStream, Member, RowSet

CPU = torch.device("cpu")


def epoch(stream):
    pairs = [stream.spread(stream.draw()) for _ in range(stream.batches_per_epoch)]
    return torch.stack([rows for rows, _ in pairs]), torch.stack([drawn for _, drawn in pairs])


@given(seed=st.integers(0, 2**31), batches=st.integers(1, 4), size=st.integers(2, 9))
@settings(max_examples=50, deadline=None)
def test_resampling_keeps_the_marginal_and_never_draws_the_row_itself(seed, batches, size):
    stream = BatchStream([Member(0.5, seed)], batches * size, batch_size=size, device=CPU)
    rows, drawn = epoch(stream)
    everyone = torch.arange(batches * size)
    assert torch.equal(rows.flatten().sort().values, everyone)
    assert torch.equal(drawn.flatten().sort().values, everyone)
    assert not (rows == drawn).any()
    if batches > 1:
        for batch, resampled in zip(rows[:, 0], drawn[:, 0], strict=True):
            assert not set(batch.tolist()) & set(resampled.tolist())


def test_equal_seeds_share_an_order_and_other_seeds_do_not():
    members = [Member(0.1, 1), Member(0.2, 2), Member(0.3, 1)]
    stream = BatchStream(members, 50, batch_size=20, device=CPU)
    rows, _ = stream.spread(stream.draw())
    assert rows.shape == (3, 20)
    assert torch.equal(rows[0], rows[2])
    assert not torch.equal(rows[0], rows[1])


def test_members_see_only_their_rows():
    members = [Member(0.1, 1, RowSet(range(10))), Member(0.1, 1, RowSet(range(10, 20)))]
    rows, drawn = epoch(BatchStream(members, 20, batch_size=5, device=CPU))
    for k in range(2):
        assert set(rows[:, k].flatten().tolist()) == set(range(10 * k, 10 * k + 10))
        assert set(drawn[:, k].flatten().tolist()) == set(range(10 * k, 10 * k + 10))


def test_pairs_are_a_uniform_draw():
    """Over many epochs each row meets each other row equally often (chi-squared statistic)."""
    stream = BatchStream([Member(0.5, 3)], 6, batch_size=3, device=CPU)
    met = torch.zeros(6, 6)
    for _ in range(3000):
        rows, drawn = epoch(stream)
        met.index_put_((rows.flatten(), drawn.flatten()), torch.ones(6), accumulate=True)
    assert not met.diagonal().any()
    expected = 3000 / 5
    off_diagonal = met[~torch.eye(6, dtype=torch.bool)]
    statistic = ((off_diagonal - expected) ** 2 / expected).sum()
    # 30 cells less 11 margins: 19 degrees of freedom, 99.9 % quantile 43.8.
    assert statistic < 43.8


def test_unequal_splits_and_single_rows_are_refused():
    with pytest.raises(
        InputError,
        match=r"members must train on the same number of rows, got \[2, 3\]; leave out rows",
    ):
        unequal = [Member(0, 1, RowSet(range(n))) for n in (2, 3)]
        BatchStream(unequal, 3, batch_size=2, device=CPU)
    with pytest.raises(InputError, match=r"X must have at least 2 rows with.*n_samples=1"):
        BatchStream([Member(0, 1)], 1, batch_size=2, device=CPU)


def test_strength_outside_its_range_is_refused():
    with pytest.raises(
        InputError,
        match=r"strength must lie in \[0, 1\), got 1; 0 is plain training, values near 1 leave "
        "little of the task",
    ):
        Member(1, 0)
