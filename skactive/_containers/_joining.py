"""Rows below rows: what a learner stores when it is taught more of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._checks import as_array

_NUMBERS, _TEXT = "biufc", "US"


def join_arrays(X: Any, more: Any) -> NDArray[Any]:
    """Rows of an array and more of them; a list keeps the types of its values where the array holds objects."""
    rows = as_array(X)
    below = np.array(more, dtype=object) if rows.dtype == object and isinstance(more, list | tuple) else as_array(more)
    kinds = rows.dtype.kind, below.dtype.kind
    becomes_text = any(k in _NUMBERS for k in kinds) and any(k in _TEXT for k in kinds)
    if becomes_text or isinstance(more, Mapping):
        raise different_error(X, more)
    try:
        return np.concatenate([rows, below])
    except TypeError:  # dates and numbers, say
        raise different_error(X, more) from None


def join_sparse(X: Any, more: Any) -> Any:
    """Rows of which some are sparse, in a format whose rows can be addressed again."""
    blocks = [block.tocsr() if sparse.issparse(block) else as_array(block) for block in (X, more)]
    if any(block.dtype.kind not in _NUMBERS for block in blocks):
        raise different_error(X, more)
    return sparse.vstack(blocks, format="csr")


def stack_frames(parts: list[Any]) -> Any:
    """DataFrames, or Series, of one pool below one another; categories that differ are brought together."""
    pandas = sys.modules["pandas"]
    if hasattr(parts[0], "columns"):
        for name, dtype in parts[0].dtypes.items():
            if str(dtype) == "category" and any(part[name].dtype != dtype for part in parts):
                union = pandas.api.types.union_categoricals(
                    [part[name] for part in parts], ignore_order=True
                ).categories
                parts = [part.assign(**{name: part[name].cat.set_categories(union)}) for part in parts]
    return pandas.concat(parts)


def check_columns(columns: Any, others: Any) -> None:
    """Check that more rows of a table have the columns of the first ones, in any order."""
    columns, others = list(columns), list(others)
    if set(columns) != set(others) or len(columns) != len(others):
        raise TypeError(
            f"`teach` must be given rows with the columns that the learner has, {columns}. Got {others}. Give the rows "
            "as `learner.query` returns them."
        )


def different_error(X: Any, more: Any) -> TypeError:
    return TypeError(
        f"`teach` must be given rows, and labels, of the kind that the learner has: it has {_shown(X)}. "
        f"Got {_shown(more)}. Give them as `learner.query` returns them, or begin with the kind that the pool is."
    )


def _shown(X: Any) -> str:
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    holds = " of text" if kind in {*_TEXT} else " of numbers" if kind in {*_NUMBERS} else ""
    return f"{type(X).__module__.partition('.')[0]}.{type(X).__name__}{holds}".removeprefix("builtins.")
