"""Draws as float64 blocks, and the arithmetic over draws that scores share.

A block has the axes (K, C, n), or (K, n) for a regression: K draws, C classes, n points. Points come last, where
reductions over few classes are fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._checks import ProbabilityError, sum_tolerance
from .._devices import best_float

_BLOCK_ELEMENTS = 2**18  # 2 MiB of float64: stays in the cache
_NUMBERS_OF_MEANS = 2**15 - 1  # of a block: few enough for torch to leave them to one thread


def device_of(draws: Any) -> torch.device:
    return draws.device if isinstance(draws, Tensor) else torch.device("cpu")


def blocks(draws: Any, *, outcomes: bool = False, name: str = "draws") -> Iterator[tuple[Tensor, slice]]:
    """Checked float64 blocks (K, C, n), or (K, n), each with the slice of its points.

    Potential ``outcomes`` (K, 2, n) are any finite numbers; other draws with classes must be probabilities.
    """
    n_points = draws.shape[1]
    tolerance = None if outcomes or draws.ndim == 2 else sum_tolerance(draws)
    step = max(1, _BLOCK_ELEMENTS * n_points // max(1, int(np.prod(draws.shape))))
    for start in range(0, n_points, step):
        points = slice(start, min(start + step, n_points))
        block = _copied(draws[:, points])
        check_block(block, start, tolerance, name)
        yield block, points


def _copied(part: Any) -> Tensor:
    """Draws (K, n, C) as a block. The copy also takes read-only, byte-swapped and negatively strided arrays."""
    part = part.swapaxes(1, 2) if part.ndim == 3 else part
    if isinstance(part, Tensor):
        return torch.empty(part.shape, dtype=best_float(part.device), device=part.device).copy_(part)
    return torch.from_numpy(np.array(part, np.float64, order="C"))


def check_block(block: Any, first_point: int, tolerance: float | None, name: str = "draws") -> None:
    """Check that a block holds probabilities, summing to 1 to within ``tolerance``; finite numbers if that is None."""
    if tolerance is None:
        if not bool(block.isfinite().all()):
            where = (~block.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"`{name}` must be finite. "
                f"Got {block[tuple(where)].item()} in draw {where[0]} of point {first_point + where[-1]}."
            )
        return
    sums = block.sum(1)
    if bool(block.amin() >= 0) and bool((sums - 1).abs().amax() <= tolerance):
        return
    wrong = ~((block >= 0).all(1) & ((sums - 1).abs() <= tolerance))
    draw, point = wrong.nonzero()[0].tolist()
    raise ProbabilityError(name, block[draw, :, point], f"draw {draw} of point {first_point + point}", tolerance)


def fold(x: Tensor) -> Tensor:
    """Sum over the first axis, halves onto halves.

    torch's own sums add in an order that depends on a point's place in the block, so that twins in two chunks would
    get scores that differ in the last bit, and top-k would depend on the chunk size. Here only elements are added.
    """
    if len(x) == 1:
        return x[0]
    half, odd = divmod(len(x), 2)
    folded = x[:half] + x[half : 2 * half]
    if odd:
        folded[0] += x[-1]
    while half > 1:
        half, odd = divmod(half, 2)
        if odd:
            folded[0] += folded[2 * half]
        folded[:half] += folded[half : 2 * half]
    return folded[0]


def mean(draws: Tensor) -> Tensor:
    return fold(draws) / len(draws)


def variance_over_draws(draws: Tensor) -> Tensor:
    """Population variance over draws: exactly 0 where all agree, and no digits lost to a large common offset."""
    shifted = draws - draws[0]
    return mean((shifted - mean(shifted)).square())


def eps(x: Tensor) -> float:
    return torch.finfo(x.dtype).eps


def tiny(x: Tensor) -> float:
    return torch.finfo(x.dtype).tiny


# --- scores of the mean over draws in memory: numpy adds draws up faster than a float64 copy of them can be made


def has_fast_mean(draws: Any) -> bool:
    """Whether numpy can add up draws without a float64 copy. With a single class there is only the sum itself."""
    in_memory = not isinstance(draws, Tensor) or (draws.device.type == "cpu" and draws.layout == torch.strided)
    return in_memory and draws.shape[2] > 1 and str(draws.dtype).removeprefix("torch.") in ("float32", "float64")


def score_means(kernel: Callable[[Tensor], Tensor], draws: Any, scores_n: Tensor) -> None:
    """Fill in scores of the mean over draws in memory, in as many threads as torch may use."""
    array = draws.detach().numpy() if isinstance(draws, Tensor) else draws
    tolerance = sum_tolerance(draws)
    n_points, n_classes = array.shape[1:]
    step = max(1, _NUMBERS_OF_MEANS // n_classes)
    starts = range(0, n_points, step)

    def fill(starts: range) -> None:
        for start in starts:
            points = slice(start, min(start + step, n_points))
            scores_n[points] = kernel(_checked_mean(array[:, points], start, tolerance))

    n_threads = min(torch.get_num_threads(), array.size // 2**20)  # a thread for each million numbers at most
    if n_threads < 2:
        return fill(starts)
    with ThreadPoolExecutor(n_threads) as threads:
        each = -(-len(starts) // n_threads)
        for done in [threads.submit(fill, starts[i : i + each]) for i in range(0, len(starts), each)]:
            done.result()
    return None


def _checked_mean(part_KnC: Any, first_point: int, tolerance: float) -> Tensor:
    """The mean over draws (C, n) of probabilities, float64.

    Rows are checked one by one where the mean leaves doubt: where an entry is negative, or a mean is farther from the
    sum 1 than one bad row could take it; and in the first block, to find a mistake in all rows that the mean hides.
    Elsewhere, rows of one point may miss the sum in opposite ways.
    """
    strides = np.abs(part_KnC.strides)
    if min(part_KnC.strides) < 0 or strides[0] < strides[1:].max():
        part_KnC = np.array(part_KnC, np.float64, order="C")  # else numpy might add in another order
    with np.errstate(invalid="ignore", over="ignore"):
        sums_nC = np.add.reduce(part_KnC, axis=0, dtype=np.float64)
        lowest = part_KnC.min()
    mean_Cn = torch.from_numpy(sums_nC).T.contiguous().div_(len(part_KnC))
    off = (mean_Cn.sum(0) - 1).abs_().amax()
    if first_point == 0 or not (lowest >= 0 and bool(off <= tolerance / len(part_KnC))):
        block = torch.from_numpy(np.array(part_KnC.swapaxes(1, 2), np.float64, order="C"))
        check_block(block, first_point, tolerance)
    return mean_Cn
