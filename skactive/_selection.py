"""Exact sampling without replacement from weights, in time little more than one pass over them.

Rows are drawn one after the other, each with probability proportional to its weight among those that are left (the
Plackett-Luce law). Drawing *with* replacement and dropping repeats gives just that, so the weights need to be summed
once, by blocks: a draw picks a block by its sum, then a row in it. When repeats get in the way the rows drawn so far
are taken out, and only their blocks are summed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 4096
_BLOCKS_AT_ONCE = 64  # 2 MiB of weights
_LITTLE_MASS = 1e-200  # of a largest weight of 1: below, what is left has lost digits


def sample_by_blocks(
    weights: Callable[[Any], NDArray[np.float64]], n: int, k: int, rng: np.random.Generator
) -> NDArray[np.int64]:
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
    drawn: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    while len(drawn) < k and sums.sum() > _LITTLE_MASS:
        new = _draw(weights, sums, n, drawn, k - len(drawn), rng)
        drawn = np.concatenate([drawn, new])
        for block in np.unique(new // _BLOCK):
            sums[block] = _weights_left(weights, block, n, drawn).sum()
    return drawn


def _block_sums(weights: Callable[[Any], NDArray[np.float64]], n: int) -> NDArray[np.float64]:
    sums = []
    for start in range(0, n, _BLOCK * _BLOCKS_AT_ONCE):
        w = weights(slice(start, min(start + _BLOCK * _BLOCKS_AT_ONCE, n)))
        sums.append(np.add.reduceat(w, np.arange(0, len(w), _BLOCK)))
    return np.concatenate(sums)


def _draw(
    weights: Callable[[Any], NDArray[np.float64]],
    sums: NDArray[np.float64],
    n: int,
    taken: NDArray[np.int64],
    k: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Some draws with replacement, repeats dropped, from the rows that are not taken: one row to k."""
    blocks = _inverse(sums.cumsum(), rng.random(k + k // 4 + 8))
    places = rng.random(len(blocks))
    rows = np.empty(len(blocks), dtype=np.int64)
    for block, draws in _grouped(blocks):
        cumulative = _weights_left(weights, block, n, taken).cumsum()
        rows[draws] = block * _BLOCK + _inverse(cumulative, places[draws])
    _, first = np.unique(rows, return_index=True)
    return rows[np.sort(first)][:k]


def _grouped(blocks: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
    """Each block that was drawn, and by which draws."""
    order = np.argsort(blocks, kind="stable")
    found, start = np.unique(blocks[order], return_index=True)
    return list(zip(found.tolist(), np.split(order, start[1:]), strict=True))


def _inverse(cumulative: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Where in the cumulative sums each uniform number falls; never on a weight of 0."""
    last = np.searchsorted(cumulative, cumulative[-1])  # rounding may reach the total
    return np.minimum(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"), last)


def _weights_left(
    weights: Callable[[Any], NDArray[np.float64]], block: int, n: int, taken: NDArray[np.int64]
) -> NDArray[np.float64]:
    start, stop = block * _BLOCK, min((block + 1) * _BLOCK, n)
    w = np.array(weights(slice(start, stop)))
    w[taken[(taken >= start) & (taken < stop)] - start] = 0.0
    return w
