"""The list of public entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .assessing import (
    audit_entry,
    bootstrap_entry,
    dependence_entry,
    groups_entry,
    measure_entry,
    penalty_entry,
    table_entry,
    utility_entry,
)
from .fitting import (
    Run,
    command_entry,
    dataset_entry,
    estimator_entry,
    frontier_entry,
    full_batch_entry,
    plain_trees_entry,
)


class Entry(NamedTuple):
    """An entry, its share of the cases of a long run, and how many cases ``make test`` runs."""

    run: Run
    share: float
    tested: int


ENTRIES: Mapping[str, Entry] = {
    "measure": Entry(measure_entry, 22, 300),
    "utility functions": Entry(utility_entry, 9, 300),
    "dependence and inference": Entry(dependence_entry, 9, 100),
    "intersect": Entry(groups_entry, 6, 150),
    "bootstrap": Entry(bootstrap_entry, 4, 100),
    "SensitiveTable": Entry(table_entry, 12, 250),
    "audit": Entry(audit_entry, 5, 24),
    "SBPPenalty": Entry(penalty_entry, 8, 200),
    "FairClassifier": Entry(estimator_entry("FairClassifier"), 5, 45),
    "FairRegressor": Entry(estimator_entry("FairRegressor"), 5, 45),
    "FairEncoder": Entry(estimator_entry("FairEncoder"), 3, 35),
    "FairBoostingClassifier": Entry(estimator_entry("FairBoostingClassifier"), 4, 35),
    "FairBoostingRegressor": Entry(estimator_entry("FairBoostingRegressor"), 4, 35),
    "fits on all rows at once": Entry(full_batch_entry, 2.5, 30),
    "plain trees": Entry(plain_trees_entry, 2.5, 40),
    "FairFrontier": Entry(frontier_entry, 2.5, 25),
    "load_dataset, make_synthetic": Entry(dataset_entry, 2.5, 100),
    "command line": Entry(command_entry, 2.6, 12),
}
