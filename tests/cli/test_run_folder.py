"""Run folders: nothing of anybody else is overwritten, damage is found, killed runs go on."""

import hashlib
import json
import os
import shutil
import signal
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from people import SMALL_ON_CPU, equipoise, refused, same_model

from equipoise.cli.commands import app
from equipoise.cli.running import run as run_command
from equipoise.runs.folder import resume_command, writing
from equipoise.runs.record import read_record, write_json
from tests.error_parts import says

FIT = ("fit", "people.csv", "--target", "hired", "--sensitive", "age,sex", "--id", "person")


def state_of(folder):
    """Names and contents of all files; there must be no folder among them."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_a_run_is_not_overwritten_unless_asked_for(people, run):
    before = state_of(run)
    said = refused(*FIT, *SMALL_ON_CPU, "--out", "run")
    says(said, "--out", "must be new", "got 'run'", "choose", "--resume", "--overwrite")
    assert state_of(run) == before
    (run / "notes.txt").write_text("mine", "utf-8")
    ran = equipoise(*FIT, *SMALL_ON_CPU, "--seed", "1", "--out", "run", "--overwrite")
    assert ran.code == 0, ran.err
    assert (run / "notes.txt").read_text("utf-8") == "mine"
    assert (run / "table.csv").read_bytes() != before["table.csv"]


@pytest.mark.parametrize("content", [{"photo.jpg": b"mine"}, {"settings.json": b'{"mine": 1}'}])
def test_a_folder_of_somebody_else_is_never_written_to(people, content):
    other = Path("other")
    other.mkdir()
    for name, bytes_ in content.items():
        (other / name).write_bytes(bytes_)
    for more in ((), ("--overwrite",)):
        said = refused(*FIT, *SMALL_ON_CPU, "--out", "other", *more)
        held = f"holds {next(iter(content))!r}"
        says(said, "--out", "must be new or hold a run", "got 'other'", held, "another name")
    assert state_of(other) == content


def test_an_empty_folder_will_do_and_a_file_will_not(people):
    Path("empty").mkdir()
    assert equipoise(*FIT, "--strengths", "0,1.5", "--out", "empty").code == 1
    assert Path("empty").is_dir()  # it was there before, so it is there after a failure
    assert equipoise(*FIT, *SMALL_ON_CPU, "--out", "empty").code == 0
    says(refused(*FIT, "--out", "people.csv"), "--out", "got 'people.csv'", "is a file")


def test_bad_input_loses_no_earlier_run(people, run):
    before = state_of(run)
    wrongs = [("--sensitive", "agee"), ("--method", "spb"), ("--notion", "parity")]
    wrongs += [("--strengths", "0,2"), ("--types", "age=discrete"), ("--device", "abacus")]
    for wrong in wrongs:
        ran = equipoise(*FIT, *SMALL_ON_CPU, "--out", "run", "--overwrite", *wrong)
        assert ran.code == 1
        assert state_of(run) == before, wrong


def test_commands_that_are_proposed_can_be_typed_whatever_the_folder_is_called(run):
    spaced = run.rename(run.with_name("my run"))
    assert resume_command(Path("my run")) == "equipoise fit --resume --out 'my run'"
    (spaced / "selection.json").unlink()
    says(refused("report", spaced), "missing", f"equipoise select '{spaced}' --max-gap 0.1")


def test_a_settings_file_is_named_so_that_it_can_be_typed(people, run):
    shutil.copytree(run, "my run")
    with Path("people.csv").open("a", encoding="utf-8") as file:
        file.write("p99999,30,F,Ulm,40,0.5,yes\n")
    document = json.loads(Path("my run/settings.json").read_text("utf-8"))
    record = read_record(Path("my run/settings.json"))
    record = replace(record, data=replace(record.data, path="people.csv"))
    write_json(Path("my run/settings.json"), record.to_document())
    said = refused("fit", "--settings", "my run/settings.json", "--out", "new")
    assert said.endswith("equipoise fit people.csv --settings 'my run/settings.json'")
    assert document["data"]["sha256"] in said


def test_a_run_that_can_not_begin_leaves_no_folder(people):
    ran = equipoise(*FIT, "--strengths", "0,1.5", "--out", "new/run")
    assert ran.code == 1 and "strength" in ran.err
    assert not Path("new").exists()


def truncated(run, name):
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[: len(content) // 2])


def edited(run, **changes):
    document = json.loads((run / "settings.json").read_text("utf-8"))
    (run / "settings.json").write_text(json.dumps(document | changes), "utf-8")


def test_a_truncated_frontier_is_found(run):
    truncated(run, "frontier.equipoise")
    size = (run / "frontier.equipoise").stat().st_size
    command = json.loads((run / "settings.json").read_text("utf-8"))["command"]
    for arguments in (("select", run, "--max-gap", "0.5"), ("report", run)):
        found = (f"got '{run / 'frontier.equipoise'}'", "checksum", f"{size} bytes")
        says(refused(*arguments), f"'{run}'", "whole run folder", *found, f"{command} --overwrite")


def test_a_missing_file_is_named(run):
    command = json.loads((run / "settings.json").read_text("utf-8"))["command"]
    (run / "frontier.equipoise").unlink()
    said = refused("select", run, "--max-gap", "0.5")
    missing = "frontier.equipoise is missing"
    says(said, f"'{run}'", "whole run folder", missing, "copy", f"{command} --overwrite")
    (run / "settings.json").unlink()
    says(refused("report", run), "RUN", "must be a folder", f"got '{run}'", "no settings.json")


def test_edited_settings_are_found(run):
    edited(run, task="regression")
    rule = "must be as equipoise wrote it"
    remedies = ("undo the change", "--settings", "fit again")
    says(refused("report", run), f"'{run / 'settings.json'}'", rule, "checksum", *remedies)


def test_settings_that_are_no_json_are_found(run):
    truncated(run, "settings.json")
    said = refused("report", run)
    says(said, f"'{run / 'settings.json'}'", "must hold JSON", "but", "restore it", "fit again")


def test_a_run_of_another_version_is_named_as_such(run):
    edited(run, equipoise_run=2, versions={"equipoise": "9.1"})
    found = ("got format 2", "equipoise 9.1", "use that version", version("equipoise"))
    says(refused("report", run), f"'{run / 'settings.json'}'", "must be", "format 1", *found)


def test_another_model_in_the_folder_is_found(run, folder, tmp_path):
    (run / "model.equipoise").write_bytes((run / "frontier.equipoise").read_bytes())
    said = refused("predict", run, folder / "people.csv", "--out", tmp_path / "scores.csv")
    model = (f"'{run / 'model.equipoise'}'", "must be the model", "'selection.json'")
    says(said, *model, "another one", f"equipoise select {run}")
    (run / "selection.json").unlink()
    missing = f"'{run / 'selection.json'}' is missing"
    remedy = f"equipoise select {run} --max-gap 0.1"
    says(refused("report", run), "RUN", "must have a selected model", missing, remedy)


def test_files_of_two_runs_are_not_taken_for_one(people, run, folder):
    ran = equipoise(*FIT, *SMALL_ON_CPU, "--seed", "1", "--out", "other")
    assert ran.code == 0, ran.err
    shutil.copy("other/frontier.equipoise", run)
    said = refused("select", run, "--max-gap", "0.9")
    says(said, f"'{run}'", "frontier.equipoise", "settings.json", "SHA-256", "--overwrite")
    shutil.copy("other/model.equipoise", run)
    assert "'selection.json' describes" in refused("predict", run, people, "--out", "scores.csv")
    shutil.copy("other/selection.json", run)
    for command in (("report", run), ("predict", run, people, "--out", "scores.csv")):
        assert f"'{run / 'selection.json'}'" in refused(*command)
    shutil.copy("other/settings.json", run)
    says(refused("report", run), f"'{run / 'model_card.md'}'", "another run", "move it")
    for name in ("model_card.md", "model_card.html", "model_card.json"):
        shutil.copy(f"other/{name}", run)
    assert equipoise("report", run).code == 0  # now all of them are of one run


def test_an_edited_selection_is_found(run, folder, tmp_path):
    document = json.loads((run / "selection.json").read_text("utf-8"))
    text = json.dumps({**document, "threshold": document["threshold"] / 2})
    (run / "selection.json").write_text(text, "utf-8")
    for arguments in (
        ("predict", run, folder / "people.csv", "--out", tmp_path / "scores.csv"),
        ("report", run),
    ):
        says(refused(*arguments), "selection.json", "was changed", f"equipoise select {run}")
    assert not (tmp_path / "scores.csv").exists()
    assert equipoise("select", run, "--max-gap", "0.9").code == 0
    assert equipoise("report", run).code == 0


def test_runs_of_older_versions_without_digests_are_taken_as_they_are(run, folder, tmp_path):
    settings = run / "settings.json"
    document = json.loads(settings.read_text("utf-8"))
    known = document.pop("files")
    del document["checksum"]
    text = json.dumps(document, sort_keys=True, ensure_ascii=False)
    document["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    settings.write_text(json.dumps(document), "utf-8")
    scores = tmp_path / "scores.csv"
    for command in (("report", run), ("predict", run, folder / "people.csv", "--out", scores)):
        ran = equipoise(*command)
        assert ran.code == 0, ran.err
    assert equipoise("select", run, "--max-gap", "0.9").code == 0
    now = json.loads(settings.read_text("utf-8"))["files"]
    cards = {"model_card.md", "model_card.html", "model_card.json"}
    assert set(now) == {"frontier.equipoise", "model.equipoise", "selection.json", *cards}
    assert now["frontier.equipoise"] == known["frontier.equipoise"]


def test_a_folder_in_use_is_refused_to_others_that_would_write(people, run):
    before = state_of(run)
    with writing(run, argument="--out"):
        for command in (
            (*FIT, *SMALL_ON_CPU, "--out", run, "--overwrite"),
            ("select", run, "--max-gap", "0.9"),
            ("report", run),
        ):
            process = f"process {os.getpid()} "
            says(refused(*command), "must not be in use", f"'{run}'", process, "wait")
        # Reading goes on meanwhile, for training may take hours.
        assert equipoise("predict", run, people, "--out", "scores.csv").code == 0
    assert state_of(run) == before
    Path(run, ".equipoise-lock").write_text("1\n", "utf-8")  # as a killed process leaves it
    assert equipoise("report", run).code == 0
    assert not Path(run, ".equipoise-lock").exists()


def test_of_two_fits_at_once_one_is_refused(people):
    Path("a").mkdir()
    Path("b").mkdir()
    processes = []
    for place in ("a", "b"):
        os.chdir(place)  # where each says what it has to say
        fit = [str(part) for part in FIT]
        fit[1] = str(people)
        processes.append(in_a_process(*fit, *SMALL_ON_CPU, "--out", "../run"))
        os.chdir("..")
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    assert sorted(codes) == [0, 1]
    said = Path("ab"[codes.index(1)], "said.txt").read_text("utf-8")
    assert f"process {processes[codes.index(0)]} " in said or "which holds a run" in said
    assert equipoise("report", "run").code == 0
    assert not [name for name in os.listdir("run") if name.startswith(".")]


def test_an_overwrite_ended_by_ctrl_c_can_be_resumed(people, run):
    training = "run/.equipoise-overwrite/training.checkpoint"
    fit = [*FIT, *LONG, "--device", "cpu", "--out", "run"]
    assert signalled(signal.SIGINT, training, *fit, "--overwrite") == 1
    document = json.loads(Path("run/settings.json").read_text("utf-8"))
    assert (document["state"], document["options"]["iterations"]) == ("interrupted", 400)
    assert set(document["files"]) >= {"training.checkpoint", "frontier.equipoise"}
    assert not Path("run/.equipoise-overwrite").exists()
    assert equipoise("select", "run", "--min-utility", "0").code == 0
    assert equipoise("fit", "--resume", "--out", "run").code == 0
    assert not Path("run/training.checkpoint").exists()


def test_an_unfinished_overwrite_is_noted_and_the_old_run_stays_in_use(people, run):
    record, table = read_record(run / "settings.json"), (run / "table.csv").read_bytes()
    (run / ".equipoise-overwrite").mkdir()
    begun = replace(record, state="training", options=replace(record.options, seed=1), files={})
    write_json(run / ".equipoise-overwrite" / "settings.json", begun.to_document())
    for command in (
        ("predict", run, people, "--out", "scores.csv"),
        ("select", run, "--max-gap", "0.9"),
    ):
        ran = equipoise(*command)
        assert ran.code == 0, ran.err
        assert "about the old run" in ran.err and resume_command(run) in ran.err
    assert (run / "table.csv").read_bytes() == table
    ran = equipoise("fit", people, "--resume", "--out", run)
    assert ran.code == 0, ran.err
    assert (run / "table.csv").read_bytes() != table
    assert not (run / ".equipoise-overwrite").exists()


def test_a_frontier_that_was_saved_is_not_trained_again(people, run):
    record, table = read_record(run / "settings.json"), (run / "table.csv").read_bytes()
    changes = run / ".equipoise-changes"
    changes.mkdir()
    (run / "frontier.equipoise").rename(changes / "frontier.equipoise")
    for path in run.glob("*.*"):
        if path.is_file():
            path.unlink()
    # Trained again, it would come out as that of another seed.
    options = replace(record.options, seed=1)
    begun = replace(record, state="training", options=options, files={})
    write_json(run / "settings.json", begun.to_document())
    ran = equipoise("fit", people, "--resume", "--out", run)
    assert ran.code == 0, ran.err
    assert (run / "table.csv").read_bytes() == table
    assert not changes.exists()


def test_what_is_no_run_folder_is_refused(tmp_path, folder):
    for path, what in ((tmp_path / "gone", "does not exist"), (folder / "people.csv", "is a file")):
        says(refused("report", path), "RUN", "must be a folder", f"got '{path}'", what)


LONG = ("--strengths", "0,0.9", "--seeds", "1", "--iterations", "400", "--evaluate-every", "20")


def in_a_process(*arguments):
    """Fork a process that runs a command, so that only this one has to import torch."""
    process = os.fork()
    if process:
        return process
    try:
        torch.set_num_threads(1)  # of several threads none but this one lives on in a fork
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(120)  # the most that it may take
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with open("said.txt", "w") as said, redirect_stdout(said), redirect_stderr(said):
            code = run_command(app, list(arguments))
        os._exit(code)
    finally:  # whatever happens, this process must not go on as a second pytest
        os._exit(99)


def written_at(path):
    return Path(path).stat().st_mtime_ns if Path(path).exists() else 0


def signalled(number, checkpoint, *arguments):
    """Run a command until it has written a checkpoint, send it a signal; return how it ended."""
    before = written_at(checkpoint)
    process = in_a_process(*arguments)
    while written_at(checkpoint) == before:
        assert os.waitpid(process, os.WNOHANG) == (0, 0), Path("said.txt").read_text("utf-8")
        time.sleep(0.002)
    os.kill(process, number)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_killed_and_interrupted_runs_go_on_to_the_same_end(people):
    fit = [*FIT, *LONG, "--device", "cpu"]
    assert equipoise(*fit, "--out", "whole").code == 0

    checkpoint = "cut/training.checkpoint"
    assert signalled(signal.SIGKILL, checkpoint, *fit, "--out", "cut") == -signal.SIGKILL
    remedy = "equipoise fit --resume --out cut"
    says(refused("report", "cut"), "RUN", "has ended", "'cut'", remedy)
    assert "which holds a run" in refused(*fit, "--out", "cut")

    assert signalled(signal.SIGINT, checkpoint, "fit", "--resume", "--out", "cut") == 1
    said = Path("said.txt").read_text("utf-8")
    at = json.loads(Path("cut/settings.json").read_text("utf-8"))["iterations_trained"]
    assert 0 < at < 400
    assert f"interrupted at iteration {at} of 400" in said
    assert "with:\n  equipoise fit --resume --out cut\n" in said
    assert Path("cut/report.html").exists()  # what there is can be looked at
    assert equipoise("report", "cut").code == 0

    said = refused("fit", "--resume", "--out", "cut", "--iterations", "500")
    says(said, "--resume", "'cut'", "iterations was 400, is 500", "another --out")
    ran = equipoise("fit", "--resume", "--out", "cut")
    assert ran.code == 0, ran.err
    for name in ("table.csv", "members.csv"):
        assert Path("cut", name).read_bytes() == Path("whole", name).read_bytes()
    for name in ("frontier.equipoise", "model.equipoise"):
        assert same_model(Path("cut", name), Path("whole", name))
    assert not Path("cut/training.checkpoint").exists()
    said = refused("fit", "--resume", "--out", "cut")
    says(said, "--resume", "unfinished", "'cut', which is finished", "--out", "--overwrite")


def test_data_that_changed_are_not_the_same_run(people, run, folder):
    settings = "run/settings.json"
    assert shutil.copy(folder / "run" / "settings.json", settings)
    document = json.loads(Path(settings).read_text("utf-8"))
    before = document["data"]["sha256"]
    with Path("people.csv").open("a", encoding="utf-8") as file:
        file.write("p99999,30,F,Ulm,40,0.5,yes\n")
    now = hashlib.sha256(Path("people.csv").read_bytes()).hexdigest()
    ran = equipoise("fit", "people.csv", "--settings", settings, "--out", "new")
    assert ran.code == 0, ran.err
    (note,) = (line for line in ran.err.splitlines() if line.startswith("note: "))
    says(note, "'people.csv' is not the file", now, before, "with the settings of that run")
    with Path("people.csv").open("a", encoding="utf-8") as file:
        file.write("p99998,31,M,Ulm,40,0.5,no\n")
    later = hashlib.sha256(Path("people.csv").read_bytes()).hexdigest()
    said = refused("fit", "--settings", "new/settings.json", "--out", "newer")
    repeat = "equipoise fit people.csv --settings new/settings.json"
    says(said, "'people.csv' is not the file", later, now, "restore", repeat)
    assert len({before, now, later}) == 3
