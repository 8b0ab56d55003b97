"""The Parquet files shipped inside the package."""

from __future__ import annotations

from importlib.resources import as_file, files

import pandas as pd


def read_bundled(name: str) -> pd.DataFrame:
    """Return the bundled table called ``name`` (without its ending)."""
    resource = files("equipoise.datasets") / "bundled" / f"{name}.parquet"
    with as_file(resource) as location:
        return pd.read_parquet(location)
