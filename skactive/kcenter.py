"""k-center: a batch that covers the pool. Letters: N points, n of a block, D units."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from . import _containers as containers
from ._utils.types import Embedding, Floats, Indices
from ._utils.validation import Rules, as_array, name_or_callable
from .query import Batch, BatchQuery, Pool, Streams, embeddings_of
from .samplers._feasibility import Allowance

__all__ = ["KCenterQuery"]


_BLOCK_ELEMENTS = 2**18  # 2 MiB of float64: differences stay in the cache


@dataclass(eq=False, repr=False)
class KCenterQuery(BatchQuery):
    """Choose rows so that no row of the pool is far from a labelled one, by greedy k-center on embeddings.

    Each row is the one that is farthest from all rows chosen or labelled before it, or in flight. The largest distance
    left is at most twice the smallest possible. Only the embeddings of the model are used, not its uncertainty.
    Time is one pass over the embeddings for each row chosen.

    Parameters
    ----------
    embedding : "auto" or callable, default="auto"
        As in `BADGEQuery`. Regressors have embeddings too.
    chunk_size, predict_batch_size, random_state, verbose
        As in `StochasticBatchQuery`. Random numbers break ties, and choose the first row if no labelled one is known.

    Attributes
    ----------
    scores_, indices_, rng_
        As in `query.BatchQuery`; scores are distances from the nearest labelled row, infinite where none is known.
    radius_ : float
        The largest distance of a candidate from the nearest row that is labelled or in the batch.

    References
    ----------
    Gonzalez (1985), Clustering to Minimize the Maximum Intercluster Distance; Sener and Savarese (2018), Active
    Learning for Convolutional Neural Networks: A Core-Set Approach, alg. 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import KCenterQuery
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=500).fit(X[::10], y[::10])
    >>> query = KCenterQuery(random_state=0)
    >>> rows = query.select(model, X, n_instances=5, X_training=X[::10], y_training=y[::10])
    >>> sorted(y[rows].tolist())  # species of the batch
    [0, 1, 2, 2, 2]
    """

    rules: ClassVar[Rules] = BatchQuery.rules | {"embedding": name_or_callable(["auto"])}
    keeps_parts: ClassVar[bool] = True

    embedding: Embedding = "auto"
    _: KW_ONLY
    chunk_size: int | None = None
    predict_batch_size: int | None = None
    random_state: Any = None
    verbose: int = 0

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Embed the candidates and the labelled rows, and choose the farthest first."""
        options = {name: getattr(self, name) for name in ("embedding", "chunk_size", "predict_batch_size", "verbose")}
        points, distances = embeddings_of(pool, learner, **options), np.full(len(pool), np.inf)
        labelled = () if pool.X_training is None else containers.in_columns_of(pool.X, pool.X_training, "X_training")
        for known in (Pool.of(labelled), pool.in_flight()):
            if len(known):
                _lower(distances, points, embeddings_of(known, learner, **options))
        scores = distances.copy()
        positions = _farthest_first(points, distances, pool.allowance(k), rngs.batch)
        return Batch(positions, scores, attributes={"radius_": float(max(distances.max(), 0.0))})


def _farthest_first(points: Any, distances_N: Floats, allowance: Allowance, rng: np.random.Generator) -> Indices:
    """Rows that have to be in the batch, then the farthest ones; distances become those from all of these as well."""
    if len(allowance.must):
        _lower(distances_N, points, points[allowance.must])
    while len(allowed := np.flatnonzero(allowance.allowed)):
        farthest = distances_N[allowed].max()  # exact distances: rows that tie are equally far
        row = int(rng.choice(allowed[distances_N[allowed] == farthest]))
        allowance.take(row)
        _lower(distances_N, points, points[np.array([row])])
    return allowance.batch


def _lower(distances_N: Floats, points: Any, centers: Any) -> None:
    """Make the distance of each point that from the nearest of these centers, where it is less."""
    n_points, n_units = points.shape
    step = max(1, _BLOCK_ELEMENTS // n_units)
    centers_cD = _dense(centers[:])
    for start in range(0, n_points, step):
        block_nD, nearest_n = _dense(points[start : start + step]), distances_N[start : start + step]
        for center_D in centers_cD:
            # From differences: |a|² + |b|² - 2 a·b cancels where points are near each other.
            np.minimum(nearest_n, np.linalg.norm(block_nD - center_D, axis=1), out=nearest_n)
    if not np.isfinite(distances_N).all():
        raise ValueError("`embedding` must give finite numbers. Got NaN or infinity. Fill gaps, or scale the features.")


def _dense(rows: Any) -> Floats:
    # In C order: the sums over units then add in one order, whatever the layout of the pool.
    return np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else as_array(rows), dtype=np.float64)
