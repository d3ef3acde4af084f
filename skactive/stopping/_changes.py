"""What labels changed: predictions of a model before and after a batch, on rows without a label."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _containers as chunks
from .._checks import as_array, check_one_output, kind_of_labels, task

Values = NDArray[np.float64]

MOST_ROWS = 1_000
"""Rows that are compared: enough for a standard error of at most 1.6 points."""

_MOST_BYTES = 8 * 2**20  # of these rows, which a learner keeps between reports


@dataclass(frozen=True)
class Kept:
    """Rows of a pool, what a model predicts for them, and the model.

    Attributes
    ----------
    X : array-like of shape (n_rows, ...)
    predictions : ndarray of shape (n_rows,)
    probabilities : ndarray of shape (n_rows, n_classes) or None
        None if predictions are not the most probable labels.
    classes : ndarray of shape (n_classes,) or None
    is_all : bool
        Whether they are the whole pool.
    n_labels : int
        Labels that the model had.
    model : estimator or None
        A copy, as learners fit the same object again; None of what cannot be copied.
    """

    X: Any
    predictions: NDArray[Any]
    probabilities: Values | None
    classes: NDArray[Any] | None
    is_all: bool
    n_labels: int
    model: Any

    @classmethod
    def of(cls, estimator: Any, X_pool: Any, n_labels: int, rng: np.random.Generator) -> Kept:
        """Rows at random, at most ``MOST_ROWS``."""
        n = chunks.count_rows(X_pool)
        n_kept = min(n, MOST_ROWS, chunks.rows_per_chunk(X_pool, 1, _MOST_BYTES)) if n else 0
        X = chunks.take_rows(X_pool, np.sort(rng.choice(n, n_kept, replace=False)) if n else np.arange(0))
        predictions, probabilities = answers_of(estimator, X, n_kept) if n else (np.empty(0), None)
        classes = None if probabilities is None else np.array(estimator.classes_)
        return cls(X, predictions, probabilities, classes, n_kept == n, n_labels, _copy_of(estimator))

    def without(self, X_training: Any) -> Kept:
        """Those that are not among these rows, by value: whatever type of number or container holds them."""
        taught = set(chunks.row_keys(X_training))
        left = np.array([key not in taught for key in chunks.row_keys(self.X)], dtype=bool)
        probabilities = None if self.probabilities is None else self.probabilities[left]
        X = chunks.take_rows(self.X, np.flatnonzero(left))
        return replace(self, X=X, predictions=self.predictions[left], probabilities=probabilities)

    def judged(self, later: Kept, judge: Any, scoring: str) -> float:
        """How much better the predictions of a later model are than those kept here, by a third model's probabilities.

        The third knows more labels than either. A model that judges itself finds its own mistakes right: where two
        models differ by chance alone, it always takes its own side.
        """
        n_rows = len(self.predictions)
        chance = answers_of(judge, self.X, n_rows)[1] if n_rows and later.model is not None else None
        if chance is None or self.probabilities is None:
            return np.nan
        now = answers_of(later.model, self.X, n_rows)[1]
        if now is None:
            return np.nan
        known = np.asarray(judge.classes_)
        sides = _aligned(self.probabilities, self.classes, known), _aligned(now, later.classes, known)
        return MEASURES[scoring](chance, *sides)


def answers_of(estimator: Any, X: Any, n_rows: int) -> tuple[NDArray[Any], Values | None]:
    """Predictions, and the probabilities of all classes if predictions are the most probable ones."""
    predictions = _check_predictions(estimator.predict(X), n_rows)
    if task(estimator) == "regressor" or not hasattr(estimator, "predict_proba"):
        return predictions, None
    probabilities = np.asarray(check_one_output(estimator.predict_proba(X), estimator), dtype=float)
    chosen = (probabilities * (predictions[:, None] == np.asarray(estimator.classes_))).sum(axis=1)
    return predictions, None if np.any(chosen < probabilities.max(axis=1) - 1e-6) else probabilities


def _copy_of(estimator: Any) -> Any:
    try:
        return copy.deepcopy(estimator)
    except Exception:  # of what holds a lock, say: then nothing can be said of its trust in itself
        return None


@dataclass(frozen=True)
class Change:
    """How the predictions of a model differ from those of the model before, and what that is worth.

    Attributes
    ----------
    gain : float
        In terms of ``measure``; see `skactive.StoppingReport`. NaN where the next model must judge it.
    changed : float
        Fraction of predictions that differ; NaN for regressors.
    measure : {"probabilities", "changes", "movement"}
    n_rows : int
        Rows that were compared.
    is_all : bool
        Whether these are all remaining rows of the pool.
    """

    gain: float
    changed: float
    measure: str
    n_rows: int
    is_all: bool

    @classmethod
    def since(cls, before: Kept, estimator: Any, y_training: Any) -> Change:
        """Compare with the predictions of a model with fewer labels, on rows without one."""
        n_rows = len(before.predictions)
        if n_rows == 0:  # nothing to compare: unknown, not nothing
            measure = "movement" if task(estimator) == "regressor" else "changes"
            return cls(np.nan, np.nan, measure, 0, before.is_all)
        now, chance = answers_of(estimator, before.X, n_rows)
        _check_same_kind(before.predictions, now)
        if task(estimator) == "regressor":
            gain, changed, measure = _movement(now - before.predictions, y_training), np.nan, "movement"
        else:
            changed = float(np.mean(now != before.predictions))
            gain, measure = changed, "changes"
            if chance is not None and before.probabilities is not None and before.model is not None:
                gain, measure = np.nan, "probabilities"  # which another model has to judge
        return cls(gain, changed, measure, n_rows, before.is_all)


def _aligned(probabilities: Values, classes: Any, classes_now: Any) -> Values:
    """Probabilities then, in the order of the classes of now: none of classes that were not known."""
    then = np.zeros((len(probabilities), len(classes_now)))
    places = {label: i for i, label in enumerate(np.asarray(classes_now).tolist())}
    for column, label in enumerate(np.asarray(classes).tolist()):
        if label in places:
            then[:, places[label]] = probabilities[:, column]
    return then


def _movement(changes: NDArray[Any], y_training: Any) -> float:
    """Mean square of the changes in units of the variance of labels."""
    moved, spread = float(np.mean(changes**2)), float(np.var(y_training))
    return moved / spread if spread > 0 else float(moved > 0)


def _check_predictions(predictions: Any, n_rows: int) -> NDArray[Any]:
    """Check that there is one prediction a row, and return them with one axis."""
    predictions = as_array(predictions)
    if predictions.shape not in ((n_rows,), (n_rows, 1)):
        raise ValueError(
            f"`learner` must predict one target. Got predictions of shape {predictions.shape} for {n_rows} rows. "
            "Report on each target with a separate model."
        )
    return predictions.reshape(n_rows)


def _check_same_kind(before: NDArray[Any], now: NDArray[Any]) -> None:
    """Check that predictions can be compared."""
    kinds = [kind_of_labels(labels) for labels in (before, now)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"`previous` must be a report on the same kind of labels. Its predictions were {kinds[0]}, and now they "
            f"are {kinds[1]}. Omit `previous` to start again."
        )


# --- what a change of predictions is worth, by a model's own probabilities -------------------------

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
