"""Files of right checksum that no save wrote: refused in words, or models that answer.

Each is met by a child process under a memory limit and a time limit; see `forging`.
"""

import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from forging import deep, forged, resealed, save_subjects, sealed, short_fit, unsealed
from tiny_models import fitted

from equipoise import load
from equipoise.errors import InputError
from equipoise.storage import CheckpointFile, from_json

CASES = 208


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    save_subjects(folder)
    return folder


def test_forged_files_are_refused_or_answer_within_memory_and_time(folder):
    child = subprocess.run(
        [sys.executable, Path(__file__).with_name("forging.py"), folder, "0", str(CASES)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    assert [line for line in lines if "failed" in line] == []
    assert child.returncode == 0, (lines[-1:], child.stderr[-2000:])
    tally = lines[-1]["done"]
    # Most changes are noticed; some, such as of an option or a weight, make another model.
    assert sum(tally.values()) == CASES and tally["refused"] > tally["loaded"] > 0


def test_the_same_seed_makes_the_same_change(folder):
    path = folder / "classifier"
    assert forged(path, 3)[1] == forged(path, 3)[1] != forged(path, 4)[1]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.equipoise"


def refusal(path, change):
    """What load says of a classifier whose document and arrays were changed so."""
    original = path.with_name("original")
    fitted("text only")[0].save(original)
    arrays, metadata, key, document = unsealed(original)
    change(document, arrays)
    path.write_bytes(sealed(arrays, {**metadata, key: json.dumps(document)}))
    with pytest.raises(InputError) as refused:
        load(path)
    assert "checksum is right but" in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    "value",
    [
        {"array": ["<U500000000", ["a", "b"]]},
        {"array": ["<i8", {"range": [0, 10**9, 1]}]},
        {"array": ["<i8", [{"range": [0, 10**9, 1]}]]},
        {"array": ["(9,9)<i8", [1]]},
        {"range": [0, 10**30, 1]},
        {"random_state": ["MT19937", [1] * 624, 10**9, 0, 0.0]},
        {"random_state": ["MT19937", {"range": [0, 10**9, 1]}, 0, 0, 0.0]},
    ],
    ids=str,
)
def test_what_a_document_claims_is_held_against_what_it_spells_out(value):
    with pytest.raises(
        ValueError, match=r"claims|holds something else|no array|is wrong|are wrong"
    ):
        from_json(value)


def test_wide_text_that_is_not_much_keeps_its_width():
    assert from_json({"array": ["<U1000", ["a", "b"]]}).dtype == np.dtype("<U1000")


@pytest.mark.parametrize("shape", [(1, 10**9, 0), (10**9, 0, 2), (0, 3, 4)])
def test_an_array_without_numbers_makes_no_wide_network(shape, path):
    def widen(document, arrays):
        arrays["weights.network.layers.1.weight"] = np.zeros(shape)

    refusal(path, widen)


def test_a_shape_beyond_the_bytes_of_the_file_is_refused(path):
    fitted("text only")[0].save(path)
    arrays, metadata, _, _ = unsealed(path)
    blank = {**metadata, "equipoise_sha256": "0" * 64}
    content = safetensors.numpy.save(arrays, metadata=blank)
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header["weights.network.layers.1.weight"]["shape"] = [1, 10**9, 10**9]
    changed = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(resealed(struct.pack("<Q", len(changed)) + changed + content[8 + length :]))
    with pytest.raises(InputError, match="checksum is right but"):
        load(path)


def test_documents_too_deep_to_follow_are_refused(path):
    def deepen(document, arrays):
        document["learned"]["sensitive_"] = deep(400)

    refusal(path, deepen)
    refusal(path, lambda document, arrays: document.update(health={"messages": deep(900)}))


def test_long_contents_do_not_make_long_messages(path):
    said = refusal(path, lambda document, arrays: document.update({"class": "x" * 100_000}))
    assert len(said) < 1_000


def test_a_checkpoint_that_stands_beyond_its_run_is_refused(folder, tmp_path):
    """It would never come to the iteration that ends it."""
    path = tmp_path / "checkpoint"
    file = CheckpointFile(folder / "checkpoint")
    state = file.read()
    state["parts"]["run"]["state"]["checked"] = 10**9
    CheckpointFile(path).write(state)
    with pytest.raises(InputError, match="checkpoint must name a checkpoint written by fit"):
        short_fit("checkpoint", path, resume=True)


@pytest.mark.timeout(60)  # whoever opens a pipe waits for its writer
def test_pipes_sockets_and_devices_are_refused_at_once(tmp_path):
    pipe, door = tmp_path / "pipe", tmp_path / "door"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(door))
        for path in (pipe, door, Path("/dev/zero"), Path("/dev/null")):
            with pytest.raises(InputError, match="in a file on disk, got") as refused:
                load(path)
            assert str(path) in str(refused.value) and "into a file first" in str(refused.value)
            with pytest.raises(InputError, match="in a file on disk, got"):
                CheckpointFile(path).read()
    with pytest.raises(InputError, match="must be new or hold a model"):
        fitted("text only")[0].save(pipe)
