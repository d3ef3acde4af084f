"""Drawing ranks under the weights ``rank ** -beta``, and finding the rows that hold them, without sorting all rows."""

from __future__ import annotations

import numpy as np

from ._selection import Indices, Scores, descending_at_random, gumbel, perturbed_top_k, without_repeats

_TIMED = 2**12  # ranks that are always timed one by one
_STEEP = 1e3  # of eight times k ranks none but the first can be drawn: 8 ** -1e3 is 0
_STRETCHES = 64  # of ranks, while the rank grows by a factor e
_FEW_ROWS = 2**11  # up to here sorting is fastest
_MAX_BUCKET_BITS = 20
_LARGE = 64  # a bucket of more than such a part of the rows is large
_AT_ONCE = 2**14  # rows


def draw_ranks(n: int, n_ranked: int, k: int, rng: np.random.Generator, beta: float) -> Indices:
    """Draw k of n ranks under weights ``rank ** -beta``, those after ``n_ranked`` last; rank 1 is position 0."""
    if beta == 0:
        return rng.choice(n, k, replace=False)
    n_first = min(k, n_ranked)
    first = _race(n_ranked, n_first, rng, beta) if n_first else np.empty(0, dtype=np.int64)
    return np.concatenate([first, n_ranked + rng.choice(n - n_ranked, k - n_first, replace=False)])


def _race(n: int, k: int, rng: np.random.Generator, beta: float) -> Indices:
    """Each rank arrives after an exponential time with its weight for a rate, and the first k to arrive are the batch.

    Logarithms of such times are Gumbel noise. The first ranks are timed one by one. Of the others, only the few that
    arrive before the k-th of the first matter, and only they are drawn.
    """
    n_timed = min(n, max(8 * k, _TIMED, n // 64))
    values = -np.log(np.arange(1.0, n_timed + 1))
    if n_timed == n or beta > _STEEP:
        return perturbed_top_k(values, k, rng, beta)
    keys = beta * values + gumbel(n_timed, rng)  # minus the logarithms of the times
    first = np.argpartition(-keys, k)[:k]
    others, other_keys = _arrivals(n_timed, n, keys[first].min(), rng, beta)
    positions, keys = np.concatenate([first, others]), np.concatenate([keys[first], other_keys])
    return without_repeats(positions[np.argsort(-keys)])[:k]


def _arrivals(start: int, n: int, key: float, rng: np.random.Generator, beta: float) -> tuple[Indices, Scores]:
    """Arrivals of the positions from ``start`` to ``n`` with keys above ``key``, repeats among them.

    A position's events are a Poisson process, whose first is its arrival. They come at the rate of the first rank of a
    stretch of ranks, and are then thinned.
    """
    edges = np.unique(np.geomspace(start, n, 2 + int(_STRETCHES * np.log(n / start))).astype(np.int64))
    begin, end = edges[:-1], edges[1:]
    n_events = rng.poisson((end - begin) * np.exp(-key - beta * np.log(begin + 1.0)))
    begin, end = np.repeat(begin, n_events), np.repeat(end, n_events)
    positions = rng.integers(begin, end)
    kept = rng.random(len(positions)) < ((begin + 1.0) / (positions + 1.0)) ** beta
    return positions[kept], key + rng.standard_exponential(int(kept.sum()))


def rows_of_ranks(scores: Scores, positions: Indices, rng: np.random.Generator) -> Indices:
    """Rows that hold the ranks ``positions`` (from 0) of the scores in descending order, ties at random.

    Rows are put into buckets, in the order of the scores, and only buckets that hold a wanted rank are looked into.
    Most are small: their rows are sorted, all at once. A large one is a tie, or is many times as dense: its rows
    are put into buckets again.
    """
    n = len(scores)
    if n <= _FEW_ROWS:
        return descending_at_random(scores, rng)[positions]
    bucket = _buckets(scores)
    sizes = np.bincount(bucket)
    if len(sizes) == 1:
        return rng.choice(n, len(positions), replace=False)
    ends = sizes.cumsum()
    at = np.searchsorted(ends, positions, side="right")  # the bucket of each position
    within = positions - (ends - sizes)[at]

    rows = np.empty(len(positions), dtype=np.int64)
    is_large = sizes[at] > n // _LARGE
    for b in np.unique(at[is_large]):
        here = np.flatnonzero(bucket == b)
        rows[at == b] = here[rows_of_ranks(scores[here], within[at == b], rng)]

    wanted = np.zeros(len(sizes), dtype=bool)
    wanted[at[~is_large]] = True
    here = np.flatnonzero(wanted[bucket])
    sizes = np.where(wanted, sizes, 0)
    within += (sizes.cumsum() - sizes)[at]
    rows[~is_large] = here[descending_at_random(scores[here], rng)[within[~is_large]]]
    return rows


def _buckets(scores: Scores) -> Indices:
    """A number for each row, from 0, which does not fall where the score falls; all 0 only if all scores are equal.

    It consists of the leading bits in which scores differ.
    """
    n = len(scores)
    highest, lowest = _ordinals(np.array([scores.max(), scores.min()])).tolist()
    shift = np.uint64(max(0, (highest - lowest).bit_length() - min(_MAX_BUCKET_BITS, n.bit_length())))
    bucket = np.empty(n, dtype=np.int64)
    for start in range(0, n, _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        bucket[rows] = (highest - _ordinals(scores[rows])).view(np.uint64) >> shift
    return bucket


def _ordinals(scores: Scores) -> Indices:
    """Integers in the order of the scores: the bits of a float64, without its two zeros and its sign."""
    bits = (scores + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)
