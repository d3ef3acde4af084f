"""Repeated-MNIST with the paper's net, reduced to what two cores can do: each digit once, twice and four times.

Each trial has images of its own, to buy and to test on.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import study
from torch import nn

from skactive import BADGEQuery, MCDropoutClassifier
from skactive.datasets import make_repeated

TITLE = "Repeated-MNIST, reduced"
ALT = (
    "Learning curves for one, two and four copies of each image, with wide bands, and below them differences to "
    "uniform: that of top-k falls from 4 points above 0 with one copy to 3 below with four."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "n_images": 40, "n_test": 50, "repeats": [1, 2], "max_epochs": 2},
    "quick": {"n_trials": 2, "n_rounds": 2, "n_images": 100, "n_test": 250, "repeats": [1, 4], "max_epochs": 20},
    "full": {"n_trials": 5, "n_rounds": 5, "n_images": 250, "n_test": 500, "repeats": [1, 2, 4], "max_epochs": 30},
}
N_INITIAL = 20
N_DRAWS = 20

QUERIES: dict[str, Any] = {
    "uniform": study.sampled("bald", sampler="uniform", n_draws=2),  # its scores are not looked at
    "topk": study.sampled("bald", sampler="topk", n_draws=N_DRAWS),
    "power": study.sampled("bald", beta=1.0, n_draws=N_DRAWS),
    "BADGE": BADGEQuery(),
}


def cnn(n_outputs: int) -> nn.Module:
    """Two blocks of convolution, dropout, pooling and ReLU, and 128 hidden units with dropout."""
    convolutions = [nn.Conv2d(1, 32, 5), nn.Dropout(0.5), nn.MaxPool2d(2), nn.ReLU()]
    convolutions += [nn.Conv2d(32, 64, 5), nn.Dropout(0.5), nn.MaxPool2d(2), nn.ReLU()]
    dense = [nn.Linear(1024, 128), nn.Dropout(0.5), nn.ReLU(), nn.Linear(128, n_outputs)]
    return nn.Sequential(*convolutions, nn.Flatten(), *dense)


def images(
    places: study.Places, size: Any, repeats: int
) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Noisy copies of images, then images to test on; splits give each trial its part of both."""
    (X, y), (X_test, y_test) = (study.mnist(places, split) for split in ("train", "test"))
    n, n_test = size.n_trials * size.n_images, size.n_trials * size.n_test
    copies, labels = make_repeated(X[:n, None], y[:n], repeats, 0.1, np.random.default_rng(0))
    parts = np.arange(n).reshape(size.n_trials, -1)
    tests = repeats * n + np.arange(n_test).reshape(size.n_trials, -1)
    splits = [
        (np.concatenate([part + i * n for i in range(repeats)]), test) for part, test in zip(parts, tests, strict=True)
    ]
    return np.concatenate([copies, X_test[:n_test, None]]), np.concatenate([labels, y_test[:n_test]]), splits


def run(size: Any, places: study.Places) -> dict[str, Any]:
    net = MCDropoutClassifier(module=cnn, batch_size=16, max_epochs=size.max_epochs, n_draws=5, device="cpu")
    found: dict[str, Any] = {"size": vars(size), "means": {}, "curves": {}}
    for repeats in size.repeats:
        X, y, splits = images(places, size, repeats)
        options = {"splits": splits, "n_initial": N_INITIAL, "n_rounds": size.n_rounds, "n_trials": size.n_trials}
        result = places.compare(f"repeated_mnist-{repeats}", net, QUERIES, X, y, batch_size=10, **options)
        found["means"][str(repeats)] = study.means(result)
        found["curves"][str(repeats)] = study.curves(result)
    return found


def setting(size: dict[str, Any], repeats: str) -> str:
    last = N_INITIAL + 10 * size["n_rounds"]
    return (
        f"{repeats} x {size['n_images']} images, the paper's net, BALD, {N_INITIAL} to {last} labels, 10 a batch; "
        f"reduced: the pool (paper: all of MNIST), {size['max_epochs']} epochs instead of early stopping, "
        f"{N_DRAWS} draws instead of 100, tested on {size['n_test']} images"
    )


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    size, found = findings["size"], []
    for repeats, means in findings["means"].items():
        where, times = setting(size, repeats), f"×{repeats}"
        found += [
            study.better(f"{times}: power sampling is better than top-k", where, means, "power", "topk"),
            study.better(f"{times}: power sampling is better than uniform", where, means, "power", "uniform"),
            study.alike(
                f"{times}: power sampling is as good as BADGE, or better", where, means, "power", "BADGE", 0.02
            ),
        ]
    few, many = (str(size["repeats"][i]) for i in (0, -1))
    gains = {r: np.subtract(findings["means"][r]["power"], findings["means"][r]["topk"]).tolist() for r in (few, many)}
    gains = {f"power − topk ×{r}": values for r, values in gains.items()}
    where = setting(size, f"{few} and {many}")
    found.append(study.better("The more copies, the more top-k loses", where, gains, *reversed(gains)))
    return found


def draw(findings: dict[str, Any]) -> Any:
    """Curves, and mean differences to uniform, a column for each number of copies."""
    columns = findings["curves"]
    figure, axes = study.panels(2 * len(columns), len(columns), 2.5, height_ratios=[2, 1], sharex="row", sharey="row")
    for (top, bottom), (repeats, curves) in zip(axes.T, columns.items(), strict=True):
        study.draw_curves(top, curves, "accuracy" if top is axes[0, 0] else "", topk="top-k")
        top.set_title(f"copies of each image: {repeats}")
        study.draw_differences(bottom, findings["means"][repeats], list(QUERIES)[1:], "uniform", topk="top-k")
    figure.supxlabel("mean accuracy minus uniform's, points, with 95 % intervals", fontsize="medium")
    study.legend_above(figure, axes[0, 0])
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
