"""Probabilities of rows under drawn weights, a block of rows at a time.

Letters: m rows, U features without the constant, F with it, C classes, K draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from ..posterior import _laplace as laplace

Floats = NDArray[np.float64]

_BLOCK_ELEMENTS = 2**21  # 16 MiB of float64


def by_blocks(
    features_mU: NDArray[Any], weights_FCK: Floats, reduce: Callable[[Floats], Floats] = lambda p_KmC: p_KmC
) -> Floats:
    """Probabilities (K, m, C), or a reduction of their first axis; memory holds the result and one block."""
    n_rows, (_, n_classes, _) = len(features_mU), weights_FCK.shape
    blocks = list(gen_batches(n_rows, rows_of_block(weights_FCK)))
    n_values = len(reduce(np.empty((weights_FCK.shape[2], 0, n_classes))))
    result = np.empty((n_values, n_rows, n_classes))
    for block in blocks:
        result[:, block] = reduce(probabilities(features_mU[block], weights_FCK))
    return result


def rows_of_block(weights_FCK: Floats) -> int:
    return max(1, _BLOCK_ELEMENTS // max(weights_FCK[0].size, len(weights_FCK)))


def probabilities(features_mU: NDArray[Any], weights_FCK: Floats) -> Floats:
    """Of shape (K, m, C); the last of the weights are biases."""
    features_mU = features_mU.astype(np.float64, copy=False)
    return laplace.probabilities(laplace.linear(features_mU, weights_FCK[:-1], weights_FCK[-1]))
