"""A sampler mixed with uniform choice: what it takes for no row to be impossible.

Each pick is uniform among the rows that are left with probability epsilon, and otherwise what the sampler picks among
them. Rows in the order of the sampler and rows in random order are drawn first; the picks come from either, rows that
are taken already being passed over. That leaves the law of what is to come as it should be: the order of a
Plackett-Luce law, seen without some rows, is that of the same weights without them. So the probability of each pick is
known as exactly as that of the sampler.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from . import Batch, gumbel_top_k, log_proba, softrank, topk
from ._checks import check_has_law

__all__ = ["draw_mixture"]

Scores = NDArray[np.float64]
Indices = NDArray[np.int64]

_TOP_K = 1e12  # soft-rank sampling so cold that the next rank comes first with probability exp(-1e12 / n_points)


def draw_mixture(
    sampler: Callable[..., Any], scores: Scores, k: int, rng: np.random.Generator, beta: float, epsilon: float
) -> Batch:
    """Draw k rows, each uniformly with probability ``epsilon``, else by the sampler, which must have a law."""
    check_has_law(sampler)
    log_weights = _law(sampler, scores, beta, rng)
    orders = gumbel_top_k(log_weights, k, rng), rng.choice(len(scores), k, replace=False)
    indices = _merge(*orders, rng.random(k) < epsilon)
    return Batch(
        indices,
        functools.partial(_log_proba, log_weights, indices, epsilon),
        functools.partial(_log_weights, log_weights, epsilon),
    )


def _law(sampler: Callable[..., Any], scores: Scores, beta: float, rng: np.random.Generator) -> Scores:
    """Log-weights by row. Rows in random order, so that tied ones share their ranks at random."""
    law: Any = softrank if sampler is topk else sampler
    order = rng.permutation(len(scores))
    log_weights = np.empty(len(scores))
    log_weights[order] = law.log_weights(scores[order], _TOP_K if sampler is topk else beta)
    return log_weights


def _merge(by_law: Indices, by_chance: Indices, chance: NDArray[np.bool_]) -> Indices:
    orders = iter(by_law), iter(by_chance)
    picks: dict[int, None] = {}
    for of_chance in chance.astype(int):
        picks[next(row for row in orders[of_chance] if row not in picks)] = None
    return np.fromiter(picks, dtype=np.int64, count=len(picks))


def _log_proba(log_weights: Scores, indices: Indices, epsilon: float) -> Scores:
    n_left = len(log_weights) - np.arange(len(indices))
    with np.errstate(divide="ignore"):
        by_law = np.log1p(-epsilon) + log_proba(log_weights, indices)
    return np.minimum(np.logaddexp(by_law, np.log(epsilon / n_left)), 0.0)


def _log_weights(log_weights: Scores, epsilon: float) -> Scores:
    total = logsumexp(log_weights)
    law = log_weights - total if total > -np.inf else np.full(len(log_weights), -np.log(len(log_weights)))
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-epsilon) + law, np.log(epsilon / len(log_weights)))
