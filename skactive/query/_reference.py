"""Rows of a pool that are scored once more, to see how scores change: as many as it takes to see that, and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _containers as chunks
from ._base import Request

MOST_ROWS = 500
"""Rows that are looked at: more of them change no coldness and no batch size that one could tell."""

MOST_BYTES = 8 * 2**20
"""And what they take: rows that are kept are written down by a checkpoint after every batch."""


def some_candidates(request: Request, rng: np.random.Generator, n_beside: int = 0) -> NDArray[np.int64]:
    """Positions among the candidates, in random order: `most_rows` of them, and ``n_beside`` more."""
    n_drawn = min(most_rows(request) + n_beside, request.n_candidates)
    return rng.choice(request.n_candidates, n_drawn, replace=False)


def most_rows(request: Request) -> int:
    """`MOST_ROWS`, or what `MOST_BYTES` hold."""
    return min(MOST_ROWS, chunks.rows_per_chunk(request.X_pool, 1, MOST_BYTES))


def rows_at(request: Request, candidates: NDArray[np.int64]) -> Any:
    """The rows of the pool that some candidates are, whatever holds them."""
    return chunks.take_rows(request.X_pool, candidates if request.rows is None else request.rows[candidates])
