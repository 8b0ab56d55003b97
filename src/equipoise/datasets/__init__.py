"""Public data sets with their traps named, and a synthetic family with known unfairness."""

from equipoise.datasets.catalogue import UNBUNDLED, dataset_names, load_dataset
from equipoise.datasets.dataset import Dataset, DatasetDescription
from equipoise.datasets.synthetic import SyntheticDataset, SyntheticTruth, make_synthetic

__all__ = [
    "UNBUNDLED",
    "Dataset",
    "DatasetDescription",
    "SyntheticDataset",
    "SyntheticTruth",
    "dataset_names",
    "load_dataset",
    "make_synthetic",
]
