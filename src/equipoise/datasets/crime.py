"""UCI Communities and Crime: violent crimes per head of 1 994 US communities."""

from __future__ import annotations

from equipoise.datasets.dataset import Dataset, DatasetDescription, Preprocessing, assemble
from equipoise.datasets.files import read_bundled

_ABOUT = DatasetDescription(
    name="crime",
    title="Communities and Crime (normalized), US 1990-1995",
    task="regression",
    target="ViolentCrimesPerPop",
    positive="violent crimes per head, normalized to [0, 1]",
    source="UCI Machine Learning Repository, doi:10.24432/C53W3X (as redistributed in the Python "
    "package mapie 1.5.0)",
    licence="CC BY 4.0",
    citation="Redmond, M. (2009). Communities and Crime. UCI Machine Learning Repository. "
    "https://doi.org/10.24432/C53W3X",
)
_IDENTIFIERS = ("state", "county", "community", "communityname", "fold")
_TARGET = "ViolentCrimesPerPop"
_SENSITIVE = "racepctblack"
_POLICE_COLUMNS_MISSING = 1675
_DEFAULT_NOTES = (
    f"identifiers are left out of X: {', '.join(_IDENTIFIERS)}",
    "22 police columns are left out of X: each is missing in 1 675 of the 1 994 rows",
    "OtherPerCap is missing in one row",
    "other columns on race (racePctWhite, racePctAsian, racePctHisp and incomes by race) stay in X",
)
_PAPER_NOTES = (
    f"identifiers are dropped: {', '.join(_IDENTIFIERS)}",
    "missing values are filled with the mean of the column rounded to one decimal, although the "
    "22 police columns are missing in 1 675 of the 1 994 rows",
    "nothing is scaled further: the file's columns lie in [0, 1] already",
)


def load_crime(*, preprocessing: Preprocessing) -> Dataset:
    """Load Communities and Crime."""
    table = read_bundled("communities_crime").drop(columns=list(_IDENTIFIERS))
    X = table.drop(columns=[_TARGET, _SENSITIVE])
    if preprocessing == "paper":
        X = X.fillna(X.mean().round(1))
    else:
        X = X.loc[:, X.isna().sum() < _POLICE_COLUMNS_MISSING]
    y, A = table[_TARGET], table[[_SENSITIVE]]
    notes = _PAPER_NOTES if preprocessing == "paper" else _DEFAULT_NOTES
    return assemble(X, y, A, about=_ABOUT, notes=notes, origin="bundled")
