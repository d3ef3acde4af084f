"""Time and peak memory of a query over a large pool: ``python tests/benchmarks/bench_query.py [n_points]``.

A fixed-mask draw is compared, in the same run, with leaving dropout on (a mask a row, what other packages do), and the
query with its draws alone. Ratios and medians of five; absolute seconds are this machine's.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np
import torch

from skactive import MCDropoutClassifier, StochasticBatchQuery, sample_posterior

N_FEATURES, N_DRAWS = 32, 20


def peak_mib() -> float:
    """Peak resident memory since the last reset, Linux only."""
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


def seconds(function, repeats: int = 5) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def dropout_left_on(module: torch.nn.Module, X: np.ndarray) -> None:
    module.train()
    rows = torch.from_numpy(X)
    with torch.no_grad():
        for batch in rows.split(4096):
            torch.stack([module(batch).softmax(-1) for _ in range(N_DRAWS)])
    module.eval()


def main() -> None:
    n_points = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((n_points, N_FEATURES), dtype=np.float32)
    labels = (pool[:500, 0] > 0).astype(int) + (pool[:500, 1] > 0)
    net = MCDropoutClassifier(max_epochs=20, random_state=0).fit(pool[:500], labels)
    query = StochasticBatchQuery(n_draws=N_DRAWS, random_state=0)
    query.select(net, pool[:1000], 10)
    reset_peak()
    before = peak_mib()
    start = time.perf_counter()
    query.select(net, pool, 100)
    elapsed = time.perf_counter() - start
    print(f"query of 100 rows of {n_points:,} x {N_FEATURES} float32, {N_DRAWS} draws: {elapsed:.1f} s")
    print(f"peak memory above what was there before: {peak_mib() - before:.0f} MiB (the pool has {pool.nbytes >> 20})")

    part = pool[:50_000]
    draws = sample_posterior(net, N_DRAWS, rng)
    ours = seconds(lambda: draws(part))
    theirs = seconds(lambda: dropout_left_on(net.net_.module_, part))
    whole = seconds(lambda: query.select(net, part, 100))
    print(f"{len(part):,} rows: draws {ours:.2f} s")
    print(f"times that: dropout left on {theirs / ours:.1f}, the whole query {whole / ours:.2f}")


if __name__ == "__main__":
    main()
