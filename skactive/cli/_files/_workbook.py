"""Tables in workbooks of spreadsheets: .xlsx."""

from __future__ import annotations

import decimal
import io
import math
import re
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._columns import EXACT, column_of, plain_text, values_of
from ._encodings import encoded
from ._errors import FileError, file_error
from ._names import kept_columns

if TYPE_CHECKING:
    import pandas

SHEET_ROWS, SHEET_COLUMNS, CELL_CHARACTERS = 2**20, 2**14, 2**15 - 1
"""The limits of a workbook. Its usual library would cut longer texts without a word."""


def read_workbook(content: bytes, path: Path, text: set[str], notes: list[str]) -> dict[str, pandas.Series]:
    import openpyxl  # type: ignore[import-untyped]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and other things that no value hangs on
            rows, formats = _sheet(openpyxl, content, path, notes)
    except FileError:
        raise
    except Exception as error:
        remedy = "Save it as .xlsx without a password."
        raise file_error(path, f"this is no workbook, or a damaged or locked one. {remedy}") from error
    if not rows:
        raise file_error(path, "the sheet is empty. It must begin with a header, the names of the columns.")
    (first, header), *rest = rows
    width = max(i + 1 for i, value in enumerate(header) if value is not None)
    names = [plain_text(value) or "" for value in header[:width]]
    for number, row in rest:
        if any(value is not None for value in row[width:]):
            trouble = f"a value stands to the right of the last named column, {names[-1]!r}. Name its column."
            raise file_error(path, trouble, number, unit="row")
    lines = [number for number, _ in rest]
    columns = [[row[i] if i < len(row) else None for _, row in rest] for i in range(width)]
    for i, name in enumerate(names):
        if name in text:
            columns[i] = [
                str(value).zfill(formats.get((number, i), 0)) if type(value) is int and value >= 0 else value
                for number, value in zip(lines, columns[i], strict=True)
            ]
    kept = kept_columns(names, columns, path, first, "row", notes)
    return {name: column_of(values, path, name, name in text, notes, lines, "row") for name, values in kept}


def _sheet(
    openpyxl: Any, content: bytes, path: Path, notes: list[str]
) -> tuple[list[tuple[int, list[Any]]], dict[tuple[int, int], int]]:
    """The rows of a sheet that hold something, with their numbers; and how many digits a format like 000 shows."""
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"] or book.worksheets
    sheet = book.active if book.active in sheets else sheets[0]
    if len(sheets) > 1:
        notes.append(f"{path} has {len(sheets)} sheets: {sheet.title!r} was read.")
    rows, formats, faults = [], {}, []
    sheet.reset_dimensions()  # not every program writes the right ones
    for number, cells in enumerate(sheet.iter_rows(), 1):
        row: list[Any] = [None if cell.value == "" else cell.value for cell in cells]
        for i, cell in enumerate(cells):
            if cell.data_type == "e":
                faults.append(f"{row[i]} in {cell.coordinate}")
                row[i] = None
            elif isinstance(row[i], str):
                row[i] = re.sub("_x([0-9A-Fa-f]{4})_", lambda found: chr(int(found[1], 16)), row[i])
            elif isinstance(row[i], int) and set(cell.number_format) == {"0"}:
                formats[number, i] = len(cell.number_format)
        if any(value is not None for value in row):
            rows.append((number, row))
    if faults:
        notes.append(
            f"{path}: cells that hold an error are missing values: {', '.join(faults[:3])}, {len(faults)} in all."
        )
    _check_formulas(openpyxl, content, path, sheet.title)
    return rows, formats


def _check_formulas(openpyxl: Any, content: bytes, path: Path, title: str) -> None:
    """Refuse formulas whose results were never saved: they would be empty cells."""
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        sheets = [name for name in packed.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
        if not any(re.search(rb"<f[ />]", packed.read(name)) for name in sheets):
            return
    both = [
        openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=only)[title] for only in (True, False)
    ]
    for sheet in both:
        sheet.reset_dimensions()
    for results, formulas in zip(*(sheet.iter_rows() for sheet in both), strict=True):
        for result, formula in zip(results, formulas, strict=True):
            if formula.data_type == "f" and result.value is None:
                trouble = (
                    f"cell {formula.coordinate} holds a formula without a result. Open the file, save it, try again."
                )
                raise file_error(path, trouble)


def write_workbook(frame: pandas.DataFrame, path: Path) -> bytes:
    import openpyxl

    if len(frame) >= SHEET_ROWS or frame.shape[1] > SHEET_COLUMNS:
        trouble = f"a sheet holds {SHEET_ROWS - 1} rows and {SHEET_COLUMNS} columns. Got {frame.shape}. Write .csv."
        raise file_error(path, trouble)
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("table")

    def cell(value: Any, name: str) -> Any:
        if value is None or value == "":
            return None
        if isinstance(value, str):
            value = re.sub(r"_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", value)
            value = re.sub("[\0-\x08\x0b-\x1f]", lambda found: f"_x{ord(found[0]):04X}_", value)
            if len(value) > CELL_CHARACTERS:
                trouble = (
                    f"column {name!r} holds a text of {len(value)} characters, and a cell at most {CELL_CHARACTERS}."
                )
                raise file_error(path, f"{trouble} Write .csv.")
            encoded(value, path)
            made = openpyxl.cell.WriteOnlyCell(sheet, value)
            made.data_type, made.number_format = "s", "@"  # a text, even where it begins with =
            return made
        if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
            if not math.isfinite(value) or (isinstance(value, int) and abs(value) > EXACT):
                trouble = f"column {name!r} holds {value}, which a workbook cannot hold. Write .csv, or make it a text."
                raise file_error(path, trouble)
            made = openpyxl.cell.WriteOnlyCell(sheet, str(value))
            made.data_type = "n"  # with all digits; as a number it would be cut to 16
            return made
        if getattr(value, "tzinfo", None) is not None:
            raise file_error(
                path, f"column {name!r} has a time zone, which a workbook cannot hold. Write .parquet or .csv."
            )
        return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value

    columns = [[cell(name, name), *(cell(value, name) for value in values_of(frame[name], path))] for name in frame]
    for row in zip(*columns, strict=True):  # a sheet that is begun must be ended: by now nothing is refused
        sheet.append(row)
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()
