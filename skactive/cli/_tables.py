"""Tables in files: read without a guess that changes a value, and written atomically.

Columns named in `text` (ids and labels) are read to the letter: "007", "1e5" and "NA" stay texts, and only an empty
cell is missing. Another column of .csv or .tsv, which have no types, holds numbers or booleans if every cell is one, or
one of `GAPS`; a column with leading zeros is text, and dates are text. Formats with types keep them; a column of mixed
types is text. Whole numbers are never floats that would lose digits: with gaps they are Int64, beyond 64 bits text.

A file that cannot be read says so in the words of the library that reads it, under one sentence that names the file.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import decimal
import errno
import functools
import gzip
import io
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = ",;\t|"
GAPS = ["NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NULL", "Null", "null", "None", "none"]
TRUE, FALSE = ["True", "true", "TRUE"], ["False", "false", "FALSE"]

WHOLE = r"^-?(0|[1-9][0-9]*)$"
NUMBER = r"(?i)^[+-]?(inf|infinity|((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?)$"
WITH_COMMA = NUMBER.replace(r"\.", ",")
TELEPHONE = r"^\+[0-9]{7}"
PARTED_THOUSANDS = r"^[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}$"

EXACT = 2**53
"""Up to here a float, and so a workbook, holds every whole number."""
SHEET_ROWS, CELL_CHARACTERS = 2**20, 2**15 - 1
"""The limits of a workbook; openpyxl would cut longer texts without a word."""


class FileError(ValueError):
    """What is wrong with a file, in one line that names it."""


# --- reading --------------------------------------------------------------------------------------


def read_table(path: str | os.PathLike[str], *, text: Iterable[str] = ()) -> pd.DataFrame:
    """Read a table from a file.

    Parameters
    ----------
    path : str or path
        Its format is told by its suffix, as in `FORMATS`; after those of text .gz may follow. Text is UTF-8, UTF-16
        with its mark, or Windows-1252.
    text : iterable of str
        Columns that are read as text, to the letter. They need not be there.

    Returns
    -------
    pandas.DataFrame
        With sentences that a user should know in ``attrs["notes"]``, such as "... is not UTF-8: read as ...".

    Raises
    ------
    FileError
        If the file is missing, damaged, or not the table that its name says it is.
    """
    path, as_text = Path(path), frozenset(text)
    notes: list[str] = []
    suffix = _format_of(path)
    _check_regular(path)
    with _told_of(path, "read"):
        names, columns = FORMATS[suffix][0](_content(path), as_text, notes)
        return _frame(names, columns, path, notes)


def read_parquet_files(paths: list[str], *, text: Iterable[str] = ()) -> pd.DataFrame:
    """Read a table whose rows are in several Parquet files, one after the other, all with the same columns."""
    import pyarrow as pa

    tables = []
    for path in map(Path, paths):
        _check_regular(path)
        with _told_of(path, "read"):
            tables.append(_parquet_table(path.read_bytes()))
            if tables[-1].column_names != tables[0].column_names:
                raise ValueError(f"its columns must be those of {paths[0]}")
    notes: list[str] = []
    with _told_of(Path(f"{paths[0]}, ..."), "read"):
        whole = pa.concat_tables(tables, promote_options="default")
        columns = [_of_parquet(*pair, text) for pair in zip(whole.column_names, whole.columns, strict=True)]
        return _frame(whole.column_names, columns, Path(paths[0]), notes)


@contextmanager
def _told_of(path: Path, done: str) -> Iterator[None]:
    """Whatever a library says of a file, on one line that begins with its name."""
    try:
        yield
    except FileError:
        raise
    except ImportError as error:
        library = (error.name or "").partition(".")[0]
        raise FileError(
            f'{path}: {library} is needed for this file: python -m pip install "skactive[tabular]"'
        ) from error
    except Exception as error:  # a damaged file can end in any error of the library
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise FileError(f"{path} cannot be {done}: {' '.join(str(said).split())}") from error


def _format_of(path: Path) -> str:
    """The suffix without .gz."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    is_packed = suffixes[-1:] == [".gz"]
    suffix = next(iter(suffixes[-2:-1] if is_packed else suffixes[-1:]), "")
    if suffix not in FORMATS or (is_packed and suffix in (".parquet", ".xlsx")):
        known = ", ".join(FORMATS)
        raise FileError(f"{path}: a table is told by its suffix, one of {known}; .gz may follow those of text.")
    return suffix


