"""What an experiment is made of, as plain JSON: the same in every process, different where results may differ."""

from __future__ import annotations

import copyreg
import functools
import hashlib
import json
import platform
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from .. import __version__
from ._code import class_parts, code_of, function_parts, is_own, name_of

_PLAIN = (bool, int, float, str, type(None))
_MOST_LEVELS = 60
_MOST_CHARACTERS = 200


def versions() -> dict[str, str]:
    """Versions of what computes the numbers."""
    names = ("joblib", "modAL-python", "numpy", "scikit-learn", "scipy", "skorch", "torch")
    return {"python": platform.python_version(), "skactive": __version__} | {
        name: metadata.version(name) for name in names
    }


def digest(description: Any) -> str:
    """A short text for plain JSON: equal for equal descriptions."""
    return hashlib.blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=16).hexdigest()


def hash_data(X: Any) -> str:
    """A checksum of the values and types in an array-like, whatever its memory looks like."""
    if hasattr(X, "iloc"):
        return _hash_table(X)
    if sparse.issparse(X):
        X = X.tocsr(copy=True)
        X.sum_duplicates()  # which sorts the columns of a row as well
        return digest([X.shape, hash_data(X.data), *(hash_data(a.astype(np.int64)) for a in (X.indices, X.indptr))])
    if np.ma.isMaskedArray(X):
        return digest([hash_data(X.data), hash_data(np.ma.getmaskarray(X))])
    if not hasattr(X, "__array__"):
        return digest(describe(X))
    X = np.asarray(_on_the_cpu(X))
    kind = repr(X.dtype), X.shape
    if X.dtype.hasobject:
        return digest([*kind, describe(X.ravel().tolist())])
    content: Any = np.ascontiguousarray(X).reshape(-1).view(np.uint8) if X.size else b""
    return digest([*kind, hashlib.blake2b(content, digest_size=16).hexdigest()])


def _hash_table(X: Any) -> str:
    columns = [X] if X.ndim == 1 else [X.iloc[:, i] for i in range(X.shape[1])]
    described = [[str(c.name), *_dtype(c.dtype), hash_data(c.to_numpy())] for c in columns]
    return digest([X.ndim, described, hash_data(X.index.to_numpy())])


def _dtype(dtype: Any) -> list[Any]:
    """With categories in their order, which decides the codes that a model may see."""
    known = getattr(dtype, "categories", None)
    return [str(dtype)] if known is None else ["category", hash_data(known.to_numpy()), bool(dtype.ordered)]


def _on_the_cpu(X: Any) -> Any:
    if not hasattr(X, "detach"):
        return X
    X = X.detach().cpu()
    return X.float() if str(X.dtype) == "torch.bfloat16" else X


def describe(value: Any, *, classes: bool = True) -> Any:
    """Plain JSON that tells two values apart.

    Estimators, queries among them, are their type and parameters, without random states, which the experiment sets;
    but inside of other objects, and frozen, they are what they have learned, too. Functions are their code, defaults,
    closure, attributes and, if they are the user's own, the globals that they name. Classes of the user's own are what
    their bodies hold, unless ``classes`` is False. torch modules are their weights, parts and public attributes. Any
    other object is what ``pickle`` would write of it. One that cannot be pickled is its type, its ``repr`` without
    addresses and its plain attributes: what else it holds is not seen, nor is what lies deeper than 60 levels.
    """
    return _Describer(classes)(value)


