"""Whole tables as pools: many classes (letter), and classes that are rare (shuttle).

Stand-ins for the larger sets of images of the paper: letter for EMNIST, which has many classes, and shuttle for
MIO-TCD, which is imbalanced. EMNIST itself joins where the data folder has it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import study
from lib.files import load_idx
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from skactive import BADGEQuery, MCDropoutClassifier

TITLE = "Large pools: many classes, rare classes"
ALT = (
    "Learning curves on two large pools, accuracy and balanced accuracy: top-k is far below all others; power, "
    "BADGE and uniform lie close together, and soft-rank a little lower on the letters."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "sets": ["letter"]},
    "quick": {"n_trials": 2, "n_rounds": 2, "sets": ["letter", "shuttle"]},
    "full": {"n_trials": 10, "n_rounds": 4, "sets": ["letter", "shuttle", "emnist_balanced"]},
}
LABELS = {"letter": (52, 50), "shuttle": (20, 20), "emnist_balanced": (94, 50)}  # at first, and in a batch
N_TEST, N_DRAWS = 5_000, 20

QUERIES: dict[str, Any] = {
    "power": study.sampled("bald", sampler="power", beta=1.0, n_draws=N_DRAWS),
    "softrank": study.sampled("bald", sampler="softrank", beta=1.0, n_draws=N_DRAWS),
    "topk": study.sampled("bald", sampler="topk", n_draws=N_DRAWS),
    "uniform": study.sampled("bald", sampler="uniform", n_draws=2),
    "BADGE": BADGEQuery(),
}


def rows(name: str, places: study.Places) -> tuple[Any, Any]:
    """All rows of a set, standardised; images as 64 principal components."""
    if name.startswith("emnist"):
        images, y = load_idx(places.file("EMNIST", "emnist"), "emnist-balanced-train")
        X = PCA(64, random_state=0).fit_transform(images.reshape(len(images), -1) / np.float32(255))
    else:
        table, y = study.table(places, name)
        X = StandardScaler().fit_transform(table)
    return X.astype(np.float32), y


def experiment(name: str, size: Any, places: study.Places) -> Any:
    """First labels are drawn blindly, so that rare classes have to be found."""
    X, y = rows(name, places)
    n_initial, batch_size = LABELS[name]
    classes = np.unique(y).tolist()
    return places.compare(
        f"large_pools-{name}",
        MCDropoutClassifier(
            (128, 128),
            dropout=0.3,
            lr=5e-3,
            batch_size=-1,
            max_epochs=50,
            n_draws=N_DRAWS,
            classes=classes,
            device="cpu",
        ),
        QUERIES,
        X,
        y,
        stratify=False,
        n_initial=n_initial,
        batch_size=batch_size,
        n_rounds=size.n_rounds,
        n_trials=size.n_trials,
        test_size=N_TEST,
        scoring=["accuracy", "balanced_accuracy"],
    ), np.unique(y, return_counts=True)[1]


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in size.sets:
        try:
            result, counts = experiment(name, size, places)
        except study.MissingDataError:
            if not name.startswith("emnist"):
                raise
            continue
        found[name] = {
            "n_pool": int(counts.sum()) - N_TEST,
            "counts": sorted(counts.tolist(), reverse=True),
            **{
                score: {"means": study.means(result, score), "curves": study.curves(result, score)}
                for score in result.score_names
            },
        }
    return found


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    made = []
    for name, found in findings.items():
        n_initial, batch_size = LABELS[name]
        setting = (
            f"{name}: {found['n_pool']:,} rows in the pool, {len(found['counts'])} classes, the smallest of "
            f"{found['counts'][-1]:,} rows; MLP with dropout, batches of {batch_size} from {n_initial} labels"
        )
        rare = found["counts"][-1] < 0.01 * sum(found["counts"])
        for score in ("accuracy", "balanced_accuracy") if rare else ("accuracy",):
            values, of = found[score]["means"], f"{name}, {score.replace('_', ' ')}"
            made += [
                study.better(f"Power sampling is better than top-k ({of})", setting, values, "power", "topk"),
                study.better(f"Power sampling is better than uniform ({of})", setting, values, "power", "uniform"),
                study.alike(f"Power sampling is as good as BADGE ({of})", setting, values, "power", "BADGE"),
                study.better(f"Soft-rank sampling is better than top-k ({of})", setting, values, "softrank", "topk"),
            ]
    return made


def draw(findings: dict[str, Any]) -> Any:
    figure, axes = study.panels(2 * len(findings), 2, 3.1)
    for row, (name, found) in zip(axes, findings.items(), strict=True):
        for ax, score in zip(row, ("accuracy", "balanced_accuracy"), strict=True):
            study.draw_curves(ax, found[score]["curves"], score.replace("_", " "), topk="top-k", softrank="soft-rank")
            ax.set_title(f"{name}, {found['n_pool']:,} rows, {len(found['counts'])} classes")
    study.legend_above(figure, axes[0, 0])
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
