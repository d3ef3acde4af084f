"""Random numbers by address: those of a draw at a position of a forward pass, on any device, without keeping them.

A mask is not drawn from a stream: it is computed from (seed, position, draw, unit) by an integer hash. So it can be
made again whenever and wherever it is needed, a draw at a time, and is the same on all devices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BITS = 32
_ALL_BITS = 2**_BITS - 1
_ODD = 0x9E3779B1 - 2**_BITS  # 2³² over the golden ratio: spreads neighbours apart
# Of the 32-bit mixer "lowbias32" (Wellons 2018), whose bias is about 0.2 bits in a thousand. Multipliers lie between
# -2³¹ and 2³¹, so that no product overflows 64 bits.
_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B - 2**_BITS), (16, 1))


class Noise:
    """The random numbers of ``n_draws`` functions.

    Parameters
    ----------
    n_draws : int
    rng : numpy.random.Generator
        Source of the seed, and of nothing else.
    """

    def __init__(self, n_draws: int, rng: np.random.Generator) -> None:
        self.n_draws = n_draws
        self._entropy = rng.integers(2**63, size=4).tolist()
        self._seeds: dict[int, NDArray[np.int64]] = {}

    def uniform(self, position: int, draw: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """Float32 numbers, each above 0 and below 1, for the call at this position."""
        # 23 bits, in the middle of their intervals: exact in float32.
        bits = self._bits(self._seeds_at(position)[draw].tolist(), shape, device)
        return (bits >> (_BITS - 23)).float().add_(0.5).mul_(2.0**-23)

    def normal(self, position: int, draw: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
        return torch.erfinv(self.uniform(position, draw, shape, device).mul_(2).sub_(1)).mul_(math.sqrt(2))

    def kept(self, position: int, draw: int, shape: tuple[int, ...], p: float, device: torch.device) -> Tensor:
        """Booleans, each True with probability 1 - p."""
        return self._bits(self._seeds_at(position)[draw].tolist(), shape, device) >= math.ceil(p * 2**_BITS)

    def kept_by_all(self, position: int, n_units: int, p: float) -> Tensor:
        """The same for all draws, (n_draws, n_units), on the host."""
        seeds = torch.from_numpy(self._seeds_at(position))
        return self._bits([seeds[:, i : i + 1] for i in (0, 1)], (n_units,), seeds.device) >= math.ceil(p * 2**_BITS)

    def _seeds_at(self, position: int) -> NDArray[np.int64]:
        """Two numbers of 32 bits for each draw."""
        seeds = self._seeds.get(position)
        if seeds is None:
            seeds = np.random.default_rng([*self._entropy, position]).integers(2**_BITS, size=(self.n_draws, 2))
            self._seeds[position] = seeds  # safe without a lock: all threads make the same
        return seeds

    @staticmethod
    def _bits(seeds: list[Any], shape: tuple[int, ...], device: torch.device) -> Tensor:
        """Integers from 0 to 2³² - 1 as int64: units in order, mixed with one seed, then with the other.

        Seeds are numbers, or columns of numbers, one for each draw. A shape with a longer first axis begins with the
        same numbers.
        """
        bits = torch.arange(math.prod(shape), dtype=torch.int64, device=device).mul_(_ODD).bitwise_and_(_ALL_BITS)
        for seed in seeds:
            bits = bits ^ seed if isinstance(seed, Tensor) else bits.bitwise_xor_(seed)
            for shift, factor in _ROUNDS:
                bits.bitwise_xor_(bits >> shift)
                if factor != 1:
                    bits.mul_(factor).bitwise_and_(_ALL_BITS)
        return bits.view((*bits.shape[:-1], *shape))
