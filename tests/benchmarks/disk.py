"""A pool in Parquet files that does not fit memory: peak memory, CPU time and bytes read, beside bare predictions.

Run ``python tests/benchmarks/disk.py --rows 20000000 --folder pool --out docs/benchmarks/pools/disk.json``. Each figure
is of a process of its own, and the two ways take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS, PER_FILE, PER_GROUP = 16, 2_000_000, 500_000


def write_pool(folder: Path, n_rows: int) -> None:
    """Files of normal numbers in float32; those that are there already are left alone."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    for i in range(-(-n_rows // PER_FILE)):
        file = folder / f"{i:03}.parquet"
        if not file.exists():
            rows = np.random.default_rng(i).normal(size=(min(PER_FILE, n_rows - i * PER_FILE), COLUMNS))
            table = pyarrow.table({f"x{j}": column for j, column in enumerate(rows.T.astype(np.float32))})
            pyarrow.parquet.write_table(table, file, row_group_size=PER_GROUP)


def fitted(name: str) -> object:
    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier

    from skactive import MCDropoutClassifier

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, COLUMNS)).astype(np.float32), columns=[f"x{j}" for j in range(COLUMNS)])
    y = (X["x0"] + X["x1"] ** 2 + rng.normal(size=300) > 1).astype(int)
    if name == "forest":
        return RandomForestClassifier(20, random_state=0).fit(X, y)
    return MCDropoutClassifier((32,), n_draws=20, max_epochs=20, random_state=0).fit(X, y)


def of_status(name: str) -> float:
    """MiB, from what Linux says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def measure(way: str, name: str, folder: Path) -> dict[str, float]:
    import pyarrow.dataset

    from skactive import StochasticBatchQuery, sample_posterior
    from skactive import _containers as containers

    model = fitted(name)
    pool = pyarrow.dataset.dataset(folder)
    query = StochasticBatchQuery("bald", n_draws=20, random_state=0)
    query.select(model, pyarrow.dataset.dataset(sorted(folder.glob("*.parquet"))[0]).head(100_000), 1)  # all is loaded
    Path("/proc/self/clear_refs").write_text("5")  # peaks are from now on
    memory, read, cpu, wall = of_status("VmRSS"), bytes_read(), time.process_time(), time.perf_counter()
    if way == "select":
        query.select(model, pool, 100)
    else:
        draw = sample_posterior(model, 20, np.random.default_rng(0))
        stream = containers.prepare_pool(pool)
        for chunk in containers.iter_chunks(stream, None, 200_000 if name == "forest" else 49_152):
            draw(chunk)
    return {
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "before": memory,
        "peak": of_status("VmHWM"),
        "read": (bytes_read() - read) / sum(file.stat().st_size for file in folder.glob("*.parquet")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("WAY", "MODEL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(*given.one, given.folder)))
        return
    write_pool(given.folder, given.rows)
    found: dict[str, Any] = {"rows": given.rows, "columns": COLUMNS, "processor": platform.processor()}
    found["cores"], found["threads"] = os.cpu_count(), int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    for name in ("forest", "net"):
        runs: dict[str, list[dict[str, float]]] = {"select": [], "predictions": []}
        for _ in range(given.runs):
            for way, of_way in runs.items():
                command = [sys.executable, __file__, "--folder", str(given.folder), "--one", way, name]
                of_way.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        ratios = [a["cpu"] / b["cpu"] for a, b in zip(runs["select"], runs["predictions"], strict=True)]
        extra = max(run["peak"] - run["before"] for run in runs["select"])
        print(
            f"{name}: CPU {statistics.median(run['cpu'] for run in runs['select']):.1f} s, "
            f"{statistics.median(ratios):.2f} times the predictions; memory {extra:.0f} MiB more, of which "
            f"{8 * given.rows / 2**20:.0f} are scores; each byte read {runs['select'][0]['read']:.2f} times"
        )
        found[name] = {"runs": runs, "ratio": statistics.median(ratios), "extra": extra}
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
        given.out.with_suffix(".inc").write_text(as_rst(found))


def as_rst(found: dict[str, Any]) -> str:
    n_rows = found["rows"]
    head = ("model", "memory, MiB", "CPU, s", "times bare predictions", "times each byte was read")
    lines = [
        f"Measured for 100 of {n_rows:,} rows of {COLUMNS} float32 in Parquet files, with 20 draws, on"
        f" {found['threads']} of {found['cores']} cores: memory beyond that of the process before the query (of which"
        f" {8 * n_rows / 2**20:.0f} MiB are scores), CPU time beside that of the bare predictions on the same blocks,"
        " and bytes read.",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
        "   * - " + "\n     - ".join(head),
    ]
    for name, of in (("forest of 20 trees", found["forest"]), ("net of 32 units", found["net"])):
        runs = of["runs"]["select"]
        cpu, read = (statistics.median(run[what] for run in runs) for what in ("cpu", "read"))
        cells = (name, f"{of['extra']:.0f}", f"{cpu:.0f}", f"{of['ratio']:.2f}", f"{read:.2f}")
        lines.append("   * - " + "\n     - ".join(cells))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
