"""Rows of a pool as users name them: positions or masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _containers as containers
from .._checks import as_array, plain_array

Indices = NDArray[np.int64]


def distinct_rows(given_rows: ArrayLike, X: Any, name: str) -> Indices:
    """Sorted distinct positions, from positions in any order or a mask."""
    rows = rows_in_order(given_rows, X, name)
    return rows if (rows[1:] > rows[:-1]).all() else np.unique(rows)  # as those of a mask are, a million of them


def rows_in_order(given_rows: ArrayLike, X: Any, name: str) -> Indices:
    """Positions as they are given, or from a mask in the order of the pool."""
    n_points = containers.count_rows(X)
    if hasattr(given_rows, "get_indexer"):  # a pandas Index
        raise TypeError(
            f"`{name}` must be positions of rows or a mask, and a pandas Index holds ids. Give "
            "`np.flatnonzero(X_pool.index.isin(ids))` for a DataFrame `X_pool`."
        )
    given = _as_array(given_rows, name)
    if given.dtype == bool:
        if given.shape != (n_points,):
            raise ValueError(
                f"`{name}` as a mask must have shape ({n_points},), as the pool. Got {given.shape} instead."
            )
        return np.flatnonzero(_as_array(containers.aligned(given_rows, X, name), name))
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TypeError(
            f"`{name}` must be a boolean mask or positions of rows, a one-dimensional array of integers. "
            f"Got an array of shape {given.shape} and dtype {given.dtype} instead."
        )
    if len(given) == n_points > 2 and np.isin(given, (0, 1)).all():
        raise ValueError(
            f"`{name}` must be a mask of booleans, or positions. Got {n_points} whole numbers that are 0 or 1, as many "
            "as the pool has rows: if they are a mask, give `.astype(bool)` of them."
        )
    if given.size and not (given.min() >= 0 and given.max() < n_points):
        raise ValueError(
            f"`{name}` must be positions from 0 to {n_points - 1} (not index labels). "
            f"Got positions from {given.min()} to {given.max()}."
        )
    return given.astype(np.int64)


def _as_array(given_rows: Any, name: str) -> NDArray[Any]:
    """What was given as an array; objects that are all booleans, as those of nullable types, as booleans."""
    if isinstance(given_rows, np.ma.MaskedArray):
        raise TypeError(f"`{name}` must not be a masked array. Give a mask as an array of True and False.")
    if hasattr(given_rows, "isna") and np.asarray(given_rows.isna()).any():
        raise ValueError(
            f"`{name}` must say yes or no for every row. Got missing values: fill them, with `.fillna(False)` say."
        )
    given = as_array(plain_array(name, given_rows, objects=False))
    if given.dtype == object and all(isinstance(value, bool | np.bool_) for value in given.flat):
        return given.astype(bool)
    return given
