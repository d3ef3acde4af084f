"""Ten tables, three models, seven queries: who wins against uniform and top-k, how often."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import benchmark
import numpy as np
import study
from many_tables import columns, rows
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from skactive import BADGEQuery, BatchBALDQuery, MCDropoutClassifier
from skactive._utils.statistics import holm, paired_p_value

TITLE = "Tables: wins, ties and losses"
ALT = (
    "Heat map of mean accuracy minus uniform's for six queries on 30 pairs of table and model: mostly small gains "
    "in blue, top-k often in orange, down to −9.6 points on hpc data."
)

TEN_TABLES = ["breast_cancer", "credit_data", "digits", "hpc_data", "letter", "penguins", "satellite", "shuttle"]
TEN_TABLES += ["soybean", "spambase"]

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "tables": ["wine"], "models": ["logistic", "net"]},
    "quick": {"n_trials": 3, "n_rounds": 5, "tables": ["wine", "digits"], "models": ["logistic", "forest", "net"]},
    "full": {"n_trials": 10, "n_rounds": 6, "tables": TEN_TABLES, "models": ["logistic", "forest", "net"]},
}

N_DRAWS = 50
QUERIES: dict[str, Any] = {
    "uniform": study.sampled("bald", sampler="uniform", n_draws=N_DRAWS),
    "topk": study.sampled("bald", sampler="topk", n_draws=N_DRAWS),
    "power": study.sampled("bald", sampler="power", beta=1.0, n_draws=N_DRAWS),
    "softmax": study.sampled("bald", sampler="softmax", beta=8.0, n_draws=N_DRAWS),
    "softrank": study.sampled("bald", sampler="softrank", beta=1.0, n_draws=N_DRAWS),
    "BADGE": BADGEQuery(),
    "BatchBALD": BatchBALDQuery(n_draws=N_DRAWS, max_outcomes=500),
}


def model(name: str, _: Any = None) -> Pipeline:
    estimators = {
        "logistic": LogisticRegression(C=1.0, max_iter=1000),
        "forest": RandomForestClassifier(N_DRAWS),
        "net": MCDropoutClassifier((64, 64), dropout=0.3, lr=3e-3, batch_size=-1, max_epochs=100, device="cpu"),
    }
    return make_pipeline(columns(), estimators[name])


def run(size: Any, places: study.Places) -> dict[str, Any]:
    """Small tables buy smaller batches."""
    part = benchmark.Part(
        arms={name: benchmark.Arm(query) for name, query in QUERIES.items()},
        tables=size.tables,
        models=size.models,
        model=model,
        n_trials=size.n_trials,
        sizes=(20, 10, size.n_rounds),
        measures={"accuracy": benchmark.accuracy},
        rows=partial(rows, most=3_000),
        halved_below=600,
    )
    return benchmark.run({"batches of 10": part}, places, benchmark.over_acquisitions)


def pairs(findings: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """By "table model", the trials of each query."""
    of_models = findings["batches of 10"]["accuracy"]
    return {f"{table} {name}": values for name, found in of_models.items() for table, values in found.items()}


def outcome(values: dict[str, list[float]], query: str, reference: str) -> tuple[float, float]:
    """Mean difference over paired trials, and the p-value of the t-test."""
    differences = np.subtract(values[query], values[reference])
    return float(differences.mean()), paired_p_value(differences)


def standings(found: dict[str, Any], reference: str, part: str = "") -> dict[str, tuple[int, int, int]]:
    """Wins, ties and losses of each query: differences with p < 0.05 after Holm's correction within an experiment."""
    counts = {query: [0, 0, 0] for query in QUERIES if query != reference}
    for name, values in found.items():
        if name.endswith(part):
            compared = {query: outcome(values, query, reference) for query in counts}
            corrected = holm([p for _, p in compared.values()])
            for (query, (mean, _)), p in zip(compared.items(), corrected, strict=True):
                counts[query][1 if not p < 0.05 else 0 if mean > 0 else 2] += 1
    return {query: tuple(three) for query, three in counts.items()}


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    found = pairs(findings)
    n_trials = len(next(iter(found.values()))["power"])
    pooled = {q: [float(np.mean(values[q])) for values in found.values()] for q in QUERIES}
    setting = f"{len(found)} pairs of table and model, {n_trials} trials each; batches of 10 (small tables: 5)"
    return [
        study.better("Power sampling is better than top-k", setting, pooled, "power", "topk"),
        study.better("Power sampling is better than uniform", setting, pooled, "power", "uniform"),
        study.better("Soft-rank sampling is better than top-k", setting, pooled, "softrank", "topk"),
        study.alike("Power sampling is as good as BADGE", setting, pooled, "power", "BADGE", 0.005),
        study.alike("Power sampling is as good as BatchBALD", setting, pooled, "power", "BatchBALD", 0.005),
    ]


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Wins, ties and losses against uniform and against top-k, by model."""
    header = ["query", "all", "logistic", "forest", "net"]
    made = []
    for reference in ("uniform", "topk"):
        by = [standings(pairs(findings), reference, part) for part in ("", "logistic", "forest", "net")]
        rows = [[query, *(" / ".join(map(str, counts[query])) for counts in by)] for query in by[0]]
        made.append((f"Wins / ties / losses against {reference}", header, rows))
    return made


def draw(findings: dict[str, Any]) -> Any:
    """Mean differences to uniform, a row for each table and model."""
    found = pairs(findings)
    queries = [query for query in QUERIES if query != "uniform"]
    differences = np.array([[100 * outcome(v, q, "uniform")[0] for q in queries] for v in found.values()])
    p = np.array([holm([outcome(v, q, "uniform")[1] for q in queries]) for v in found.values()])
    figure, axes = study.panels(1, 1, 0.24 * len(found) + 1.2)
    ax = axes[0, 0]
    limit = max(1e-9, float(np.abs(differences).max()))
    picture = ax.imshow(differences, cmap=study.diverging_map(), vmin=-limit, vmax=limit, aspect="auto")
    for (i, j), value in np.ndenumerate(differences):
        look = {"color": "w" if abs(value) > 0.85 * limit else "k", "weight": "bold" if p[i, j] < 0.05 else "normal"}
        ax.text(j, i, f"{value:+.1f}", ha="center", va="center", fontsize="small", **look)
    ax.set_xticks(range(len(queries)), ["top-k" if query == "topk" else query for query in queries])
    ax.set_yticks(range(len(found)), [name.replace("_", " ") for name in found])
    ax.xaxis.tick_top()
    ax.grid(visible=False)
    figure.colorbar(picture, label="accuracy minus uniform's, points (bold: p < 0.05)")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
