"""ACS-FW from draws to a batch, beside its projections alone, and steps that keep the weights of all rows.

The plain steps are the formulas in a few lines of numpy, on projections that are given to them.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
from common import bench

from skactive.acsfw import _project, acs_fw

N_POINTS, N_CLASSES, K = 10_000, 10, 500


def some_draws(n_draws: int) -> np.ndarray:
    """Probabilities like those of MC dropout, float32: logits of a point, and noise a draw."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((n_draws, N_POINTS, N_CLASSES), dtype=np.float32)
    logits += 2 * rng.standard_normal((N_POINTS, N_CLASSES), dtype=np.float32)
    np.exp(logits, out=logits)
    return logits / logits.sum(-1, keepdims=True)


def quietly(draws: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the residual is gone before there are 500 rows
        acs_fw(draws, K)


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
    draws = some_draws(n_draws)
    return {
        "skactive": functools.partial(quietly, draws),
        "its projections": functools.partial(_project, draws),
        "plain steps, without projections": functools.partial(plain_steps, _project(draws)),
    }


for n_draws in (20, 50, 100):
    bench(f"ACS-FW, {K} of 10,000, 10 classes, {n_draws} draws")(functools.partial(ways, n_draws))
