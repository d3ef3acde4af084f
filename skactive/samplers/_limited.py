"""Batches that keep to limits: each pick follows the law of a sampler among the rows that are still allowed.

A Plackett-Luce order without some of its rows is such an order of the others, with the same weights, and a row that is
refused once is refused from then on (`_allowance`). So rows are drawn in order from those allowed now, and taken one
after the other but for those that are refused when their turn comes; that follows the law. When such an order is used
up, another is drawn from the rows still allowed.

Letters: n rows, k picks, and k + 1 times at which a row can have left the rows allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from .._checks import warn
from ._allowance import Allowance
from ._law import Batch, Law, _add_mass
from ._mixture import law_of_order, mixed
from ._selection import Indices, Scores

__all__ = ["LimitedLaw", "Order", "draw_limited", "draw_uniform"]


def draw_limited(
    sampler: Callable[..., Any],
    scores: Scores,
    allowance: Allowance,
    rng: np.random.Generator,
    beta: float,
    epsilon: float = 0.0,
) -> Batch:
    """Draw rows while any is allowed, by a sampler that has a law, each uniformly with probability ``epsilon``."""
    if epsilon == 0 and hasattr(sampler, "law"):
        law = sampler.law(scores, beta).by_row(rng)
    else:
        law = law_of_order(sampler, scores, beta, rng, "`limits`")
    batch = LimitedLaw(law, allowance, epsilon).draw(rng)
    if epsilon == 0 and law.beta > 0:
        _warn_few_with_weight(law.scores[allowance.picks])
    return batch


def draw_uniform(allowance: Allowance, rng: np.random.Generator) -> Batch:
    """Draw rows uniformly while any is allowed."""
    return LimitedLaw(uniform_law(len(allowance.allowed)), allowance).draw(rng)


def uniform_law(n_rows: int) -> Law:
    return Law(np.zeros(n_rows), 0.0)


class Order:
    """Rows in the order of a law, without those that are not allowed when their turn comes."""

    def __init__(self, law: Law, allowance: Allowance, rng: np.random.Generator) -> None:
        self._law, self._allowance, self._rng = law, allowance, rng
        self._rows: Indices | None = None
        self._drawn: Iterator[int] = iter(())

    def next(self) -> int | None:
        """The next row that is allowed; None if no row is."""
        while True:
            for row in self._drawn:
                if self._allowance.allows_row(row):
                    return row
            if self._rows is None:
                self._rows = np.flatnonzero(self._allowance.allowed)
            else:
                self._rows = self._rows[self._allowance.allows(self._rows)]
            if not len(self._rows):
                return None
            n_wanted, is_every_row = self._allowance.n_left, len(self._rows) == len(self._law.scores)
            n_drawn = min(n_wanted + n_wanted // 2 + 16, len(self._rows))
            law = self._law if is_every_row else replace(self._law, scores=self._law.scores[self._rows])
            self._drawn = iter(self._rows[law.draw(n_drawn, self._rng).indices].tolist())


@dataclass(frozen=True)
class LimitedLaw:
    """A law with one value for each row, whose picks are among the rows that an allowance leaves.

    Each pick is uniform among these with probability ``epsilon``.
    """

    law: Law
    allowance: Allowance
    epsilon: float = 0.0

    def draw(self, rng: np.random.Generator) -> Batch:
        """Rows that have to be in the batch, and those drawn, while any is allowed."""
        by_law, by_chance = (Order(law, self.allowance, rng) for law in (self.law, self._uniform()))
        while self.allowance.n_left:
            is_by_chance = self.epsilon > 0 and rng.random() < self.epsilon
            row = (by_chance if is_by_chance else by_law).next()
            if row is None:
                break
            self.allowance.take(row)
        return Batch(batch_of(self.allowance), self.log_proba, self.log_weights)

    def log_proba(self) -> Scores:
        """Log-probability of each pick given those before it; 0 for rows that have to be in the batch."""
        picks, left_at = np.array(self.allowance.picks, dtype=np.int64), self.allowance.left_at()
        by_law = log_proba_among(self.law, picks, left_at)
        if self.epsilon > 0:
            by_law = np.minimum(mixed(by_law, -np.log(n_allowed(left_at, len(picks))), self.epsilon), 0.0)
        return np.concatenate([np.zeros(len(self.allowance.must)), by_law])

    def log_weights(self) -> Scores:
        """Unnormalised log-weights, by row, of the first pick beside the rows that have to be in the batch."""
        among = np.where(self.allowance.left_at() > 0, self.law.scores, -np.inf)
        return log_weights_of_first(self.allowance, replace(self.law, scores=among).log_weights(), self.epsilon)

    def _uniform(self) -> Law:
        return replace(self.law, beta=0.0)


def batch_of(allowance: Allowance) -> Indices:
    """The batch so far: rows that have to be in it, then the picks."""
    return np.concatenate([allowance.must, np.array(allowance.picks, dtype=np.int64)])


def n_allowed(left_at: Indices, n_picks: int) -> Indices:
    """How many rows were allowed at each pick."""
    return np.bincount(left_at, minlength=n_picks + 1)[::-1].cumsum()[::-1][1:]


def log_weights_of_first(allowance: Allowance, log_weights: Scores, epsilon: float) -> Scores:
    """Log-weights of a law, for the first pick among the rows allowed; where none was made, for the batch's first."""
    if not allowance.picks:
        return np.where(np.arange(len(log_weights)) == allowance.must[:1], 0.0, -np.inf)
    uniform = np.where(allowance.left_at() > 0, 0.0, -np.inf)
    law = log_weights + uniform
    if law.max() == -np.inf:
        return uniform
    return mixed(law - logsumexp(law), uniform - logsumexp(uniform), epsilon) if epsilon > 0 else law


