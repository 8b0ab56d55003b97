"""No file does anything but load as it was saved, or be refused with a reason."""

import hashlib
import json
import pickle

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_models import fitted

from equipoise import load
from equipoise.errors import InputError
from tests.error_parts import says


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("models") / "model.equipoise"


@pytest.fixture(scope="module")
def content(path):
    """A saved model, byte by byte."""
    whole = path.with_name("whole.equipoise")
    fitted("text only")[0].save(whole)
    return whole.read_bytes()


def refusal(path, content):
    """What load says about a file of this content; anything but an InputError fails."""
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        load(path)
    return str(refused.value)


def foreign(path):
    return (
        f"path must name a model written by save, got '{path}', which is another kind of file or "
        "whose beginning is damaged; copy it again or save the model again"
    )


def damaged(path, size):
    return (
        f"path must name an undamaged model, got '{path}', whose checksum does not match its "
        f"{size} bytes; copy it again or save the model again"
    )


def test_every_truncation_is_noticed(path, content):
    seen = {refusal(path, content[:size]) for size in range(len(content))}
    assert seen <= {foreign(path), *(damaged(path, size) for size in range(len(content)))}
    assert damaged(path, len(content) - 1) in seen and foreign(path) in seen


def test_every_flipped_byte_is_noticed(path, content):
    bits = np.random.default_rng(0).integers(0, 8, len(content))
    seen = set()
    for place, bit in enumerate(bits):
        changed = bytearray(content)
        changed[place] ^= 1 << int(bit)
        seen.add(refusal(path, bytes(changed)))
    assert seen == {foreign(path), damaged(path, len(content))}


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_every_patch_is_noticed(path, content, data):
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(start + 40, len(content))))
    patch = data.draw(st.binary(max_size=40).filter(lambda new: new != content[start:stop]))
    changed = content[:start] + patch + content[stop:]
    if changed != content:
        assert refusal(path, changed).startswith("path must name ")


@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"\xff" * 100,
        b"PK\x03\x04",
        pickle.dumps({"a": 1}),
        safetensors.numpy.save({"a": np.zeros(3)}, metadata={"format": "pt"}),
    ],
    ids=["empty", "huge length", "zip", "pickle", "other safetensors"],
)
def test_another_kind_of_file_is_refused(other, path):
    assert refusal(path, other) == foreign(path)


def test_what_can_not_be_read_is_refused(tmp_path):
    with pytest.raises(InputError) as refused:
        load(tmp_path / "nothing")
    assert says(
        str(refused.value),
        "path",
        "name a model that can be read",
        f"'{tmp_path / 'nothing'}' (No such file or directory)",
        "check the name",
    )
    with pytest.raises(InputError) as refused:
        load(tmp_path)
    assert says(
        str(refused.value), "path", "can be read", f"'{tmp_path}' (Is a directory)", "check"
    )
    with pytest.raises(InputError, match="path must name a model that can be read, got 'a\0b'"):
        load("a\0b")


def unsealed(content, path):
    """Arrays and metadata of a saved model."""
    path.write_bytes(content)
    with safetensors.safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


def sealed(arrays, metadata):
    """A file with a right checksum, as anybody can make who reads the format's description."""
    blank = "0" * 64
    content = safetensors.numpy.save(arrays, metadata={**metadata, "equipoise_sha256": blank})
    digest = hashlib.sha256(content).hexdigest()
    return content.replace(
        f'"equipoise_sha256":"{blank}"'.encode(), f'"equipoise_sha256":"{digest}"'.encode()
    )


def test_another_format_version_is_refused(path, content):
    arrays, metadata = unsealed(content, path)
    assert says(
        refusal(path, sealed(arrays, {**metadata, "equipoise_format": "2"})),
        "path",
        "name a model of format",
        f"version '2' in '{path}'",
        "load it with the version of equipoise",
        "save the model again",
    )


def crafted(path):
    return f"path must name a model written by save, got '{path}', whose checksum is right but "


def test_hand_made_contents_are_refused(path, content):
    arrays, metadata = unsealed(content, path)
    document = json.loads(metadata["equipoise_model"])
    path.write_bytes(sealed(arrays, metadata))
    load(path)  # the seal itself is right

    def message(changes, arrays=arrays):
        text = json.dumps({**document, **changes})
        return refusal(path, sealed(arrays, {**metadata, "equipoise_model": text}))

    assert message({"class": "os.system"}) == (
        crafted(path) + "whose contents are not a model (KeyError: 'os.system'); save the model "
        "again"
    )
    options = document["parameters"]
    for changes in (
        {"learned": {"__class__": 1}},
        {"learned": {"classes_": {"array": ["|V8", [1, 2]]}}},
        {"learned": {"classes_": {"object": "os.system"}}},
        {"parameters": {**options, "unknown": 1}},
        {"task": "anything"},
        {"encoder": {}},
        {"health": 3},
        {"own_network": True},
    ):
        assert message(changes).startswith((crafted(path), "network is required")), changes
    for name in arrays:
        fewer = {other: array for other, array in arrays.items() if other != name}
        assert message({}, fewer).startswith(crafted(path)), name
        wider = {**arrays, name: np.concatenate([arrays[name].ravel()] * 2)}
        if name.startswith("weights.") and "extra_state" not in name:
            assert message({}, wider).startswith(crafted(path)), name


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, "null", '{"class": []}'])
def test_hand_made_documents_are_refused(text, path, content):
    arrays, metadata = unsealed(content, path)
    made = sealed(arrays, {**metadata, "equipoise_model": text})
    assert refusal(path, made).startswith(crafted(path))
