"""``equipoise fit``: the run folder holds what the library says, and can be made again."""

import hashlib
import html
import json
import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest
from people import SMALL, SMALL_ON_CPU, equipoise, same_model, table

from equipoise import load
from equipoise.inference.gap import gap_estimates
from equipoise.metrics import find_metric, prepare
from equipoise.runs.folder import FILES
from equipoise.runs.selecting import selection_document
from tests.composing import composed
from tests.error_parts import says

FIT = ("fit", "people.csv", "--target", "hired", "--sensitive", "age,sex")


def document(path):
    return json.loads(Path(path).read_text("utf-8"))


def test_the_folder_holds_every_file_and_nothing_else(folder):
    written = {path.name for path in (folder / "run").iterdir()}
    assert written == set(FILES) - {"training.checkpoint"}


def test_columns_are_said_before_training(folder):
    said = (folder / "fit.err").read_text("utf-8")
    before, _, training = said.partition("iteration 20 of 40")
    assert training
    for line in (
        "1,000 rows, 7 columns: 3 features, 2 sensitive, 0 dropped.",
        "age     sensitive  continuous",
        "sex     sensitive  discrete",
        "city    feature    category",
        "person  id ",
        "The score is the probability of 'yes' rather than 'no'.",
    ):
        assert line in before


def test_numbers_are_those_of_the_library(folder):
    rows = table()
    frontier = composed(
        strengths=(0.0, 0.9),
        seeds=1,
        iterations=40,
        evaluate_every=20,
        random_state=0,
        device="cpu",
    )
    # As the file is read: text is categorical.
    rows = rows.astype({"city": "category", "sex": "category", "hired": "category"})
    frontier.fit(
        rows[["city", "hours", "grade"]], rows["hired"], sensitive_features=rows[["age", "sex"]]
    )
    written = pd.read_csv(folder / "run" / "table.csv", index_col="snapshot")
    pd.testing.assert_frame_equal(written, frontier.table(), check_exact=True)
    members = pd.read_csv(folder / "run" / "members.csv", index_col="member")
    pd.testing.assert_frame_equal(members, frontier.members(), check_dtype=False)
    saved = load(folder / "run" / "frontier.equipoise")
    assert saved.table().equals(frontier.table())


def test_every_number_of_the_selection_is_that_of_select(folder):
    run = folder / "run"
    found = document(run / "selection.json")
    frontier = load(run / "frontier.equipoise")
    limit = found["choice"]["max_unfairness"]
    assert limit == document(run / "settings.json")["options"]["max_unfairness"] == 0.1
    selection = frontier.select(max_gap=limit, allow_nearest=True)
    for name in ("snapshot", "strength", "seed", "iteration", "threshold", "wish", "aim"):
        assert found[name] == getattr(selection, name)
    for name in ("averaged", "picked_among", "level", "validation_rows", "test_rows"):
        assert found[name] == getattr(selection, name)
    assert found["holds_on_test"] is selection.holds_on_test
    rows = pd.DataFrame(found["rows"]).astype(selection.to_frame().dtypes)
    pd.testing.assert_frame_equal(rows, selection.to_frame(), check_exact=True)
    model = (run / "model.equipoise").read_bytes()
    assert found["model_sha256"] == hashlib.sha256(model).hexdigest()


def test_the_nearest_model_has_the_smallest_excess_over_the_limit(folder):
    found = document(folder / "run" / "selection.json")
    rows = pd.read_csv(folder / "run" / "table.csv").query("on_front")
    worst = rows[["gap age", "gap sex"]].max(axis=1)
    assert worst.min() > 0.1  # forty iterations mitigate little, so the nearest was taken
    assert found["rows"][0]["validation"] == rows[worst == worst.min()]["utility"].max()
    assert {row["limit"] for row in found["rows"] if row["metric"] == "gap"} == {0.1}
    assert found["nearest"] and found["wish"] == "gap by age <= 0.1 and gap by sex <= 0.1"
    remark = found["choice"]["remark"]
    assert remark == (
        "picked at the end of training as the nearest to gap <= 0.1 for every attribute, which no "
        "model of this run that may be chosen keeps on the validation rows: it does not keep the "
        "limit"
    )
    out = (folder / "fit.out").read_text("utf-8")
    assert f"{remark[:1].upper()}{remark[1:]}." in " ".join(out.split())


