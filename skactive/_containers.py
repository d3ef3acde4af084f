"""Rows of a pool, whatever holds it: the only file that knows containers.

numpy arrays of any number of axes, memory maps, scipy sparse arrays, DataFrames, lists, torch tensors and dask arrays.
A chunk is the container's own kind of slice (a view where it can be); chunks of dask arrays are numpy arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import get_config

from ._checks import as_array, is_integer, is_number

_MAX_CHUNK_BYTES = 64 * 2**20

_MOST_UNKNOWN = 2048
"""Rows of a chunk where their size cannot be told: a name may become an image, a text a long vector."""


def prepare_pool(X: Any) -> Any:
    """The pool in a form whose rows can be sliced; only sparse formats without fast rows are converted."""
    if sparse.issparse(X) and X.format != "csr":
        return X.tocsr()
    if _is_dask(X):
        if hasattr(X, "iloc"):
            raise dask_frame_error()
        return X.compute_chunk_sizes() if np.isnan(X.shape[0]) else X
    return X


def count_rows(X: Any) -> int:
    """Number of rows, also of sparse arrays, which have no length."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def count_columns(X: Any) -> int | None:
    """Length of the second axis; None where there is none, as in a list of texts."""
    if isinstance(X, list | tuple):
        return len(X[0]) if len(X) and isinstance(X[0], list | tuple | np.ndarray) else None
    shape: tuple[Any, ...] = getattr(X, "shape", ())
    return int(shape[1]) if len(shape) > 1 else None


def layout(X: Any) -> tuple[Any, ...]:
    """What rows of one pool have in common: container, columns and further axes."""
    columns = getattr(X, "columns", None)
    return type(X), count_columns(X) if columns is None else list(columns), tuple(getattr(X, "shape", ())[2:])


def row_keys(X: Any) -> list[Any]:
    """What each row holds, in a form that is equal for equal rows of one container and type."""
    if sparse.issparse(X):
        X = X.tocsr()
        return [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in pairwise(X.indptr)]
    if hasattr(X, "itertuples"):
        return [repr(row) for row in X.itertuples(index=False, name=None)]
    if hasattr(X, "dtype"):
        return [np.asarray(row).tobytes() for row in as_array(X)]
    return [repr(row) for row in X]


