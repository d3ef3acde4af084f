"""Rows as points: squared distances between a few of many, and never between all.

A point is the outer product of its factors, which is never formed: inner products of points are products of those of
their factors, and ``|x - y|² = |x|² + |y|² - 2 x·y``. Gradients of a last layer are such points, ``(p - e) ⊗ h``.
Factors are read in place, a block or a few rows at a time: arrays, memory maps, tensors on any device, sparse CSR and
dask arrays. All arithmetic is in float64.

Letters: N points, m and c some of them, D columns.
"""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from .._utils.devices import best_float
from .._utils.validation import PointError, ProbabilityError, sum_tolerance

Rows = slice | NDArray[np.int64]
Floats = NDArray[np.float64]

_BLOCK_ELEMENTS = 2**17  # 1 MiB of float64: a block stays in the cache
_LEAVES_AT_ONCE = 2**18  # pairs of rows whose leaves are compared at once
_NORM_RANGE = (1e-200, 1e200)  # of the largest squared norm, within which no square loses digits


class Factor(ABC):
    """One factor of many points, read from an array (N, D) that is not copied."""

    can_be_negative = True  # inner products

    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return int(self.array.shape[0])

    @property
    def n_columns(self) -> int:
        return int(self.array.shape[1])

    @abstractmethod
    def rows(self, rows: Rows, *, check: bool = False) -> Tensor:
        """Some rows, a copy; checked, if they are a slice, for what no norm would show."""

    def products(self, x_mD: Tensor, y_cD: Tensor) -> Tensor:
        """Inner products (m, c) of rows."""
        return x_mD @ y_cD.T

    def squares(self, x_mD: Tensor) -> Tensor:
        """Inner products of rows, a copy that is overwritten, with themselves, (m,)."""
        return x_mD.square_().sum(1)

    def check_range(self, blocks: Iterable[slice]) -> None:
        """Check all numbers, because squared norms under- or overflowed, or are not finite."""
        return


class Vectors(Factor):
    """Vectors as they are, or less their mean: then the distances of points far from the origin keep their digits."""

    def __init__(self, array: Any, parameter: str, *, centred: bool = False) -> None:
        super().__init__(array)
        self._parameter = parameter
        self.is_centred = centred
        self._mean_D: Tensor | None = None

    def centre(self, blocks: Iterable[slice]) -> None:
        # Sums that overflow are of numbers that `check_range` refuses.
        parts = (float64(self.array[rows]).sum(0) for rows in blocks)
        self._mean_D = functools.reduce(operator.add, parts) / len(self)

    def rows(self, rows: Rows, *, check: bool = False) -> Tensor:
        x = float64(self.array[rows])
        return x if self._mean_D is None else x.sub_(self._mean_D)

    def check_range(self, blocks: Iterable[slice]) -> None:
        largest = 0.0
        for rows in blocks:
            x = float64(self.array[rows])
            check_finite(x, rows.start, self._parameter)
            largest = max(largest, x.abs_().amax().item())
        if largest and not 1e-100 < largest < 1e100:
            raise ValueError(f"`{self._parameter}` must have a scale between 1e-100 and 1e100. Got {largest:g}.")


class Residuals(Factor):
    """Probabilities less 1 at the most probable class, the first of these."""

    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self._tolerance = sum_tolerance(array)

    def rows(self, rows: Rows, *, check: bool = False) -> Tensor:
        p = float64(self.array[rows])
        if check and isinstance(rows, slice):
            self._check(p, rows.start)
        p[torch.arange(len(p), device=p.device), p.argmax(1)] -= 1
        return p

    def _check(self, p: Tensor, first: int) -> None:
        off = (p.sum(1) - 1).abs()
        if bool(p.amin() >= 0) and bool(off.amax() <= self._tolerance):
            return
        row = int((~((p >= 0).all(1) & (off <= self._tolerance))).nonzero()[0, 0])
        raise ProbabilityError("probabilities", p[row], "", row, self._tolerance).at(f"row {first + row}")


