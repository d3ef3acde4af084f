"""Laws of batches: how rows are drawn, and how probable each pick was, from one statement.

A law is a value for each row and a coldness beta. Rows are drawn without replacement, in order, with weights ``exp(beta
* value)`` (the Plackett-Luce law). A subclass of `Law` says what the values are, and may know a faster way to draw. A
row of value -inf has no mass: it is drawn, uniformly, only once nothing else is left.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._checks import BETA, check_k, check_positions, check_scores
from .._random import check_rng
from ._ranks import rows_of_ranks
from ._selection import Indices, Scores, Weights, descending, descending_at_random, draw_rows, top_rows


@dataclass(frozen=True)
class Batch:
    """Rows chosen by a sampler, and how probable each pick was.

    Attributes
    ----------
    indices : ndarray of shape (k,), int64
        Distinct rows, most preferred first.
    log_proba : callable or None
        ``log_proba()`` is the ndarray of shape (k,) of natural logarithms of each pick's probability given those before
        it. It takes a pass over all rows, so it is computed on request. None where the law is not known.
    log_weights : callable or None
        ``log_weights()`` is the ndarray of shape (n_points,) of unnormalised log-weights of the first pick; -inf is a
        row that cannot be picked first.

    See Also
    --------
    samplers.power : Its ``draw`` returns one.
    query.choose_by_scores : From scores to a batch.
    """

    indices: Indices
    log_proba: Callable[[], Scores] | None = None
    log_weights: Callable[[], Scores] | None = None

    def __reduce__(self) -> tuple[type[Batch], tuple[Any, ...]]:
        """A pickle holds the probabilities, and not the scores and points that they can be computed from."""
        known = (None if ask is None else _Known(ask()) for ask in (self.log_proba, self.log_weights))
        return Batch, (self.indices, *known)


@dataclass(frozen=True)
class _Known:
    """What is asked for, computed already."""

    values: Scores

    def __call__(self) -> Scores:
        return self.values.copy()


@dataclass(frozen=True)
class Law:
    """Rows in order without replacement, with weights ``exp(beta * score)``.

    beta = 0 is uniform over all rows, those of value -inf included; beta = inf takes the largest values first, ties at
    random.
    """

    scores: Scores
    beta: float

    def values(self) -> Scores:
        """One value for each row."""
        return self.scores

    def weights(self) -> Weights:
        """A function that computes the weights of some rows, relative to the largest of all."""
        top = float(self.scores.max())

        def weights(rows: slice | Indices) -> Scores:
            some = self.scores[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                return np.exp(self.beta * (some - top)) if top > -math.inf else np.zeros(some.shape)

        return weights

    def draw(self, k: int, rng: np.random.Generator) -> Batch:
        """A batch of k rows, most preferred first."""
        n = len(self.scores)
        if self.beta == 0:
            indices = rng.choice(n, k, replace=False)
        elif self.beta == math.inf:
            indices = top_rows(self.values(), k, rng)
        else:
            indices = draw_rows(n, k, rng, self.beta, self.values, self.weights())
        return Batch(indices, functools.partial(self.log_proba, indices), self.log_weights)

    def log_proba(self, picks: Indices) -> Scores:
        """Log-probability of each pick given those before it."""
        if self.beta == math.inf:
            return _log_proba_of_ties(self.values(), picks)
        values = self.values() if self.beta > 0 else np.zeros(len(self.scores))
        return _log_proba(values, picks, self.beta)

    def log_weights(self) -> Scores:
        """Unnormalised log-weights of the first pick, by row."""
        if self.beta == 0:
            return np.zeros(len(self.scores))
        values = self.values()
        if self.beta == math.inf:
            return np.where(values == values.max(initial=-np.inf), 0.0, -np.inf)
        top = float(values.max(initial=-np.inf))
        with np.errstate(over="ignore"):
            if math.isfinite(top) and not math.isfinite(self.beta * top):
                return self.beta * (values - top)
            return self.beta * values

    def by_row(self, rng: np.random.Generator) -> Law:
        """The same law as one value for each row, so that draws from some of the rows follow it as well."""
        return Law(self.values(), self.beta)

    def log_weights_of_order(self) -> Scores:
        """Log-weights of all picks, not only of the first: at beta = inf, tied rows come in the order of the array."""
        if self.beta < math.inf:
            return self.log_weights()
        return RankLaw(self.scores, _AS_TOP_K, minus_log).log_weights()


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
        values = np.empty(len(self.scores))
        values[order] = self._of_ranks().scores
        return values

    def draw(self, k: int, rng: np.random.Generator) -> Batch:
        if self.race is None:
            ranks = self._of_ranks().draw(k, rng).indices
        else:
            ranks = self.race(len(self.scores), self._n_ranked(), k, rng, self.beta)
        log_proba = functools.partial(self._log_proba_of_ranks, ranks)
        return Batch(rows_of_ranks(self.scores, ranks, rng), log_proba, self.log_weights)

    def _log_proba_of_ranks(self, ranks: Indices) -> Scores:
        return self._of_ranks().log_proba(ranks)

    def _of_ranks(self) -> Law:
        values = self.value(np.arange(1.0, len(self.scores) + 1))
        values[self._n_ranked() :] = -np.inf
        return Law(values, self.beta)

    def _n_ranked(self) -> int:
        return int(np.count_nonzero(self.scores > -np.inf))


_AS_TOP_K = 1e12  # a beta so cold that the next rank comes first with probability exp(-1e12 / n_points)


def minus_log(x: Scores) -> Scores:
    return -np.log(x)


def gumbel_top_k(values: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Indices:
    """Sample k rows without replacement, in order, with weights ``exp(beta * values)``.

    Parameters
    ----------
    values : array-like of shape (n_points,)
        Unnormalised log-weights at beta = 1; -inf is a row of no mass.
    k : int
        Number of rows.
    rng : numpy.random.Generator
    beta : float, default=1.0
        Coldness, not negative. 0 is uniform over all rows, those of value -inf included.

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows, in the order they were drawn.

    Raises
    ------
    ValueError, TypeError
        If ``values`` hold NaN or +inf, k is not an integer from 1 to n_points, or beta is not a number >= 0.

    See Also
    --------
    samplers.log_proba : The probability of what it returns.
    samplers.power : The same with scores in the place of log-weights.

    References
    ----------
    Kool, van Hoof and Welling (2019), Stochastic Beams and Where to Find Them, sec. 2.3; Kirsch et al. (2023),
    Stochastic Batch Acquisition, sec. 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import gumbel_top_k
    >>> gumbel_top_k(np.log([0.1, 0.2, 0.7]), 3, np.random.default_rng(0))
    array([2, 1, 0])
    """
    law = Law(check_scores(values, "values", minus_inf=True), float(BETA.check("beta", beta)))
    k = check_k(k, len(law.scores))
    check_rng(rng)
    return law.draw(k, rng).indices


def log_proba(values: ArrayLike, positions: ArrayLike, *, beta: float = 1.0) -> Scores:
    """Log-probability of each pick given those before it, under weights ``exp(beta * values)``.

    Parameters
    ----------
    values : array-like of shape (n_points,)
        Unnormalised log-weights at beta = 1; rows of value -inf are picked uniformly once nothing else is left.
    positions : array-like of shape (k,), int
        The picks, in order: distinct integers, from 0 to n_points - 1.
    beta : float, default=1.0
        Coldness; at 0 every row that is left is as probable as any other.

    Returns
    -------
    ndarray of shape (k,), float64

    Raises
    ------
    ValueError, TypeError
        If ``values`` hold NaN or +inf, ``positions`` are not distinct rows, or beta is not a number >= 0.

    See Also
    --------
    samplers.gumbel_top_k : Draws such batches.
    risk.lure_weights : What these probabilities are for.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import log_proba
    >>> np.exp(log_proba(np.log([1.0, 2.0, 3.0, 4.0]), [3, 2]))
    array([0.4, 0.5])
    """
    law = Law(check_scores(values, "values", minus_inf=True), float(BETA.check("beta", beta)))
    return law.log_proba(check_positions("positions", positions, len(law.scores), at_least=0))


def _log_proba(values: Scores, picks: Indices, beta: float) -> Scores:
    n_left = len(values) - np.arange(len(picks))
    # Mass left at each pick, summed from the last pick to the first: only ever added to, so nothing cancels. A mass is
    # kept as (largest value, log of the sum relative to it): exact for every beta, where beta * value could overflow.
    mass = _log_mass(np.delete(values, picks), beta)
    result = np.empty(len(picks))
    for j in reversed(range(len(picks))):
        value = float(values[picks[j]])
        mass = _add_mass(mass, (value, 0.0), beta)
        top, log_sum = mass
        result[j] = -math.log(n_left[j]) if top == -math.inf else beta * (value - top) - log_sum
    return result


def _log_mass(values: Scores, beta: float) -> tuple[float, float]:
    """The sum of ``exp(beta * values)`` as (largest value, log of the sum relative to it)."""
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


def _log_proba_of_ties(scores: Scores, picks: Indices) -> Scores:
    """Minus the log of the number of rows tied with each pick that are left."""
    picked, first, which = np.unique(scores[picks], return_index=True, return_inverse=True)
    slot = np.minimum(np.searchsorted(picked, scores), len(picked) - 1)
    n_tied = np.bincount(slot[picked[slot] == scores], minlength=len(picked))
    # The batch is in descending order, so picks of one value follow each other.
    return -np.log(n_tied[which] - (np.arange(len(picks)) - first[which]))
