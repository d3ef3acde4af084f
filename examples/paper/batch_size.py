"""Batches of 5, 10, 20 and 40 labels of Repeated-digits, as many labels in all: whom do large batches hurt?

Accuracies are compared where all have been evaluated: after every 40 labels bought.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import study

from skactive import BADGEQuery
from skactive.plotting import _drawing as drawing

TITLE = "Size of batches"
ALT = (
    "Three panels: mean accuracy minus uniform's by labels in a batch, where top-k falls from −2 to −7 points "
    "while power and BADGE stay above 0; learning curves of top-k, worse the larger the batch; those of power, "
    "all alike."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "budget": 40, "batch_sizes": [20, 40]},
    "quick": {"n_trials": 3, "budget": 40, "batch_sizes": [5, 10, 20, 40]},
    "full": {"n_trials": 12, "budget": 80, "batch_sizes": [5, 10, 20, 40]},
}
N_INITIAL = 20
N_DRAWS = 40

QUERIES: dict[str, Any] = {
    "topk": study.sampled("bald", sampler="topk", n_draws=N_DRAWS),
    "power": study.sampled("bald", beta=1.0, n_draws=N_DRAWS),
    "BADGE": BADGEQuery(),
}
# Which rows it takes does not depend on the size of batches, so it is asked for the largest only.
UNIFORM = study.sampled("bald", sampler="uniform", n_draws=2)


def run(size: Any, places: study.Places) -> dict[str, Any]:
    X, y, splits = study.repeated_digits(size.n_trials)
    options = {"splits": splits, "n_initial": N_INITIAL, "n_trials": size.n_trials}
    largest = size.batch_sizes[-1]
    at = range(N_INITIAL + largest, N_INITIAL + size.budget + 1, largest)
    found: dict[str, Any] = {"batch_sizes": size.batch_sizes, "means": {}, "curves": {}}
    for b in size.batch_sizes:
        queries = QUERIES | ({"uniform": UNIFORM} if b == largest else {})
        sizes = {"batch_size": b, "n_rounds": size.budget // b}
        result = places.compare(f"batch_size-{b}", study.digits_net(), queries, X, y, **sizes, **options)
        found["means"] |= {_key(query, b): values for query, values in study.means(result, at=at).items()}
        found["curves"] |= {_key(query, b): curve for query, curve in study.curves(result).items()}
    return found


def _key(query: str, batch_size: int) -> str:
    return query if query == "uniform" else f"{query}, {batch_size} a batch"


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    means, smallest, largest = findings["means"], findings["batch_sizes"][0], findings["batch_sizes"][-1]
    last = max(int(n) for n in findings["curves"]["uniform"])
    setting = (
        f"digits, four noisy copies, net, BALD, {N_INITIAL} to {last} labels, mean accuracy every {largest} labels"
    )
    small = {query: _key(query, smallest) for query in QUERIES}
    large = {query: _key(query, largest) for query in QUERIES}
    losses = {query: np.subtract(means[small[query]], means[large[query]]).tolist() for query in QUERIES}
    losses = {f"loss of {query}": values for query, values in losses.items()}
    return [
        study.better("Large batches hurt top-k", setting, means, small["topk"], large["topk"]),
        study.alike("Large batches do not hurt power sampling", setting, means, large["power"], small["power"]),
        study.better("Large batches hurt top-k more than power", setting, losses, "loss of topk", "loss of power"),
        study.alike("Large batches do not hurt BADGE", setting, means, large["BADGE"], small["BADGE"]),
        study.better(f"Power is better than top-k, {smallest} a batch", setting, means, small["power"], small["topk"]),
        study.better(f"Power is better than top-k, {largest} a batch", setting, means, large["power"], large["topk"]),
        study.better(f"Power is better than uniform, {largest} a batch", setting, means, large["power"], "uniform"),
    ]


def draw(findings: dict[str, Any]) -> Any:
    """Mean accuracy by the size of batches, and curves of top-k and power."""
    figure, axes = study.panels(3, 3, 2.9)
    _draw_means(axes[0, 0], findings)
    for ax, query, name in ((axes[0, 1], "topk", "top-k"), (axes[0, 2], "power", "power β=1")):
        keys = {_key(query, b): f"{b} a batch" for b in findings["batch_sizes"]}
        looks = dict(zip(keys, study.shades(len(keys)), strict=True))
        study.draw_curves(ax, {key: findings["curves"][key] for key in keys}, "accuracy", looks=looks, **keys)
        ax.set_title(name)
        ax.legend(loc="lower right")
    axes[0, 2].sharey(axes[0, 1])
    return figure


def _draw_means(ax: Any, findings: dict[str, Any]) -> None:
    sizes = findings["batch_sizes"]
    for query in QUERIES:
        found = [study.difference(findings["means"], _key(query, b), "uniform") for b in sizes]
        ends = (100 * np.array([getattr(e, part) for e in found]) for part in ("mean", "low", "high"))
        label = "top-k" if query == "topk" else query
        drawing.draw_band(ax, np.array(sizes), *ends, label=label, **study.LOOKS[query])
    ax.axhline(0, color=drawing.GREY, lw=1, label="uniform")
    ax.set_xscale("log")
    ax.set_xticks(sizes, sizes)
    ax.minorticks_off()
    ax.set(xlabel="labels in a batch, as many in all", ylabel="points", title="mean accuracy minus uniform's")
    ax.legend()


if __name__ == "__main__":
    study.main(sys.modules[__name__])
