"""Scores of the mean over draws in memory: numpy adds up draws faster than a float64 copy of them can be made."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._checks import sum_tolerance
from ._blocks import check_block

_NUMBERS_OF_MEANS = 2**15 - 1  # of a block: few enough for torch to leave them to one thread


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

    n_threads = min(torch.get_num_threads(), array.size // 2**20)
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
