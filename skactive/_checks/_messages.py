"""How the package warns, and how it explains what failed inside of others."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    warnings.warn(message, category, stacklevel=_stack_level())


def _stack_level() -> int:
    """The stack level, seen from the caller, of the first frame outside this package (and outside modAL)."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in {"skactive", "modAL"}:
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


@contextmanager
def failure_explained(doing: str) -> Iterator[None]:
    """Chain an error of the model or of a user's score under one sentence that says what was being done."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{doing} failed: {error}") from error
    except Exception as error:
        raise RuntimeError(f"{doing} failed: {type(error).__name__}: {error}") from error


def import_optional(module: str, needed_by: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"`{needed_by}` needs {package}: python -m pip install {package}") from error
