"""Rows by value: keys that are equal for equal rows, whatever type or container holds them.

1, 1.0, True and a float32 of 1 are one value, 0.0 and -0.0 another; gaps (NaN, None, NA) are equal to one another. So a
row is found again after it was stacked with rows of another type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from .._checks import as_array

_BLOCK = 1_000
_EXACT = 2**53  # integers above are not all float64


def keys_of_table(values: Any) -> list[Hashable]:
    """Keys of rows of numbers: an array of one axis or more, or a sparse array in rows."""
    if not sparse.issparse(values):
        values = values.reshape(len(values), int(np.prod(values.shape[1:])))
    if _may_be_inexact(values):
        return [key_of(row.toarray()[0] if sparse.issparse(row) else row) for row in _each(values)]
    return [key for start in range(0, values.shape[0], _BLOCK) for key in _digests(values[start : start + _BLOCK])]


def key_of(row: Any) -> Hashable:
    """The key of one row: numbers, texts, gaps, in any nesting, or an object."""
    numbers = _numbers_in(row)
    return _plain(row) if numbers is None else next(_digests(numbers.reshape(1, -1)))


def are_exact(values: Any) -> bool:
    """Whether float64 numbers are those that integers of any size would give."""
    return not (np.abs(values) >= _EXACT).any()  # the next integers became this one


def _each(values: Any) -> Iterator[Any]:
    return (values[[i]] if sparse.issparse(values) else values[i] for i in range(values.shape[0]))


def _may_be_inexact(values: Any) -> bool:
    data = values.data if sparse.issparse(values) else values
    has_eight_bytes = data.dtype.kind in "iu" and data.dtype.itemsize == 8
    return has_eight_bytes and data.size > 0 and max(int(data.max()), -int(data.min())) > _EXACT


def _digests(values: Any) -> Iterator[Hashable]:
    """Hashes of where a row is not zero, and of what is there: the same for dense and for sparse rows."""
    if not sparse.issparse(values):
        values = np.asarray(values, dtype=np.float64)
    rows = sparse.csr_array(values, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.data[np.isnan(rows.data)] = np.nan  # which has many bit patterns
    columns = rows.indices.astype(np.int64)
    for start, stop in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        content = np.int64(rows.shape[1]).tobytes() + columns[start:stop].tobytes() + rows.data[start:stop].tobytes()
        yield hashlib.blake2b(content, digest_size=16).digest()


def _numbers_in(row: Any) -> Any:
    """The numbers that a row holds, as float64, gaps as NaN; None where it holds anything else."""
    try:
        values = as_array(row)
    except (TypeError, ValueError):  # rows of parts of different lengths
        return None
    if values.dtype.kind in "biuf" and not _may_be_inexact(values):
        return values.astype(np.float64)
    if values.dtype.kind not in "iuO":
        return None
    parts = [_plain(value) for value in values.ravel().tolist()]
    if not all(_is_float64(part) for part in parts):
        return None
    return np.array([np.nan if part is None else part for part in parts], dtype=np.float64)


def _is_float64(value: Any) -> bool:
    """Whether it is a gap, or a number that float64 has exactly."""
    if isinstance(value, int):
        return abs(value) <= _EXACT or (abs(value) < 2**64 and float(value) == value)
    return value is None or isinstance(value, float)


def _plain(value: Any) -> Hashable:
    """Python's own value of anything, None for a gap; what cannot be hashed, by its ``repr``."""
    if isinstance(value, Mapping):
        return tuple((name, _plain(part)) for name, part in value.items())
    if hasattr(value, "dtype"):
        value = as_array(value).tolist()
    if isinstance(value, list | tuple):
        return tuple(_plain(part) for part in value)
    try:
        hash(value)
        return None if value != value else value
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor different; others have no hash
        return None if str(value) == "<NA>" else repr(value)
