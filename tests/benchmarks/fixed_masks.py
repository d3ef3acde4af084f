"""Draws of a module under fixed masks, as the benchmarks ask for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from skactive._dropout import BLOCK, FixedDraws, InBlocks, TensorRows

N_DRAWS = 20


def draws_of(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Ours, by pruned networks or a recording, block after block."""
    draws, blocks = FixedDraws(module, N_DRAWS, np.random.default_rng(0)), InBlocks(BLOCK)

    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            draws.learn(TensorRows(x))
        return blocks.joined(draws, TensorRows(x), axis=1)

    return function


def whole_passes(module: nn.Module, one: Tensor) -> Callable[[Tensor], Tensor]:
    """The same, by a forward pass of the whole module for each; what is random shows in one row."""
    draws = FixedDraws(module, N_DRAWS, np.random.default_rng(0))
    with torch.no_grad():
        draws.learn(TensorRows(one))
    return lambda batch: draws.by_whole_passes(batch, len(batch))
