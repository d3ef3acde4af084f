"""Characters with a flaw: a rare colour, colours that go with classes, characters that cannot be seen.

Does sampling find the rare group, and does it do as well there? Does it mend entropy's taste for images that nobody can
read? Images are made for it, and follow Synbols in kind. The paper trains VGG-16; here an MLP with
dropout is given oriented gradients of each colour channel, from which it learns letters within a few hundred labels.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import study
from lib.characters import make_characters
from numpy.typing import NDArray

from skactive import BADGEQuery, MCDropoutClassifier

TITLE = "Characters with a flaw: groups and noise"
ALT = (
    "Nine dot plots, a row for each flaw: all queries are more accurate than uniform; with a rare colour their "
    "gaps between groups are about a point smaller; of the hidden images entropy buys more than their share of "
    "the pool and BALD does not."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "n_pool": 400, "n_test": 400},
    "quick": {"n_trials": 2, "n_rounds": 3, "n_pool": 800, "n_test": 1_000},
    "full": {"n_trials": 10, "n_rounds": 4, "n_pool": 1_500, "n_test": 1_000},
}
N_INITIAL, BATCH_SIZE, N_DRAWS = 50, 50, 20
PIXELS, CELLS, BINS = 32, 4, 8
SETTINGS = {  # the second group's part of the pool, and of the test set
    "minority": (0.1, 0.5),
    "spurious": (0.9, 0.5),
    "missing": (0.3, 0.3),
}

QUERIES: dict[str, Any] = {
    "PowerBALD": study.sampled("bald", "power", beta=1.0, n_draws=N_DRAWS),
    "BALD": study.sampled("bald", "topk", n_draws=N_DRAWS),
    "PowerEntropy": study.sampled("entropy", "power", beta=1.0, n_draws=N_DRAWS),
    "entropy": study.sampled("entropy", "topk", n_draws=N_DRAWS),
    "uniform": study.sampled("entropy", "uniform", n_draws=2),
    "BADGE": BADGEQuery(),
}
NET = MCDropoutClassifier((128, 128), dropout=0.3, lr=3e-3, batch_size=-1, max_epochs=60, n_draws=N_DRAWS, device="cpu")


def gradients(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """How steep each colour is in each of 8 directions, in each of 4 x 4 parts of an image."""
    dy, dx = np.gradient(images.astype(np.float32) / 255, axis=(2, 3))
    direction = (np.arctan2(dy, dx) / np.pi % 1 * BINS).astype(int) % BINS
    steepness = np.hypot(dx, dy)
    parts = (*images.shape[:2], CELLS, PIXELS // CELLS, CELLS, PIXELS // CELLS)
    sums = [(steepness * (direction == i)).reshape(parts).sum(axis=(3, 5)) for i in range(BINS)]
    rows = np.stack(sums, axis=1).reshape(len(images), -1)
    return 4 * rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-6)


def accuracies(model: Any, X: Any, y: Any, groups: NDArray[np.str_]) -> list[float]:
    """Accuracy in each group."""
    right = model.predict(X) == y
    return [float(right[groups == group].mean()) for group in np.unique(groups)]


def minus_gap(model: Any, X: Any, y: Any, *, rows: Any, groups: NDArray[np.str_]) -> float:
    """Minus the difference of accuracy between groups: predictive parity, larger is better."""
    first, second = accuracies(model, X, y, groups[rows])
    return -abs(first - second)


def visible_accuracy(model: Any, X: Any, y: Any, *, rows: Any, groups: NDArray[np.str_]) -> float:
    """Accuracy where characters can be seen; groups are sorted: "hidden", "visible"."""
    return accuracies(model, X, y, groups[rows])[1]


def experiment(setting: str, size: Any, places: study.Places) -> tuple[Any, NDArray[np.str_]]:
    """Pools of the trials are other images each, the test images are the same."""
    p_pool, p_test = SETTINGS[setting]
    rng = np.random.default_rng(0)
    n_made = size.n_pool * min(size.n_trials, 3)
    made = [make_characters(n, setting, rng, p=p, size=PIXELS) for n, p in ((n_made, p_pool), (size.n_test, p_test))]
    X, y, groups = (np.concatenate(parts) for parts in zip(*made, strict=True))
    test = np.arange(n_made, len(X))
    trials = [np.random.default_rng(trial) for trial in range(size.n_trials)]
    splits = [(trial.choice(n_made, size.n_pool, replace=False), test) for trial in trials]
    extra = visible_accuracy if setting == "missing" else minus_gap
    result = places.compare(
        f"characters-{setting}",
        NET,
        QUERIES,
        gradients(X),
        y,
        splits=splits,
        n_initial=N_INITIAL,
        batch_size=BATCH_SIZE,
        n_rounds=size.n_rounds,
        n_trials=size.n_trials,
        scoring={"accuracy": "accuracy", extra.__name__: functools.partial(extra, groups=groups)},
    )
    return result, groups


def share_bought(result: Any, groups: NDArray[np.str_], group: str) -> dict[str, list[float]]:
    """How much of what a query bought belongs to a group, by trial; first labels left out."""
    found: dict[str, dict[int, list[bool]]] = {query: {} for query in result.queries}
    for record in result.rounds:
        if record.round:
            found[record.query].setdefault(record.trial, []).extend(groups[list(record.indices)] == group)
    return {query: [round(float(np.mean(of[t])), 4) for t in sorted(of)] for query, of in found.items()}


def run(size: Any, places: study.Places) -> dict[str, Any]:
    found: dict[str, Any] = {"n_pool": size.n_pool}
    for setting in SETTINGS:
        result, groups = experiment(setting, size, places)
        scores = {"means": {}, "curves": {}}
        for score in result.score_names:
            scores["means"][score] = study.means(result, score)
            scores["curves"][score] = study.curves(result, score)
        rare = "hidden" if setting == "missing" else "blue"
        found[setting] = {**scores, "share": share_bought(result, groups, rare)}
    return found


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    common = (
        f"oriented gradients of {PIXELS} x {PIXELS} pixels in colour, {findings['n_pool']:,} images in the pool, "
        f"MLP with dropout, batches of {BATCH_SIZE} from {N_INITIAL} labels"
    )
    minority, spurious, missing = (findings[setting]["means"] for setting in SETTINGS)
    rare = f"letters a and d, one in ten blue, half in the test; {common}"
    tied = f"letters a and d, nine in ten a blue and d red, no such tie in the test; {common}"
    noisy = f"letters a and d, three in ten hidden, accuracy where they can be seen; {common}"
    bought = {query: [-x for x in shares] for query, shares in findings["missing"]["share"].items()}
    parity, seen = "minus the difference of accuracy between groups", "visible_accuracy"
    return [
        study.better("Minority: PowerBALD is better than BALD", rare, minority["accuracy"], "PowerBALD", "BALD"),
        study.alike("Minority: PowerBALD is as good as BADGE", rare, minority["accuracy"], "PowerBALD", "BADGE"),
        study.better(
            f"Minority: groups differ less than with BALD ({parity})", rare, minority["minus_gap"], "PowerBALD", "BALD"
        ),
        study.better(
            f"Minority: groups differ less than with uniform ({parity})",
            rare,
            minority["minus_gap"],
            "PowerBALD",
            "uniform",
        ),
        study.alike("Spurious: PowerBALD is as good as BALD", tied, spurious["accuracy"], "PowerBALD", "BALD"),
        study.alike(
            f"Spurious: groups differ no more than with BALD ({parity})",
            tied,
            spurious["minus_gap"],
            "PowerBALD",
            "BALD",
        ),
        study.better("Spurious: BALD is better than uniform", tied, spurious["accuracy"], "BALD", "uniform"),
        study.better("Missing: PowerEntropy is better than entropy", noisy, missing[seen], "PowerEntropy", "entropy"),
        study.better("Missing: BALD is better than entropy", noisy, missing[seen], "BALD", "entropy"),
        study.better("Missing: PowerBALD is better than BALD", noisy, missing[seen], "PowerBALD", "BALD"),
        study.alike("Missing: PowerBALD is as good as BADGE", noisy, missing[seen], "PowerBALD", "BADGE"),
        study.better(
            "Missing: PowerEntropy chooses fewer hidden images than entropy (minus the share)",
            noisy,
            bought,
            "PowerEntropy",
            "entropy",
        ),
    ]


def draw(findings: dict[str, Any]) -> Any:
    """By setting: accuracy and parity minus uniform's, and how much of the batches belongs to the rare group."""
    names = {
        "accuracy": "accuracy",
        "minus_gap": "minus the gap of accuracy",
        "visible_accuracy": "accuracy where visible",
    }
    figure, axes = study.panels(9, 3, 2.2, sharey="row")
    for row, setting in zip(axes, SETTINGS, strict=True):
        found = findings[setting]
        for ax, (score, means) in zip(row, found["means"].items(), strict=False):
            study.draw_differences(ax, means, [query for query in means if query != "uniform"], "uniform")
            ax.set(title=f"{setting}:\n{names[score]}", xlabel="minus uniform's, points")
        others = [query for query in found["share"] if query != "uniform"]
        shares = {query: study.estimate(100 * share for share in found["share"][query]) for query in others}
        study.draw_intervals(row[2], shares, study.LOOKS)
        group = "hidden" if setting == "missing" else "blue"
        row[2].lines[-1].remove()  # the line at 0
        in_pool = 0.5 if setting == "spurious" else SETTINGS[setting][0]  # tied to both classes alike
        row[2].axvline(100 * in_pool, color="k", lw=0.8, ls="--")
        row[2].set(title=f"{setting}:\nrows bought", xlabel=f"{group}, % (dashed: of the pool)")
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
