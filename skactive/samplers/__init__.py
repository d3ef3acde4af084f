"""Samplers: scores in, a batch of distinct rows out, most preferred first.

Each stochastic sampler perturbs one value a row with Gumbel noise of scale 1/beta and takes the k largest. That is
exactly a sample without replacement, in order, from weights ``exp(beta * value)`` (Gumbel-top-k, Kool et al., 2019; the
Plackett-Luce law), so the probability of every pick given those before it is known, and every prefix of a batch is a
batch. beta is the coldness: 0 is uniform over all rows, infinity takes the top k.

==========  =======================  ===============================
sampler     value of a row           law of the first pick
==========  =======================  ===============================
power       log score                proportional to score ** beta
softmax     score                    proportional to exp(beta score)
softrank    -log rank, best = 1      proportional to rank ** -beta
topk        -                        the largest score
uniform     0                        1 / n_points
==========  =======================  ===============================

Rows of value -inf have no mass: they are taken, uniformly, only once nothing else is left. Ties are broken at random.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import check_beta, check_k, check_scores
from .._random import check_rng
from ._checks import warn_few_positive
from ._ranks import draw_ranks, rows_of_ranks
from ._selection import draw_rows, top_rows

__all__ = ["SAMPLERS", "Batch", "gumbel_top_k", "log_proba", "power", "softmax", "softrank", "topk", "uniform"]

SAMPLERS: dict[str, Callable[..., NDArray[np.int64]]] = {}
"""Samplers by name. Each has two companions: ``log_weights(scores, beta)``, its law, and ``draw(scores, k, rng, *,
beta)``, which returns the whole `Batch`."""

Scores = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Rows chosen by a sampler, and how probable each pick was.

    Attributes
    ----------
    indices : ndarray of shape (k,), int64
        Distinct rows, most preferred first.
    log_proba : callable or None
        ``log_proba()`` is the ndarray of shape (k,) of natural logarithms of each pick's probability given those before
        it. It takes a pass over all rows, so it is done when asked for. None where the law is not known.
    log_weights : callable or None
        ``log_weights()`` is the ndarray of shape (n_points,) of unnormalised log-weights of the first pick; -inf is a
        row that could not be it.
    """

    indices: Indices
    log_proba: Callable[[], Scores] | None = None
    log_weights: Callable[[], Scores] | None = None


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
    values = check_scores(values, "values", minus_inf=True)
    k, beta = check_k(k, len(values)), check_beta(beta)
    check_rng(rng)
    return draw_rows(len(values), k, rng, beta, lambda: values, _exp_weights(values, beta))


def log_proba(values: ArrayLike, positions: ArrayLike, *, beta: float = 1.0) -> Scores:
    """Log-probability of each pick given those before it, under weights ``exp(beta * values)``.

    Parameters
    ----------
    values : array-like of shape (n_points,)
        Unnormalised log-weights at beta = 1; rows of value -inf are picked uniformly once nothing else is left.
    positions : array-like of shape (k,), int
        The picks, in order.
    beta : float, default=1.0
        Coldness; at 0 every row that is left is as probable as any other.

    Returns
    -------
    ndarray of shape (k,), float64

    Raises
    ------
    ValueError, TypeError
        If ``values`` hold NaN or +inf, or beta is not a number >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import log_proba
    >>> np.exp(log_proba(np.log([1.0, 2.0, 3.0, 4.0]), [3, 2]))
    array([0.4, 0.5])
    """
    values = check_scores(values, "values", minus_inf=True)
    positions = np.asarray(positions, dtype=np.int64)
    beta = check_beta(beta)
    if beta == 0:
        values = np.zeros(len(values))
    n_left = len(values) - np.arange(len(positions))
    # Mass left at each pick, summed from the last pick to the first: only ever added to, so nothing cancels. A mass is
    # kept as (largest value, log of the sum relative to it): exact for every beta, where beta * value could overflow.
    mass = _log_mass(np.delete(values, positions), beta)
    result = np.empty(len(positions))
    for j in reversed(range(len(positions))):
        value = float(values[positions[j]])
        mass = _add_mass(mass, (value, 0.0), beta)
        top, log_sum = mass
        result[j] = -math.log(n_left[j]) if top == -math.inf else beta * (value - top) - log_sum
    return result


