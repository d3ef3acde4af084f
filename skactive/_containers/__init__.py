"""Rows of a pool, whatever holds it: the only folder that knows containers.

Kinds of containers in memory are classes in `_kinds`. Pools that are read in blocks are a `Stream` in `_blocks`, whose
source, in `_readers`, says how. A chunk is the container's own kind of slice, a view where it can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import get_config

from .._utils.validation import is_integer
from ._blocks import NEAR, ReadInBlocks, Stream, Streams
from ._blocks import Source as Source
from ._kinds import (
    KINDS,
    Arrays,
    Dicts,
    Frames,
    Indices,
    Lists,
    Others,
    Sparse,
    Tables,
    TensorSets,
    check_plain,
    different_error,
    kind_of,
    library_of,
    with_names,
)
from ._readers import SOURCES
from ._readers import blocks as blocks

KINDS += [
    *(Streams(), Lists(), Sparse(), TensorSets(), *(ReadInBlocks(*source) for source in SOURCES)),
    *(Frames(), Tables(), Dicts(), Arrays(), Others()),
]

_MAX_CHUNK_BYTES = 64 * 2**20
_MOST_UNKNOWN = 2048  # rows of a chunk where their size cannot be told: a name may become an image


def prepare_pool(X: Any, name: str = "X_pool") -> Any:
    """The pool in a form whose rows can be sliced; what has no rows (a text, a generator, a set) is a ``TypeError``."""
    check_plain(X, name)
    return kind_of(X).prepare(X, name)


def holds_rows(X: Any) -> bool:
    try:
        kind_of(X).prepare(X, "X_pool")
    except TypeError:
        return False
    return True


def count_rows(X: Any) -> int:
    """Number of rows, also of sparse arrays, which have no length."""
    return kind_of(X).count_rows(X)


def count_columns(X: Any) -> int | None:
    """Length of the second axis; None where there is none, as in a list of texts."""
    return kind_of(X).count_columns(X)


def is_open(X: Any) -> bool:
    """Whether it is a pool of which nobody knows yet how many rows it has."""
    return isinstance(X, Stream) and X.n_rows is None


def is_read_in_blocks(X: Any) -> bool:
    """Whether it is a pool that is read in blocks, so that looking at rows again is dear, or cannot be done."""
    return isinstance(X, Stream)


def is_mapped(X: Any) -> bool:
    """Whether it is a pool whose blocks are dealt with where they are."""
    return isinstance(X, Stream) and type(X.source).mapped is not Source.mapped


def is_read_once(X: Any) -> bool:
    """Whether it is one whose rows come but once."""
    return isinstance(X, Stream) and X.source.is_once


def store(X: Any, rows: Indices | None, why: str) -> None:
    """Read a pool of blocks now, all of it or the ``rows`` that will be asked for, and keep them to be read again."""
    if isinstance(X, Stream):
        X.store(rows, why)


def layout(X: Any) -> tuple[Any, ...]:
    """What rows of one pool have in common: container, columns and further axes."""
    names = kind_of(X).names(X)
    return type(X), count_columns(X) if names is None else names, tuple(getattr(X, "shape", ())[2:])


def row_keys(X: Any) -> list[Any]:
    """What each row holds, in a form that is equal for equal rows: of any container and any type of numbers."""
    return kind_of(X).keys(X)


def join_rows(X: Any, more: Any) -> Any:
    """Rows and, below them, more of them: of one kind, or of arrays, lists and sparse arrays, which can be mixed."""
    X, more = (_joinable(rows) for rows in (X, more))
    if not (sparse.issparse(X) or sparse.issparse(more)):
        return kind_of(X).join(X, more)
    blocks = [rows.tocsr() if sparse.issparse(rows) else np.asarray(rows) for rows in (X, more)]
    if any(block.dtype.kind not in "biufc" for block in blocks):
        raise different_error(X, more)
    return sparse.vstack(blocks, format="csr")  # whose rows can be addressed again


def _joinable(rows: Any) -> Any:
    rows = kind_of(rows).prepare(rows, "X") if isinstance(kind_of(rows), ReadInBlocks) else rows
    return rows.to_pandas() if library_of(rows) == "pyarrow" else rows


def aligned(values: Any, X: Any, name: str, rows: Indices | None = None) -> Any:
    """Values, one for each row, in the order of the rows: by index where both have one, else by position.

    ``name`` is the parameter that the values were given for; ``rows`` are the positions in X that they belong to, all
    of them by default. Whether there is one value for each row is for the caller to check.
    """
    ours, theirs = kind_of(X).index(X), kind_of(values).index(values)
    if ours is None or theirs is None:
        return values
    ours = ours if rows is None else ours[rows]
    if len(theirs) != len(ours) or theirs.equals(ours):
        return values
    return take_rows(values, _order_of(theirs, ours, name))


def _order_of(theirs: Any, ours: Any, name: str) -> Indices:
    """Where in an index each entry of another is, which has the same entries in another order."""
    if theirs.is_unique and ours.is_unique and theirs.nlevels == ours.nlevels:
        order = theirs.get_indexer(ours)
        if (order >= 0).all():
            return order
    raise ValueError(
        f"`{name}` must have the index of its rows, each entry once, or no index. Got {theirs[:5].tolist()}, where the "
        f"rows have {ours[:5].tolist()}. If it is in the order of the rows already, give `.to_numpy()` of it."
    )


def rows_per_chunk(X: Any, n_values: int, most_bytes: int = _MAX_CHUNK_BYTES) -> int:
    """Rows that fit scikit-learn's `working_memory`, ``most_bytes`` at most; of texts and objects, 2,048 at most.

    ``n_values`` is how many float64 a row takes once drawn: n_draws * n_classes, say.
    """
    limit = min(get_config()["working_memory"] * 2**20, most_bytes)
    of_row = bytes_per_row(X)
    most = int(limit // (8 * n_values + (8 if of_row is None else of_row)))
    return max(1, most if of_row is not None else min(most, _MOST_UNKNOWN))


def iter_chunks(X: Any, rows: Indices | None, size: int) -> Iterator[Any]:
    """Chunks of ``size`` rows, in order: of all rows, or of those at the positions ``rows``."""
    if isinstance(X, Stream):
        return X.chunks(rows, size)
    if rows is None:
        return (kind_of(X).slice(X, start, start + size) for start in range(0, count_rows(X), size))
    return (take_rows(X, rows[start : start + size]) for start in range(0, len(rows), size))


def take_rows(X: Any, rows: Indices) -> Any:
    """The rows at these positions (never index labels), in this order."""
    return kind_of(X).take(X, np.ascontiguousarray(rows))  # torch takes no reversed ones


def take_candidates(X: Any, rows: Indices | None, candidates: Indices) -> Any:
    """The rows at these places among ``rows``, all by default; the first of a pass that is to come are read by it."""
    candidates = np.ascontiguousarray(candidates)
    if isinstance(X, Stream):
        return X.take_candidates(rows, candidates)
    return take_rows(X, candidates if rows is None else rows[candidates])


def look(X: Any, rows: Indices | None) -> None:
    """Have the first block of a pass over ``rows`` read, if none was, as it shows what columns there are."""
    if isinstance(X, Stream):
        X.look(rows)


def n_first(X: Any, rows: Indices | None) -> int:
    """How many of the first ``rows`` can be taken at once, two or more if there are as many."""
    if isinstance(X, Stream):
        return min(NEAR, X.begin(rows, 2))
    return count_rows(X) if rows is None else len(rows)


def column_position(X: Any, column: Any, name: str) -> int:
    """Position of a column given by position, negative from the end, or in a DataFrame by its name."""
    n_columns, names = count_columns(X), kind_of(X).names(X) or []
    if n_columns is None or getattr(X, "ndim", 2) != 2:
        raise ValueError(
            f"`{name}` is a column, but the rows are not a table with columns: they are a {type(X).__name__}. "
            "Give an array of two axes or a DataFrame."
        )
    if is_integer(column) and -n_columns <= column < n_columns:
        return int(column) % n_columns
    if not is_integer(column) and names.count(column) == 1:
        return names.index(column)
    once = f", or a name that occurs once among {', '.join(map(repr, names[:20]))}" if names else ""
    raise ValueError(
        f"`{name}` must be the position of a column, from {-n_columns} to {n_columns - 1}{once}. Got {column!r}."
    )


def in_columns_of(X: Any, rows: Any, name: str) -> Any:
    """Rows with the columns of X in their order: by name where both have names, else by position."""
    names, others = kind_of(X).names(X), kind_of(rows).names(rows)
    if names is None or others is None:
        names, others = count_columns(X), count_columns(rows)
        found = rows if names == others or None in (names, others) else None
    else:
        found = with_names(rows, names)
    if found is None:
        raise ValueError(
            f"`{name}` must have the columns of `X_pool`, {names}. Got {others}: give rows like those of the pool, "
            "without their labels."
        )
    return found


def take_column(X: Any, position: int) -> NDArray[Any]:
    return kind_of(X).column(X, position)


def set_column(X: Any, position: int, value: int) -> Any:
    """The rows with one value in a column, of the type that the column has: a copy."""
    return kind_of(X).with_column(X, position, [value])


def drop_column(X: Any, position: int) -> Any:
    return kind_of(X).with_column(X, position, [])


def bytes_per_row(X: Any) -> float | None:
    """What a row takes, a text beside numbers as much as these; None where it is texts or objects alone."""
    return kind_of(X).bytes_per_row(X)
