"""What a value of a table is shown as: None for a missing one, text, or an image with the text it came from."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

Cell = str | dict[str, str] | None

_IMAGE = re.compile(r"[^\x00-\x1f\x7f]{1,1000}\.(png|jpe?g|gif|webp|svg)", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:|//", re.IGNORECASE)  # a drive has one letter: C:


def cells_of(column: pd.Series, folder: Path | None) -> list[Cell]:
    """The values of a column as they are shown, on a page that lies in ``folder``."""
    is_float = getattr(column.dtype, "kind", "") == "f"
    return [_cell(value, folder) for value in (column.to_numpy() if is_float else column.tolist())]


def _cell(value: Any, folder: Path | None) -> Cell:
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        src = _source(text, folder) if isinstance(text, str) else None
        return str(text) if src is None else {"src": src, "text": text}
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return None
    if isinstance(value, float | np.floating):
        return _number(value)
    if isinstance(value, datetime.datetime):
        return str(value.date() if value.time() == datetime.time() and value.tzinfo is None else value)
    return str(value)


def _number(value: float | np.floating[Any]) -> str:
    """All digits of a number, and none that only binary fractions have: 0.1 of float32 is 0.1, and 3.0 is 3."""
    return format(float(str(value)), ".15g") if isinstance(value, np.floating) else format(value, ".15g")


def _source(text: str, folder: Path | None) -> str | None:
    """The address of an image file, relative to the page where that is possible; None for all else.

    Addresses with a scheme, and of other machines (``//machine/...``), are no files here.
    """
    path = text.replace("\\", "/") if os.name == "nt" else text
    if not _IMAGE.fullmatch(text) or _ADDRESS.match(path.replace("\\", "/")):
        return None
    try:
        if os.path.isabs(path):
            path = os.path.relpath(path, folder.absolute()) if folder else path
        encoded = quote(path.replace(os.sep, "/"))
    except ValueError:  # another drive than that of the page; half a surrogate pair
        return None
    return f"file://{encoded}" if os.path.isabs(path) else f"./{encoded}"
