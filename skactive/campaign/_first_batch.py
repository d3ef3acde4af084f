"""The first rows, while there is no model: none is labelled, or all labels are of one class.

Rows are points: the columns that preprocessing makes of the table. Labels are not used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.neighbors import NearestNeighbors

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_MEMBERS = 5_000  # of a cluster, among which the most typical one is looked for
N_NEIGHBOURS = 20  # nearest members, whose mean distance says how typical a point is, as in TypiClust
MOST_FULL_CLUSTERS = 50  # more clusters than this are found by mini-batches, as in TypiClust

TAIL = 0.01  # the part of a column, at either end, that is clipped
DIGITS = 4  # decimals of standardised columns that count: rows that differ in none are one place
NO_SPREAD = 1e-12  # relative to the largest number of a column: a smaller spread is rounding


FIRST = ("uniform", "typical")
"""Ways to choose the first rows."""


def typical_rows(points: Floats, k: int, rng: np.random.Generator) -> Indices:
    """Distinct rows (k,) of the points (n_points, n_columns), most preferred first; uniform where no place is left."""
    scaled = standardised(points)
    n_places = len(np.unique(scaled, axis=0)) if scaled.shape[1] else 1
    found = _typical(scaled, min(k, n_places), rng) if n_places > 1 else np.zeros(0, dtype=np.int64)
    left = np.delete(np.arange(len(points)), found)
    return np.concatenate([found, rng.permutation(left)[: k - len(found)]])


def _typical(points: Floats, k: int, rng: np.random.Generator) -> Indices:
    """The row nearest to its neighbours in each of k clusters, the largest first (TypiClust, Hacohen et al., 2022)."""
    make = KMeans if k <= MOST_FULL_CLUSTERS else MiniBatchKMeans
    clusters = make(k, n_init=3, random_state=int(rng.integers(2**31 - 1))).fit_predict(points)
    sizes = np.bincount(clusters, minlength=k)
    largest_first = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    return np.array([_most_typical(points, np.flatnonzero(clusters == c), rng) for c in largest_first], dtype=np.int64)


def _most_typical(points: Floats, members: Indices, rng: np.random.Generator) -> int:
    """The member that is nearest to its neighbours in the cluster."""
    if len(members) == 1:
        return int(members[0])
    if len(members) > MOST_MEMBERS:
        members = rng.choice(members, MOST_MEMBERS, replace=False)
    neighbours = NearestNeighbors(n_neighbors=min(N_NEIGHBOURS, len(members) - 1)).fit(points[members])
    return int(members[neighbours.kneighbors()[0].mean(axis=1).argmin()])


def standardised(points: Floats) -> Floats:
    """Columns on one scale, without those that have no spread.

    A column of two values becomes 0 and 1, so that a category, with a column for each value, weighs about as much as a
    number. Others are clipped at their percentiles 1 and 99 and get a standard deviation of 1. Of a column with one
    value in nearly all rows only the sign of the difference counts.
    """
    largest = np.abs(points).max(axis=0)
    points = points / np.where(largest > 0, largest, 1.0)  # so that nothing overflows
    return np.array([_on_scale(x) for x in points.T if np.ptp(x) > NO_SPREAD]).reshape(-1, len(points)).T


def _on_scale(x: Floats) -> Floats:
    """A column of two values as 0 and 1, the sign of a rare difference, or a number of standard deviation 1."""
    low = float(np.quantile(x, TAIL, method="lower"))
    high = float(np.quantile(x, 1 - TAIL, method="higher"))
    if high - low <= NO_SPREAD:
        return np.sign(np.where(np.abs(x - low) > NO_SPREAD, x - low, 0.0))
    x = np.clip(x, low, high)
    if np.isin(x, (low, high)).all():
        return (x - low) / (high - low)
    return np.round((x - x.mean()) / x.std(), DIGITS)
