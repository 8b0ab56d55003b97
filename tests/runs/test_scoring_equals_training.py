"""A value means the same at fit and at predict, in every format that can carry it."""

import datetime
import decimal
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from equipoise import FairBoostingClassifier, FairClassifier
from equipoise.files import read_columns, read_table
from equipoise.runs.scoring import score_file

ROWS = 120
rng = np.random.default_rng(0)
CODES = rng.integers(0, 4, ROWS)


def some(*values, kind=None):
    """A column of these values in random order, each of them often."""
    return pa.array([values[code % len(values)] for code in CODES], kind)


def dictionary(*values, kind):
    return some(*values, kind=kind).dictionary_encode()


#: A column of every type that Arrow can hand over.
COLUMNS = {
    "int8": some(1, 2, 3, kind=pa.int8()),
    "uint64": some(2**63 + 2**20, 5, 7, kind=pa.uint64()),
    "large int": some(2**53 + 1, 2**53 + 3, 4, kind=pa.int64()),
    "int with missing": some(1, None, 3, kind=pa.int64()),
    "float16": some(0.5, 1.25, -2, kind=pa.float16()),
    "float32": some(0.1, 0.2, 3, kind=pa.float32()),
    "double": some(0.1, 1e-30, 1e30, None, kind=pa.float64()),
    "NaN": some(0.5, float("nan"), 2.0, kind=pa.float64()),
    "decimal": some(
        *map(decimal.Decimal, ("0.1", "12345678901234.567", "3")), kind=pa.decimal128(38, 3)
    ),
    "boolean": some(True, False, kind=pa.bool_()),
    "boolean with missing": some(True, False, None, kind=pa.bool_()),
    "text": some("cook", "nurse", "clerk", kind=pa.string()),
    "large text": some("cook", "nurse", None, kind=pa.large_string()),
    "text with spaces": some(" cook", "cook", "cook ", "co ok", kind=pa.string()),
    "words for missing": some("NA", "NULL", "", "cook", kind=pa.string()),
    "more of them": some("nan", "null", "N/A", "cook", kind=pa.string()),
    "None as text": some("None", "none", "<NA>", "?", kind=pa.string()),
    "text like numbers": some("1", "2", "30", kind=pa.string()),
    "text like codes": some("007", "7", "1e3", "0x1F", kind=pa.string()),
    "text like booleans": some("True", "False", kind=pa.string()),
    "text like dates": some("2020-01-31", "2021-01-31", "soon", kind=pa.string()),
    "category": dictionary("NA", "cook", None, kind=pa.string()),
    "category of ints": dictionary(1, 2, 30, kind=pa.int64()),
    "category of floats": dictionary(1.5, 2.0, None, kind=pa.float64()),
    "date": some(datetime.date(2020, 1, 31), datetime.date(2021, 1, 31), kind=pa.date32()),
    "time stamp": some(1, 2, 3, kind=pa.timestamp("s")),
    "duration": some(1, 2, 3, kind=pa.duration("s")),
    "bytes": some(b"a", b"b", kind=pa.binary()),
    "nothing": pa.nulls(ROWS),
}
#: What cannot be a feature, and is dropped with a reason.
DROPPED = {"date", "time stamp", "duration", "bytes", "nothing"}
FORMATS = ("parquet", "feather", "arrow", "csv", "tsv", "csv.gz", "tsv.gz")
TEXT = {"csv", "tsv", "csv.gz", "tsv.gz"}
#: Text files cannot carry these: bytes and durations have no text, and the text of a 32-bit number
#: is the shortest that names it, which is another 64-bit number.
NOT_IN_TEXT = {"bytes", "duration"}
OTHER_IN_TEXT = {
    "float32": "0.1 is another number in 64 bits",
    "words for missing": "in a text file these words are missing values",
    "more of them": "in a text file these words are missing values",
    "category": "in a text file NA is a missing value",
    "text like numbers": "a text file does not tell text from numbers",
    "text like booleans": "a text file does not tell text from true and false",
    "category of ints": "a text file does not tell categories from numbers",
    "category of floats": "a text file does not tell categories from numbers",
}


def write(table, path):
    ending = path.name.partition(".")[2]
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending in ("feather", "arrow"):
        pyarrow.feather.write_feather(table, path)
    else:
        sep = "\t" if "tsv" in ending else ","
        names, columns = table.column_names, [each.to_pylist() for each in table.columns]
        lines = [
            sep.join(names),
            *(sep.join(map(_word, row)) for row in zip(*columns, strict=True)),
        ]
        text = ("\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    return path


def _word(value):
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def table_of(column):
    """The column beside a number, with a target that depends on both."""
    return pa.table({"x": column, "other": pa.array(rng.normal(size=ROWS).round(3))})


#: Frames that a model was fitted on. Files of several formats hold the same frame.
FITTED = {FairClassifier: [], FairBoostingClassifier: []}


def model_for(frame, of=FairClassifier):
    """A model of this frame, and its columns; equal frames, types included, share one."""
    for known, fitted in FITTED[of]:
        if known.equals(frame):
            return fitted
    fitted = fit(frame, of)
    FITTED[of].append((frame, fitted))
    return fitted


def fit(frame, of):
    frame = frame.assign(y=np.where((CODES + frame["other"]) > 1.5, "yes", "no"), a=CODES % 2)
    columns = read_columns(frame, target="y", sensitive="a")
    small = {"iterations": 20, "hidden": (8,)} if of is FairClassifier else {"rounds": 5}
    model = of(strength=0, members=2, early_stopping=None, random_state=0, **small)
    return model.fit(frame[columns.features], frame["y"]), columns


def scores_of(model, path, tmp_path):
    report = score_file(model, path, tmp_path / "scores.parquet", overwrite=True, rows=70)
    assert report.scored == report.rows, report
    return pd.read_parquet(tmp_path / "scores.parquet")["score"].to_numpy()


@pytest.mark.filterwarnings("ignore:X has")
@pytest.mark.parametrize("of", [FairClassifier, FairBoostingClassifier])
@pytest.mark.parametrize("name", COLUMNS)
def test_scores_of_a_file_are_those_of_the_frame_that_fit_read(tmp_path, name, of):
    if of is FairBoostingClassifier:
        pytest.importorskip("lightgbm")
    table = table_of(COLUMNS[name])
    for ending in FORMATS:
        if name in NOT_IN_TEXT and ending in TEXT:
            continue
        path = write(table, tmp_path / f"rows.{ending}")
        frame = read_table(path)
        model, columns = model_for(frame, of)
        assert ("x" in columns.dropped) == (name in DROPPED), ending
        expected = model.predict_proba(frame[columns.features])[:, 1]
        found = scores_of(model, path, tmp_path)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0, err_msg=ending)


