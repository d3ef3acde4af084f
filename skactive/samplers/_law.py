"""The samplers by name, each with its law, and batches by these: mixed with chance, within limits, apart."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from .._utils.randomness import check_rng
from .._utils.validation import BETA, ScoreError, check_k, check_scores, float64_array, look_up, numbers_in_place, warn
from ._distances import PointSet, Vectors
from ._feasibility import Allowance, LimitedLaw
from ._plackett_luce import BatchLaw, Law, RankLaw, warn_if_few
from ._repulsion import DIVERSITY, Repulsion
from ._selection import Indices, Scores, Weights, raised

_AS_TOP_K = 1e12  # a beta so cold that the next rank comes first with probability exp(-1e12 / n_points)


class Sampler(Protocol):
    uses_beta: bool

    def __call__(self, scores: ArrayLike, k: int, rng: np.random.Generator, *, beta: float = 1.0) -> Indices: ...

    def log_weights(self, scores: ArrayLike, beta: float = 1.0) -> Scores: ...

    def law(self, scores: ArrayLike, beta: float = 1.0) -> Law: ...


SAMPLERS: dict[str, Sampler] = {}
"""Samplers by name. Companions are ``log_weights(scores, beta)`` of the first pick, and whether it ``uses_beta``."""


def _sampler(
    *, non_negative: bool = False, uses_beta: bool = True
) -> Callable[[Callable[[Scores, float], Law]], Sampler]:
    """Turn a function that states the law of checked scores and beta into a registered sampler."""

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
            why = "BALD is 0 where all draws agree, as with a model that has learned nothing from few labels"
            warn_if_few(int(np.count_nonzero(self.scores[picks])), k, f"have a positive score ({why})")
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
        Coldness; 0 is uniform over all rows, including those of score 0.

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows, most preferred first.

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

    Adding a constant to all scores changes nothing; beta is in units of 1 / score. Parameters and returned values are
    those of `power`, but scores may be any real numbers: -inf is taken only when nothing else is left.

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
    that were drawn. Parameters and returned values are those of `softmax`.

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

    Parameters and returned values are those of `softmax`. beta has no effect: this is the limit of the other
    samplers as it grows.
    """
    return Law(scores, math.inf)


@_sampler(uses_beta=False)
def uniform(scores: Scores, beta: float) -> Law:
    """Sample k rows uniformly, whatever their scores.

    Parameters and returned values are those of `softmax`. beta has no effect: this is the limit of the other
    samplers as it goes to 0.
    """
    return Law(scores, 0.0)


def repulsive(
    scores: ArrayLike, points: Any, k: int, rng: np.random.Generator, *, beta: float = 1.0, diversity: float = 1.0
) -> Indices:
    r"""Sample k rows that have high scores and lie apart.

    The first row is drawn with probability proportional to :math:`s_i^\beta`, every further one with probability
    proportional to :math:`s_i^\beta d_i^\gamma` among the rows left: d is the squared distance from the nearest row
    drawn so far, and :math:`\gamma` the diversity. Every prefix of a batch is a batch. Time is one or a few passes over
    the points, which are read in blocks; pairwise distances are never formed.

    Parameters
    ----------
    scores, k, rng, beta
        As for `power`.
    points : array-like of shape (n_points, n_columns)
        Finite numbers of any dtype, in an array, a memory map, a tensor on any device, a scipy sparse CSR array or a
        dask array. None of these is copied as a whole. Their scale does not matter, between 1e-100 and 1e100.
    diversity : float, default=1.0
        The power of the squared distance, up to 100; 0 is `power` alone.

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows, most preferred first. Once no row left has a positive score and lies apart from all rows chosen,
        the rest is uniform, with a warning. If all points are equal, scores alone decide, with a warning.

    References
    ----------
    Arthur and Vassilvitskii (2007), k-means++: The Advantages of Careful Seeding, sec. 2.2, for equal scores; Kirsch et
    al. (2023), Stochastic Batch Acquisition, sec. 3, for diversity 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.samplers import repulsive
    >>> points = [[0.0, 0.0], [0.0, 0.1], [9.0, 0.0], [0.0, 9.0]]
    >>> repulsive([0.9, 0.8, 0.3, 0.3], points, 3, np.random.default_rng(0), diversity=4)
    array([0, 3, 2])
    """
    scores = check_scores(scores, "scores", non_negative=True)
    diversity = float(DIVERSITY.check("diversity", diversity))
    k = check_k(k, len(scores))
    check_rng(rng)
    points = numbers_in_place("points", points)
    if len(points.shape) != 2 or points.shape[0] != len(scores) or points.shape[1] == 0:
        raise ValueError(
            f"`points` must have shape ({len(scores)}, n_columns), a row for each score. "
            f"Got shape {tuple(points.shape)}."
        )
    if diversity == 0:
        return SAMPLERS["power"](scores, k, rng, beta=beta)
    apart = PointSet(Vectors(points, "points", centred=True))
    return draw_batch("power", scores, k, rng, beta=beta, points=apart, diversity=diversity)[0]


