"""Whole queries over large pools: what a query costs beyond its draws, and how time and memory grow with the pool."""

from __future__ import annotations

import functools

import numpy as np
import torch
from common import bench

from skactive import MCDropoutClassifier, StochasticBatchQuery, sample_posterior

N_FEATURES, N_DRAWS = 32, 20


@functools.cache
def pool(n_points: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n_points, N_FEATURES), dtype=np.float32)


@functools.cache
def fitted_net() -> MCDropoutClassifier:
    rows = pool(1_000)
    labels = (rows[:, 0] > 0).astype(int) + (rows[:, 1] > 0)
    return MCDropoutClassifier(max_epochs=20, random_state=0).fit(rows, labels)


def query_of(n_points: int, n_instances: int = 100, **parameters):
    query = StochasticBatchQuery(n_draws=N_DRAWS, random_state=0, **parameters)
    return functools.partial(query.select, fitted_net(), pool(n_points), n_instances)


def dropout_left_on(module: torch.nn.Module, rows: torch.Tensor) -> None:
    """A mask a row: what most loops do, and no function of the row."""
    module.train()
    with torch.no_grad():
        for batch in rows.split(2_048):
            torch.stack([module(batch).softmax(-1) for _ in range(N_DRAWS)])
    module.eval()


@bench("query of 100 of 100,000 x 32, 20 draws of a 128-128 net")
def query_beside_its_draws():
    net, rows = fitted_net(), pool(100_000)
    predict_draws = sample_posterior(net, N_DRAWS, np.random.default_rng(0))
    return {
        "skactive": query_of(100_000),
        "its draws alone": lambda: [predict_draws(rows[i : i + 2_048]) for i in range(0, len(rows), 2_048)],
        "draws with dropout left on": functools.partial(dropout_left_on, net.net_.module_, torch.from_numpy(rows)),
    }


@bench("query of 100, 20 draws: the size of the pool (times 10,000 rows)")
def size_of_the_pool():
    return {f"{n:,} rows": query_of(n) for n in (10_000, 100_000, 1_000_000, 10_000_000)}


@bench("query of 1,000,000 x 32: the size of the batch", targets={"10,000 rows": 1.3})
def size_of_the_batch():
    return {f"{k:,} rows": query_of(1_000_000, k) for k in (10, 10_000)}
