"""Public data sets with their traps named, and a synthetic family with known unfairness."""

from __future__ import annotations

from equipoise.datasets.catalogue import dataset_names, load_dataset
from equipoise.datasets.description import Dataset, DatasetDescription
from equipoise.datasets.synthetic import SyntheticDataset, make_synthetic
from equipoise.datasets.synthetic_truth import SyntheticTruth

__all__ = [
    "Dataset",
    "DatasetDescription",
    "SyntheticDataset",
    "SyntheticTruth",
    "dataset_names",
    "load_dataset",
    "make_synthetic",
]
