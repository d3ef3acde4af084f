"""Where the time of a query goes: a flame graph of the package's own functions, drawn from samples of the stack.

``python tests/benchmarks/profile_query.py`` writes docs/images/query_flame_graph.png and docs/benchmarks/profile.inc.
"""

from __future__ import annotations

import collections
import sys
import threading
import time
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import torch
from bench_query import fitted_net, pool, query_of

import skactive

DOCS = Path(__file__).parents[2] / "docs"
PACKAGE = str(Path(skactive.__file__).parent)
EVERY = 0.001  # seconds between samples
SHOWN = 0.01  # share of all samples that a function needs to be shown

Stack = tuple[str, ...]


def stack_of(thread: int) -> Stack:
    """Functions of the package on a thread's stack, outermost first."""
    frame, names = sys._current_frames().get(thread), []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            module = Path(code.co_filename).relative_to(PACKAGE).with_suffix("").parts
            names.append(".".join([*(part for part in module if part != "__init__"), code.co_name]))
        frame = frame.f_back
    return tuple(reversed(names))


def sampled(work) -> collections.Counter[Stack]:
    """How often each stack was seen while ``work`` ran."""
    seen: collections.Counter[Stack] = collections.Counter()
    done, main = threading.Event(), threading.get_ident()

    def sample() -> None:
        while not done.wait(EVERY):
            seen[stack_of(main)] += 1

    sampler = threading.Thread(target=sample)
    sampler.start()
    work()
    done.set()
    sampler.join()
    return seen


def draw(seen: collections.Counter[Stack], ax, start: float = 0.0, depth: int = 0, prefix: Stack = ()) -> None:
    """Functions called from ``prefix`` side by side, as wide as their share, and what they call on top of them."""
    total = seen.total()
    widths: collections.Counter[str] = collections.Counter()
    for stack, n in seen.items():
        if stack[:depth] == prefix and len(stack) > depth:
            widths[stack[depth]] += n
    for name, n in widths.most_common():
        share = n / total
        if share >= SHOWN:
            ax.barh(depth, share, left=start, height=0.92, color=plt.cm.YlOrRd(0.25 + 0.05 * depth), edgecolor="white")
            room = int(share * 120)
            label = name if len(name) <= room else name.partition(".")[2]
            if len(label) <= room:
                ax.text(start + share / 2, depth, label, ha="center", va="center", fontsize=7)
            draw(seen, ax, start, depth + 1, (*prefix, name))
        start += share


def by_module(seen: collections.Counter[Stack]) -> list[tuple[str, float]]:
    """Share of the samples in which each module was at work, or what it called outside of the package."""
    shares: collections.Counter[str] = collections.Counter()
    for stack, n in seen.items():
        shares[stack[-1].partition(".")[0] if stack else "elsewhere"] += n
    return [(module, n / seen.total()) for module, n in shares.most_common()]


def main() -> None:
    torch.set_num_threads(1)
    fitted_net(), pool(1_000_000)
    work = query_of(1_000_000)
    query_of(10_000)()  # what is loaded at the first query is no part of others
    start = time.perf_counter()
    seen = sampled(work)
    print(f"{time.perf_counter() - start:.1f} s, {seen.total()} samples")
    figure, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
    draw(seen, ax)
    ax.set(xlim=(0, 1), yticks=[], xlabel="share of the time of a query: 100 of 1,000,000 rows, 20 draws, one thread")
    ax.spines[["left", "top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images" / "query_flame_graph.png", dpi=130)
    lines = [".. list-table::", "   :header-rows: 1", "", "   * - module", "     - share of the time"]
    for module, share in by_module(seen):
        if share >= SHOWN:
            lines += [f"   * - ``{module}``", f"     - {share:.0%}"]
    (DOCS / "benchmarks").mkdir(exist_ok=True)
    (DOCS / "benchmarks" / "profile.inc").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