def draw_batch(
    sampler: str | Callable[..., Any],
    scores: Scores,
    k: int,
    rng: np.random.Generator,
    *,
    beta: float = 1.0,
    epsilon: float = 0.0,
    allowance: Allowance | None = None,
    points: PointSet | None = None,
    diversity: float = 0.0,
) -> tuple[Indices, BatchLaw | None]:
    """Draw k rows, most preferred first, and state their law, which a sampler of the user's own alone has not.

    An ``allowance``, from which the rows are taken, says how many. Points beyond those that have scores count as chosen
    from the start. A pick is uniform among the rows left with probability ``epsilon``.
    """
    draw: Any = look_up("sampler", sampler, SAMPLERS)
    scores = _kept(scores, draw)
    keeps_apart = points is not None and diversity > 0
    if not keeps_apart and allowance is None and epsilon == 0:
        if hasattr(draw, "law"):
            return draw.law(scores, beta).batch(k, rng)
        return _checked(draw(scores, k, rng, beta=beta), k, len(scores)), None
    wanted_by = "`diversity` above 0" if keeps_apart else "`epsilon` above 0" if epsilon > 0 else "`limits`"
    law = _law_of_rows(draw, scores, beta, rng, wanted_by)
    among = Allowance(len(scores), k) if allowance is None else allowance
    if (keeps_apart or epsilon > 0) and law.beta == math.inf:  # tied rows get their places in the order now
        law = RankLaw(law.scores, _AS_TOP_K).by_row(rng)
    if points is not None and keeps_apart:
        if not points.are_equal():
            return Repulsion(law.log_weights(), points, diversity, among, epsilon).draw(rng)
        warn("All points are equal, so `diversity` has no effect: scores alone decide.")
        return LimitedLaw(law, among, epsilon).draw(rng)
    batch = LimitedLaw(law, among, epsilon).draw(rng)
    if epsilon == 0 and law.beta > 0:
        n_found = int(np.count_nonzero(law.scores[among.picks] > -np.inf))
        warn_if_few(n_found, len(among.picks), "that the limits leave could be drawn by their scores")
    return batch


def _law_of_rows(sampler: Any, scores: Scores, beta: float, rng: np.random.Generator, wanted_by: str) -> Law:
    """The sampler's law as one value for each row; tied rows share their ranks at random."""
    if hasattr(sampler, "law"):
        return sampler.law(scores, beta).by_row(rng)
    check_has_law(sampler, wanted_by)
    # In random order: a function of the user's own may break ties by the place of a row.
    order = rng.permutation(len(scores))
    log_weights = np.empty(len(scores))
    try:
        log_weights[order] = sampler.log_weights(scores[order], beta)
    except ScoreError as error:
        raise error.of_rows(order) from None
    return Law(check_scores(log_weights, "log_weights", minus_inf=True), 1.0)


def check_has_law(sampler: Any, wanted_by: str) -> None:
    if not hasattr(sampler, "log_weights"):
        name = getattr(sampler, "__name__", type(sampler).__name__)
        raise ValueError(
            f"{wanted_by} needs a sampler whose law is known, but {name!r} has no `log_weights`. Use one of "
            "skactive.samplers, or give your sampler such a function."
        )


def _kept(scores: Any, sampler: Any) -> Scores:
    """Scores that cannot change before probabilities are asked for: a copy, unless they are a read-only array."""
    # the package's own samplers check them as they state their law
    checked = float64_array("scores", scores) if hasattr(sampler, "law") else check_scores(scores, minus_inf=True)
    return checked if isinstance(scores, np.ndarray) and not scores.flags.writeable else checked.copy()


def _checked(positions: Any, k: int, n_points: int) -> Indices:
    positions = np.asarray(positions)
    distinct = positions.ndim == 1 and len(np.unique(positions)) == len(positions) == k
    if not (distinct and positions.dtype.kind in "iu" and positions.min() >= 0 and positions.max() < n_points):
        raise ValueError(
            f"`sampler` must return {k} distinct positions from 0 to {n_points - 1}. Got {positions!r} instead."
        )
    return positions.astype(np.int64)