def rows_per_chunk(X: Any, n_values: int, most_bytes: int = _MAX_CHUNK_BYTES) -> int:
    """Rows that fit scikit-learn's `working_memory`, ``most_bytes`` at most; of texts and objects, 2,048 at most.

    ``n_values`` is how many float64 a row takes once drawn: n_draws * n_classes, say.
    """
    limit = min(get_config()["working_memory"] * 2**20, most_bytes)
    bytes_per_row = _bytes_per_row(X)
    if bytes_per_row is None:
        return max(1, min(int(limit // (8 * n_values + 8)), _MOST_UNKNOWN))
    return max(1, int(limit // (8 * n_values + bytes_per_row)))


def whole_blocks(size: int, block: int | None) -> int:
    """A number of rows, rounded up to a multiple of ``block``, if there is one."""
    return size if block is None else -(-size // block) * block


def iter_chunks(X: Any, rows: NDArray[np.int64] | None, size: int) -> Iterator[Any]:
    """Chunks of ``size`` rows, in order: of all rows, or of those at the positions ``rows``."""
    n = count_rows(X) if rows is None else len(rows)
    for start in range(0, n, size):
        yield _slice(X, start, start + size) if rows is None else take_rows(X, rows[start : start + size])


def take_rows(X: Any, rows: NDArray[np.int64]) -> Any:
    """The rows at these positions (never index labels), in this order."""
    if isinstance(X, list | tuple):
        return [X[i] for i in rows]
    rows = np.ascontiguousarray(rows)  # torch takes no reversed ones
    return _as_chunk(X.iloc[rows] if hasattr(X, "iloc") else X[rows])


def column_position(X: Any, column: Any, name: str) -> int:
    """Position of a column given by position, negative from the end, or in a DataFrame by its name."""
    n_columns = count_columns(X)
    if n_columns is None or getattr(X, "ndim", 2) != 2:
        raise no_columns_error(name, X)
    if is_integer(column):
        return check_column_position(name, column, n_columns)
    if not hasattr(X, "iloc"):
        raise column_by_name_error(name, column, X)
    return check_column_name(name, column, list(X.columns))


def take_column(X: Any, position: int) -> NDArray[Any]:
    """The values of one column."""
    if isinstance(X, list | tuple):
        return np.array([row[position] for row in X])
    if sparse.issparse(X):
        return X[:, [position]].toarray()[:, 0]
    return as_array(X.iloc[:, position] if hasattr(X, "iloc") else X[:, position])


def set_column(X: Any, position: int, value: int) -> Any:
    """The rows with one value in a column, of the type that the column has: a copy."""
    if isinstance(X, list | tuple):
        return [[*row[:position], value, *row[position + 1 :]] for row in X]
    if sparse.issparse(X):
        return _set_sparse_column(X, position, value)
    if hasattr(X, "iloc"):
        X, column = X.copy(), X.iloc[:, position]
        same = type(column)(np.full(len(column), value), index=column.index).astype(column.dtype)
        X.isetitem(position, same)
        return X
    X = X.clone() if hasattr(X, "clone") else np.array(X)
    X[:, position] = value
    return X


def _set_sparse_column(X: Any, position: int, value: int) -> Any:
    kept = np.ones(X.shape[1], dtype=X.dtype)
    kept[position] = 0
    rows = np.arange(X.shape[0])
    column = (np.full(len(rows), value, dtype=X.dtype), (rows, np.full(len(rows), position)))
    return (X @ sparse.diags(kept) + sparse.coo_matrix(column, shape=X.shape)).tocsr()


def drop_column(X: Any, position: int) -> Any:
    """The rows without a column: a copy."""
    if isinstance(X, list | tuple):
        return [[*row[:position], *row[position + 1 :]] for row in X]
    others = [i for i in range(count_columns(X) or 0) if i != position]
    return X.iloc[:, others] if hasattr(X, "iloc") else X[:, others]


def _slice(X: Any, start: int, stop: int) -> Any:
    return _as_chunk(X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop])


def _as_chunk(chunk: Any) -> Any:
    return chunk.compute() if _is_dask(chunk) else chunk


def _is_dask(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] in {"dask", "dask_expr"}


def _bytes_per_row(X: Any) -> float | None:
    """What a row takes; None where it is texts or objects alone: names of files, say, of any size once they are read.

    A text beside numbers is a column of a table, and counts like one of them.
    """
    if sparse.issparse(X):
        return float(X.data.nbytes + X.indices.nbytes) / max(1, X.shape[0])
    if isinstance(X, Mapping):  # arrays by name, as in a SliceDict of skorch
        return _sum_of([_bytes_per_row(values) for values in X.values()])
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype == object):
        return _bytes_of_value(X[0]) if len(X) else 8.0
    if hasattr(X, "dtype") and hasattr(X, "shape"):
        size = _bytes_of_type(X.dtype)
        return None if size is None else float(np.prod(X.shape[1:])) * size
    if hasattr(X, "dtypes"):
        return _sum_of([_bytes_of_type(dtype) for dtype in X.dtypes])
    return 8.0 * (count_columns(X) or 1)


def _bytes_of_type(dtype: Any) -> float | None:
    """What a number takes, or a category; None for what may be of any length."""
    is_open = getattr(dtype, "kind", "f") in {"O", "S", "U", "T"} and str(dtype) != "category"
    return None if is_open else float(getattr(dtype, "itemsize", 8))


def _bytes_of_value(value: Any) -> float | None:
    """What a row of a list takes, or a part of one."""
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        return _sum_of([_bytes_of_value(part) for part in value])
    if hasattr(value, "dtype"):
        size = _bytes_of_type(value.dtype)
        return None if size is None else float(np.prod(value.shape)) * size
    return 8.0 if is_number(value) or isinstance(value, bool) else None


def _sum_of(sizes: Sequence[float | None]) -> float | None:
    known = [size for size in sizes if size is not None]
    return sum(known) + 8.0 * (len(sizes) - len(known)) if known else None


def no_columns_error(name: str, X: Any) -> ValueError:
    return ValueError(
        f"`{name}` is a column, and the rows are not a table with columns: they are a {type(X).__name__}. "
        "Give an array of two axes or a DataFrame."
    )


def check_column_position(name: str, position: int, n_columns: int) -> int:
    if not -n_columns <= position < n_columns:
        raise ValueError(
            f"`{name}` must be the position of a column, from 0 to {n_columns - 1}, or negative to count from the "
            f"end. Got {position}."
        )
    return int(position) % n_columns


def column_by_name_error(name: str, column: Any, X: Any) -> TypeError:
    return TypeError(
        f"`{name}` must be the position of a column, an integer, where rows have no names of columns: they are a "
        f"{type(X).__name__}. Got {column!r}. Names need a DataFrame."
    )


def check_column_name(name: str, column: Any, columns: list[Any]) -> int:
    """The position of a name that is there once."""
    positions = [i for i, known in enumerate(columns) if known == column]
    if len(positions) != 1:
        shown = ", ".join(map(repr, columns[:20])) + (", ..." if len(columns) > 20 else "")
        raise ValueError(
            f"`{name}` must be one of the columns {shown}, or a position. Got {column!r}, of which there are "
            f"{len(positions)}."
        )
    return positions[0]


def dask_frame_error() -> TypeError:
    return TypeError(
        "`X_pool` must not be a dask DataFrame, whose rows cannot be addressed by position. Give its "
        "`.to_dask_array(lengths=True)`, or `.compute()` it."
    )
