"""What an experiment is made of, as plain JSON: the same in every process, different where results may differ."""

from __future__ import annotations

import functools
import platform
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from types import CodeType
from typing import Any

import joblib
import numpy as np
from scipy import sparse

from .. import __version__

_PLAIN = (bool, int, float, str, type(None))


def versions() -> dict[str, str]:
    """Versions of what computes the numbers."""
    names = ("joblib", "modAL-python", "numpy", "scikit-learn", "scipy", "skorch", "torch")
    return {"python": platform.python_version(), "skactive": __version__} | {
        name: metadata.version(name) for name in names
    }


def hash_data(X: Any) -> str:
    """A checksum of the values and types in an array-like, whatever its memory looks like."""
    if hasattr(X, "iloc") and getattr(X, "ndim", 2) == 2:
        columns = [X.iloc[:, i] for i in range(X.shape[1])]
        return joblib.hash([(str(column.name), str(column.dtype), hash_data(column)) for column in columns])
    if sparse.issparse(X):
        X = X.tocsr()
        return joblib.hash([X.shape, hash_data(X.data), hash_data(X.indices), hash_data(X.indptr)])
    if hasattr(X, "__array__"):
        X = np.ascontiguousarray(X)
    return joblib.hash(X, coerce_mmap=True)


def describe(value: Any) -> Any:
    """Plain JSON that tells two values apart, if they are parameters as scikit-learn knows them.

    Estimators, queries among them, are their type and parameters, without random states, which the experiment sets. An
    object that is none of these is its type, its ``repr`` and its plain attributes: what else it holds is not seen.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return repr(value) if value != value else value  # NaN is equal to nothing, itself included
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [describe(item) for item in value]
        return sorted(items, key=repr) if isinstance(value, set | frozenset) else items
    if hasattr(value, "__array__") or sparse.issparse(value):
        return f"{_name(type(value))} {hash_data(value.detach() if hasattr(value, 'detach') else value)}"
    return _describe_object(value)


def _describe_object(value: Any) -> Any:
    if isinstance(value, type):
        return _name(value)
    if hasattr(value, "__code__"):
        return f"{_name(value)} {joblib.hash(list(_code(value.__code__)))}"
    if isinstance(value, functools.partial):
        return [describe(part) for part in (value.func, value.args, value.keywords)]
    if hasattr(value, "get_params"):
        params = value.get_params(deep=False)
        return {"type": _name(type(value))} | {k: describe(v) for k, v in params.items() if k != "random_state"}
    shown = re.sub(r" at 0x\w+", "", repr(value))
    return [_name(type(value)), shown, {k: v for k, v in getattr(value, "__dict__", {}).items() if type(v) in _PLAIN}]


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _code(code: CodeType) -> Iterator[Any]:
    """What a function does, not where in its file it stands."""
    yield code.co_code, code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield describe(constant)


def first_difference(before: Any, now: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """Where two descriptions differ first, and what stands there; None if they are equal."""
    if before == now:
        return None
    before_parts, now_parts = _parts(before, path), _parts(now, path)
    if before_parts is None or now_parts is None or before_parts.keys() != now_parts.keys():
        return path, before, now
    found = (first_difference(before_parts[key], now_parts[key], key) for key in before_parts)
    return next(difference for difference in found if difference)


def _parts(value: Any, path: str) -> dict[str, Any] | None:
    if isinstance(value, dict):
        return {f"{path}.{key}".lstrip("."): item for key, item in value.items()}
    if isinstance(value, list):
        return {f"{path}[{i}]": item for i, item in enumerate(value)}
    return None
