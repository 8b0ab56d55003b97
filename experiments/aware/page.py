"""Write the tables of docs/with-the-attribute.md from the records of the comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from benchmarks.page import filled, markdown
from experiments import RESULTS, ROOT
from experiments.adjusting.continuous import LIMITS, TRIALS
from experiments.aware.run import ATTRIBUTES, areas, strict_area

PAGE = ROOT / "docs" / "with-the-attribute.md"
CONTINUOUS = RESULTS / "adjusting" / "continuous.csv"
RECORDS, SETTINGS = RESULTS / "aware" / "records.csv", RESULTS / "aware" / "settings.json"
OURS = ("network", "network with A", "adjusted LightGBM")
PEERS = (
    "LightGBM, optimal transport",
    "optimal transport, out of fold",
    "error-parity",
    "ThresholdOptimizer",
    "ExponentiatedGradient",
)
#: Strengths that a table shows.
_SHOWN = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.985)
NAMES = {"acs_employment_standin_publiccoverage": "public coverage"}


def area_table(records: pd.DataFrame) -> str:
    """Strict areas, over all splits together; of a method that ran on fewer, with their number."""
    rows = []
    for data, attribute in ATTRIBUTES.items():
        found = records[records["data"] == data]
        least = 0.0 if data == "crime" else 0.5
        splits = found["split"].nunique()
        values = []
        for method in (*OURS, *PEERS):
            of_method = found[found["method"] == method]
            count = of_method["split"].nunique()
            area = f"{strict_area(of_method, least):.3f}" if count else "cannot run"
            values.append(area if count in (0, splits) else f"{area} ({count} splits)")
        rows.append([f"{NAMES.get(data, data)} by {attribute}", str(splits), *values])
    return markdown(["data", "splits", *OURS, *PEERS], rows)


def difference_table(records: pd.DataFrame) -> str:
    """Paired differences of areas of single splits, with 95 % intervals by Student's t."""
    wide = areas(records).pivot_table(index=["data", "split"], columns="method", values="area")
    rows = []
    for data in ATTRIBUTES:
        of_data = wide.loc[data] if data in wide.index.get_level_values("data") else wide[:0]
        for method in OURS[1:]:
            values = []
            for peer in (OURS[0], *PEERS):
                differences = (of_data[method] - of_data[peer]).dropna().to_numpy()
                values.append(interval(differences, len(of_data)))
            rows.append([NAMES.get(data, data), method, *values])
    return markdown(["data", "minus", OURS[0], *PEERS], rows)


def continuous_table(records: pd.DataFrame) -> str:
    """AUC and gap on test rows by continuous attributes, means over splits."""
    whats = ["score", "ranks among the nearest", *(f"adjusted, limit {limit}" for limit in LIMITS)]
    rows = []
    for name in TRIALS:
        found = records[records["trial"] == name]
        cells = []
        for what in whats:
            of_what = found[found["what"] == what]
            useful, gap = of_what["test utility"].mean(), of_what["test gap"].mean()
            none = int(of_what["test gap"].isna().sum())
            note = f" (no model in {none} of {len(of_what)} splits)" if none else ""
            cells.append(f"{useful:.3f} at {gap:.2f}{note}")
        rows.append([name, str(found["split"].nunique()), *cells])
    return markdown(["data", "splits", *whats], rows)


def strength_table(records: pd.DataFrame) -> str:
    """Gap on validation rows after the last iteration, by strength, means over splits."""
    found = records[records["what"].str.startswith("strength ")]
    strength = found["what"].str.removeprefix("strength ").astype(float)
    shown = [value for value in sorted(strength.unique()) if value in _SHOWN]
    gaps = found.groupby(["trial", strength])["validation gap"].mean()
    rows = [[name, *(f"{gaps[name, value]:.2f}" for value in shown)] for name in TRIALS]
    return markdown(["data", *(f"{value:g}" for value in shown)], rows)


def interval(differences: NDArray[np.float64], splits: int) -> str:
    """Mean and 95 % interval of paired differences, in words for a table."""
    count = len(differences)
    if not count:
        return "cannot run"
    mean = differences.mean()
    fewer = "" if count == splits else f"; {count} splits"
    if count == 1:
        return f"{mean:+.3f} (one split)"
    error = differences.std(ddof=1) / np.sqrt(count)
    reach = stats.t.ppf(0.975, count - 1) * error
    return f"{mean:+.3f} ({mean - reach:+.3f} to {mean + reach:+.3f}{fewer})"


def described(versions: Mapping[str, str]) -> str:
    """Name versions in words."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def blocks() -> dict[str, str]:
    """Every block of the page by the name of its mark."""
    records = pd.read_csv(RECORDS)
    settings = json.loads(SETTINGS.read_text())
    options = ", ".join(f"{settings[name]} {name}" for name in ("strengths", "seeds", "iterations"))
    machines = [
        f"{device} ({' / '.join(methods)}; {described(settings['versions'][device])})"
        for device, methods in records.groupby("device")["method"].unique().items()
    ]
    made = f"Frontiers of {options}. {'; '.join(machines)}"
    by_continuous = pd.read_csv(CONTINUOUS)
    return {
        "continuous": continuous_table(by_continuous),
        "strengths": strength_table(by_continuous),
        "areas": f"{area_table(records)}\n\n{made}.",
        "differences": difference_table(records),
    }


def main() -> None:
    """Write the page."""
    text = filled(PAGE.read_text(encoding="utf-8"), blocks())
    PAGE.write_text(text, encoding="utf-8")
