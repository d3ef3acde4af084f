"""One acquisition by each method from the same draws: 10,000 rows, 10 classes, 20 draws, 4,096 units for BADGE.

These are the sizes of table 1 in Kirsch et al. (2023), which has its seconds for other code on other hardware.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
from arrays import draws
from common import bench

from skactive import samplers, scores
from skactive.acsfw import acs_fw
from skactive.badge import badge
from skactive.batchbald import batchbald

N_POINTS, N_UNITS = 10_000, 4_096


def stochastic(p, sampler: str, k: int):
    return samplers.SAMPLERS[sampler](scores.bald(p), k, np.random.default_rng(0))


def quiet(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there is nothing left to be known
        return function(*args)


def acquisitions(k: int) -> dict:
    p = draws(N_POINTS)
    units = np.maximum(np.random.default_rng(0).standard_normal((N_POINTS, N_UNITS), dtype=np.float32), 0)
    return {
        "PowerBALD": functools.partial(stochastic, p, "power", k),
        "top-k BALD": functools.partial(stochastic, p, "topk", k),
        "ACS-FW": lambda: quiet(acs_fw, p, k, np.random.default_rng(0)),
        "BADGE": lambda: badge(p.mean(0), units, k, np.random.default_rng(0)),
        "BatchBALD": lambda: quiet(batchbald, p, k, np.random.default_rng(0)),
    }


for batch_size in (10, 100, 500):
    bench(f"a batch of {batch_size} of 10,000 rows, 20 draws, 10 classes")(functools.partial(acquisitions, batch_size))
