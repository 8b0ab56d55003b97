"""A fixed quarter of a minute of cases, and that the oracle sees what it should."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.errors import InputError

from .cases import run_case
from .draw import Draw
from .entries import ENTRIES
from .oracle import FAULTS, Call, Refused, agree, judge


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_case_is_answered_lawfully_or_refused_by_name(entry):
    # No time limit of ours: a test must not depend on how busy the machine is.
    results = [run_case(seed, entry=entry, limit=None) for seed in range(ENTRIES[entry].tested)]
    faults = [f"seed {r.seed}: {r.detail}" for r in results if r.kind in FAULTS]
    assert not faults, f"repeat by python -m tests.fuzz --entry '{entry}' --seed N\n{faults[0]}"
    kinds = {result.kind for result in results}
    assert kinds == {"answered", "refused"}


def test_the_long_runs_that_are_kept_covered_every_entry_and_found_no_fault():
    """Written by ``python -m tests.fuzz --out``; a fault of the fuzzer itself says what it was."""
    kept = sorted((Path(__file__).parent / "results").glob("*.json"))
    runs = [json.loads(path.read_text("utf-8")) for path in kept]
    for run in runs:
        repeated = {case["seed"] for case in run["repeated"] if case["outcome"] == "answered"}
        assert {fault["seed"] for fault in run["faults"]} == repeated
        assert sum(run["outcomes"].values()) == run["cases"]
        faults = sum(run["outcomes"].get(kind, 0) for kind in FAULTS)
        assert faults == len(run["faults"])
    assert sum(run["cases"] - len(run["faults"]) for run in runs) >= 100_000
    for entry in ENTRIES:
        assert sum(run["entries"][entry]["cases"] for run in runs) >= 2_000


def test_a_seed_is_a_case():
    first, second = run_case(7), run_case(7)
    assert (first.entry, first.kind, first.detail) == (second.entry, second.kind, second.detail)


def _names_it(weights):
    raise InputError("weights must be positive, got 0")


def _names_nothing(weights):
    raise InputError("something is wrong")


def _breaks(weights):
    return weights["none such"]


def _warns(weights):
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)


def _draws(weights):
    torch.rand(1)


def _changes(weights):
    weights[0] = 5.0


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (_names_it, "refused"),
        (_names_nothing, "foreign"),
        (_breaks, "foreign"),
        (_warns, "foreign"),
        (_draws, "nonsense"),
        (_changes, "nonsense"),
        (len, "answered"),
    ],
)
def test_the_oracle_tells_what_came_of_a_call(function, kind):
    def case(draw, call):
        call(function, np.ones(3))

    assert judge(0, "", case, Draw(0), None).kind == kind


def test_what_was_answered_once_may_not_be_refused_when_given_again():
    call = Call(Draw(0))
    with pytest.raises(Refused):
        call(_names_it, 1)

    def case(draw, call):
        call.settle()
        call(_names_it, 1)

    assert judge(0, "", case, Draw(0), None).kind == "nonsense"


def test_numbers_agree_up_to_rounding_at_their_own_scale():
    agree([1e-200, 2e-200], [1e-200, 2e-200 * (1 + 1e-12)], "")
    result = judge(0, "", lambda draw, call: agree([1e-200], [2e-200], ""), Draw(0), None)
    assert result.kind == "nonsense"
