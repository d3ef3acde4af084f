"""Limited batches: which rows a batch may still take, and draws by a law among those.

Limits are so many rows of a group at most, or at least, and a budget.

A row is allowed at a pick if the batch can be completed after it. A row that was refused once is refused from then on:

* A group that is full stays full. Once all picks left are needed for groups that lack rows, they stay needed.
* What is left of the budget once the cheapest rows have met all needs, the *slack*, never grows. A row takes from it
  what it costs, or, where its group lacks m rows, what it costs more than the m-th cheapest row left of the group. That
  extra cost never falls, as the m-th cheapest is never dearer after a pick.

So rows can be drawn in advance: a Plackett-Luce order without some of its rows is such an order of the others.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._plackett_luce import BatchLaw, Law, n_allowed, normalised
from ._selection import Indices, Scores

Mask = NDArray[np.bool_]

_NEVER = np.iinfo(np.int64).max


class Allowance:
    """Which rows may be picked next. It changes with every row that is taken. Without limits, all that are not taken.

    Of ``n_rows`` rows, ``n_left`` are still to be picked at most, beside those that ``must`` be in the batch, which the
    rest does not count. Of group g, ``room[g]`` rows may still be taken, and ``need[g]`` have to be. ``slack`` is the
    budget left, less what it costs at least to meet all needs; ``cheapest[g]``, for a group that lacks m rows, the
    costs of its m cheapest in increasing order. ``picks`` are the rows taken, in order.
    """

    def __init__(
        self,
        n_rows: int,
        n_left: int,
        *,
        must: ArrayLike = (),
        groups: Indices | None = None,
        room: Indices | None = None,
        need: Indices | None = None,
        costs: Scores | None = None,
        slack: float = math.inf,
        cheapest: Mapping[int, Sequence[float]] | None = None,
    ) -> None:
        self.n_rows, self.n_left = n_rows, n_left
        self.must = np.asarray(must, dtype=np.int64)
        self.picks: list[int] = []
        self._taken = np.zeros(n_rows, dtype=bool)
        self._taken[self.must] = True
        self._groups = np.broadcast_to(np.int64(0), n_rows) if groups is None else groups  # takes no memory
        self._room = np.full(1, n_rows) if room is None else room.copy()
        self._need = np.zeros_like(self._room) if need is None else need.copy()
        self._n_needed = int(self._need.sum())
        self._costs, self._slack = costs, slack
        self._slacks: list[float] = []  # at each pick
        self._cheapest = {group: list(least) for group, least in (cheapest or {}).items()}
        # A row takes from the slack what it costs above this; groups that are closed are at -inf.
        self._base = np.zeros(len(self._room))
        self._bases: dict[int, list[tuple[int, float]]] = {}  # with the pick at which they begin
        for group, least in self._cheapest.items():
            self._base[group] = least[-1]
            self._bases[group] = [(0, least[-1])]
        self._closed_at = np.full(len(self._room), _NEVER)  # the pick from which on no row of the group is allowed
        self._is_tight = False  # whether all picks left are needed
        self._close(np.flatnonzero(self._room == 0))
        self._close_if_tight()

    @property
    def batch(self) -> Indices:
        """The batch so far: rows that have to be in it, then the picks."""
        return np.concatenate([self.must, np.array(self.picks, dtype=np.int64)])

    @property
    def allowed(self) -> Mask:
        """A mask of the rows that may be picked next, shape (n_rows,)."""
        return self.allows(slice(None))

    def allows(self, rows: slice | Indices) -> Mask:
        """Which of some rows may be picked next."""
        free = ~self._taken[rows]
        if len(self._base) == 1 and self._costs is None:
            return free & (self._base > -math.inf)  # one group: the same for all rows
        groups = self._groups[rows]
        if self._costs is None:
            return free & (self._base > -math.inf)[groups]
        return free & (self._costs[rows] - self._base[groups] <= self._slack)

    def allows_row(self, row: int) -> bool:
        base = self._base[self._groups[row]]
        fits = base > -math.inf if self._costs is None else self._costs[row] - base <= self._slack
        return bool(fits and not self._taken[row])

    def take(self, row: int) -> None:
        group = int(self._groups[row])
        if self._costs is not None:
            self._slacks.append(self._slack)
            self._slack -= max(0.0, float(self._costs[row] - self._base[group]))
        self._taken[row] = True
        self.picks.append(int(row))
        self.n_left -= 1
        self._room[group] -= 1
        if self._need[group]:
            self._meet(group, row)
        if self._room[group] == 0:
            self._close(group)
        self._close_if_tight()

    def _meet(self, group: int, row: int) -> None:
        self._need[group] -= 1
        self._n_needed -= 1
        if self._costs is not None:
            least, cost = self._cheapest[group], float(self._costs[row])
            place = bisect_left(least, cost)
            if place < len(least) and least[place] == cost:
                del least[place]
            self._base[group] = least[self._need[group] - 1] if self._need[group] else 0.0
            self._bases[group].append((len(self.picks), float(self._base[group])))
        if self._is_tight and not self._need[group]:
            self._close(group)

    def _close_if_tight(self) -> None:
        if not self._is_tight and self.n_left == self._n_needed:
            self._is_tight = True
            self._close(np.flatnonzero(self._need == 0))

    def _close(self, groups: Indices | int) -> None:
        self._base[groups] = -math.inf
        self._closed_at[groups] = np.minimum(self._closed_at[groups], len(self.picks))

    def left_at(self) -> Indices:
        """For each row, how many picks it was allowed at: those before that number. At most all picks so far."""
        n_picks = len(self.picks)
        left = np.full(len(self._taken), n_picks)
        if self._costs is not None:
            slacks = np.array(self._slacks)
            left = _first_above(self._costs, np.zeros(n_picks), slacks)
            for group, rows in rows_of(self._groups, self._bases):
                begins, bases = zip(*self._bases[group], strict=True)
                lasts = np.diff([*begins, max(n_picks, begins[-1])])
                left[rows] = _first_above(self._costs[rows], np.repeat(bases, lasts), slacks)
        left = np.minimum(left, self._closed_at[self._groups])
        left[self.must] = 0
        left[self.picks] = np.arange(1, n_picks + 1)
        return left


def rows_of(groups: Indices, some: Mapping[int, object] | Indices) -> list[tuple[int, Indices]]:
    """Some of the groups with their rows, by one sort of these rows."""
    is_some = np.zeros(int(groups.max(initial=-1)) + 1, dtype=bool)
    is_some[list(some)] = True
    rows = np.flatnonzero(is_some[groups])
    rows = rows[np.argsort(groups[rows], kind="stable")]
    found, starts = np.unique(groups[rows], return_index=True)
    return list(zip(found.tolist(), np.split(rows, starts[1:]), strict=True)) if len(rows) else []


def _first_above(costs: Scores, bases: Scores, slacks: Scores) -> Indices:
    """For each cost the first pick at which ``cost - base`` is more than the slack, or their number: by bisection."""
    low, high = np.zeros(len(costs), dtype=np.int64), np.full(len(costs), len(slacks))
    for _ in range(len(slacks).bit_length()):
        middle = np.minimum((low + high) // 2, len(slacks) - 1)
        fits = (costs - bases[middle] <= slacks[middle]) & (low < high)
        low, high = np.where(fits, middle + 1, low), np.where(fits | (low >= high), high, middle)
    return low


class Order:
    """Rows in the order of a law, drawn some at a time, without those that are not allowed when their turn comes."""

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
            # Half as many again as are wanted: some will be refused.
            n_drawn = min(self._allowance.n_left * 3 // 2 + 16, len(self._rows))
            is_every_row = len(self._rows) == len(self._law)
            law = self._law if is_every_row else replace(self._law, scores=self._law.scores[self._rows])
            self._drawn = iter(self._rows[law.draw(n_drawn, self._rng)].tolist())


def uniform_order(allowance: Allowance, rng: np.random.Generator) -> Order:
    return Order(Law(np.zeros(allowance.n_rows), 0.0), allowance, rng)


def take_all(order: Order, allowance: Allowance) -> None:
    while (row := order.next()) is not None:
        allowance.take(row)


@dataclass(frozen=True)
class LimitedLaw:
    """A law with a value for each row among those that an allowance leaves; uniform with probability ``epsilon``."""

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
        picks, left_at = np.array(self.allowance.picks, dtype=np.int64), self.allowance.left_at()
        return of_batch(self.allowance, left_at, self.law.log_proba(picks, left_at), self.epsilon)

    def first_log_proba(self) -> Scores:
        among = np.where(self.allowance.left_at() > 0, self.law.scores, -np.inf)
        return first_of(self.allowance, replace(self.law, scores=among).log_weights(), self.epsilon)


def of_batch(allowance: Allowance, left_at: Indices, by_law: Scores, epsilon: float) -> Scores:
    """Log-probabilities of a batch whose picks are by chance with probability epsilon; NaN of a law is chance, too."""
    k = len(by_law)
    by_chance = -np.log(n_allowed(allowance.n_rows, left_at[left_at < k], k))
    by_law = np.where(np.isnan(by_law), by_chance, by_law)
    return np.concatenate([np.zeros(len(allowance.must)), mixed(by_law, by_chance, epsilon)])


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
