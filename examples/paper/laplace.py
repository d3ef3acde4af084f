"""Information about predictions, not weights: EPIG of a logistic regression on tables, from draws and without any.

EPIG asks what a label tells of a hundred other rows, which are neither bought nor tested on: from 100 draws, and in
closed form. Beside it: BALD, which is about weights, the margin, and chance. The tables are eight that the closed form
was not made on.
"""

from __future__ import annotations

import sys
from typing import Any

import benchmark
import numpy as np
import study
from many_tables import columns, rows
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skactive.query import score_pool

TITLE = "Information about predictions"
ALT = (
    "Dot plot of accuracy minus uniform's over eight tables: EPIG in closed form and the margin are 1.6 to 1.7 points "
    "above, BALD and EPIG of draws less than one."
)

FURTHER = ["HMDA", "OJ", "attrition", "cells", "email", "leaf_id_flavia", "lending_club", "wa_churn"]
SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_rounds": 1, "n_trials": 2, "tables": ["breast_cancer"]},
    "quick": {"n_rounds": 3, "n_trials": 3, "tables": ["breast_cancer"]},
    "full": {"n_rounds": 6, "n_trials": 12, "tables": FURTHER},
}
N_DRAWS, N_TARGET = 100, 100
CLOSED = "EPIG in closed form"

ARMS = ["margin", "BALD", "EPIG of draws", CLOSED]


def about_predictions(X_target: Any) -> dict[str, Any]:
    return {
        "uniform": study.sampled("bald", sampler="uniform"),
        "margin": study.sampled("margin", beta=4),
        "BALD": study.sampled("bald", beta=4, n_draws=N_DRAWS),
        "EPIG of draws": study.sampled("epig", beta=4, n_draws=N_DRAWS, X_target=X_target),
        CLOSED: study.sampled("epig", beta=4, X_target=X_target),
    }


def model() -> Any:
    return make_pipeline(columns(), LogisticRegression(max_iter=1000))


def apart(y: np.ndarray, n_trials: int) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Rows that EPIG is told of, and for each trial, without these, rows to buy and rows to test on."""
    others, told = train_test_split(np.arange(len(y)), test_size=N_TARGET, stratify=y, random_state=0)
    parts = (train_test_split(others, test_size=1 / 3, stratify=y[others], random_state=t) for t in range(n_trials))
    return told, [(pool, test) for pool, test in parts]


def lengths(X: Any, y: np.ndarray, told: np.ndarray, pool: np.ndarray) -> dict[str, float]:
    """Rank correlations of scores with the length of a row's features, by the first rows of a pool as labels."""
    labelled, rest = pool[: max(20, len(np.unique(y)))], X.iloc[pool[max(20, len(np.unique(y))) :]]
    fitted = model().fit(X.iloc[labelled], y[labelled])
    training = {"X_training": X.iloc[labelled], "y_training": y[labelled], "X_target": X.iloc[told]}
    scores = score_pool(fitted, rest, ["bald", "epig"], **training, random_state=0)
    length = np.linalg.norm(fitted[0].transform(rest), axis=1)
    return {name: float(stats.spearmanr(column, length)[0]) for name, column in scores.items()}


def run(size: Any, places: study.Places) -> dict[str, Any]:
    """Accuracy, and what scores go with."""
    found: dict[str, Any] = {"means": {}, "lengths": {}}
    for table in size.tables:
        X, y = rows(table, places)
        told, splits = apart(y, size.n_trials)
        sizes = {"n_initial": max(20, len(np.unique(y))), "batch_size": 10, "n_rounds": size.n_rounds}
        queries, name = about_predictions(X.iloc[told]), f"laplace-predictions-{table}"
        result = places.compare(name, model(), queries, X, y, splits=splits, n_trials=size.n_trials, **sizes)
        found["means"][table] = study.means(result)
        found["lengths"][table] = lengths(X, y, told, splits[0][0])
    return found


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    found = findings["means"]
    n_trials = len(next(iter(found.values()))["uniform"])
    setting = f"logistic regression, C=1, {len(found)} further tables, {n_trials} trials each"
    means = {arm: [float(np.mean(values[arm])) for values in found.values()] for arm in about_predictions(None)}
    others = ("uniform", "BALD", "EPIG of draws", "margin")
    return [study.better(f"{CLOSED} is better than {other}", setting, means, CLOSED, other) for other in others]


def tables(findings: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    caption = (
        "Mean accuracy over acquisitions minus uniform's, points; the interval of the last line is over tables. Beside "
        "it, with first labels of one trial, the rank correlation of scores with the length of a row's features"
    )
    return [(caption, ["table", *ARMS, "BALD and length", "EPIG and length"], lines_by_table(findings))]


def lines_by_table(found: dict[str, Any]) -> list[list[str]]:
    lines = []
    for table, values in found["means"].items():
        gains = [f"{100 * (np.mean(values[arm]) - np.mean(values['uniform'])):+.1f}" for arm in ARMS]
        lines.append([table, *gains, *(f"{found['lengths'][table][name]:.2f}" for name in ("bald", "epig"))])
    over = [study.with_interval(benchmark.minus({"": found["means"]}, arm, "uniform"), 1, sign=True) for arm in ARMS]
    means = [f"{np.mean([of[name] for of in found['lengths'].values()]):.2f}" for name in ("bald", "epig")]
    return [*lines, ["all", *over, *means]]


def guide(findings: dict[str, Any]) -> str:
    """What the guide says."""

    def over(arm: str, other: str) -> str:
        return study.with_interval(benchmark.minus({"": findings["means"]}, arm, other), 1, sign=True)

    of_bald, of_epig = (np.mean([of[name] for of in findings["lengths"].values()]) for name in ("bald", "epig"))
    return (
        'Information about predictions, not about weights, is ``"epig"``, which needs no draws of these models: see '
        f":ref:`epig_without_draws`. On {len(findings['means'])} further tables, ``C=1``, with a hundred rows as "
        f"targets, its rank correlation with the length of a row's features was {of_epig:.2f}, where that of BALD was "
        f"{of_bald:.2f}. Mean accuracy minus uniform's, in points: {over(CLOSED, 'uniform')}, of 100 draws "
        f"{over('EPIG of draws', 'uniform')}, BALD {over('BALD', 'uniform')}, margin {over('margin', 'uniform')}. "
        f"Without draws it is above BALD, {over(CLOSED, 'BALD')}, and level with the margin, {over(CLOSED, 'margin')}: "
        "take it where predictions matter for some rows. :ref:`The study <laplace>` has the tables."
    )


def draw(findings: dict[str, Any]) -> Any:
    """Differences to uniform over tables."""
    figure, axes = study.panels(1, 1, 2.2)
    of_models = {"logistic": findings["means"]}
    study.draw_intervals(axes[0, 0], {arm: benchmark.minus(of_models, arm, "uniform") for arm in ARMS})
    axes[0, 0].set_xlabel("accuracy minus uniform's, points, with 95 % intervals over tables")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
