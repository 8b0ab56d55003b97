from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from equipoise.datasets import dataset_names, load_dataset, make_synthetic
from equipoise.errors import InputError

PAGE = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
SIZES = [
    tuple(cell.strip() for cell in line.strip("| ").split("|"))
    for line in PAGE.splitlines()
    if re.match(r"\| \w+ \| (default|paper) \|", line)
]
BUNDLED = ("adult", "crime", "synthetic")


@pytest.mark.parametrize("row", SIZES, ids=" ".join)
def test_page_states_what_is_loaded(row, request):
    name, preprocessing, part, rows, features, mean, sensitive = row
    path = None if name in BUNDLED else request.getfixturevalue("stored_data")
    data = load_dataset(
        name, preprocessing=preprocessing, part=None if part == "-" else part, path=path
    )
    assert data.X.shape == (int(rows), int(features))
    assert f"{data.y.mean():.4f}" == mean
    assert ", ".join(data.A.columns) == sensitive
    about = data.description
    assert (about.rows, about.features) == data.X.shape
    assert about.sensitive == tuple(data.A.columns)
    assert about.name == name
    assert about.target == data.y.name
    assert not set(data.A.columns) & set(data.X.columns)
    for part_of_data in (data.X, data.y, data.A):
        assert part_of_data.index.equals(pd.RangeIndex(int(rows)))
    if about.task == "classification":
        assert set(data.y.unique()) == {0, 1}


def test_page_covers_every_data_set_and_preprocessing():
    loaded = {(name, preprocessing) for name, preprocessing, *_ in SIZES}
    names = set(dataset_names()) - {"acs_employment"}
    assert loaded == {(name, kind) for name in names for kind in ("default", "paper")} - {
        ("synthetic", "paper")
    }
    for name in dataset_names():
        assert f"\n## {name}\n" in PAGE or f"| `{name}` |" in PAGE


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_page_states_the_synthetic_truths(task):
    truth = make_synthetic(1, task=task, unfairness=0.8).truth
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {task} ("))
    stated = [float(number) for number in re.findall(r"\d\.\d+", line)]
    known = [
        truth.plain_utility,
        truth.fair_utility("independence"),
        truth.fair_utility("separation"),
        *(truth.ks_gsp(attribute) for attribute in ("group", "age")),
        *(truth.ks_geo(attribute) for attribute in ("group", "age")),
    ]
    assert stated == [round(value, 3) for value in known]


def test_description_prints_as_text():
    text = str(load_dataset("crime").description)
    assert text.splitlines()[:4] == [
        "crime: Communities and Crime (normalized), US 1990-1995",
        "task       regression: ViolentCrimesPerPop "
        "(violent crimes per head, normalized to [0, 1])",
        "size       1994 rows, 99 features",
        "sensitive  racepctblack",
    ]
    assert max(len(line) for line in text.splitlines()) <= 100


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"name": "adlut"}, ["name", "one of 'adult', 'credit'", "'adlut'", "'adult'?"]),
        ({"name": "zzz"}, ["name", "one of 'adult'", "'synthetic'", "'zzz'"]),
        ({"name": "adult", "preprocessing": "raw"}, ["preprocessing", "'default'", "'raw'"]),
        ({"name": "adult", "part": "validation"}, ["part", "'train', 'test'", "'validation'"]),
        ({"name": "crime", "part": "train"}, ["part", "'adult' only", "'crime'", "leave it out"]),
        ({"name": "law", "path": 3}, ["path must name a file or folder", "3"]),
        ({"name": "adult", "path": "here"}, ["path", "not bundled", "'here'", "leave it out"]),
        ({"name": "synthetic", "preprocessing": "paper"}, ["preprocessing", "'default'", "paper"]),
    ],
)
def test_bad_arguments_are_named(arguments, parts):
    with pytest.raises(InputError, match=".*".join(map(re.escape, parts))):
        load_dataset(**arguments)
