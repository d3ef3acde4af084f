"""Fixtures for all tests. Nothing here is slow, and nothing is loaded that a test does not load itself."""

from __future__ import annotations

import os
import random
import sys

# Waiting OpenMP threads spin: on a busy machine a second thread makes small nets slower, up to twentyfold. This must
# come before the libraries that read it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest

# These limit files and memory, and kill, by calls that Windows lacks.
collect_ignore = ["campaign/test_store.py", "posterior/test_nets.py"] if sys.platform == "win32" else []

# The same examples in every run; `--hypothesis-profile=explore` looks for new ones.
hypothesis.settings.register_profile("default", deadline=None, derandomize=True, database=None, max_examples=60)
hypothesis.settings.register_profile("explore", deadline=None, derandomize=False, database=None, max_examples=1000)
hypothesis.settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)  # before the marks are looked at
def pytest_collection_modifyitems(items):
    """Mark what is left out unless asked for: tests in Chromium, and counts against a law but for their first case."""
    counted = set()
    for item in items:
        function = getattr(item, "function", None)
        if "assert_counts_fit" in getattr(getattr(function, "__code__", None), "co_names", ()):
            if function in counted:
                item.add_marker("law")
            counted.add(function)
        if "chromium" in getattr(item, "fixturenames", ()):  # also where another fixture asks for it
            item.add_marker("browser")


@pytest.fixture
def rng():
    """A generator with a fixed seed, new for every test."""
    return np.random.default_rng(20230915)


@pytest.fixture
def global_state_untouched():
    """Fails the test that consumes global random state or leaves another global setting behind."""
    import torch

    def snapshot():
        name, keys, *rest = np.random.get_state()  # noqa: NPY002 - read, never written
        return {
            "numpy.random": (name, keys.tobytes(), *rest),
            "random": random.getstate(),
            "torch generator": torch.get_rng_state().numpy().tobytes(),
            "torch threads": torch.get_num_threads(),
            "torch default dtype": torch.get_default_dtype(),
            "torch grad mode": torch.is_grad_enabled(),
            "torch deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
            "numpy error state": np.geterr(),
        }

    before = snapshot()
    yield
    after = snapshot()
    changed = [name for name in before if before[name] != after[name]]
    assert not changed, f"global state was changed: {changed}"


@pytest.fixture(scope="module")
def estimators():
    """A small fitted model of each of four kinds, by kind."""
    from small_models import make_estimator

    return {kind: make_estimator(kind) for kind in ("forest", "pipeline", "net", "skorch")}


@pytest.fixture(scope="module")
def forest():
    from small_models import make_estimator

    return make_estimator("forest")
