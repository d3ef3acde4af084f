"""Rows by value: keys that are equal for equal rows, whatever type or container holds them.

1, 1.0, True and a float32 of 1 are one value, and so are 0.0 and -0.0; gaps (NaN, None, NA) are equal to one another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from .._utils.validation import as_array

_BLOCK = 1_000


def are_exact(values: Any) -> bool:
    """Whether float64 has these numbers exactly, if they were integers."""
    return not (np.abs(values) >= 2**53).any()  # the next integers became this one


def keys_of_table(values: Any) -> list[Hashable]:
    """Keys of rows of numbers: an array of one axis or more, or a sparse array in rows."""
    if not sparse.issparse(values):
        values = values.reshape(len(values), int(np.prod(values.shape[1:])))
        if values.dtype.kind in "iu" and not are_exact(values):
            return [key_of(row) for row in values]
    return [key for start in range(0, values.shape[0], _BLOCK) for key in _digests(values[start : start + _BLOCK])]


def key_of(row: Any) -> Hashable:
    """The key of one row: numbers, texts, gaps, in any nesting, or an object."""
    plain = _plain(row)
    parts = np.array(plain, dtype=object).ravel().tolist()
    if all(part is None or isinstance(part, float) for part in parts):
        return next(_digests(np.array([parts], dtype=np.float64)))
    return plain


def _digests(values: Any) -> Iterator[Hashable]:
    """Hashes of where a row is not zero, and of what is there: the same for dense and for sparse rows."""
    if not sparse.issparse(values):
        values = np.asarray(values, dtype=np.float64)
    rows = sparse.csr_array(values, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.data[np.isnan(rows.data)] = np.nan  # which has many bit patterns
    n_columns, places = np.int64(rows.shape[1]).tobytes(), rows.indices.astype(np.int64)
    for start, stop in pairwise(rows.indptr):
        content = n_columns + places[start:stop].tobytes() + rows.data[start:stop].tobytes()
        yield hashlib.blake2b(content, digest_size=16).digest()


def _plain(value: Any) -> Hashable:
    """Python's own value: numbers as float if that is exact, None for a gap, and ``repr`` of what has no hash."""
    if hasattr(value, "dtype"):
        value = as_array(value).tolist()
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, int):
        return float(value) if abs(value) < 2**53 else value
    if isinstance(value, Mapping):
        return tuple((name, _plain(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(_plain(part) for part in value)
    try:
        hash(value)
        return None if value != value else value
    except (TypeError, ValueError):  # pandas.NA is neither equal to itself nor different; others have no hash
        return None if str(value) == "<NA>" else repr(value)
