"""Measures of a model that are no means over rows: computed with weights, with an interval by resampling."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer

from .._utils import html
from .._utils.validation import task
from ._estimates import LEVEL
from ._weights import Weights

_METHODS = ("predict", "predict_proba", "decision_function")


@dataclass(frozen=True)
class PlugInEstimate:
    """A measure of a model from weighted labels, which is right in the limit of many labels only.

    Attributes
    ----------
    value : float
    n_labelled : int
    resampled : ndarray of shape (n_resamples,), float64
        The measure of labels drawn with replacement; without those in which it was not defined.
    is_exact : bool
        Whether the whole pool is labelled.

    See Also
    --------
    risk.ActiveTester : Its ``measure`` returns one.
    risk.RiskEstimate : Unbiased, for means of losses.
    """

    value: float
    n_labelled: int
    resampled: NDArray[np.float64] = field(repr=False)
    is_exact: bool = False

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Percentiles of the resampled values; NaN if these are all equal, and so tell nothing of the spread."""
        LEVEL.check("level", level)
        if self.is_exact:
            return self.value, self.value
        if len(self.resampled) == 0 or np.ptp(self.resampled) == 0:
            return np.nan, np.nan
        low, high = np.quantile(self.resampled, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def __str__(self) -> str:
        value, interval, n_labelled = self._texts()
        return f"{value} (95 % interval {interval}, by resampling), from {n_labelled} labels; weighted, not unbiased"

    def _repr_html_(self) -> str:
        head = ["", "estimate", "95 % interval, by resampling", "labels"]
        return html.card("", [html.Table([["measure", *self._texts()]], head=head)], note="Weighted, not unbiased.")

    def _texts(self) -> list[str]:
        """Value, interval and labels."""
        low, high = self.interval()
        return [f"{self.value:.4g}", f"{low:.3g} to {high:.3g}", str(self.n_labelled)]


def plug_in(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    weights: Weights,
    scoring: str | Callable[..., Any],
    n_resamples: int,
    rng: np.random.Generator,
) -> PlugInEstimate:
    """The measure of these labels, and of labels resampled from them. The model is asked once."""
    scorer = get_scorer(scoring)
    answers, rows = _answers(estimator, X), np.arange(len(y))
    try:
        value = float(scorer(answers, rows, y, sample_weight=weights))
    except TypeError as error:
        raise TypeError(f"`scoring` must take `sample_weight`, and {scoring!r} does not: {error}") from error
    resampled = []
    for _ in range(n_resamples):
        drawn = np.sort(rng.integers(len(y), size=len(y)))
        with warnings.catch_warnings(), suppress(ValueError):  # not defined for one class
            warnings.simplefilter("ignore", UserWarning)  # of labels without one of the classes
            resampled.append(float(scorer(answers, rows[drawn], y[drawn], sample_weight=weights[drawn])))
    found = np.array(resampled, dtype=np.float64)
    return PlugInEstimate(value, len(y), found[np.isfinite(found)], is_exact=n_resamples == 0)


class _Classifier(ClassifierMixin, BaseEstimator):
    pass


class _Regressor(RegressorMixin, BaseEstimator):
    pass


def _answers(estimator: Any, X: Any) -> Any:
    """An estimator that answers for the rows of X by their positions, as the model did when it was asked once."""
    known = _Regressor() if task(estimator) == "regressor" else _Classifier()
    for name in _METHODS:
        if hasattr(estimator, name):
            setattr(known, name, _recalled(name, np.asarray(getattr(estimator, name)(X))))
    if hasattr(estimator, "classes_"):
        known.classes_ = np.asarray(estimator.classes_)
    return known


def _recalled(name: str, answer: NDArray[Any]) -> Callable[[Any], NDArray[Any]]:
    def recall(rows: Any) -> NDArray[Any]:
        return answer[rows]

    recall.__name__ = name  # by which scikit-learn finds out what it is
    return recall
