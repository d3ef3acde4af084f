"""What a query remembers, as bytes that hold data only: reading them runs no code.

The first line is JSON, the rest is arrays in numpy's npy format. JSON values stand for themselves, if they are lists,
texts, booleans, None and finite numbers; anything else is an object with one key that names its kind. There are kinds
for what queries keep: other numbers, tuples, dicts, sets, arrays, random generators, and rows of pools.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ._fingerprint import hash_data

_BIT_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}
_SPARSE = {
    f"{form}_{kind}": getattr(sparse, f"{form}_{kind}") for form in ("csr", "csc") for kind in ("matrix", "array")
}


class NoPlainFormError(TypeError):
    """A value that is more than data."""


def dumps(value: Any) -> bytes:
    """A value as bytes. Raises `NoPlainFormError` for what `loads` would not give back as it was."""
    writer = _Writer()
    tree = writer.tree(value)
    return b"\n".join([json.dumps(tree, separators=(",", ":")).encode(), b"".join(writer.arrays)])


def loads(content: bytes) -> Any:
    """The value that `dumps` was given."""
    head, _, arrays = content.partition(b"\n")
    return _Reader(arrays).value(json.loads(head))


class _Writer:
    """Turns values into JSON, and collects arrays."""

    def __init__(self) -> None:
        self.arrays: list[bytes] = []
        self._end = 0

    def tree(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self.tree(item) for item in value]
        for test, name, parts in _FORMS:
            if test(value):
                return {name: self.tree(parts(value))} if name != "npy" else {name: self._array(value)}
        raise NoPlainFormError(f"{kind.__module__}.{kind.__qualname__}")

    def _array(self, array: Any) -> list[int]:
        """Where the array is, among the bytes after the first line."""
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        start, self._end = self._end, self._end + buffer.tell()
        self.arrays.append(buffer.getvalue())
        return [start, self._end]


class _Reader:
    """Turns JSON back into values."""

    def __init__(self, arrays: bytes) -> None:
        self._arrays = arrays

    def value(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self.value(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        ((name, parts),) = tree.items()
        if name == "npy":
            return np.load(io.BytesIO(self._arrays[slice(*parts)]), allow_pickle=False)
        return _MADE_OF[name](self.value(parts))


def _is_a(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _is_array(value: Any) -> bool:
    return type(value) is np.ndarray and not value.dtype.hasobject


def _is_of(library: str, name: str) -> Callable[[Any], bool]:
    """Whether a value is of this class, without loading the library."""

    def test(value: Any) -> bool:
        return library in sys.modules and type(value) is getattr(sys.modules[library], name)

    return test


# --- arrays, generators -----------------------------------------------------------------------------


def _object_array(parts: list[Any]) -> Any:
    shape, items = parts
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def _generator_state(value: Any) -> list[Any]:
    name = type(value.bit_generator).__name__
    seeds = value.bit_generator.seed_seq
    if _BIT_GENERATORS.get(name) is not type(value.bit_generator) or type(seeds) is not np.random.SeedSequence:
        raise NoPlainFormError(f"a Generator with {name}")
    return [name, value.bit_generator.state, seeds.state]


def _generator(parts: list[Any]) -> np.random.Generator:
    name, state, seeds = parts
    bits = _BIT_GENERATORS[name](np.random.SeedSequence(**seeds))
    bits.state = state
    return np.random.Generator(bits)


def _random_state(state: Any) -> np.random.RandomState:
    generator = np.random.RandomState()
    generator.set_state(state)
    return generator


def _sparse_parts(value: Any) -> list[Any]:
    return [type(value).__name__, list(value.shape), value.data, value.indices, value.indptr]


def _sparse(parts: list[Any]) -> Any:
    name, shape, data, indices, indptr = parts
    return _SPARSE[name]((data, indices, indptr), shape=tuple(shape))


def _tensor_parts(value: Any) -> Any:
    import torch

    if value.device.type != "cpu" or value.requires_grad or value.layout != torch.strided:
        raise NoPlainFormError("a tensor on another device, with a gradient or of another layout")
    return [value.numpy()] if value.dtype != torch.bfloat16 else [value.view(torch.int16).numpy(), "bfloat16"]


def _tensor(parts: list[Any]) -> Any:
    import torch

    tensor = torch.from_numpy(parts[0].copy())
    return tensor.view(torch.bfloat16) if len(parts) > 1 else tensor


# --- tables -----------------------------------------------------------------------------------------


def _column_parts(column: Any) -> list[Any]:
    """Values and type of a Series or an Index, if these say all of it."""
    import pandas

    if isinstance(column, pandas.MultiIndex):
        raise NoPlainFormError("a MultiIndex")
    if isinstance(column.dtype, pandas.CategoricalDtype):
        categories = _column_parts(column.dtype.categories)
        return [np.asarray(getattr(column, "cat", column).codes), "category", categories, bool(column.dtype.ordered)]
    values = column.to_numpy()
    if values.dtype == object:  # with None for every gap: the type says what a gap is
        values = [None if value is pandas.NA or value is pandas.NaT else value for value in values]
    return [values, str(column.dtype)]


def _column(parts: list[Any]) -> Any:
    import pandas

    values, dtype = parts[:2]
    if dtype == "category":
        return pandas.Categorical.from_codes(values, pandas.Index(_column(parts[2])), ordered=parts[3])
    return pandas.array(values, dtype=dtype) if isinstance(values, list) else pandas.Series(values).astype(dtype).array


def _series_parts(series: Any) -> list[Any]:
    parts = [_column_parts(series), _column_parts(series.index), series.name]
    return _checked(series, parts, _series)


def _series(parts: list[Any]) -> Any:
    import pandas

    return pandas.Series(_column(parts[0]), index=pandas.Index(_column(parts[1])), name=parts[2])


def _frame_parts(frame: Any) -> list[Any]:
    columns = [_column_parts(frame.iloc[:, i]) for i in range(frame.shape[1])]
    parts = [columns, _column_parts(frame.index), _column_parts(frame.columns)]
    return _checked(frame, parts, _frame)


def _frame(parts: list[Any]) -> Any:
    import pandas

    index = pandas.Index(_column(parts[1]))
    frame = pandas.DataFrame({i: _column(column) for i, column in enumerate(parts[0])}, index=index)
    frame.columns = pandas.Index(_column(parts[2]))
    return frame


def _checked(table: Any, parts: list[Any], made_of: Callable[[list[Any]], Any]) -> list[Any]:
    """The parts, if a table that is made of them holds the same."""
    try:
        if hash_data(made_of(parts)) == hash_data(table):
            return parts
    except (TypeError, ValueError) as error:
        raise NoPlainFormError(f"a {type(table).__name__} with other columns: {error}") from error
    raise NoPlainFormError(f"a {type(table).__name__} with other columns")


# --- all kinds --------------------------------------------------------------------------------------


_FORMS: list[tuple[Callable[[Any], bool], str, Callable[[Any], Any]]] = [
    (_is_a(float), "float", repr),  # NaN and infinity
    (_is_a(tuple), "tuple", list),
    (_is_a(dict), "dict", lambda value: [[key, item] for key, item in value.items()]),
    (_is_a(set), "set", list),
    (_is_a(frozenset), "frozenset", list),
    (_is_a(bytes), "bytes", lambda value: np.frombuffer(value, dtype=np.uint8)),
    (_is_array, "npy", lambda value: value),
    (lambda value: isinstance(value, np.generic) and not value.dtype.hasobject, "scalar", np.asarray),
    (_is_a(np.ndarray), "objects", lambda value: [list(value.shape), list(value.ravel())]),
    (_is_a(np.random.Generator), "generator", _generator_state),
    (_is_a(np.random.RandomState), "random_state", lambda value: value.get_state(legacy=False)),
    (_is_a(*_SPARSE.values()), "sparse", _sparse_parts),
    (_is_of("torch", "Tensor"), "tensor", _tensor_parts),
    (_is_of("pandas", "Series"), "series", _series_parts),
    (_is_of("pandas", "DataFrame"), "frame", _frame_parts),
]

_MADE_OF: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "tuple": tuple,
    "dict": dict,
    "set": set,
    "frozenset": frozenset,
    "bytes": lambda value: value.tobytes(),
    "scalar": lambda value: value[()],
    "objects": _object_array,
    "generator": _generator,
    "random_state": _random_state,
    "sparse": _sparse,
    "tensor": _tensor,
    "series": _series,
    "frame": _frame,
}