def _check_regular(path: Path) -> None:
    with suppress(OSError):  # of a name that the system refuses: reading says why
        if not path.exists():
            raise FileError(f"{path} does not exist.")
        if not path.is_file():
            raise FileError(f"{path} is no regular file.")


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix.lower() == ".gz" else content


def _frame(names: list[str], columns: list[Any], path: Path, notes: list[str]) -> pd.DataFrame:
    """The named columns. One without a name may be empty, or the index that pandas writes before all others."""
    import pandas as pd
    import pyarrow as pa

    kept: dict[str, Any] = {}
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        if name in kept:
            raise ValueError(f"several columns have the name {name!r}. Rename all but one.")
        is_counter = i == 0 and len(names) > 1 and column.type == pa.int64() and not column.null_count
        if name.startswith("__index_level_") or (not name and is_counter and len(column)):
            notes.append("the index that pandas wrote without a name was left out.")
        elif name:
            kept[name] = column
        elif column.null_count < len(column):
            raise ValueError(f"column {i + 1} has no name. Name it, or remove it.")
    if not kept:
        raise ValueError("the file has no column. It must begin with a header, the names of the columns.")
    frame = pd.DataFrame({name: _series(column) for name, column in kept.items()})
    frame.attrs["notes"] = [f"{path}: {note}" for note in notes]
    return frame


def _series(column: Any) -> pd.Series:
    """A column of Arrow in pandas; whole numbers and booleans with gaps in the types of pandas that have gaps."""
    import pandas as pd
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return pd.Series([math.nan] * len(column), dtype="float64")
    if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        name = {"bool": "boolean"}.get(str(column.type), str(column.type).replace("uint", "UInt").replace("int", "Int"))
        return column.to_pandas(types_mapper={column.type: pd.api.types.pandas_dtype(name)}.get)
    return column.to_pandas(date_as_object=False)


def _array(values: list[Any], as_text: bool, name: str, notes: list[str]) -> Any:
    """Python's own values as a column of Arrow: of one type if they have one, else text."""
    import pyarrow as pa

    if any(isinstance(value, dict | list) for value in values):
        raise ValueError(f"column {name!r} is nested, and a cell must be one value. Flatten it.")
    values = [None if value != value else value for value in values]  # NaN
    if not as_text:
        for cells in (values, [None if value in GAPS else value for value in values]):
            with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                return pa.array(cells)
        if {type(value) for value in values} <= {int, float, type(None)}:
            notes.append(_too_long(name))
    return pa.array([_plain_text(value) for value in values], pa.string())


def _plain_text(value: Any) -> str | None:
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


def _too_long(name: str) -> str:
    return f"column {name!r} holds whole numbers of too many digits: read as text."


def _decoded(content: bytes, notes: list[str]) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = content.decode("utf-16")
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            text = content.decode("cp1252")
            notes.append(f"it is not UTF-8 (line {line}): read as Windows-1252.")
    if "\0" in text:
        raise ValueError("it holds NUL characters, so it is no text. Save the table as UTF-8 text.")
    return text


# --- .csv and .tsv --------------------------------------------------------------------------------


def _read_delimited(
    content: bytes, as_text: frozenset[str], notes: list[str], preferred: str | None = None
) -> tuple[list[str], Any]:
    """Cells by Arrow, which refuses rows of another width; what it lacks is the delimiter and the types.

    pandas fills short rows with gaps and so does not see a missing delimiter.
    """
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import csv as arrow

    text = _decoded(content, notes).lstrip("\r\n")
    if told := re.match(f"sep=([{DELIMITERS}])[\r\n]+", text):  # which some programs write for spreadsheets
        text = text[told.end() :]
    delimiter = told[1] if told else _delimiter(text, preferred)
    if not text:
        raise ValueError("the file is empty. It must begin with a header, the names of the columns.")
    if text.count('"') % 2:
        _check_quotes(text, delimiter)
    width = len(next(csv.reader(io.StringIO(text[: 2**22], newline=""), delimiter=delimiter)))  # of the header
    table = arrow.read_csv(
        pa.BufferReader(f"\n{text}\n".encode()),  # after a line end, lest a second byte order mark be dropped
        # One thread numbers the rows in messages; blocks hold the longest row.
        arrow.ReadOptions(use_threads=False, block_size=2**26, autogenerate_column_names=True),
        arrow.ParseOptions(delimiter=delimiter, newlines_in_values='"' in text),
        arrow.ConvertOptions(
            column_types={f"f{i}": pa.string() for i in range(width)}, null_values=[""], strings_can_be_null=True
        ),
    )
    if (table.columns[-1][-1].as_py() or "").endswith("\n"):  # the last quote may be open up to the end
        _check_quotes(text, delimiter)
    names = [column[0].as_py() or "" for column in table.columns]
    filled = functools.reduce(compute.or_, map(compute.is_valid, table.columns))
    body = table.slice(1).filter(filled.slice(1))  # spreadsheets leave rows of delimiters alone
    return names, [
        column if name in as_text else _typed(column, name, delimiter == ";", notes)
        for name, column in zip(names, body.columns, strict=True)
    ]


