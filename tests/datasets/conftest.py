"""Fixtures for data sets whose files are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA_FOLDER = os.environ.get("EQUIPOISE_DATA")


@pytest.fixture
def stored_data() -> Path:
    if DATA_FOLDER is None:
        pytest.skip("EQUIPOISE_DATA does not name a folder with the unbundled data files")
    return Path(DATA_FOLDER)


@pytest.fixture
def empty_places(tmp_path, monkeypatch) -> Path:
    """No data folder, and an empty cache: returns the cache folder equipoise will use."""
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "equipoise"
