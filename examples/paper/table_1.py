"""Seconds that one batch costs: table 1 of the paper, with the implementations of this package.

Draws and embeddings are given, models are not run: what is timed is scoring and choosing. CPU seconds on one thread.
The paper's seconds were taken on eight cores with other programs, so that only ratios within a row can be compared.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import study
import torch
from numpy.typing import NDArray

from skactive._utils.statistics import Estimate, estimate
from skactive.acsfw import acs_fw
from skactive.badge import badge
from skactive.batchbald import batchbald
from skactive.plotting import _drawing as drawing
from skactive.samplers import power, topk
from skactive.scores import bald

TITLE = "Table 1: seconds of one acquisition"
ALT = (
    "Bars of seconds divided by PowerBALD's, ours and the paper's, for batches of 10, 100 and 500: top-k takes as "
    "long, BADGE 7 to 20 times as long with us, BatchBALD 33 to 953 times, and more in the paper."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_points": 500, "n_units": 64, "batch_sizes": [5, 10]},
    "quick": {"n_trials": 3, "n_points": 10_000, "n_units": 512, "batch_sizes": [10, 100]},
    "full": {"n_trials": 5, "n_points": 10_000, "n_units": 4_096, "batch_sizes": [10, 100, 500]},
}
N_DRAWS, N_CLASSES = 20, 10
LONG = 20.0  # seconds; what takes longer is timed once

PAPER = {
    "top-k BALD": {10: 0.2, 100: 0.2, 500: 0.2},
    "PowerBALD": {10: 0.2, 100: 0.2, 500: 0.2},
    "BatchBALD": {10: 566.0, 100: 5363.6, 500: 29984.1},
    "BADGE": {10: 9.2, 100: 82.1, 500: 409.3},
}
METHODS = ["top-k BALD", "PowerBALD", "BatchBALD", "BADGE", "ACS-FW"]


def draws(n_points: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Probabilities like those of MC dropout: logits of a point, and noise a draw."""
    logits = rng.standard_normal((N_DRAWS, n_points, N_CLASSES), dtype=np.float32)
    logits += 2 * rng.standard_normal((n_points, N_CLASSES), dtype=np.float32)
    np.exp(logits, out=logits)
    return logits / logits.sum(-1, keepdims=True)


def methods(n_points: int, n_units: int) -> dict[str, Callable[[int, Any], Any]]:
    rng = np.random.default_rng(0)
    p = draws(n_points, rng)
    mean = p.mean(0)
    embeddings = np.maximum(rng.standard_normal((n_points, n_units), dtype=np.float32), 0)
    return {
        "top-k BALD": lambda k, rng: topk(bald(p), k, rng),
        "PowerBALD": lambda k, rng: power(bald(p), k, rng),
        "BatchBALD": lambda k, rng: batchbald(p, k, rng).n_informative,
        "BADGE": lambda k, rng: badge(mean, embeddings, k, rng),
        "ACS-FW": lambda k, rng: acs_fw(p, k, rng),
    }


def seconds(method: Callable[[int, Any], Any], k: int, seed: int) -> tuple[float, Any]:
    rng, started = np.random.default_rng(seed), time.process_time()
    answer = method(k, rng)
    return time.process_time() - started, answer


def run(size: Any, places: study.Places) -> dict[str, Any]:
    torch.set_num_threads(1)
    found: dict[str, dict[str, list[float]]] = {name: {} for name in METHODS}
    informative = {}
    timed = methods(size.n_points, size.n_units)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 20 draws are told apart, and spanned, by fewer than 100 rows
        for method in timed.values():
            seconds(method, 2, 0)  # caches, imports
        for k in size.batch_sizes:
            for trial in range(size.n_trials):  # methods take turns
                for name, method in timed.items():
                    times = found[name].setdefault(str(k), [])
                    if not times or times[0] < LONG:
                        took, answer = seconds(method, k, trial)
                        times.append(round(took, 5))
                        informative[str(k)] = answer if name == "BatchBALD" else informative.get(str(k))
    return {"n_points": size.n_points, "n_units": size.n_units, "seconds": found, "informative": informative}