@pytest.mark.parametrize("name", sorted(COLUMNS.keys() - DROPPED))
def test_scores_do_not_depend_on_the_format(tmp_path, name):
    table = table_of(COLUMNS[name])
    paths = {ending: write(table, tmp_path / f"rows.{ending}") for ending in FORMATS}
    scored = []
    for fitted in ("parquet", "feather", "csv"):
        frame = read_table(paths[fitted])
        model, columns = model_for(frame)
        if model in scored:  # the frames are equal, so this model scored all files already
            continue
        scored.append(model)
        expected = model.predict_proba(frame[columns.features])[:, 1]
        for ending, path in paths.items():
            if name in OTHER_IN_TEXT and (ending in TEXT) != (fitted in TEXT):
                continue
            found = scores_of(model, path, tmp_path)
            what = f"fit on {fitted}, scored {ending}"
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0, err_msg=what)


@pytest.mark.parametrize("name", ["category of ints", "category of floats", "text like booleans"])
def test_categories_of_numbers_are_read_from_text_files_by_value(tmp_path, name):
    """Fitted on a typed file; a text file then says the same with other words."""
    table = table_of(COLUMNS[name])
    # Parquet keeps categories of text only: those of numbers come back as numbers.
    frame = read_table(write(table, tmp_path / "rows.feather"))
    assert isinstance(frame["x"].dtype, pd.CategoricalDtype)
    model, columns = model_for(frame)
    expected = model.predict_proba(frame[columns.features])[:, 1]
    np.testing.assert_allclose(
        scores_of(model, write(table, tmp_path / "rows.csv"), tmp_path), expected, rtol=1e-12
    )
    words = {"1": "01", "2": "2.0", "30": "3e1", "1.5": "+1.50", "2.0": "2", "True": "TRUE"}
    said = [None if v is None else words.get(str(v), str(v)) for v in table["x"].to_pylist()]
    other = table.set_column(0, "x", pa.array(said))
    np.testing.assert_allclose(
        scores_of(model, write(other, tmp_path / "words.csv"), tmp_path), expected, rtol=1e-12
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_named_as_categories_are_categories_when_scored(tmp_path, ending):
    column = some(1, 2, None, 30, kind=pa.int64())
    path = write(table_of(column), tmp_path / f"rows.{ending}")
    frame = read_table(path, category="x")
    assert frame["x"].cat.categories.tolist() == [1, 2, 30]
    model, columns = model_for(frame)
    assert model.encoder_.names_ == ["other", "x=1", "x=2", "x=30", "x is missing"]
    expected = model.predict_proba(frame[columns.features])[:, 1]
    for other in FORMATS:
        found = scores_of(model, write(table_from(frame), tmp_path / f"again.{other}"), tmp_path)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=other)


def table_from(frame):
    return pa.table({"x": pa.array(frame["x"].astype("Int64")), "other": pa.array(frame["other"])})


def test_numbers_as_a_text_file_may_write_them(tmp_path):
    """Whatever is a number at fit is the same number at predict."""
    words = ["0x1F", "31", " 31", "31 ", "0X1f", "007", "7"]
    lines = [f"{words[row % 7]},{value:.3f}" for row, value in enumerate(rng.normal(size=ROWS))]
    path = tmp_path / "rows.csv"
    path.write_text("x,other\n" + "\n".join(lines) + "\n", "utf-8")
    frame = read_table(path)
    assert frame["x"].unique().tolist() == [31, 7]
    model, columns = model_for(frame)
    expected = model.predict_proba(frame[columns.features])[:, 1]
    np.testing.assert_allclose(scores_of(model, path, tmp_path), expected, rtol=1e-12, atol=0)


def test_words_for_missing_values_are_text_in_typed_files(tmp_path):
    """In a column of numbers such text is a problem, not a missing value."""
    model, _ = model_for(read_table(write(table_of(some(1, 2, 3)), tmp_path / "rows.csv")))
    text = pa.table({"x": ["1", "NA"], "other": [0.5, 0.5]})
    typed = score_file(model, write(text, tmp_path / "new.parquet"), tmp_path / "a.csv")
    assert typed.problems == ((2, "column 'x' must hold a number, got 'NA'"),)
    written = score_file(model, write(text, tmp_path / "new.csv"), tmp_path / "b.csv")
    assert written.scored == 2
