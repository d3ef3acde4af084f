"""Kinds of containers in memory. A kind overrides only what differs from arrays."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._utils.types import Indices
from .._utils.validation import as_array, is_number

KINDS: list[Any] = []  # in the order in which they are asked; filled when `_containers` is loaded

_NUMBERS, _TEXT = "biufc", "US"
_BLOCK = 1_000  # rows whose keys are made at once


def kind_of(X: Any) -> Any:
    """The first kind that X is of."""
    return next(kind for kind in KINDS if kind.holds(X))


class Arrays:
    """Whatever is indexed by rows, as arrays, tensors and memory maps are."""

    def holds(self, X: Any) -> bool:
        is_indexed = hasattr(X, "shape") and hasattr(X, "__getitem__")
        return is_indexed and not (_only_looks_like_rows(X) or hasattr(X, "__arrow_c_stream__"))

    def prepare(self, X: Any, name: str) -> Any:
        """The container in a form whose rows can be sliced; ``name`` is the parameter that it was given for."""
        if getattr(X, "shape", None) == ():
            raise no_rows_error(X, name)
        return X.detach() if getattr(X, "requires_grad", False) else X

    def count_rows(self, X: Any) -> int:
        return int(X.shape[0]) if hasattr(X, "shape") else len(X)

    def count_columns(self, X: Any) -> int | None:
        shape: tuple[Any, ...] = getattr(X, "shape", ())
        return int(shape[1]) if len(shape) > 1 else None

    def names(self, X: Any) -> list[Any] | None:
        return None

    def index(self, X: Any) -> Any:
        """The pandas index of the rows, where they have one."""
        return None

    def slice(self, X: Any, start: int, stop: int) -> Any:
        return X[start:stop]

    def take(self, X: Any, rows: Indices) -> Any:
        if isinstance(X, np.ndarray) or hasattr(X, "detach") or sparse.issparse(X):
            return X[rows]
        distinct, places = np.unique(rows, return_inverse=True)  # h5py gives rows in rising order, each once
        return X[distinct][places]

    def stack(self, parts: list[Any]) -> Any:
        """Blocks of one pool, one below the other."""
        return sys.modules["torch"].cat(parts) if hasattr(parts[0], "detach") else np.concatenate(parts)

    def keys(self, X: Any) -> list[Any]:
        rows = as_array(X) if hasattr(X, "dtype") else X
        is_table = getattr(getattr(rows, "dtype", None), "kind", "") in {*"biuf"}
        return _keys_of_table(rows) if is_table else [_key_of(row) for row in rows]

    def join(self, X: Any, more: Any) -> Any:
        if hasattr(X, "detach") and hasattr(more, "detach"):
            return self.stack([X, more])
        rows = as_array(X)
        has_types = rows.dtype == object and isinstance(more, list | tuple)  # of its own for each value
        below = np.array(more, dtype=object) if has_types else as_array(more)
        kinds = {rows.dtype.kind, below.dtype.kind}
        if hasattr(X, "detach") or (kinds & {*_NUMBERS} and kinds & {*_TEXT}):  # numbers would become texts
            raise different_error(X, more)
        return np.concatenate([rows, below])

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return as_array(X[:, position])

    def with_column(self, X: Any, position: int, value: list[int]) -> Any:
        """A copy with one value in a column, of the type that the column has; without it for no value."""
        if not value:
            return X[:, np.arange(X.shape[1]) != position]
        X = X.clone() if hasattr(X, "clone") else np.array(X)
        X[:, position] = value[0]
        return X

    def layout(self, X: Any) -> tuple[Any, list[str | None]]:
        """Names of the columns, or the shape of a row, and of each column what it holds; None if it has no value."""
        if hasattr(X, "dtype"):
            return tuple(X.shape[1:]), [_class_of(X.dtype) if self.count_rows(X) else None]
        first = X[0] if len(X) else None
        return np.shape(first) if isinstance(first, np.ndarray) else (), [type(first).__name__ if len(X) else None]

    def bytes_per_row(self, X: Any) -> float | None:
        return _bytes_of(self.slice(X, 0, 1)) if self.count_rows(X) else 8.0


class Dicts(Arrays):
    """Arrays by name that share their first axis: a SliceDict of skorch, which other mappings become."""

    def holds(self, X: Any) -> bool:
        if not isinstance(X, Mapping):
            return False
        is_of_arrays = (getattr(v, "shape", ()) and hasattr(v, "dtype") and not hasattr(v, "iloc") for v in X.values())
        return all(is_of_arrays)

    def prepare(self, X: Any, name: str) -> Any:
        from skorch.helper import SliceDict  # takes a moment to load

        return X if hasattr(X, "shape") else SliceDict(**X)

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

    def layout(self, X: Any) -> tuple[Any, list[str | None]]:
        return [(name, *values.shape[1:]) for name, values in X.items()], [_class_of(v.dtype) for v in X.values()]

    def bytes_per_row(self, X: Any) -> float | None:
        return _sum_of([kind_of(values).bytes_per_row(values) for values in X.values()])


class Lists(Arrays):
    """Lists and tuples of rows: numbers, texts, or any objects. Some rows of either are a list."""

    def holds(self, X: Any) -> bool:
        return isinstance(X, list | tuple)

    def count_columns(self, X: Any) -> int | None:
        return len(X[0]) if len(X) and isinstance(X[0], list | tuple | np.ndarray) else None

    def take(self, X: Any, rows: Indices) -> Any:
        return [X[i] for i in rows]

    def stack(self, parts: list[Any]) -> Any:
        return [row for part in parts for row in part]

    def join(self, X: Any, more: Any) -> Any:
        if kind_of(more).names(more) is not None or isinstance(more, Mapping):
            raise different_error(X, more)  # iterating over it gives names
        return [*X, *more]

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return np.array([row[position] for row in X])

    def with_column(self, X: Any, position: int, value: list[int]) -> Any:
        return [[*row[:position], *value, *row[position + 1 :]] for row in X]


class Sparse(Arrays):
    """Sparse arrays and matrices of scipy; those without fast rows are converted."""

    def holds(self, X: Any) -> bool:
        return sparse.issparse(X)

    def prepare(self, X: Any, name: str) -> Any:
        return X if X.format == "csr" else X.tocsr()

    def stack(self, parts: list[Any]) -> Any:
        return sparse.vstack(parts, format="csr")

    def keys(self, X: Any) -> list[Any]:
        return _keys_of_table(X.tocsr())

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return X[:, [position]].toarray()[:, 0]

    def with_column(self, X: Any, position: int, value: list[int]) -> Any:
        column = sparse.csr_array(np.full((X.shape[0], len(value)), value, dtype=X.dtype))
        return type(X)(sparse.hstack([X[:, :position], column, X[:, position + 1 :]], format="csr"))

    def bytes_per_row(self, X: Any) -> float | None:
        return float(X.data.nbytes + X.indices.nbytes) / max(1, X.shape[0])


class Frames(Arrays):
    """DataFrames and Series of pandas, by ``iloc``: any labels, repeated ones as well, are allowed in both axes."""

    def holds(self, X: Any) -> bool:
        return hasattr(X, "iloc") and not _only_looks_like_rows(X)

    def names(self, X: Any) -> list[Any] | None:
        return list(X.columns) if hasattr(X, "columns") else None

    def index(self, X: Any) -> Any:
        return getattr(X, "index", None)

    def slice(self, X: Any, start: int, stop: int) -> Any:
        return X.iloc[start:stop]

    def take(self, X: Any, rows: Indices) -> Any:
        return X.iloc[rows]

    def stack(self, parts: list[Any]) -> Any:
        pandas = sys.modules["pandas"]
        for i in range(parts[0].shape[1] if hasattr(parts[0], "columns") else 0):
            columns = [part.iloc[:, i] for part in parts]
            if str(columns[0].dtype) == "category" and any(column.dtype != columns[0].dtype for column in columns):
                # `concat` turns categories that differ from block to block into objects
                union = pandas.api.types.union_categoricals(columns, ignore_order=True).categories
                parts = [part.copy(deep=False) for part in parts]
                for part, column in zip(parts, columns, strict=True):
                    part.isetitem(i, column.cat.set_categories(union))
        return pandas.concat(parts)

    def keys(self, X: Any) -> list[Any]:
        if all(dtype.kind in "biuf" for dtype in self.types(X)):
            values = X.to_numpy(dtype=np.float64, na_value=np.nan)
            if _are_exact(values):
                return _keys_of_table(values)
        return [_key_of(row) for row in (X.itertuples(index=False, name=None) if hasattr(X, "itertuples") else X)]

    def join(self, X: Any, more: Any) -> Any:
        below = with_names(more, self.names(X))
        if kind_of(more) is not self or below is None:
            raise different_error(X, more)
        return self.stack([X, below])

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return as_array(X.iloc[:, position])

    def with_column(self, X: Any, position: int, value: list[int]) -> Any:
        if not value:
            return X.iloc[:, np.arange(X.shape[1]) != position]
        X, column = X.copy(), X.iloc[:, position]
        X.isetitem(position, type(column)(value * len(column), index=column.index).astype(column.dtype))
        return X

    def types(self, X: Any) -> list[Any]:
        return list(X.dtypes) if hasattr(X, "columns") else [X.dtype]

    def layout(self, X: Any) -> tuple[Any, list[str | None]]:
        at = getattr(X, "iloc", X)
        columns = [at[:, i] for i in range(X.shape[1])] if hasattr(X, "columns") else [X]
        gaps = [c.is_null() if hasattr(c, "is_null") else c.isna() for c in columns]
        kinds = [None if gap.all() else _class_of(c.dtype) for c, gap in zip(columns, gaps, strict=True)]
        return [c.name for c in columns], kinds

    def bytes_per_row(self, X: Any) -> float | None:
        types = [(_class_of(dtype), str(dtype)) for dtype in self.types(X)]
        return _sum_of([None if kind == "texts" and name != "category" else 8.0 for kind, name in types])


class Tables(Frames):
    """Other DataFrames and Series that narwhals knows: of polars, and tables of Arrow, whose rows come as pandas's."""

    def holds(self, X: Any) -> bool:
        is_of_arrow = library_of(X) == "pyarrow" and hasattr(X, "to_pandas") and not isinstance(X, type)
        return is_of_arrow or nw.dependencies.is_into_dataframe(X) or nw.dependencies.is_into_series(X)

    def prepare(self, X: Any, name: str) -> Any:
        if library_of(X) != "pyarrow":
            return X
        if not hasattr(X, "column_names"):  # an array, of texts mostly
            return X.to_pandas()
        return X if hasattr(X, "to_batches") else sys.modules["pyarrow"].Table.from_batches([X])

    def names(self, X: Any) -> list[Any] | None:
        return getattr(_narwhal(X), "columns", None)

    def index(self, X: Any) -> Any:
        return None

    def slice(self, X: Any, start: int, stop: int) -> Any:
        return _native(_narwhal(X)[start:stop])

    def take(self, X: Any, rows: Indices) -> Any:
        return _native(_narwhal(X)[rows])

    def stack(self, parts: list[Any]) -> Any:
        if hasattr(parts[0], "columns"):
            return _native(nw.concat([_narwhal(part) for part in parts]))
        return _native(nw.concat([_narwhal(part).to_frame() for part in parts])[:, 0])

    def keys(self, X: Any) -> list[Any]:
        table = _narwhal(X)
        return [_key_of(row) for row in (table.rows() if hasattr(table, "columns") else table.to_list())]

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return _narwhal(X)[:, position].to_numpy()

    def with_column(self, X: Any, position: int, value: list[int]) -> Any:
        table = _narwhal(X)
        name = table.columns[position]
        if not value:
            return _native(table.drop(name))
        return _native(table.with_columns(nw.lit(value[0]).cast(table.schema[name]).alias(name)))

    def types(self, X: Any) -> list[Any]:
        table = _narwhal(X)
        return list(table.schema.values()) if hasattr(table, "columns") else [table.dtype]

    def layout(self, X: Any) -> tuple[Any, list[str | None]]:
        return super().layout(_narwhal(X))


