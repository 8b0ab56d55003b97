"""ACSEmployment (folktables) and three openly different stand-ins for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from equipoise.datasets.dataset import (
    Dataset,
    DatasetDescription,
    Preprocessing,
    as_categories,
    assemble,
    one_hot,
    scaled,
)
from equipoise.datasets.files import DataFile, GivenPath, find, not_found, read
from equipoise.errors import InputError

_ABOUT = DatasetDescription(
    name="acs_employment",
    title="ACSEmployment, California 2018 (American Community Survey, 1-year persons file)",
    task="classification",
    target="ESR",
    positive="1 = employed and at work (ESR code 1)",
    source="US Census Bureau, ACS Public Use Microdata Sample 2018 1-year, California persons",
    licence="public domain (US government work)",
    citation="Ding, F., Hardt, M., Miller, J. and Schmidt, L. (2021). Retiring Adult: New Datasets "
    "for Fair Machine Learning. NeurIPS.",
)
_CODED = (
    *("SCHL", "MAR", "RELP", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY"),
    *("DEAR", "DEYE", "DREM"),
)
_SENSITIVE = ("AGEP", "SEX", "RAC1P")
_SEX = {1: "male", 2: "female"}
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
_DEFAULT_NOTES = (
    "SCHL is a number (it is ordered), the other features are categories of Census codes; code 0 "
    "stands for a blank, which the Census uses for 'not applicable'",
    "columns that reveal employment are never read: COW, PINCP, WKHP, JWMNP and their like",
)
_PAPER_NOTES = (
    "every feature, SCHL included, is one-hot with its least code dropped; RAC1P is not used",
    "AGEP is scaled to [-1, 1] over all rows, before any split; SEX is 1 for male, 0 for female",
)
_CENSUS_ARCHIVE = "https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year/csv_pca.zip"
_STAND_IN = "acs_employment_standin_"


@dataclass(frozen=True, kw_only=True)
class _Source:
    """One table with ACS columns: its description, its file and how it departs from the Census."""

    about: DatasetDescription
    file: DataFile
    features: tuple[str, ...] = _CODED
    least_race_code: int = 1
    drop_repeated_persons: bool = False
    notes: tuple[str, ...] = ()


def _stand_in(
    name: str,
    *,
    title: str,
    source: str,
    file: str,
    rows: int,
    sha256: str,
    absent: tuple[str, ...] = (),
    extra: tuple[str, ...] = (),
    least_race_code: int = 1,
    notes: tuple[str, ...],
) -> _Source:
    full_name = _STAND_IN + name
    features = tuple(column for column in _CODED if column not in absent)
    warning = "a stand-in: numbers from it are not comparable with ACSEmployment California 2018"
    return _Source(
        about=replace(_ABOUT, name=full_name, title=title, source=source),
        file=DataFile(
            dataset=full_name,
            names=(file,),
            columns=("ESR", *_SENSITIVE, *features, *extra),
            complete=_SENSITIVE,
            rows=rows,
            sha256=sha256,
            how_to_get=f"Source: {source}.",
        ),
        features=features,
        least_race_code=least_race_code,
        drop_repeated_persons=bool(extra),
        notes=(warning, *notes),
    )


#: ACSEmployment and its stand-ins, by name.
ACS_SOURCES = {
    source.about.name: source
    for source in (
        _Source(
            about=_ABOUT,
            file=DataFile(
                dataset="acs_employment",
                names=(
                    "acs_employment_ca_2018.parquet",
                    "acs_employment_ca_2018.csv",
                    "csv_pca.zip",
                ),
                columns=("ESR", *_SENSITIVE, *_CODED),
                complete=_SENSITIVE,
                rows=None,
                sha256=None,
                how_to_get="The official source is the California persons file of the Census: "
                f"{_CENSUS_ARCHIVE} (used as it is; no checksum of it is known, so it is not "
                "downloaded for you). Stand-ins under names of their own are "
                f"{_STAND_IN}publiccoverage, {_STAND_IN}mobility and "
                f"{_STAND_IN}oregon.",
            ),
        ),
        _stand_in(
            "publiccoverage",
            title="stand-in for ACSEmployment: US 2018, persons of the ACSPublicCoverage task",
            source="validation and test fifths of ACSPublicCoverage as stored in the repository "
            "of aequitas (https://github.com/dssg/aequitas, folder datasets/FolkTables)",
            file="acs2018_us_publiccoverage_valtest.parquet",
            rows=455_316,
            sha256="5af024091d3213f8f169d4cafd82d7caa1297b64df1bfc5cb559a3d61e1a47c4",
            absent=("RELP",),
            least_race_code=0,
            notes=(
                "persons aged 15-64 with an income of at most 30 000 dollars, all states",
                "there is no column RELP; PUBCOV, PINCP and FER are left out",
            ),
        ),
        _stand_in(
            "mobility",
            title="stand-in for ACSEmployment: US 2018, persons of the ACSMobility task",
            source="validation and test fifths of ACSMobility as stored in the repository of "
            "aequitas (https://github.com/dssg/aequitas, folder datasets/FolkTables)",
            file="acs2018_us_mobility_valtest.parquet",
            rows=248_375,
            sha256="b6944cb67c0e3051cfaee279559126f88581b9fa15bd0da2978fbfe08a22ea7d",
            absent=("ESP",),
            least_race_code=0,
            notes=(
                "persons aged 19-34, all states; ESP is left out, it is blank for all of them",
                "MIG is 0/1 here (1 = same house a year ago), not the Census code",
                "COW, PINCP, WKHP, JWMNP and GCL are left out",
            ),
        ),
        _stand_in(
            "oregon",
            title="stand-in for ACSEmployment: Oregon, PUMA 600, 2006-2010",
            source="file example_calm/data/seed_persons.csv of the source archive of the Python "
            "package populationsim 0.5.1",
            file="acs_2006_2010_oregon_puma600.parquet",
            rows=11_734,
            sha256="7415341f2b874bffd502fd6c5f59091bd4bda4d05caba8d90b304ecd3dd00952",
            absent=("DIS", "DEAR", "DEYE", "DREM"),
            extra=("SERIALNO", "SPORDER"),
            notes=(
                "1 683 repeated persons (same SERIALNO and SPORDER) are left out",
                "there are no columns DIS, DEAR, DEYE, DREM; SCHL uses older codes",
            ),
        ),
    )
}


def load_acs(name: str, *, preprocessing: Preprocessing, path: GivenPath) -> Dataset:
    """Load ACSEmployment, or the stand-in called ``name``, from a file."""
    source = ACS_SOURCES[name]
    location = find(source.file, path)
    if location is None:
        raise not_found(source.file, path)
    table = read(source.file, location)
    if source.drop_repeated_persons:
        table = table.drop_duplicates(["SERIALNO", "SPORDER"])
    if not table["SEX"].isin(list(_SEX)).all():
        raise InputError(f"{location} is not data set {name!r}: SEX must be 1 or 2 in every row")
    codes = table[list(source.features)].fillna(0).astype(np.int64)
    y = (table["ESR"] == 1).astype(np.int64)
    if preprocessing == "paper":
        X = one_hot(codes)
        A = scaled(table[["AGEP"]]).assign(SEX=(table["SEX"] == 1).astype(np.int64))
    else:
        X = codes.astype("category").assign(SCHL=codes["SCHL"])
        A = pd.DataFrame(
            {
                "AGEP": table["AGEP"].astype(np.int64),
                "SEX": as_categories(table["SEX"], _SEX),
                "RAC1P": as_categories(table["RAC1P"] + (1 - source.least_race_code), _RACE),
            }
        )
    notes = _PAPER_NOTES if preprocessing == "paper" else _DEFAULT_NOTES
    return assemble(X, y, A, about=source.about, notes=source.notes + notes, origin=str(location))
