"""Where no optional package is installed, all but what needs one works, and says what it needs.

One process tells all of it: starting one costs more than what the tests ask it.
"""

import json
import subprocess
import sys

import pytest

from equipoise import FairBoostingClassifier
from equipoise.datasets import make_synthetic

OPTIONAL = (
    "lightgbm",
    "xgboost",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "polars",
    "fairlearn",
    "dcor",
    "maxcorr",
    "ray",
)
#: What a user does there; the last line of what it prints is its answer.
PROGRAM = f"""
import json, sys, warnings
warnings.simplefilter("ignore")
import equipoise, equipoise.cli, equipoise.inference, equipoise.metrics
answer = {{"loaded": [name for name in {OPTIONAL} if name in sys.modules]}}
for name in {OPTIONAL}:
    sys.modules[name] = None  # makes any later import of it fail

def refused(attempt):
    try:
        attempt()
    except ValueError as error:
        return type(error).__name__, str(error)

data = equipoise.load_dataset("synthetic")
model = equipoise.FairClassifier(strength=0.5, iterations=2, random_state=0)
model.fit(data.X, data.y, sensitive_features=data.A)
answer["predicted"] = model.predict(data.X).shape
answer["compiler"] = "torch._dynamo" in sys.modules
few = data.X[:40], data.y[:40]
trees, regressor = equipoise.FairBoostingClassifier, equipoise.FairBoostingRegressor
answer["trees"] = [
    refused(lambda: trees(strength=0).fit(*few)),
    refused(lambda: regressor(strength=0, lightgbm={{"num_leaves": 5}}).fit(*few)),
    refused(lambda: equipoise.load(sys.argv[1])),
]
found = equipoise.audit(range(40), None, {{"sex": ["F", "M"] * 20}}, draws=5, permutations=9)
answer["figure"] = refused(found.plot)
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    path = tmp_path_factory.mktemp("extras") / "trees.equipoise"
    rows = make_synthetic(60, random_state=0)
    FairBoostingClassifier(strength=0, rounds=2).fit(rows.X, rows.y).save(path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_core_neither_loads_nor_needs_extras(answer):
    assert answer["loaded"] == []
    assert answer["predicted"] == [10_000]


def test_training_does_not_load_torchs_compiler(answer):
    assert not answer["compiler"]


def test_without_lightgbm_one_is_told_how_to_get_it(answer):
    get = 'needs lightgbm, which is not installed; pip install "equipoise[boosting]"'
    assert answer["trees"] == [
        ["InputError", f"{what} {get}"]
        for what in ("FairBoostingClassifier", "FairBoostingRegressor", "a model of boosted trees")
    ]


def test_without_matplotlib_only_the_figure_is_out_of_reach(answer):
    get = 'plot needs matplotlib, which is not installed; pip install "equipoise[report]"'
    assert answer["figure"] == ["InputError", get]
