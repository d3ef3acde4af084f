"""Where predictions matter for some rows only: EPIG against BALD, on pools that hold much else.

Of each data set a few classes are the target: rows of these classes are what the model is tested on, and some further
ones, without labels, are what EPIG is told of. The pool has all classes, and all of them are labels to be predicted.
"""

from __future__ import annotations

import sys
import textwrap
from typing import Any

import numpy as np
import study
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skactive import MCDropoutClassifier

TITLE = "EPIG: labels for the rows that matter"
ALT = (
    "Learning curves of accuracy on the classes that matter, three data sets: EPIG is far above BALD and uniform "
    "on digits and letter, and no better on satellite."
)

TARGETS: dict[str, list[str]] = {
    "digits": ["3", "8", "9"],
    "letter": ["E", "F", "P"],
    "satellite": ["grey soil", "damp grey soil", "very damp grey soil"],
}
MOST_ROWS, N_TARGET = 1_500, 60

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 2, "sets": ["digits"]},
    "quick": {"n_trials": 4, "n_rounds": 6, "sets": ["digits"]},
    "full": {"n_trials": 12, "n_rounds": 8, "sets": list(TARGETS)},
}
N_INITIAL, BATCH_SIZE, N_DRAWS = 30, 10, 100


def rows(name: str, places: study.Places) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """At most `MOST_ROWS` rows, the same each time, with the proportions of classes."""
    X, y = load_digits(return_X_y=True) if name == "digits" else study.table(places, name)
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y).astype(str)
    if len(y) > MOST_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y, random_state=0)
    return X, y


def parts(
    y: NDArray[Any], wanted: list[str], n_trials: int
) -> tuple[NDArray[np.int64], list[tuple[NDArray[np.int64], NDArray[np.int64]]]]:
    """Rows that EPIG is told of, and for each trial those to buy from and those to test on, which are of the target."""
    of_target = np.flatnonzero(np.isin(y, wanted))
    told = np.sort(np.random.default_rng(0).choice(of_target, N_TARGET, replace=False))
    others = np.setdiff1d(np.arange(len(y)), told)
    splits = []
    for trial in range(n_trials):
        pool, test = train_test_split(others, test_size=0.4, stratify=y[others], random_state=trial)
        splits.append((pool, test[np.isin(y[test], wanted)]))
    return told, splits


def model() -> Any:
    net = MCDropoutClassifier((64, 64), dropout=0.3, lr=3e-3, batch_size=-1, max_epochs=80, device="cpu")
    return make_pipeline(StandardScaler(), net)


def queries(X_target: NDArray[np.float64]) -> dict[str, Any]:
    common = {"n_draws": N_DRAWS, "X_target": X_target}
    return {
        "uniform": study.sampled("bald", sampler="uniform"),
        "BALD": study.sampled("bald", beta=4.0, **common),
        "EPIG": study.sampled("epig", beta=4.0, **common),
    }


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in size.sets:
        X, y = rows(name, places)
        told, splits = parts(y, TARGETS[name], size.n_trials)
        result = places.compare(
            f"epig-{name}",
            model(),
            queries(X[told]),
            X,
            y,
            splits=splits,
            n_initial=N_INITIAL,
            batch_size=BATCH_SIZE,
            n_rounds=size.n_rounds,
            n_trials=size.n_trials,
        )
        bought = {query: share_of_target(result, query, y, TARGETS[name]) for query in result.queries}
        found[name] = {"means": study.means(result), "curves": study.curves(result), "of_target": bought}
    return found


def share_of_target(result: Any, query: str, y: NDArray[Any], wanted: list[str]) -> float:
    """Part of the rows bought that are of the target's classes."""
    bought = [i for record in result.rounds if record.query == query and record.round for i in record.indices]
    return round(float(np.isin(y[bought], wanted).mean()), 4)


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    found = []
    for name, of_set in findings.items():
        setting = (
            f"{name}, target {', '.join(TARGETS[name])}; dropout net, {N_DRAWS} draws, power sampling with β = 4, "
            f"batches of {BATCH_SIZE}; mean accuracy on rows of the target"
        )
        means = of_set["means"]
        statement = "EPIG is better than BALD where the target is a part of the pool"
        found.append(study.better(statement, setting, means, "EPIG", "BALD"))
        found.append(
            study.better(
                "EPIG is better than uniform where the target is a part of the pool", setting, means, "EPIG", "uniform"
            )
        )
    return found


def draw(findings: dict[str, Any]) -> Any:
    """Curves of each set; the share of the target's classes among the rows bought in the legend."""
    figure, axes = study.panels(len(findings), 3, 4.0)
    for ax, (name, of_set) in zip(axes.flat, findings.items(), strict=False):
        labels = {query: f"{query} ({share:.0%})" for query, share in of_set["of_target"].items()}
        study.draw_curves(ax, of_set["curves"], "accuracy on the target", **labels)
        ax.set_title(textwrap.fill(f"{name}: {', '.join(TARGETS[name])}", 25))
        ax.legend(title="(bought of the target)", loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
