"""A small part of ``python -m benchmarks crashes``, which does all of it; see there for the law."""

import json
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import crashes
from benchmarks.crashes import COMMANDS, Bench, killed, on_a_full_disk, steps_of


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize(
    ("name", "every", "found"),
    [
        ("fit", 18, {"nothing", "unfinished, resumed", "new"}),
        ("overwrite", 18, {"old", "old, resumed", "new"}),
        ("select", 10, {"old", "new"}),
        ("predict", 2, {"old", "new"}),
        ("audit", 5, {"old", "new"}),
        ("compare", 2, {"old", "new"}),
    ],
)
def test_a_kill_before_any_step_loses_nothing(bench, tmp_path, name, every, found):
    steps = steps_of(bench, name, tmp_path)
    checked = [*steps[::every], steps[-1]]
    assert {bench.check(name, place) for place in checked} == found


@pytest.mark.parametrize(("name", "at"), [("fit", 20), ("overwrite", 3), ("overwrite", 30)])
def test_a_full_disk_loses_nothing(bench, name, at):
    assert on_a_full_disk(bench, name, at) in ("old", "old, resumed", "unfinished, resumed")


def test_files_that_can_not_be_written_whole_leave_the_old_ones(bench):
    for name in ("overwrite", "select", "predict", "audit", "compare"):
        assert crashes.with_files_cut_at(bench, name, 0) == "old"
    assert crashes.with_files_cut_at(bench, "overwrite", bench.sizes()[-1]) != "new"


def test_kills_at_random_moments_lose_nothing(bench):
    moments = random.Random(3)
    for name in COMMANDS:
        longest = crashes.duration(bench, name)
        killed(bench, name, moments.uniform(0, longest))


def test_the_committed_result_is_of_these_commands_and_lost_nothing():
    found = json.loads(crashes.RESULTS.read_text("utf-8"))
    assert found["command_lines"] == {name: " ".join(each) for name, each in COMMANDS.items()}
    assert found["lost"] == 0
    kills = found["killed_at_random_moments"]
    assert sum(sum(counts.values()) for counts in kills.values()) == crashes.KILLS == 120
    for sweep in ("killed_at_every_step", "disk_full_from_every_step", "disk_full_within_a_file"):
        assert set(found[sweep]) == set(COMMANDS)
