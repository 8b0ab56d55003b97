"""Nothing of the user's is overwritten or removed: one rule for everything that writes."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from people import SMALL_ON_CPU, equipoise, refused

from tests.error_parts import says

FIT = ("fit", "people.csv", "--target", "hired", "--sensitive", "age,sex", "--id", "person")
AUDIT = ("audit", "people.csv", "--score", "grade", "--target", "hired", "--positive", "yes")
#: By command: its arguments, those of another result, where it writes, and what it calls that.
WRITERS = {
    "fit": ((*FIT, *SMALL_ON_CPU), ("--seed", "1"), "out", "a run"),
    "predict": (("predict", "run", "people.csv"), ("--threshold", "0.9"), "out.csv", "scores"),
    "audit": ((*AUDIT, "--sensitive", "sex"), ("--max-gap", "0.3"), "out", "an audit"),
    "compare": (("compare", "run", "second"), ("third",), "out.html", "a comparison"),
}


@pytest.fixture(scope="module")
def first(folder, tmp_path_factory):
    """A folder where every command has written once; nobody changes it."""
    place = tmp_path_factory.mktemp("first")
    shutil.copy(folder / "people.csv", place)
    for name in ("run", "second", "third"):
        shutil.copytree(folder / "run", place / name)
    with pytest.MonkeyPatch.context() as here:
        for name, (command, _, out, _) in WRITERS.items():
            (place / name).mkdir()
            here.chdir(place)
            ran = equipoise(*command, "--out", f"{name}/{out}")
            assert ran.code == 0, ran.err
    return place


@pytest.fixture(params=WRITERS)
def writer(request, first, tmp_path, monkeypatch):
    """A command, another result's options, and its noun, in a folder of its own without --out."""
    for name in ("people.csv", "run", "second", "third"):
        os.symlink(first / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    command, other, out, noun = WRITERS[request.param]
    written = first / request.param / out
    return (*command, "--out", out), other, Path(out), noun, written


def contents(out):
    """Every file, by its path, and what is in it; a file is in its folder."""
    paths = out.rglob("*") if out.is_dir() else out.parent.iterdir()
    return {str(path): path.read_bytes() for path in paths if path.is_file()}


def copied(written, out):
    (shutil.copytree if written.is_dir() else shutil.copy)(written, out)


def test_what_equipoise_did_not_write_is_refused(writer):
    command, _, out, noun, written = writer
    if written.is_dir():
        out.mkdir()
        (out / "letter.txt").write_text("dear", "utf-8")
    else:
        out.write_text("<p>dear</p>", "utf-8")
    before = contents(out)
    for more in ((), ("--overwrite",)):
        said = refused(*command, *more)
        says(said, "out must be new or hold", f"{noun} that equipoise wrote", f"'{out}'", "another")
    assert contents(out) == before
    assert [path.name for path in Path().glob(".*")] == []


def test_its_own_work_is_replaced_only_if_asked(writer):
    command, other, out, noun, written = writer
    copied(written, out)
    before = contents(out)
    said = refused(*command, *other)
    says(said, "out must be new", f"'{out}', which holds {noun}", "another name", "--overwrite")
    assert contents(out) == before
    ran = equipoise(*command, *other, "--overwrite")
    assert ran.code == 0, ran.err
    assert contents(out) != before and set(contents(out)) == set(before)


def test_a_full_disk_leaves_the_older_work(writer, monkeypatch):
    command, other, out, _, written = writer
    copied(written, out)
    before = contents(out)

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    ran = equipoise(*command, *other, "--overwrite")
    assert ran.code == 1 and "no space left on device" in ran.err
    assert contents(out) == before
    assert [path.name for path in Path().glob(".*")] == []


def test_a_new_audit_that_can_not_take_its_place_leaves_the_older_one(first, people, monkeypatch):
    shutil.copytree(first / "audit" / "out", "out")
    before, rename = contents(Path("out")), Path.replace

    def fails(self, target):
        if self.name == ".out.equipoise-new":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    ran = equipoise(*AUDIT, "--sensitive", "age", "--out", "out", "--overwrite")
    assert ran.code == 1 and "interrupted" in ran.err
    assert contents(Path("out")) == before
    assert [path.name for path in Path().glob(".*")] == []


def test_an_audit_set_aside_by_a_killed_process_is_back_and_not_replaced(first, people):
    shutil.copytree(first / "audit" / "out", "out")
    before = contents(Path("out"))
    # Killed after the older folder was set aside and before the new one took its place.
    Path("out").rename(".out.equipoise-old")
    Path(".out.equipoise-new").mkdir()
    says(refused(*AUDIT, "--sensitive", "sex", "--out", "out"), "'out', which holds an audit")
    assert contents(Path("out")) == before
    assert [path.name for path in Path().glob(".*")] == []


def test_an_audit_with_a_file_of_the_user_is_refused(first, people):
    shutil.copytree(first / "audit" / "out", "out")
    Path("out/notes.txt").write_text("mine", "utf-8")
    before = contents(Path("out"))
    said = refused(*AUDIT, "--sensitive", "sex", "--out", "out", "--overwrite")
    says(said, "--out", "must be new or hold an audit", "'out', which holds 'notes.txt'")
    assert contents(Path("out")) == before


def test_a_file_of_the_user_in_a_run_folder_stays(people, run):
    (run / "plots").mkdir()
    for name in ("notes.txt", "plots/mine.csv"):
        (run / name).write_text("mine", "utf-8")
    for command in (
        ("select", run, "--max-gap", "0.9"),
        ("report", run),
        (*FIT, *SMALL_ON_CPU, "--out", run, "--overwrite"),
    ):
        ran = equipoise(*command)
        assert ran.code == 0, ran.err
        for name in ("notes.txt", "plots/mine.csv"):
            assert (run / name).read_text("utf-8") == "mine"


def test_a_model_card_that_was_filled_in_is_not_written_over(people, run):
    card = run / "model_card.md"
    card.write_text(card.read_text("utf-8") + "\nOwner: credit team\n", "utf-8")
    before = contents(run)
    for command in (
        ("select", run, "--max-gap", "0.9"),
        ("report", run),
        (*FIT, *SMALL_ON_CPU, "--out", run, "--overwrite"),
    ):
        says(refused(*command), f"'{card}'", "as equipoise wrote it", "edited", "move it out")
        assert contents(run) == before
    card.rename(run / "our_card.md")
    assert equipoise("report", run).code == 0
    assert card.exists() and "credit team" in (run / "our_card.md").read_text("utf-8")


def test_scores_and_comparisons_are_not_mistaken_for_other_files(first, people):
    rows = "person,problem\n1,too loud\n"  # of a user, whose last column has this name, too
    Path("mine.csv").write_text(rows, "utf-8")
    predict = ("predict", first / "run", "people.csv", "--out", "mine.csv", "--overwrite")
    says(refused(*predict), "out must be new or hold scores", "'mine.csv'")
    assert Path("mine.csv").read_text("utf-8") == rows
    shutil.copytree(first / "run", "run")
    report = Path("run/report.html").read_bytes()
    compare = ("compare", "run", first / "second", "--out", "run/report.html", "--overwrite")
    says(refused(*compare), "--out must be new or hold a comparison", "'run/report.html'")
    assert Path("run/report.html").read_bytes() == report