def log_proba_among(law: Law, picks: Indices, left_at: Indices) -> Scores:
    """Log-probability of each pick among the rows that left the allowed ones later, given those before it."""
    if law.beta == math.inf:
        return _log_proba_of_ties(law.scores, picks, left_at)
    values = law.scores if law.beta > 0 else np.zeros(len(law.scores))
    tops, log_sums = _log_masses(values, left_at, len(picks), law.beta)
    log_uniform = -np.log(n_allowed(left_at, len(picks)))
    # Summed from the last pick to the first: only ever added to, so that nothing cancels.
    mass, result = (-math.inf, -math.inf), np.empty(len(picks))
    for j in reversed(range(len(picks))):
        mass = _add_mass(mass, (float(tops[j + 1]), float(log_sums[j + 1])), law.beta)
        top, log_sum = mass
        result[j] = log_uniform[j] if top == -math.inf else law.beta * (values[picks[j]] - top) - log_sum
    return result


def _log_masses(values: Scores, left_at: Indices, k: int, beta: float) -> tuple[Scores, Scores]:
    """Sums of ``exp(beta * values)`` over the rows that left at each time, as `_log_mass` keeps them, in one pass."""
    tops = np.full(k + 1, -np.inf)
    np.maximum.at(tops, left_at, values)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        relative = np.where(values > -np.inf, np.exp(beta * (values - tops[left_at])), 0.0)
        return tops, np.log(np.bincount(left_at, relative, k + 1))


def _log_proba_of_ties(values: Scores, picks: Indices, left_at: Indices) -> Scores:
    """Minus the log of the number of rows allowed at each pick that are tied with it."""
    n_times = len(picks) + 1
    picked, slot_of_pick = np.unique(values[picks], return_inverse=True)
    slots = np.searchsorted(picked, values)
    tied = np.flatnonzero(picked.take(slots, mode="clip") == values) if len(picked) else np.empty(0, dtype=np.int64)
    keys = np.sort(slots[tied] * n_times + left_at[tied])
    ends = np.searchsorted(keys, (slot_of_pick + 1) * n_times)
    return -np.log(ends - np.searchsorted(keys, slot_of_pick * n_times + np.arange(len(picks)), side="right"))


def _warn_few_with_weight(values: Scores) -> None:
    n_picks, n_without = len(values), int(np.count_nonzero(values == -np.inf))
    if n_without:
        warn(
            f"Only {n_picks - n_without} of {n_picks} rows could be drawn by their scores: no other row that the "
            f"limits leave has a positive one, or a weight. The other {n_without} were drawn uniformly at random."
        )
