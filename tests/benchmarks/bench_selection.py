"""Choosing a batch from scores, beside numpy's ways of drawing from the same law, and beside taking the largest.

Scores are like those of BALD: most are small, few are large, and in some cases most are exactly 0.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from common import bench

from skactive import samplers
from skactive.samplers._law import draw_batch

RNG = np.random.default_rng(0)


def scores(n_points: int, share_positive: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(1)
    positive = rng.gamma(1.0, 0.2, n_points)
    return positive if share_positive == 1 else positive * (rng.random(n_points) < share_positive)


def noise_for_all(log_weights: np.ndarray, k: int) -> np.ndarray:
    keys = -log_weights - RNG.gumbel(size=len(log_weights))
    chosen = np.argpartition(keys, k)[:k]
    return chosen[np.argsort(keys[chosen])]


def power_by_noise(s: np.ndarray, k: int) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return noise_for_all(np.log(s), k)


def power_by_choice(s: np.ndarray, k: int) -> np.ndarray:
    return RNG.choice(len(s), k, replace=False, p=s / s.sum())


def softrank_by_sorting(s: np.ndarray, k: int) -> np.ndarray:
    ranks = np.argsort(np.argsort(-s)) + 1
    return noise_for_all(-np.log(ranks), k)


@bench(
    "power, 100 of 10,000,000",
    targets={"Gumbel noise, argpartition": 10.0, "Generator.choice without replacement": 4.0},
)
def power_of_ten_million():
    s = scores(10_000_000)
    return {
        "skactive": partial(samplers.power, s, 100, RNG),
        "Gumbel noise, argpartition": partial(power_by_noise, s, 100),
        "Generator.choice without replacement": partial(power_by_choice, s, 100),
    }


@bench(
    "power, 100 of 10,000,000, of which 1 % have a score above 0", targets={"Generator.choice without replacement": 1}
)
def power_of_few_positive():
    s = scores(10_000_000, 0.01)
    return {
        "skactive": partial(samplers.power, s, 100, RNG),
        "Gumbel noise, argpartition": partial(power_by_noise, s, 100),
        "Generator.choice without replacement": partial(power_by_choice, s, 100),
    }


@bench("softrank, 100 of 10,000,000", targets={"argsort of argsort, Gumbel noise": 5.0})
def softrank_of_ten_million():
    s = scores(10_000_000)
    return {
        "skactive": partial(samplers.softrank, s, 100, RNG),
        "argsort of argsort, Gumbel noise": partial(softrank_by_sorting, s, 100),
    }


def against_top_k(n_points: int, k: int) -> dict:
    s = scores(n_points)
    return {"skactive": partial(samplers.power, s, k, RNG), "topk of skactive": partial(samplers.topk, s, k, RNG)}


for n_points, k in [(10_000, 100), (100_000, 100), (1_000_000, 10), (1_000_000, 100), (1_000_000, 10_000)]:
    bench(f"power against topk, {k:,} of {n_points:,}", targets={"topk of skactive": 0.67})(
        partial(against_top_k, n_points, k)
    )


@bench("log-probabilities of a batch of 100 of 10,000,000 beside the batch alone")
def log_probabilities():
    s = scores(10_000_000)
    s.flags.writeable = False  # else a copy is kept until the law is asked for
    return {
        "skactive": lambda: draw_batch("power", s, 100, RNG),
        "with log-probabilities": lambda: draw_batch("power", s, 100, RNG)[1].log_proba(),
    }


for k in (10, 1000):

    @bench(f"topk, {k:,} of 10,000,000", targets={"torch.topk": 0.9})
    def top_k(k: int = k) -> dict:
        s = scores(10_000_000)
        plain = partial(torch.topk, torch.from_numpy(s), k)
        return {"skactive": partial(samplers.topk, s, k, RNG), "torch.topk": plain}
