"""The picture of the front page: ``python docs/images/fewer_labels.py`` writes fewer_labels.png.

Its numbers are in fewer_labels.json, which ``--run`` makes anew: the loop of README.md over a hundred splits of the
digits, with a logistic regression, in three minutes of one core.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skactive import StochasticBatchQuery, run_experiment
from skactive._utils.statistics import estimate
from skactive.plotting import _drawing as drawing

HERE = Path(__file__).parent
RESULTS = HERE / "fewer_labels.json"
QUERIES = {
    "default": StochasticBatchQuery(),
    "random": StochasticBatchQuery(sampler="uniform"),
    "top of BALD": StochasticBatchQuery("bald", "topk"),
    "top of its own ranking": StochasticBatchQuery(sampler="topk"),  # the margin's; not drawn, as it is close
}
N_TRIALS = 100
# Colours of the palette, and lines that differ without them; the height at which the name stands beside its line.
LINES: dict[str, tuple[str, str, str, float]] = {
    "default": ("skactive's\ndefault", drawing.COLOURS[0], "-", 0.935),
    "top of BALD": ("top of\nBALD", drawing.COLOURS[1], "-.", 0.913),
    "random": ("random\nchoice", drawing.COLOURS[6], "--", 0.890),
}


def run(n_trials: int) -> dict[str, Any]:
    """Mean curves, points of accuracy that the default is ahead, and labels that it saves, with 95 % intervals."""
    X, y = load_digits(return_X_y=True)
    sizes = {"test_size": 600, "n_initial": 30, "batch_size": 20, "n_rounds": 5, "n_trials": n_trials}
    model = LogisticRegression(max_iter=1000)
    result = run_experiment(model, QUERIES, X / 16, y, scoring="accuracy", random_state=0, verbose=1, **sizes)
    labels = sorted({record.n_labelled for record in result.rounds})
    runs = {query: np.zeros((n_trials, len(labels))) for query in QUERIES}
    for record in result.rounds:
        runs[record.query][record.trial, record.round] = record.scores["accuracy"]
    means = {query: of_query[:, 1:].mean(axis=1) for query, of_query in runs.items()}
    others = [query for query in QUERIES if query != "default"]
    return {
        "n_trials": n_trials,
        "curves": {query: {n: three(estimate(runs[query][:, i])) for i, n in enumerate(labels)} for query in QUERIES},
        "gain": {query: three(estimate(means["default"] - means[query])) for query in others},
        "fewer": {query: fewer_labels(labels, runs["default"], runs[query]) for query in ("random", "top of BALD")},
    }


def fewer_labels(labels: list[int], mine: np.ndarray, theirs: np.ndarray) -> list[float]:
    """How many fewer labels mean curves need for the last accuracy of the reference; the interval is a bootstrap."""

    def fewer(trials: Any) -> float:
        return labels[-1] - float(np.interp(theirs[trials, -1].mean(), mine[trials].mean(axis=0), labels))

    rng = np.random.default_rng(0)
    again = [fewer(rng.integers(len(mine), size=len(mine))) for _ in range(2000)]
    return [round(found, 4) for found in (fewer(slice(None)), *np.percentile(again, [2.5, 97.5]).tolist())]


def three(found: Any) -> list[float]:
    return [round(float(number), 6) for number in (found.mean, found.low, found.high)]


def draw(found: dict[str, Any]) -> Any:
    """Accuracy by labels, and how many fewer the default needs; readable if shown 350 pixels wide."""
    plt.rcParams.update({"font.size": 12, "font.family": "DejaVu Sans"})
    figure, ax = plt.subplots(figsize=(5.2, 3.7), layout="constrained")
    fewer = found["fewer"]["random"]
    for query, (name, color, style, height) in LINES.items():
        points = found["curves"][query]
        labels, (mean, low, high) = [int(n) for n in points], np.array(list(points.values())).T
        ax.plot(labels, mean, style, color=color, lw=2.5)
        ax.fill_between(labels, low, high, color=color, alpha=0.2, lw=0)
        ax.annotate(name, (131.5, height), color=color, weight="bold", va="center", annotation_clip=False)
        if query == "random":
            arrow = {"arrowstyle": "->", "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", (labels[-1] - fewer[0], mean[-1]), (labels[-1], mean[-1]), arrowprops=arrow)
    ax.set(xlabel="labels", ylabel="accuracy", xlim=(30, 131), ylim=(0.8, 0.95), yticks=(0.8, 0.85, 0.9, 0.95))
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    ax.spines[["top", "right"]].set_visible(False)
    title = "The same accuracy with {:.0f} [{:.0f}, {:.0f}] fewer labels\nof 130 than rows chosen at random"
    figure.suptitle(title.format(*fewer), x=0.02, ha="left", fontsize=12)
    return figure


def main() -> None:
    """Draw it, in 64 colours: a quarter of the bytes."""
    if "--run" in sys.argv:
        RESULTS.write_text(json.dumps(run(N_TRIALS)) + "\n", encoding="utf-8")
    path = HERE / "fewer_labels.png"
    draw(json.loads(RESULTS.read_text(encoding="utf-8"))).savefig(path, dpi=200)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(64)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main()
