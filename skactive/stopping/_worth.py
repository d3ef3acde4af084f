"""What a change of predictions is worth, by a model's own probabilities, in terms of a measure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

TINY = 1e-6
"""Least probability in a log loss: that of a leaf with one label is no certainty."""


def accuracy(chance: Values, then: Values, now: Values) -> float:
    """Probability of the most probable label now, less that of what was the most probable one then."""
    rows = np.arange(len(chance))
    return float(np.mean(chance[rows, now.argmax(axis=1)] - chance[rows, then.argmax(axis=1)]))


def balanced_accuracy(chance: Values, then: Values, now: Values) -> float:
    """Mean over classes of the gain in recall: each row counts for a class with its chance of being of it."""
    classes = np.arange(chance.shape[1])
    of_class = chance.sum(axis=0)
    gains = [chance[(now.argmax(axis=1) == c), c].sum() - chance[(then.argmax(axis=1) == c), c].sum() for c in classes]
    expected = of_class > 0
    return float(np.mean(np.array(gains)[expected] / of_class[expected]))


def log_loss(chance: Values, then: Values, now: Values) -> float:
    """Fall of the log loss, in nats."""
    old, new = (np.log(np.clip(p, TINY, 1)) for p in (then, now))
    return float(np.mean(np.sum(chance * (new - old), axis=1)))


def average_precision(chance: Values, then: Values, now: Values) -> float:
    """Gain in average precision of each class against the others, mean over classes; of two, that of the rarer one."""
    classes = np.arange(chance.shape[1])
    if len(classes) == 2:
        classes = classes[[int(chance[:, 1].sum() <= chance[:, 0].sum())]]
    return float(np.mean([_precision(chance[:, c], now[:, c]) - _precision(chance[:, c], then[:, c]) for c in classes]))


def _precision(chance: Values, ranking: Values) -> float:
    """Average precision of a ranking of rows, each of which is of the class with some chance; ties come together."""
    _, place, counts = np.unique(-ranking, return_inverse=True, return_counts=True)
    found = np.bincount(place, weights=chance)
    precision = found.cumsum() / counts.cumsum()
    return float(found @ precision / found.sum()) if found.sum() > 0 else 0.0


MEASURES: dict[str, Callable[[Values, Values, Values], float]] = {
    "accuracy": accuracy,
    "average_precision": average_precision,
    "balanced_accuracy": balanced_accuracy,
    "log_loss": log_loss,
}
"""Each takes the chances of all labels, and the probabilities then and now; all of shape (n_rows, n_classes)."""