class TensorSets(Arrays):
    """A TensorDataset of torch of rows, or of rows and labels, which are left out: the tensor of rows."""

    def holds(self, X: Any) -> bool:
        return is_of_torch(X, "TensorDataset")

    def prepare(self, X: Any, name: str) -> Any:
        if len(X.tensors) > 2:
            raise TypeError(
                f"`{name}` must be a TensorDataset of rows, or of rows and labels. Got one of {len(X.tensors)} tensors:"
                " give a dict of them, by the names that the net has for them."
            )
        return kind_of(X.tensors[0]).prepare(X.tensors[0], name)


class Others(Arrays):
    """Whatever else has a length and is indexed by rows. What has no rows is refused."""

    def holds(self, X: Any) -> bool:
        return True

    def prepare(self, X: Any, name: str) -> Any:
        has_rows = hasattr(X, "__len__") and hasattr(X, "__getitem__") and not hasattr(X, "__arrow_c_stream__")
        if isinstance(X, type | Sequence | Mapping) or not has_rows:
            raise no_rows_error(X, name)
        return X


def check_plain(X: Any, name: str) -> None:
    """Refuse masked entries of an array, or of arrays in a list or by name; and arrays of records."""
    fields = getattr(getattr(X, "dtype", None), "names", None)
    if fields:
        raise TypeError(
            f"`{name}` must be an array of values or a table, not a structured array with the fields {fields}. Give "
            "`pandas.DataFrame(X)`, if the model was fitted to a table, or "
            "`numpy.lib.recfunctions.structured_to_unstructured(X)`."
        )
    parts = X.values() if isinstance(X, Mapping) else X if isinstance(X, list | tuple) else [X]
    may_be = any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, parts)))  # of a million texts, few types
    if may_be and any(map(np.ma.is_masked, parts)):
        raise ValueError(
            f"`{name}` must have no masked entries, as models see the values behind a mask. Fill them "
            "(`X.filled(numpy.nan)`, for example), or leave those rows out."
        )


