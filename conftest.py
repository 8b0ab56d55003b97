"""What every test of tests/, experiments/ and src/ runs with."""

import importlib
import os
from pathlib import Path

import pytest
import torch

#: One for each of the test processes that run side by side; `make portable-threads` asks for two.
THREADS = int(os.environ.get("EQUIPOISE_TEST_THREADS", "1"))
# numba, which dcor imports, sets torch to this many threads, or to all cores, whatever
# OMP_NUM_THREADS says. Small networks are then ten times slower.
os.environ["NUMBA_NUM_THREADS"] = str(THREADS)
# Processes that tests start import tests/ and experiments/, too, which are not installed.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Let every test compute with as many threads, whatever the ones before it imported or set."""
    torch.set_num_threads(THREADS)


@pytest.fixture(scope="session")
def dcor():
    """The package: its import takes seconds, so only processes whose tests need it import it.

    Half of them went into functions compiled by numba, which run as well uncompiled.
    """
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    return importlib.import_module("dcor")
