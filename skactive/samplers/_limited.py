"""Picks among the rows that are allowed: each follows a law there, or is uniform with probability epsilon.

A Plackett-Luce order without some of its rows is such an order of the others, with the same weights, and a row that is
refused once is refused from then on (`_feasibility`). So rows are drawn in order from those allowed now, and taken one
after the other but for those that are refused when their turn comes; that follows the law among the rows allowed. When
such an order is used up, another is drawn from the rows still allowed. Picks by chance come from a second order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ._feasibility import Allowance
from ._plackett_luce import BatchLaw, Law, n_allowed, normalised
from ._selection import Indices, Scores


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
            n_wanted, is_every_row = self._allowance.n_left, len(self._rows) == len(self._law)
            n_drawn = min(n_wanted + n_wanted // 2 + 16, len(self._rows))  # half as many again: some will be refused
            law = self._law if is_every_row else replace(self._law, scores=self._law.scores[self._rows])
            self._drawn = iter(self._rows[law.draw(n_drawn, self._rng)].tolist())


def uniform_order(allowance: Allowance, rng: np.random.Generator) -> Order:
    return Order(Law(np.zeros(allowance.n_rows), 0.0), allowance, rng)


def take_all(order: Order, allowance: Allowance) -> None:
    """Take rows in an order while any is allowed."""
    while (row := order.next()) is not None:
        allowance.take(row)


@dataclass(frozen=True)
class LimitedLaw:
    """A law with one value for each row, whose picks are among the rows that an allowance leaves.

    Each pick is uniform among these with probability ``epsilon``.
    """

    law: Law
    allowance: Allowance
    epsilon: float = 0.0

    def draw(self, rng: np.random.Generator) -> tuple[Indices, BatchLaw]:
        """Rows that have to be in the batch, and those drawn, while any is allowed."""
        by_law, by_chance = Order(self.law, self.allowance, rng), uniform_order(self.allowance, rng)
        while self.allowance.n_left:
            is_by_chance = self.epsilon > 0 and rng.random() < self.epsilon
            row = (by_chance if is_by_chance else by_law).next()
            if row is None:
                break
            self.allowance.take(row)
        return self.allowance.batch, BatchLaw(self.log_proba, self.first_log_proba)

    def log_proba(self) -> Scores:
        """Log-probability of each pick given those before it; 0 for rows that have to be in the batch."""
        picks, left_at = np.array(self.allowance.picks, dtype=np.int64), self.allowance.left_at()
        by_chance = -np.log(n_allowed(left_at, len(picks)))
        return of_batch(self.allowance, mixed(self.law.log_proba(picks, left_at), by_chance, self.epsilon))

    def first_log_proba(self) -> Scores:
        """Log-probability of each row to be the first pick beside the rows that have to be in the batch."""
        among = np.where(self.allowance.left_at() > 0, self.law.scores, -np.inf)
        return first_of(self.allowance, replace(self.law, scores=among).log_weights(), self.epsilon)


def of_batch(allowance: Allowance, log_proba: Scores) -> Scores:
    """Log-probabilities of picks, with those of the rows that have to be in the batch before them."""
    return np.concatenate([np.zeros(len(allowance.must)), log_proba])


def first_of(allowance: Allowance, log_weights: Scores, epsilon: float) -> Scores:
    """Log-probabilities of the first pick among the rows allowed; where none was made, of the batch's first row."""
    if not allowance.picks:
        return np.where(np.arange(allowance.n_rows) == allowance.must[:1], 0.0, -np.inf)
    uniform = np.where(allowance.left_at() > 0, 0.0, -np.inf)
    law = log_weights + uniform
    law = law if law.max() > -np.inf else uniform
    return mixed(normalised(law), normalised(uniform), epsilon)


def mixed(by_law: Scores, by_chance: Scores, epsilon: float) -> Scores:
    """Log-probabilities of picks that are made by chance with probability epsilon, and else by a law."""
    if epsilon == 0:
        return by_law
    with np.errstate(divide="ignore"):
        # Rounding may take the sum of two parts of 1 above it.
        return np.minimum(np.logaddexp(np.log1p(-epsilon) + by_law, np.log(epsilon) + by_chance), 0.0)
