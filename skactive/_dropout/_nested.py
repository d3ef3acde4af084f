"""Tensors in nested values, as arguments and outputs of modules hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor


def parts_of(value: Any, kind: type = Tensor) -> Iterator[Any]:
    """Tensors, or parts of another kind, in nested tuples, lists, dicts and their like, and slices, in order."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from parts_of(part, kind)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from parts_of(part, kind)
    elif isinstance(value, slice):
        yield from parts_of((value.start, value.stop, value.step), kind)


def mapped(value: Any, function: Callable[[Any], Any], kind: type = Tensor) -> Any:
    """The value with each tensor, or part of another kind, replaced by the function of it."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, tuple | list):
        parts = [mapped(part, function, kind) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, Mapping):
        return _dict_like(value, {name: mapped(part, function, kind) for name, part in value.items()})
    if isinstance(value, slice):
        return slice(*mapped((value.start, value.stop, value.step), function, kind))
    return value


def _dict_like(value: Any, parts: dict[Any, Any]) -> Any:
    try:
        return parts if type(value) is dict else type(value)(parts)
    except Exception:  # the constructor of a user's class may need more arguments
        return parts
