"""Factors of points: what a row of one is, and inner products of rows.

Letters: N points, m and c some of them, D columns.
"""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from .._checks import PointError, ProbabilityError, sum_tolerance
from .._devices import best_float

Rows = slice | NDArray[np.int64]

_AT_ONCE = 2**18  # pairs of rows whose leaves are compared at once


class Factor(ABC):
    """One factor of many points, read from an array (N, D) that is not copied.

    Attributes
    ----------
    unit : float
        The length in which its vectors are measured: 1 unless squares would be too small or too large for float64.
    can_be_negative : bool
        Whether inner products can be.
    """

    unit = 1.0
    can_be_negative = True

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

    @abstractmethod
    def products(self, x_mD: Tensor, y_cD: Tensor) -> Tensor:
        """Inner products (m, c) of rows."""

    def squares(self, x_mD: Tensor) -> Tensor:
        """Inner products of rows with themselves, (m,)."""
        return x_mD.square().sum(1)

    def prepare(self, blocks: Iterable[slice]) -> None:
        """Look through all rows once, before any is used, if the factor has to."""
        return

    def choose_unit(self, blocks: Iterable[slice]) -> None:
        """Find a unit, as norms were too small, too large, or no numbers."""
        return


class Vectors(Factor):
    """Vectors as they are, or less their mean: then the distances of points far from the origin keep their digits."""

    def __init__(self, array: Any, parameter: str, *, centred: bool = False) -> None:
        super().__init__(array)
        self._parameter = parameter
        self._is_centred = centred
        self._mean_D: Tensor | None = None

    def prepare(self, blocks: Iterable[slice]) -> None:
        if self._is_centred:
            parts = ((float64(self.array[rows]) / len(self)).sum(0) for rows in blocks)  # a sum by itself may overflow
            self._mean_D = functools.reduce(operator.add, parts)

    def rows(self, rows: Rows, *, check: bool = False) -> Tensor:
        x = float64(self.array[rows])
        if self._mean_D is not None:
            x -= self._mean_D
        return x if self.unit == 1 else x.div_(self.unit)

    def products(self, x_mD: Tensor, y_cD: Tensor) -> Tensor:
        return x_mD @ y_cD.T

    def choose_unit(self, blocks: Iterable[slice]) -> None:
        """A power of two just below the largest absolute number: nothing is rounded by it."""
        largest = float(np.finfo(np.float64).tiny)
        for rows in blocks:
            check_finite(float64(self.array[rows]), rows.start, self._parameter)
            x = self.rows(rows)
            check_finite(x, rows.start, self._parameter)  # less their mean
            largest = max(largest, x.abs_().amax().item())
        self.unit = math.ldexp(0.5, math.frexp(largest)[1])


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

    def products(self, x_mD: Tensor, y_cD: Tensor) -> Tensor:
        return x_mD @ y_cD.T

    def _check(self, p: Tensor, first: int) -> None:
        off = (p.sum(1) - 1).abs()
        if bool(p.amin() >= 0) and bool(off.amax() <= self._tolerance):
            return
        row = int((~((p >= 0).all(1) & (off <= self._tolerance))).nonzero()[0, 0])
        raise ProbabilityError("probabilities", p[row], f"row {first + row}", self._tolerance)


class Leaves(Factor):
    """The leaf of each tree that a row falls into: whole numbers (N, n_trees). Equal rows are one point."""

    can_be_negative = False

    def rows(self, rows: Rows, *, check: bool = False) -> Tensor:
        return torch.from_numpy(np.array(self.array[rows], order="C"))

    def squares(self, x_mD: Tensor) -> Tensor:
        return torch.ones(len(x_mD), dtype=torch.float64, device="cpu")

    def products(self, x_mD: Tensor, y_cD: Tensor) -> Tensor:
        shares = torch.empty((len(x_mD), len(y_cD)), dtype=torch.float64, device="cpu")
        y_Dc = np.ascontiguousarray(y_cD.numpy().T)
        step = max(1, _AT_ONCE // max(1, len(y_cD)))
        for start in range(0, len(x_mD), step):
            x_Dn = np.ascontiguousarray(x_mD[start : start + step].numpy().T)
            shared = np.zeros((x_Dn.shape[1], len(y_cD)), np.uint8 if self.n_columns < 256 else np.int32)
            for x_n, y_c in zip(x_Dn, y_Dc, strict=True):
                np.add(shared, np.equal.outer(x_n, y_c), out=shared, casting="unsafe")
            shares[start : start + step] = torch.from_numpy(shared / self.n_columns)
        return shares


def check_finite(x: Tensor, first: int, parameter: str) -> None:
    """Check a tensor (n, n_columns) of rows from number ``first`` on."""
    if bool(x.isfinite().all()):
        return
    row = first + int((~x.isfinite()).nonzero()[0, 0])
    rule, remedy = f"`{parameter}` must be finite", "Fill gaps, or scale what is too large."
    if parameter == "space function":
        rule = "`space` must return finite numbers"
    elif parameter != "points":
        rule = "`embeddings` must be finite"
        remedy += f" If the model takes rows with gaps, give a function of the rows that returns none as `{parameter}`."
    raise PointError(rule, row, remedy)


def float64(part: Any) -> Tensor:
    """A copy, as a tensor on the device where the part is, in float64 or what the device has."""
    if isinstance(part, Tensor):
        return part.detach().to(best_float(part.device), copy=True)
    part = part.toarray() if sparse.issparse(part) else part
    return torch.from_numpy(np.array(part, dtype=np.float64, order="C"))