def _delimiter(text: str, preferred: str | None) -> str:
    """Of those in the header: `preferred`, one that gives the first rows its width, or that of most columns."""
    sample = text[:100_000]
    found: list[tuple[bool, bool, int, int]] = []
    for place, mark in enumerate(DELIMITERS):
        widths = [len(row) for row in csv.reader(io.StringIO(sample, newline=""), delimiter=mark) if row]
        if len(sample) < len(text) and len(widths) > 1:
            widths.pop()  # of a row that the sample may cut
        if widths and widths[0] > 1:
            found.append((mark == preferred, set(widths) == {widths[0]}, widths[0], -place))
    return DELIMITERS[-max(found)[-1]] if found else ","


def _check_quotes(text: str, delimiter: str) -> None:
    """Refuse a quote that is never closed, which would swallow the rows below."""
    rows, line = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), 1
    try:
        for _ in rows:
            line = rows.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {line}: {error}. Is a quote never closed?") from error


def _typed(column: Any, name: str, semicolons: bool, notes: list[str]) -> Any:
    """A column of texts as numbers or booleans, if every text is one; else the texts."""
    import pyarrow as pa
    from pyarrow import compute

    missing = pa.scalar(None, pa.string())
    texts = compute.utf8_trim_whitespace(column)
    texts = compute.if_else(compute.is_in(texts, pa.array([*GAPS, ""])), missing, texts)
    if texts.null_count == len(texts):  # words for gaps alone are texts
        return pa.nulls(len(column)) if 0 < column.null_count == len(column) else column
    if compute.all(compute.or_kleene(compute.is_null(texts), compute.is_in(texts, pa.array(TRUE + FALSE)))).as_py():
        return compute.if_else(
            compute.is_null(texts), pa.scalar(None, pa.bool_()), compute.is_in(texts, pa.array(TRUE))
        )
    has_comma = semicolons and compute.any(compute.match_substring(texts, ",")).as_py()
    has_plus = compute.any(compute.starts_with(texts, "+")).as_py()
    if not _all_match(texts, WITH_COMMA if has_comma else NUMBER):
        return column
    if has_plus and compute.any(compute.match_substring_regex(texts, TELEPHONE)).as_py():
        return column
    if semicolons:
        marked = texts.filter(compute.match_substring_regex(texts, "[.,]"))
        if len(marked) and _all_match(marked, PARTED_THOUSANDS):
            shown = marked[0].as_py()
            notes.append(f"column {name!r}: {shown} is read as {shown.replace(',', '.')}, with a decimal mark.")
    texts = compute.utf8_ltrim(texts, "+") if has_plus else texts
    texts = compute.replace_substring(texts, ",", ".") if has_comma else texts
    if _all_match(texts, WHOLE):
        try:
            return texts.cast(pa.int64())
        except pa.ArrowInvalid:
            notes.append(_too_long(name))
            return column
    numbers = texts.cast(pa.float64())
    # A number with digits that is infinite has overflown: "1e999" is a text, "inf" a number beside others.
    overflown = compute.match_substring_regex(texts.filter(compute.is_inf(numbers)), "[0-9]")
    are_numbers = compute.any(compute.is_finite(numbers)).as_py() and not compute.any(overflown).as_py()
    return numbers if are_numbers else column


def _all_match(texts: Any, pattern: str) -> bool:
    from pyarrow import compute

    # The first hundred decide most columns of text, without a look at the others.
    parts = (texts.slice(0, 100), texts)
    return all(compute.all(compute.match_substring_regex(part, pattern), min_count=0).as_py() for part in parts)


def _write_delimited(frame: pd.DataFrame, delimiter: str) -> bytes:
    # A name with any delimiter is quoted: the header is to tell which one the file has.
    needs_quotes = re.compile(f'["\r\n{DELIMITERS}]')
    names = ['"' + n.replace('"', '""') + '"' if needs_quotes.search(n) else n for n in frame.columns]
    rows = frame.to_csv(None, sep=delimiter, index=False, header=False, lineterminator="\r\n")  # quotes both characters
    text = delimiter.join(names) + "\r\n" + rows
    if "\0" in text:
        raise ValueError("a text holds the character NUL. Remove it.")
    # The mark of UTF-8 only where it matters: without it spreadsheets show, and save, other characters.
    return (b"" if text.isascii() else codecs.BOM_UTF8) + text.encode()


