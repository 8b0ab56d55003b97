"""Data files: bundled ones are read, others are found, read and checked."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import pandas as pd

from equipoise.errors import DataNotFound, InputError

GivenPath = str | os.PathLike[str] | None


def read_bundled(name: str) -> pd.DataFrame:
    """Return the Parquet table called ``name`` (without its ending) that the package contains."""
    with as_file(files("equipoise.datasets") / "bundled" / f"{name}.parquet") as location:
        return pd.read_parquet(location)


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file that holds a data set: its accepted names and what its content must look like.

    Content is checked by ``columns``, by those that are ``complete`` (without missing values) and
    by ``rows`` (None: any number), because the same values may come as Parquet or as CSV;
    ``sha256`` is that of the first name and only informs.
    """

    dataset: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    complete: tuple[str, ...]
    rows: int | None
    sha256: str | None
    how_to_get: str


def find(file: DataFile, path: GivenPath) -> Path | None:
    """Return the first place that holds ``file``, or None."""
    for place in _search_places(path).values():
        if place.is_file():
            return place
        for name in file.names:
            if (place / name).is_file():
                return place / name
    return None


def not_found(file: DataFile, path: GivenPath, *, download_failure: str = "") -> DataNotFound:
    """Return the error that says which file to put where, and which places were searched."""
    checksum = f" (sha256 {file.sha256})" if file.sha256 else ""
    others = "".join(f" or {name}" for name in file.names[1:])
    searched = ", ".join(f"{words} {place}" for words, place in _search_places(path).items())
    failure = f" The download failed: {download_failure}" if download_failure else ""
    return DataNotFound(
        f"data set {file.dataset!r} is not bundled and was not found in: {searched}.{failure} "
        f"Put {file.names[0]}{checksum}{others} into {cache_folder()}, or into a folder "
        f"named by the environment variable EQUIPOISE_DATA or by path=. {file.how_to_get}"
    )


def _search_places(path: GivenPath) -> dict[str, Path]:
    """Where files are looked for, in this order, each under the words that describe it."""
    places: dict[str, Path] = {}
    if path is not None:
        if not Path(path).exists():
            raise DataNotFound(f"path must be an existing file or folder, got {os.fspath(path)!r}")
        places["path"] = Path(path)
    if folder := os.environ.get("EQUIPOISE_DATA"):
        places["EQUIPOISE_DATA"] = Path(folder)
    places["cache"] = cache_folder()
    return places


def cache_folder() -> Path:
    """Return the folder for downloaded data, by the conventions of the platform."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        base = Path(local) if local else Path.home() / "AppData" / "Local"
    else:
        # A relative XDG_CACHE_HOME is to be ignored (XDG Base Directory Specification 0.8).
        xdg = os.environ.get("XDG_CACHE_HOME", "")
        base = Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".cache"
    return base / "equipoise"


def read(file: DataFile, location: Path) -> pd.DataFrame:
    """Return the columns of ``file`` stored at ``location``; refuse a file that is another."""
    try:
        frame = _read_table(location, file.columns)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{location} cannot be read as data set {file.dataset!r}: {error}"
        ) from error
    if broken_rule := _broken_rule(file, frame):
        if file.sha256 is not None and location.name == file.names[0]:
            found = hashlib.sha256(location.read_bytes()).hexdigest()
            broken_rule += f"; its sha256 is {found}, that of the known file {file.sha256}"
        raise InputError(f"{location} is not data set {file.dataset!r}: {broken_rule}")
    return frame[list(file.columns)]


def _read_table(location: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    if location.suffix == ".parquet":
        return pd.read_parquet(location)
    if location.suffix == ".csv":
        return pd.read_csv(location, usecols=lambda name: name in columns, low_memory=False)
    if location.suffix != ".zip":
        raise ValueError("the file name must end in .parquet, .csv or .zip")
    with zipfile.ZipFile(location) as archive:
        tables = [name for name in archive.namelist() if name.endswith(".csv")]
        if len(tables) != 1:
            raise ValueError(f"the archive must hold one .csv file, got {tables}")
        with archive.open(tables[0]) as table:
            return pd.read_csv(table, usecols=lambda name: name in columns, low_memory=False)


def _broken_rule(file: DataFile, frame: pd.DataFrame) -> str:
    absent = [column for column in file.columns if column not in frame.columns]
    if absent:
        return f"it must have the columns {', '.join(file.columns)}; it lacks {', '.join(absent)}"
    if file.rows is not None and len(frame) != file.rows:
        return f"it must have {file.rows} rows, got {len(frame)}"
    gaps = [column for column in file.complete if frame[column].isna().any()]
    if gaps:
        known = ", ".join(file.complete)
        return f"it must have no missing values in {known}; {', '.join(gaps)} has"
    return ""
