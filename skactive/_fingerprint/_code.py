"""What functions and classes are made of: their code, and the values that it finds outside of itself.

Code of the user's own is looked into. That of installed packages is known by its name and by the versions that an
experiment writes down.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

_KNOWN = {*sys.stdlib_module_names, "joblib", "modAL", "numpy", "scipy", "skactive", "sklearn", "skorch", "torch"}
_FOLDERS = {"site-packages", "dist-packages"}
_READS_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME"}


def is_own(module: str | None) -> bool:
    """Whether a module is the user's, not part of an installed package."""
    if module is None or module.partition(".")[0] in _KNOWN:
        return module is None
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or _FOLDERS.isdisjoint(Path(file).parts)


def name_of(value: Any) -> str:
    """Where a function or class comes from. Those of the user's own may move: what they do is looked into."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", type(value).__qualname__)
    return name if is_own(module) else f"{module}.{name}"


def code_of(function: FunctionType) -> list[Any]:
    """What a function does, not where in its file it stands."""
    return list(_code(function.__code__))


def function_parts(function: FunctionType) -> dict[str, Any]:
    """What a function does it with, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    outside = _globals(function) if is_own(function.__module__) else {}
    defaults = {"defaults": function.__defaults__, "keyword_defaults": function.__kwdefaults__}
    return (
        {name: value for name, value in defaults.items() if value}
        | {f"closure.{name}": _content(cell) for name, cell in cells}
        | {f"globals.{name}": value for name, value in outside.items()}
        | {f"attributes.{name}": value for name, value in vars(function).items() if name != "__wrapped__"}
    )


def class_parts(cls: type) -> dict[str, Any]:
    """Functions and values in the body of a class and of its bases, as far as they are the user's own."""
    parts = {}
    for base in cls.__mro__:
        if is_own(base.__module__):
            members = {name: _functions_in(member) for name, member in vars(base).items()}
            parts[base.__qualname__] = {n: m for n, m in members.items() if isinstance(m, list) or not _is_dunder(n)}
    return parts


def _functions_in(member: Any) -> Any:
    """A list of the functions that make a method or a property; any other member as it is."""
    if isinstance(member, property):
        return [member.fget, member.fset, member.fdel]
    if isinstance(member, staticmethod | classmethod):
        return [member.__func__]
    if isinstance(member, functools.cached_property):
        return [member.func]
    return [member] if isinstance(member, FunctionType) else member


def _is_dunder(name: str) -> bool:
    """Names that Python itself gives, such as ``__doc__``, and the caches of abc."""
    return (name.startswith("__") and name.endswith("__")) or name.startswith("_abc_")


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that has no value yet
        return None


def _code(code: CodeType) -> Iterator[Any]:
    yield code.co_code
    yield code.co_exceptiontable
    yield code.co_names
    yield code.co_flags
    yield code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield constant


def _globals(function: FunctionType) -> dict[str, Any]:
    """Values of the global names in a function; of a module of the user's own, of the names that may be asked of it."""
    codes = list(_all_code(function.__code__))
    instructions = (instruction for code in codes for instruction in dis.get_instructions(code))
    names = sorted({i.argval for i in instructions if i.opname in _READS_GLOBAL} & function.__globals__.keys())
    attributes = sorted({name for code in codes for name in code.co_names})
    return {name: _value(function.__globals__[name], attributes, ()) for name in names}


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)


def _value(value: Any, attributes: list[str], modules: tuple[ModuleType, ...]) -> Any:
    if not isinstance(value, ModuleType) or value in modules or not is_own(value.__name__):
        return value
    return {
        name: _value(getattr(value, name), attributes, (*modules, value)) for name in attributes if hasattr(value, name)
    }
