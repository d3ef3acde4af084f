"""Intervals for the mean of losses that are rare and weigh much.

What is not known of a risk sits in rows that are hardly ever picked, whose picks weigh most. While none of these shows
a loss, the estimate and its error are both too small, so that an interval by Student's t misses on one side. Here the
lower end is the quantile of a gamma law with the estimate's mean and variance; for the upper end one more pick is
imagined, of the largest weight and the largest loss, with the half weight of a mid-p value. Without any loss seen that
is the rule of three, weighted.

Fay and Feuer (1997), Confidence Intervals for Directly Standardized Rates; Fay and Kim (2017), Confidence Intervals for
Directly Standardized Rates Using Mid-p Gamma Intervals.
"""

from __future__ import annotations

import math

from scipy import optimize, stats


def gamma_end(value: float, variance: float, step: float, tail: float, *, upper: bool) -> float:
    """One end of an interval of a risk, 0 or larger, beyond which the risk lies with probability ``tail``.

    Parameters
    ----------
    value, variance : float
        The estimate, and its squared standard error.
    step : float
        What one more pick of the largest weight and the largest loss would add to the estimate.
    """
    if not upper:
        return _quantile(value, variance, tail)
    wider = value + step, variance + step**2
    high = max(_quantile(value, variance, 1 - tail / 2), _quantile(*wider, 1 - tail / 2))  # where both laws have less
    low = min(_quantile(value, variance, 1 - 2 * tail), _quantile(*wider, 1 - 2 * tail))
    if high <= low or tail >= 0.5:
        return high

    def beyond(end: float) -> float:
        return (_tail(end, value, variance) + _tail(end, *wider)) / 2 - tail

    low = low if beyond(low) > 0 else 0.0
    return float(optimize.brentq(beyond, low, high, xtol=1e-12, rtol=1e-10)) if beyond(low) > 0 else high


def t_end(value: float, standard_error: float, n_labelled: int, tail: float, *, upper: bool) -> float:
    """The same by Student's t, for losses that may be of either sign."""
    half = standard_error and stats.t.isf(tail, n_labelled - 1) * standard_error
    return float(value + half if upper else value - half)


def _quantile(mean: float, variance: float, probability: float) -> float:
    if mean <= 0 or variance <= 0:
        return max(mean, 0.0)
    if probability <= 0:
        return 0.0
    return float(stats.gamma.ppf(probability, mean**2 / variance, scale=variance / mean))


def _tail(x: float, mean: float, variance: float) -> float:
    if mean <= 0 or variance <= 0:
        return float(x < mean)
    return float(stats.gamma.sf(x, mean**2 / variance, scale=variance / mean))


def at_every_look(level: float, n_looks: int) -> float:
    """The level of an interval that makes all looks so far, and all to come, right at once with probability ``level``.

    The chance of a miss is shared out: look j gets 1 / (j (j + 1)) of it, which sums to 1 (union bound).
    """
    return 1 - (1 - level) / (n_looks * (n_looks + 1))


def difference_ends(a: tuple[float, float, float], b: tuple[float, float, float]) -> tuple[float, float]:
    """Ends of an interval for a difference of two risks, from (value, low, high) of each."""
    (value_a, low_a, high_a), (value_b, low_b, high_b) = a, b
    value = value_a - value_b
    return value - math.hypot(value_a - low_a, high_b - value_b), value + math.hypot(high_a - value_a, value_b - low_b)
