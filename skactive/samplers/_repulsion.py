"""Batches whose rows keep apart: a row weighs less the nearer it lies to one that is chosen already.

The first row is drawn by the weights of a sampler, every further one by these times a power of its squared distance
from the nearest row chosen so far. With equal weights and the power 1 that is k-means++ seeding (Arthur and
Vassilvitskii, 2007); as the power goes to 0, the sampler alone.

Distances only shrink, so weights that are out of date are bounds. One may draw from these, and accept a row with the
ratio of its weight now to its bound: that has exactly the law wanted, and takes distances of the few rows proposed
alone. Bounds are brought up to date once rejections cost more than that.

Letters: N points, n of them rows that may be drawn (or those of a block), m proposed, k picks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from .._utils.validation import number
from ._distances import Points, PointSet
from ._feasibility import Allowance, Order, first_of, of_batch, take_all, uniform_order
from ._plackett_luce import BatchLaw, Law, warn_if_few
from ._selection import LITTLE_MASS, Indices, Scores, raised

# Near 100 a power of distances takes the farthest row, but for rows that are nearly as far.
DIVERSITY = number(0, 100, text="a number from 0 (the sampler alone) to 100", remedy="Try 1 or 2.")

_PROPOSALS = 64  # at once: enough to hide what a call costs, few enough that their mutual distances cost little


@dataclass(frozen=True)
class Repulsion:
    """The law of batches that keep apart, of rows that weigh ``exp(log_weights)`` by themselves.

    Points beyond the rows, and rows that have to be in the batch, count as chosen from the start. Rows without a
    weight, and rows where a chosen one lies, are picked only when no others are left, and then uniformly.
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
        apart = "have a positive score and lie apart from all rows chosen before them"
        warn_if_few(n_apart, len(self.allowance.picks), apart)
        return self.allowance.batch, BatchLaw(self.log_proba, self.first_log_proba)

    def _take_apart(self, by_chance: Order, rng: np.random.Generator) -> None:
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
                n_by_law = int(ahead.argmax()) if ahead.any() else len(ahead)
                if not bounds.draw(n_by_law, rng):
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
        picks, left_at = np.array(self.allowance.picks, dtype=np.int64), self.allowance.left_at()
        if not len(picks):
            return np.zeros(len(self.allowance.must))
        log_mass, log_picked = self._log_mass(picks, left_at)
        with np.errstate(invalid="ignore"):
            by_law = np.where(log_mass == -np.inf, np.nan, np.minimum(log_picked - log_mass, 0.0))
        return of_batch(self.allowance, left_at, by_law, self.epsilon)

    def first_log_proba(self) -> Scores:
        return first_of(self.allowance, self._log_weights_of_first(), self.epsilon)

    def _log_weights_of_first(self) -> Scores:
        if not len(self._known):
            return self.log_weights
        known = self.points[self._known]
        nearest = [nearest_distances(self.points[rows], known) for rows in self._blocks(len(known))]
        return log_weights_apart(self.log_weights, np.concatenate(nearest), self.power)

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
        """Rows that can be picked, without rows in flight; see `PointSet.blocks`."""
        n = len(self.log_weights)
        return (slice(b.start, min(b.stop, n)) for b in self.points.blocks(n_beside) if b.start < n)


