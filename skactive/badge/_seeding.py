"""k-means++ seeding: each new centre is drawn by its squared distance from the nearest centre so far.

Arthur and Vassilvitskii (2007). It is the law of rows that keep apart, with equal weights and the power 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._points import PointSet
from ..samplers._bounds import Bounds

Indices = NDArray[np.int64]

_EPS = np.finfo(np.float64).eps


def seed(points: PointSet, k: int, rng: np.random.Generator, n_known: int = 0) -> Indices:
    """Choose up to k distinct points: one of largest norm, then by k-means++ while a point is in a place of its own.

    The last ``n_known`` points are centres from the start, and none of them is chosen. Then the first point, too, is
    drawn by its distance from these.
    """
    norms, n_free = points.squared_norms, len(points) - n_known
    if not norms.any():
        return np.empty(0, dtype=np.int64)
    centres = np.arange(n_free, len(points))
    if n_known == 0:
        centres = rng.choice(np.flatnonzero(norms >= norms.max() * (1 - 8 * _EPS)), 1)
    log_weights = np.zeros(len(points))
    log_weights[n_free:] = -np.inf
    bounds = Bounds(points, centres, log_weights, 1.0)
    while len(centres) - n_known < k and bounds.total > 0:
        centres = np.concatenate([centres, bounds.draw(k + n_known - len(centres), rng)])
    return centres[n_known:]
