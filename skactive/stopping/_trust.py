"""How far a model can be trusted about itself, seen on labels that it had not been taught when it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import as_array

MOST_BATCHES = 10
"""Batches that are looked back on: what a model was like before is of no use."""

SURE = 2.576
"""Standard errors that a slope must be off 0: 99 %, as reports are looked at again and again."""

_PRIOR = 0.5
"""Weight of the assumption that a model is right about itself: that of two labels of which it is sure."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Tested:
    """Labels of one batch, against what the model before it had said of them.

    Attributes
    ----------
    confidence : ndarray of shape (n_rows,)
        Probability of the predicted label, less that of a guess.
    right : ndarray of shape (n_rows,)
        1 or 0, less the same.
    progress : ndarray of shape (n_rows,)
        1 where this model was right and one of fewer labels wrong, -1 where it was the other way round, else 0; none
        where no earlier model is known.
    guess : float
        Chance of a guess among the classes that the model knew.
    """

    confidence: Values
    right: Values
    progress: Values
    guess: float

    @classmethod
    def of(cls, model: Any, earlier: Any, X: Any, y: NDArray[Any]) -> Tested | None:
        """None if the model has no probabilities, or does not predict the most probable labels."""
        if len(y) == 0 or not hasattr(model, "predict_proba"):
            return None
        predictions = as_array(model.predict(X)).reshape(len(y))
        probabilities = as_array(model.predict_proba(X)).astype(float)
        guess = 1 / max(2, probabilities.shape[1])
        is_right = predictions == y
        progress = np.empty(0)
        if earlier is not model:
            progress = is_right.astype(float) - (as_array(earlier.predict(X)).reshape(len(y)) == y)
        return cls(probabilities.max(axis=1) - guess, is_right - guess, progress, guess)


@dataclass(frozen=True)
class Trust:
    """The slope of right against sure: 1 for a model that knows how good it is, 0 where confidence tells nothing.

    Attributes
    ----------
    slope : float
        From 0 to 1.
    low, high : float
        Its 99 % interval; 0 to 1 with no labels.
    n_labels : int
    confidence, right : float
        Mean probability of the predicted labels, and the part of them that were right; NaN with no labels.
    progress : float
        How much more often right than models of fewer labels, on the same labels; NaN with no labels.
    progress_error : float
        Its standard error.
    """

    slope: float = 1.0
    low: float = 0.0
    high: float = 1.0
    n_labels: int = 0
    confidence: float = np.nan
    right: float = np.nan
    progress: float = np.nan
    progress_error: float = np.nan

    @classmethod
    def of(cls, tested: Sequence[Tested]) -> Trust:
        """From the last batches: least squares through the guess, with an error that allows for unequal spread."""
        if not tested:
            return cls()
        x, y, progress = (
            np.concatenate([getattr(batch, name) for batch in tested]) for name in ("confidence", "right", "progress")
        )
        weight = float(x @ x) + _PRIOR
        slope = (float(x @ y) + _PRIOR) / weight
        error = float(np.sqrt(np.sum((x * (y - slope * x)) ** 2) + _PRIOR * 0.25)) / weight
        low, middle, high = np.clip([slope - SURE * error, slope, slope + SURE * error], 0, 1)
        guess = float(np.average([batch.guess for batch in tested], weights=[len(batch.right) for batch in tested]))
        n_both = len(progress)
        return cls(
            slope=float(middle),
            low=float(low),
            high=float(high),
            n_labels=len(x),
            confidence=float(x.mean()) + guess,
            right=float(y.mean()) + guess,
            progress=float(progress.mean()) if n_both else np.nan,
            progress_error=float(progress.std() / np.sqrt(n_both)) if n_both else np.nan,
        )

    @property
    def is_wrong_about_itself(self) -> bool:
        """Whether the model is surely less often right than it is sure."""
        return self.high < 1 and self.right < self.confidence
