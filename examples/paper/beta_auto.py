"""A coldness that sets itself against every fixed one: ten tables, a forest and a net, paired trials.

The settings, and the files that rounds are kept in, are those of the study of tables: what one has run, the other need
not.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import study
import tabular

from skactive import StochasticBatchQuery
from skactive._statistics import estimate, holm
from skactive.plotting import _drawing as drawing

TITLE = "Automatic beta"
ALT = (
    "Dot plot of how far each coldness falls short of the best fixed one: 0.4 points for β set by itself and for "
    "β = 4, more for other values, about 3 for uniform and top-k, with a stroke for each of 20 pairs of table and "
    "model."
)

TABLES = [name for name in tabular.TABLES if name not in ("penguins", "wine")]  # pools that are nearly used up
BETAS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
FIXED = {f"beta {beta:g}": StochasticBatchQuery("bald", beta=beta) for beta in BETAS}
QUERIES: dict[str, Any] = {
    "auto": StochasticBatchQuery("bald", beta="auto"),
    # The study of tables has asked with beta = 1 already, under its own name.
    **{name: query for name, query in FIXED.items() if name != "beta 1"},
    "power": FIXED["beta 1"],
    **{name: StochasticBatchQuery("bald", name) for name in ("topk", "uniform")},
}
CHOSEN = "beta that was the best in other trials of the same table"

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 2, "tables": ["breast_cancer"], "models": ["forest"]},
    "quick": {"n_trials": 3, "n_rounds": 5, "tables": ["digits", "breast_cancer"], "models": ["forest", "net"]},
    "full": {"n_trials": 10, "n_rounds": 10, "tables": TABLES, "models": ["forest", "net"]},
}


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for model_name in size.models:
        for table in size.tables:
            values = study.means(tabular.experiment(places, table, model_name, QUERIES, size))
            values["beta 1"] = values.pop("power")
            found[f"{table} {model_name}"] = {query: values[query] for query in ["auto", *FIXED, "topk", "uniform"]}
    return {"means": found}


def significantly(found: dict[str, Any], query: str, reference: str) -> tuple[list[str], list[str]]:
    """Where one is better than the other, and where worse: p < 0.05 in paired t-tests, after Holm over all of them."""
    compared = {name: tabular.outcome(values, query, reference) for name, values in found.items()}
    corrected = dict(zip(compared, holm([p for _, p in compared.values()]), strict=True))
    return (
        [name for name, p in corrected.items() if p < 0.05 and compared[name][0] > 0],
        [name for name, p in corrected.items() if p < 0.05 and compared[name][0] < 0],
    )


def distances(found: dict[str, Any]) -> dict[str, float]:
    """How far each falls short of the best fixed beta, in the mean over pairs of table and model.

    What is best is chosen on the trials that it is then compared in, which favours fixed values.
    """
    means = {name: {query: float(np.mean(v)) for query, v in values.items()} for name, values in found.items()}
    best = {name: max(of[query] for query in FIXED) for name, of in means.items()}
    return {query: float(np.mean([best[name] - of[query] for name, of in means.items()])) for query in ["auto", *FIXED]}


def chosen_on_others(values: dict[str, list[float]]) -> float:
    """Mean accuracy of the fixed beta that was the best in all other trials of the same table and model."""
    of_fixed = np.array([values[query] for query in FIXED])
    others = of_fixed.sum(axis=1, keepdims=True) - of_fixed
    return float(np.mean(of_fixed[others.argmax(axis=0), np.arange(of_fixed.shape[1])]))


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    found = findings["means"]
    n_trials = len(next(iter(found.values()))["auto"])
    pooled = {q: [float(np.mean(values[q])) for values in found.values()] for q in ["auto", "beta 1", "topk"]}
    pooled[CHOSEN] = [chosen_on_others(values) for values in found.values()]
    setting = f"{len(found)} pairs of table and model, {n_trials} trials each; power sampling from BALD"
    return [
        never_worse(found, setting, n_trials),
        study.better('beta = "auto" is better than beta = 1 on average', setting, pooled, "auto", "beta 1", 4),
        study.better('beta = "auto" is better than top-k on average', setting, pooled, "auto", "topk", 4),
        closest(found, setting, n_trials),
        study.alike(f'beta = "auto" is as good as a {CHOSEN}', setting, pooled, "auto", CHOSEN, 0.005),
    ]


def never_worse(found: dict[str, Any], setting: str, n_trials: int) -> study.Claim:
    wins, losses = significantly(found, "auto", "beta 1")
    ours = f"better in {len(wins)}, worse in {len(losses)} of {len(found)} (paired t, Holm, p < 0.05)"
    ours += f": worse on {', '.join(losses)}" if losses else ""
    statement = 'beta = "auto" is nowhere significantly worse than beta = 1'
    return study.Claim(statement, setting, n_trials, ours, "the opposite" if losses else "seen")


def closest(found: dict[str, Any], setting: str, n_trials: int) -> study.Claim:
    short = distances(found)
    ours = ", ".join(f"{query} {100 * value:.2f}" for query, value in short.items())
    return study.Claim(
        'beta = "auto" is closer to the best fixed beta of each table than any one fixed beta is',
        setting,
        n_trials,
        f"points short of the best: {ours}",
        "seen" if min(short, key=short.__getitem__) == "auto" else "not seen",
    )


def draw(findings: dict[str, Any]) -> Any:
    """How far each falls short of the best fixed beta of a table and model: means, and a mark for each of them."""
    found = findings["means"]
    shown = ["auto", *FIXED, "topk", "uniform"]
    means = {query: 100 * np.array([np.mean(values[query]) for values in found.values()]) for query in shown}
    best = np.max([means[query] for query in FIXED], axis=0)
    names = {"auto": "β set by itself", "topk": "top-k", "uniform": "uniform"}
    figure, axes = study.panels(1, 1, 3.8)
    rows = {names.get(query, query.replace("beta", "β =")): values - best for query, values in means.items()}
    styles = drawing.styles(7)
    looks = {name: {"color": drawing.GREY, "markersize": 7} for name in rows}
    looks["β set by itself"] |= {"color": styles[0]["color"]}
    looks["top-k"] |= study.LOOKS["topk"]
    looks["uniform"] |= study.LOOKS["uniform"]
    for i, (name, values) in enumerate(rows.items()):
        axes[0, 0].plot(values, np.full(len(values), i), "|", color=looks[name]["color"], ms=9, alpha=0.6)
    study.draw_intervals(axes[0, 0], {name: estimate(values) for name, values in rows.items()}, looks)
    axes[0, 0].set_xlabel(
        f"mean accuracy minus that of the best fixed β, points\n(a stroke: one of {len(best)} pairs of table and "
        "model; a point: their mean, with its 95 % interval)"
    )
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
