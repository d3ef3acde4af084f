"""What rows take in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks import is_number

_BLOCK = 16 * 2**20


def bytes_of_type(dtype: Any) -> float | None:
    """What a number takes, or a category; None for what may be of any length."""
    is_open = getattr(dtype, "kind", "f") in {"O", "S", "U", "T"} and str(dtype) != "category"
    return None if is_open else float(getattr(dtype, "itemsize", 8))


def rows_of_block(of_row: float | None, most: int = 2**17) -> int:
    """Rows of a block to read from a file: some 16 MiB, with 1 KiB for a row of unknown size."""
    return max(1, min(most, int(_BLOCK // (of_row or 1024))))


def bytes_of_polars(dtype: Any) -> float | None:
    """The same for a type of polars."""
    has_size = dtype.is_numeric() or dtype.is_temporal() or str(dtype).startswith(("Bool", "Cat", "Enum"))
    return 8.0 if has_size else None


def bytes_of_value(value: Any) -> float | None:
    """What a row of a list takes, or a part of one."""
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        return sum_of([bytes_of_value(part) for part in value])
    if hasattr(value, "dtype"):
        size = bytes_of_type(value.dtype)
        return None if size is None else float(np.prod(value.shape)) * size
    return 8.0 if is_number(value) or isinstance(value, bool) else None


def sum_of(sizes: Sequence[float | None]) -> float | None:
    """All together; what is open counts like a number, unless all are."""
    known = [size for size in sizes if size is not None]
    return sum(known) + 8.0 * (len(sizes) - len(known)) if known else None


def bytes_of_arrow(kind: Any) -> float | None:
    """The same for a type of Arrow."""
    try:
        return max(1.0, kind.bit_width / 8)
    except ValueError:  # of any length
        return None
