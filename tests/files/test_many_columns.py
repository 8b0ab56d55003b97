"""Tables of many columns: the work grows with their number, not with its square."""

import numpy as np
import pandas as pd
import pytest

from equipoise.errors import InputError
from equipoise.files import read_columns
from equipoise.files.columns import _steps, assign_roles, check_columns
from equipoise.files.reading import _read_text, find_data_file
from equipoise.tables import FeatureEncoder
from equipoise.tables.columns import read_columns as columns_of
from equipoise.tables.encoders import arranged

COLUMNS = 240


@pytest.fixture(scope="module")
def frame():
    """Numbers, categories and truth values; some give the target or the group away."""
    rng = np.random.default_rng(0)
    y, group = rng.integers(0, 2, 80), rng.integers(0, 2, 80)
    columns = {}
    for place in range(COLUMNS):
        noise = rng.normal(size=80)
        columns[f"c{place}"] = [
            noise,
            rng.choice(["a", "b", None], 80),
            noise > 0,
            noise + 100 * (place % 40 == 3) * y + 100 * (place % 40 == 7) * group,
        ][place % 4]
    return pd.DataFrame({**columns, "y": y, "group": np.array(["f", "m"])[group]})


def read(frame):
    return read_columns(frame, target="y", sensitive="group")


def test_a_wide_table_is_read_as_its_columns_are_one_by_one(frame):
    wide = read(frame)
    narrow = [read(frame[[name, "y", "group"]]) for name in frame.columns[:COLUMNS:3]]
    of = {column.name: column for column in wide.columns}
    for each in narrow:
        assert each.columns == tuple(of[column.name] for column in each.columns)
        names = {column.name for column in each.columns}
        flags = sorted((flag for flag in wide.flags if flag.column in names), key=repr)
        assert sorted(each.flags, key=repr) == flags
    assert {flag.concern for flag in wide.flags} >= {"giveaway", "proxy"}


def test_a_wide_table_is_encoded_as_its_columns_are_one_by_one(frame):
    X = frame.drop(columns=["y", "group"])
    together = FeatureEncoder()
    matrix = together.fit_transform(X)
    for name in X.columns[::7]:
        alone = FeatureEncoder()
        columns = alone.fit_transform(X[[name]])
        places = [together.names_.index(each) for each in alone.names_]
        np.testing.assert_array_equal(matrix[:, places], columns)


class Name(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


def comparisons(work):
    """How many comparisons of names it takes."""
    before = Name.compared
    work()
    return Name.compared - before


def names(count, prefix="c"):
    return [Name(f"{prefix}{place}") for place in range(count)]


def roles(count):
    given = {"target": [Name("y")], "sensitive": [Name("a")], "features": names(count)}
    assign_roles([*names(count), "y", "a"], given)


def chosen(count):
    check_columns("columns", names(count), names(count))


def other_names(count):
    columns = columns_of(np.zeros((1, count)), argument="X", prefix=Name("z"))
    with pytest.raises(InputError):
        arranged(columns, dict.fromkeys(names(count + 1), "number"))


@pytest.mark.parametrize("work", [roles, chosen, other_names])
def test_names_are_looked_up_not_searched_for(work):
    few, many = (comparisons(lambda n=n: work(n)) for n in (300, 600))
    assert many <= 2 * few + 20  # four times as many if each were compared with all


def test_more_columns_do_not_cut_a_file_into_more_blocks(tmp_path):
    """As many rows make as many pieces of a column, however many columns there are."""
    found = {}
    for count in (1_500, 3_000):
        path = tmp_path / f"{count}.csv"
        row = ",".join(["0.25"] * count)
        path.write_text("\n".join([",".join(names(count)), *[row] * 800]), encoding="ascii")
        found[count] = _read_text(find_data_file(path)).column(0).num_chunks
    assert found[3_000] <= found[1_500] + 1 < 8


def test_progress_is_said_every_two_seconds_and_not_before(monkeypatch):
    seconds, said = iter([0.0, 1.0, 1.9, 2.0, 2.0, 3.9, 4.1, 4.1]), []
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    step = _steps(said.append, 3, 2)
    for _ in range(5):
        step()
    assert said == ["Looking at 3 columns: 50% done ...", "Looking at 3 columns: 83% done ..."]