def _sampler(
    *, log_weights: Callable[[Scores, float], Scores]
) -> Callable[[Callable[..., Batch]], Callable[..., Indices]]:
    """Register a function that draws a `Batch` as a sampler, which returns the batch's indices."""

    def register(draw: Callable[..., Batch]) -> Callable[..., Indices]:
        @functools.wraps(draw)
        def sampler(scores: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Indices:
            return draw(scores, k, rng, beta=beta).indices

        def draw_batch(scores: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Batch:
            kept = _kept(scores)
            return replace(draw(kept, k, rng, beta=beta), log_weights=functools.partial(log_weights, kept, beta))

        sampler.__annotations__["return"] = "Indices"
        sampler.draw, sampler.log_weights = draw_batch, log_weights  # type: ignore[attr-defined]
        SAMPLERS[draw.__name__] = sampler
        return sampler

    return register


def _kept(scores: Any) -> Any:
    """What a batch may be asked about later: a copy, unless nobody can change it in between."""
    if hasattr(scores, "detach"):
        return scores.clone()
    return scores.copy() if isinstance(scores, np.ndarray) and scores.flags.writeable else scores


def _power_log_weights(scores: ArrayLike, beta: float = 1.0) -> Scores:
    values = _log(check_scores(scores, "scores", non_negative=True))
    return _log_weights(values, beta)


def _softmax_log_weights(scores: ArrayLike, beta: float = 1.0) -> Scores:
    return _log_weights(check_scores(scores, "scores", minus_inf=True), beta)


def _softrank_log_weights(scores: ArrayLike, beta: float = 1.0) -> Scores:
    """Tied rows are ranked in the order they stand in; the batch knows the ranks that were drawn."""
    scores = check_scores(scores, "scores", minus_inf=True)
    values = np.empty(len(scores))
    values[np.argsort(-scores, kind="stable")] = _rank_logs(len(scores), int(np.count_nonzero(scores > -np.inf)))
    return _log_weights(values, beta)


def _topk_log_weights(scores: ArrayLike, beta: float = 1.0) -> Scores:
    scores = check_scores(scores, "scores", minus_inf=True)
    return np.where(scores == scores.max(initial=-np.inf), 0.0, -np.inf)


def _uniform_log_weights(scores: ArrayLike, beta: float = 1.0) -> Scores:
    return np.zeros(len(check_scores(scores, "scores", minus_inf=True)))


@_sampler(log_weights=_power_log_weights)
def power(scores: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Batch:
    """Sample k rows with probability proportional to ``scores ** beta``.

    Parameters
    ----------
    scores : array-like or torch.Tensor of shape (n_points,)
        Not negative; values from -1e-9 up to 0 count as 0. With fewer than k positive scores, those come first and the
        rest of the batch is uniform, with a warning.
    k : int
        Number of rows.
    rng : numpy.random.Generator
    beta : float, default=1.0
        Coldness; 0 is uniform over all rows, those of score 0 included.

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows, most preferred first.

    Raises
    ------
    ValueError, TypeError
        If a score is negative, NaN or infinite, k is not an integer from 1 to n_points, or beta is not a number >= 0.

    References
    ----------
    Kirsch et al. (2023), Stochastic Batch Acquisition, sec. 3, power acquisition.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import power
    >>> power([0.1, 0.4, 0.2, 0.3], 2, np.random.default_rng(0), beta=4)
    array([3, 2])
    """
    scores = check_scores(scores, "scores", non_negative=True)
    k, beta = check_k(k, len(scores)), check_beta(beta)
    check_rng(rng)
    top = float(scores.max()) or 1.0

    def weights(rows: slice | Indices) -> Scores:
        return _raised(scores[rows] / top, beta)

    indices = draw_rows(len(scores), k, rng, beta, lambda: _log(scores), weights)
    if beta > 0:  # a score of 0 is picked only when no other is left
        warn_few_positive(int(np.count_nonzero(scores[indices])), k)
    return Batch(indices, functools.partial(_power_log_proba, scores, indices, beta))


@_sampler(log_weights=_softmax_log_weights)
def softmax(scores: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Batch:
    """Sample k rows with probability proportional to ``exp(beta * scores)``.

    Adding a constant to all scores changes nothing.

    Parameters
    ----------
    scores : array-like or torch.Tensor of shape (n_points,)
        Any real numbers; -inf is taken only when nothing else is left.
    k : int
        Number of rows.
    rng : numpy.random.Generator
    beta : float, default=1.0
        Coldness, in units of 1 / score.

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows, most preferred first.

    Raises
    ------
    ValueError, TypeError
        If a score is NaN or +inf, k is not an integer from 1 to n_points, or beta is not a number >= 0.

    References
    ----------
    Kirsch et al. (2023), Stochastic Batch Acquisition, sec. 3, softmax acquisition.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import softmax
    >>> softmax([-3000.0, -3001.0, -3010.0], 2, np.random.default_rng(0))
    array([0, 1])
    """
    scores = check_scores(scores, "scores", minus_inf=True)
    k, beta = check_k(k, len(scores)), check_beta(beta)
    check_rng(rng)
    indices = draw_rows(len(scores), k, rng, beta, lambda: scores, _exp_weights(scores, beta))
    return Batch(indices, functools.partial(log_proba, scores, indices, beta=beta))


@_sampler(log_weights=_softrank_log_weights)
def softrank(scores: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Batch:
    """Sample k rows with probability proportional to ``rank ** -beta``, the highest score having rank 1.

    Only the order of the scores matters. Tied rows share their ranks at random; log-probabilities are given the ranks
    that were drawn.

    Parameters
    ----------
    scores : array-like or torch.Tensor of shape (n_points,)
        Any real numbers; -inf is taken only when nothing else is left.
    k : int
        Number of rows.
    rng : numpy.random.Generator
    beta : float, default=1.0
        Coldness.

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows, most preferred first.

    Raises
    ------
    ValueError, TypeError
        If a score is NaN or +inf, k is not an integer from 1 to n_points, or beta is not a number >= 0.

    References
    ----------
    Kirsch et al. (2023), Stochastic Batch Acquisition, sec. 3, soft-rank acquisition.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import softrank
    >>> softrank([0.3, 0.1, 0.2, 0.9], 2, np.random.default_rng(0))
    array([1, 2])
    """
    scores = check_scores(scores, "scores", minus_inf=True)
    k, beta = check_k(k, len(scores)), check_beta(beta)
    check_rng(rng)
    n_ranked = int(np.count_nonzero(scores > -np.inf))
    positions = draw_ranks(len(scores), n_ranked, k, rng, beta)
    log_probabilities = functools.partial(_softrank_log_proba, len(scores), n_ranked, positions, beta)
    return Batch(rows_of_ranks(scores, positions, rng), log_probabilities)


@_sampler(log_weights=_topk_log_weights)
def topk(scores: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Batch:
    """Take the k rows of the highest scores; ties are broken at random.

    Parameters
    ----------
    scores : array-like or torch.Tensor of shape (n_points,)
        Any real numbers; -inf is taken only when nothing else is left.
    k : int
        Number of rows.
    rng : numpy.random.Generator
        Breaks ties.
    beta : float, default=1.0
        Has no effect: this is the limit of the other samplers as beta grows.

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows, highest score first.

    Raises
    ------
    ValueError, TypeError
        If a score is NaN or +inf, k is not an integer from 1 to n_points, or beta is not a number >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import topk
    >>> topk([0.3, 0.1, 0.2, 0.9], 2, np.random.default_rng(0))
    array([3, 0])
    """
    scores = check_scores(scores, "scores", minus_inf=True)
    k = check_k(k, len(scores))
    check_beta(beta)
    check_rng(rng)
    indices = top_rows(scores, k, rng)
    return Batch(indices, functools.partial(_topk_log_proba, scores, indices))


@_sampler(log_weights=_uniform_log_weights)
def uniform(scores: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Batch:
    """Sample k rows uniformly, whatever their scores.

    Parameters
    ----------
    scores : array-like or torch.Tensor of shape (n_points,)
        Only their number matters.
    k : int
        Number of rows.
    rng : numpy.random.Generator
    beta : float, default=1.0
        Has no effect: this is the limit of the other samplers as beta goes to 0.

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows.

    Raises
    ------
    ValueError, TypeError
        If a score is NaN or +inf, k is not an integer from 1 to n_points, or beta is not a number >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import uniform
    >>> uniform([0.3, 0.1, 0.2, 0.9], 2, np.random.default_rng(0))
    array([2, 3])
    """
    scores = check_scores(scores, "scores", minus_inf=True)
    check_beta(beta)
    k = check_k(k, len(scores))
    check_rng(rng)
    indices = rng.choice(len(scores), k, replace=False)
    return Batch(indices, functools.partial(log_proba, scores, indices, beta=0.0))


def _raised(x: Scores, beta: float) -> Scores:
    """``x ** beta``; squaring is several times as fast."""
    if beta in (2, 4, 8):
        return _raised(x * x, beta / 2)
    return x if beta == 1 else x**beta


def _exp_weights(values: Scores, beta: float) -> Callable[[slice | Indices], Scores]:
    top = float(values.max())

    def weights(rows: slice | Indices) -> Scores:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.exp(beta * (values[rows] - top)) if top > -math.inf else np.zeros(len(values[rows]))

    return weights


def _log(scores: Scores) -> Scores:
    with np.errstate(divide="ignore"):
        return np.log(scores)


def _log_weights(values: Scores, beta: float) -> Scores:
    beta = check_beta(beta)
    return beta * values if beta > 0 else np.zeros(len(values))


def _topk_log_proba(scores: Scores, indices: Indices) -> Scores:
    """Minus the log of the number of rows tied with each pick that are left."""
    picked, first, which = np.unique(scores[indices], return_index=True, return_inverse=True)
    slot = np.minimum(np.searchsorted(picked, scores), len(picked) - 1)
    n_tied = np.bincount(slot[picked[slot] == scores], minlength=len(picked))
    # The batch is in descending order, so picks of one value follow each other.
    return -np.log(n_tied[which] - (np.arange(len(indices)) - first[which]))


def _rank_logs(n: int, n_ranked: int) -> Scores:
    """-log rank by rank (not by row); ranks of -inf scores have no mass."""
    values = -np.log(np.arange(1.0, n + 1))
    values[n_ranked:] = -np.inf
    return values


def _power_log_proba(scores: Scores, indices: Indices, beta: float) -> Scores:
    return log_proba(_log(scores), indices, beta=beta)


def _softrank_log_proba(n: int, n_ranked: int, positions: Indices, beta: float) -> Scores:
    return log_proba(_rank_logs(n, n_ranked), positions, beta=beta)


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
