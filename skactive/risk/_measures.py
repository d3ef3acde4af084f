"""What is measured of a model: losses, one number a row, and measures that are no means over rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer

from .._utils import html
from .._utils.validation import ParameterError, as_array, kind_of_labels, task
from ._estimates import LEVEL
from ._weights import Weights

Loss = Callable[..., Any]


def _zero_one(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    if task(estimator) == "regressor":
        raise TypeError("`estimator` must be a classifier for `zero_one`. For a regressor there is `squared_error`.")
    predictions = as_array(estimator.predict(X)).reshape(y.shape)
    check_kind(predictions, y)
    return (predictions != y).astype(np.float64)


def _log_loss(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    """Minus the log of the label's probability, which is 0 for unknown labels, and clipped to the float64 precision."""
    return _cost(_of_label(*_probabilities(estimator, X, y)))


def _cost(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    return -np.log(probability.clip(np.finfo(np.float64).eps, 1.0))


def log_ratios(models: Sequence[Any], X: Any) -> NDArray[np.float64]:
    """The most that a label can cost one of two models more than the other, by row; one that both do not know: 0."""
    labels = np.union1d(*(model.classes_ for model in models))
    of_labels = (_probabilities(model, X, labels) for model in models)
    costs = [_cost(probabilities @ is_label.T) for probabilities, is_label in of_labels]
    return np.abs(costs[0] - costs[1]).max(axis=1)


def _brier(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    """Squared distance of the probabilities from certainty of the label (Brier, 1950): 0 to 2, also for two classes."""
    probabilities, is_label = _probabilities(estimator, X, y)
    losses = np.square(probabilities).sum(axis=1) - 2 * _of_label(probabilities, is_label) + 1
    return losses.clip(0.0, 2.0)  # by rounding, probabilities in float32 can add up to more than 1


def _of_label(probabilities: NDArray[np.float64], is_label: NDArray[np.bool_]) -> NDArray[np.float64]:
    return (probabilities * is_label).sum(axis=1)


def _probabilities(estimator: Any, X: Any, y: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Probabilities (n, n_classes), and which class the label is: none for one that the model does not know."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(f"`loss` needs predict_proba, and {type(estimator).__name__} has none. There is `zero_one`.")
    check_kind(np.asarray(estimator.classes_), y)
    is_label = y[:, np.newaxis] == np.asarray(estimator.classes_)
    return np.asarray(estimator.predict_proba(X), dtype=np.float64), is_label


def _squared_error(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    return np.square(_errors(estimator, X, y, "squared_error"))


def _absolute_error(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    return np.abs(_errors(estimator, X, y, "absolute_error"))


def _errors(estimator: Any, X: Any, y: NDArray[Any], loss: str) -> NDArray[np.float64]:
    predictions = as_array(estimator.predict(X))
    for name, values in (("labels", y), ("estimator", predictions)):
        if kind_of_labels(values) != "numbers":
            raise TypeError(f"`{name}` must give numbers for `{loss}`. Got {values.item(0)!r}.")
    return predictions.astype(np.float64).reshape(y.shape) - y


LOSSES: dict[str, Loss] = {
    "absolute_error": _absolute_error,
    "brier": _brier,
    "log_loss": _log_loss,
    "squared_error": _squared_error,
    "zero_one": _zero_one,
}
"""Losses by name: ``loss(estimator, X, y) -> (n_points,)``, one a row."""

LARGEST = {"brier": 2.0, "log_loss": float(-np.log(np.finfo(np.float64).eps)), "zero_one": 1.0}
"""The most that the loss of a row can be, where there is a bound: intervals go by it."""


def check_kind(known: NDArray[Any], y: NDArray[Any]) -> None:
    """Check that labels are of the kind that a model knows: numbers never equal text."""
    if kind_of_labels(known) != kind_of_labels(y):
        raise ParameterError(
            f"`labels` must be of the kind that the model knows, such as {known.item(0)!r}. Got {y.item(0)!r}."
        )


# --- measures that are no means over rows: computed with weights, with an interval by resampling ------


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


def _answers(estimator: Any, X: Any) -> Any:
    """An estimator that answers for the rows of X by their positions, as the model did when it was asked once."""
    mixin = RegressorMixin if task(estimator) == "regressor" else ClassifierMixin
    known = type("Answers", (mixin, BaseEstimator), {})()
    for name in ("predict", "predict_proba", "decision_function"):
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
