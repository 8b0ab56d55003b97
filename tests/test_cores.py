"""How many threads work, and what they return."""

import os

import numpy as np
import pytest
import torch

from equipoise import FairBoostingClassifier, FairClassifier, FairFrontier, audit
from equipoise.cores import allowed_cores, count_jobs, in_threads
from equipoise.datasets import make_synthetic
from equipoise.errors import InputError

DATA = make_synthetic(300, random_state=5)


def test_negative_numbers_leave_cores_out_as_in_scikit_learn():
    cores = allowed_cores()
    assert [count_jobs(number) for number in (-1, -cores, -cores - 9)] == [cores, 1, 1]
    assert count_jobs(3) == 3


def test_by_default_there_are_as_many_as_torch_has_but_no_more_than_are_allowed():
    torch.set_num_threads(1)
    assert count_jobs(None) == 1
    torch.set_num_threads(500)
    assert count_jobs(None) == allowed_cores()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs an affinity to set")
def test_cores_that_a_process_may_not_use_do_not_count():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert count_jobs(-1) == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(("text", "cores"), [("max 100000", 8), ("250000 100000", 2), ("5 10", 1)])
def test_a_container_has_the_cores_of_its_quota(text, cores, tmp_path, monkeypatch):
    (tmp_path / "cpu.max").write_text(text)
    monkeypatch.setattr("equipoise.cores._QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert allowed_cores() == cores


@pytest.mark.parametrize("wrong", [0, True, 1.5, "all"])
@pytest.mark.parametrize("kind", [FairClassifier, FairBoostingClassifier, FairFrontier])
def test_other_values_are_refused(wrong, kind):
    with pytest.raises(InputError) as error:
        kind(n_jobs=wrong).fit(DATA.X, DATA.y, sensitive_features=DATA.A)
    assert all(part in str(error.value) for part in ("n_jobs", "whole number", repr(wrong)))
    with pytest.raises(InputError, match="n_jobs"):
        audit(DATA.X.iloc[:, 0], DATA.y, DATA.A, n_jobs=wrong)


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_results_of_threads_come_in_order_and_each_has_one_thread_of_torch(jobs):
    torch.set_num_threads(3)
    found = list(in_threads(lambda x: (x * x, torch.get_num_threads()), range(20), jobs))
    assert found == [(x * x, 1) for x in range(20)]
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_thread_reaches_the_caller(jobs):
    def divide(x):
        return 1 // (3 - x)

    results = in_threads(divide, range(9), jobs)
    assert [next(results) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize("jobs", [1, 3])
def test_items_are_made_only_shortly_before_they_are_needed(jobs):
    made = []

    def items():
        for number in range(50):
            made.append(number)
            yield number

    results = in_threads(lambda x: x, items(), jobs)
    for _ in range(10):
        next(results)
    assert len(made) <= 10 + jobs


def test_an_audit_is_the_same_whatever_the_number_of_threads():
    score = DATA.X.iloc[:, 0] + np.asarray(DATA.y)
    options = {"draws": 50, "permutations": 99, "random_state": 1}
    one, three = (
        audit(score, DATA.y, DATA.A, n_jobs=jobs, **options).to_frame() for jobs in (1, 3)
    )
    assert one.equals(three)
