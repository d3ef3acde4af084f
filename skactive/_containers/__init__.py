"""Rows of a pool, whatever holds it: the only file that knows containers.

numpy arrays of any number of axes, memory maps, torch tensors, scipy sparse arrays, DataFrames, lists and dask arrays.
Each kind of container is a class below, and one entry of `KINDS`: what it does not say for itself, it does as an array
does. A chunk is the container's own kind of slice (a view where it can be); chunks of dask arrays are numpy arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import get_config

from .._checks import as_array, is_integer, is_number

_MAX_CHUNK_BYTES = 64 * 2**20

_MOST_UNKNOWN = 2048
"""Rows of a chunk where their size cannot be told: a name may become an image, a text a long vector."""

Indices = NDArray[np.int64]


class Arrays:
    """Whatever is indexed by rows, as arrays, tensors and memory maps are. Other kinds say what is different."""

    def holds(self, X: Any) -> bool:
        """Whether X is a container of this kind."""
        return hasattr(X, "shape")

    def prepare(self, X: Any, name: str) -> Any:
        """The container in a form whose rows can be sliced; ``name`` is the parameter that it was given for."""
        return X

    def count_rows(self, X: Any) -> int:
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)

    def count_columns(self, X: Any) -> int | None:
        """Length of the second axis; None where there is none."""
        shape: tuple[Any, ...] = getattr(X, "shape", ())
        return int(shape[1]) if len(shape) > 1 else None

    def names(self, X: Any) -> list[Any] | None:
        """Names of the columns, where columns have names."""
        return None

    def index(self, X: Any) -> Any:
        """The pandas index that names the rows, where rows have names."""
        return None

    def slice(self, X: Any, start: int, stop: int) -> Any:
        return X[start:stop]

    def take(self, X: Any, rows: Indices) -> Any:
        return X[rows]

    def keys(self, X: Any) -> list[Any]:
        """What each row holds, in a form that is equal for equal rows of one container and type."""
        return [np.asarray(row).tobytes() for row in as_array(X)] if hasattr(X, "dtype") else [repr(row) for row in X]

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return as_array(X[:, position])

    def with_column(self, X: Any, position: int, value: int) -> Any:
        """A copy with one value in a column, of the type that the column has."""
        X = X.clone() if hasattr(X, "clone") else np.array(X)
        X[:, position] = value
        return X

    def without_column(self, X: Any, position: int) -> Any:
        return X[:, [i for i in range(X.shape[1]) if i != position]]

    def bytes_per_row(self, X: Any) -> float | None:
        """What a row takes; None where it is texts or objects alone: names of files, say, of any size once read."""
        if isinstance(X, Mapping):  # arrays by name, as in a SliceDict of skorch
            return _sum_of([bytes_per_row(values) for values in X.values()])
        if isinstance(X, np.ndarray) and X.dtype.kind == "O":
            return _bytes_of_value(X[0]) if len(X) else 8.0
        if hasattr(X, "dtype") and hasattr(X, "shape"):
            size = _bytes_of_type(X.dtype)
            return None if size is None else float(np.prod(X.shape[1:])) * size
        return 8.0 * (self.count_columns(X) or 1)


class Lists(Arrays):
    """Lists and tuples of rows: numbers, texts, or any objects."""

    def holds(self, X: Any) -> bool:
        return isinstance(X, list | tuple)

    def count_columns(self, X: Any) -> int | None:
        return len(X[0]) if len(X) and isinstance(X[0], list | tuple | np.ndarray) else None

    def take(self, X: Any, rows: Indices) -> Any:
        return [X[i] for i in rows]

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return np.array([row[position] for row in X])

    def with_column(self, X: Any, position: int, value: int) -> Any:
        return [[*row[:position], value, *row[position + 1 :]] for row in X]

    def without_column(self, X: Any, position: int) -> Any:
        return [[*row[:position], *row[position + 1 :]] for row in X]

    def bytes_per_row(self, X: Any) -> float | None:
        return _bytes_of_value(X[0]) if len(X) else 8.0


class Sparse(Arrays):
    """Sparse arrays and matrices of scipy; those without fast rows are converted."""

    def holds(self, X: Any) -> bool:
        return sparse.issparse(X)

    def prepare(self, X: Any, name: str) -> Any:
        return X if X.format == "csr" else X.tocsr()

    def keys(self, X: Any) -> list[Any]:
        X = X.tocsr()
        return [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in pairwise(X.indptr)]

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return X[:, [position]].toarray()[:, 0]

    def with_column(self, X: Any, position: int, value: int) -> Any:
        kept = np.ones(X.shape[1], dtype=X.dtype)
        kept[position] = 0
        rows = np.arange(X.shape[0])
        column = (np.full(len(rows), value, dtype=X.dtype), (rows, np.full(len(rows), position)))
        return (X @ sparse.diags(kept) + sparse.coo_matrix(column, shape=X.shape)).tocsr()

    def bytes_per_row(self, X: Any) -> float | None:
        return float(X.data.nbytes + X.indices.nbytes) / max(1, X.shape[0])


class Frames(Arrays):
    """DataFrames, and Series, whose rows are addressed by ``iloc``: by position, never by label."""

    def holds(self, X: Any) -> bool:
        return hasattr(X, "iloc") and not Dask().holds(X)

    def names(self, X: Any) -> list[Any] | None:
        return list(X.columns) if hasattr(X, "columns") else None

    def index(self, X: Any) -> Any:
        return getattr(X, "index", None)

    def slice(self, X: Any, start: int, stop: int) -> Any:
        return X.iloc[start:stop]

    def take(self, X: Any, rows: Indices) -> Any:
        return X.iloc[rows]

    def keys(self, X: Any) -> list[Any]:
        rows = X.itertuples(index=False, name=None) if hasattr(X, "itertuples") else X
        return [repr(row) for row in rows]

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return as_array(X.iloc[:, position])

    def with_column(self, X: Any, position: int, value: int) -> Any:
        X, column = X.copy(), X.iloc[:, position]
        X.isetitem(position, type(column)(np.full(len(column), value), index=column.index).astype(column.dtype))
        return X

    def without_column(self, X: Any, position: int) -> Any:
        return X.iloc[:, [i for i in range(X.shape[1]) if i != position]]

    def bytes_per_row(self, X: Any) -> float | None:
        if not hasattr(X, "columns"):
            return _bytes_of_type(X.dtype)
        return _sum_of([_bytes_of_type(dtype) for dtype in X.dtypes])


class Dask(Arrays):
    """dask arrays; each chunk is computed, and is a numpy array."""

    def holds(self, X: Any) -> bool:
        return type(X).__module__.partition(".")[0] in {"dask", "dask_expr"}

    def prepare(self, X: Any, name: str) -> Any:
        if hasattr(X, "iloc"):
            raise TypeError(
                f"`{name}` must not be a dask DataFrame, whose rows cannot be addressed by position. Give its "
                "`.to_dask_array(lengths=True)`, or `.compute()` it."
            )
        return X.compute_chunk_sizes() if np.isnan(X.shape[0]) else X

    def slice(self, X: Any, start: int, stop: int) -> Any:
        return X[start:stop].compute()

    def take(self, X: Any, rows: Indices) -> Any:
        return X[rows].compute()


class Others(Arrays):
    """Whatever else has a length and is indexed by rows. What has no rows is refused."""

    def holds(self, X: Any) -> bool:
        return True

    def prepare(self, X: Any, name: str) -> Any:
        if isinstance(X, Mapping):
            raise TypeError(
                f"`{name}` must hold rows, and a {type(X).__name__} holds columns by name. Wrap it in "
                "skorch.helper.SliceDict for a skorch net, or in a pandas.DataFrame."
            )
        if any(kind.__module__.startswith("torch.utils.data") for kind in type(X).__mro__):
            raise TypeError(
                f"`{name}` must hold rows in one array, tensor or list. Got a {type(X).__name__} of torch. Give what "
                "it reads its rows from; a step of a Pipeline, or the `dataset` of a skorch net, can do the reading."
            )
        if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
            raise TypeError(
                f"`{name}` must hold rows: an array, a DataFrame, a sparse array, a list. "
                f"Got a {type(X).__name__} instead."
            )
        return X


KINDS: list[Arrays] = [Lists(), Sparse(), Dask(), Frames(), Arrays(), Others()]
"""Kinds of containers. The first one that holds what is given counts."""


def kind_of(X: Any) -> Arrays:
    return next(kind for kind in KINDS if kind.holds(X))


def prepare_pool(X: Any, name: str = "X_pool") -> Any:
    """The pool in a form whose rows can be sliced; only sparse formats without fast rows are converted.

    What has no rows to choose from (None, a text, a generator) is a ``TypeError``.
    """
    return kind_of(X).prepare(X, name)


def count_rows(X: Any) -> int:
    """Number of rows, also of sparse arrays, which have no length."""
    return kind_of(X).count_rows(X)


def count_columns(X: Any) -> int | None:
    """Length of the second axis; None where there is none, as in a list of texts."""
    return kind_of(X).count_columns(X)


def layout(X: Any) -> tuple[Any, ...]:
    """What rows of one pool have in common: container, columns and further axes."""
    names = kind_of(X).names(X)
    return type(X), count_columns(X) if names is None else names, tuple(getattr(X, "shape", ())[2:])


def row_keys(X: Any) -> list[Any]:
    """What each row holds, in a form that is equal for equal rows of one container and type."""
    return kind_of(X).keys(X)


# --- values that are given one a row ----------------------------------------------------------------


def aligned(values: Any, X: Any, name: str, rows: Indices | None = None) -> Any:
    """Values, one for each row, in the order of the rows: by index where both have one, else by position.

    ``name`` is the parameter that the values were given for; ``rows`` are the positions in X that they belong to, all
    of them by default. Whether there is one value for each row is for the caller to check.

    Raises
    ------
    ValueError
        If values and rows have an index each, and the one cannot be put into the order of the other.
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
    same_depth = theirs.nlevels == ours.nlevels
    got = "entries that occur twice, in another order"
    if theirs.is_unique and ours.is_unique:
        order = theirs.get_indexer(ours) if same_depth else np.full(len(ours), -1)
        if (order >= 0).all():
            return order
        got = f"none for {int((order < 0).sum())} of {len(ours)} rows, such as {ours[[np.argmin(order)]].tolist()[0]!r}"
    raise ValueError(
        f"`{name}` must have the index of its rows, or no index: got {got}; give `.to_numpy()` of what is in the order "
        "of the rows already."
    )


