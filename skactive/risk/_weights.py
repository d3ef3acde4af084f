"""Weights of picks that remove the bias of a query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._utils.validation import ParameterError, float64_array, is_integer

Weights = NDArray[np.float64]

_LEAST_LOG_PROBA = -690.0  # below it, weights come near the largest float64
_MOST_LOG_WEIGHT = 300.0
_ROUNDING = 1e-9  # by which a probability of 1 may seem to be above it


def lure_weights(log_proba: ArrayLike, n_pool: int) -> Weights:
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


def largest_of(log_proba: Weights, n_labelled: int) -> float:
    r"""The largest weight of a pick behind which a risk could hide that labels have not shown.

    Rows that are hardly ever picked have large weights. But if few rows have such weights, no large part of a risk can
    be theirs. So this is :math:`\max_w \min(w, M \cdot \text{share of rows of weight} \ge w)`, and 1 at least.
    ``log_proba`` (n_pool,) are those of each row to be the first pick; -inf, of rows out of reach, are left out.
    """
    log_proba = np.sort(log_proba[log_proba > -np.inf])[::-1]
    # relative to uniform picks, in increasing order; so large that nothing is known of a row, and still finite
    weights = np.exp(np.minimum(-log_proba - math.log(len(log_proba)), _MOST_LOG_WEIGHT))
    share = 1 - np.arange(len(weights)) / len(weights)
    return max(1.0, float(np.minimum(weights, n_labelled * share).max()))


def largest_bound(bounds: Weights, n_labelled: float, n_pool: int) -> float:
    """The largest loss behind which a risk could hide, of what each row without a label can cost.

    As of `largest_of`, no large part of a risk can be that of a few rows: max over b of min(b, M · share), where all
    rows that can cost b or more have that share of the pool's mean at most.
    """
    bounds = np.sort(bounds)[::-1]
    return float(np.minimum(bounds, n_labelled * bounds.cumsum() / n_pool).max(initial=0.0))


def check_log_proba(log_proba: Any, n_pool: Any) -> Weights:
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
            f"{bad[0]}, and {len(bad)} such picks in all. With epsilon=0.1 in the query every row has a chance."
        )
    return log_proba
