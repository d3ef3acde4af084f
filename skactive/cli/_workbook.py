"""Tables in workbooks, .xlsx, as names and Python's own values."""

from __future__ import annotations

import decimal
import io
import math
import re
import zipfile
from typing import Any

import openpyxl  # type: ignore[import-untyped]

EXACT = 2**53
"""Up to here a float, and so a workbook, holds every whole number."""
SHEET_ROWS, CELL_CHARACTERS = 2**20, 2**15 - 1
"""The limits of a workbook; openpyxl would cut longer texts without a word."""


def read_workbook(content: bytes, as_text: frozenset[str], notes: list[str]) -> tuple[list[str], list[list[Any]]]:
    """Names and values of the sheet that is open in the workbook."""
    _check_formulas(content)
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    sheet = book.active
    if len(book.worksheets) > 1:
        notes.append(f"of {len(book.worksheets)} sheets, {sheet.title!r} was read.")
    sheet.reset_dimensions()  # not every program writes the right ones
    cells = [row for row in sheet.iter_rows() if any(cell.value not in (None, "") for cell in row)]
    if not cells:
        raise ValueError("the sheet is empty. It must begin with a header, the names of the columns.")
    errors = [cell.coordinate for row in cells for cell in row if cell.data_type == "e"]
    if errors:
        notes.append(f"{len(errors)} cells that hold an error are missing values, {errors[0]} the first.")
    width = max(map(len, cells))
    names = [str(_value(cell, True) or "") for cell in cells[0]]
    names += [""] * (width - len(names))
    columns = [
        [_value(row[i], name in as_text) if i < len(row) else None for row in cells[1:]] for i, name in enumerate(names)
    ]
    return names, columns


def _value(cell: Any, as_text: bool) -> Any:
    """The value of a cell; as text with the zeros that a format like 000 shows before it."""
    if cell.value == "" or cell.data_type == "e":
        return None
    if isinstance(cell.value, str):  # with characters that XML has not, as workbooks write them
        return re.sub("_x([0-9A-Fa-f]{4})_", lambda found: chr(int(found[1], 16)), cell.value)
    if as_text and type(cell.value) is int and set(cell.number_format) == {"0"}:
        return str(cell.value).zfill(len(cell.number_format))
    return cell.value


def _check_formulas(content: bytes) -> None:
    """Refuse formulas whose results were never saved: they would be empty cells."""
    without = rb'<c [^>]*?r="([A-Z]+[0-9]+)"[^>]*><f(?:[^>]*/>|[^>]*>[^<]*</f>)(?:<v\s*/>|<v></v>)?</c>'
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for name in packed.namelist():
            if re.fullmatch(r"xl/worksheets/[^/]+\.xml", name) and (found := re.search(without, packed.read(name))):
                raise ValueError(f"cell {found[1].decode()} holds a formula without a result: open and save it.")


def write_workbook(names: list[str], columns: list[list[Any]]) -> bytes:
    """The workbook with one sheet. Texts are cells of text, which keep "03" as it is also when a person edits them."""
    n_rows = max(map(len, columns), default=0)
    if n_rows >= SHEET_ROWS:
        raise ValueError(f"a sheet holds {SHEET_ROWS - 1} rows, and there are {n_rows}. Write .csv.")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("table")
    cells = [[_cell(sheet, value) for value in (name, *values)] for name, values in zip(names, columns, strict=True)]
    for row in zip(*cells, strict=True):  # a sheet that is begun must be ended: by now nothing is refused
        sheet.append(row)
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def _cell(sheet: Any, value: Any) -> Any:
    made = openpyxl.cell.WriteOnlyCell(sheet)
    if isinstance(value, str) and value:
        if len(value) > CELL_CHARACTERS:
            raise ValueError(f"a cell holds {CELL_CHARACTERS} characters, and a text has {len(value)}. Write .csv.")
        value.encode()  # refuses half of a character here
        value = re.sub(r"_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", value)
        value = re.sub("[\0-\x08\x0b-\x1f]", lambda found: f"_x{ord(found[0]):04X}_", value)
        made.value, made.number_format = value, "@"
        made.data_type = "s"  # a text, even where it begins with =
    elif isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        if not math.isfinite(value) or (isinstance(value, int) and abs(value) > EXACT):
            raise ValueError(f"a workbook cannot hold the number {value}. Write .csv.")
        made.value, made.data_type = str(value), "n"  # with all digits; as a number it would be cut to 16
    else:
        made.value = None if value == "" else value
    return made