def no_rows_error(X: Any, name: str) -> TypeError:
    return TypeError(
        f"`{name}` must hold rows: an array, a DataFrame, a Series, a sparse array, a list or a tuple. Got a "
        f"{type(X).__name__}. Make a pool of blocks of rows by `skactive.blocks`."
    )


def different_error(X: Any, more: Any) -> TypeError:
    return TypeError(
        f"`teach` must be given rows and labels of the kind that the learner has: it has {_shown(X)}. "
        f"Got {_shown(more)}. Give them as `learner.query` returns them, or start with the same kind as the pool."
    )


def _shown(X: Any) -> str:
    kind, names = getattr(getattr(X, "dtype", None), "kind", ""), kind_of(X).names(X)
    holds = " of text" if kind in {*_TEXT} else " of numbers" if kind in {*_NUMBERS} else ""
    return f"{library_of(X)}.{type(X).__name__}{holds}".removeprefix("builtins.") + (f" with {names}" if names else "")


def with_names(X: Any, names: list[Any] | None) -> Any:
    """The rows with columns of these names, if any, in this order; None if they have others, or one twice."""
    others = kind_of(X).names(X)
    if others == names:
        return X
    if others is None or names is None or {*others} != {*names} or not len({*names}) == len(names) == len(others):
        return None
    return X.select(names) if hasattr(X, "select") else X[names]


