"""What is measured of a model: losses, one number a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._utils.validation import ParameterError, as_array, classes_of, kind_of_labels, task
from ..posterior._registry import class_probabilities

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
    labels = np.union1d(*(classes_of(model) for model in models))
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
        other = "squared_error" if task(estimator) == "regressor" else "zero_one"
        raise TypeError(f"`loss` needs predict_proba, and {type(estimator).__name__} has none. There is `{other}`.")
    check_kind(classes_of(estimator), y)
    probabilities, classes = class_probabilities(estimator, X)
    return probabilities, y[:, np.newaxis] == classes


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
    if kind_of_labels(known) != kind_of_labels(y):
        raise ParameterError(
            f"`labels` must be of the kind that the model knows, such as {known.item(0)!r}. Got {y.item(0)!r}."
        )
