"""Scoring files: the scores are the model's own, every row is answered, memory stays flat."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

from equipoise import FairClassifier, FairRegressor
from equipoise.errors import InputError
from equipoise.files import read_table
from equipoise.files.writer import ScoreWriter, spreadsheet_safe
from equipoise.runs.scoring import score_file
from equipoise.storage.atomic import remove_leftovers
from tests.error_parts import says

ROWS = 500
TINY = {
    "strength": 0,
    "iterations": 15,
    "hidden": (8,),
    "members": 2,
    "early_stopping": None,
    "random_state": 0,
}


def people(n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "person": [f"{i:04d}" for i in range(n)],
            "hours": np.round(rng.normal(40, 10, n), 2),
            "children": rng.integers(0, 5, n),
            "member": rng.random(n) < 0.5,
            "gap": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "job": rng.choice(["cook", "nurse", "clerk"], n),
            "sex": rng.choice(["F", "M"], n),
        }
    )


FEATURES = ["hours", "children", "member", "gap", "job"]


@pytest.fixture(scope="module")
def model():
    frame = people()
    return FairClassifier(**TINY).fit(frame[FEATURES], np.where(frame["hours"] > 40, "yes", "no"))


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".feather":
        frame.to_feather(path)
    else:
        frame.to_csv(path, index=False)
    return path


def assert_same(found, expected):
    """Equal but for the rounding of sums that another number of rows brings."""
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


def refusal(*arguments, **options):
    with pytest.raises(InputError) as refused:
        score_file(*arguments, **options)
    return str(refused.value)


@pytest.mark.parametrize("name", ["new.csv", "new.csv.gz", "new.parquet", "new.feather"])
@pytest.mark.parametrize("rows", [65_536, 64])
def test_scores_are_those_of_the_model(tmp_path, model, name, rows):
    frame = people(seed=1)
    data = write(frame.iloc[:, ::-1], tmp_path / name)  # order of columns does not matter
    report = score_file(model, data, tmp_path / "s.parquet", threshold=0.5, rows=rows)
    found = pd.read_parquet(tmp_path / "s.parquet")
    expected = model.predict_proba(frame[FEATURES])[:, 1]
    assert list(found.columns) == ["row", "score", "decision", "problem"]
    assert found["row"].tolist() == list(range(1, ROWS + 1))
    assert_same(found["score"], expected)
    assert found["decision"].tolist() == (expected > 0.5).astype(int).tolist()
    assert found["problem"].isna().all()
    assert (report.rows, report.scored, report.problems, report.notes) == (ROWS, ROWS, (), ())
    assert str(report) == f"500 of 500 rows scored, written to '{tmp_path}/s.parquet'."


def test_a_table_read_whole_and_a_file_in_blocks_agree(tmp_path, model):
    data = write(people(seed=1), tmp_path / "new.csv")
    score_file(model, data, tmp_path / "s.csv", id="person")
    whole = model.predict_proba(read_table(data)[FEATURES])[:, 1]
    found = pd.read_csv(tmp_path / "s.csv", dtype={"person": "str"})
    assert list(found.columns) == ["person", "score", "problem"]
    assert found["person"].tolist() == people()["person"].tolist()  # 0007 is not 7
    assert_same(found["score"], whole)


def test_a_row_that_can_not_be_scored_is_reported_not_dropped(tmp_path, model):
    frame = people(seed=1).astype({"hours": object, "member": object})
    frame.loc[3, "hours"] = "forty"
    frame.loc[70, ["hours", "member"]] = ["a lot", "perhaps"]
    frame.loc[499, "hours"] = "inf"
    data = write(frame, tmp_path / "new.csv")
    report = score_file(model, data, tmp_path / "s.parquet", id="person", threshold=0.3, rows=64)
    found = pd.read_parquet(tmp_path / "s.parquet")
    assert (report.rows, report.scored, report.not_scored) == (ROWS, ROWS - 3, 3)
    assert report.problems == (
        (4, "column 'hours' must hold a number, got 'forty'"),
        (
            71,
            "column 'hours' must hold a number, got 'a lot'; column 'member' must hold true or "
            "false, got 'perhaps'",
        ),
        (500, "column 'hours' must hold numbers within 3.4e+38, got 'inf'"),
    )
    assert found["person"].tolist() == frame["person"].tolist()
    bad = [3, 70, 499]
    assert found["problem"].dropna().to_dict() == dict(
        zip(bad, [why for _, why in report.problems], strict=True)
    )
    assert found.loc[bad, ["score", "decision"]].isna().all(axis=None)
    good = frame.drop(index=bad).astype({"hours": float, "member": bool})
    expected = model.predict_proba(good[FEATURES])[:, 1]
    assert_same(found["score"].drop(index=bad), expected)
    assert str(report).splitlines()[1:3] == [
        "Rows without a score: 3; their column 'problem' says why:",
        "  row 4: column 'hours' must hold a number, got 'forty'",
    ]


def test_only_the_first_problems_are_kept_in_the_report(tmp_path, model):
    hours = ["x"] * (ROWS - 1) + ["40"]
    frame = people(seed=1).assign(hours=hours)
    report = score_file(model, write(frame, tmp_path / "new.csv"), tmp_path / "s.csv", rows=200)
    assert (report.scored, report.not_scored) == (1, ROWS - 1)
    assert [row for row, _ in report.problems] == list(range(1, 21))
    assert str(report).splitlines()[-1] == "  and 479 more"
    assert report.document == {
        "out": f"{tmp_path}/s.csv",
        "rows": ROWS,
        "scored": 1,
        "not_scored": ROWS - 1,
        "problems": [
            {"row": row, "problem": "column 'hours' must hold a number, got 'x'"}
            for row in range(1, 21)
        ],
        "notes": [],
    }


def test_what_was_unknown_at_fit_is_counted_over_the_whole_file(tmp_path, model):
    frame = people(seed=1)
    frame.loc[[1, 300], "hours"] = np.nan
    frame.loc[[2, 100, 400], "job"] = "pilot"
    frame.loc[5, "job"] = None
    data = write(frame, tmp_path / "new.csv")
    report = score_file(model, data, tmp_path / "s.parquet", rows=64)
    assert (report.scored, report.problems) == (ROWS, ())
    assert report.notes == (
        "rows without a value in 'hours', where every row had one at fit: 2; the median of the "
        "training rows replaces it",
        "rows without a value in 'job', where every row had one at fit: 1; they are scored as "
        "having no category",
        "rows with a category in 'job' not seen at fit, such as 'pilot': 3; they are scored as "
        "having none",
    )
    with pytest.warns(UserWarning, match="X has"):
        expected = model.predict_proba(frame[FEATURES])[:, 1]
    assert_same(pd.read_parquet(tmp_path / "s.parquet")["score"], expected)


def test_three_classes_have_a_score_each(tmp_path):
    frame = people()
    three = FairClassifier(**TINY).fit(frame[FEATURES], frame["job"])
    data = write(frame, tmp_path / "new.csv")
    score_file(three, data, tmp_path / "s.parquet")
    found = pd.read_parquet(tmp_path / "s.parquet")
    names = ["score_clerk", "score_cook", "score_nurse"]
    assert list(found.columns) == ["row", *names, "problem"]
    assert_same(found[names], three.predict_proba(frame[FEATURES]))
    said = refusal(three, data, tmp_path / "t.csv", threshold=0.5)
    says(said, "threshold", "must be left out", "3 classes", "got 0.5", "all classes")


def test_a_regressor_writes_its_predictions(tmp_path):
    frame = people()
    regressor = FairRegressor(**TINY).fit(frame[FEATURES], frame["hours"])
    score_file(regressor, write(frame, tmp_path / "a.csv"), tmp_path / "s.parquet", threshold=40)
    found = pd.read_parquet(tmp_path / "s.parquet")
    expected = regressor.predict(frame[FEATURES])
    assert_same(found["score"], expected)
    assert found["decision"].tolist() == (expected > 40).astype(int).tolist()


def test_a_score_at_the_threshold_is_not_above_it(tmp_path, model):
    data, out = write(people(seed=1), tmp_path / "new.csv"), tmp_path / "s.parquet"
    score_file(model, data, out)
    scores = pd.read_parquet(out)["score"]
    score_file(model, data, out, threshold=scores[5], overwrite=True)
    assert pd.read_parquet(out)["decision"].tolist() == (scores > scores[5]).tolist()


def test_a_value_that_scaling_can_not_hold_spoils_its_row_only(tmp_path):
    frame = people()
    frame["hours"] = frame["hours"] / 1e6
    scaled = FairClassifier(**TINY, scaling="standard")
    scaled.fit(frame[FEATURES], frame["job"] == "cook")
    frame.loc[[7, 250], "hours"] = 3e38
    data = write(frame, tmp_path / "new.parquet")
    report = score_file(scaled, data, tmp_path / "s.parquet")
    assert [row for row, _ in report.problems] == [8, 251]
    assert report.problems[0][1].startswith("X column 'hours' must stay within float32")
    expected = scaled.predict_proba(frame[FEATURES].drop(index=[7, 250]))[:, 1]
    found = pd.read_parquet(tmp_path / "s.parquet")["score"].drop(index=[7, 250])
    assert_same(found, expected)


def test_a_score_that_is_no_number_is_a_problem_and_not_a_score(tmp_path, model):
    frame = people()
    broken = FairClassifier(**TINY).fit(frame[FEATURES], frame["hours"] > 40)
    with torch.no_grad():
        for weights in broken.predictor_.network.parameters():
            weights.fill_(float("nan"))
    data = write(people(7).assign(gap=np.nan), tmp_path / "new.csv")
    said = refusal(broken, data, tmp_path / "scores.csv", threshold=0.5)
    says(said, "new.csv'", "must have a row that can be scored", "none in 7 rows")
    says(said, "row 1: the score of the model must be a finite number, got nan", "correct them")
    assert said.count("row 1:") == 1 and "row 2:" not in said  # the same reason is said once
    assert not (tmp_path / "scores.csv").exists()


def test_a_file_without_a_row_to_score_is_refused_with_its_first_problems(tmp_path, model):
    frame = people(5).assign(hours=["a", "b", "c", "d", "a"])
    said = refusal(model, write(frame, tmp_path / "new.csv"), tmp_path / "scores.csv")
    says(said, "none in 5 rows", "row 1", "got 'a'", "row 2", "got 'b'", "row 3", "got 'c'")
    assert "'d'" not in said
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new.csv"]


def test_many_columns_of_one_kind_are_one_note(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 6))).rename(columns="x{}".format)
    wide = FairClassifier(**TINY).fit(frame, frame["x0"] > 0)
    holes = frame.mask(frame.index.to_numpy()[:, None] == np.arange(6))
    report = score_file(wide, write(holes, tmp_path / "new.csv"), tmp_path / "scores.csv")
    assert report.notes == (
        "columns without a value in some rows, where every row had one at fit: 6, the first "
        "'x0' (1 rows), 'x1' (1 rows), 'x2' (1 rows); the median of the training rows replaces it",
    )


#: As somebody could name a person, or a column, to have a spreadsheet run it.
ODD = ["=1+1", "+49 1", "-2+3", "@SUM(A1)", "\tx", "\rx", "\uff1d1", "'=1", "''-1-1", "'-5"]
PLAIN = ["-5", "+1.5e-3", "-.5", "a=b", "", "'tis", "x-1"]


def test_no_text_is_run_as_a_formula_and_all_of_it_can_be_had_back():
    texts = pd.Series([*ODD, *PLAIN, None])
    frame = pd.DataFrame({"=name": texts, "number": -0.5, "kind": texts.astype("category")})
    safe = spreadsheet_safe(frame)
    assert list(safe) == ["'=name", "number", "kind"]
    assert (safe["number"] == -0.5).all()
    for column in ("'=name", "kind"):
        found = safe[column].tolist()
        assert found[: len(ODD)] == [f"'{text}" for text in ODD]
        assert found[len(ODD) : -1] == PLAIN
        assert pd.isna(found[-1])
        assert (
            safe[column]
            .str.replace(r"^'(?='*[=+\-@\t\r\n\uff1d])", "", regex=True)[: len(ODD)]
            .tolist()
            == ODD
        )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_names_of_rows_are_safe_in_text_files_only(tmp_path, model, ending):
    frame = people(3).assign(person=["=1+1", "-5", "Ada"]).rename(columns={"person": "@who"})
    data = write(frame, tmp_path / "new.parquet")
    score_file(model, data, tmp_path / f"scores.{ending}", id="@who")
    if ending == "csv":
        scores = pd.read_csv(tmp_path / "scores.csv")
        assert scores["'@who"].tolist() == ["'=1+1", "-5", "Ada"]
    else:
        scores = pd.read_parquet(tmp_path / "scores.parquet")
        assert scores["@who"].tolist() == ["=1+1", "-5", "Ada"]


def test_scores_that_another_process_is_writing_are_left_to_it(tmp_path, model):
    data, out = write(people(3), tmp_path / "new.csv"), tmp_path / "scores.csv"
    columns = {"row": [1], "score": [0.5], "problem": [""]}
    with ScoreWriter(out) as writer:
        writer.write(pd.DataFrame(columns))
        (part,) = tmp_path.glob(".scores.csv.*.part")
        said = refusal(model, data, out)
        for expected in ("out must not be in use", f"'{out}'", f"process {os.getpid()} "):
            assert expected in said
        remove_leftovers(out)  # what others call leftovers is in use
        assert part.exists()
    assert pd.read_csv(out)["score"].tolist() == [0.5]
    left = tmp_path / f".scores.csv.{'0123456789abcdef' * 2}.part"
    left.write_text("half", "utf-8")
    score_file(model, data, out, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "scores.csv"]


@pytest.mark.parametrize("coded", [False, True])
def test_a_method_that_needs_sensitive_features_reads_them_too(tmp_path, coded):
    frame = people()
    if coded:
        frame["sex"] = (frame["sex"] == "F").astype(int)
    frame["age"] = np.arange(ROWS) % 60 + 18
    attributes = frame[["sex", "age"]]
    needs = FairClassifier(method="scutari", strength=0.5, random_state=0)
    y = np.random.default_rng(5).random(ROWS) < 0.5
    needs.fit(frame[["hours", "gap"]], y, sensitive_features=attributes)
    expected = needs.predict_proba(frame[["hours", "gap"]], sensitive_features=attributes)[:, 1]
    frame = frame.astype({"sex": object, "age": object})
    frame.loc[0, "sex"] = None
    frame.loc[1, "sex"] = 7 if coded else "X"
    frame.loc[2, "age"] = "old"
    report = score_file(needs, write(frame, tmp_path / "a.csv"), tmp_path / "s.parquet")
    unseen = "7" if coded else "'X'"
    assert report.problems == (
        (1, "sensitive 'sex' must be known to predict"),
        (2, f"sensitive 'sex' must be a category seen at fit, got {unseen}"),
        (3, "column 'age' must hold a number, got 'old'"),
    )
    found = pd.read_parquet(tmp_path / "s.parquet")["score"]
    assert_same(found[3:], expected[3:])


def test_files_that_can_not_be_scored_as_a_whole(tmp_path, model):
    frame = people()
    out = tmp_path / "s.csv"
    data = write(frame.rename(columns={"hours": "Hours"}), tmp_path / "a.csv")
    rule = "the data must have the 5 columns"
    says(refusal(model, data, out), rule, "'hours' is missing", "'Hours'?")
    data = write(frame[["person", "gap"]], tmp_path / "a.csv")
    absent = "'hours', 'children', 'member', 'job' are missing"
    says(refusal(model, data, out), rule, absent, "the columns are 'person', 'gap'")
    data = write(frame, tmp_path / "a.csv")
    says(refusal(model, data, out, id="persn"), "id", "'persn'", "'person'?")
    says(refusal(model, data, out, id=["sex", "sex"]), "id", "once", "'sex' twice")
    named = write(frame.assign(score=1), tmp_path / "b.csv")
    says(refusal(model, named, out, id="score"), "id", "must not", "'score'", "rename it")
    array = FairClassifier(**TINY).fit(frame[["hours"]].to_numpy(), frame["hours"] > 40)
    said = refusal(array, data, out)
    says(said, "model", "fitted on a frame", "got one fitted on an array", "fit it on a DataFrame")
    says(refusal(model, data, out, threshold=float("nan")), "threshold", "finite", "got nan")
    with pytest.raises(NotFittedError):
        score_file(FairClassifier(), data, out)
    says(refusal("model", data, out), "model", "must be a fair classifier or regressor", "got str")
    assert not out.exists()


def test_a_file_that_breaks_in_the_middle_leaves_no_scores(tmp_path, model):
    data = write(people(), tmp_path / "a.csv")
    with data.open("a") as file:
        file.write("1,2\n")
    said = refusal(model, data, tmp_path / "s.csv", rows=64)
    says(said, f"data file '{data}'", "must have 7 values", "got 2 in line 502", "double quotes")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_data_are_never_overwritten_by_their_scores(tmp_path, model):
    data = write(people().assign(problem=""), tmp_path / "a.csv")
    before = data.read_bytes()
    (tmp_path / "link.csv").symlink_to(data)
    for out in (data, tmp_path / "link.csv"):
        says(refusal(model, data, out), "out", "must not be the data file", f"got '{out}'")
    assert data.read_bytes() == before


def test_memory_does_not_grow_with_the_file(tmp_path):
    """The peak of a real process grows by less than the file, in which notes are long.

    All rows at once would take four times as much as the file has.
    """
    frame = people()
    small = FairClassifier(**TINY).fit(frame[["hours", "job"]], frame["sex"])
    small.save(tmp_path / "model.equipoise")
    notes = [f"{i} " * 80 for i in range(1000)]
    frame = pd.concat([people(1000).assign(note=notes)] * 20, ignore_index=True)
    header, body = frame.to_csv(index=False).split("\n", 1)
    arguments, sizes = [tmp_path / "model.equipoise"], []
    for times in (4, 12):  # more than the rows that are written at once
        data = tmp_path / f"{len(sizes)}.csv"
        with data.open("w", encoding="utf-8") as file:
            file.write(f"{header}\n")
            file.writelines([body] * times)
        sizes.append(data.stat().st_size)
        arguments += [data, str(times * len(frame))]
    program = Path(__file__).with_name("peak_of_scoring.py")
    done = subprocess.run(
        [sys.executable, program, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    peaks = [int(line) for line in done.stdout.splitlines()]
    assert peaks[1] - peaks[0] < sizes[1] - sizes[0]
    assert peaks[1] < 1e9
