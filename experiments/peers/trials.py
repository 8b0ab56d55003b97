"""The trial of settings that came before fair boosting was built: what each reached.

``trials.csv`` has a row for each run and measure, with areas under the front of the validation rows
on validation and on test rows (none where a run was lost); ``trials.json`` says what was tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

#: Splits that the trial finished.
WHOLE_SPLITS = (0, 1)
#: Measures of the whole distribution of scores: what the penalty is about.
MEASURES = ("KS-GSP", "KS-GEO")
#: Where the curvature of the penalty is taken from the critic, and the constant that they changed.
FROM_THE_CRITIC, CONSTANT = ("gn.5", "gn2", "fisher"), "base"
_RUN = ["dataset", "attributes", "notion", "split"]


@dataclass(frozen=True, eq=False)
class Trials:
    """Table and words of the trial."""

    table: pd.DataFrame
    about: Mapping[str, Any]

    @property
    def words(self) -> Mapping[str, str]:
        """What each configuration changed."""
        words: Mapping[str, str] = self.about["configurations"]
        return words

    @property
    def lost(self) -> pd.DataFrame:
        """Runs of the whole splits without areas: config and what identifies a run."""
        whole = self.table[self.table["split"].isin(WHOLE_SPLITS)]
        return whole[whole["test_area"].isna()][["config", *_RUN]].drop_duplicates()

    def areas(self, notion: str | None = None) -> pd.DataFrame:
        """Test areas, a row for each run and measure that all configurations have.

        notion: that of the rows, where some configurations were tried for one of them only;
        otherwise those that were tried for both are columns.
        """
        chosen = self.table[
            self.table["split"].isin(WHOLE_SPLITS)
            & self.table["measure"].str.split(" ").str[0].isin(MEASURES)
        ]
        if notion is None:
            notions = chosen.groupby("config")["notion"].nunique()
            chosen = chosen[chosen["config"].isin(notions.index[notions == 2])]
        else:
            chosen = chosen[chosen["notion"] == notion]
        wide = chosen.pivot(index=[*_RUN, "measure"], columns="config", values="test_area")
        return wide.dropna()


def read_trials(folder: Path) -> Trials:
    """Read table and words."""
    about = json.loads((folder / "trials.json").read_text("utf-8"))
    return Trials(pd.read_csv(folder / "trials.csv"), about)
