"""How scores are distributed, and which rows power, softmax and soft-rank sampling would buy first.

MNIST, an MLP with dropout, and the BALD scores of rows that it does not know.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import study
from numpy.typing import NDArray
from scipy.special import logsumexp

from skactive import MCDropoutClassifier
from skactive.plotting import _drawing as drawing
from skactive.query import score_pool
from skactive.samplers import SAMPLERS

TITLE = "Scores in descending order, and the laws of the samplers"
ALT = (
    "Scores in descending order, and by rank the probability to be first for power, softmax and soft-rank "
    "sampling: the colder, the steeper; those of soft-rank are straight lines, whatever the scores."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rows": 200, "n_draws": 20, "n_labels": 20},
    "quick": {"n_trials": 3, "n_rows": 1_000, "n_draws": 50, "n_labels": 20},
    "full": {"n_trials": 10, "n_rows": 2_000, "n_draws": 100, "n_labels": 20},
}
BETAS = [1, 2, 4, 8, 16]
NAMES = ["power", "softmax", "softrank"]


def law(sampler: str, scores: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """Probability of each row to be the first of a batch."""
    log_weights = np.asarray(SAMPLERS[sampler].log_weights(scores, beta), dtype=np.float64)
    return np.exp(log_weights - logsumexp(log_weights))


def overlap(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """What two laws have in common: 1 minus their distance in total variation."""
    return float(np.minimum(p / p.sum(), q / q.sum()).sum())


def descending_scores(X: Any, y: Any, size: Any, seed: int) -> NDArray[np.float64]:
    """BALD scores of rows beside those of a few labels, as many of each class."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    classes = np.unique(y)
    first = np.concatenate([order[y[order] == label][: size.n_labels // len(classes)] for label in classes])
    others = np.setdiff1d(order, first, assume_unique=True)[: size.n_rows]
    net = MCDropoutClassifier((128, 128), batch_size=-1, max_epochs=100, random_state=seed, device="cpu")
    scores = score_pool(net.fit(X[first], y[first]), X[others], "bald", n_draws=size.n_draws, random_state=seed)["bald"]
    return np.sort(scores)[::-1]


def measures(scores: NDArray[np.float64]) -> dict[str, float]:
    tenth, half = len(scores) // 10, len(scores) // 2
    laws = {(name, beta): law(name, scores, beta) for name in NAMES for beta in (1, 8)}
    return {
        "overlap at 8": overlap(laws["power", 8], laws["softmax", 8]),
        "overlap at 8, top tenth": overlap(laws["power", 8][:tenth], laws["softmax", 8][:tenth]),
        **{f"{name}, lower half at {beta}": float(p[half:].sum()) for (name, beta), p in laws.items()},
        **{f"{name}, change from 1 to 8": 1 - overlap(laws[name, 1], laws[name, 8]) for name in NAMES},
        **{f"{name}, rows at {beta}": float(1 / (p**2).sum() / len(p)) for (name, beta), p in laws.items()},
    }


def run(size: Any, places: study.Places) -> dict[str, Any]:
    X, y = study.mnist(places, "train")
    X = X.reshape(len(X), -1)
    trials = [descending_scores(X, y, size, seed) for seed in range(size.n_trials)]
    measured = [{name: round(value, 4) for name, value in measures(scores).items()} for scores in trials]
    return {
        "n_labels": size.n_labels,
        "measures": {name: [trial[name] for trial in measured] for name in measured[0]},
        "scores": [float(f"{score:.4g}") for score in trials[0]],
    }


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    of = findings["measures"]
    n = len(findings["scores"])
    n_labels = findings["n_labels"]
    setting = (
        f"BALD scores of {n:,} rows of MNIST by an MLP with dropout and {n_labels} labels, another one in each trial"
    )
    common = study.estimate(of["overlap at 8, top tenth"])
    everywhere = study.estimate(of["overlap at 8"])
    same = "seen" if common.low >= 0.9 else "not seen" if common.high < 0.9 else "cannot be told"
    seldom = {name: [-x for x in of[f"{name}, lower half at 8"]] for name in NAMES}
    seldom_1 = {name: [-x for x in of[f"{name}, lower half at 1"]] for name in NAMES}
    change = {name: of[f"{name}, change from 1 to 8"] for name in NAMES}
    avoided = "minus the probability of the lower half"
    moved = "part of the law that moves"
    return [
        study.Claim(
            "At β = 8 power and softmax treat high-scoring rows alike (overlap of 0.9 or more in the top tenth)",
            setting,
            len(of["overlap at 8"]),
            f"overlap {study.with_interval(common)} there, {study.with_interval(everywhere)} over all rows",
            same,
            study.p_value(np.subtract(of["overlap at 8, top tenth"], 0.9)),
        ),
        study.better(
            f"Power avoids low scores more than softmax at β = 8 ({avoided})", setting, seldom, "power", "softmax", 4
        ),
        study.better(
            f"Power avoids low scores more than softmax at β = 1 ({avoided})", setting, seldom_1, "power", "softmax", 4
        ),
        study.better(
            f"Soft-rank depends more on β than power, from 1 to 8 ({moved})", setting, change, "softrank", "power"
        ),
        study.better(f"Soft-rank depends more on β than softmax ({moved})", setting, change, "softrank", "softmax"),
    ]


def draw(findings: dict[str, Any]) -> Any:
    scores, n_rows = np.array(findings["scores"]), len(findings["scores"])
    ranks = np.arange(1, n_rows + 1)
    figure, axes = study.panels(1 + len(NAMES), 2, 2.7, sharex=True)
    first, *others = axes.flat
    first.plot(ranks, scores, color="black")
    first.set(xscale="log", ylabel="BALD (nats)", title="scores")
    for ax, name in zip(others, NAMES, strict=True):
        for beta, look in zip(BETAS, study.shades(len(BETAS)), strict=True):
            ax.plot(ranks, law(name, scores, beta), label=f"β = {beta}", **look)
        ax.axhline(1 / n_rows, color=drawing.GREY, linestyle=(0, (1, 4)), label="uniform")
        ax.set(yscale="log", ylim=(1e-3 / n_rows, 2), ylabel="probability to be first", title=name)
    figure.supxlabel("rank of the score, 1 = highest", fontsize="medium")
    study.legend_above(figure, others[-1])
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
