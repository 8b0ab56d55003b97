"""A `ray.data.Dataset` is audited and trained on as files that hold the same rows."""

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from people_in_files import people

from equipoise import FairClassifier, audit_files, fit_files
from equipoise.distributed import sources
from equipoise.errors import InputError
from tests.error_parts import says

data = pytest.importorskip("ray.data", reason="Ray is not installed")
col = pytest.importorskip("ray.data.expressions").col
pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data"),  # of its own settings
]


@pytest.fixture
def transformed(cluster, tmp_path, monkeypatch):
    """A dataset with two transformations, and one file with the rows that it gives."""

    done, patience = tmp_path / "done", time.monotonic() + 20

    def graded(rows):  # the first ones wait until others are done
        if rows["person"].iloc[0] > 0:
            done.touch()
        while not done.exists() and time.monotonic() < patience:
            time.sleep(0.1)
        return rows.assign(score=(rows["score"] / 2).round(3))

    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    rows = [people(400, seed).assign(person=400 * seed + np.arange(400)) for seed in range(4)]
    known = pd.concat([graded(each) for each in reversed(rows)][::-1], ignore_index=True)
    known = known.query("age < 60")
    done.unlink()
    known.to_parquet(tmp_path / "known.parquet", index=False)
    at_once = {"batch_size": 400, "num_cpus": 0.25}
    dataset = data.from_pandas(rows).map_batches(graded, batch_format="pandas", **at_once)
    return dataset.filter(expr=col("age") < 60), tmp_path / "known.parquet"


def test_a_dataset_is_written_in_its_order_and_removed_in_the_end(transformed, monkeypatch):
    dataset, known = transformed
    monkeypatch.setattr(sources, "ROWS", 300)
    monkeypatch.setattr(sources, "GROUP", 100)
    with sources.files_of(dataset, ["score"]) as files:
        rows = [pd.read_parquet(file.path) for file in files]
        assert [len(each) for each in rows[:-1]] == [300] * (len(rows) - 1) and len(rows) > 3
        pd.testing.assert_frame_equal(pd.concat(rows, ignore_index=True), pd.read_parquet(known))
        pieces = sources.pieces_of(files)[0].pieces
        assert [piece.rows for piece in pieces] == [100] * 3
        assert len(list(Path(known.parent / "temporary").iterdir())) == 1
    assert not list(Path(known.parent / "temporary").iterdir())
    assert dataset.context.execution_options.preserve_order is False


def test_an_audit_and_a_fit_are_those_of_files_with_the_same_rows(transformed):
    dataset, known = transformed
    asked = {"score": "score", "sensitive": "sex", "draws": 20, "permutations": 99}
    assert audit_files(dataset, **asked).to_json() == audit_files(known, **asked).to_json()
    rows = pd.read_parquet(known)
    model = FairClassifier(strength=0.5, iterations=20, random_state=0, device="cpu")
    fit_files(model, dataset, target="hired", sensitive="sex", features=["grade", "score"])
    scores = model.predict_proba(rows[["grade", "score"]])
    # One worker trains as fit does on the same rows in the same order.
    model.fit(rows[["grade", "score"]], rows["hired"], sensitive_features=rows[["sex"]])
    np.testing.assert_allclose(scores, model.predict_proba(rows[["grade", "score"]]), atol=1e-6)
    assert not list(Path(known.parent / "temporary").iterdir())


def test_what_a_dataset_lacks_is_refused(transformed):
    dataset, known = transformed
    for table, column, parts in (
        (dataset, "sx", ("'sx'", "none", "sex")),
        (dataset.filter(expr=col("age") < 0), "sex", ("at least one row", "filters")),
    ):
        with pytest.raises(InputError) as refused:
            audit_files(table, score="score", sensitive=column)
        says(refused.value, *parts)
    assert not list(Path(known.parent / "temporary").iterdir())
