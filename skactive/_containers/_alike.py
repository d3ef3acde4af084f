"""Whether the blocks of a pool are alike: the same columns, in one order, of the same types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_CLASSES = {**dict.fromkeys("biufc", "numbers"), **dict.fromkeys("OSUTV", "texts"), **dict.fromkeys("mM", "times")}


@dataclass(frozen=True)
class Layout:
    """What the rows of a block are like.

    Attributes
    ----------
    container : str
    names : list or None
        Of columns, or of arrays by name.
    shape : tuple of int
        Of a row.
    types : list of str
        One for each column of a table, else one: "numbers", "texts" or "times", whatever their width.
    """

    container: str
    names: list[Any] | None
    shape: tuple[int, ...]
    types: list[str]

    @classmethod
    def of(cls, block: Any, kind_of: Callable[[Any], Any]) -> Layout:
        container, kind = type(block).__name__, kind_of(block)
        names = kind.names(block)
        if isinstance(block, Mapping):
            parts = [cls.of(values, kind_of) for values in block.values()]
            return cls(container, list(block), (), [f"{part.shape} {part.types[0]}" for part in parts])
        if names is not None:
            return cls(container, list(names), (), [_class_of(dtype) for dtype in block.dtypes])
        if hasattr(block, "dtype"):
            return cls(container, None, tuple(block.shape[1:]), [_class_of(block.dtype)])
        first = block[0] if kind.count_rows(block) else None
        return cls(container, None, np.shape(first) if isinstance(first, np.ndarray) else (), [type(first).__name__])


def _class_of(dtype: Any) -> str:
    if hasattr(dtype, "categories") and hasattr(dtype.categories, "dtype"):  # of pandas
        dtype = dtype.categories.dtype
    if hasattr(dtype, "is_numeric"):  # of polars
        is_number = dtype.is_numeric() or str(dtype).startswith("Bool")
        return "numbers" if is_number else "times" if dtype.is_temporal() else "texts"
    return _CLASSES.get(getattr(dtype, "kind", "f"), str(dtype))


def check_alike(first: Layout, other: Layout, like: Any, block: Any, start: int) -> None:
    """Check that the block that begins at a row is like the first one; a column without any value is of any type."""
    if other == first:
        return
    what = ""
    if other.container != first.container:
        what = f"a {other.container}, and the first block is a {first.container}"
    elif other.names != first.names:
        what = _other_names(first.names or [], other.names or [])
    elif other.shape != first.shape:
        what = f"rows of shape {other.shape}, and those of the first block have shape {first.shape}"
    else:
        for i, (theirs, ours) in enumerate(zip(other.types, first.types, strict=True)):
            if theirs != ours and not (_is_empty(block, i) or _is_empty(like, i)):
                of = "" if first.names is None else f" in column {first.names[i]!r}"
                what = f"{theirs}{of}, where the first block has {ours}"
                break
    if what:
        raise ValueError(
            f"`X_pool` must have the same columns and types in every block. Got, in the one that begins at row {start},"
            f" {what}. Make all blocks alike before they are given."
        )


def _other_names(ours: list[Any], theirs: list[Any]) -> str:
    lacking = [name for name in ours if name not in theirs]
    more = [name for name in theirs if name not in ours]
    if lacking or more:
        return " and ".join(
            part
            for part, some in (
                (f"no column {lacking[:5]}", lacking),
                (f"a column {more[:5]} that the first has not", more),
            )
            if some
        )
    return f"its columns in another order, {theirs[:10]}, where the first has {ours[:10]}"


def _is_empty(block: Any, i: int) -> bool:
    """Whether column i of a table has no value, so that its type says nothing."""
    if not hasattr(block, "columns"):
        return len(block) == 0
    column = block.iloc[:, i] if hasattr(block, "iloc") else block.to_series(i)
    return bool(column.isna().all() if hasattr(column, "isna") else column.is_null().all())
