"""ACSEmployment (folktables) and three openly different stand-ins for it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from equipoise.datasets.dataset import DatasetDescription, Preprocessing
from equipoise.datasets.files import Frames, Source
from equipoise.datasets.public import SEX, as_categories, one_hot, scaled

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


def _frames(
    table: pd.DataFrame,
    preprocessing: Preprocessing,
    *,
    features: tuple[str, ...] = _CODED,
    least_race_code: int = 1,
    person: tuple[str, ...] = (),
) -> Frames:
    """What a table says; ``person``: columns that tell a person who is in it twice."""
    if person:
        table = table.drop_duplicates(list(person))
    codes = table[list(features)].fillna(0).astype(np.int64)
    if preprocessing == "paper":
        X = one_hot(codes)
        A = scaled(table[["AGEP"]]).assign(SEX=(table["SEX"] == 1).astype(np.int64))
    else:
        X = codes.astype("category").assign(SCHL=codes["SCHL"])
        A = table[["AGEP"]].astype(np.int64)
        A["SEX"] = as_categories(table["SEX"], SEX)
        A["RAC1P"] = as_categories(table["RAC1P"] + (1 - least_race_code), _RACE)
    return X, (table["ESR"] == 1).astype(np.int64), A


_EMPLOYMENT = Source(
    about=_ABOUT,
    frames=_frames,
    notes=_DEFAULT_NOTES,
    paper_notes=_PAPER_NOTES,
    names=("acs_employment_ca_2018.parquet", "acs_employment_ca_2018.csv", "csv_pca.zip"),
    columns=("ESR", *_SENSITIVE, *_CODED),
    complete=_SENSITIVE,
    allowed={"SEX": tuple(SEX)},
    how_to_get="The official source is the California persons file of the Census: "
    f"{_CENSUS_ARCHIVE} (used as it is; no checksum of it is known, so it is not "
    "downloaded for you). Stand-ins under names of their own are "
    f"{_STAND_IN}publiccoverage, {_STAND_IN}mobility and {_STAND_IN}oregon.",
)


def _stand_in(
    name: str,
    *,
    title: str,
    source: str,
    absent: tuple[str, ...],
    notes: tuple[str, ...],
    person: tuple[str, ...] = (),
    least_race_code: int = 1,
    **file: Any,
) -> Source:
    features = tuple(column for column in _CODED if column not in absent)
    notes = (
        "a stand-in: numbers from it are not comparable with ACSEmployment California 2018",
        *notes,
    )
    return replace(
        _EMPLOYMENT,
        about=replace(_ABOUT, name=_STAND_IN + name, title=title, source=source),
        frames=partial(_frames, features=features, least_race_code=least_race_code, person=person),
        notes=notes + _DEFAULT_NOTES,
        paper_notes=notes + _PAPER_NOTES,
        columns=("ESR", *_SENSITIVE, *features, *person),
        how_to_get=f"Source: {source}.",
        **file,
    )


#: ACSEmployment and its stand-ins.
ACS_SOURCES = (
    _EMPLOYMENT,
    _stand_in(
        "publiccoverage",
        title="stand-in for ACSEmployment: US 2018, persons of the ACSPublicCoverage task",
        source="validation and test fifths of ACSPublicCoverage as stored in the repository "
        "of aequitas (https://github.com/dssg/aequitas, folder datasets/FolkTables)",
        names=("acs2018_us_publiccoverage_valtest.parquet",),
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
        names=("acs2018_us_mobility_valtest.parquet",),
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
        names=("acs_2006_2010_oregon_puma600.parquet",),
        rows=11_734,
        sha256="7415341f2b874bffd502fd6c5f59091bd4bda4d05caba8d90b304ecd3dd00952",
        absent=("DIS", "DEAR", "DEYE", "DREM"),
        person=("SERIALNO", "SPORDER"),
        notes=(
            "1 683 repeated persons (same SERIALNO and SPORDER) are left out",
            "there are no columns DIS, DEAR, DEYE, DREM; SCHL uses older codes",
        ),
    ),
)
