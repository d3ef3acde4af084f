"""Losses of a model, one number a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import as_array, kind_of_labels, task
from ._checks import check_kind


def _zero_one(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    if task(estimator) == "regressor":
        raise TypeError(
            "`estimator` must be a classifier: a regressor has no accuracy and no `zero_one` loss. Got a "
            f'{type(estimator).__name__}. Use risk(estimator, "squared_error").'
        )
    predictions = as_array(estimator.predict(X)).reshape(y.shape)
    check_kind(predictions, y)
    return (predictions != y).astype(np.float64)


def _log_loss(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    """Minus the log of the label's probability, which is 0 for unknown labels, and clipped to the float64 precision."""
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"`loss`='log_loss' needs predict_proba, and {type(estimator).__name__} has none. Use loss=\"zero_one\"."
        )
    probabilities = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    check_kind(np.asarray(estimator.classes_), y)
    of_label = (probabilities * (y[:, np.newaxis] == np.asarray(estimator.classes_))).sum(axis=1)
    return -np.log(of_label.clip(np.finfo(np.float64).eps, 1.0))


def _squared_error(estimator: Any, X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
    predictions = as_array(estimator.predict(X))
    for name, values in (("labels", y), ("estimator", predictions)):
        if kind_of_labels(values) != "numbers":
            raise TypeError(f"`{name}` must give numbers for `squared_error`. Got {values.item(0)!r}.")
    return np.square(predictions.astype(np.float64).reshape(y.shape) - y)


LOSSES: dict[str, Callable[..., Any]] = {
    "log_loss": _log_loss,
    "squared_error": _squared_error,
    "zero_one": _zero_one,
}
"""Losses by name: ``loss(estimator, X, y) -> (n_points,)``, one number a row."""
