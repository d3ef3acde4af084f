"""Rows of a pool that are scored once more, to see how scores change: as many as it takes to see that, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _containers as containers
from ._pool import Pool

MOST_ROWS = 500
"""Rows that are looked at: more of them change no coldness and no batch size that one could tell."""

MOST_BYTES = 8 * 2**20
"""And what they take: rows that are kept are written down by a checkpoint after every batch."""


@dataclass(frozen=True)
class Reference:
    """Rows of a pool, whatever held it, and the scores that they had; the rows themselves, as positions change.

    Attributes
    ----------
    X : array-like of shape (n_rows, ...)
    scores : ndarray of shape (n_rows,), float64
    score : str
        What they are scores of.
    """

    X: Any
    scores: NDArray[np.float64]
    score: str

    @classmethod
    def not_chosen(
        cls,
        pool: Pool,
        scores: NDArray[np.float64],
        chosen: NDArray[np.int64],
        drawn: NDArray[np.int64],
        score: str,
    ) -> Reference:
        """Candidates that could have been chosen and were not, of those that were ``drawn`` for it, in their order."""
        kept = drawn[~np.isin(drawn, chosen)][: _most_rows(pool)]
        return cls(pool.take(kept), scores[kept], score)

    def fits(self, pool: Pool, score: str) -> bool:
        """Whether these are such scores, of rows like those of the pool."""
        one = pool.take(np.arange(1))
        return self.score == score and containers.layout(self.X) == containers.layout(one)


def some_candidates(pool: Pool, rng: np.random.Generator, n_beside: int = 0) -> NDArray[np.int64]:
    """Candidates in random order: `MOST_ROWS` of them, or what `MOST_BYTES` hold, and ``n_beside`` more."""
    return rng.choice(len(pool), min(_most_rows(pool) + n_beside, len(pool)), replace=False)


def _most_rows(pool: Pool) -> int:
    return min(MOST_ROWS, containers.rows_per_chunk(pool.X, 1, MOST_BYTES))
