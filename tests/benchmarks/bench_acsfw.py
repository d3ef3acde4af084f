"""ACS-FW from draws to a batch, beside its projections alone, and steps that keep the weights of all rows.

The plain steps are the formulas in a few lines of numpy, on projections that are given to them.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
from arrays import draws
from common import bench

from skactive.acsfw import _project, acs_fw

K = 500


def quietly(p: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the residual is gone before there are 500 rows
        acs_fw(p, K)


def plain_steps(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1)
    target, total, weights = vectors.sum(axis=0), norms.sum(), np.zeros(len(vectors))
    found: set[int] = set()
    while len(found) < K:
        reached = weights @ vectors
        residual = target - reached
        if np.linalg.norm(residual) <= 1e-6 * np.linalg.norm(target):
            break
        row = int(np.argmax(vectors @ residual / norms))
        step = total / norms[row] * vectors[row] - reached
        size = step @ residual / (step @ step)
        weights *= 1 - size
        weights[row] += size * total / norms[row]
        found.add(row)
    return weights


def ways(n_draws: int) -> dict:
    p = draws(10_000, n_draws)
    return {
        "skactive": functools.partial(quietly, p),
        "its projections": functools.partial(_project, p),
        "plain steps, without projections": functools.partial(plain_steps, _project(p)),
    }


for n_draws in (20, 50, 100):
    bench(f"ACS-FW, {K} of 10,000, 10 classes, {n_draws} draws")(functools.partial(ways, n_draws))
