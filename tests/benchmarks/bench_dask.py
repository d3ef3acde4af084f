"""Two workers of dask against one process, on a pool of dask in blocks.

``python tests/benchmarks/bench_dask.py`` prints for a forest and a net medians of five turns: wall seconds, CPU seconds
of this process, the workers and the scheduler together, and ratios to one process, which reads the same blocks by
dask's synchronous scheduler, with one thread. It stands apart from the other benchmarks, which measure one process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import dask
import dask.array
import numpy as np
import torch
from distributed import Client, LocalCluster
from sklearn.ensemble import RandomForestClassifier
from threadpoolctl import threadpool_limits

from skactive import MCDropoutClassifier, StochasticBatchQuery

N, N_COLUMNS, N_BLOCKS, TURNS = 160_000, 16, 16, 5


def models() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, N_COLUMNS))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    return {
        "forest, 100 trees": RandomForestClassifier(100, random_state=0).fit(X, y),
        "net 128-128, 20 draws": MCDropoutClassifier(max_epochs=5, random_state=0).fit(X, y),
    }


def pool() -> Any:
    """Rows that are made where their block is built."""
    rng = dask.array.random.default_rng(0)
    return rng.normal(size=(N, N_COLUMNS), chunks=(N // N_BLOCKS, N_COLUMNS))


def turn(model: Any, client: Client | None) -> tuple[float, float, Any]:
    """Wall and CPU seconds of a query, and its batch."""
    query = StochasticBatchQuery("bald", n_draws=None if hasattr(model, "estimators_") else 20, random_state=0)

    def cpu() -> float:
        return _cpu_seconds() + (0 if client is None else sum(client.run(_cpu_seconds).values()))

    wall, before = time.perf_counter(), cpu()
    if client is None:
        with dask.config.set(scheduler="synchronous"):
            batch = query.select(model, pool(), 100)
    else:
        batch = query.select(model, pool(), 100)
    return time.perf_counter() - wall, cpu() - before, batch


def _cpu_seconds() -> float:
    return sum(os.times()[:2])


KEEPING_MEMORY = {  # which workers give back at once otherwise, so that every large array is dear
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**30,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}


def main() -> None:
    global N, N_BLOCKS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=N)
    parser.add_argument("--as-they-are", action="store_true", help="workers give memory back at once")
    given = parser.parse_args()
    N, N_BLOCKS = given.rows, max(16, given.rows // 20_000)
    dask.config.set({} if given.as_they_are else KEEPING_MEMORY)
    torch.set_num_threads(1)
    with (
        threadpool_limits(1),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        for name, model in models().items():
            seconds: dict[str, list[tuple[float, float]]] = {"one process": [], "two workers": []}
            batches = [turn(model, of)[2] for of in (None, client)]  # which also warms up
            np.testing.assert_array_equal(*batches)  # scores are equal to rounding
            for _ in range(TURNS):
                for way, of in zip(seconds, (None, client), strict=True):
                    seconds[way].append(turn(model, of)[:2])
            wall, cpu = ([statistics.median(t[i] for t in turns) for turns in seconds.values()] for i in (0, 1))
            print(
                f"{name}: wall {wall[0]:.2f} s and {wall[1]:.2f} s (ratio {wall[1] / wall[0]:.2f}), "
                f"CPU {cpu[0]:.2f} s and {cpu[1]:.2f} s (ratio {cpu[1] / cpu[0]:.2f})"
            )


if __name__ == "__main__":
    main()
