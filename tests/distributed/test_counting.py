"""Audits from counts: what is exact, what lies inside its interval, and what files are refused."""

import math
import socket
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from equipoise import audit, audit_files
from equipoise.auditing.inputs import AuditSettings
from equipoise.cluster import connected
from equipoise.distributed import counting, sources
from equipoise.distributed.auditing import audit_streams
from equipoise.distributed.counting import (
    AuditColumns,
    Profile,
    count,
    grids_of,
    hashes_of,
    profile_of,
)
from equipoise.distributed.sources import FilePart, find_files, runs_of
from equipoise.errors import InputError
from tests.error_parts import says

SENSITIVE = ("age", "sex", "race")
FAST = {"draws": 60, "permutations": 99}
KEYS = ["notion", "metric", "attribute", "group"]
#: What depends on no random draws of rows.
FIXED = ["value", "chance", "resolution", "p_value", "p_adjusted", "certificate", "n"]


def people(n=4000, *, digits=2, seed=0):
    random = np.random.default_rng(seed)
    age = random.integers(18, 80, n)
    sex = random.choice(["F", "M"], n, p=[0.4, 0.6])
    race = random.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    hired = (random.random(n) < 0.3 + 0.2 * (sex == "M")).astype(int)
    score = 0.2 + 0.2 * hired + 0.1 * (sex == "M") + 0.002 * age + random.normal(0, 0.15, n)
    columns = {"age": age, "sex": sex, "race": race, "hired": hired}
    return pd.DataFrame({"score": score.clip(0, 1).round(digits), **columns})


def written(rows, folder, files=1):
    folder.mkdir(exist_ok=True)
    for number, places in enumerate(np.array_split(np.arange(len(rows)), files)):
        rows.iloc[places].to_parquet(folder / f"part-{number:02d}.parquet")
    return folder / "*.parquet"


def roles(target="hired", sensitive=SENSITIVE, missing="error", scores=("score",), weight=None):
    return AuditColumns(scores, target, sensitive, missing, weight)


def streamed(paths, *, types=None, columns=None, **options):
    columns = roles() if columns is None else columns
    files = find_files(str(paths), columns.names)
    return audit_streams(map, files, columns, AuditSettings(**FAST | options), types or {})


def together(one, other):
    """Rows of two audits side by side; both have the same."""
    frames = [each.to_frame() for each in (one, other)]
    both = frames[0].merge(frames[1], on=KEYS, how="outer", suffixes=("", "_counted"))
    assert len(both) == len(frames[0]) == len(frames[1])
    return both


def test_with_few_distinct_scores_every_number_is_that_of_audit(tmp_path):
    rows = people()
    rows.loc[::50, "race"] = None
    known = audit(
        rows["score"], rows["hired"], rows[list(SENSITIVE)], missing_sensitive="skip", **FAST
    )
    counted = streamed(written(rows, tmp_path / "in", 3), columns=roles(missing="skip"))
    both = together(known, counted)
    for name in FIXED:
        np.testing.assert_allclose(both[f"{name}_counted"], both[name], rtol=1e-11, atol=1e-12)
    for name in ("where", "reason"):
        assert both[f"{name}_counted"].tolist() == both[name].tolist()
    # Intervals of gaps and of groups rest on counts alone.
    gaps = both[both["metric"].str.contains("gap") | (both["metric"] == "selection rate")]
    assert len(gaps) > 20
    for name in ("low", "high"):
        np.testing.assert_allclose(gaps[f"{name}_counted"], gaps[name], rtol=1e-9, atol=1e-12)
    for name in ("histograms", "bands", "calibration"):
        pd.testing.assert_frame_equal(getattr(counted, name), getattr(known, name))
    for name in ("n", "threshold", "outcome_words", "sensitive", "crossed", "notions"):
        assert getattr(counted, name) == getattr(known, name)
    assert counted.to_html().startswith("<!doctype html>")


