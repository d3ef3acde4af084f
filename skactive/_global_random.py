"""The global random generators, lent out: for estimators and query strategies that know no others.

skorch nets and many strategies of users (``np.random.choice``) draw from the global generators of torch and numpy. In
an experiment they must draw the same numbers in every process and after every interruption, so those generators are
set aside, seeded for one call, and put back: who uses them elsewhere notices nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Start the global generators of Python, numpy and torch from ``seed``; they are as before afterwards."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices):
        try:
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.default_generator.manual_seed(seed)
            if torch.cuda.is_available():
                torch.cuda.manual_seed_all(seed)  # waits for CUDA to be in use
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