# --- .jsonl and .parquet --------------------------------------------------------------------------


def _read_lines(content: bytes, as_text: frozenset[str], notes: list[str]) -> tuple[list[str], list[Any]]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key comes twice")
        return dict(pairs)

    rows = []
    for number, line in enumerate(_decoded(content, notes).split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line, object_pairs_hook=once))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number} is no JSON object: {error}") from error
            if not isinstance(rows[-1], dict):
                raise ValueError(f"line {number} must be a JSON object, {{...}}")
    names = list(dict.fromkeys(name for row in rows for name in row))
    return names, [_array([row.get(name) for row in rows], name in as_text, name, notes) for name in names]


def _write_lines(frame: pd.DataFrame) -> bytes:
    rows = zip(*(_values(column) for _, column in frame.items()), strict=True)
    lines = [
        json.dumps(dict(zip(frame.columns, row, strict=True)), ensure_ascii=False, allow_nan=False, default=_plain_text)
        for row in rows
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _read_parquet(content: bytes, as_text: frozenset[str], notes: list[str]) -> tuple[list[str], list[Any]]:
    table = _parquet_table(content)
    pairs = zip(table.column_names, table.columns, strict=True)
    return table.column_names, [_of_parquet(name, column, as_text) for name, column in pairs]


def _parquet_table(content: bytes) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    return parquet.ParquetFile(pa.BufferReader(content)).read()  # which takes no columns from names of folders


def _of_parquet(name: str, column: Any, as_text: Iterable[str]) -> Any:
    """A column in a type that tables of all formats have."""
    import pyarrow as pa

    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        return _of_parquet(name, column.cast(kind.value_type), as_text)
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise ValueError(f"column {name!r} holds values of the kind {kind}, and a cell must be a text or a number.")
    if name in as_text and not (types.is_string(kind) or types.is_large_string(kind)):
        return _array(column.to_pylist(), True, name, [])
    if types.is_time(kind):
        return column.cast(pa.string())
    if types.is_decimal(kind):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:  # a fraction, or too many digits
            return column.cast(pa.float64() if kind.scale > 0 else pa.string())
    return column


def _write_parquet(frame: pd.DataFrame) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    target = io.BytesIO()
    parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), target)
    return target.getvalue()


# --- .xlsx ----------------------------------------------------------------------------------------


def _read_workbook(content: bytes, as_text: frozenset[str], notes: list[str]) -> tuple[list[str], list[Any]]:
    import openpyxl  # type: ignore[import-untyped]

    _check_formulas(content)
    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"] or book.worksheets
    sheet = book.active if book.active in sheets else sheets[0]
    if len(sheets) > 1:
        notes.append(f"of {len(sheets)} sheets, {sheet.title!r} was read.")
    sheet.reset_dimensions()  # not every program writes the right ones
    cells = [row for row in sheet.iter_rows() if any(cell.value not in (None, "") for cell in row)]
    if not cells:
        raise ValueError("the sheet is empty. It must begin with a header, the names of the columns.")
    errors = [cell.coordinate for row in cells for cell in row if cell.data_type == "e"]
    if errors:
        notes.append(f"{len(errors)} cells that hold an error are missing values, {errors[0]} the first.")
    width = max(map(len, cells))
    names = [_plain_text(_value(cell, True)) or "" for cell in cells[0]]
    names += [""] * (width - len(names))
    columns = [
        [_value(row[i], name in as_text) if i < len(row) else None for row in cells[1:]] for i, name in enumerate(names)
    ]
    return names, [_array(values, name in as_text, name, notes) for name, values in zip(names, columns, strict=True)]


def _value(cell: Any, as_text: bool) -> Any:
    """The value of a cell; as text with the zeros that a format like 000 shows before it."""
    value = cell.value
    if value == "" or cell.data_type == "e":
        return None
    if isinstance(value, str):
        return re.sub("_x([0-9A-Fa-f]{4})_", lambda found: chr(int(found[1], 16)), value)  # as workbooks write them
    if as_text and type(value) is int and set(cell.number_format) == {"0"}:
        return str(value).zfill(len(cell.number_format))
    return value


