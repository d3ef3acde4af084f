"""Weights of picks that remove the bias of a query."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .._checks import check_parameters, integer
from ._checks import Weights, check_first_log_proba, check_log_proba


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

    Raises
    ------
    ValueError, TypeError
        If a log-probability is missing, -inf or above 0, or there are more picks than rows.

    See Also
    --------
    risk.pure_weights : Simpler, with a larger variance.
    risk.estimate_risk : The estimate with these weights.
    samplers.log_proba : The probabilities of picks.

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


def pure_weights(log_proba: ArrayLike, n_pool: int) -> Weights:
    r"""Simpler weights for the same purpose, :math:`u_m = \frac{1}{N q_m} + \frac{M - m}{N}`.

    They are unbiased, like `lure_weights`, and nearly always have a larger variance: early picks count more than late
    ones, and weights are not 1 when the whole pool was bought.

    Parameters
    ----------
    log_proba : array-like of shape (n_labelled,)
        As for `lure_weights`.
    n_pool : int
        Rows before the first pick.

    Returns
    -------
    ndarray of shape (n_labelled,), float64

    Raises
    ------
    ValueError, TypeError
        As `lure_weights` does.

    See Also
    --------
    risk.lure_weights : A smaller variance, at no cost.

    References
    ----------
    Farquhar, Gal and Rainforth (2021), On Statistical Bias in Active Learning: How and When to Fix It, R_PURE.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.risk import pure_weights
    >>> pure_weights(np.log([0.5, 0.25]), n_pool=10)
    array([0.3, 0.4])
    """
    log_proba = check_log_proba(log_proba, n_pool)
    return (np.exp(-log_proba) + np.arange(len(log_proba))[::-1]) / n_pool


def largest_weight(first_log_proba: ArrayLike, n_labelled: int) -> float:
    r"""The largest weight of a pick behind which a risk could hide that labels have not shown.

    Rows that are hardly ever picked have large weights. But if few rows have such weights, no large part of a risk can
    be theirs. So this is :math:`\max_w \min(w, M \cdot \text{share of rows of weight} \ge w)`,
    and 1 at least.

    Parameters
    ----------
    first_log_proba : array-like of shape (n_pool,)
        ``query.first_log_proba_``. Rows that cannot be picked (-inf) are left out.
    n_labelled : int
        M, the number of labels.

    Returns
    -------
    float
        For `estimate_risk`.

    Raises
    ------
    ValueError, TypeError
        If ``first_log_proba`` are not logarithms of probabilities, one of them above 0, or ``n_labelled`` is not an
        integer from 1 on.

    See Also
    --------
    risk.estimate_risk : Takes it, for the upper end of an interval.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.risk import largest_weight
    >>> largest_weight(np.log([0.4, 0.4, 0.19, 0.01]), n_labelled=50)
    12.5
    >>> largest_weight(np.full(100, -np.log(100)), n_labelled=50)
    1.0
    """
    check_parameters({"n_labelled": integer()}, {"n_labelled": n_labelled})
    return largest_of(check_first_log_proba(first_log_proba), n_labelled)


def largest_of(log_proba: Weights, n_labelled: int) -> float:
    """The same, of log-probabilities that are checked."""
    log_proba = np.sort(log_proba[log_proba > -np.inf])[::-1]
    weights = np.exp(np.minimum(-log_proba - math.log(len(log_proba)), _MOST_LOG_WEIGHT))  # in increasing order
    share = 1 - np.arange(len(weights)) / len(weights)
    return max(1.0, float(np.minimum(weights, n_labelled * share).max()))


_MOST_LOG_WEIGHT = 300.0  # which says that nothing is known of the row
