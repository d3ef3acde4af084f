"""Ten tables, three models, seven queries: who wins against uniform and top-k, how often.

Each table and model is one experiment with a file of its own in OUT/rounds, so the study can be stopped at any time
and goes on where it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import study
from sklearn.base import ClassifierMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skactive import BADGEQuery, BatchBALDQuery, MCDropoutClassifier, StochasticBatchQuery
from skactive._utils.statistics import holm, paired_p_value

TITLE = "Tables: wins, ties and losses"
ALT = (
    "Heat map of mean accuracy minus uniform's for six queries on 30 pairs of table and model: mostly small gains "
    "in blue, top-k often in orange, down to −9.6 points on hpc data."
)

BUNDLED: dict[str, Callable[..., Any]] = {"breast_cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}
FILES = ["credit_data", "hpc_data", "letter", "penguins", "satellite", "shuttle", "soybean", "spambase", "vehicle"]
TABLES = sorted([*BUNDLED, *FILES])
TEN_TABLES = [name for name in TABLES if name not in ("vehicle", "wine")]
MOST_ROWS = 3_000

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "tables": ["wine"], "models": ["logistic", "net"]},
    "quick": {"n_trials": 3, "n_rounds": 5, "tables": ["wine", "digits"], "models": ["logistic", "forest", "net"]},
    "full": {"n_trials": 10, "n_rounds": 6, "tables": TEN_TABLES, "models": ["logistic", "forest", "net"]},
}

N_DRAWS = 50
QUERIES: dict[str, Any] = {
    "uniform": StochasticBatchQuery("bald", sampler="uniform", n_draws=N_DRAWS),
    "topk": StochasticBatchQuery("bald", sampler="topk", n_draws=N_DRAWS),
    "power": StochasticBatchQuery("bald", sampler="power", beta=1.0, n_draws=N_DRAWS),
    "softmax": StochasticBatchQuery("bald", sampler="softmax", beta=8.0, n_draws=N_DRAWS),
    "softrank": StochasticBatchQuery("bald", sampler="softrank", beta=1.0, n_draws=N_DRAWS),
    "BADGE": BADGEQuery(),
    "BatchBALD": BatchBALDQuery(n_draws=N_DRAWS, max_outcomes=500),
}


def rows(name: str, places: study.Places) -> tuple[Any, np.ndarray]:
    """At most `MOST_ROWS` rows of a table, the same each time, with the proportions of classes; rare ones left out."""
    X, y = BUNDLED[name](return_X_y=True, as_frame=True) if name in BUNDLED else study.table(places, name)
    y = np.asarray(y).astype(str)
    labels, counts = np.unique(y, return_counts=True)
    common = np.isin(y, labels[counts >= 20 if len(y) > MOST_ROWS else counts >= 5])
    X, y = X[common], y[common]
    if len(y) > MOST_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y, random_state=0)
    return X.reset_index(drop=True), y


def columns() -> Any:
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    number = make_column_selector(dtype_include="number")
    return make_column_transformer((numbers, number), (texts, make_column_selector(dtype_exclude="number")))


def model(name: str) -> Pipeline:
    estimators: dict[str, ClassifierMixin] = {
        "logistic": LogisticRegression(C=1.0, max_iter=1000),
        "forest": RandomForestClassifier(N_DRAWS),
        "net": MCDropoutClassifier((64, 64), dropout=0.3, lr=3e-3, batch_size=-1, max_epochs=100, device="cpu"),
    }
    return make_pipeline(columns(), estimators[name])


def experiment(places: study.Places, table: str, model_name: str, queries: dict[str, Any], size: Any) -> Any:
    """One table and one model; small tables buy smaller batches."""
    X, y = rows(table, places)
    classes = np.unique(y)
    batch_size = 10 if len(y) >= 600 else 5
    return places.compare(
        f"tabular-{table}-{model_name}",
        model(model_name),
        queries,
        X,
        y,
        n_initial=max(2 * batch_size, len(classes)),
        batch_size=batch_size,
        n_rounds=size.n_rounds,
        n_trials=size.n_trials,
        test_size=1 / 3,
    )


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for model_name in size.models:
        for table in size.tables:
            result = experiment(places, table, model_name, QUERIES, size)
            found[f"{table} {model_name}"] = study.means(result)
    return {"means": found}


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
    found = findings["means"]
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
        by = [standings(findings["means"], reference, part) for part in ("", "logistic", "forest", "net")]
        rows = [[query, *(" / ".join(map(str, counts[query])) for counts in by)] for query in by[0]]
        made.append((f"Wins / ties / losses against {reference}", header, rows))
    return made


def draw(findings: dict[str, Any]) -> Any:
    """Mean differences to uniform, a row for each table and model."""
    found = findings["means"]
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
