"""How a benchmark is written and measured.

A case is a function that sets up and returns the ways to do one piece of work, ours first::

    @bench("what is done, and its size", targets={"the plain way": 2.0})
    def case():
        data = ...
        return {"skactive": lambda: ours(data), "the plain way": lambda: plain(data)}

Each case runs in a process of its own. Every way runs once to warm up and for its peak memory, then they take turns;
CPU seconds (of all threads) are medians of five turns. A way whose warm-up takes longer than `PATIENCE` is reported
from that run alone. A ratio is the seconds of another way over ours; a target is the ratio wanted.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Thunk = Callable[[], Any]

TURNS = 5
PATIENCE = 20.0  # CPU seconds
SHORT = 0.03  # what takes less is repeated within a turn


@dataclass(frozen=True)
class Case:
    name: str
    set_up: Callable[[], dict[str, Thunk]]
    targets: dict[str, float] = field(default_factory=dict)
    threads: int | None = None


CASES: list[Case] = []


def bench(
    name: str, targets: dict[str, float] | None = None, threads: int | None = None
) -> Callable[[Callable[[], dict[str, Thunk]]], Callable[[], dict[str, Thunk]]]:
    """Register a case; ``threads`` only if it means something other than the number the command was given."""

    def register(set_up: Callable[[], dict[str, Thunk]]) -> Callable[[], dict[str, Thunk]]:
        CASES.append(Case(name, set_up, targets or {}, threads))
        return set_up

    return register


def measure(case: Case) -> list[dict[str, Any]]:
    """One row a way: CPU and wall seconds, runs, peak memory above what was there before, ratio and target."""
    ways = case.set_up()
    rows = [{"way": way, **_warm_up(thunk)} for way, thunk in ways.items()]
    patient = [row for row in rows if row["cpu_s"] <= PATIENCE]
    turns: dict[str, list[tuple[float, float]]] = {row["way"]: [] for row in patient}
    loops = {row["way"]: max(1, int(SHORT / max(row["cpu_s"], 1e-6))) if row["cpu_s"] < SHORT else 1 for row in patient}
    for _ in range(TURNS):
        for way in turns:
            turns[way].append(_seconds(ways[way], min(loops[way], 1000)))
    for row in patient:
        cpu, wall = zip(*turns[row["way"]], strict=True)
        row |= {"cpu_s": statistics.median(cpu), "wall_s": statistics.median(wall), "runs": TURNS}
    for row in rows:
        row["ratio"] = row["cpu_s"] / max(rows[0]["cpu_s"], 1e-9)
        row["target"] = case.targets.get(row["way"])
    return rows


def _warm_up(thunk: Thunk) -> dict[str, Any]:
    gc.collect()
    before = _reset_peak()
    cpu, wall = _seconds(thunk)
    return {"cpu_s": cpu, "wall_s": wall, "runs": 1, "peak_mib": _memory("VmHWM") - before}


def _seconds(thunk: Thunk, loops: int = 1) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(loops):
        thunk()
    return (time.process_time() - cpu) / loops, (time.perf_counter() - wall) / loops


def _reset_peak() -> float:
    try:
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
    except OSError:
        pass  # not Linux, or not allowed: peaks are then since the start
    return _memory("VmRSS")


def _memory(key: str) -> float:
    """A line of /proc/self/status in MiB; NaN where there is none."""
    try:
        with open("/proc/self/status") as status:
            return int(next(line for line in status if line.startswith(key)).split()[1]) / 1024
    except OSError:
        return float("nan")