def test_weighted_rows_count_as_audit_counts_them(tmp_path):
    rows = people(3000)
    rows["w"] = np.random.default_rng(3).lognormal(0, 0.8, len(rows))
    given = (rows["score"], rows["hired"], rows[list(SENSITIVE)])
    paths = written(rows, tmp_path / "in", 3)
    known = audit(*given, sample_weight=rows["w"], **FAST)
    counted = streamed(paths, columns=roles(weight="w"))
    assert counted.weighted and (counted.n, counted.threshold) == (known.n, known.threshold)
    both = together(known, counted)
    for name in FIXED:
        np.testing.assert_allclose(both[f"{name}_counted"], both[name], rtol=1e-11, atol=1e-12)
    for name in ("where", "reason", "note"):
        assert both[f"{name}_counted"].tolist() == both[name].tolist()
    # Intervals that rest on no draws are those of the rows: effective numbers of rows are kept.
    gaps = both[both["metric"].str.contains("gap") | both["group"].isin(["F", "M", "a", "b", "c"])]
    assert len(gaps) > 60
    for name in ("low", "high"):
        np.testing.assert_allclose(gaps[f"{name}_counted"], gaps[name], rtol=1e-9, atol=1e-12)
    # The others differ by chance. Without the spread of weights in a cell they would be shorter by
    # a quarter: here 3,000 rows are like 1,600 of equal weight.
    drawn = both[both["metric"].isin(["KS-GSP", "KS-GEO", "SP", "AUC"])]
    lengths = (drawn["high_counted"] - drawn["low_counted"]) / (drawn["high"] - drawn["low"])
    assert 0.9 < lengths.median() < 1.1 and len(lengths) > 10
    for name in ("histograms", "bands", "calibration"):
        pd.testing.assert_frame_equal(getattr(counted, name), getattr(known, name))


def test_equal_weights_change_nothing(tmp_path):
    paths = written(people(600).assign(w=7.0), tmp_path / "in", 2)
    columns = {"sensitive": ("sex",), "target": None}
    frames = [streamed(paths, columns=roles(**columns, weight=w)).to_frame() for w in (None, "w")]
    pd.testing.assert_frame_equal(*frames, rtol=1e-12)


def test_several_scores_are_audited_as_audit_does(tmp_path):
    rows = people()
    random = np.random.default_rng(1)
    rows["other"] = (rows["score"] + random.normal(0, 0.2, len(rows))).clip(0, 1).round(2)
    names = ("other", "score")
    scores = {name: rows[name] for name in names}
    known = audit(scores, rows["hired"], rows[["sex"]], **FAST)
    columns = {"sensitive": ("sex",)}
    paths = written(rows, tmp_path / "in", 3)
    counted = streamed(paths, columns=roles(scores=names, **columns))
    assert list(counted) == list(known) == ["other", "score"]
    for name in names:
        both = together(known[name], counted[name])
        for field in FIXED:
            np.testing.assert_allclose(both[f"{field}_counted"], both[field], rtol=1e-11)
    # Differences of AUC are from single rows, which are all drawn here.
    assert counted.utility == known.utility == "AUC"
    ((one,), (other,)) = (each.differences for each in (known, counted))
    assert other.value == pytest.approx(one.value, abs=1e-12) and other.n == one.n == len(rows)
    assert other.low == pytest.approx(one.low, abs=0.01) and other.note == ""
    assert counted.to_html().startswith("<!doctype html>")
    alone = streamed(paths, columns=roles(scores=("other",), **columns))
    frames = [each.to_frame().drop(columns="certificate") for each in (alone, counted["other"])]
    pd.testing.assert_frame_equal(*frames)


def test_every_row_is_read_twice_however_many_scores_there_are(tmp_path, monkeypatch):
    read, frames = [], FilePart.frames

    def noted(file, columns):
        for before, frame in frames(file, columns):
            read.append(len(frame))
            yield before, frame

    monkeypatch.setattr(FilePart, "frames", noted)
    rows = people(600).assign(other=lambda frame: 1 - frame["score"], w=1.0)
    columns = roles(None, ("sex",), scores=("score", "other"), weight="w")
    streamed(written(rows, tmp_path / "in", 3), columns=columns)
    assert read == [200] * 6


def test_differences_of_scores_say_how_many_rows_they_rest_on(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "DRAWN", 500)
    rows = people().assign(other=lambda frame: 1 - frame["score"])
    columns = roles(sensitive=("sex",), scores=("score", "other"))
    counted = streamed(written(rows, tmp_path / "in"), columns=columns)
    (found,) = counted.differences
    assert (found.n, found.note) == (500, "computed on 500 of 4000 rows")