class Bounds:
    """Weights ``exp(log_weights) * distance ** power`` that are no less than those now, and centres unknown to them."""

    def __init__(
        self, points: PointSet, centres: Indices, log_weights: Scores, power: float, allowance: Allowance
    ) -> None:
        self._points, self._log_weights, self._power = points, log_weights, power
        self._allowance = allowance
        self._unknown = points[centres]
        self._distances_N = points.bounds(int(centres[0]))
        self._renew()

    @property
    def total(self) -> float:
        """0 once no row that has a weight is apart from all centres."""
        return float(self._cumulative_n[-1])

    def add(self, row: int) -> None:
        self._unknown = self._unknown.joined(self._points[np.array([row])])

    def draw(self, n: int, rng: np.random.Generator) -> int:
        """Take up to n rows, which count as chosen from then on, and say how many; fewer if no more have a weight."""
        n_taken = 0
        while n_taken < n and self.total > 0:
            found = self._propose(n - n_taken, rng)
            n_taken += found
            if not found and not self._allowance.allowed.any():
                break
        return n_taken

    def _propose(self, n_wanted: int, rng: np.random.Generator) -> int:
        drawn = np.searchsorted(self._cumulative_n, rng.random(_PROPOSALS) * self.total, side="right")
        rows_m = np.minimum(drawn, len(self._cumulative_n) - 1)  # rounding may reach the total
        proposed = self._points[rows_m]
        bounds_m = self._distances_N[rows_m]
        now_m = np.minimum(bounds_m, nearest_distances(proposed, self._unknown))
        # A row is accepted with (distance now / bound) ** power: where its distance exceeds this random level.
        levels_m = bounds_m * rng.random(_PROPOSALS) ** (1 / self._power)
        accepted = self._accept(rows_m, levels_m, now_m, proposed, n_wanted)
        work = len(self._unknown) + _PROPOSALS
        self._unknown = self._unknown.joined(proposed[accepted])
        self._wasted += work * (_PROPOSALS - len(accepted))
        if len(accepted) < n_wanted:
            self._update_if_worth_it(len(accepted), n_wanted - len(accepted))
        return len(accepted)

    def _update_if_worth_it(self, n_accepted: int, n_left: int) -> None:
        """Compare, in products of a point and a centre, an update and what more rejections would take."""
        n_unknown = len(self._unknown)
        rejected = n_left * (_PROPOSALS / max(n_accepted, 1) - 1)
        ahead = rejected * (n_unknown + n_left / 2 + _PROPOSALS)
        # What was wasted bounds a forecast that is too rosy: in the end no more than twice the best is spent.
        if max(ahead, self._wasted) > len(self._points) * n_unknown:
            self.update()

    def update(self) -> None:
        """Make the bounds the weights of now."""
        for rows in self._points.blocks():
            nearest = nearest_distances(self._points[rows], self._unknown)
            np.minimum(self._distances_N[rows], nearest, out=self._distances_N[rows])
        self._unknown = self._unknown[:0]
        self._renew()

    def _accept(self, rows_m: Indices, levels_m: Scores, now_m: Scores, proposed: Points, n_wanted: int) -> list[int]:
        """Proposals, in order, that are farther from the nearest centre, those just accepted included, than a level."""
        between_mm = proposed.squared_distances(proposed).cpu().numpy()
        accepted: list[int] = []
        for i, level in enumerate(levels_m):
            if level < now_m[i] and self._allowance.allows_row(row := int(rows_m[i])):
                self._allowance.take(row)
                accepted.append(i)
                now_m = np.minimum(now_m, between_mm[i])
                if len(accepted) == n_wanted:
                    break
        return accepted

    def _renew(self) -> None:
        n = self._allowance.n_rows
        log_n = log_weights_apart(self._log_weights, self._distances_N[:n], self._power)
        log_n[~self._allowance.allowed] = -np.inf
        top = log_n.max()
        # Relative to the largest: no power of a distance overflows, and at least one weight is 1.
        self._cumulative_n = np.exp(log_n - top).cumsum() if top > -math.inf else np.zeros(n)
        self._wasted = 0


def nearest_distances(points: Points, centres: Points) -> Scores:
    """Squared distance of each point from the nearest centre, infinite if there is none."""
    if len(centres) == 0:
        return np.full(len(points), np.inf)
    return points.squared_distances(centres).amin(1).cpu().numpy()


def log_weights_apart(log_weights: Scores, distances: Scores, power: float) -> Scores:
    """Logarithms of weights, of rows (n,) or at several times (n, k); a row at distance 0 has none."""
    with np.errstate(divide="ignore"):
        log_distances = np.log(distances)
    return (power * log_distances.T + log_weights).T


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
