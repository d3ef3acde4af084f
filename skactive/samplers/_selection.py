"""Choosing k of n rows under weights, or the largest, in little more time than it takes to read the scores.

Drawing *with* replacement and dropping repeats follows the Plackett-Luce law, and wherever that stops another way may
go on from the rows drawn so far. There are three ways, tried in this order.

* Rejection reads a few rows only: uniform ones, each accepted with its weight relative to the largest.
* Blocks: all weights are summed once, by blocks; a draw picks a block by its sum, then a row in it.
* Noise: every row gets Gumbel noise on its log-weight, and the k largest are taken.

Ranks under weights ``rank ** -beta`` are drawn without weights of all rows, and their rows found without sorting all.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_FEW_ROWS = 2**11  # up to here noise for every row, or sorting, is as fast as anything
_LARGE_BATCH = 64  # and for batches of more than such a part of the rows
_MANY_ROWS = 2**14  # from here on blocks are faster than noise
_BLOCK = 64
_BLOCKS_AT_ONCE = 512  # 256 KiB of weights
_DRAWS_AT_ONCE = 2**14  # 8 MiB of weights, where each draw has a block of its own
LITTLE_MASS = 1e-200  # of a largest weight of 1: below, what is left has lost digits
_MAX_NATS = 1e9  # a range of log-weights in which float64 keeps noise to 1e-7
_MAX_NOISE = 200.0  # what the difference of two Gumbel variables exceeds with probability exp(-200)
_TIMED = 2**12  # ranks that are always timed one by one
_STEEP = 1e3  # of eight times k ranks none but the first can be drawn: 8 ** -1e3 is 0
_STRETCHES = 64  # of ranks, while the rank grows by a factor e
_MAX_BUCKET_BITS = 20  # a million counts: 8 MiB
_LARGE_BUCKET = 64  # one of more than such a part of the rows
_AT_ONCE = 2**14  # rows whose buckets are computed

Scores = NDArray[np.float64]
Indices = NDArray[np.int64]
Weights = Callable[[slice | Indices], Scores]


def draw_rows(
    n: int, k: int, rng: np.random.Generator, beta: float, values: Callable[[], Scores], weights: Weights
) -> Indices:
    """Draw k of n rows under weights ``exp(beta * values())``; ``weights(rows)`` are relative to the largest."""
    if n <= _FEW_ROWS or k > n // _LARGE_BATCH:
        return perturbed_top_k(values(), k, rng, beta)
    drawn = sample_by_rejection(weights, n, k, rng)
    if len(drawn) < k and n >= _MANY_ROWS:
        drawn = sample_by_blocks(weights, n, k, rng, drawn)
    if len(drawn) == k:
        return drawn
    left = np.delete(np.arange(n), drawn)
    return np.concatenate([drawn, left[perturbed_top_k(values()[left], k - len(drawn), rng, beta)]])


def top_rows(keys: Scores, k: int, rng: np.random.Generator) -> Indices:
    """The k largest, in descending order; ties at random, both for a place in the batch and for the order in it."""
    kth = _kth_largest(keys, k)
    rows = np.flatnonzero(keys >= kth)
    above, tied = rows[keys[rows] > kth], rows[keys[rows] == kth]
    chosen = np.concatenate([above, rng.choice(tied, k - len(above), replace=False)])
    return chosen[descending_at_random(keys[chosen], rng)]


def descending(keys: Scores) -> Indices:
    """Rows by descending key; tied rows in the order of the array."""
    return np.argsort(-keys, kind="stable")


def descending_at_random(keys: Scores, rng: np.random.Generator) -> Indices:
    """Rows by descending key; tied rows in random order."""
    shuffled = rng.permutation(len(keys))
    return shuffled[descending(keys[shuffled])]


def perturbed_top_k(values: Scores, k: int, rng: np.random.Generator, beta: float) -> Indices:
    """Draw k rows under weights ``exp(beta * values)``: the k largest after Gumbel noise."""
    top, low = float(values.max()), float(values.min(where=values > -np.inf, initial=np.inf))
    if top - low > _MAX_NATS / beta:
        return _far_apart_top_k(values, k, rng, beta)
    keys = beta * (values - top) if top > -math.inf else values  # relative to the top: no digits of noise are lost
    return top_rows(keys + gumbel(len(values), rng), k, rng)


def gumbel(n: int, rng: np.random.Generator) -> Scores:
    with np.errstate(divide="ignore"):
        return -np.log(rng.standard_exponential(n))


def _far_apart_top_k(values: Scores, k: int, rng: np.random.Generator, beta: float) -> Indices:
    """Where the largest values would drown the noise of smaller ones: perturb each group of near values by itself."""
    reach = _MAX_NOISE / beta  # in values: no noise bridges what is farther apart, so groups follow each other in order
    rows = np.flatnonzero(values >= _kth_largest(values, k) - reach)
    rows = rows[descending_at_random(values[rows], rng)]
    with np.errstate(over="ignore", invalid="ignore"):
        begins_group = np.r_[True, ~(values[rows[:-1]] - values[rows[1:]] <= reach)]
        group = begins_group.cumsum() - 1
        keys = beta * (values[rows] - values[rows[begins_group]][group])
    keys = np.where(values[rows] > -np.inf, keys, 0.0) + gumbel(len(rows), rng)
    return rows[np.lexsort((-keys, group))[:k]]


def _kth_largest(values: Scores, k: int) -> np.float64:
    """The k-th largest of all. Of blocks only those count whose largest value is among the k largest of such."""
    n_blocks = len(values) // _BLOCK
    if len(values) >= _MANY_ROWS and k <= n_blocks // 8:
        whole = values[: n_blocks * _BLOCK].reshape(n_blocks, _BLOCK)
        largest = whole.max(axis=1)
        may_hold_it = largest >= np.partition(largest, n_blocks - k)[n_blocks - k]
        values = np.concatenate([whole[may_hold_it].ravel(), values[n_blocks * _BLOCK :]])
    return np.partition(values, len(values) - k)[len(values) - k]


def raised(x: Scores, beta: float) -> Scores:
    """``x ** beta``; squaring is several times as fast."""
    if beta in (2, 4, 8):
        return raised(x * x, beta / 2)
    return x if beta == 1 else x**beta


def sample_by_rejection(weights: Weights, n: int, k: int, rng: np.random.Generator) -> Indices:
    """Draw up to ``k`` rows of ``n``; fewer once it seems that more would take longer than another way."""
    drawn: Indices = np.empty(0, dtype=np.int64)
    # At most an eighth of the rows is read, at random places, before another way is tried.
    n_proposals, n_left = 4 * k + 1024, n // 8 + 32 * k
    while True:
        rows = rng.integers(n, size=n_proposals)
        accepted = rows[rng.random(n_proposals) < weights(rows)]
        drawn = without_repeats(np.concatenate([drawn, accepted]))[:k]
        n_left -= n_proposals
        needed = (k - len(drawn)) * n_proposals // max(1, len(accepted))
        if len(drawn) == k or needed > n_left:
            return drawn
        n_proposals = min(needed + needed // 4 + 64, n_left)  # a quarter more than it took on average so far


def without_repeats(rows: Indices) -> Indices:
    _, first = np.unique(rows, return_index=True)
    return rows[np.sort(first)]


def sample_by_blocks(weights: Weights, n: int, k: int, rng: np.random.Generator, drawn: Indices) -> Indices:
    """Go on from the rows ``drawn`` to ``k`` rows of ``n``; to fewer if the mass runs out before."""
    sums, new = _block_sums(weights, n), drawn
    while True:
        changed = np.unique(new // _BLOCK)
        sums[changed] = _weights_left(weights, changed, n, drawn).sum(axis=1)
        if len(drawn) == k or sums.sum() <= LITTLE_MASS:
            return drawn
        new = _draw(weights, sums, n, drawn, k - len(drawn), rng)
        drawn = np.concatenate([drawn, new])


def _block_sums(weights: Weights, n: int) -> Scores:
    sums = []
    for start in range(0, n, _BLOCK * _BLOCKS_AT_ONCE):
        w = weights(slice(start, min(start + _BLOCK * _BLOCKS_AT_ONCE, n)))
        sums.append(np.add.reduceat(w, np.arange(0, len(w), _BLOCK)))
    return np.concatenate(sums)


def _draw(weights: Weights, sums: Scores, n: int, drawn: Indices, k: int, rng: np.random.Generator) -> Indices:
    """Some draws with replacement, repeats dropped, from the rows that are left: one row to k."""
    n_draws = min(k + k // 4 + 8, _DRAWS_AT_ONCE)  # some will be repeats
    cumulative = sums.cumsum()
    blocks = np.searchsorted(cumulative, _targets(cumulative[-1], rng.random(n_draws)), side="right")
    found, which = np.unique(blocks, return_inverse=True)
    within = _weights_left(weights, found, n, drawn).cumsum(axis=1)[which]  # (n_draws, _BLOCK)
    targets = _targets(within[:, -1], rng.random(n_draws))
    rows = blocks * _BLOCK + (within > targets[:, None]).argmax(axis=1)
    return without_repeats(rows)[:k]


def _targets(total: Scores, uniform: Scores) -> Scores:
    """Sums below the total; the row at which the cumulative sum first exceeds one is drawn, never one of weight 0."""
    return np.minimum(uniform * total, np.nextafter(total, 0.0))


def _weights_left(weights: Weights, blocks: Indices, n: int, drawn: Indices) -> Scores:
    """Weights of the rows of some blocks, which ascend, shape (n_blocks, _BLOCK); 0 for those that are drawn."""
    rows = blocks[:, None] * _BLOCK + np.arange(_BLOCK)
    w = weights(np.minimum(rows, n - 1))
    w[rows >= n] = 0.0
    slot = np.searchsorted(blocks, drawn // _BLOCK)
    here = np.isin(drawn // _BLOCK, blocks)
    w[slot[here], drawn[here] % _BLOCK] = 0.0
    return w


def draw_ranks(n: int, n_ranked: int, k: int, rng: np.random.Generator, beta: float) -> Indices:
    """Draw k of n ranks under weights ``rank ** -beta``, those after ``n_ranked`` last; rank 1 is position 0."""
    if beta == 0:
        return rng.choice(n, k, replace=False)
    n_first = min(k, n_ranked)
    first = _race(n_ranked, n_first, rng, beta) if n_first else np.empty(0, dtype=np.int64)
    return np.concatenate([first, n_ranked + rng.choice(n - n_ranked, k - n_first, replace=False)])


def _race(n: int, k: int, rng: np.random.Generator, beta: float) -> Indices:
    """Each rank arrives after an exponential time with its weight for a rate, and the first k are the batch."""
    # The first ranks are timed one by one: so many that few of the others, which are drawn, come before the k-th.
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
    """Arrivals of the positions from ``start`` to ``n`` with keys above ``key``, repeats among them."""
    # A position's events are a Poisson process, at the rate of the first rank of a stretch of ranks, and then thinned.
    edges = np.unique(np.geomspace(start, n, 2 + int(_STRETCHES * np.log(n / start))).astype(np.int64))
    begin, end = edges[:-1], edges[1:]
    n_events = rng.poisson((end - begin) * np.exp(-key - beta * np.log(begin + 1.0)))
    begin, end = np.repeat(begin, n_events), np.repeat(end, n_events)
    positions = rng.integers(begin, end)
    kept = rng.random(len(positions)) < ((begin + 1.0) / (positions + 1.0)) ** beta
    return positions[kept], key + rng.standard_exponential(int(kept.sum()))


def rows_of_ranks(scores: Scores, positions: Indices, rng: np.random.Generator) -> Indices:
    """Rows that hold the ranks ``positions`` (from 0) of the scores in descending order, ties at random.

    Of buckets of rows, in the order of the scores, only those that hold a wanted rank are looked into. Rows of small
    ones are sorted, all at once. A large one is a tie, or many times as dense: its rows are put into buckets again.
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
    is_large = sizes[at] > n // _LARGE_BUCKET
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
    """The leading bits in which scores differ, from 0 for the largest; all 0 only if all scores are equal."""
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
