"""``equipoise compare``, ``datasets`` and ``demo``."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from people import equipoise

from equipoise import load, load_dataset
from equipoise.datasets import dataset_names
from equipoise.errors import InputError
from equipoise.files import read_columns, read_table
from equipoise.runs.samples import SMALL, demonstrate
from tests.error_parts import says


@pytest.fixture(scope="module")
def runs(folder, tmp_path_factory):
    """Two runs that differ in one setting, side by side."""
    place = tmp_path_factory.mktemp("runs")
    shutil.copytree(folder / "run", place / "one")
    settings = folder / "run" / "settings.json"
    ran = equipoise("fit", "--settings", settings, "--strengths", "0,0.5", "--out", place / "two")
    assert ran.code == 0, ran.err
    return place


def test_both_fronts_are_told_with_what_differs(runs, monkeypatch):
    monkeypatch.chdir(runs)
    ran = equipoise("compare", "one", "two")
    assert ran.code == 0, ran.err
    assert "\nFrom one to two: strengths was 0.0,0.9, is 0.0,0.5.\n" in ran.out
    lines = [line.split() for line in ran.out.splitlines()]
    for name in ("one", "two"):
        frontier = load(runs / name / "frontier.equipoise")
        volume = frontier.hypervolume("gap", "sex")
        front = frontier.front("gap", "sex")
        cells = [
            f"{within.max():.3f}" if len(within := front["utility"][front["gap sex"] <= b]) else "-"
            for b in (0.02, 0.05, 0.1, 0.2)
        ]
        assert ["gap", "sex", name, f"{volume:.3f}", *cells] in lines
    page = Path("compare.html").read_text("utf-8")
    assert page.startswith("<!doctype html>") and "one" in page and "two" in page


def test_json_has_every_number(runs, monkeypatch):
    monkeypatch.chdir(runs)
    ran = equipoise("compare", "one", "two", "--out", "pair.html", "--json")
    found = json.loads(ran.out)
    assert found["page"] == "pair.html" and Path("pair.html").exists()
    assert found["differences"] == ["From one to two: strengths was 0.0,0.9, is 0.0,0.5."]
    table = pd.DataFrame(found["table"])
    assert len(table) == 2 * 6 * 4  # runs, metrics by attribute, budgets
    volume = table.query("run == 'one' and metric == 'SP' and attribute == 'age'")["hypervolume"]
    assert set(volume) == {load(runs / "one" / "frontier.equipoise").hypervolume("SP", "age")}


def test_runs_that_can_not_be_compared(runs, monkeypatch):
    monkeypatch.chdir(runs)
    says(equipoise("compare", "one").err, "two runs or more", "got 1", "compare run-a run-b")
    said = equipoise("compare", "one", "two", "--out", "page.pdf").err
    says(said, "--out", "must end in .html", "got 'page.pdf'")
    Path("mine.html").write_text("<p>my own page</p>", "utf-8")
    refused = equipoise("compare", "one", "two", "--out", "mine.html")
    assert refused.code == 1
    says(refused.err, "--out", "must be new", "got 'mine.html'", "choose another name")
    assert Path("mine.html").read_text("utf-8") == "<p>my own page</p>"
    said = equipoise("compare", "one", "three", "--out", "new.html").err
    says(said, "RUN", "must be a folder", "got 'three'", "does not exist")


def test_every_data_set_is_listed_with_licence_and_rows():
    ran = equipoise("datasets")
    assert ran.code == 0, ran.err
    names = [line.split()[0] for line in ran.out.splitlines()[1:] if "  " in line]
    assert names == list(dataset_names())
    listed = {
        row["name"]: row for row in json.loads(equipoise("datasets", "--json").out)["datasets"]
    }
    for name in ("adult", "crime", "synthetic"):
        data = load_dataset(name)
        assert listed[name]["rows"] == len(data.y)
        assert listed[name]["comes from"] == data.origin
        assert listed[name]["sensitive"] == ",".join(data.A.columns)
    assert all(row["licence"] and row["source"] for row in listed.values())
    assert listed["credit"]["comes from"] == "a file of yours"


def test_a_data_set_is_described_and_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = load_dataset("synthetic")
    assert equipoise("datasets", "synthetic").out == f"{data.description}\n"
    for name in ("rows.csv", "rows.parquet"):
        ran = equipoise("datasets", "synthetic", "--out", name)
        assert ran.code == 0, ran.err
        command = f"equipoise fit {name} --target outcome --sensitive age,group"
        assert ran.out.endswith(f"Written to {name}. To train on it:\n  {command}\n")
        frame = read_table(name)
        columns = read_columns(frame, target="outcome", sensitive=["age", "group"])
        assert columns.features == list(data.X.columns)
        pd.testing.assert_frame_equal(frame[columns.features], data.X, check_exact=True)
    refused = equipoise("datasets", "synthetic", "--out", "rows.csv")
    says(refused.err, "--out", "must be new", "got 'rows.csv'", "another name")
    says(equipoise("datasets", "adutl").err, "got 'adutl'", "'adult'?")
    said = equipoise("datasets", "--out", "rows.csv").err
    says(said, "--out", "needs the name", "got 'rows.csv'", "datasets adult --out adult.csv")
    said = equipoise("datasets", "synthetic", "--out", "rows.txt").err
    says(said, "--out", "must end in .csv or .parquet", "got '.txt'")


def test_the_demo_is_two_commands_that_it_tells(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    # Shorter than the one that people see, and as long a way.
    options = {**SMALL, "strengths": (0.0, 0.9), "iterations": 20, "max_gap": 0.9}
    ended = demonstrate(Path("demo"), say=said.append, options=options)
    assert ended.document["report"] == "demo/run/report.html"
    assert Path("demo/run/report.html").exists()
    with pytest.raises(InputError, match=r"^--out must be new, got 'demo/run', .* --overwrite$"):
        demonstrate(Path("demo"), say=said.append, options=options)
    again = demonstrate(Path("demo"), say=said.append, options=options, overwrite=True)
    assert again.document == ended.document
    data, fit = [line.split() for line in said[0].splitlines()[1:3]]
    kept = Path("demo/run/table.csv").read_bytes()
    Path("demo").rename("first")
    Path("demo").mkdir()
    for command in (data, fit):
        ran = equipoise(*command[1:])
        assert ran.code == 0, ran.err
    assert Path("demo/run/table.csv").read_bytes() == kept
    Path("demo/letter.txt").write_text("dear", "utf-8")
    said = equipoise("demo", "--out", "demo").err
    says(said, "--out", "must be new or hold a demo", "got 'demo'", "another name")
    assert Path("demo/letter.txt").exists()


def test_the_demo_overwrites_nothing_of_anybody_else(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    Path("demo/adult.csv").write_text("mine", "utf-8")
    said = equipoise("demo", "--out", "demo")
    assert said.code == 1 and "'demo', which holds another adult.csv" in said.err
    assert Path("demo/adult.csv").read_text("utf-8") == "mine"
    Path("demo/adult.csv").unlink()
    assert equipoise("datasets", "adult", "--out", "demo/adult.csv").code == 0
    shutil.copytree(folder / "run", "demo/run")
    before = {path: path.read_bytes() for path in Path("demo").rglob("*") if path.is_file()}
    said = equipoise("demo", "--out", "demo")
    assert said.code == 1 and "'demo', which holds another run" in said.err
    assert {p: p.read_bytes() for p in Path("demo").rglob("*") if p.is_file()} == before
