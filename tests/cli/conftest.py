import shutil

import pytest
from people import SMALL_ON_CPU, equipoise, table


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with people.csv and a finished run on it; nobody changes what is in it."""
    place = tmp_path_factory.mktemp("people")
    table().to_csv(place / "people.csv", index=False)
    fit = ["fit", place / "people.csv", "--target", "hired", "--sensitive", "age,sex"]
    ran = equipoise(*fit, "--id", "person", *SMALL_ON_CPU, "--out", place / "run")
    assert ran.code == 0, ran.err
    (place / "fit.out").write_text(ran.out, "utf-8")
    (place / "fit.err").write_text(ran.err, "utf-8")
    return place


@pytest.fixture
def run(folder, tmp_path):
    """A copy of the run, to be changed."""
    return shutil.copytree(folder / "run", tmp_path / "run")


@pytest.fixture
def people(folder, tmp_path, monkeypatch):
    """people.csv in a folder of its own, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    return shutil.copy(folder / "people.csv", tmp_path / "people.csv")