def ratio(findings: dict[str, Any], name: str, k: str) -> Estimate:
    """Seconds of a method divided by those of PowerBALD: mean of logarithms, and its interval, turned back."""
    mine, power_bald = findings["seconds"][name][k], findings["seconds"]["PowerBALD"][k]
    found = estimate(math.log(a / b) for a, b in zip(mine, power_bald, strict=False))
    return Estimate(*(math.exp(x) for x in (found.mean, found.low, found.high)))


def _times(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.2g}" if value < 10 else f"{value:.1f}"


def _slower(method: str, k: str, setting: str, findings: dict[str, Any]) -> study.Claim:
    """Orders of magnitude: 100 times or more, by the lower end of the interval where there is one."""
    found, paper = ratio(findings, method, k), PAPER.get(method, {}).get(int(k))
    single = math.isnan(found.low)
    span = "once" if single else f"[{_times(found.low)}, {_times(found.high)}]"
    beside = "" if paper is None else f"; paper {_times(paper / PAPER['PowerBALD'][int(k)])}"
    if (found.mean if single else found.low) >= 100:
        verdict = "seen"
    else:
        verdict = "the opposite" if found.high <= 1 else "not seen"
    statement = f"{method} takes orders of magnitude longer than PowerBALD at B = {k} (100 times or more)"
    ours = f"seconds / PowerBALD's: {_times(found.mean)} ({span}{beside})"
    return study.Claim(statement, setting, len(findings["seconds"][method][k]), ours, verdict)


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    setting = (
        f"our implementations, {findings['n_points']:,} points, {N_CLASSES} classes, {N_DRAWS} draws, "
        f"{findings['n_units']:,} units; CPU seconds on one thread, draws and embeddings given"
    )
    sizes = list(findings["seconds"]["PowerBALD"])
    found = [ratio(findings, "top-k BALD", k) for k in sizes]
    same = "seen" if all(0.8 <= r.mean <= 1.25 for r in found) else "not seen"
    ours = "top-k / PowerBALD: " + "; ".join(f"{_times(r.mean)} at B = {k}" for k, r in zip(sizes, found, strict=True))
    n_trials = len(findings["seconds"]["top-k BALD"][sizes[0]])
    claims = [study.Claim("Stochastic batches take as long as top-k (within a fifth)", setting, n_trials, ours, same)]
    for method in ("BatchBALD", "BADGE"):
        for k in sizes:
            more = ""
            if method == "BatchBALD":
                n = findings["informative"][k]
                more = f"; {n} rows are bought for their gain, until {N_DRAWS} draws are told apart, the rest fills up"
            claims.append(_slower(method, k, setting + more, findings))
    return claims


def draw(findings: dict[str, Any]) -> Any:
    """Ratios to PowerBALD, ours and the paper's."""
    sizes = list(findings["seconds"]["PowerBALD"])
    shown = [name for name in METHODS if name != "PowerBALD"]
    figure, axes = study.panels(len(sizes), 3, 3.0, sharey=True)
    for ax, k in zip(axes.flat, sizes, strict=False):
        base = float(np.median(findings["seconds"]["PowerBALD"][k]))
        for i, name in enumerate(shown):
            _draw_bar(ax, i - 0.19, ratio(findings, name, k).mean, drawing.COLOURS[0], "skactive" if i == 0 else None)
            paper = PAPER.get(name, {}).get(int(k))
            if paper is not None:
                theirs = paper / PAPER["PowerBALD"][int(k)]
                _draw_bar(ax, i + 0.19, theirs, "0.7", "paper" if i == 0 else None)
        title = f"B = {k}\nPowerBALD: {1000 * base:.0f} ms"
        ax.set(xscale="log", xlim=(0.3, 4e7), title=title, xlabel="seconds / PowerBALD's")
        ax.axvline(1, color="k", lw=0.8)
        ax.grid(visible=False, axis="y")
    axes[0, 0].set_yticks(range(len(shown)), shown)
    axes[0, 0].set_ylim(len(shown) - 0.5, -0.5)
    study.legend_above(figure, axes[0, 0])
    return figure


def _draw_bar(ax: Any, height: float, value: float, colour: str, label: str | None) -> None:
    ax.barh(height, value, 0.36, left=1e-9, color=colour, label=label)
    beside = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": "small"}
    ax.annotate(_times(value), (value, height), **beside)


if __name__ == "__main__":
    study.main(sys.modules[__name__])
