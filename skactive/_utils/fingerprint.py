"""A checksum of a value: equal in every process for what gives equal results, different where they may differ.

joblib hashes what ``pickle`` would write, which is only the name of a function or class. Those of the user's own are
hashed by what they do instead: their compiled code and the values that it uses. Installed packages count by name.
"""

from __future__ import annotations

import dis
import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from joblib.hashing import NumpyHasher
from scipy import sparse
from sklearn.base import BaseEstimator

_INSTALLED = {*sys.stdlib_module_names, "joblib", "modAL", "numpy", "scipy", "skactive", "sklearn", "skorch", "torch"}
_FOLDERS = {"site-packages", "dist-packages"}
_READS_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME"}
_PLAIN = {bool, int, float, str, bytes, type(None)}


def digest(value: Any) -> str:
    """A checksum of data, parameters and code; an error for what cannot be pickled, such as a lock.

    Arrays, tables and tensors count by values and types; estimators by class and parameters without random states;
    functions and classes of the user's own by code, defaults, closure, attributes and the globals that they name.
    """
    try:
        return _Hasher().hash(value)
    except Exception as error:  # pickling an object may raise anything
        raise ValueError(f"its content cannot be compared with that of a later call: {error}") from error


class _Hasher(NumpyHasher):
    """Pickles into a checksum, with some objects replaced by their parts."""

    def __init__(self) -> None:
        super().__init__("sha1")
        self._seen: dict[int, tuple[int, Any]] = {}  # code by id, kept alive so that no other object gets the id
        self._is_inside = False  # an object that is pickled: fitted estimators in it count with what they learned

    def save(self, value: Any) -> None:
        outer = self._is_inside
        if type(value) not in _PLAIN:
            value = self._parts(value)
        try:
            super().save(value)
        finally:
            self._is_inside = outer

    def memoize(self, value: Any) -> None:
        if not isinstance(value, tuple):  # equal tuples are equal, whether they are one object or two
            super().memoize(value)

    def _batch_setitems(self, items: Any, *args: Any) -> None:
        # joblib's own swallows a TypeError of what cannot be pickled
        pairs = [(key if isinstance(key, str) else digest(key), item) for key, item in items]
        self.save(sorted(pairs, key=lambda pair: pair[0]))

    def _parts(self, value: Any) -> Any:
        if isinstance(value, list | tuple | dict):
            return value
        if isinstance(value, np.number | np.bool_):
            return value.item()
        if (parts := _data_parts(value)) is not None:
            return parts
        if _is_estimator(value) and not self._is_inside:
            params = value.get_params(deep=False)
            return type(value), {name: param for name, param in params.items() if name != "random_state"}
        self._is_inside = True
        if isinstance(value, FunctionType | type) and is_own(value.__module__):
            return self._code_parts(value)
        return _object_parts(value)

    def _code_parts(self, value: Any) -> Any:
        """Parts of a function or class, or its number where it comes again: functions may call each other."""
        if id(value) in self._seen:
            return "seen", self._seen[id(value)][0]
        self._seen[id(value)] = len(self._seen), value
        return _function_parts(value) if isinstance(value, FunctionType) else _class_parts(value)


def _data_parts(value: Any) -> Any:
    """Values and types of arrays, tables and tensors; None of what is none of these."""
    if isinstance(value, np.dtype):
        return "dtype", repr(value)
    if hasattr(value, "iloc"):  # what pickle writes of a frame changes with its use
        columns = [value] if value.ndim == 1 else [value.iloc[:, i] for i in range(value.shape[1])]
        return "table", value.ndim, value.index.to_numpy(), [(str(c.name), *_dtype(c), c.to_numpy()) for c in columns]
    if sparse.issparse(value):
        value = value.tocsr(copy=True)
        value.sum_duplicates()  # which sorts the columns of a row as well
        return "sparse", value.shape, value.data, value.indices.astype(np.int64), value.indptr.astype(np.int64)
    if hasattr(value, "detach") and not isinstance(value, type | ModuleType):
        tensor = value.detach().cpu()
        return "tensor", str(tensor.dtype), (tensor.float() if tensor.dtype.itemsize == 2 else tensor).numpy()
    if type(value) is not np.ndarray:
        return None
    if value.dtype.hasobject:
        return "array", value.shape, value.ravel().tolist()
    # bytes, as datetimes have no memoryview
    content: Any = np.ascontiguousarray(value).reshape(-1).view(np.uint8) if value.size else b""
    return "array", repr(value.dtype), value.shape, hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _dtype(column: Any) -> tuple[Any, ...]:
    """With categories in their order, which decides the codes that a model may see."""
    known = getattr(column.dtype, "categories", None)
    return (str(column.dtype),) if known is None else ("category", known.to_numpy(), bool(column.dtype.ordered))