def test_where_the_gap_is_and_what_chance_explains_is_said(folder):
    found = load(folder / "run" / "frontier.equipoise")
    curve = found.fitted_curve()
    told = document(folder / "run" / "selection.json")
    (scores,) = curve.test_scores([told["snapshot"]])
    out = " ".join((folder / "fit.out").read_text("utf-8").split())
    card = (folder / "run" / "model_card.md").read_text("utf-8").replace("&gt;", ">")
    page = (folder / "run" / "report.html").read_text("utf-8")
    for row in told["rows"][1:3]:
        column = curve.test.table[row["attribute"]]
        sample = prepare(scores.T, curve.test.y, outcome="binary").against(column)
        (expected,) = gap_estimates(find_metric("gap"), sample)
        assert (row["metric"], row["test"]) == ("gap", pytest.approx(expected.value, abs=1e-12))
        assert row["chance"] == pytest.approx(expected.chance, abs=1e-12)
        assert row["where"] == expected.where
        assert row["certificate"] == pytest.approx(expected.certificate, abs=1e-12)
        for text in (out, card, page):
            assert expected.where in text


@pytest.mark.parametrize("limits", ["sex=0.27", "age=0.01,sex=0.3", "sex=0.1,age=0.12"])
def test_limits_by_attribute_stay_as_they_are_asked_for(folder, tmp_path, limits):
    settings = folder / "run" / "settings.json"
    out = tmp_path / "limits"
    ran = equipoise("fit", "--settings", settings, "--max-gap", limits, "--out", out)
    assert ran.code == 0, ran.err
    asked = {name: float(limit) for name, limit in (each.split("=") for each in limits.split(","))}
    assert document(out / "settings.json")["options"]["max_unfairness"] == asked
    assert f"--max-gap {limits} " in document(out / "settings.json")["command"]
    told = document(out / "selection.json")
    assert told["choice"]["max_unfairness"] == asked
    rows = {row["attribute"]: row for row in told["rows"] if row["metric"] == "gap"}
    assert {name: rows[name]["limit"] for name in asked} == asked
    assert {each["attribute"]: each["limit"] for each in told["verdicts"]} == asked
    table = pd.read_csv(out / "table.csv").query("on_front")
    excess = (table[[f"gap {name}" for name in asked]] - list(asked.values())).max(axis=1)
    assert told["nearest"] == (excess.min() > 0)
    within = table[excess <= max(0, excess.min())]
    assert told["rows"][0]["validation"] == within["utility"].max()
    assert equipoise("report", out).code == 0


def test_report_and_model_card_say_how_the_model_was_picked(folder):
    run = folder / "run"
    remark = document(run / "selection.json")["choice"]["remark"]
    said = f"The model was {remark}."
    page = (run / "report.html").read_text("utf-8")
    assert html.escape(said) in page and "that was set" not in page
    assert said in document(run / "model_card.json")["model_details"]["documentation"]
    assert "The model was picked at the end of training" in (run / "model_card.md").read_text()


def test_a_budget_that_is_kept_is_the_wish(folder, tmp_path):
    again = ["fit", "--settings", folder / "run" / "settings.json", "--max-gap", "0.9"]
    ran = equipoise(*again, "--out", tmp_path / "wide", "--json")
    found = json.loads(ran.out)
    choice = found["selection"]["choice"]
    assert choice["max_unfairness"] == 0.9
    assert choice["remark"] == (
        "picked at the end of training: the best AUC with gap <= 0.9 for every attribute"
    )
    assert found["selection"]["rows"][0]["validation"] == max(
        row for row in pd.read_csv(tmp_path / "wide" / "table.csv").utility
    )


