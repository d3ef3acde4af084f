"""Batches whose rows keep apart: a row weighs less the nearer it lies to one that is chosen already.

The first row is drawn by the weights of a sampler, every further one by these times a power of its squared distance
from the nearest row chosen so far. With equal weights and the power 1 that is k-means++ seeding (Arthur and
Vassilvitskii, 2007); as the power goes to 0, the sampler alone.

Letters: n rows of a block, k picks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from .._checks import BETA, check_k, check_scores, number, numbers_in_place, warn
from .._random import check_rng
from ._distances import Points, PointSet, Vectors
from ._feasibility import Allowance
from ._limited import LimitedLaw, Order, first_of, mixed, of_batch, take_all, uniform_order
from ._plackett_luce import BatchLaw, Law, n_allowed
from ._rejection import Bounds, log_weights_apart, nearest_distances
from ._samplers import power, raised
from ._selection import LITTLE_MASS, Indices, Scores

# Near 100 a power of distances takes the farthest row, but for rows that are nearly as far.
DIVERSITY = number(0, 100, text="a number from 0 (the sampler alone) to 100", remedy="Try 1 or 2.")


def repulsive(
    scores: ArrayLike, points: Any, k: int, rng: np.random.Generator, *, beta: float = 1.0, diversity: float = 1.0
) -> Indices:
    r"""Sample k rows that have high scores and lie apart.

    The first row is drawn with probability proportional to :math:`s_i^\beta`, every further one with probability
    proportional to :math:`s_i^\beta d_i^\gamma` among the rows left: d is the squared distance from the nearest row
    drawn so far, and :math:`\gamma` the diversity. Every prefix of a batch is a batch. Time is a pass or a few over the
    points, which are read in blocks; no distances between all of them are formed.

    Parameters
    ----------
    scores : array-like or torch.Tensor of shape (n_points,)
        Not negative; values from -1e-9 up to 0 count as 0.
    points : array-like of shape (n_points, n_columns), or tuple of two of these
        Finite numbers of any dtype, in an array, a memory map, a tensor on any device, a scipy sparse CSR array or a
        dask array. None of these is copied as a whole. Of two arrays (a, h), a point is the outer product of its rows
        :math:`a_i \otimes h_i`, which is never formed. The scale of the points does not matter.
    k : int
        Number of rows.
    rng : numpy.random.Generator
    beta : float, default=1.0
        Coldness of the scores; 0 does without them.
    diversity : float, default=1.0
        The power of the squared distance, up to 100; 0 is `power` alone.

    Returns
    -------
    ndarray of shape (k,), int64
        Distinct rows, most preferred first. Once no row left has a positive score and lies apart from all rows chosen,
        the rest is uniform, with a warning. Where all points are equal, scores alone decide, with a warning.

    Raises
    ------
    ValueError, TypeError
        If there is not a score for each point, a score is negative, NaN or infinite, a point is not finite, k is not an
        integer from 1 to n_points, ``beta`` is not a finite number >= 0, or ``diversity`` no number from 0 to 100.

    See Also
    --------
    samplers.power : The same without distances.
    badge.badge : The same law with equal scores, for gradients.

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
    factors = points if isinstance(points, tuple) else (points,)
    if len(factors) not in (1, 2):
        raise ValueError(f"`points` must be one array, or a tuple of two. Got a tuple of {len(factors)}.")
    arrays = [_checked_points(array, len(scores)) for array in factors]
    if diversity == 0:
        return power(scores, k, rng, beta=beta)
    apart = PointSet(*(Vectors(array, "points", centred=len(factors) == 1) for array in arrays))
    law = power.law(scores, float(BETA.check("beta", beta))).by_row(rng)
    return draw_apart(law, apart, Allowance(len(scores), k), rng, diversity)[0]


def draw_apart(
    law: Law, points: PointSet, allowance: Allowance, rng: np.random.Generator, diversity: float, epsilon: float = 0.0
) -> tuple[Indices, BatchLaw]:
    """Draw rows that keep apart, by the weights of a law, while the allowance allows any.

    Points beyond those that have scores count as chosen from the start. If all points are equal, scores alone decide,
    with a warning.
    """
    if points.are_equal():
        warn("All points are equal, so that none keep apart: scores alone decide, as with diversity=0.")
        return LimitedLaw(law, allowance, epsilon).draw(rng)
    return Repulsion(law.log_weights(), points, diversity, allowance, epsilon).draw(rng)


