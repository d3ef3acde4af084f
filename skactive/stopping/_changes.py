"""What labels changed: predictions of a model before and after a batch, on rows without a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _containers as chunks
from .._checks import as_array, check_one_output, kind_of_labels, task
from ..query._reference import MOST_BYTES

MOST_ROWS = 1_000
"""Rows that are compared: enough for a standard error of at most 1.6 points."""


@dataclass(frozen=True)
class Kept:
    """Rows of a pool, and what a model predicts for them.

    Attributes
    ----------
    X : array-like of shape (n_rows, ...)
    predictions : ndarray of shape (n_rows,)
    is_all : bool
        Whether they are the whole pool.
    """

    X: Any
    predictions: NDArray[Any]
    is_all: bool

    @classmethod
    def of(cls, estimator: Any, X_pool: Any, rng: np.random.Generator) -> Kept:
        """Rows at random, at most ``MOST_ROWS``."""
        n = chunks.count_rows(X_pool)
        n_kept = min(n, MOST_ROWS, chunks.rows_per_chunk(X_pool, 1, MOST_BYTES)) if n else 0
        X = chunks.take_rows(X_pool, np.sort(rng.choice(n, n_kept, replace=False)) if n else np.arange(0))
        predictions = _check_predictions(estimator.predict(X), n_kept) if n else np.empty(0)
        return cls(X, predictions, n_kept == n)

    def without(self, X_training: Any) -> Kept:
        """Those that are not among these rows, by value: whatever type of number or container holds them."""
        taught = set(chunks.row_keys(X_training))
        left = np.array([key not in taught for key in chunks.row_keys(self.X)], dtype=bool)
        return Kept(chunks.take_rows(self.X, np.flatnonzero(left)), self.predictions[left], self.is_all)


@dataclass(frozen=True)
class Change:
    """How the predictions of a model differ from those of the model before, and what that is worth.

    Attributes
    ----------
    gain : float
        In terms of ``measure``; see `skactive.StoppingReport`.
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
        """Compare with the predictions of a model with more labels, on rows without one."""
        n_rows = len(before.predictions)
        if n_rows == 0:  # nothing to compare: unknown, not nothing
            measure = "movement" if task(estimator) == "regressor" else "changes"
            return cls(np.nan, np.nan, measure, 0, before.is_all)
        now = _check_predictions(estimator.predict(before.X), n_rows)
        _check_same_kind(before.predictions, now)
        if task(estimator) == "regressor":
            gain, changed, measure = _movement(now - before.predictions, y_training), np.nan, "movement"
        else:
            differs = now != before.predictions
            changed = float(differs.mean())
            worth = _worth(estimator, before, now)
            gain, measure = (changed, "changes") if worth is None else (worth, "probabilities")
        return cls(gain, changed, measure, n_rows, before.is_all)


def _movement(changes: NDArray[Any], y_training: Any) -> float:
    """Mean square of the changes in units of the variance of labels."""
    moved, spread = float(np.mean(changes**2)), float(np.var(y_training))
    return moved / spread if spread > 0 else float(moved > 0)


def _worth(estimator: Any, before: Kept, now: NDArray[Any]) -> float | None:
    """How much more accurate the estimator expects its predictions to be; None if that is unknown."""
    if not hasattr(estimator, "predict_proba"):
        return None
    probabilities = check_one_output(estimator.predict_proba(before.X), estimator)
    classes = np.asarray(estimator.classes_)
    right = [(probabilities * (labels[:, None] == classes)).sum(axis=1) for labels in (before.predictions, now)]
    if np.any(right[1] < probabilities.max(axis=1) - 1e-6):  # it predicts other labels than the most probable ones
        return None
    return float(np.mean(right[1] - right[0]))


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
