"""The law of rows drawn in order without replacement, with weights ``exp(beta * value)`` (Plackett-Luce).

A `Law` states one value for each row, and all else follows: how rows are drawn, and how probable each pick was, among
all rows or among those that were allowed at it. A row of value -inf has no mass: it is drawn, uniformly, only once
nothing else is left. beta = 0 is uniform over all rows; beta = inf takes the largest values first, ties at random.

Letters: n rows, k picks. A row leaves at time t if it is allowed at the first t picks; most stay to the end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._utils.validation import BETA, check_positions, check_scores, warn
from ._selection import (
    Indices,
    Scores,
    Weights,
    descending,
    descending_at_random,
    draw_ranks,
    draw_rows,
    rows_of_ranks,
    top_rows,
)


@dataclass(frozen=True)
class BatchLaw:
    """How probable a batch was. Each answer takes a pass over all rows, so it is computed on request.

    ``log_proba()`` (k,) are natural logarithms of each pick's probability given those before it, 0 for rows that must
    be in the batch; ``first_log_proba()`` (n_points,) those of each row to be the first pick beside such rows.
    """

    log_proba: Callable[[], Scores]
    first_log_proba: Callable[[], Scores]

    def __reduce__(self) -> tuple[type[BatchLaw], tuple[Any, ...]]:
        """A pickle holds the probabilities, not the scores and points that they are computed from."""
        return BatchLaw, tuple(functools.partial(np.copy, known()) for known in (self.log_proba, self.first_log_proba))


@dataclass(frozen=True)
class Law:
    """Weights ``exp(beta * score)``. A subclass says what other values rows have, and may know a faster way to draw."""

    scores: Scores
    beta: float

    def __len__(self) -> int:
        return len(self.scores)

    def values(self) -> Scores:
        return self.scores

    def weights(self) -> Weights:
        """A function that computes the weights of some rows, relative to the largest of all."""
        top = float(self.scores.max())  # weights relative to the largest: no exponential overflows

        def weights(rows: slice | Indices) -> Scores:
            some = self.scores[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                return np.exp(self.beta * (some - top)) if top > -math.inf else np.zeros(some.shape)

        return weights

    def draw(self, k: int, rng: np.random.Generator) -> Indices:
        """The first k rows of a random order, most preferred first."""
        n = len(self)
        if self.beta == 0:
            return rng.choice(n, k, replace=False)
        if self.beta == math.inf:
            return top_rows(self.values(), k, rng)
        return draw_rows(n, k, rng, self.beta, self.values, self.weights())

    def batch(self, k: int, rng: np.random.Generator) -> tuple[Indices, BatchLaw]:
        picks = self.draw(k, rng)
        return picks, BatchLaw(functools.partial(self.log_proba, picks), self.first_log_proba)

    def log_proba(self, picks: Indices, left_at: Indices | None = None) -> Scores:
        """Log-probability of each pick given those before it.

        ``left_at`` says of each row how many picks it was allowed at; by default all until it was picked itself.
        """
        k = len(picks)
        # Only rows that leave before the end are looked at one by one; the many others are summed in one go.
        rows = picks[:-1] if left_at is None else np.flatnonzero(left_at < k)
        times = np.arange(1, k) if left_at is None else left_at[rows]
        by_chance = -np.log(n_allowed(len(self), times, k))
        if self.beta == 0:
            return by_chance
        values = self.values()
        if self.beta == math.inf:
            return _log_proba_of_ties(values, picks, rows, times)
        log_proba = _log_proba(values, picks, rows, times, self.beta)
        return np.where(np.isnan(log_proba), by_chance, log_proba)

    def first_log_proba(self) -> Scores:
        return normalised(self.log_weights())

    def log_weights(self) -> Scores:
        """Unnormalised log-weights of the first pick, by row."""
        if self.beta == 0:
            return np.zeros(len(self))
        values = self.values()
        top = float(values.max(initial=-np.inf))
        if self.beta == math.inf:
            return np.where(values == top, 0.0, -np.inf)
        with np.errstate(over="ignore"):
            # beta * top may overflow; relative to the top it cannot, and only differences count.
            if math.isfinite(top) and not math.isfinite(self.beta * top):
                values = values - top
            return self.beta * values

    def by_row(self, rng: np.random.Generator) -> Law:
        """The same law as one value for each row, so that draws from some of the rows follow it as well."""
        return Law(self.values(), self.beta)


@dataclass(frozen=True)
class RankLaw(Law):
    """Weights ``rank ** -beta``, rank 1 for the highest score; tied rows share their ranks at random."""

    def values(self) -> Scores:
        """One value for each row; tied rows are ranked in the order of the array. A batch keeps the ranks it drew."""
        return self._values_in(descending(self.scores))

    def by_row(self, rng: np.random.Generator) -> Law:
        """The same law as one value for each row; tied rows are ranked in random order."""
        return Law(self._values_in(descending_at_random(self.scores, rng)), self.beta)

    def _values_in(self, order: Indices) -> Scores:
        values = np.empty(len(self))
        values[order] = self._of_ranks().scores
        return values

    def draw(self, k: int, rng: np.random.Generator) -> Indices:
        return rows_of_ranks(self.scores, self._draw_ranks(k, rng), rng)

    def batch(self, k: int, rng: np.random.Generator) -> tuple[Indices, BatchLaw]:
        """A batch of k rows, and how probable it was given the ranks that tied rows got."""
        ranks = self._draw_ranks(k, rng)
        law = BatchLaw(lambda: self._of_ranks().log_proba(ranks), self.first_log_proba)
        return rows_of_ranks(self.scores, ranks, rng), law

    def _draw_ranks(self, k: int, rng: np.random.Generator) -> Indices:
        return draw_ranks(len(self), self._n_ranked(), k, rng, self.beta)

    def _of_ranks(self) -> Law:
        values = -np.log(np.arange(1.0, len(self) + 1))
        values[self._n_ranked() :] = -np.inf
        return Law(values, self.beta)

    def _n_ranked(self) -> int:
        return int(np.count_nonzero(self.scores > -np.inf))


def log_proba(values: ArrayLike, positions: ArrayLike, *, beta: float = 1.0) -> Scores:
    """Log-probability of each pick given those before it, under weights ``exp(beta * values)``.

    Parameters
    ----------
    values : array-like of shape (n_points,)
        Unnormalised log-weights at beta = 1: those of a sampler are its ``log_weights(scores, beta)``. Rows of value
        -inf are picked uniformly once nothing else is left.
    positions : array-like of shape (k,), int
        Distinct rows, in the order they were picked.
    beta : float, default=1.0
        Coldness, not negative.

    Returns
    -------
    ndarray of shape (k,), float64
        Natural logarithms.

    References
    ----------
    Plackett (1975), The Analysis of Permutations, for the law of such an order.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import log_proba
    >>> np.exp(log_proba(np.log([1.0, 2.0, 7.0]), [2, 1])).round(3)
    array([0.7  , 0.667])
    """
    law = Law(check_scores(values, "values", minus_inf=True), float(BETA.check("beta", beta)))
    return law.log_proba(check_positions("positions", positions, len(law), at_least=0))


def warn_if_few(n_found: int, k: int, what: str) -> None:
    if n_found < k:
        how = f"the other {k - n_found} were drawn uniformly at random"
        warn(f"Only {n_found} rows {what}, and {k} were asked for: {how}.")


def n_allowed(n: int, times: Indices, k: int) -> Indices:
    """How many of n rows could be picked at each of k picks, where some left at these times."""
    return n - np.bincount(times, minlength=k)[:k].cumsum()


def normalised(log_weights: Scores) -> Scores:
    """Log-probabilities in proportion to weights; equal ones where no row has a weight."""
    top, log_sum = _log_mass(log_weights.copy(), 1.0)
    return log_weights - top - log_sum if top > -math.inf else np.full(len(log_weights), -math.log(len(log_weights)))


def _log_proba(values: Scores, picks: Indices, rows: Indices, times: Indices, beta: float) -> Scores:
    """Log-probabilities of the picks; NaN where no row left has mass. Some rows left at times before the last pick."""
    tops, log_sums = _log_masses(values, rows, times, len(picks), beta)
    # The mass left at each pick is summed from the last pick to the first: only ever added to, so nothing cancels. It
    # is kept as (largest value, log of the sum relative to it): exact for every beta, where beta * value may overflow.
    mass, result = (-math.inf, -math.inf), np.full(len(picks), np.nan)
    for j in reversed(range(len(picks))):
        mass = _add_mass(mass, (float(tops[j + 1]), float(log_sums[j + 1])), beta)
        top, log_sum = mass
        if top > -math.inf:
            result[j] = beta * (values[picks[j]] - top) - log_sum
    return result


def _log_masses(values: Scores, rows: Indices, times: Indices, k: int, beta: float) -> tuple[Scores, Scores]:
    """Sums of ``exp(beta * values)`` over the rows that left at each time: largest value, log of the sum beside it."""
    some, tops = values[rows], np.full(k + 1, -np.inf)
    np.maximum.at(tops, times, some)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        relative = np.exp(beta * (some - tops[times]))  # NaN where no row of that time has mass: not looked at
        log_sums = np.log(np.bincount(times, relative, k + 1))
    rest = values.copy()
    rest[rows] = -np.inf  # no mass among the rows that stay
    tops[k], log_sums[k] = _log_mass(rest, beta)
    return tops, log_sums


def _log_mass(values: Scores, beta: float) -> tuple[float, float]:
    """The largest value, and the log of the sum relative to it; the values are overwritten."""
    top = float(values.max(initial=-np.inf))
    if top == -math.inf:
        return top, -math.inf
    with np.errstate(over="ignore"):
        values -= top
        values *= beta
        return top, math.log(np.exp(values, out=values).sum())


def _add_mass(a: tuple[float, float], b: tuple[float, float], beta: float) -> tuple[float, float]:
    (top, log_a), (low, log_b) = max(a, b), min(a, b)
    if low == -math.inf:
        return top, log_a
    return top, float(np.logaddexp(log_a, beta * (low - top) + log_b))


def _log_proba_of_ties(values: Scores, picks: Indices, rows: Indices, times: Indices) -> Scores:
    """Minus the log of the number of rows that could be picked at each pick and are tied with it."""
    left_at = np.full(len(values), len(picks))
    left_at[rows] = times
    # Rows of a value that was picked, as one number each: by value, then by the time at which they left.
    n_times = len(picks) + 1
    picked, slot_of_pick = np.unique(values[picks], return_inverse=True)
    slots = np.searchsorted(picked, values)
    tied = np.flatnonzero(picked.take(slots, mode="clip") == values) if len(picked) else np.empty(0, dtype=np.int64)
    keys = np.sort(slots[tied] * n_times + left_at[tied])
    ends = np.searchsorted(keys, (slot_of_pick + 1) * n_times)
    return -np.log(ends - np.searchsorted(keys, slot_of_pick * n_times + np.arange(len(picks)), side="right"))
