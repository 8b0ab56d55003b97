"""One pass over files, and the rows that each worker gets from them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from equipoise import FairClassifier, FairFrontier, FairRegressor
from equipoise.distributed import fitting as of_files
from equipoise.distributed import rows as of_rows
from equipoise.distributed.fitting import FitRequest
from equipoise.distributed.rows import TableRows, rows_of
from equipoise.distributed.sources import find_files, pieces_of
from equipoise.distributed.survey import PART, Draws, FitColumns, survey
from equipoise.errors import InputError
from equipoise.estimators.fitting import Fitting, read_rows
from equipoise.methods import METHODS, Context
from equipoise.notions import Notion
from equipoise.training import Member, TrainingData
from tests.error_parts import says

COLUMNS = FitColumns(target="hired", sensitive=("age", "sex"), features=("grade", "city"))


def people(n=1000, seed=0):
    random = np.random.default_rng(seed)
    sex = random.choice(["F", "M"], n)
    grade = random.normal(size=n).round(6)
    hired = (random.random(n) < 1 / (1 + np.exp(-grade))).astype(int)
    columns = {"age": random.integers(18, 80, n), "sex": sex, "grade": grade}
    city = random.choice(list("abc"), n).astype(object)
    return pd.DataFrame({**columns, "city": city, "hired": hired, "person": np.arange(n) // 3})


def written(rows, folder, files=1, group=200):
    folder.mkdir(exist_ok=True)
    for number, places in enumerate(np.array_split(np.arange(len(rows)), files)):
        part = rows.iloc[places]
        part.to_parquet(folder / f"{number:02d}.parquet", row_group_size=group, index=False)
    return str(folder / "*.parquet")


def surveyed(paths, draws, columns=COLUMNS):
    pieces = pieces_of(find_files(paths, columns.names))
    return pieces, survey(map, pieces, columns, draws)


def plain(frame):
    """The values, whatever their types."""
    return frame.astype(object).where(frame.notna(), None).set_axis(list(frame.columns), axis=1)


@pytest.mark.parametrize("files", [3, 7])
def test_draws_do_not_depend_on_the_files(files, tmp_path):
    rows = people()
    for key in (None, "person"):
        columns = FitColumns(
            target="hired", sensitive=("age", "sex"), features=("grade", "city"), key=key
        )
        draws = Draws(seed=4, validation=0.2, test=0.1, sample=0.3)
        _, one = surveyed(written(rows, tmp_path / "one"), draws, columns)
        _, many = surveyed(written(rows, tmp_path / "many", files, 90), draws, columns)
        assert plain(one.rows).equals(plain(many.rows))
        assert one.total == many.total == many.training.sum()
        parts = one.rows[PART].value_counts()
        assert 150 < parts[1] < 250 and 60 < parts[2] < 140 and 150 < parts[0] < 270
        _, whole = surveyed(written(rows, tmp_path / "one"), Draws(4, 0.2, 0.1, 1.0), columns)
        names = list(columns.names)
        assert plain(whole.rows)[names].to_dict("list") == plain(rows)[names].to_dict("list")
        if key is not None:
            parts = whole.rows.groupby("person")[PART].nunique()
            assert parts.max() == 1


def test_arrow_files_are_read_as_parquet_files_are(tmp_path):
    rows = people()
    draws = Draws(seed=4, validation=0.2, test=0.1, sample=0.3)
    _, known = surveyed(written(rows, tmp_path / "in", 2), draws)
    table = pa.Table.from_pandas(rows, preserve_index=False)
    with pa.ipc.new_file(tmp_path / "rows.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=300)
    pieces, found = surveyed(tmp_path / "rows.arrow", draws)
    assert [piece.rows for piece in pieces[0].pieces] == [300, 300, 300, 100]
    assert plain(found.rows).equals(plain(known.rows))
    assert found.training.sum() == known.training.sum()


def test_every_level_and_a_missing_value_of_every_column_is_in_the_sample(tmp_path):
    rows = people(2000)
    rows.loc[1234, "city"] = "rare"
    rows.loc[1300, "city"] = None
    rows.loc[1400, "grade"] = np.nan
    rows.loc[77, "sex"] = "X"
    rows["hired"] = rows["hired"].astype(object).astype(str)
    rows.loc[500, "hired"] = "maybe"
    columns = FitColumns(
        target="hired", sensitive=("age", "sex"), features=("grade", "city"), missing="skip"
    )
    draws = Draws(seed=1, validation=0, test=0, sample=0.02)
    _, found = surveyed(written(rows, tmp_path / "in", 4), draws, columns)
    assert {1234, 1300, 1400, 77, 500} <= set(found.rows.index)
    assert 20 < len(found.rows) < 70
    assert found.rows.index.is_monotonic_increasing


def test_weights_and_rows_of_weight_zero(tmp_path):
    rows = people().assign(w=lambda frame: (frame.index % 4).astype(float))
    columns = FitColumns(
        target="hired", sensitive=("sex",), features=("grade",), weight="w", has_classes=False
    )
    _, found = surveyed(written(rows, tmp_path / "in", 2), Draws(0, 0, 0, 1.0), columns)
    assert found.total == 750 and found.weight == rows["w"].sum()
    assert not (found.rows.index % 4 == 0).any()


def test_a_wrong_value_is_named_with_file_and_row(tmp_path):
    draws = Draws(0, 0, 0, 1.0)
    for place, (column, value, parts) in enumerate(
        (
            ("hired", None, ("'hired'", "a value in every row", "none in row 151")),
            ("age", None, ("'age'", "got none in row 151", "missing_sensitive='skip'")),
            ("grade", np.inf, ("'grade'", "finite", "inf in row 151", "correct it")),
            ("w", -1.0, ("'w'", "not be negative", "-1.0 in row 151", "weight 0")),
        )
    ):
        rows = people(500).assign(w=1.0).astype({"age": float, "hired": float})
        rows.loc[400, column] = value
        columns = FitColumns(
            target="hired", sensitive=("age",), features=("grade",), weight="w", has_classes=False
        )
        with pytest.raises(InputError) as refused:
            surveyed(written(rows, tmp_path / str(place), 2, group=70), draws, columns)
        says(refused.value, "01.parquet", *parts)


def test_columns_of_very_many_categories_are_refused_or_left_to_the_encoder(tmp_path, monkeypatch):
    monkeypatch.setattr("equipoise.distributed.survey.MOST_LEVELS", 50)
    rows = people().assign(name=[f"n{k}" for k in range(1000)])
    draws = Draws(0, 0, 0, 0.1)
    columns = FitColumns(target="hired", sensitive=("sex",), features=("name",))
    _, found = surveyed(written(rows, tmp_path / "in", 2), draws, columns)
    assert found.levels["name"] is None and len(found.rows) < 200
    for role in ("sensitive", "target"):
        given = {"target": "hired", "sensitive": ("sex",)} | {
            role: "name" if role == "target" else ("name",)
        }
        with pytest.raises(InputError) as refused:
            surveyed(str(tmp_path / "in" / "*"), draws, FitColumns(features=("grade",), **given))
        says(refused.value, role, "'name'", "at most 50", "merge")


def learned(paths, model, *, sample, window, seed=0, weight=None, sensitive=("age", "sex")):
    """A fitting that has learned from a sample, and the table of all rows."""
    columns = FitColumns(
        target="hired",
        sensitive=sensitive,
        features=("grade", "city"),
        weight=weight,
        has_classes=isinstance(model, FairClassifier),
    )
    draws = Draws(seed, 0.0, 0.0, sample)
    pieces, found = surveyed(paths, draws, columns)
    drawn, fitting = found.rows, Fitting(model)
    rows = read_rows(
        [model],
        drawn[["grade", "city"]],
        drawn["hired"],
        drawn[list(sensitive)],
        None if weight is None else drawn[weight],
    )
    fitting.learn(rows, penalized=True)
    fitting.total = found.total
    table = TableRows(
        pieces=tuple(piece for file in pieces for piece in file.pieces),
        training=tuple(found.training.tolist()),
        columns=columns,
        draws=draws,
        weight=found.weight / found.total if weight else 1.0,
        window=window,
        seed=seed,
        in_sample=sample >= 1,
    )
    return fitting, table


def test_rows_beyond_the_sample_are_encoded_as_if_all_had_been_learned_from(tmp_path):
    rows = people().assign(w=lambda frame: 1.0 + frame.index % 3)
    paths = written(rows, tmp_path / "in", 3)
    for model in (FairClassifier(device="cpu"), FairRegressor(device="cpu")):
        fitting, table = learned(paths, model, sample=1.0, window=10_000, weight="w")
        again = fitting.further(
            rows[["grade", "city"]],
            rows["hired"],
            rows[["sex", "age"]],
            rows["w"].to_numpy() / table.weight,
        )
        for name, values in vars(fitting.data).items():
            if isinstance(values, torch.Tensor):
                torch.testing.assert_close(getattr(again, name), values, rtol=1e-6, atol=0)


def test_workers_that_hold_all_rows_have_every_row_once(tmp_path):
    rows = people(1001)
    paths = written(rows, tmp_path / "in", 3)
    whole, table = learned(paths, FairClassifier(device="cpu"), sample=1.0, window=10_000)
    assert rows_of(whole, table, 0, 1) is whole.data
    for sample in (1.0, 0.5):
        fitting, table = learned(paths, FairClassifier(device="cpu"), sample=sample, window=10_000)
        found = [rows_of(fitting, table, worker, 2) for worker in range(2)]
        for worker, part in enumerate(found):
            assert len(part) == 500 and part.built_for is fitting.data and part.window is None
            assert torch.equal(part.target, whole.data.target[worker:1000:2])


def test_windows_show_every_row_once_in_a_pass_and_keep_what_is_set_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(of_rows, "IN_TURN", 30)
    monkeypatch.setattr(of_rows, "AT_ONCE", 3)
    # The outcome of a row is its number.
    rows = people(1200).assign(hired=np.arange(1200.0))
    paths = written(rows, tmp_path / "in", 3, group=50)
    fitting, table = learned(paths, FairRegressor(device="cpu"), sample=0.3, window=150)

    def shown(data, places=slice(None)):
        outcome = fitting.outcome
        return (
            (data.target[places].double() * outcome.scale + outcome.center).round().int().tolist()
        )

    seen = []
    for worker in range(2):
        data = rows_of(fitting, table, worker, 2)
        assert len(data) == 150 and data.window is not None
        aside = torch.tensor([3, 77, 140])
        kept = shown(data, aside)
        data.window.keep(aside)
        passes = [shown(data)]
        rest = torch.ones(150, dtype=torch.bool)
        rest[aside] = False
        for number in range(1, 12):
            data.window.show(number)
            assert shown(data, aside) == kept
            passes.append(shown(data, rest))
        stream = [number for each in passes for number in each]
        first, second = stream[:600], stream[600:1197]
        assert len(set(first)) == 600 and set(second) == set(first) - set(kept)
        again = rows_of(fitting, table, worker, 2)
        again.window.keep(aside)
        for number in (7, 8, 2):
            again.window.show(number)
            assert shown(again, rest) == passes[number]
        # Rows of a window come from several places of the table.
        assert len({number // 60 for number in passes[0]}) > 3
        seen.append(set(first))
    assert seen[0] | seen[1] == set(range(1200))


@pytest.mark.parametrize("notion", list(Notion))
@pytest.mark.parametrize("name", [name for name, each in METHODS.items() if each.by_batch])
def test_methods_by_batch_see_the_rows_of_the_window_that_is_shown(name, notion, tmp_path):
    paths = written(people(1200), tmp_path / "in", 3, group=50)
    options = {"sample": 0.3, "window": 150, "sensitive": ("sex",) if name == "kde" else ("age",)}
    fitting, table = learned(paths, FairClassifier(device="cpu"), **options)
    data = rows_of(fitting, table, 0, 2)
    rows = torch.arange(40)[None]
    score = torch.linspace(-1, 1, 40)[None, :, None]

    def method_of(own):
        context = Context(data=own, members=[Member(0.5, 0)], notion=notion, density_ratio="none")
        return METHODS[name].build(context)

    def values(method):
        return torch.stack([method.penalty(score, rows, rows + 40) for _ in range(5)])

    method = method_of(data)
    before = values(method_of(data))
    data.window.show(1)
    shown = {k: each.clone() for k, each in vars(data).items() if isinstance(each, torch.Tensor)}
    torch.testing.assert_close(values(method), values(method_of(TrainingData(**shown))))
    assert (before - values(method_of(data))).abs().max() > 1e-4


def test_members_set_rows_aside_that_no_window_replaces(tmp_path):
    rows = people(1200)
    paths = written(rows, tmp_path / "in", 3, group=60)
    model = FairClassifier(device="cpu", members=2)
    fitting, table = learned(paths, model, sample=0.3, window=150)
    fitting.data = rows_of(fitting, table, 0, 2)
    first, second = fitting.members(Member(0.5, 0))
    assert first.rows == second.rows and len(first.aside) == len(second.aside) == 30
    together = {*first.rows.numbers.tolist(), *first.aside.numbers.tolist()}
    assert together | {*second.aside.numbers.tolist()} == set(range(150))
    before = fitting.data.x.clone()
    fitting.data.window.show(1)
    same = (fitting.data.x == before).all(1)
    assert same[first.aside.numbers].all() and same[second.aside.numbers].all()
    assert not same.all()


def test_what_files_cannot_train_is_refused_before_they_are_read(tmp_path):
    columns = {
        "target": "hired",
        "sensitive": ("sex",),
        "features": None,
        "drop": (),
        "weight": None,
        "key": None,
    }

    def refused(model, *parts, workers=1, window=10_000, **given):
        with pytest.raises(InputError) as found:
            FitRequest.of(model, workers=workers, window=window, **(columns | given))
        says(found.value, *parts)

    from equipoise import FairAdjuster, FairBoostingClassifier, FairEncoder

    refused(FairBoostingClassifier(), "estimator", "network", "FairBoostingClassifier", "part")
    adjuster = FairAdjuster(FairClassifier())
    refused(adjuster, "estimator", "FairAdjuster", "FairClassifier", "column")
    refused(FairClassifier(method="scutari"), "method", "in iterations", "'scutari'", "'sbp'")
    refused(
        FairClassifier(method="hgr"), "method", "several workers", "'hgr'", "workers=1", workers=2
    )
    refused(FairEncoder(), "normalization", "'batch'", "workers=2", "'none'", workers=2)
    refused(FairClassifier(), "workers", "at least 1", "0", workers=0)
    refused(FairClassifier(), "window", "at least 1000", "10", window=10)
    refused(FairClassifier(hidden=(-1,)), "hidden", "-1")
    refused(FairFrontier(engine="ray"), "engine", "fit_files", "'ray'", "leave it out")
    refused(FairFrontier(validation=[1, 2]), "validation", "share", "[1, 2]", "hash")
    refused(FairFrontier(FairBoostingClassifier()), "estimator", "network", "boosted trees")
    request = FitRequest.of(FairClassifier(), workers=1, window=10_000, **columns)
    with pytest.raises(InputError) as found:
        request.check_positive("yes")
    says(found.value, "positive", "no meaning", "'yes'", "FairFrontier")


def test_tables_that_cannot_be_spread_are_refused(tmp_path, monkeypatch):
    _, table = learned(
        written(people(1200), tmp_path / "in", 1, group=5000),
        FairClassifier(device="cpu"),
        sample=0.3,
        window=150,
    )
    with pytest.raises(InputError) as refused:
        table.check(2)
    says(refused.value, "one row group for each worker", "got 1", "workers=2", "smaller")
    with pytest.raises(InputError) as refused:
        table.check(700)
    says(refused.value, "workers", "at least 2 training rows", "700 for 1200", "fewer")
    monkeypatch.setattr(of_files, "SAMPLE", 100)
    request = FitRequest.of(
        FairClassifier(method="hgr", device="cpu"),
        target="hired",
        sensitive=("sex",),
        features=None,
        drop=("city",),
        weight=None,
        key="person",
        workers=1,
        window=1_000,
    )
    with pytest.raises(InputError) as refused, request.read(str(tmp_path / "in" / "*")):
        pass
    says(refused.value, "method", "fit into memory", "'hgr'", "1,200", "window")
