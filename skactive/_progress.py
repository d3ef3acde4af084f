"""Progress bars: lines of text in a terminal, widgets in a notebook that can show them.

Where `ipywidgets` is missing, `tqdm.auto` warns and draws text; here it is not asked then, so nothing warns.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from typing import Any


def progress(
    steps: Iterable[Any] | None = None, *, doing: str, unit: str, total: int | None = None, verbose: int
) -> Any:
    """A bar of tqdm over these steps, or one to ``update`` within ``with``; without ``verbose`` it is not seen."""
    return _kind_of_bar()(steps, desc=doing, unit=unit, total=total, disable=not verbose)


def say(line: str) -> None:
    """Write a line to the standard error, and leave the bars there whole."""
    _kind_of_bar().write(line, sys.stderr)


def _kind_of_bar() -> Any:
    if importlib.util.find_spec("ipywidgets") is None:
        from tqdm import tqdm
    else:
        from tqdm.auto import tqdm
    return tqdm
