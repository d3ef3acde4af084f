"""A sampler mixed with uniform choice, so that no row is impossible.

Each pick is uniform among the rows that are left with probability epsilon, and otherwise follows the law of the
sampler.
Two orders of rows are drawn first, one from each law. Every pick is the next row of one of them that is not taken yet.
This leaves the law of later picks as it should be: a Plackett-Luce order without some of its rows is a Plackett-Luce
order of the others, with the same weights. So the probability of each pick is known exactly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .._checks import ScoreError, check_scores
from ._law import Batch, Law
from ._selection import Indices, Scores

__all__ = ["Mixture", "check_has_law", "draw_mixture", "law_of_order", "mixed"]


def draw_mixture(
    sampler: Callable[..., Any], scores: Scores, k: int, rng: np.random.Generator, beta: float, epsilon: float
) -> Batch:
    """Draw k rows, each uniformly with probability ``epsilon``, else by the sampler, which must have a law."""
    return Mixture(law_of_order(sampler, scores, beta, rng), epsilon).draw(k, rng)


def law_of_order(
    sampler: Callable[..., Any],
    scores: Scores,
    beta: float,
    rng: np.random.Generator,
    wanted_by: str = "`epsilon` above 0",
) -> Law:
    """The sampler's law as log-weights by row. It sees rows in random order, so that ties are broken at random."""
    order = rng.permutation(len(scores))
    log_weights = np.empty(len(scores))
    try:
        log_weights[order] = _stated(sampler, scores[order], beta, wanted_by).log_weights_of_order()
    except ScoreError as error:
        raise error.of_rows(order) from None
    return Law(check_scores(log_weights, "log_weights", minus_inf=True), 1.0)


def _stated(sampler: Any, scores: Scores, beta: float, wanted_by: str) -> Law:
    if hasattr(sampler, "law"):
        return sampler.law(scores, beta)
    check_has_law(sampler, wanted_by)
    return Law(sampler.log_weights(scores, beta), 1.0)


def check_has_law(sampler: Any, wanted_by: str) -> None:
    """Check that the law of a sampler, of the package or of the user's own, is known."""
    if not hasattr(sampler, "log_weights"):
        name = getattr(sampler, "__name__", type(sampler).__name__)
        raise ValueError(
            f"{wanted_by} needs a sampler whose law is known, and {name!r} has no `log_weights`. Use one of "
            "skactive.samplers, or give your sampler that function."
        )


@dataclass(frozen=True)
class Mixture:
    """A law whose picks are uniform among the rows left with probability ``epsilon``."""

    law: Law
    epsilon: float

    def draw(self, k: int, rng: np.random.Generator) -> Batch:
        by_law, by_chance = (law.draw(k, rng).indices for law in (self.law, self._uniform()))
        indices = _merge(by_law, by_chance, rng.random(k) < self.epsilon)
        return Batch(indices, functools.partial(self.log_proba, indices), self.log_weights)

    def log_proba(self, picks: Indices) -> Scores:
        by_chance = self._uniform().log_proba(picks)
        return np.minimum(mixed(self.law.log_proba(picks), by_chance, self.epsilon), 0.0)

    def log_weights(self) -> Scores:
        law, uniform = self.law.log_weights(), self._uniform().log_weights()
        law = law if law.max() > -np.inf else uniform
        return mixed(law - logsumexp(law), uniform - logsumexp(uniform), self.epsilon)

    def _uniform(self) -> Law:
        return replace(self.law, beta=0.0)


def mixed(by_law: Scores, by_chance: Scores, epsilon: float) -> Scores:
    """Log-probabilities of picks that are made by chance with probability epsilon, and else by a law."""
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-epsilon) + by_law, np.log(epsilon) + by_chance)


def _merge(by_law: Indices, by_chance: Indices, chance: NDArray[np.bool_]) -> Indices:
    orders = iter(by_law), iter(by_chance)
    picks: dict[int, None] = {}
    for of_chance in chance.astype(int):
        picks[next(row for row in orders[of_chance] if row not in picks)] = None
    return np.fromiter(picks, dtype=np.int64, count=len(picks))
