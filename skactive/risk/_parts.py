"""What an estimate is made of: losses, one number per row, and weights of picks that remove the bias of a query."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._utils.types import Floats
from .._utils.validation import ParameterError, as_array, classes_of, float64_array, is_integer, kind_of_labels, task
from ..posterior._registry import class_probabilities

Loss = Callable[..., Any]


def _zero_one(estimator: Any, X: Any, y: NDArray[Any]) -> Floats:
    if task(estimator) == "regressor":
        raise TypeError("`estimator` must be a classifier for `zero_one`. For a regressor there is `squared_error`.")
    predictions = as_array(estimator.predict(X)).reshape(y.shape)
    check_kind(predictions, y)
    return (predictions != y).astype(np.float64)


def _log_loss(estimator: Any, X: Any, y: NDArray[Any]) -> Floats:
    """Minus the log of the label's probability, which is 0 for unknown labels, and clipped to the float64 precision."""
    return _cost(_of_label(*_probabilities(estimator, X, y)))


def _cost(probability: Floats) -> Floats:
    return -np.log(probability.clip(np.finfo(np.float64).eps, 1.0))


def log_ratios(models: Sequence[Any], X: Any) -> Floats:
    """The most that a label can cost one of two models more than the other, by row; one that both do not know: 0."""
    labels = np.union1d(*(classes_of(model) for model in models))
    of_labels = (_probabilities(model, X, labels) for model in models)
    costs = [_cost(probabilities @ is_label.T) for probabilities, is_label in of_labels]
    return np.abs(costs[0] - costs[1]).max(axis=1)


def _brier(estimator: Any, X: Any, y: NDArray[Any]) -> Floats:
    """Squared distance of the probabilities from certainty of the label (Brier, 1950): 0 to 2, also for two classes."""
    probabilities, is_label = _probabilities(estimator, X, y)
    losses = np.square(probabilities).sum(axis=1) - 2 * _of_label(probabilities, is_label) + 1
    return losses.clip(0.0, 2.0)  # by rounding, probabilities in float32 can add up to more than 1


def _of_label(probabilities: Floats, is_label: NDArray[np.bool_]) -> Floats:
    return (probabilities * is_label).sum(axis=1)


