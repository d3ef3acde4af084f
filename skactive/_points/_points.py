"""All points, by their factors, and squared distances of some from some others.

``|x - y|² = |x|² + |y|² - 2 x·y``, where the product of two points is that of their factors' products.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ._factors import Factor, Rows

Floats = NDArray[np.float64]

_BLOCK_ELEMENTS = 2**17  # 1 MiB of float64
_LIMITS = (1e-200, 1e200)  # of the largest squared norm, within which no square loses digits


@dataclass(frozen=True)
class Points:
    """Some points: a tensor (m, n_columns) for each factor, and squared norms (m,)."""

    factors: tuple[Factor, ...]
    rows: tuple[Tensor, ...]
    squared_norms: Tensor

    def __len__(self) -> int:
        return len(self.squared_norms)

    def __getitem__(self, positions: slice | list[int]) -> Points:
        rows = tuple(x[positions] for x in self.rows)
        return replace(self, rows=rows, squared_norms=self.squared_norms[positions])

    def joined(self, other: Points) -> Points:
        """These points, and other ones."""
        rows = tuple(torch.cat(both) for both in zip(self.rows, other.rows, strict=True))
        return replace(self, rows=rows, squared_norms=torch.cat([self.squared_norms, other.squared_norms]))

    def squared_distances(self, centres: Points) -> Tensor:
        """Squared distances (m, c). What rounding may have made of 0 is 0, so that equal points are no distance apart.

        A dot product of n numbers is off by n eps / 2 of the product of the norms at most (Higham, 2002, sec. 3.1).
        """
        sums = self.squared_norms[:, None] + centres.squared_norms
        products = 2 * self.factors[0].products(self.rows[0], centres.rows[0])
        for factor, x, y in zip(self.factors[1:], self.rows[1:], centres.rows[1:], strict=True):
            products *= factor.products(x, y)
        distances = sums - products
        rounding = (sum(factor.n_columns for factor in self.factors) + 8) * torch.finfo(sums.dtype).eps
        return distances.masked_fill_(distances <= rounding * sums, 0.0)


class PointSet:
    """All points, the outer products of one or more factors.

    Attributes
    ----------
    unit : float
        The length in which they are measured.
    squared_norms : ndarray of shape (N,), float64
        In that unit.
    """

    def __init__(self, *factors: Factor) -> None:
        self._factors = factors
        for factor in factors:
            factor.prepare(self.blocks())
        self.squared_norms = self._measured()
        if not _LIMITS[0] < self.squared_norms.max(initial=0.0) < _LIMITS[1]:  # or NaN
            for factor in factors:
                factor.choose_unit(self.blocks())
            self.squared_norms = self._measured()
        self.unit = math.prod(factor.unit for factor in factors)

    def _measured(self) -> Floats:
        squared_norms = np.empty(len(self))
        for block in self.blocks():
            squared_norms[block] = self._squares(self._rows(block, check=True)).cpu()
        return squared_norms

    def _rows(self, rows: Rows, *, check: bool = False) -> tuple[Tensor, ...]:
        """Rows of the factors, on the device and of the floats of the last one, which is the widest."""
        *first, last = (factor.rows(rows, check=check) for factor in self._factors)
        like = last if last.is_floating_point() else torch.empty(0, dtype=torch.float64, device="cpu")
        return (*(x.to(like) for x in first), last)

    def _squares(self, rows: tuple[Tensor, ...]) -> Tensor:
        squares = (factor.squares(x) for factor, x in zip(self._factors, rows, strict=True))
        return functools.reduce(operator.mul, squares)

    def __len__(self) -> int:
        return len(self._factors[0])

    def __getitem__(self, rows: Rows) -> Points:
        parts = self._rows(rows)
        squared_norms = torch.from_numpy(self.squared_norms[rows])
        return Points(
            self._factors, parts, squared_norms.to(parts[-1]) if parts[-1].is_floating_point() else squared_norms
        )

    def blocks(self, n_beside: int = 0) -> Iterator[slice]:
        """Rows in order, as many as fit some MiB with ``n_beside`` numbers beside each."""
        step = max(1, _BLOCK_ELEMENTS // (n_beside + sum(factor.n_columns for factor in self._factors)))
        return (slice(start, min(start + step, len(self))) for start in range(0, len(self), step))

    def check_unchanged(self, rows: slice) -> None:
        """Check that the norms of rows are those that were measured: an array may have been written into since."""
        now = self._squares(self._rows(rows)).cpu().numpy()
        if not np.allclose(now, self.squared_norms[rows], rtol=1e-9, atol=0):
            raise ValueError(
                f"The pool has changed since the batch was chosen, in rows {rows.start} to {rows.stop - 1}: ask for "
                "`log_proba_` before you write into it."
            )

    def are_equal(self) -> bool:
        """Whether there are several points, and all in one place."""
        first = self[slice(0, 1)]
        return len(self) > 1 and not any(bool(self[block].squared_distances(first).any()) for block in self.blocks())

    def bounds(self, centre: int) -> Floats:
        """No less than the squared distance of each point from a point, from norms alone."""
        theirs = self.squared_norms[centre]
        if any(factor.can_be_negative for factor in self._factors):
            return (np.sqrt(self.squared_norms) + math.sqrt(theirs)) ** 2
        return self.squared_norms + theirs
