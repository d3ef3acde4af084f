"""For how many labels a ranking is good, measured by what the younger half of the labels did to it.

The question of a batch size is how well today's ranking will identify the top rows once the batch is labelled. Earlier
labels answer it. A model that is fitted again to the older half of the labels ranks some rows of the pool; so does one
that is fitted again to all of them, from another seed. How well each identifies the rows that are the top for the
model of now are two areas under ROC curves, and what counts is their excess over 1/2, the value of a coin. That of the
second is what one could have known, but for seeds; that of the first is what was left of it after twice the labels.

Knowledge ages by the relative growth of the labels: a ranking that is b labels behind n + b of them has the excess of
one that is not, times ``(n / (n + b)) ** rate``. Rates that were measured over growths by a third, two thirds and twice
the labels, from 30 to 240 of them, are alike within their noise: 0.2 to 0.9 for forests, mostly 0.4 to 1.4 for nets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._statistics import area

TOP = 0.1
"""The part of the rows that are the top: where batches come from."""

BOUNDS = (0.05, 5.0)
"""A rate lies between: at the one twice the labels leave 97 % of a ranking, at the other 3 %."""

PRIOR = (0.5, 0.6)
"""Median of a rate, and standard deviation of its logarithm, before anything is measured."""

MOST_ROUNDS = 4
"""What was seen in earlier rounds is forgotten: a rate may change as labels come in."""

_MIN_VARIANCE = 0.02**2  # of an excess: which labels were chosen is chance, too, which rows do not show
_LOG_RATES = np.linspace(math.log(BOUNDS[0]), math.log(BOUNDS[1]), 201)

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Ageing:
    """What was seen in one round.

    Attributes
    ----------
    growth : float
        Labels now, in units of those that the older model was fitted to.
    refitted, older : float
        How well another model of all labels, and the model of the older ones, identify the top of now: areas under ROC
        curves, NaN if all scores are alike.
    refitted_variance, older_variance : float
        Of these as estimates from so many rows.
    """

    growth: float
    refitted: float
    older: float
    refitted_variance: float
    older_variance: float


def older_labels(y: NDArray[Any], *, by_class: bool) -> NDArray[np.int64]:
    """Positions of the older half of the labels and, if ``by_class``, of the first label of each class."""
    older = np.arange((len(y) + 1) // 2)
    return np.union1d(older, np.unique(y, return_index=True)[1]) if by_class else older


def compare(now: Values, refitted: Values, older: Values, growth: float) -> Ageing:
    """Compare rankings of the same rows: scores of the model of now, and of the two that are fitted again.

    The refitted model is one of now as well: areas are means over the tops of both.
    """
    tops = [top_rows(now), top_rows(refitted)]
    again = float(np.mean([area(refitted, tops[0]), area(now, tops[1])]))
    aged = float(np.mean([area(older, top) for top in tops]))
    n_top = min(int(top.sum()) for top in tops)
    variances = (variance_of_area(value, n_top, len(now) - n_top) for value in (again, aged))
    return Ageing(growth, again, aged, *variances)


def top_rows(scores: Values) -> Mask:
    """The top tenth of rows, and those that are tied with the last of it."""
    n_top = max(1, round(TOP * len(scores)))
    return scores >= np.partition(scores, -n_top)[-n_top]


def variance_of_area(area: float, n_positive: int, n_negative: int) -> float:
    """Variance of an area as an estimate from so many rows (Hanley and McNeil, 1982, eq. 1 and 2)."""
    if math.isnan(area):
        return np.nan
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    pairs = (n_positive - 1) * (q1 - area**2) + (n_negative - 1) * (q2 - area**2)
    return (area * (1 - area) + pairs) / (n_positive * n_negative)


def measured_rate(seen: Iterable[Ageing]) -> float:
    """Posterior mean of the log rate, as a rate, given what was seen in some rounds.

    The prior is log-normal, and areas have normal errors: that nothing of an excess is left, or more than of a refit,
    is evidence like any other, only of an extreme.

    Returns
    -------
    float
        Within `BOUNDS`.
    """
    median, spread = PRIOR
    log_posterior = -(((_LOG_RATES - math.log(median)) / spread) ** 2) / 2
    for ageing in seen:
        if not math.isnan(ageing.refitted + ageing.older):
            log_posterior += _log_likelihood(ageing)
    posterior = np.exp(log_posterior - log_posterior.max())
    return math.exp(posterior @ _LOG_RATES / posterior.sum())


def _log_likelihood(ageing: Ageing) -> Values:
    """Of what was seen, for each rate of the grid."""
    left = ageing.growth ** -np.exp(_LOG_RATES)
    gap = (ageing.older - 0.5) - (ageing.refitted - 0.5) * left
    variance = _MIN_VARIANCE + ageing.older_variance + ageing.refitted_variance * left**2
    return -(gap**2) / variance / 2 - np.log(variance) / 2


def labels_that_hold(n_labelled: int, rate: float, hold: float) -> float:
    """How many labels more leave a part ``hold`` of the ranking; as many again at most, which is as far as was seen."""
    return n_labelled * min(hold ** (-1 / rate) - 1, 1.0)
