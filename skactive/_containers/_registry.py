"""The kinds of containers, in the order in which they are asked: the first that holds what is given counts."""

from __future__ import annotations

from typing import Any

KINDS: list[Any] = []
"""Filled when `_containers` is loaded."""


def kind_of(X: Any) -> Any:
    return next(kind for kind in KINDS if kind.holds(X))
