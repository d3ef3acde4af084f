"""Workbooks: one sheet is read and written, cell by cell."""

from __future__ import annotations

import datetime
import decimal
import io
import itertools
import math
import re
import zipfile
from typing import Any

import pandas as pd

from ..campaign._labels import EXACT
from ..campaign._store import shown
from ._cells import Choices, Dialect, File, plain_values, table_of
from ._files import check_size

MOST_ABOVE, WIDEST = 50, 60
"""Rows of a sheet among which its header is, and the width of a column with long texts."""
SHEET_ROWS, CELL_CHARACTERS = 2**20, 2**15 - 1
"""The limits of a workbook; openpyxl would cut longer texts without a word."""


def read_workbook(content: bytes, file: File) -> Any:
    """The sheet that is asked for, else one that has the table, first the one that is open in the workbook."""
    import openpyxl  # type: ignore[import-untyped]

    _check_formulas(content)
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    sheet, first = _sheet_of(book, file)
    filled = {
        number: row
        for number, row in enumerate(sheet.iter_rows(min_row=first), first)
        if any(cell.value not in (None, "") for cell in row)
    }
    if not filled:
        raise ValueError("the sheet is empty. It must begin with a header, the names of the columns.")
    (_, *file.rows), cells = filled, [*filled.values()]
    errors = [cell.coordinate for row in cells for cell in row if cell.data_type == "e"]
    if errors:
        file.notes.append(f"cells with an error are read as missing: {shown(errors, 3)} of {sheet.title!r}.")
    names, columns = [], []
    for head, *below in itertools.zip_longest(*cells):  # column by column
        names.append(str(_of_cell(head, True) or ""))
        columns.append([_of_cell(cell, names[-1] in file.text) for cell in below])
        numbers = [cell for cell in below if cell and isinstance(cell.value, float | int | datetime.date)]
        if len(formats := {cell.number_format for cell in numbers}) == 1:
            file.formats[names[-1]] = formats.pop()
    return table_of(names, columns, file)


def _sheet_of(book: Any, file: File) -> tuple[Any, int]:
    """The sheet that is asked for, else the first that has the table; and the row of its header."""
    sheets, asked, like = {sheet.title: sheet for sheet in book.worksheets}, file.dialect.sheet, file.like.sheet
    if asked not in (None, *sheets):
        raise ValueError(f"it has no sheet {asked!r}. Its sheets: {', '.join(map(repr, sheets))}.")
    seen = [title for title, sheet in sheets.items() if sheet.sheet_state == "visible"]
    first = (title for title in (like, book.active.title) if title in sheets)
    headers = {}
    for title in [asked] if asked else dict.fromkeys([*first, *seen]):
        sheets[title].reset_dimensions()  # not every program writes the right ones
        headers[title] = file.header_in([*sheets[title].iter_rows(max_row=MOST_ABOVE, values_only=True)])
    title = max(headers, key=lambda title: headers[title].is_named)  # the first of equals
    file.found(sheet=title)
    file.begins_at(headers[title])
    if len(seen) > 1 and title not in (asked, like):
        file.notes.append(f"sheet {title!r} of {len(seen)} was read. --sheet selects another.")
    return sheets[title], headers[title].row


def _of_cell(cell: Any, as_text: bool) -> Any:
    """The value of a cell; as text with the zeros that a format like 000 shows before it."""
    if cell is None or cell.value == "" or cell.data_type == "e":
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
        n_bytes = sum(member.file_size for member in packed.infolist())
        check_size(n_bytes, len(content), "Save it as .csv, if that is right.")
        for name in packed.namelist():
            if re.fullmatch(r"xl/worksheets/[^/]+\.xml", name) and (found := re.search(without, packed.read(name))):
                raise ValueError(f"cell {found[1].decode()} holds a formula without a result. Open and save the file.")


def write_workbook(frame: pd.DataFrame, _: Dialect, choices: Choices | None) -> bytes:
    """A workbook with one sheet. Texts are cells of text, which keep "03" as it is also when a person edits them."""
    import openpyxl

    if len(frame) >= SHEET_ROWS:
        raise ValueError(f"a sheet holds at most {SHEET_ROWS - 1} rows, not {len(frame)}. Write .csv.")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("table")
    cells = [
        [_as_cell(sheet, value, frame.attrs["formats"].get(name)) for value in (name, *plain_values(frame[name]))]
        for name in frame
    ]
    sheet.freeze_panes = "A2"
    for number, column in enumerate(cells, 1):
        width = max(len(str(cell.value or "")) for cell in column)
        sheet.column_dimensions[openpyxl.utils.get_column_letter(number)].width = min(width + 2, WIDEST)
        if choices and column[0].value == choices.column:
            _offer(book, sheet, number, column, choices)
    for row in zip(*cells, strict=True):  # a sheet that is begun must be ended: by now nothing is refused
        sheet.append(row)
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def _offer(book: Any, sheet: Any, number: int, column: list[Any], choices: Choices) -> None:
    """Make cells of text with a list to choose from, which is in a hidden sheet."""
    import openpyxl
    from openpyxl.worksheet.datavalidation import DataValidation  # type: ignore[import-untyped]

    for cell in column:
        cell.number_format = "@"
    if not choices.labels:
        return
    rows, letter = [[_as_cell(sheet, label)] for label in choices.labels], openpyxl.utils.get_column_letter(number)
    offered = DataValidation("list", f"labels!$A$1:$A${len(rows)}", showErrorMessage=choices.closed)
    offered.add(f"{letter}2:{letter}{max(2, len(column))}")
    sheet.data_validations.append(offered)
    listed = book.create_sheet("labels")
    listed.sheet_state = "hidden"
    for row in rows:
        listed.append(row)


def _as_cell(sheet: Any, value: Any, shown_as: str | None = None) -> Any:
    import openpyxl

    made = openpyxl.cell.WriteOnlyCell(sheet)
    if isinstance(value, str) and value:
        if len(value) > CELL_CHARACTERS:
            raise ValueError(f"a cell holds at most {CELL_CHARACTERS} characters, not {len(value)}. Write .csv.")
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
    if shown_as and made.data_type in ("n", "d"):
        made.number_format = shown_as
    return made