# --- chunks -----------------------------------------------------------------------------------------


def rows_per_chunk(X: Any, n_values: int, most_bytes: int = _MAX_CHUNK_BYTES) -> int:
    """Rows that fit scikit-learn's `working_memory`, ``most_bytes`` at most; of texts and objects, 2,048 at most.

    ``n_values`` is how many float64 a row takes once drawn: n_draws * n_classes, say.
    """
    limit = min(get_config()["working_memory"] * 2**20, most_bytes)
    of_row = bytes_per_row(X)
    if of_row is None:
        return max(1, min(int(limit // (8 * n_values + 8)), _MOST_UNKNOWN))
    return max(1, int(limit // (8 * n_values + of_row)))


def whole_blocks(size: int, block: int | None) -> int:
    """A number of rows, rounded up to a multiple of ``block``, if there is one."""
    return size if block is None else -(-size // block) * block


def iter_chunks(X: Any, rows: Indices | None, size: int) -> Iterator[Any]:
    """Chunks of ``size`` rows, in order: of all rows, or of those at the positions ``rows``."""
    kind = kind_of(X)
    n = kind.count_rows(X) if rows is None else len(rows)
    for start in range(0, n, size):
        yield kind.slice(X, start, start + size) if rows is None else take_rows(X, rows[start : start + size])


def take_rows(X: Any, rows: Indices) -> Any:
    """The rows at these positions (never index labels), in this order."""
    return kind_of(X).take(X, np.ascontiguousarray(rows))  # torch takes no reversed ones


# --- columns ----------------------------------------------------------------------------------------


def column_position(X: Any, column: Any, name: str) -> int:
    """Position of a column given by position, negative from the end, or in a DataFrame by its name."""
    n_columns, names = count_columns(X), kind_of(X).names(X)
    if n_columns is None or getattr(X, "ndim", 2) != 2:
        raise ValueError(
            f"`{name}` is a column, and the rows are not a table with columns: they are a {type(X).__name__}. "
            "Give an array of two axes or a DataFrame."
        )
    if is_integer(column):
        if not -n_columns <= column < n_columns:
            raise ValueError(
                f"`{name}` must be the position of a column, from 0 to {n_columns - 1}, or negative to count from the "
                f"end. Got {column}."
            )
        return int(column) % n_columns
    if names is None:
        raise TypeError(
            f"`{name}` must be the position of a column, an integer, where columns have no names: the rows are a "
            f"{type(X).__name__}. Got {column!r}. Names need a DataFrame."
        )
    return _position_of_name(name, column, names)


def _position_of_name(name: str, column: Any, columns: list[Any]) -> int:
    positions = [i for i, known in enumerate(columns) if known == column]
    if len(positions) != 1:
        shown = ", ".join(map(repr, columns[:20])) + (", ..." if len(columns) > 20 else "")
        raise ValueError(
            f"`{name}` must be one of the columns {shown}, or a position. Got {column!r}, of which there are "
            f"{len(positions)}."
        )
    return positions[0]


def take_column(X: Any, position: int) -> NDArray[Any]:
    """The values of one column."""
    return kind_of(X).column(X, position)


def set_column(X: Any, position: int, value: int) -> Any:
    """The rows with one value in a column, of the type that the column has: a copy."""
    return kind_of(X).with_column(X, position, value)


def drop_column(X: Any, position: int) -> Any:
    """The rows without a column: a copy."""
    return kind_of(X).without_column(X, position)


# --- bytes ------------------------------------------------------------------------------------------


def bytes_per_row(X: Any) -> float | None:
    """What a row takes; None where it is texts or objects alone.

    A text beside numbers is a column of a table, and counts like one of them.
    """
    return kind_of(X).bytes_per_row(X)


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
