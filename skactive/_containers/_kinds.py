"""The kinds of containers. What a kind does not say for itself, it does as an array does."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._checks import as_array
from ._joining import check_columns, different_error, join_arrays, join_sparse, stack_frames
from ._registry import kind_of
from ._sizes import bytes_of_polars, bytes_of_type, bytes_of_value, sum_of
from ._values import are_exact, key_of, keys_of_table

Indices = NDArray[np.int64]


class Arrays:
    """Whatever is indexed by rows, as arrays, tensors and memory maps are. Other kinds say what is different."""

    def holds(self, X: Any) -> bool:
        """Whether X is a container of this kind."""
        return hasattr(X, "shape") and hasattr(X, "__getitem__") and not only_looks_like_rows(X)

    def prepare(self, X: Any, name: str) -> Any:
        """The container in a form whose rows can be sliced; ``name`` is the parameter that it was given for."""
        if getattr(X, "shape", None) == ():
            raise no_rows_error(X, name)
        return X.detach() if getattr(X, "requires_grad", False) else X

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

    def chunks(self, X: Any, size: int) -> Iterator[Any]:
        """All rows in order, ``size`` at a time."""
        return (self.slice(X, start, start + size) for start in range(0, self.count_rows(X), size))

    def take(self, X: Any, rows: Indices) -> Any:
        return X[rows]

    def stack(self, parts: list[Any]) -> Any:
        """Some blocks of one pool, one below the other."""
        return sys.modules["torch"].cat(parts) if hasattr(parts[0], "detach") else np.concatenate(parts)

    def keys(self, X: Any) -> list[Any]:
        """What each row holds, in a form that is equal for equal rows: of any container and any type of numbers."""
        rows = as_array(X) if hasattr(X, "dtype") else X
        is_table = getattr(getattr(rows, "dtype", None), "kind", "") in {"b", "i", "u", "f"}
        return keys_of_table(rows) if is_table else [key_of(row) for row in rows]

    def join(self, X: Any, more: Any) -> Any:
        """These rows and, below them, more of the same kind."""
        if hasattr(X, "detach"):
            if not hasattr(more, "detach"):
                raise different_error(X, more)
            return sys.modules["torch"].cat([X, more])
        return join_arrays(X, more)

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
        if isinstance(X, np.ndarray) and X.dtype.kind == "O":
            return bytes_of_value(X[0]) if len(X) else 8.0
        if hasattr(X, "dtype") and hasattr(X, "shape"):
            size = bytes_of_type(X.dtype)
            return None if size is None else float(np.prod(X.shape[1:])) * size
        return 8.0 * (self.count_columns(X) or 1)


class Dicts(Arrays):
    """Arrays by name whose rows belong together: a SliceDict of skorch, which other mappings become."""

    def holds(self, X: Any) -> bool:
        return isinstance(X, Mapping) and all(_is_array(values) for values in X.values())

    def prepare(self, X: Any, name: str) -> Any:
        if hasattr(X, "shape"):
            return X
        lengths = {key: int(values.shape[0]) for key, values in X.items()}
        if len(set(lengths.values())) != 1 or not all(isinstance(key, str) for key in X):
            raise ValueError(
                f"`{name}` must hold arrays by name that have one first axis, the rows. Got lengths {lengths}."
            )
        from skorch.helper import SliceDict  # takes a moment, and who has arrays does not need it

        return SliceDict(**X)

    def count_rows(self, X: Any) -> int:
        return int(next(iter(X.values())).shape[0])

    def stack(self, parts: list[Any]) -> Any:
        columns = {name: [part[name] for part in parts] for name in parts[0]}
        return type(parts[0])(**{name: kind_of(some[0]).stack(some) for name, some in columns.items()})

    def keys(self, X: Any) -> list[Any]:
        return list(zip(*(kind_of(values).keys(values) for values in X.values()), strict=True))

    def join(self, X: Any, more: Any) -> Any:
        if not self.holds(more) or X.keys() != more.keys():
            raise different_error(X, more)
        return type(X)(**{name: kind_of(values).join(values, more[name]) for name, values in X.items()})

    def bytes_per_row(self, X: Any) -> float | None:
        return sum_of([kind_of(values).bytes_per_row(values) for values in X.values()])


class Lists(Arrays):
    """Lists and tuples of rows: numbers, texts, or any objects. Some rows of either are a list."""

    def holds(self, X: Any) -> bool:
        return isinstance(X, list | tuple)

    def prepare(self, X: Any, name: str) -> Any:
        return X

    def count_columns(self, X: Any) -> int | None:
        return len(X[0]) if len(X) and isinstance(X[0], list | tuple | np.ndarray) else None

    def take(self, X: Any, rows: Indices) -> Any:
        return [X[i] for i in rows]

    def stack(self, parts: list[Any]) -> Any:
        return [row for part in parts for row in part]

    def join(self, X: Any, more: Any) -> Any:
        if isinstance(kind_of(more), Frames | Polars | Dicts) and getattr(more, "ndim", len(more.shape)) != 1:
            raise different_error(X, more)
        return [*X, *more]

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return np.array([row[position] for row in X])

    def with_column(self, X: Any, position: int, value: int) -> Any:
        return [[*row[:position], value, *row[position + 1 :]] for row in X]

    def without_column(self, X: Any, position: int) -> Any:
        return [[*row[:position], *row[position + 1 :]] for row in X]

    def bytes_per_row(self, X: Any) -> float | None:
        return bytes_of_value(X[0]) if len(X) else 8.0


class Sparse(Arrays):
    """Sparse arrays and matrices of scipy; those without fast rows are converted."""

    def holds(self, X: Any) -> bool:
        return sparse.issparse(X)

    def prepare(self, X: Any, name: str) -> Any:
        return X if X.format == "csr" else X.tocsr()

    def stack(self, parts: list[Any]) -> Any:
        return sparse.vstack(parts, format="csr")

    def keys(self, X: Any) -> list[Any]:
        return keys_of_table(X.tocsr())

    def join(self, X: Any, more: Any) -> Any:
        return join_sparse(X, more)

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
        return hasattr(X, "iloc") and not only_looks_like_rows(X)

    def names(self, X: Any) -> list[Any] | None:
        return list(X.columns) if hasattr(X, "columns") else None

    def index(self, X: Any) -> Any:
        return getattr(X, "index", None)

    def slice(self, X: Any, start: int, stop: int) -> Any:
        return X.iloc[start:stop]

    def take(self, X: Any, rows: Indices) -> Any:
        return X.iloc[rows]

    def stack(self, parts: list[Any]) -> Any:
        return stack_frames(parts)

    def keys(self, X: Any) -> list[Any]:
        if all(dtype.kind in "biuf" for dtype in (X.dtypes if hasattr(X, "columns") else [X.dtype])):
            values = X.to_numpy(dtype=np.float64, na_value=np.nan)
            if are_exact(values):
                return keys_of_table(values)
        rows = X.itertuples(index=False, name=None) if hasattr(X, "itertuples") else X
        return [key_of(row) for row in rows]

    def join(self, X: Any, more: Any) -> Any:
        if not self.holds(more) or hasattr(X, "columns") != hasattr(more, "columns"):
            raise different_error(X, more)
        if hasattr(X, "columns"):
            check_columns(X.columns, more.columns)
        return sys.modules["pandas"].concat([X, more])

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
            return bytes_of_type(X.dtype)
        return sum_of([bytes_of_type(dtype) for dtype in X.dtypes])


class Polars(Arrays):
    """DataFrames and Series of polars."""

    def holds(self, X: Any) -> bool:
        return library_of(X) == "polars" and hasattr(X, "shape")

    def stack(self, parts: list[Any]) -> Any:
        return sys.modules["polars"].concat(parts)

    def names(self, X: Any) -> list[Any] | None:
        return getattr(X, "columns", None)

    def keys(self, X: Any) -> list[Any]:
        return [key_of(row) for row in (X.rows() if hasattr(X, "columns") else X.to_list())]

    def join(self, X: Any, more: Any) -> Any:
        if type(X) is not type(more):
            raise different_error(X, more)
        if not hasattr(X, "columns"):
            return sys.modules["polars"].concat([X, more])
        check_columns(X.columns, more.columns)
        return sys.modules["polars"].concat([X, more.select(X.columns)], how="vertical_relaxed")

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return as_array(X.to_series(position))

    def with_column(self, X: Any, position: int, value: int) -> Any:
        column = X.to_series(position)
        values = type(column)(column.name, np.full(len(column), value)).cast(column.dtype)
        return X.clone().replace_column(position, values)

    def without_column(self, X: Any, position: int) -> Any:
        return X.drop(X.columns[position])

    def bytes_per_row(self, X: Any) -> float | None:
        return sum_of([bytes_of_polars(dtype) for dtype in (X.dtypes if hasattr(X, "columns") else [X.dtype])])


class Others(Arrays):
    """Whatever else has a length and is indexed by rows. What has no rows is refused."""

    def holds(self, X: Any) -> bool:
        return True

    def prepare(self, X: Any, name: str) -> Any:
        if isinstance(X, Mapping):
            raise TypeError(
                f"`{name}` must hold rows, and a {type(X).__name__} holds columns by name. Give a pandas.DataFrame of "
                "it, or arrays by name, of which the first axis are the rows."
            )
        if isinstance(X, type | Sequence) or not (hasattr(X, "__len__") and hasattr(X, "__getitem__")):
            raise no_rows_error(X, name)
        return X


def no_rows_error(X: Any, name: str) -> TypeError:
    got = f"a {type(X).__name__}" + (" without axes" if getattr(X, "shape", None) == () else "")
    got = f"the class {X.__name__}" if isinstance(X, type) else got
    remedy = " Make a pool of blocks of rows by `skactive.blocks`." if hasattr(X, "__next__") else ""
    return TypeError(
        f"`{name}` must hold rows: an array, a DataFrame, a Series, a sparse array, a list or a tuple. Got {got}."
        + remedy
    )


def only_looks_like_rows(X: Any) -> bool:
    return isinstance(X, type | memoryview) or library_of(X) in {"pyarrow", "dask", "dask_expr"}


def _is_array(values: Any) -> bool:
    return bool(getattr(values, "shape", ())) and hasattr(values, "dtype") and not hasattr(values, "iloc")


def library_of(X: Any) -> str:
    return type(X).__module__.partition(".")[0]
