"""Where the time of a query goes: its steps, and the package's own modules, from samples of the stack.

``python tests/benchmarks/profile_query.py`` writes docs/images/query_time.png and docs/benchmarks/profile.inc.
"""

from __future__ import annotations

import collections
import sys
import threading
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import torch
from bench_query import fitted_net, pool, query_of

import skactive
from skactive.plotting import _drawing as drawing

DOCS = Path(__file__).parents[2] / "docs"
PACKAGE = str(Path(skactive.__file__).parent)
EVERY = 0.001  # seconds between samples
SHOWN = 0.01  # share of all samples that a module needs to be shown

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


def step_of(stack: Stack) -> str:
    """What a query is at, in a user's words."""
    modules = {name.partition(".")[0] for name in stack}
    if "scores" in modules:
        return "scores"
    if modules & {"_dropout", "mc_dropout"}:
        return "predictions for the draws"
    return "choosing the batch, and the rest"


def draw(seen: collections.Counter[Stack]) -> Any:
    """The steps of a query side by side, as wide as their shares of the time."""
    shares = dict.fromkeys(("predictions for the draws", "scores", "choosing the batch, and the rest"), 0.0)
    for stack, n in seen.items():
        shares[step_of(stack)] += n / seen.total()
    figure, ax = plt.subplots(figsize=(7.5, 1.4))
    start = 0.0
    for (step, share), look, hatch in zip(shares.items(), drawing.styles(3), ("", "//", ".."), strict=True):
        ax.barh(0, share, left=start, color=look["color"], hatch=hatch, edgecolor="white", label=f"{step}: {share:.1%}")
        start += share
    ax.set(xlim=(0, 1), yticks=[], xlabel="share of the time of a query: 100 of 1,000,000 rows, 20 draws, one thread")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.grid(visible=False)
    ax.spines[["left", "top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


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
    with matplotlib.rc_context(fname=DOCS / "page.mplstyle"):
        draw(seen).savefig(DOCS / "images" / "query_time.png")
    lines = [".. list-table::", "   :header-rows: 1", "", "   * - module", "     - share of the time"]
    for module, share in by_module(seen):
        if share >= SHOWN:
            lines += [f"   * - ``{module}``", f"     - {share:.0%}"]
    (DOCS / "benchmarks").mkdir(exist_ok=True)
    (DOCS / "benchmarks" / "profile.inc").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
