"""Public data sets with their traps named, and a synthetic family with known unfairness."""

from equipoise.datasets.catalogue import UNBUNDLED as UNBUNDLED
from equipoise.datasets.catalogue import dataset_names as dataset_names
from equipoise.datasets.catalogue import load_dataset as load_dataset
from equipoise.datasets.dataset import Dataset as Dataset
from equipoise.datasets.dataset import DatasetDescription as DatasetDescription
from equipoise.datasets.synthetic import SyntheticDataset as SyntheticDataset
from equipoise.datasets.synthetic import SyntheticTruth as SyntheticTruth
from equipoise.datasets.synthetic import make_synthetic as make_synthetic
