"""Public data sets with their traps named, and a synthetic family with known unfairness."""

from equipoise.datasets.dataset import Dataset as Dataset
from equipoise.datasets.dataset import DatasetDescription as DatasetDescription
from equipoise.datasets.public import UNBUNDLED as UNBUNDLED
from equipoise.datasets.public import dataset_names as dataset_names
from equipoise.datasets.public import describe_dataset as describe_dataset
from equipoise.datasets.public import load_dataset as load_dataset
from equipoise.datasets.synthetic import SyntheticDataset as SyntheticDataset
from equipoise.datasets.synthetic import SyntheticTruth as SyntheticTruth
from equipoise.datasets.synthetic import make_synthetic as make_synthetic
