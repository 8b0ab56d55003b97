"""Boosted models that are grown in lanes, one thread each, are those that one thread grows."""

import threading

import numpy as np
import pytest
import torch

from equipoise import FairBoostingClassifier, FairBoostingRegressor, FairFrontier
from equipoise.datasets import make_synthetic
from equipoise.predictors.boosting.lightgbm import LightGBM

DATA = make_synthetic(400, random_state=3)
# Few rounds leave critics that have hardly learned.
pytestmark = pytest.mark.filterwarnings("ignore::equipoise.errors.ConvergenceWarning")
Y = {FairBoostingClassifier: DATA.y, FairBoostingRegressor: DATA.X.iloc[:, 0] + 2 * DATA.y}


def fitted(n_jobs, kind=FairBoostingClassifier, rounds=5, **options):
    """A default average of four models, each with other rows set aside.

    There are few rounds, since a tree can split elsewhere for a difference by rounding.
    """
    options = {"rounds": rounds, "learning_rate": 0.05, "warmup": 2, **options}
    model = kind(random_state=2, n_jobs=n_jobs, **options)
    return model.fit(DATA.X, Y[kind], sensitive_features=DATA.A)


@pytest.mark.parametrize("kind", Y)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"notion": "separation"},
        {"notion": "separation", "density_ratio": "none", "early_stopping": 2},
        {"strength": 0.0},
        {"members": 3, "critic_normalization": "spectral"},
    ],
    ids=str,
)
def test_threads_grow_the_models_of_one(library, kind, options):
    one, several = (fitted(jobs, kind, library=library, **options) for jobs in (1, 3))
    name = "decision_function" if kind is FairBoostingClassifier else "predict"
    found, expected = (getattr(each, name)(DATA.X) for each in (several, one))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(several.history_.penalty, one.history_.penalty, atol=1e-6)
    assert torch.equal(several.predictor_.network.rounds, one.predictor_.network.rounds)


def test_every_lane_has_its_thread(monkeypatch):
    seen = {}
    grow = LightGBM.model

    def watched(library, plan):
        model = grow(library, plan)
        of_model, number = model.grow, len(seen)
        seen[number] = set()

        def noted(*gradients):
            seen[number].add(
                (threading.current_thread() is threading.main_thread(), torch.get_num_threads())
            )
            of_model(*gradients)

        model.grow = noted
        return model

    monkeypatch.setattr(LightGBM, "model", watched)
    fitted(2)
    assert [seen[number] for number in range(4)] == [{(True, 1)}] * 2 + [{(False, 1)}] * 2


def test_libraries_print_nothing_in_any_thread(library, capfd):
    fitted(4, library=library, members=5)
    assert capfd.readouterr() == ("", "")


class Stop(Exception):
    """Ends a fit as a crash would."""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_resumes_with_another_number_of_threads(library, threads, tmp_path):
    def frontier(n_jobs, **fit):
        options = {"rounds": 12, "learning_rate": 0.05, "library": library}
        estimator = FairBoostingClassifier(**options, notion="separation")
        found = FairFrontier(
            estimator,
            strengths=(0.0, 0.5, 0.9),
            seeds=1,
            evaluate_every=3,
            metrics=["KS-GEO"],
            random_state=1,
            n_jobs=n_jobs,
        )
        return found.fit(DATA.X, DATA.y, sensitive_features=DATA.A, **fit).table()

    def crash(progress):
        if not progress.phase and progress.iteration == 6:
            raise Stop

    whole = frontier(2).select_dtypes("number")
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 0}
    with pytest.raises(Stop):
        frontier(2, callback=crash, **kept)
    resumed = frontier(threads, resume=True, **kept).select_dtypes("number")
    np.testing.assert_allclose(resumed, whole, rtol=1e-6, atol=1e-6)
