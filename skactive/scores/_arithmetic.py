"""Arithmetic that scores share. Numbers are added up in one order, whatever stands beside them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def device_of(draws: Any) -> torch.device:
    return draws.device if isinstance(draws, Tensor) else torch.device("cpu")


def fold(x: Tensor) -> Tensor:
    """Sum over the first axis, halves onto halves: only elements are added."""
    # torch's own sums add in an order that depends on a point's place in the block: twins in two chunks would differ in
    # the last bit, and top-k would depend on the chunk size.
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
