"""A table in a file: how it is written, where its header is, and its cells, of Python and as columns of Arrow."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from ..campaign._columns import GAPS
from ..campaign._labels import EXACT

TOO_LONG = "column {!r} holds whole numbers with too many digits: read as text."


@dataclass(frozen=True)
class Dialect:
    """How a file writes its table; None for what it leaves open."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None  # other than UTF-8
    sheet: str | None = None

    @property
    def mark(self) -> str | None:
        """The decimal mark; where no number shows it, semicolons tell: spreadsheets write them to keep commas free."""
        return self.decimal or ("," if self.sep == ";" else None)


OPEN = Dialect()


class Header(NamedTuple):
    """Where the header of a table is."""

    row: int  # counted as a spreadsheet does
    is_named: bool  # whether it has the names that it must have
    above: list[dict[Any, Any]]  # rows above it that hold something, by its names


@dataclass(frozen=True)
class Choices:
    """Labels that a workbook offers for a column: all that there are, or those known."""

    column: str
    labels: Sequence[Any]
    closed: bool


@dataclass
class File:
    """What a reader is asked for, and what it finds."""

    text: frozenset[str]
    names: frozenset[str]
    dialect: Dialect
    like: Dialect
    notes: list[str] = field(default_factory=list)
    rows: Sequence[int] = ()  # their numbers in a spreadsheet
    above: Sequence[dict[Any, Any]] = ()
    formats: dict[str, str] = field(default_factory=dict)  # in which a workbook shows all numbers or dates of a column

    def found(self, **parts: Any) -> None:
        self.dialect = replace(self.dialect, **parts)

    def header_in(self, rows: Sequence[Sequence[Any]]) -> Header:
        """The first row with the names that it must have, else the first with any."""
        filled = [i for i, row in enumerate(rows, 1) if any(cell not in (None, "") for cell in row)]
        named = [i for i in filled if self.names and self.names.issubset(map(str, rows[i - 1]))]
        first = (named or filled or [i for i, row in enumerate(rows, 1) if row] or [1])[0]
        above = [dict(zip(rows[first - 1], rows[i - 1], strict=False)) for i in filled if i < first]
        return Header(first, bool(named), above)

    def begins_at(self, header: Header) -> None:
        self.above = header.above
        if header.above:
            self.notes.append(f"its header is row {header.row}: the rows above it are ignored.")


def table_of(names: list[str], columns: list[list[Any]], file: File) -> Any:
    arrays = [column_of(cells, name in file.text, name, file.notes) for name, cells in zip(names, columns, strict=True)]
    return pa.Table.from_arrays(arrays, names)


def column_of(values: list[Any], as_text: bool, name: str, notes: list[str]) -> Any:
    """Python's own values as a column of Arrow: of one type if they have one, else text."""
    values = [None if value != value else value for value in values]  # NaN
    if not as_text:
        for cells in (values, [None if value in GAPS else value for value in values]):
            with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                return pa.array(cells)
        if {type(value) for value in values} <= {int, float, type(None)}:
            notes.append(TOO_LONG.format(name))
    if any(isinstance(value, dict | list) for value in values):
        raise ValueError(f"column {name!r} is nested, but a cell must hold one value. Flatten it.")
    return pa.array([plain_text(value) for value in values], pa.string())


def plain_text(value: Any) -> str | None:
    """A value as a person types it: whole numbers without a point, days without an hour."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float | decimal.Decimal) and math.isfinite(value) and value == int(value):
        if isinstance(value, float) and abs(value) > EXACT:
            raise ValueError(f"the number {value!r} has lost digits. Keep ids and labels as text.")
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return repr(value) if isinstance(value, float) else str(value)


def plain_values(column: pd.Series) -> list[Any]:
    """A column as Python's own values, None where one is missing."""
    pairs = zip(column.astype(object).tolist(), column.isna().tolist(), strict=True)
    values = [None if gap else value.item() if hasattr(value, "item") else value for value, gap in pairs]
    return [value.to_pydatetime(warn=False) if isinstance(value, pd.Timestamp) else value for value in values]
