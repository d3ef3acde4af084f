"""Progress bars: lines of text in a terminal, widgets in a notebook that can show them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any


def progress(
    steps: Iterable[Any] | None = None, *, doing: str, unit: str, total: int | None = None, verbose: int
) -> Any:
    """A bar of tqdm over these steps, or one to ``update`` within ``with``; without ``verbose`` it is not seen."""
    if importlib.util.find_spec("ipywidgets") is None:  # `tqdm.auto` would warn
        from tqdm import tqdm
    else:
        from tqdm.auto import tqdm
    return tqdm(steps, desc=doing, unit=unit, total=total, disable=not verbose)
