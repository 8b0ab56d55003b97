"""Law school admission: which applicants of 2005-2008 were admitted."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from equipoise.datasets.dataset import (
    Dataset,
    DatasetDescription,
    Preprocessing,
    as_categories,
    assemble,
    encoded,
)
from equipoise.datasets.files import DataFile, GivenPath, find, not_found, read

LAW: Final = DatasetDescription(
    name="law",
    title="Law School Admission, applications to US law schools 2005-2008",
    task="classification",
    target="admit",
    positive="1 = admitted",
    source="Project SEAPHE, public-records data (lawschs1_1; the site is gone), in the copy of "
    "Sohn, Song and Lin (2024)",
    licence="none stated (public records)",
    citation="Project SEAPHE, law school admissions data 2005-2008; as used in Sohn, J., Song, Q. "
    "and Lin, G. (2024). Fair Supervised Learning with A Simple Random Sampler of Sensitive "
    "Attributes. AISTATS.",
)
_DEFAULT_NOTES = (
    "rows without a known race, or with a missing value in any column but enroll, are left out",
    "enroll is left out of X: it is known only after the decision and missing for most rejected",
    "Black, Hispanic, Asian, White, URM and MissingRace are left out of X: they repeat Race",
    "the file is cut at 65 535 rows; LSAT exceeds its maximum of 180 in two rows of the file",
    "the meaning of the two Gender codes is not documented in the file",
)
_PAPER_NOTES = (
    "rows with a missing enroll are dropped too, which removes most rejected applicants and moves "
    "the admission rate from 0.249 to 0.564: the authors' dropna covers every column",
    "LSAT and GPA are scaled to [-1, 1] over all rows, before any split; resident is not used",
    "Race is 1 for White, 0 for every other level",
)
_CORE = ("LSAT", "GPA", "Race", "resident", "college", "Year", "Gender", "admit")
_FLAGS = ("Black", "Hispanic", "Asian", "White", "MissingRace", "URM")

LAW_FILE: Final = DataFile(
    dataset="law",
    names=("lawschool_admission.parquet", "lawschool.csv"),
    columns=(*_CORE, *_FLAGS, "enroll"),
    complete=("Race", "MissingRace"),
    rows=65_535,
    sha256="5f42fe871d44d60f9180b20c16f1517c268e73aa0b1ffc1514f94d79c47cd392",
    how_to_get="No official source is left (the SEAPHE site is gone); the paper's authors keep "
    "lawschool.csv in the folder datasets of https://github.com/jwsohn612/fairSBP.",
)


def load_law(*, preprocessing: Preprocessing, path: GivenPath) -> Dataset:
    """Load Law School Admission from a file."""
    location = find(LAW_FILE, path)
    if location is None:
        raise not_found(LAW_FILE, path)
    table = read(LAW_FILE, location)
    table = table[table["MissingRace"] == 0]
    if preprocessing == "paper":
        table = table.dropna()
        X = encoded(table, scale=("LSAT", "GPA"), levels=("college", "Year"))
        A = pd.DataFrame({"Race": (table["Race"] == "White").astype(np.int64)})
    else:
        table = table.drop(columns="enroll").dropna()
        X = table[["LSAT", "GPA", "resident", "college", "Year"]].assign(
            resident=table["resident"].astype(np.int64),
            college=table["college"].astype("category"),
            Year=table["Year"].astype(str).astype("category"),
        )
        A = pd.DataFrame({"Race": table["Race"].astype("category")})
        A["Gender"] = as_categories(table["Gender"], {})
    notes = _PAPER_NOTES if preprocessing == "paper" else _DEFAULT_NOTES
    y = table["admit"].astype(np.int64)
    return assemble(X, y, A, about=LAW, notes=notes, origin=str(location))
