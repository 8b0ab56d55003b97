"""A file of a run's state reads back as it was written, or is refused with a reason."""

import math
import re

import numpy as np
import pytest
import torch
from tiny_models import fitted

from equipoise import load
from equipoise.errors import InputError
from equipoise.storage import CheckpointFile
from tests.error_parts import says

STATE = {
    "tensors": {
        0: torch.arange(6.0).reshape(2, 3).T,
        "generator": torch.Generator().manual_seed(1).get_state(),
        "step": torch.tensor(3.0),
        "mask": torch.tensor([True, False]),
        "empty": torch.empty(0, 2, dtype=torch.int64),
        "undefined": torch.tensor([math.nan, math.inf]),
    },
    "records": [(1, torch.zeros(2, 1, dtype=torch.float64)), (2, torch.ones(2, 1))],
    "plain": [None, True, 3, 0.1, math.inf, "text", [], {}, ()],
}


def assert_equal(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert found.numpy().tobytes() == wanted.numpy().tobytes()
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key, value in wanted.items():
            assert_equal(found[key], value)
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for pair in zip(found, wanted, strict=True):
            assert_equal(*pair)
    else:
        assert found == wanted


@pytest.fixture
def file(tmp_path):
    kept = CheckpointFile(tmp_path / "run.checkpoint")
    kept.write(STATE)
    return kept


def refusal(file):
    with pytest.raises(InputError) as refused:
        file.read()
    return str(refused.value)


def test_a_state_reads_back_as_it_was(file):
    assert_equal(file.read(), STATE)
    found = file.read()["tensors"][0]
    found += 1  # it is memory of its own
    assert_equal(file.read(), STATE)


def test_the_latest_state_counts_and_no_file_is_no_state(tmp_path):
    file = CheckpointFile(tmp_path / "run.checkpoint")
    assert file.read() is None and not file.exists()
    for number in range(3):
        file.write({"number": number})
    assert file.read() == {"number": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["run.checkpoint"]


def test_what_killed_writers_left_is_removed_and_nothing_else(file, tmp_path):
    left = tmp_path / f".run.checkpoint.{'0a' * 16}.part"
    others = [
        tmp_path / f".run.checkpoint.second.{'0a' * 16}.part",
        tmp_path / f".another.{'0a' * 16}.part",
        tmp_path / "run.checkpoint.part",
    ]
    for path in (left, *others):
        path.write_bytes(b"half")
    assert_equal(file.read(), STATE)
    assert not left.exists() and all(path.exists() for path in others)


def test_damage_is_noticed(file):
    content = file.path.read_bytes()
    for size in (0, 7, 100, len(content) // 2, len(content) - 1):
        file.path.write_bytes(content[:size])
        assert refusal(file) in (
            f"checkpoint must name a checkpoint written by fit, got '{file}', which is another "
            "kind of file or whose beginning is damaged; copy it again or remove it to start anew",
            f"checkpoint must name an undamaged checkpoint, got '{file}', whose checksum does not "
            f"match its {size} bytes; copy it again or remove it to start anew",
        )
    for place in np.random.default_rng(0).integers(0, len(content), 50).tolist():
        changed = bytearray(content)
        changed[place] ^= 4
        file.path.write_bytes(changed)
        assert refusal(file).endswith("; copy it again or remove it to start anew")


def test_models_and_checkpoints_are_not_taken_for_one_another(file, tmp_path):
    model = fitted("text only")[0]
    saved = CheckpointFile(tmp_path / "model.equipoise")
    model.save(saved.path)
    before = saved.path.read_bytes(), file.path.read_bytes()
    assert says(
        refusal(saved),
        "checkpoint",
        "name a checkpoint written by",
        f"'{saved}', whose checksum is right",
        "KeyError: 'equipoise_checkpoint'",
        "remove it to start anew",
    )
    with pytest.raises(InputError, match=r"whose contents are not a model \(KeyError"):
        load(file.path)
    message = (
        f"checkpoint must be new or hold a checkpoint that equipoise wrote, got '{saved}', which "
        "is another kind of file; choose another name"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        saved.write(STATE)
    message = f"path must be new or hold a model that equipoise wrote, got '{file}', which is"
    with pytest.raises(InputError, match=re.escape(message)):
        model.save(file.path)
    assert (saved.path.read_bytes(), file.path.read_bytes()) == before


def test_places_that_can_not_be_written_are_refused(tmp_path):
    with pytest.raises(InputError) as refused:
        CheckpointFile(tmp_path)
    assert says(
        str(refused.value),
        "checkpoint",
        "name a file",
        f"the folder '{tmp_path}'",
        "add a file name",
    )
    with pytest.raises(InputError) as refused:
        CheckpointFile(tmp_path / "new" / "run")
    assert says(
        str(refused.value),
        "checkpoint",
        "lie in a folder that",
        f"'{tmp_path / 'new' / 'run'}'",
        f"create '{tmp_path / 'new'}' first",
    )


def test_what_no_state_can_hold_is_refused(tmp_path):
    file = CheckpointFile(tmp_path / "run.checkpoint")
    with pytest.raises(InputError, match="checkpoint must be a plain value"):
        file.write({"function": print})
    assert list(tmp_path.iterdir()) == []