def _checked_points(array: Any, n_points: int) -> Any:
    array = numbers_in_place("points", array)
    if len(array.shape) != 2 or array.shape[1] == 0:
        raise ValueError(
            f"`points` must have shape (n_points, n_columns), or be two such arrays. Got shape {tuple(array.shape)}."
        )
    if array.shape[0] != n_points:
        raise ValueError(f"`points` must have a row for each of the {n_points} scores. Got {array.shape[0]} rows.")
    return array


@dataclass(frozen=True)
class Repulsion:
    """The law of batches that keep apart.

    Attributes
    ----------
    log_weights : ndarray of shape (n_rows,)
        What a row weighs by itself; -inf is no weight. Rows without a weight, and rows where a chosen one lies, are
        picked only when no others are left, and then uniformly.
    points : PointSet
        The rows, and after them those that count as chosen from the start.
    power : float
        Of squared distances, above 0.
    allowance : Allowance
        Which rows are left at each pick. What is drawn is taken from it; rows that have to be in the batch count as
        chosen from the start.
    epsilon : float
        Probability with which a pick is uniform among the rows left.
    """

    log_weights: Scores
    points: PointSet
    power: float
    allowance: Allowance
    epsilon: float = 0.0

    def draw(self, rng: np.random.Generator) -> tuple[Indices, BatchLaw]:
        """A batch of as many rows as the allowance allows, most preferred first."""
        by_chance = uniform_order(self.allowance, rng)
        self._take_apart(by_chance, rng)
        n_apart = len(self.allowance.picks)
        take_all(by_chance, self.allowance)
        if n_apart < len(self.allowance.picks):
            warn_none_apart(n_apart, len(self.allowance.picks))
        return self.allowance.batch, BatchLaw(self.log_proba, self.first_log_proba)

    def _take_apart(self, by_chance: Order, rng: np.random.Generator) -> None:
        """Take rows until none that is left has a weight."""
        allowance, known = self.allowance, self._known
        is_by_chance = rng.random(allowance.n_left) < self.epsilon
        if not allowance.n_left:
            return
        if not len(known):
            first = by_chance.next() if is_by_chance[0] else self._first(rng)
            if first is None:
                return
            allowance.take(first)
            known = np.array([first])
        bounds = Bounds(self.points, known, self.log_weights, self.power, allowance)
        while allowance.n_left and bounds.total > 0:
            ahead = is_by_chance[len(allowance.picks) :]
            if not ahead[0]:
                if not bounds.draw(_length_of_run(ahead), rng):
                    return
            elif (row := by_chance.next()) is not None:
                allowance.take(row)
                bounds.add(row)
            else:
                return

    def _first(self, rng: np.random.Generator) -> int | None:
        """The first row by the law, where no other is known; None if no row has a weight."""
        log_weights = np.where(self.allowance.allowed, self.log_weights, -np.inf)
        return int(Law(log_weights, 1.0).draw(1, rng)[0]) if log_weights.max() > -np.inf else None

    @property
    def _known(self) -> Indices:
        """Points that count as chosen from the start."""
        return np.concatenate([np.arange(len(self.log_weights), len(self.points)), self.allowance.must])

    def log_proba(self) -> Scores:
        """Log-probability of each pick given those before it; 0 for rows that have to be in the batch."""
        picks, left_at = np.array(self.allowance.picks, dtype=np.int64), self.allowance.left_at()
        if not len(picks):
            return of_batch(self.allowance, np.empty(0))
        log_mass, log_picked = self._log_mass(picks, left_at)
        by_chance = -np.log(n_allowed(left_at, len(picks)))
        with np.errstate(invalid="ignore"):
            by_law = np.where(log_mass == -np.inf, by_chance, np.minimum(log_picked - log_mass, 0.0))
        return of_batch(self.allowance, mixed(by_law, by_chance, self.epsilon))

    def first_log_proba(self) -> Scores:
        """Log-probability of each row to be the first pick beside the rows that have to be in the batch."""
        return first_of(self.allowance, self._log_weights_of_first(), self.epsilon)

    def _log_weights_of_first(self) -> Scores:
        if not len(self._known):
            return self.log_weights
        known, log_weights = self.points[self._known], np.empty(len(self.log_weights))
        for rows in self._blocks(len(known)):
            nearest = nearest_distances(self.points[rows], known)
            log_weights[rows] = log_weights_apart(self.log_weights[rows], nearest, self.power)
        return log_weights

    def _log_mass(self, picks: Indices, left_at: Indices) -> tuple[Scores, Scores]:
        """Log of the weights of all rows left at each pick, summed, and of that of the row picked; in one pass."""
        k = len(picks)
        centres = self.points[np.concatenate([self._known, picks[:-1]])]
        place = np.full(len(self.log_weights), k)  # of a row in the batch
        place[picks] = np.arange(k)
        log_mass, log_picked = np.full(k, -np.inf), np.empty(k)
        for rows in self._blocks(len(centres) + k):
            self.points.check_unchanged(rows)
            nearest_nk, log_weights_n = self._nearest_at(rows, centres, k), self.log_weights[rows]
            for row in np.flatnonzero(place[rows] < k):
                at = place[rows][row]
                log_picked[at] = log_weights_apart(log_weights_n[row], nearest_nk[row, at], self.power)
            gone = np.flatnonzero(left_at[rows] < k)
            nearest_nk[gone] *= np.arange(k) < left_at[rows][gone, None]
            # Blocks are added up as logarithms: weights of a block may be all below the least float.
            log_mass = np.logaddexp(log_mass, _log_sums(log_weights_n, nearest_nk, self.power))
        return log_mass, log_picked

    def _nearest_at(self, rows: slice, centres: Points, k: int) -> Scores:
        """Squared distances (n, k) of some rows from the nearest centre at each pick."""
        nearest = np.ones((rows.stop - rows.start, k))  # the first pick knows no distances, where no row was known
        n_known = len(self._known)
        if len(centres):
            distances = self.points[rows].squared_distances(centres).cpu().numpy()
            np.minimum.accumulate(distances, axis=1, out=distances)
            nearest[:, 0 if n_known else 1 :] = distances[:, max(n_known - 1, 0) :]
        return nearest

    def _blocks(self, n_beside: int) -> Iterator[slice]:
        """Rows that can be picked, in blocks that fit some MiB with so many numbers beside each row."""
        n = len(self.log_weights)
        return (slice(b.start, min(b.stop, n)) for b in self.points.blocks(n_beside) if b.start < n)


