"""Draws from weights that fall as rows are chosen: exact, and with few passes over the rows.

A row weighs something by itself, times a power of its squared distance from the nearest row chosen so far. Distances
only shrink. So one may draw from weights that are out of date, which are bounds, and accept a row with the ratio of its
weight now to that bound: that has exactly the law wanted, and takes distances of the few rows proposed alone. The first
bounds follow from norms. They are brought up to date, by one matrix product with all rows that were chosen since, once
rejections cost more than that.

Letters: N points, n of them rows that may be drawn, m proposed.
"""

from __future__ import annotations

import math

import numpy as np

from ._distances import Points, PointSet
from ._feasibility import Allowance
from ._selection import Indices, Scores

_PROPOSALS = 64  # at once: enough to hide what a call costs, few enough that their mutual distances cost little


class Bounds:
    """Weights of rows that are no less than those now, and the centres that they do not know of.

    A weight is ``exp(log_weights) * distance ** power``, the squared distance from the nearest centre. Rows that the
    allowance refuses have none, and those that are drawn are taken from it. Points beyond its rows are centres alone.

    Attributes
    ----------
    total : float
        0 once no row that has a weight is apart from all centres.
    """

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
        return float(self._cumulative_n[-1])

    def add(self, row: int) -> None:
        """Count a row as chosen."""
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
        """Compare, in products of a point and a centre, an update and what more rejections would take.

        What has been wasted bounds a forecast that is too rosy: in the end no more than twice the best is spent.
        """
        n_unknown = len(self._unknown)
        rejected = n_left * (_PROPOSALS / max(n_accepted, 1) - 1)
        ahead = rejected * (n_unknown + n_left / 2 + _PROPOSALS)
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