def _is_estimator(value: Any) -> bool:
    """Whether clones are made of parameters alone; those of FrozenEstimator hold what it has learned."""
    clone = getattr(type(value), "__sklearn_clone__", None)
    is_plain = clone in (None, BaseEstimator.__sklearn_clone__)
    return hasattr(value, "get_params") and not isinstance(value, type) and is_plain


def _object_parts(value: Any) -> Any:
    """What stands for an object that pickle refuses, or writes in any order."""
    if isinstance(value, ModuleType):
        return "module", value.__name__
    if isinstance(value, set | frozenset):
        return "set", sorted(map(digest, value))
    if isinstance(value, property):
        return "property", value.fget, value.fset, value.fdel
    is_wrapper = isinstance(value, classmethod) or (callable(value) and not isinstance(value, type))
    is_theirs = is_wrapper and is_own(getattr(value, "__module__", None))  # else its name is enough
    wrapped = getattr(value, "__wrapped__", None) if is_theirs else None  # of functools.cache, say
    return value if wrapped is None else ("wrapped", type(value).__name__, wrapped)


@cache
def is_own(name: str | None) -> bool:
    """Whether a module is the user's own: none of an installed package."""
    file = getattr(sys.modules.get(name or ""), "__file__", None)
    is_installed = name is not None and name.partition(".")[0] in _INSTALLED
    is_program = name == "__main__"  # wherever it is: no other process finds its functions by name
    return is_program or (not is_installed and (file is None or _FOLDERS.isdisjoint(Path(file).parts)))


def _function_parts(function: FunctionType) -> Any:
    """What a function does and with what; not its name and where it is written, as code may move."""
    codes = list(all_code(function.__code__))
    attributes = sorted({name for code in codes for name in code.co_names})
    defaults: dict[Any, Any] = {**dict(enumerate(function.__defaults__ or ())), **(function.__kwdefaults__ or {})}
    cells = dict(enumerate(cell.cell_contents for cell in function.__closure__ or ()))
    parts = defaults, cells, _globals(function, codes), _imports(function, codes)
    return (
        "function",
        [_instructions(code) for code in codes],
        [{name: _of_module(value, attributes, ()) for name, value in part.items()} for part in parts],
        vars(function),
    )


def _class_parts(cls: type) -> Any:
    """Members of a class and of its bases, as far as they are the user's own."""
    bases = [base for base in cls.__mro__ if is_own(base.__module__)]
    return (
        "class",
        cls.__name__,
        # without what Python sets itself: ``__doc__`` and the like, and caches of abc
        [{n: m for n, m in vars(base).items() if isinstance(m, FunctionType) or not _OF_PYTHON(n)} for base in bases],
    )


_OF_PYTHON = re.compile("__.*__$|_abc_").match


def all_code(code: CodeType) -> Iterator[CodeType]:
    """A code, and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from all_code(constant)


def _instructions(code: CodeType) -> list[Any]:
    """What code does, without the lines and files in which it is written."""
    constants = [
        sorted(map(repr, c)) if isinstance(c, frozenset) else repr(c) for c in code.co_consts if type(c) is not CodeType
    ]
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [code.co_code, code.co_exceptiontable, code.co_names, code.co_flags, arguments, constants]


def _globals(function: FunctionType, codes: list[CodeType]) -> dict[str, Any]:
    instructions = (instruction for code in codes for instruction in dis.get_instructions(code))
    names = {i.argval for i in instructions if i.opname in _READS_GLOBAL} & function.__globals__.keys()
    return {name: function.__globals__[name] for name in names}


def _imports(function: FunctionType, codes: list[CodeType]) -> dict[str, Any]:
    """Modules of the user's own that a function imports when it is called, with what their import gives."""
    found: dict[str, Any] = {}
    for code in codes:
        instructions = list(dis.get_instructions(code))
        for level, names, this in zip(instructions, instructions[1:], instructions[2:], strict=False):
            if this.opname == "IMPORT_NAME" and (level.argval or is_own(this.argval.partition(".")[0])):
                with suppress(ImportError):  # of a branch, say, that is not for this machine
                    module = __import__(this.argval, function.__globals__, None, names.argval, level.argval)
                    found[f"{level.argval} {this.argval} {names.argval}"] = module
    return found


def _of_module(value: Any, attributes: list[str], outer: tuple[ModuleType, ...]) -> Any:
    """A value; of a module of the user's own, the values of all names that may be asked of it."""
    if not isinstance(value, ModuleType) or value in outer or not is_own(value.__name__):
        return value
    found = (name for name in attributes if hasattr(value, name))
    return {name: _of_module(getattr(value, name), attributes, (*outer, value)) for name in found}
