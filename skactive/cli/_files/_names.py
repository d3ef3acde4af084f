"""The names of columns: which columns have one, and none twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._errors import file_error


def kept_columns(
    names: Sequence[str], columns: Sequence[Any], path: Path, line: int, unit: str, notes: list[str]
) -> list[tuple[str, Any]]:
    """Columns with a name: one without may be empty, or the counter that pandas writes before all others."""
    kept = []
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        if name:
            kept.append((name, column))
        elif all(value is None for value in column) if isinstance(column, list) else column.null_count == len(column):
            continue
        elif i == 0 and len(names) > 1 and _counts(column):
            notes.append(f"{path}: the first column has no name and holds whole numbers, as an index does: left out.")
        else:
            raise file_error(path, f"column {i + 1} has no name. Name it, or remove it.", line, unit=unit)
    check_no_name_twice([name for name in names if name], path, line, unit)
    if not kept:
        trouble = "no column has a name. A table must begin with the names of its columns."
        raise file_error(path, trouble, line, unit=unit)
    return kept


def check_no_name_twice(names: Sequence[str], path: Path, line: int | None = None, unit: str = "line") -> None:
    if len(set(names)) < len(names):
        name = next(name for i, name in enumerate(names) if name in names[:i])
        raise file_error(
            path, f"{names.count(name)} columns have the name {name!r}. Rename all but one.", line, unit=unit
        )


def _counts(column: Any) -> bool:
    import pyarrow

    if isinstance(column, list):
        return all(type(value) is int for value in column)
    try:
        return bool(column.null_count == 0 and column.cast(pyarrow.int64()) is not None)
    except pyarrow.ArrowInvalid:
        return False
