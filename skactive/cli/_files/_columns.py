"""The values of a column: from Arrow and from Python's own into pandas, and back into Python's own."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import file_error

if TYPE_CHECKING:
    import pandas

GAPS = ["NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NULL", "Null", "null", "None", "none"]
EXACT = 2**53
"""Up to here a float, and so a workbook, holds every whole number."""


def series_of(column: Any, path: Path, name: str, notes: list[str]) -> pandas.Series:
    """A column of Arrow as one of pandas that holds the same values."""
    import pandas
    import pyarrow
    from pyarrow import compute, types

    if isinstance(column, pyarrow.Array):
        column = pyarrow.chunked_array([column])
    kind = column.type
    if types.is_dictionary(kind):
        return series_of(column.cast(kind.value_type), path, name, notes)
    if types.is_decimal(kind):
        try:
            whole = column.cast(pyarrow.int64())
        except pyarrow.ArrowInvalid:
            if kind.scale > 0:
                return series_of(column.cast(pyarrow.float64()), path, name, notes)
            notes.append(too_long(path, name))
            whole = pyarrow.array([plain_text(value) for value in column.to_pylist()], pyarrow.string())
        return series_of(whole, path, name, notes)
    if types.is_time(kind):
        return series_of(column.cast(pyarrow.string()), path, name, notes)
    if types.is_string(kind) or types.is_large_string(kind):
        return column.to_pandas()
    if types.is_null(kind):
        return pandas.Series(np.full(len(column), np.nan))
    if column.null_count and (types.is_integer(kind) or types.is_boolean(kind)):
        values = compute.fill_null(column, False if types.is_boolean(kind) else 0).to_numpy()
        make = pandas.arrays.BooleanArray if types.is_boolean(kind) else pandas.arrays.IntegerArray
        return pandas.Series(make(values, column.is_null().to_numpy()))
    return column.to_pandas(date_as_object=False)


def too_long(path: Path, name: str) -> str:
    return f"{path}: column {name!r} holds whole numbers of more than 64 bits: read as text."


def plain_text(value: Any) -> str | None:
    """A value as a person would type it: whole numbers without a point, days without an hour."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float | decimal.Decimal) and math.isfinite(value) and value == int(value):
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return repr(value) if isinstance(value, float) else str(value)


def _check_exact(value: Any, path: Path, name: str, line: int, unit: str = "line") -> None:
    if isinstance(value, float) and abs(value) > EXACT:
        trouble = f"the number {value!r} of column {name!r} has lost digits here. Keep such a column as text."
        raise file_error(path, trouble, line, unit=unit)


def column_of(
    values: list[Any], path: Path, name: str, as_text: bool, notes: list[str], lines: Sequence[int], unit: str
) -> pandas.Series:
    """A column of Python's own values, as formats with types give them."""
    import pyarrow

    values = [None if value != value else value for value in values]  # NaN
    kinds = {type(value) for value in values} - {type(None)}
    whole = [value for value in values if type(value) is int]
    if not as_text and str in kinds and kinds <= {str, int, float} and len(kinds) > 1:
        words = {value for value in values if type(value) is str}
        if words <= set(GAPS):
            values, kinds = [None if type(value) is str else value for value in values], kinds - {str}
    if as_text:
        for value, line in zip(values, lines, strict=True):
            _check_exact(value, path, name, line, unit)
        kind = pyarrow.string()
    elif not kinds:
        kind = pyarrow.null()
    elif kinds == {bool}:
        kind = pyarrow.bool_()
    elif kinds == {int} and min(whole) >= -(2**63) and max(whole) < 2**63:
        kind = pyarrow.int64()
    elif kinds == {float} or (kinds == {int, float} and max(map(abs, whole)) <= EXACT):
        kind = pyarrow.float64()
    elif kinds == {datetime.datetime}:
        kind = pyarrow.timestamp("us")
    else:
        kind = pyarrow.string()
        if kinds <= {int, float}:
            notes.append(too_long(path, name))
    if kind == pyarrow.string():
        values = [plain_text(value) for value in values]
    try:
        return series_of(pyarrow.array(values, kind), path, name, notes)
    except UnicodeEncodeError as error:
        raise file_error(path, f"column {name!r} holds half of a character (a lone surrogate). Remove it.") from error


def values_of(column: pandas.Series, path: Path) -> list[Any]:
    """A column as Python's own values, None where one is missing."""
    filled = column.notna().tolist()
    values = [value if there else None for value, there in zip(column.astype(object).tolist(), filled, strict=True)]
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    known = (str, bool, int, float, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta, type(None))
    for value in values:
        if not isinstance(value, known):
            raise file_error(path, f"column {column.name!r} holds a {type(value).__name__}. Make it a text or numbers.")
    return values
