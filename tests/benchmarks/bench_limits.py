"""Batches that keep to limits beside the same draws without any: what limits add is a pass or a few over the rows.

Limits are stated as a user would, by a group of each row, which is numbered at every draw.
"""

from __future__ import annotations

import functools

import numpy as np
from common import bench

from skactive import Limits
from skactive.query import Pool
from skactive.samplers import SAMPLERS
from skactive.samplers._law import draw_batch

N, K = 1_000_000, 100


@functools.cache
def pool_of() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, groups and costs."""
    rng = np.random.default_rng(0)
    scores = rng.gamma(1.0, 0.2, N)
    scores.flags.writeable = False
    return scores, rng.integers(1000, size=N), rng.random(N)


def limited(sampler: str, pool: Pool, epsilon: float = 0.0) -> tuple:
    options = {"beta": 4.0, "epsilon": epsilon, "allowance": pool.allowance(K)}
    return draw_batch(sampler, pool_of()[0], K, np.random.default_rng(0), **options)


def plain(sampler: str) -> tuple:
    return draw_batch(sampler, pool_of()[0], K, np.random.default_rng(0), beta=4.0)


for name in ("power", "softmax", "softrank", "topk"):

    @bench(f"{name}, 100 of 1,000,000, one of each of 1,000 groups")
    def one_of_each_group(name: str = name) -> dict:
        scores, groups, _ = pool_of()
        rows = np.zeros((N, 1))
        pool = Pool.of(rows, limits=Limits(groups, max_per_group=1))
        log_weights = functools.partial(SAMPLERS[name].log_weights, scores, 4.0)
        return {
            "skactive": functools.partial(limited, name, pool),
            "without limits": functools.partial(plain, name),
            "log-weights of all rows": log_weights,
            "numbering the groups": lambda: Pool.of(rows, limits=Limits(groups, max_per_group=1)),
        }


@bench("power, 100 of 1,000,000, with limits of every kind")
def every_limit() -> dict:
    _, groups, costs = pool_of()
    limits = Limits(groups, 2, {0: 2, 5: 2}, costs, 40.0, must=[7])
    pool = Pool.of(np.zeros((N, 1)), limits=limits)
    law = limited("power", pool)[1]
    return {
        "skactive": functools.partial(limited, "power", pool),
        "with epsilon 0.1": functools.partial(limited, "power", pool, 0.1),
        "its log-probabilities": law.log_proba,
        "log-probabilities without limits": plain("power")[1].log_proba,
        "without limits": functools.partial(plain, "power"),
    }
