"""Choosing k of n rows: exactly under weights, or the largest, in time little more than one pass over the rows.

Rows are drawn one after the other, each with probability proportional to its weight among those that are left (the
Plackett-Luce law). There are two ways, chosen by the number of rows alone.

* Few rows get Gumbel noise on their log-weights, and the k largest are taken.
* From many rows one draws *with* replacement and drops repeats, which gives the same law. The weights need to be summed
  once, by blocks: a draw picks a block by its sum, then a row in it. When repeats get in the way the rows drawn so far
  are taken out, and only their blocks are summed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_MANY_ROWS = 2**14  # from here on blocks are faster than noise for every row
_BLOCK = 4096
_BLOCKS_AT_ONCE = 64  # 2 MiB of weights
_LITTLE_MASS = 1e-200  # of a largest weight of 1: below, what is left has lost digits
_MAX_NATS = 1e9  # a range of log-weights in which float64 keeps noise to 1e-7
_MAX_NOISE = 200.0  # what the difference of two Gumbel variables exceeds with probability exp(-200)

Scores = NDArray[np.float64]
Indices = NDArray[np.int64]


def draw_rows(
    n: int,
    k: int,
    rng: np.random.Generator,
    beta: float,
    values: Callable[[], Scores],
    weights: Callable[[slice], Scores],
) -> Indices:
    """Draw k of n rows under weights ``exp(beta * values)``; ``weights(rows)`` are relative to the largest.

    Many rows are sampled by blocks, which takes one pass over the weights; few, and those left when the mass has run
    out, by Gumbel noise on their values.
    """
    if beta == 0:
        return rng.choice(n, k, replace=False)
    if n < _MANY_ROWS or k > n // 8:
        return _perturbed_top_k(values(), k, rng, beta)
    drawn = sample_by_blocks(weights, n, k, rng)
    if len(drawn) == k:
        return drawn
    left = np.delete(np.arange(n), drawn)
    return np.concatenate([drawn, left[_perturbed_top_k(values()[left], k - len(drawn), rng, beta)]])


def top_rows(keys: Scores, k: int, rng: np.random.Generator) -> Indices:
    """The k largest, in descending order; ties at random, both for a place in the batch and for the order in it."""
    kth = _kth_largest(keys, k)
    above, tied = np.flatnonzero(keys > kth), np.flatnonzero(keys == kth)
    chosen = np.concatenate([above, rng.choice(tied, k - len(above), replace=False)])
    chosen = rng.permutation(chosen)
    return chosen[np.argsort(-keys[chosen], kind="stable")]


def rows_of_ranks(scores: Scores, positions: Indices, rng: np.random.Generator) -> Indices:
    """Rows that hold the ranks ``positions`` (from 0) of the scores in descending order, ties at random.

    O(n_points log k): the k scores are found by partition, and only rows of just these scores are put in order.
    """
    costs = -scores
    wanted = np.unique(np.partition(costs, np.unique(positions))[positions])
    slot = np.searchsorted(wanted, costs)  # how many of the wanted costs are smaller
    tied = rng.permutation(np.flatnonzero(wanted[np.minimum(slot, len(wanted) - 1)] == costs))
    tied = tied[np.argsort(slot[tied], kind="stable")]
    n_tied = np.bincount(slot[tied], minlength=len(wanted))
    n_before = np.bincount(slot, minlength=len(wanted)).cumsum()[: len(wanted)] - n_tied
    group = np.searchsorted(n_before, positions, side="right") - 1
    return tied[n_tied.cumsum()[group] - n_tied[group] + positions - n_before[group]]


def _perturbed_top_k(values: Scores, k: int, rng: np.random.Generator, beta: float) -> Indices:
    top, low = float(values.max()), float(values.min(where=values > -np.inf, initial=np.inf))
    if top - low > _MAX_NATS / beta:
        return _far_apart_top_k(values, k, rng, beta)
    keys = beta * (values - top) if top > -math.inf else values
    return top_rows(keys + _gumbel(len(values), rng), k, rng)


def _far_apart_top_k(values: Scores, k: int, rng: np.random.Generator, beta: float) -> Indices:
    """Where the largest values would drown the noise of smaller ones: perturb each group of near values by itself.

    Groups are as far apart as noise can't bridge, so they follow each other in order.
    """
    reach = _MAX_NOISE / beta
    rows = rng.permutation(np.flatnonzero(values >= _kth_largest(values, k) - reach))
    rows = rows[np.argsort(-values[rows], kind="stable")]
    with np.errstate(over="ignore", invalid="ignore"):
        begins_group = np.r_[True, ~(values[rows[:-1]] - values[rows[1:]] <= reach)]
        group = begins_group.cumsum() - 1
        keys = beta * (values[rows] - values[rows[begins_group]][group])
    keys = np.where(values[rows] > -np.inf, keys, 0.0) + _gumbel(len(rows), rng)
    return rows[np.lexsort((-keys, group))[:k]]


def _gumbel(n: int, rng: np.random.Generator) -> Scores:
    with np.errstate(divide="ignore"):
        return -np.log(rng.standard_exponential(n))


def _kth_largest(values: Scores, k: int) -> np.float64:
    return np.partition(values, len(values) - k)[len(values) - k]


def sample_by_blocks(weights: Callable[[slice], Scores], n: int, k: int, rng: np.random.Generator) -> Indices:
    """Draw up to ``k`` rows of ``n``; fewer if the mass runs out before.

    Parameters
    ----------
    weights : callable
        ``weights(rows)`` with a slice, gives the weights of these rows relative to the largest of all.
    n, k : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (<= k,), int64
        Distinct rows in the order they were drawn.
    """
    sums = _block_sums(weights, n)
    drawn: Indices = np.empty(0, dtype=np.int64)
    while len(drawn) < k and sums.sum() > _LITTLE_MASS:
        new = _draw(weights, sums, n, drawn, k - len(drawn), rng)
        drawn = np.concatenate([drawn, new])
        for block in np.unique(new // _BLOCK):
            sums[block] = _weights_left(weights, block, n, drawn).sum()
    return drawn


def _block_sums(weights: Callable[[slice], Scores], n: int) -> Scores:
    sums = []
    for start in range(0, n, _BLOCK * _BLOCKS_AT_ONCE):
        w = weights(slice(start, min(start + _BLOCK * _BLOCKS_AT_ONCE, n)))
        sums.append(np.add.reduceat(w, np.arange(0, len(w), _BLOCK)))
    return np.concatenate(sums)


def _draw(
    weights: Callable[[slice], Scores],
    sums: Scores,
    n: int,
    taken: Indices,
    k: int,
    rng: np.random.Generator,
) -> Indices:
    """Some draws with replacement, repeats dropped, from the rows that are not taken: one row to k."""
    blocks = _inverse(sums.cumsum(), rng.random(k + k // 4 + 8))
    places = rng.random(len(blocks))
    rows = np.empty(len(blocks), dtype=np.int64)
    for block, draws in _grouped(blocks):
        cumulative = _weights_left(weights, block, n, taken).cumsum()
        rows[draws] = block * _BLOCK + _inverse(cumulative, places[draws])
    _, first = np.unique(rows, return_index=True)
    return rows[np.sort(first)][:k]


def _grouped(blocks: Indices) -> list[tuple[int, Indices]]:
    """Each block that was drawn, and by which draws."""
    order = np.argsort(blocks, kind="stable")
    found, start = np.unique(blocks[order], return_index=True)
    return list(zip(found.tolist(), np.split(order, start[1:]), strict=True))


def _inverse(cumulative: Scores, uniform: Scores) -> Indices:
    """Where in the cumulative sums each uniform number falls; never on a weight of 0."""
    last = np.searchsorted(cumulative, cumulative[-1])  # rounding may reach the total
    return np.minimum(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"), last)


def _weights_left(weights: Callable[[slice], Scores], block: int, n: int, taken: Indices) -> Scores:
    start, stop = block * _BLOCK, min((block + 1) * _BLOCK, n)
    w = np.array(weights(slice(start, stop)))
    w[taken[(taken >= start) & (taken < stop)] - start] = 0.0
    return w