def _probabilities(estimator: Any, X: Any, y: NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
    """Probabilities (n, n_classes), and which class the label is: none for one that the model does not know."""
    if not hasattr(estimator, "predict_proba"):
        other = "squared_error" if task(estimator) == "regressor" else "zero_one"
        raise TypeError(f"`loss` needs predict_proba, but {type(estimator).__name__} has none. Use `{other}`.")
    check_kind(classes_of(estimator), y)
    probabilities, classes = class_probabilities(estimator, X)
    return probabilities, y[:, np.newaxis] == classes


def _squared_error(estimator: Any, X: Any, y: NDArray[Any]) -> Floats:
    return np.square(_errors(estimator, X, y, "squared_error"))


def _absolute_error(estimator: Any, X: Any, y: NDArray[Any]) -> Floats:
    return np.abs(_errors(estimator, X, y, "absolute_error"))


def _errors(estimator: Any, X: Any, y: NDArray[Any], loss: str) -> Floats:
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
"""Losses by name: ``loss(estimator, X, y) -> (n_points,)``, one per row."""

LARGEST = {"brier": 2.0, "log_loss": float(-np.log(np.finfo(np.float64).eps)), "zero_one": 1.0}
"""The most that the loss of a row can be, where there is a bound, which intervals use."""


def check_kind(known: NDArray[Any], y: NDArray[Any]) -> None:
    if kind_of_labels(known) != kind_of_labels(y):
        raise ParameterError(
            f"`labels` must be of the same kind as those of the model, such as {known.item(0)!r}. Got {y.item(0)!r}."
        )


_LEAST_LOG_PROBA = -690.0  # below it, weights come near the largest float64
_MOST_LOG_WEIGHT = 300.0
_ROUNDING = 1e-9  # by which a probability of 1 may seem to be above it


def lure_weights(log_proba: ArrayLike, n_pool: int) -> Floats:
    r"""Weights that make the mean over picks an unbiased estimate of the mean over the pool.

    :math:`v_m = 1 + \frac{N - M}{N - m} \left( \frac{1}{(N - m + 1) q_m} - 1 \right)`. Never negative, 1 each when the
    whole pool was bought or all picks were uniform, so they serve as ``sample_weight`` of an unbiased training loss.

    Parameters
    ----------
    log_proba : array-like of shape (n_labelled,)
        Log-probability of each pick among the rows left, given the picks before it, in the order of purchase:
        ``query.log_proba_``, concatenated over rounds; not that of batches with `Limits`, which exclude rows. For a
        first batch chosen uniformly it is ``-numpy.log(n_pool - numpy.arange(n_first))``.
    n_pool : int
        Rows before the first pick. Each pick removes one row; the pool must not change otherwise.

    Returns
    -------
    ndarray of shape (n_labelled,), float64

    References
    ----------
    Farquhar, Gal and Rainforth (2021), On Statistical Bias in Active Learning: How and When to Fix It, R_LURE.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.risk import lure_weights
    >>> lure_weights(np.log([0.5, 0.25]), n_pool=10).round(3)
    array([0.289, 0.444])
    """
    log_proba = check_log_proba(log_proba, n_pool)
    n_labelled = len(log_proba)
    if n_labelled == n_pool:
        return np.ones(n_labelled)
    left = n_pool - np.arange(n_labelled)
    return 1 + (n_pool - n_labelled) / (left - 1) * (np.exp(-log_proba) / left - 1)


def largest_of(log_proba: Floats, n_labelled: int) -> float:
    r"""The largest weight of a pick behind which an unseen risk could hide.

    Rows that are hardly ever picked have large weights. But if few rows have such weights, no large part of a risk can
    be theirs. So this is :math:`\max_w \min(w, M \cdot \text{share of rows of weight} \ge w)`, and 1 at least.
    ``log_proba`` (n_pool,) are those of each row to be the first pick; -inf, of rows out of reach, are left out.
    """
    log_proba = np.sort(log_proba[log_proba > -np.inf])[::-1]
    # relative to uniform picks, in increasing order; so large that nothing is known of a row, and still finite
    weights = np.exp(np.minimum(-log_proba - math.log(len(log_proba)), _MOST_LOG_WEIGHT))
    share = 1 - np.arange(len(weights)) / len(weights)
    return max(1.0, float(np.minimum(weights, n_labelled * share).max()))


def largest_bound(bounds: Floats, n_labelled: float, n_pool: int) -> float:
    """The largest loss behind which a risk could hide, of what each row without a label can cost.

    As of `largest_of`, no large part of a risk can be that of a few rows: max over b of min(b, M · share), where all
    rows that can cost b or more have that share of the pool's mean at most.
    """
    bounds = np.sort(bounds)[::-1]
    return float(np.minimum(bounds, n_labelled * bounds.cumsum() / n_pool).max(initial=0.0))


def check_log_proba(log_proba: Any, n_pool: Any) -> Floats:
    """Log-probabilities of picks as an array, none of them impossible, of a pool with at least as many rows."""
    if log_proba is None:
        raise TypeError("`log_proba` must be `query.log_proba_`. Got None: the law of a custom sampler is unknown.")
    log_proba = float64_array("log_proba", log_proba, booleans=False)
    if log_proba.ndim != 1 or len(log_proba) == 0:
        raise ValueError(f"`log_proba` must have shape (n_labelled,). Got shape {log_proba.shape} instead.")
    if not is_integer(n_pool) or n_pool < len(log_proba):
        raise ParameterError(
            f"`n_pool` must be the number of rows before the first of {len(log_proba)} picks, an integer. Got {n_pool}."
        )
    bad = np.flatnonzero(~((log_proba > _LEAST_LOG_PROBA) & (log_proba <= _ROUNDING)))
    if len(bad):
        raise ValueError(
            f"`log_proba` must be natural logarithms of probabilities above 0. Got {log_proba[bad[0]]} for pick "
            f"{bad[0]}; {len(bad)} such picks in all. With epsilon=0.1 in the query every row has a chance."
        )
    return log_proba