def _check_formulas(content: bytes) -> None:
    """Refuse formulas whose results were never saved: they would be empty cells."""
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for name in packed.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                without = rb'<c [^>]*?r="([A-Z]+[0-9]+)"[^>]*><f(?:[^>]*/>|[^>]*>[^<]*</f>)(?:<v\s*/>|<v></v>)?</c>'
                if found := re.search(without, packed.read(name)):
                    raise ValueError(f"cell {found[1].decode()} holds a formula without a result: open and save it.")


def _write_workbook(frame: pd.DataFrame) -> bytes:
    import openpyxl

    if len(frame) >= SHEET_ROWS:
        raise ValueError(f"a sheet holds {SHEET_ROWS - 1} rows, and there are {len(frame)}. Write .csv.")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("table")

    def cell(value: Any) -> Any:
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

    columns = [[cell(name), *map(cell, _values(frame[name]))] for name in frame]
    for row in zip(*columns, strict=True):  # a sheet that is begun must be ended: by now nothing is refused
        sheet.append(row)
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


# --- writing --------------------------------------------------------------------------------------


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write the columns of a table, without its index, to a file that is there whole or not at all.

    Missing values are empty cells, and null in .jsonl. In a workbook texts are cells of text, which keep "03" as it is,
    also when a person edits them.

    Parameters
    ----------
    frame : pandas.DataFrame
    path : str or path
        As in `read_table`.
    force : bool
        Whether a file that exists may be replaced.

    Raises
    ------
    FileError
        If the file exists, cannot be written, or its format cannot hold a value without changing it.
    """
    path = Path(path)
    content = packed(frame, path)
    with atomic_write(path, force=force) as temporary:
        temporary.write_bytes(content)


def packed(frame: pd.DataFrame, path: Path) -> bytes:
    """The content of the file."""
    suffix = _format_of(path)
    with _told_of(path, "written"):
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        if len({*frame.columns} - {""}) < frame.shape[1]:
            raise ValueError("columns must have names that differ.")
        content = FORMATS[suffix][1](frame)
        return gzip.compress(content, mtime=0) if path.suffix.lower() == ".gz" else content


def _values(column: pd.Series) -> list[Any]:
    """A column as Python's own values, None where one is missing."""
    import pandas as pd

    pairs = zip(column.astype(object).tolist(), column.isna().tolist(), strict=True)
    values = [None if gap else value.item() if hasattr(value, "item") else value for value, gap in pairs]
    if any(isinstance(value, dict | list) for value in values):
        raise ValueError(f"column {column.name!r} is nested, and a cell must be one value. Flatten it.")
    return [value.to_pydatetime(warn=False) if isinstance(value, pd.Timestamp) else value for value in values]


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A temporary file in the same folder, to be written, that replaces `path` at the end.

    After any error (a full disk, Ctrl-C) it is gone, and `path` is as it was. A link is followed.

    Raises
    ------
    FileError
        If the file exists and there is no `force`, or it cannot be written.
    """
    path = Path(path)
    check_target(path, force)
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        check_target(path, force)  # it may have come in the meantime
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except OSError as error:
        if error.filename not in (None, str(temporary), temporary):
            raise
        remedy = " Make room." if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise FileError(f"{path} could not be written: {error.strerror or error}.{remedy}") from error
    finally:
        temporary.unlink(missing_ok=True)


def check_target(path: Path, force: bool) -> None:
    """Refuse a path where no file can be written, or one is."""
    try:
        if not path.parent.is_dir():
            raise FileError(f"{path} cannot be written: there is no folder {path.parent}. Make it first.")
        if path.exists() and not path.is_file():
            raise FileError(f"{path} is no regular file. Name another file.")
        if path.exists() and not force:
            raise FileError(f"{path} exists. --force overwrites it, or name another file.")
    except OSError as error:  # a name that the system refuses
        raise FileError(f"{path} cannot be written: {error.strerror}.") from error


FORMATS: dict[str, tuple[Callable[..., tuple[list[str], list[Any]]], Callable[[pd.DataFrame], bytes]]] = {
    ".csv": (_read_delimited, functools.partial(_write_delimited, delimiter=",")),
    ".tsv": (functools.partial(_read_delimited, preferred="\t"), functools.partial(_write_delimited, delimiter="\t")),
    ".jsonl": (_read_lines, _write_lines),
    ".ndjson": (_read_lines, _write_lines),
    ".parquet": (_read_parquet, _write_parquet),
    ".xlsx": (_read_workbook, _write_workbook),
}
"""How the content of each format is read, to names and columns of Arrow, and how it is made of a table."""