class _Describer:
    """Describes what a value is made of, however its parts refer to each other.

    A description depends on nothing but the value: a part that is met twice is described as two equal ones are.
    """

    def __init__(self, classes: bool) -> None:
        self._classes = classes
        self._open: dict[int, int] = {}  # level of each value that is being described
        self._known: dict[tuple[int, bool], tuple[Any, Any]] = {}  # with values, so that no other gets their id
        self._whole = False  # inside of an object that no clone is made of
        self._lowest = sys.maxsize  # the outermost level that the current description refers back to

    def __call__(self, value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return "float('nan')" if value != value else value  # NaN is equal to nothing, itself included
        key, level = id(value), len(self._open)
        if (key, self._whole) in self._known:
            return self._known[key, self._whole][1]
        if key in self._open:
            self._lowest = min(self._lowest, self._open[key])
            return f"{name_of(type(value))} that this is part of"
        if level > _MOST_LEVELS:
            return f"{name_of(type(value))} at level {level}"
        return self._described(value, key, level)

    def _described(self, value: Any, key: int, level: int) -> Any:
        outer, whole = self._lowest, self._whole
        self._lowest = sys.maxsize
        self._open[key] = level
        try:
            description = self._describe(value)
        finally:
            del self._open[key]
            inner, self._lowest, self._whole = self._lowest, outer, whole
        if inner < level:
            self._lowest = min(outer, inner)
        else:
            self._known[key, whole] = value, description
        return description

    def _describe(self, value: Any) -> Any:
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, np.generic):
            return self(value.item()) if isinstance(value.item(), _PLAIN) else repr(value)
        if isinstance(value, bytes | bytearray):
            return f"bytes {hashlib.blake2b(value, digest_size=16).hexdigest()}"
        if isinstance(value, Mapping):
            return {_key(key, self(key)): self(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return self._items(value)
        if isinstance(value, set | frozenset):
            return sorted(map(self, value), key=repr)
        if hasattr(value, "__array__") or sparse.issparse(value):
            return f"{name_of(type(value))} {hash_data(value)}"
        return self._describe_object(value)

    def _items(self, items: Any) -> list[Any]:
        kinds = set(map(type, items))
        if kinds <= {bool, int, str, type(None)}:
            return list(items)
        return list(map(self, items))

    def _class(self, cls: type) -> str:
        if not self._classes or not is_own(cls.__module__):
            return name_of(cls)
        return f"{name_of(cls)} {digest(self(class_parts(cls)))}"

    def _describe_object(self, value: Any) -> Any:
        if hasattr(value, "get_params") and not self._whole and not _keeps_its_state(value):
            params = value.get_params(deep=False)
            return {"class": self(type(value))} | {k: self(v) for k, v in params.items() if k != "random_state"}
        self._whole = True
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, FunctionType):
            return {"function": name_of(value), "code": digest(self(code_of(value)))} | self._parts(
                function_parts(value)
            )
        if isinstance(value, functools.partial):
            return [self(part) for part in (value.func, value.args, value.keywords)]
        owner = getattr(value, "__self__", None) if isinstance(value, MethodType | BuiltinFunctionType) else None
        if owner is not None and not isinstance(owner, ModuleType):
            return {"method": self._part(getattr(value, "__func__", value.__name__)), "self": self(owner)}
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].nn.Module):
            return {"class": self(type(value))} | self._parts(_module_parts(value))
        return self._pickled(value)

    def _pickled(self, value: Any) -> Any:
        """What ``pickle`` would write."""
        try:
            made = value.__reduce_ex__(4)
        except Exception:  # whatever a class of another's own may raise
            plain = {k: v for k, v in getattr(value, "__dict__", {}).items() if isinstance(v, _PLAIN)}
            return {"class": self(type(value)), "(repr)": _without_addresses(repr(value))} | self._parts(plain)
        if isinstance(made, str):  # found under this name
            wrapped = getattr(value, "__wrapped__", None)
            return name_of(value) if wrapped is None else {"function": name_of(value), "wrapped": self(wrapped)}
        function, args, state, items, pairs = (*made, None, None, None)[:5]
        how = [args[1:]] if function is copyreg.__newobj__ else [function, args]  # type: ignore[attr-defined]
        parts = {
            "(made)": how if any(how) else None,
            "(items)": items and list(items),
            "(pairs)": pairs and list(pairs),
        }
        state = state if isinstance(state, dict) else {"(state)": state}
        shown = {name: part for name, part in {**parts, **state}.items() if part is not None or name in state}
        return {"class": self(type(value))} | self._parts(shown)

    def _parts(self, parts: Mapping[Any, Any]) -> dict[str, Any]:
        return {name if isinstance(name, str) else str(self(name)): self._part(part) for name, part in parts.items()}

    def _part(self, part: Any) -> Any:
        """A part of an object or a function; a checksum of what is long."""
        description = self(part)
        if isinstance(description, str | int | float | None) or len(json.dumps(description)) <= _MOST_CHARACTERS:
            return description
        return f"{name_of(part if isinstance(part, FunctionType) else type(part))} {digest(description)}"


def _keeps_its_state(estimator: Any) -> bool:
    """Whether clones of an estimator hold what it learned, as those of FrozenEstimator do."""
    clone = getattr(type(estimator), "__sklearn_clone__", None)
    return clone not in (None, BaseEstimator.__sklearn_clone__)


def _module_parts(module: Any) -> dict[str, Any]:
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    weights = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
    return public | weights | dict(module.named_children())


def _key(key: Any, description: Any) -> str:
    """The key of a dict in JSON, where 1 and "1" would be one."""
    return key if isinstance(key, str) else f"({type(key).__name__}) {description}"


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x\w+", "", text)


def first_difference(before: Any, now: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """Where two descriptions differ first, and what stands there; None if they are equal."""
    if digest(before) == digest(now):  # as JSON, in which 1, 1.0 and True are three values
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