def test_bins_leave_rates_exact_and_state_what_they_hide(tmp_path, monkeypatch):
    # Few bins, so that there is something to hide.
    for name in ("SCORE_BINS", "FEWEST_BINS"):
        monkeypatch.setattr(counting, name, 80)
    rows = people(digits=9)
    options = {"threshold": 0.5}
    known = audit(rows["score"], rows["hired"], rows[list(SENSITIVE)], **options, **FAST)
    both = together(known, streamed(written(rows, tmp_path / "in"), **options))
    rates = both[both["metric"].str.contains("rate|accuracy|precision|score")]
    rates = rates[~rates["metric"].str.contains("difference|ratio")]
    assert len(rates) > 100
    np.testing.assert_allclose(rates["value_counted"], rates["value"], rtol=1e-12)
    assert rates["n_counted"].tolist() == rates["n"].tolist()
    by_metric = both.set_index(["metric", "attribute"])
    for metric, attribute in (("KS-GSP", "sex"), ("KS-GEO", "sex"), ("KS-GSP", "race")):
        row = by_metric.loc[(metric, attribute)]
        hidden = float(row["note_counted"].partition("hides at most ")[2].split()[0])
        assert 0 < hidden < 0.5
        # Bins can only hide a difference.
        assert -1e-12 <= row["value"] - row["value_counted"] <= hidden * 1.05
        assert row["low_counted"] <= row["value"] <= row["high_counted"]
    area = by_metric.loc[("AUC", "")]
    uncertain = float(area["note_counted"].partition("bins: ")[2].split()[0])
    assert abs(area["value"] - area["value_counted"]) <= uncertain
    gaps = both[both["metric"] == "gap"]
    assert (gaps["value_counted"] <= gaps["value"] + 1e-12).all()
    assert (gaps["high_counted"] >= gaps["high"] - 1e-12).all()


def test_the_audit_does_not_depend_on_how_rows_are_split_into_files(tmp_path):
    rows = people(1500)
    one, five = (streamed(written(rows, tmp_path / f"{k}", k)).to_frame() for k in (1, 5))
    pd.testing.assert_frame_equal(one, five, rtol=1e-11)


def test_workers_add_up_what_they_count_in_very_many_files(tmp_path, monkeypatch):
    paths = written(people(700), tmp_path / "in", 7)
    columns = roles(target=None, sensitive=("sex",))
    one_each = streamed(paths, columns=columns)
    monkeypatch.setattr(sources, "RUNS", 3)
    runs = runs_of(find_files(str(paths), columns.names))
    assert [[file.number for file in run.files] for run in runs] == [[0, 1, 2], [3, 4, 5], [6]]
    says(runs[0], "part-00.parquet", "to", "part-02.parquet")
    frames = [each.to_frame() for each in (one_each, streamed(paths, columns=columns))]
    pd.testing.assert_frame_equal(*frames, rtol=1e-11)


def test_hashes_depend_on_the_place_of_a_row_alone():
    file = FilePart("any", 3)
    whole = hashes_of(file, 0, 1000)
    parts = np.concatenate([hashes_of(file, 0, 300), hashes_of(file, 300, 700)])
    np.testing.assert_array_equal(whole, parts)
    assert len(np.unique(whole)) == 1000
    # Uniform: the mean of 1 000 is within 5 standard errors of one half.
    assert abs((whole / 2**64).mean() - 0.5) < 5 / math.sqrt(12 * 1000)


def test_rows_are_drawn_evenly_and_the_same_however_they_are_merged(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "DRAWN", 500)
    files = find_files(str(written(people(), tmp_path / "in", 4)), roles().names)
    parts = [profile_of(roles(), run) for run in runs_of(files)]
    drawn = Profile.of(parts).drawn
    pd.testing.assert_frame_equal(drawn, Profile.of(parts[::-1]).drawn)
    assert len(drawn) == 500
    of_files = np.bincount([len(set(drawn.index) & set(part.drawn.index)) for part in parts])
    # Each of four files has a quarter of the rows: 125 are expected, with a deviation of 9.
    assert all(80 < size < 170 for size in np.flatnonzero(of_files))


def test_continuous_attributes_are_cut_where_groups_are(tmp_path):
    random = np.random.default_rng(0)
    n = 120_000
    income = random.lognormal(size=n)
    rows = pd.DataFrame({"score": random.random(n).round(2), "income": income})
    columns = roles(target=None, sensitive=("income",))
    (run,) = runs_of(find_files(str(written(rows, tmp_path / "in")), columns.names))
    kinds = {"income": "continuous"}
    (grid,) = grids_of(profile_of(columns, run), columns, "score", kinds, None)
    tops = np.array(grid.attributes[0].tops)
    share = np.searchsorted(np.sort(income), tops, side="right") / n
    for decile in np.arange(1, 10) / 10:  # the sets of the paper: everybody up to a decile
        assert decile <= share[share >= decile - 1e-12].min() <= decile + 0.01
    (found,) = count((grid,), run)
    codes = np.unravel_index(found.cells, grid.shape)[2]
    sizes = np.bincount(codes, found.number, len(tops))
    np.testing.assert_allclose(sizes.cumsum(), share * n, rtol=1e-12)


def test_a_missing_column_is_found_before_anything_runs(tmp_path):
    rows = people(400)
    paths = written(rows, tmp_path / "in", 80)
    rows.head(5).drop(columns="sex").to_parquet(tmp_path / "in" / "part-69.parquet")
    with pytest.raises(InputError) as refused:
        find_files(str(paths), roles().names)
    says(refused.value, "part-69.parquet", "70 of 80", "must have the column 'sex'", "none")


