"""The samplers by name. Each states its law for scores and beta; drawing and probabilities follow from the law."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from .._utils.randomness import check_rng
from .._utils.validation import BETA, check_k, check_scores, warn
from ._plackett_luce import Law, RankLaw
from ._selection import Indices, Scores, Weights


class Sampler(Protocol):
    """A sampler with its companions: ``law(scores, beta)``, and what follows from it."""

    uses_beta: bool

    def __call__(self, scores: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Indices: ...

    def log_weights(self, scores: ArrayLike, beta: float = 1.0) -> Scores: ...

    def law(self, scores: ArrayLike, beta: float = 1.0) -> Law: ...


SAMPLERS: dict[str, Sampler] = {}
"""Samplers by name. Each has companions: ``log_weights(scores, beta)`` are the log-weights of the first pick;
``uses_beta`` says whether beta has an effect."""


def _sampler(
    *, non_negative: bool = False, uses_beta: bool = True
) -> Callable[[Callable[[Scores, float], Law]], Sampler]:
    """Turn a function that states the law of checked scores and beta into a registered sampler, which draws from it."""

    def register(state: Callable[[Scores, float], Law]) -> Sampler:
        def law(scores: ArrayLike, beta: float = 1.0) -> Law:
            scores = check_scores(scores, "scores", minus_inf=not non_negative, non_negative=non_negative)
            return state(scores, float(BETA.check("beta", beta)))

        def sampler(scores: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Indices:
            of_scores = law(scores, beta)
            k = check_k(k, len(of_scores))
            check_rng(rng)
            return of_scores.draw(k, rng)

        def log_weights(scores: ArrayLike, beta: float = 1.0) -> Scores:
            return law(scores, beta).log_weights()

        signature = inspect.signature(sampler)
        functools.update_wrapper(sampler, state).__module__ = __package__  # where users, pickles and doctest find it
        sampler.__signature__ = signature  # type: ignore[attr-defined]
        sampler.law, sampler.log_weights = law, log_weights  # type: ignore[attr-defined]
        sampler.uses_beta = uses_beta  # type: ignore[attr-defined]
        SAMPLERS[state.__name__] = cast(Sampler, sampler)
        return SAMPLERS[state.__name__]

    return register


_POSITIVE = (
    "have a positive score (BALD is 0 where all draws agree, as of a model that learned nothing from few labels)"
)


class _PowerLaw(Law):
    """Weights ``score ** beta``. Most draws need no logarithm of all scores."""

    def values(self) -> Scores:
        with np.errstate(divide="ignore"):
            return np.log(self.scores)

    def weights(self) -> Weights:
        top = float(self.scores.max()) or 1.0  # relative to the largest: no power overflows
        return lambda rows: raised(self.scores[rows] / top, self.beta)

    def draw(self, k: int, rng: np.random.Generator) -> Indices:
        picks = super().draw(k, rng)
        if self.beta > 0:  # a score of 0 is picked only when no other is left
            warn_if_few(int(np.count_nonzero(self.scores[picks])), k, _POSITIVE)
        return picks


@_sampler(non_negative=True)
def power(scores: Scores, beta: float) -> Law:
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

    See Also
    --------
    samplers.repulsive : Keeps rows apart as well.

    References
    ----------
    Kirsch et al. (2023), Stochastic Batch Acquisition, sec. 3, for power, softmax and soft-rank acquisition.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import power
    >>> power([0.1, 0.4, 0.2, 0.3], 2, np.random.default_rng(0), beta=4)
    array([3, 2])
    """
    return _PowerLaw(scores, beta)


@_sampler()
def softmax(scores: Scores, beta: float) -> Law:
    """Sample k rows with probability proportional to ``exp(beta * scores)``.

    Adding a constant to all scores changes nothing; beta is in units of 1 / score.

    Parameters, returned values and errors are those of `power`, but scores may be any real numbers: -inf is taken only
    when nothing else is left.

    See Also
    --------
    samplers.power : Takes zero for nothing to learn.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import softmax
    >>> softmax([-3000.0, -3001.0, -3010.0], 2, np.random.default_rng(0))
    array([0, 1])
    """
    finite = scores[scores > -np.inf] if scores.min(initial=0) == -np.inf else scores
    # Differences of scores beyond 4e307 may overflow; those of a quarter of them do not.
    is_wide = max(finite.max(initial=0), -finite.min(initial=0)) > 4e307
    return Law(scores / 4, 4 * beta) if is_wide and 4 * beta < math.inf else Law(scores, beta)


@_sampler()
def softrank(scores: Scores, beta: float) -> Law:
    """Sample k rows with probability proportional to ``rank ** -beta``, the highest score having rank 1.

    Only the order of the scores matters. Tied rows share their ranks at random; log-probabilities are given the ranks
    that were drawn.

    Parameters, returned values and errors are those of `power`, but scores may be any real numbers: -inf is taken only
    when nothing else is left.

    See Also
    --------
    samplers.topk : The limit of a large ``beta``.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import softrank
    >>> softrank([0.3, 0.1, 0.2, 0.9], 2, np.random.default_rng(0))
    array([1, 2])
    """
    return RankLaw(scores, beta)


@_sampler(uses_beta=False)
def topk(scores: Scores, beta: float) -> Law:
    """Take the k rows of the highest scores; ties are broken at random.

    Parameters, returned values and errors are those of `power`, but scores may be any real numbers: -inf is taken only
    when nothing else is left. beta has no effect: this is the limit of the other samplers as it grows.

    See Also
    --------
    samplers.power : With noise, so that near-duplicates rarely meet.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import topk
    >>> topk([0.3, 0.1, 0.2, 0.9], 2, np.random.default_rng(0))
    array([3, 0])
    """
    return Law(scores, math.inf)


@_sampler(uses_beta=False)
def uniform(scores: Scores, beta: float) -> Law:
    """Sample k rows uniformly, whatever their scores.

    Parameters, returned values and errors are those of `power`, but scores may be any real numbers: -inf is taken only
    when nothing else is left. beta has no effect: this is the limit of the other samplers as it goes to 0.

    See Also
    --------
    samplers.topk : The other extreme.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import uniform
    >>> uniform([0.3, 0.1, 0.2, 0.9], 2, np.random.default_rng(0))
    array([2, 3])
    """
    return Law(scores, 0.0)


def raised(x: Scores, beta: float) -> Scores:
    """``x ** beta``; squaring is several times as fast."""
    if beta in (2, 4, 8):
        return raised(x * x, beta / 2)
    return x if beta == 1 else x**beta


def warn_if_few(n_found: int, k: int, what: str) -> None:
    if n_found < k:
        how = f"the other {k - n_found} were drawn uniformly at random"
        warn(f"Only {n_found} rows {what}, and {k} were asked for: {how}.")
