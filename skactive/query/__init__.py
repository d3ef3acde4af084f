"""Queries: which rows of a pool to label next.

`StochasticBatchQuery` samples a batch from the scores of a pool, and `score_pool` gives the scores alone. `BatchQuery`
is the base for queries of your own, which are made of `draws_of`, `embeddings_of` and `score_rows` over the `Pool`.
"""

from __future__ import annotations

from ._base import Batch, BatchQuery, Streams
from ._draws import PoolDraws, draws_of, embeddings_of
from ._limits import Limits
from ._pool import Pool, model_of
from ._scoring import score_pool, score_rows
from ._stochastic import ScoringQuery, StochasticBatchQuery

__all__ = [
    "Batch",
    "BatchQuery",
    "Limits",
    "Pool",
    "PoolDraws",
    "ScoringQuery",
    "StochasticBatchQuery",
    "Streams",
    "draws_of",
    "embeddings_of",
    "model_of",
    "score_pool",
    "score_rows",
]