class Leaves(Factor):
    """The leaf of each tree that a row falls into, (N, n_trees); an inner product is the share of trees that agree."""

    can_be_negative = False

    def rows(self, rows: Rows, *, check: bool = False) -> Tensor:
        return torch.from_numpy(np.array(self.array[rows], order="C"))

    def squares(self, x_mD: Tensor) -> Tensor:
        return torch.ones(len(x_mD), dtype=torch.float64, device="cpu")

    def products(self, x_mD: Tensor, y_cD: Tensor) -> Tensor:
        shares = torch.empty((len(x_mD), len(y_cD)), dtype=torch.float64, device="cpu")
        y_Dc = np.ascontiguousarray(y_cD.numpy().T)
        step = max(1, _LEAVES_AT_ONCE // max(1, len(y_cD)))
        for start in range(0, len(x_mD), step):
            x_Dn = np.ascontiguousarray(x_mD[start : start + step].numpy().T)
            # Counts in one byte where they fit: four times as many comparisons a second.
            shared = np.zeros((x_Dn.shape[1], len(y_cD)), np.uint8 if self.n_columns < 256 else np.int32)
            for x_n, y_c in zip(x_Dn, y_Dc, strict=True):
                np.add(shared, np.equal.outer(x_n, y_c), out=shared, casting="unsafe")
            shares[start : start + step] = torch.from_numpy(shared / self.n_columns)
        return shares


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
        rows = tuple(torch.cat(both) for both in zip(self.rows, other.rows, strict=True))
        return replace(self, rows=rows, squared_norms=torch.cat([self.squared_norms, other.squared_norms]))

    def squared_distances(self, centres: Points) -> Tensor:
        """Squared distances (m, c). What rounding may have made of 0 is 0, so that equal points are at no distance."""
        sums = self.squared_norms[:, None] + centres.squared_norms
        products = 2 * self.factors[0].products(self.rows[0], centres.rows[0])
        for factor, x, y in zip(self.factors[1:], self.rows[1:], centres.rows[1:], strict=True):
            products *= factor.products(x, y)
        distances = sums - products
        # A dot product of n numbers is off by n eps / 2 of the product of the norms at most (Higham, 2002, sec. 3.1).
        rounding = (sum(factor.n_columns for factor in self.factors) + 8) * torch.finfo(sums.dtype).eps
        return distances.masked_fill_(distances <= rounding * sums, 0.0)


class PointSet:
    """All points, the outer products of one or more factors, and their ``squared_norms`` (N,)."""

    def __init__(self, *factors: Factor) -> None:
        self._factors = factors
        for factor in factors:
            if isinstance(factor, Vectors) and factor.is_centred:
                factor.centre(self.blocks())
        self.squared_norms = self._measured()
        if not _NORM_RANGE[0] < self.squared_norms.max(initial=0.0) < _NORM_RANGE[1]:  # or NaN
            for factor in factors:
                factor.check_range(self.blocks())

    def _measured(self) -> Floats:
        squared_norms = np.empty(len(self))
        for block in self.blocks():
            squared_norms[block] = self._squares(self._rows(block, check=True)).cpu()
        return squared_norms

    def _rows(self, rows: Rows, *, check: bool = False) -> tuple[Tensor, ...]:
        """Rows of the factors, on the device and of the floats of the last one, which is the widest."""
        *first, last = (factor.rows(rows, check=check) for factor in self._factors)
        return (*(x.to(_floats_like(last)) for x in first), last)

    def _squares(self, rows: tuple[Tensor, ...]) -> Tensor:
        squares = (factor.squares(x) for factor, x in zip(self._factors, rows, strict=True))
        return functools.reduce(operator.mul, squares)

    def __len__(self) -> int:
        return len(self._factors[0])

    def __getitem__(self, rows: Rows) -> Points:
        parts = self._rows(rows)
        return Points(self._factors, parts, torch.from_numpy(self.squared_norms[rows]).to(_floats_like(parts[-1])))

    def blocks(self, n_beside: int = 0) -> Iterator[slice]:
        """Rows in order, as many as fit some MiB with ``n_beside`` numbers beside each."""
        step = max(1, _BLOCK_ELEMENTS // (n_beside + sum(factor.n_columns for factor in self._factors)))
        return (slice(start, min(start + step, len(self))) for start in range(0, len(self), step))

    def check_unchanged(self, rows: slice) -> None:
        """Check that the norms of rows are those that were measured: an array may have been written into since."""
        now = self._squares(self._rows(rows)).cpu().numpy()
        # Sums of squares in another block may differ in their last digits; rows that were written into differ by more.
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


def _floats_like(x: Tensor) -> Tensor:
    """A tensor of the device and the floats that go with rows: those of leaves, which are integers, are float64."""
    return x if x.is_floating_point() else torch.empty(0, dtype=torch.float64, device="cpu")


def check_finite(x: Tensor, first: int, parameter: str) -> None:
    if not bool(x.isfinite().all()):
        row = first + int((~x.isfinite()).nonzero()[0, 0])
        rules = {"points": "`points` must be finite", "space function": "`space` must return finite numbers"}
        rule = rules.get(parameter, "`embeddings` must be finite")
        own = "" if parameter in rules else f" Or give a function of the rows that returns no gaps as `{parameter}`."
        raise PointError(f"{rule}. Got infinity or NaN in ", row, f". Fill gaps, or scale what is too large.{own}")


def float64(part: Any) -> Tensor:
    """A copy, as a tensor on the device where the part is, in float64 or what the device has."""
    if isinstance(part, Tensor):
        return part.detach().to(best_float(part.device), copy=True)
    part = part.toarray() if sparse.issparse(part) else part
    return torch.from_numpy(np.array(part, dtype=np.float64, order="C"))
