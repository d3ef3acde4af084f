"""The law of rows drawn in order without replacement, with weights ``exp(beta * value)`` (Plackett-Luce).

A `Law` states one value for each row, and all else follows: how rows are drawn, and how probable each pick was, among
all rows or among those that were allowed at it. A row of value -inf has no mass: it is drawn, uniformly, only once
nothing else is left. beta = 0 is uniform over all rows; beta = inf takes the largest values first, ties at random.

Letters: n rows, k picks, and k + 1 times at which a row can have left the rows that may be picked.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._checks import BETA, check_positions, check_scores
from ._ranks import rows_of_ranks
from ._selection import Indices, Scores, Weights, descending, descending_at_random, draw_rows, top_rows


@dataclass(frozen=True)
class BatchLaw:
    """How probable a batch was. Each answer takes a pass over all rows, so it is computed on request.

    Attributes
    ----------
    log_proba : callable
        ``log_proba()`` is the ndarray of shape (k,) of natural logarithms of each pick's probability given those before
        it; 0 for rows that must be in the batch.
    first_log_proba : callable
        ``first_log_proba()`` is the ndarray of shape (n_points,) of the log-probabilities of each row to be the first
        pick, after the rows that must be in the batch.
    """

    log_proba: Callable[[], Scores]
    first_log_proba: Callable[[], Scores]

    def __reduce__(self) -> tuple[type[BatchLaw], tuple[Any, ...]]:
        """A pickle holds the probabilities, not the scores and points that they are computed from."""
        return BatchLaw, (_Known(self.log_proba()), _Known(self.first_log_proba()))


@dataclass(frozen=True)
class _Known:
    values: Scores

    def __call__(self) -> Scores:
        return self.values.copy()


@dataclass(frozen=True)
class Law:
    """Weights ``exp(beta * score)``. A subclass says what other values rows have, and may know a faster way to draw."""

    scores: Scores
    beta: float

    def __len__(self) -> int:
        return len(self.scores)

    def values(self) -> Scores:
        """One value for each row."""
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
        """A batch of k rows, and how probable it was."""
        picks = self.draw(k, rng)
        return picks, BatchLaw(functools.partial(self.log_proba, picks), self.first_log_proba)

    def log_proba(self, picks: Indices, left_at: Indices | None = None) -> Scores:
        """Log-probability of each pick given those before it.

        ``left_at`` says of each row how many picks it was allowed at; by default all until it was picked itself.
        """
        left_at = left_when_picked(len(self), picks) if left_at is None else left_at
        values = self.values() if self.beta > 0 else np.zeros(len(self))
        if self.beta == math.inf:
            return _log_proba_of_ties(values, picks, left_at)
        return _log_proba(values, picks, left_at, self.beta)

    def first_log_proba(self) -> Scores:
        """Log-probability of each row to be the first pick."""
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
                return self.beta * (values - top)
            return self.beta * values

    def by_row(self, rng: np.random.Generator) -> Law:
        """The same law as one value for each row, so that draws from some of the rows follow it as well."""
        return Law(self.values(), self.beta)


@dataclass(frozen=True)
class RankLaw(Law):
    """Rows have the value of their rank, 1 for the highest score; tied rows share their ranks at random.

    Attributes
    ----------
    value : callable
        ``value(ranks)`` are the values of the ranks 1, 2, ...
    race : callable, optional
        A faster way to draw: ``race(n, n_ranked, k, rng, beta)`` returns k ranks, from 0. Those after the first
        ``n_ranked`` have no mass.
    """

    value: Callable[[Scores], Scores]
    race: Callable[[int, int, int, np.random.Generator, float], Indices] | None = None

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
        if self.race is None:
            return self._of_ranks().draw(k, rng)
        return self.race(len(self), self._n_ranked(), k, rng, self.beta)

    def _of_ranks(self) -> Law:
        values = self.value(np.arange(1.0, len(self) + 1))
        values[self._n_ranked() :] = -np.inf
        return Law(values, self.beta)

    def _n_ranked(self) -> int:
        return int(np.count_nonzero(self.scores > -np.inf))


def minus_log(x: Scores) -> Scores:
    return -np.log(x)


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

    Raises
    ------
    ValueError, TypeError
        If ``values`` hold NaN or +inf, ``positions`` are no distinct rows, or beta is not a number >= 0.

    See Also
    --------
    samplers.softmax : Draws such batches.

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


def left_when_picked(n: int, picks: Indices) -> Indices:
    """For each of n rows, how many picks it could be picked at, where nothing else keeps it out."""
    left_at = np.full(n, len(picks))
    left_at[picks] = np.arange(1, len(picks) + 1)
    return left_at


def n_allowed(left_at: Indices, n_picks: int) -> Indices:
    """How many rows could be picked at each pick."""
    return np.bincount(left_at, minlength=n_picks + 1)[::-1].cumsum()[::-1][1:]


def normalised(log_weights: Scores) -> Scores:
    """Log-probabilities in proportion to weights; equal ones where no row has a weight."""
    top, log_sum = _log_mass(log_weights, 1.0)
    return log_weights - top - log_sum if top > -math.inf else np.full(len(log_weights), -math.log(len(log_weights)))


def _log_proba(values: Scores, picks: Indices, left_at: Indices, beta: float) -> Scores:
    tops, log_sums = _log_masses(values, left_at, len(picks), beta)
    log_uniform = -np.log(n_allowed(left_at, len(picks)))
    # The mass left at each pick is summed from the last pick to the first: only ever added to, so nothing cancels. It
    # is kept as (largest value, log of the sum relative to it): exact for every beta, where beta * value may overflow.
    mass, result = (-math.inf, -math.inf), np.empty(len(picks))
    for j in reversed(range(len(picks))):
        mass = _add_mass(mass, (float(tops[j + 1]), float(log_sums[j + 1])), beta)
        top, log_sum = mass
        result[j] = log_uniform[j] if top == -math.inf else beta * (values[picks[j]] - top) - log_sum
    return result


def _log_masses(values: Scores, left_at: Indices, k: int, beta: float) -> tuple[Scores, Scores]:
    """Sums of ``exp(beta * values)`` over the rows that left at each time: largest value, log of the sum beside it."""
    is_last = left_at == k  # most rows of a large pool, whose sum needs no sorting by time
    some, some_left_at = values[~is_last], left_at[~is_last]
    tops = np.full(k + 1, -np.inf)
    np.maximum.at(tops, some_left_at, some)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        relative = np.exp(beta * (some - tops[some_left_at]))  # NaN where no row of that time has mass: not looked at
        log_sums = np.log(np.bincount(some_left_at, relative, k + 1))
    tops[k], log_sums[k] = _log_mass(values[is_last], beta)
    return tops, log_sums


def _log_mass(values: Scores, beta: float) -> tuple[float, float]:
    top = float(values.max(initial=-np.inf))
    if top == -math.inf:
        return top, -math.inf
    with np.errstate(over="ignore"):
        return top, math.log(np.exp(beta * (values - top)).sum())


def _add_mass(a: tuple[float, float], b: tuple[float, float], beta: float) -> tuple[float, float]:
    (top, log_a), (low, log_b) = max(a, b), min(a, b)
    if low == -math.inf:
        return top, log_a
    return top, float(np.logaddexp(log_a, beta * (low - top) + log_b))


def _log_proba_of_ties(values: Scores, picks: Indices, left_at: Indices) -> Scores:
    """Minus the log of the number of rows that could be picked at each pick and are tied with it."""
    n_times = len(picks) + 1
    picked, slot_of_pick = np.unique(values[picks], return_inverse=True)
    slots = np.searchsorted(picked, values)
    tied = np.flatnonzero(picked.take(slots, mode="clip") == values) if len(picked) else np.empty(0, dtype=np.int64)
    keys = np.sort(slots[tied] * n_times + left_at[tied])
    ends = np.searchsorted(keys, (slot_of_pick + 1) * n_times)
    return -np.log(ends - np.searchsorted(keys, slot_of_pick * n_times + np.arange(len(picks)), side="right"))