def test_settings_repeat_the_run_bit_for_bit(folder, tmp_path):
    settings = folder / "run" / "settings.json"
    ran = equipoise("fit", "--settings", settings, "--out", tmp_path / "again")
    assert ran.code == 0, ran.err
    for name in ("table.csv", "members.csv", "columns.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / "run" / name).read_bytes()
    for name in ("frontier.equipoise", "model.equipoise"):
        assert same_model(tmp_path / "again" / name, folder / "run" / name)
    once, again = document(settings), document(tmp_path / "again" / "settings.json")
    for name in ("command", "checksum"):
        assert once.pop(name) != again.pop(name)  # --out is another
    assert set(once.pop("files")) == set(again.pop("files"))  # headers have no fixed order
    assert once == again


def test_the_command_in_the_settings_repeats_the_run(folder, tmp_path):
    command = shlex.split(document(folder / "run" / "settings.json")["command"])
    assert command[:2] == ["equipoise", "fit"] and command[-2] == "--out"
    ran = equipoise(*command[1:-1], tmp_path / "again")
    assert ran.code == 0, ran.err
    assert (tmp_path / "again" / "table.csv").read_bytes() == (
        folder / "run" / "table.csv"
    ).read_bytes()


def test_settings_name_data_versions_and_columns(folder):
    found = document(folder / "run" / "settings.json")
    data = (folder / "people.csv").read_bytes()
    assert found["data"] == {
        "path": str(folder / "people.csv"),
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "rows": 1000,
        "from_folder": "",  # not needed for an absolute path
    }
    assert (found["state"], found["iterations_trained"], found["device"]) == ("finished", 40, "cpu")
    assert {"python", "equipoise", "torch", "pandas"} <= set(found["versions"])
    columns = pd.read_csv(folder / "run" / "columns.csv", keep_default_na=False)
    assert columns["values"][5].startswith("'-")  # "-3.2 to 3.7" is no formula
    columns["values"] = columns["values"].str.removeprefix("'")
    assert columns.to_dict("records") == found["columns"]
    assert [column["column"] for column in found["columns"]] == list(table().columns)


def test_json_is_all_that_is_on_standard_output(people):
    ran = equipoise(*FIT, *SMALL_ON_CPU, "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["run"], found["state"], found["iterations"]) == (
        0,
        "run",
        "finished",
        40,
    )
    assert found["selection"] == {
        name: value
        for name, value in document("run/selection.json").items()
        if name != "model_sha256"
    }
    assert sorted(found["files"]) == sorted(str(path) for path in Path("run").iterdir())
    assert "p00999" not in ran.out


@pytest.mark.parametrize(
    ("options", "task", "utility"),
    [
        (("--target", "grade"), "regression", "R2"),
        (("--target", "band"), "classification", "macro AUC"),
        (("--target", "hired", "--notion", "separation"), "classification", "AUC"),
        (("--target", "hired", "--method", "hgr"), "classification", "AUC"),
    ],
)
def test_every_kind_of_outcome_notion_and_method(people, options, task, utility):
    rows = table()
    rows["band"] = pd.cut(rows["grade"], 3, labels=["low", "middle", "high"])
    rows.to_csv("people.csv", index=False)
    ran = equipoise("fit", "people.csv", "--sensitive", "sex", *options, *SMALL_ON_CPU)
    assert ran.code == 0, ran.err
    assert document("run/settings.json")["task"] == task
    assert document("run/selection.json")["rows"][0]["metric"] == utility
    assert Path("run/report.html").stat().st_size > 10_000


def test_another_metric_has_its_own_limit(people):
    more = ("--metrics", "ks-gsp,sp", "--max-unfairness", "age=0.2,sex=1.5")
    ran = equipoise(*FIT, *more, *SMALL_ON_CPU)
    assert ran.code == 0, ran.err
    assert document("run/selection.json")["choice"]["max_unfairness"] == {"age": 0.2, "sex": 1.5}
    assert document("run/selection.json")["wish"] == "KS-GSP by age <= 0.2 and KS-GSP by sex <= 1.5"
    assert "--max-unfairness age=0.2,sex=1.5" in document("run/settings.json")["command"]
    said = equipoise("select", "run", "--max-gap", "0.1").err
    says(said, "--max-gap", "judged by the gap", "got one judged by KS-GSP, SP", "--max-unfairness")


def test_a_measure_that_no_fair_score_satisfies_says_so_everywhere(people):
    more = ("--notion", "separation", "--metrics", "gap given Y,ks-geo")
    ran = equipoise("fit", "people.csv", "--target", "grade", "--sensitive", "sex", *more, *SMALL)
    assert ran.code == 0, ran.err
    caveat = find_metric("KS-GEO").caveat("continuous")
    assert caveat in " ".join(ran.out.split())
    for name in ("report.html", "model_card.md", "model_card.json", "selection.json"):
        assert caveat in Path("run", name).read_text("utf-8")
    said = equipoise("select", "run", "--max-unfairness", "0.5", "--metric", "ks-geo").err
    says(said, "metric", "a fair score can satisfy", "got 'KS-GEO'", "gap given Y")
    shutil.copytree("run", "again")
    ran = equipoise("compare", "run", "again")
    assert f"{caveat}." in " ".join(ran.out.split())
    assert f"{caveat}." in Path("compare.html").read_text("utf-8")


def test_a_method_that_is_solved_at_once_needs_no_checkpoint(people):
    ran = equipoise(
        *("fit", "people.csv", "--target", "grade", "--sensitive", "age", "--method", "scutari"),
        *("--strengths", "0,0.9", "--seeds", "1"),
    )
    assert ran.code == 0, ran.err
    assert document("run/settings.json")["state"] == "finished"


def test_options_that_say_how_columns_are_read(people):
    ran = equipoise(
        *FIT,
        *("--features", "hours,grade", "--drop", "city", "--types", "age=discrete"),
        *("--metrics", "sp,ks-gsp", *SMALL_ON_CPU),
    )
    assert ran.code == 1  # age has fifty groups: too small ones among 200 validation rows
    assert "rows do not suffice" in ran.err
    assert not Path("run").exists()
    ran = equipoise(
        *FIT, "--features", "hours,grade", "--drop", "city", "--metrics", "sp,ks-gsp", *SMALL_ON_CPU
    )
    assert ran.code == 0, ran.err
    columns = {each["column"]: each["role"] for each in document("run/settings.json")["columns"]}
    assert [name for name, role in columns.items() if role == "feature"] == ["hours", "grade"]
    assert columns["city"] == columns["person"] == "dropped"
    assert list(pd.read_csv("run/table.csv"))[7:11] == [
        "SP age",
        "SP sex",
        "KS-GSP age",
        "KS-GSP sex",
    ]
    assert re.search(r"--metrics SP,KS-GSP", document("run/settings.json")["command"])


def test_columns_may_have_commas_and_blanks_in_their_names(people):
    rows = table().rename(columns={"sex": "sex, as stated", "age": "age (years)"})
    rows.to_csv("odd.csv", index=False)
    ran = equipoise(
        *("fit", "odd.csv", "--target", "hired", *SMALL_ON_CPU),
        *("--sensitive", '"sex, as stated"', "--sensitive", "age (years)"),
    )
    assert ran.code == 0, ran.err
    command = shlex.split(document("run/settings.json")["command"])
    ran = equipoise(*command[1:-1], "again")
    assert ran.code == 0, ran.err
    assert Path("again/table.csv").read_bytes() == Path("run/table.csv").read_bytes()


def test_selection_document_is_json_without_losses(folder):
    frontier = load(folder / "run" / "frontier.equipoise")
    from equipoise.runs.selecting import Choice

    choice = Choice(max_unfairness=0.9)
    found = selection_document(choice.select(frontier), choice)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