def library_of(X: Any) -> str:
    return type(X).__module__.partition(".")[0]


def is_of_torch(X: Any, name: str) -> bool:
    """Whether X is of this class of `torch.utils.data`, without loading torch."""
    return any(kind.__module__.startswith("torch.utils.data") and kind.__name__ == name for kind in type(X).__mro__)


def _only_looks_like_rows(X: Any) -> bool:
    return isinstance(X, type | memoryview) or library_of(X) in {"pyarrow", "dask"}


def _narwhal(X: Any) -> Any:
    return nw.from_native(X, eager_only=True, allow_series=True)


def _native(table: Any) -> Any:
    """The container of a user; pandas for Arrow, in whose tables models find no columns."""
    X = table.to_native()
    return X.to_pandas() if library_of(X) == "pyarrow" else X


def _class_of(dtype: Any) -> str:
    """What values of a type of numpy, pandas, torch or narwhals are, whatever their width."""
    if hasattr(dtype, "categories") and hasattr(dtype.categories, "dtype"):  # of pandas
        dtype = dtype.categories.dtype
    if hasattr(dtype, "is_numeric"):  # of narwhals
        is_number = dtype.is_numeric() or dtype == nw.Boolean
        return "numbers" if is_number else "times" if dtype.is_temporal() else "texts"
    kind = getattr(dtype, "kind", "f")
    return "numbers" if kind in _NUMBERS else "times" if kind in "mM" else "texts"


def _bytes_of(value: Any) -> float | None:
    """What a row takes, or a part of one; None for what may be of any length once it is read."""
    dtype = getattr(value, "dtype", None)
    if isinstance(value, list | tuple) or getattr(dtype, "kind", "") == "O":
        return _sum_of([_bytes_of(part) for part in value])
    if dtype is not None:
        return None if _class_of(dtype) == "texts" else float(np.prod(value.shape)) * getattr(dtype, "itemsize", 8)
    return 8.0 if is_number(value) or isinstance(value, bool) else None


def _sum_of(sizes: Sequence[float | None]) -> float | None:
    """All together; what is open counts like a number, unless all are."""
    known = [size for size in sizes if size is not None]
    return sum(known) + 8.0 * (len(sizes) - len(known)) if known else None


# --- keys of rows: 1, 1.0, True and a float32 of 1 are one value, and so are 0.0 and -0.0, and all gaps ---


def _are_exact(values: Any) -> bool:
    """Whether float64 has these numbers exactly, if they were integers."""
    return not (np.abs(values) >= 2**53).any()  # the next integers became this one


def _keys_of_table(values: Any) -> list[Hashable]:
    """Keys of rows of numbers: an array of one axis or more, or a sparse array in rows."""
    if not sparse.issparse(values):
        values = values.reshape(len(values), int(np.prod(values.shape[1:])))
        if values.dtype.kind in "iu" and not _are_exact(values):
            return [_key_of(row) for row in values]
    return [key for start in range(0, values.shape[0], _BLOCK) for key in _digests(values[start : start + _BLOCK])]


def _key_of(row: Any) -> Hashable:
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