def _log_sums(log_weights_n: Scores, nearest_nk: Scores, power: float) -> Scores:
    """Logarithms (k,) of the sums over rows of ``exp(log_weight) * distance ** power``."""
    top, farthest = float(log_weights_n.max()), float(nearest_nk.max())
    if top == -np.inf or farthest == 0:
        return np.full(nearest_nk.shape[1], -np.inf)
    relative = nearest_nk / farthest  # at most 1: no power overflows
    sums = np.exp(log_weights_n - top) @ raised(relative, power)
    with np.errstate(divide="ignore"):
        logs = top + power * math.log(farthest) + np.log(sums)
    few_digits = np.flatnonzero(sums < LITTLE_MASS)  # or none: logarithms of weights keep them
    logs[few_digits] = logsumexp(log_weights_apart(log_weights_n, nearest_nk[:, few_digits], power), axis=0)
    return logs


def _length_of_run(is_by_chance: NDArray[np.bool_]) -> int:
    """How many picks in a row the law makes before chance makes one."""
    return int(is_by_chance.argmax()) if is_by_chance.any() else len(is_by_chance)


def warn_none_apart(n_found: int, k: int) -> None:
    warn(
        f"Only {n_found} of the {k} rows have a positive score and lie apart from all rows chosen before them. The "
        f"other {k - n_found} rows were drawn uniformly at random."
    )
