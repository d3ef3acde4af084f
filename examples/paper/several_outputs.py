"""Several labels a row, and pixels: power against top-k and uniform, by the mean or the largest score of outputs.

Rows with labels are made by scikit-learn's ``make_multilabel_classification`` at three densities. Images are shapes of
three classes in noise, made here, and a small U-Net with dropout learns them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import study
import torch
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score, jaccard_score
from skorch import NeuralNetClassifier
from torch import nn

from skactive import StochasticBatchQuery

TITLE = "Several labels a row, and pixels"
ALT = (
    "Learning curves for labels at three densities and for pixels, by sampler and by what makes a row's score of its "
    "outputs: the bands of all arms overlap."
)

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"n_trials": 2, "n_rounds": 1, "densities": [2]},
    "quick": {"n_trials": 4, "n_rounds": 3, "densities": [1, 2, 4]},
    "full": {"n_trials": 8, "n_rounds": 4, "densities": [1, 2, 4]},
}
N_LABELS = 8
N_PIXELS = 16  # a side
SCORE = "bald"


def queries(beta: float) -> dict[str, Any]:
    """Arms: the sampler, and the reduction."""
    found: dict[str, Any] = {"uniform": StochasticBatchQuery(SCORE, sampler="uniform", n_draws=2)}
    for reduce in ("mean", "max"):
        how: Any = {"reduce": reduce, "n_draws": 20, "diversity": 0}
        found[f"topk {reduce}"] = StochasticBatchQuery(SCORE, "topk", **how)
        found[f"power {reduce}"] = StochasticBatchQuery(SCORE, "power", beta=beta, **how)
    return found


def labelled_rows(density: int) -> tuple[np.ndarray, np.ndarray]:
    """Made rows of `N_LABELS` labels, of which about ``density`` hold."""
    return make_multilabel_classification(700, 20, n_classes=N_LABELS, n_labels=density, random_state=0)


def shapes(n_images: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 1, side, side) of a disc, a square, both or none in noise, and the class of each pixel."""
    rng = np.random.default_rng(seed)
    across = np.arange(N_PIXELS)
    y = np.zeros((n_images, N_PIXELS, N_PIXELS), dtype=np.int64)
    for labels in y:
        (i, j), (k, m) = rng.integers(3, N_PIXELS - 3, size=(2, 2))
        radius = rng.uniform(2, 4)
        if rng.random() < 0.7:
            labels[(across[:, None] - i) ** 2 + (across - j) ** 2 <= radius**2] = 1
        if rng.random() < 0.3:
            labels[max(k - 3, 0) : k + 3, max(m - 3, 0) : m + 3] = 2
    brightness = np.array([0.0, 1.0, 1.0])  # which does not tell a disc from a square
    noise = rng.uniform(0.2, 1.0, size=(n_images, 1, 1)) * rng.normal(size=y.shape)
    return (brightness[y] + noise)[:, np.newaxis].astype(np.float32), y


class UNet(nn.Module):
    """Two levels, with dropout on both."""

    def __init__(self, n_channels: int = 8) -> None:
        super().__init__()
        self.top = nn.Sequential(nn.Conv2d(1, n_channels, 3, padding=1), nn.ReLU())
        wide = 2 * n_channels
        self.below = nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(n_channels, wide, 3, padding=1), nn.ReLU(), nn.Conv2d(wide, wide, 3, padding=1),
            nn.ReLU(), nn.Dropout2d(0.3), nn.ConvTranspose2d(wide, n_channels, 2, stride=2),
        )  # fmt: skip
        self.both = nn.Sequential(nn.Conv2d(wide, n_channels, 3, padding=1), nn.ReLU(), nn.Dropout2d(0.1))
        self.out = nn.Conv2d(n_channels, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        top = self.top(x)
        return self.out(self.both(torch.cat([top, self.below(top)], dim=1)))


def segmenter() -> NeuralNetClassifier:
    """The net, as it learns some dozen images in a second."""
    how = {"criterion": nn.CrossEntropyLoss, "optimizer": torch.optim.Adam, "lr": 0.01, "batch_size": 16}
    along_classes = partial(torch.softmax, dim=1)  # skorch's own is along the last axis
    return NeuralNetClassifier(
        UNet, max_epochs=40, train_split=None, verbose=0, predict_nonlinearity=along_classes, **how
    )


def macro_f1(model: Any, X: Any, y: np.ndarray) -> float:
    """Mean over labels."""
    return float(f1_score(y, model.predict(X), average="macro", zero_division=0))


def mean_jaccard(model: Any, X: Any, y: np.ndarray) -> float:
    """Overlap of predicted and true pixels, mean over classes."""
    return float(jaccard_score(y.ravel(), model.predict(X).ravel(), average="macro", zero_division=0))


def run(size: Any, places: study.Places) -> dict[str, Any]:
    how: dict[str, Any] = {"n_rounds": size.n_rounds, "n_trials": size.n_trials}
    found: dict[str, Any] = {}
    for density in size.densities:
        X, y = labelled_rows(density)
        forest, options = RandomForestClassifier(20), {"n_initial": 20, "batch_size": 10, **how}
        found[f"{density} of {N_LABELS} labels"] = _compared(places, forest, 4.0, X, y, macro_f1, options)
    X, y = shapes(200)
    options = {"n_initial": 6, "batch_size": 3, "test_size": 100, **how, "n_rounds": min(size.n_rounds, 3)}
    found["pixels"] = _compared(places, segmenter(), 4.0, X, y, mean_jaccard, options)
    return found


def _compared(
    places: study.Places, model: Any, beta: float, X: Any, y: Any, scoring: Callable[..., float], options: Any
) -> dict[str, Any]:
    name = f"several_outputs_{np.round(y.mean(), 3)}"
    result = places.compare(name, model, queries(beta), X, y, scoring=scoring, **options)
    return {"means": study.means(result), "curves": study.curves(result)}


def claims(findings: dict[str, Any]) -> list[study.Claim]:
    found = []
    for name, part in findings.items():
        last = max(int(n) for n in part["curves"]["uniform"])
        what = "Jaccard index" if name == "pixels" else "macro F1"
        setting, means = f"{name}, BALD, to {last} labelled, mean {what}", part["means"]
        for reduce in ("mean", "max"):
            power, topk = f"power {reduce}", f"topk {reduce}"
            found += [
                study.better(f"By the {reduce} of outputs, power is better than top-k", setting, means, power, topk),
                study.better(f"By the {reduce}, power is better than uniform", setting, means, power, "uniform"),
            ]
        found.append(study.better("The mean is better than the max", setting, means, "power mean", "power max"))
    return found


def draw(findings: dict[str, Any]) -> Any:
    """Curves, a panel for each kind of rows."""
    figure, axes = study.panels(len(findings), 2, 2.8)
    looks = {name: {**study.LOOKS[name.split()[0]]} for name in next(iter(findings.values()))["curves"]}
    for name, look in looks.items():
        look |= {"linestyle": "-."} if name.endswith("max") else {}
    for ax, (name, part) in zip(axes.flat, findings.items(), strict=False):
        study.draw_curves(ax, part["curves"], "Jaccard" if name == "pixels" else "macro F1", looks=looks)
        ax.set_title(name)
    study.legend_above(figure, axes[0, 0])
    return figure


if __name__ == "__main__":
    study.main(sys.modules[__name__])
