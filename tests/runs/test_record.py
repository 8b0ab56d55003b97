"""The record of a run: its date stays the day it was made."""

import json

from equipoise.report.page import today
from equipoise.runs.record import DataFacts, FitOptions, RunRecord, read_record, write_json


def record(**changes):
    given = {
        "state": "finished",
        "command": "equipoise fit",
        "options": FitOptions(target="y", sensitive=("sex",)),
        "task": "classification",
        "data": DataFacts(path="folder/people.csv", bytes=3, sha256="ab" * 32, rows=1),
        "columns": (),
        "flags": ("'x' tells sex",),
        "device": "cpu",
        "versions": {"python": "3"},
    }
    return RunRecord(**(given | changes))


def test_pages_have_the_date_of_the_record(tmp_path):
    write_json(tmp_path / "settings.json", record(made="2020-01-02").to_document())
    found = read_record(tmp_path / "settings.json")
    assert found == record(made="2020-01-02")
    assert vars(found.source) == {
        "name": "people.csv",
        "sha256": "ab" * 32,
        "made": "2020-01-02",
    }
    assert record().made == today()


def test_a_record_of_an_older_version_has_no_date(tmp_path, monkeypatch):
    document = record().to_document()
    monkeypatch.setattr("equipoise.runs.record._checksum", lambda content: document["checksum"])
    del document["made"]
    (tmp_path / "settings.json").write_text(json.dumps(document))
    found = read_record(tmp_path / "settings.json")
    assert found.made == "" and found.source.made == today()