def test_a_type_that_changes_is_found_before_anything_runs(tmp_path):
    paths = written(people(100), tmp_path / "in", 4)
    # Another width is no other type.
    people(25).astype({"age": "int16"}).to_parquet(tmp_path / "in" / "part-01.parquet")
    find_files(str(paths), roles().names)
    people(25).astype({"age": str}).to_parquet(tmp_path / "in" / "part-02.parquet")
    with pytest.raises(InputError) as refused:
        find_files(str(paths), roles().names)
    says(refused.value, "part-02.parquet", "numbers", "'age'", "part-00.parquet", "got text")


def test_a_damaged_file_is_named_with_the_last_row_that_could_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("equipoise.distributed.sources.ROWS", 1000)
    paths = written(people(40_000), tmp_path / "in")
    path = tmp_path / "in" / "part-00.parquet"
    people(40_000).to_parquet(path, row_group_size=10_000, compression=None)
    content = bytearray(path.read_bytes())
    third = pq.ParquetFile(path).metadata.row_group(2).column(0)
    start = third.dictionary_page_offset or third.data_page_offset
    content[start : start + 100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        streamed(paths)
    says(refused.value, "part-00.parquet", "damaged", "write or copy it again", "up to row 16,000")


@pytest.mark.parametrize(
    ("column", "value", "parts"),
    [
        ("score", math.inf, ("'score'", "finite", "inf in row 1,235", "correct it")),
        ("score", None, ("'score'", "value in every row", "row 1,235", "leave the row out")),
        ("hired", None, ("'hired'", "value in every row", "row 1,235", "leave the row out")),
        ("sex", None, ("'sex'", "value in every row", "row 1,235", "missing_sensitive='skip'")),
        ("w", 0.0, ("'w'", "above 0", "got 0 in row 1,235", "leave rows")),
        ("w", None, ("'w'", "value in every row", "row 1,235", "leave the row out")),
    ],
)
def test_a_value_that_no_row_may_have_is_named_by_file_and_row(tmp_path, column, value, parts):
    rows = people(3000).astype({"hired": float}).assign(w=1.0)
    rows.loc[1234, column] = value
    paths = written(rows, tmp_path / "in")
    with pytest.raises(InputError) as refused:
        streamed(paths, columns=roles(weight="w"))
    says(refused.value, "part-00.parquet", *parts)


def test_what_cannot_be_counted_is_refused(tmp_path):
    names = [f"name {k % 250}" for k in range(500)]
    towns = [f"town {k // 2}" for k in range(500)]
    rows = people(500).assign(income=np.arange(500.0), name=names, town=towns, one=1)
    paths = written(rows, tmp_path / "in")
    with pytest.raises(InputError) as refused:
        streamed(paths, columns=roles(target="income"))
    says(refused.value, "target", "classes", "'income'", "independence")
    with pytest.raises(InputError) as refused:
        streamed(paths, columns=roles(sensitive=("name", "town", "age")))
    says(refused.value, "sensitive", "at most", "combinations", "'name' 250", "fewer columns")
    with pytest.raises(InputError) as refused:
        streamed(paths, columns=roles(sensitive=("one",)))
    says(refused.value, "'one'", "at least two distinct values", "got 1.0", "leave it out")
    with pytest.raises(InputError) as refused:
        streamed(paths, columns=roles(weight="town"))
    says(refused.value, "'town'", "numbers to be weights", "got text", "another")
    for named, parts in (
        ({"score": "score", "weight": "score"}, ("different columns", "'score' twice")),
        ({"score": []}, ("score", "at least one column", "got none")),
    ):
        with pytest.raises(InputError) as refused:
            audit_files(paths, sensitive="sex", **named)
        says(refused.value, *parts)


def test_files_must_exist_and_have_types(tmp_path):
    with pytest.raises(InputError) as refused:
        find_files(str(tmp_path / "*.parquet"), ["score"])
    says(refused.value, "paths", "must name files that exist", "*.parquet", "check the folder")
    people(10).to_csv(tmp_path / "people.csv")
    with pytest.raises(InputError) as refused:
        find_files(tmp_path / "people.csv", ["score"])
    says(refused.value, "Parquet", "people.csv", "write it as Parquet")


def test_an_address_where_nothing_answers_is_refused_at_once(monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(InputError) as refused, connected():
            pass
    says(refused.value, "RAY_ADDRESS", "must be", address, "does not answer", "unset RAY_ADDRESS")


def test_without_ray_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # makes any import of it fail
    paths = written(people(50), tmp_path / "in")
    with pytest.raises(InputError) as refused:
        audit_files(paths, score="score", sensitive="sex")
    says(refused.value, "engine", "needs ray", "not installed", "equipoise[ray]")
