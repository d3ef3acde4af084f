"""k-means++ seeding: each new centre is drawn by its squared distance from the nearest centre so far.

Arthur and Vassilvitskii (2007). It is the law of rows that keep apart, with equal weights and the power 1.
"""

from __future__ import annotations

import numpy as np

from .._points import PointSet
from ..samplers._allowance import Allowance
from ..samplers._bounds import Bounds
from ..samplers._selection import Indices, Scores

_EPS = np.finfo(np.float64).eps


def seed(
    points: PointSet, k: int, rng: np.random.Generator, n_known: int = 0, allowance: Allowance | None = None
) -> Indices:
    """Choose up to k distinct points: one of largest norm, then by k-means++ while a point is in a place of its own.

    The last ``n_known`` points are centres from the start, and none of them is chosen. Then the first point, too, is
    drawn by its distance from these. With an allowance, points are taken from it, up to k of them, and those that have
    to be chosen are centres from the start as well, and not among what is returned.
    """
    norms, n_free = points.squared_norms, len(points) - n_known
    if not norms.any():
        return np.empty(0, dtype=np.int64)
    centres = known = np.concatenate([np.arange(n_free, len(points)), _must(allowance)])
    if len(known) == 0:
        centres = _longest(norms, rng, allowance)
        if len(centres) == 0:
            return centres
    log_weights = np.zeros(len(points))
    log_weights[n_free:] = -np.inf
    bounds = Bounds(points, centres, log_weights, 1.0, allowance)
    while len(centres) - len(known) < k and bounds.total > 0:
        found = bounds.draw(k + len(known) - len(centres), rng)
        if not len(found) and allowance is not None and not allowance.allowed.any():
            break
        centres = np.concatenate([centres, found])
    return centres[len(known) :]


def _must(allowance: Allowance | None) -> Indices:
    return np.empty(0, dtype=np.int64) if allowance is None else allowance.must


def _longest(norms: Scores, rng: np.random.Generator, allowance: Allowance | None) -> Indices:
    """One of the points of the largest norm, or with an allowance, of those that it allows; none if all are 0 there."""
    if allowance is None:
        return rng.choice(np.flatnonzero(norms >= norms.max() * (1 - 8 * _EPS)), 1)
    allowed = np.flatnonzero(allowance.allowed)
    largest = norms[allowed].max(initial=0.0)
    if largest == 0:
        return allowed[:0]
    point = rng.choice(allowed[norms[allowed] >= largest * (1 - 8 * _EPS)], 1)
    allowance.take(point[0])
    return point
