"""Tables in files, as people keep them: read without a guess that spoils them, and written whole or not at all.

What comes of a cell:

* Columns named in `text` (ids, most often the target) come as they stand: "03", "1e5" and "NA" are texts, and only an
  empty cell is missing. A number that stands there in a format that has numbers is written out, without ".0".
* In .csv and .tsv, which have no types, another column is a column of numbers if every cell is one, and of truths if
  every cell is true or false, in any of three spellings. The words for a gap ("NA", "null", ...) are gaps among
  these, and texts among texts. A column with leading zeros is one of codes: text. Dates stay text: what a model makes
  of them is its own affair.
* Whole numbers are int64, with gaps Int64: never a float that would lose digits; beyond 64 bits they stay text.
* What the formats with types hold is kept: a text "3" of a workbook is a text. A column of several kinds is text.

What the formats cannot tell apart: in .csv, .tsv and .xlsx an empty text is a missing one, and a row without any value
is no row, and is not written. In .csv and .tsv a text that looks like a number comes as a number, unless its column is
named in `text`. Dates are text in all but .parquet and .xlsx; a workbook keeps milliseconds.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import decimal
import errno
import gzip
import importlib
import io
import json
import math
import os
import re
import secrets
import stat
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".ndjson.gz", ".parquet", ".xlsx")
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
GAPS = ["NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NULL", "Null", "null", "None", "none"]
TRUE, FALSE = ["True", "true", "TRUE"], ["False", "false", "FALSE"]
NUMBER = re.compile(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE)
WHOLE = "^-?[0-9]+$"
DECIMAL_COMMA = "^-?[0-9]*,?[0-9]+([eE][+-]?[0-9]+)?$"
CODE = r"^[+-]?0[0-9xX]|^\+[0-9]{7}"
CODE_STARTS = [f"{first}{second}".encode() for first in "0+" for second in "0123456789xX"] + [b"-0"]
EXACT = 2**53
"""Up to here a float, and so a workbook, holds every whole number."""
SHEET_ROWS, SHEET_COLUMNS, CELL_CHARACTERS = 2**20, 2**14, 2**15 - 1
"""The limits of a workbook. Its usual library would cut longer texts without a word."""


class FileError(ValueError):
    """What is wrong with a file, in one line: the file, the line where it is known, the trouble, the remedy."""


def _error(path: Any, trouble: str, line: int | None = None, *, unit: str = "line") -> FileError:
    return FileError(f"{path}{'' if line is None else f', {unit} {line}'}: {' '.join(trouble.split())}")


def _library(module: str, path: Any) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        trouble = f'{name} is needed for this file: python -m pip install "skactive[tabular]"'
        raise _error(path, trouble) from error


def _format_of(path: Path) -> tuple[str, bool]:
    """The kind of a file by its name, and whether it is packed by gzip."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if path.name.lower().endswith(suffix):
            kind = suffix.removesuffix(".gz").removeprefix(".")
            return "jsonl" if kind == "ndjson" else kind, suffix.endswith(".gz")
    raise _error(path, f"a table is told by the end of its name, which must be one of {', '.join(SUFFIXES)}.")


# --- reading --------------------------------------------------------------------------------------


def read_table(path: str | os.PathLike[str], *, text: Iterable[str] = ()) -> pandas.DataFrame:
    """Read a table from a file.

    Parameters
    ----------
    path : str or path
        A file in one of the formats of `SUFFIXES`, told by its name. Texts may be in UTF-8, in UTF-16 with its mark, or
        in Windows-1252; the delimiter is found from the header.
    text : iterable of str
        Columns that are read as text, as they stand. Those that the file does not have are no error.

    Returns
    -------
    pandas.DataFrame
        With an index that counts from 0, no rows if there is a header only, and in ``attrs["notes"]`` a list of
        sentences that the reader of the file should know, such as "week1.csv is not UTF-8 (line 3): ...".

    Raises
    ------
    FileError
        The file is missing, unreadable, empty, damaged, or not the table that its name says it is.
    """
    path, names = Path(path), {text} if isinstance(text, str) else set(text)
    kind, zipped = _format_of(path)
    pandas = _library("pandas", path)
    _library("pyarrow.compute", path)
    notes: list[str] = []
    columns = _READERS[kind](_content(path, zipped), path, names, notes)
    frame = pandas.DataFrame(columns)
    frame.attrs["notes"] = notes
    return frame


def _content(path: Path, zipped: bool) -> bytes:
    try:
        if path.exists() and not path.is_file():
            trouble = "is a folder. Name a file in it." if path.is_dir() else "is not a regular file."
            raise FileError(f"{path} {trouble}")
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise FileError(f"{path} does not exist.") from error
    except OSError as error:
        raise _error(path, f"it cannot be read: {error.strerror}.") from error
    if zipped:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise _error(path, "what gzip packed is damaged or cut off. Copy the file again.") from error
    if not content:
        raise _error(path, "the file is empty. It must begin with a header, the names of the columns.")
    return content


def _kept_columns(
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
            raise _error(path, f"column {i + 1} has no name. Name it, or remove it.", line, unit=unit)
    _check_no_name_twice([name for name in names if name], path, line, unit)
    if not kept:
        trouble = "no column has a name. A table must begin with the names of its columns."
        raise _error(path, trouble, line, unit=unit)
    return kept


def _check_no_name_twice(names: Sequence[str], path: Path, line: int | None = None, unit: str = "line") -> None:
    if len(set(names)) < len(names):
        name = next(name for i, name in enumerate(names) if name in names[:i])
        raise _error(path, f"{names.count(name)} columns have the name {name!r}. Rename all but one.", line, unit=unit)


def _counts(column: Any) -> bool:
    import pyarrow

    if isinstance(column, list):
        return all(type(value) is int for value in column)
    try:
        return bool(column.null_count == 0 and column.cast(pyarrow.int64()) is not None)
    except pyarrow.ArrowInvalid:
        return False


def _series(column: Any, path: Path, name: str, notes: list[str]) -> pandas.Series:
    """A column of Arrow as one of pandas that holds the same values."""
    import pandas
    import pyarrow
    from pyarrow import compute, types

    if isinstance(column, pyarrow.Array):
        column = pyarrow.chunked_array([column])
    kind = column.type
    if types.is_dictionary(kind):
        return _series(column.cast(kind.value_type), path, name, notes)
    if types.is_decimal(kind):
        try:
            whole = column.cast(pyarrow.int64())
        except pyarrow.ArrowInvalid:
            if kind.scale > 0:
                return _series(column.cast(pyarrow.float64()), path, name, notes)
            notes.append(_too_long(path, name))
            whole = pyarrow.array([_as_text(value) for value in column.to_pylist()], pyarrow.string())
        return _series(whole, path, name, notes)
    if types.is_time(kind):
        return _series(column.cast(pyarrow.string()), path, name, notes)
    if types.is_string(kind) or types.is_large_string(kind):
        return column.to_pandas()
    if types.is_null(kind):
        return pandas.Series(np.full(len(column), np.nan))
    if column.null_count and (types.is_integer(kind) or types.is_boolean(kind)):
        values = compute.fill_null(column, False if types.is_boolean(kind) else 0).to_numpy()
        make = pandas.arrays.BooleanArray if types.is_boolean(kind) else pandas.arrays.IntegerArray
        return pandas.Series(make(values, column.is_null().to_numpy()))
    return column.to_pandas(date_as_object=False)


def _too_long(path: Path, name: str) -> str:
    return f"{path}: column {name!r} holds whole numbers of more than 64 bits: read as text."


def _as_text(value: Any) -> str | None:
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
        raise _error(path, trouble, line, unit=unit)


def _column(
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
            notes.append(_too_long(path, name))
    if kind == pyarrow.string():
        values = [_as_text(value) for value in values]
    try:
        return _series(pyarrow.array(values, kind), path, name, notes)
    except UnicodeEncodeError as error:
        raise _error(path, f"column {name!r} holds half of a character (a lone surrogate). Remove it.") from error


# --- .csv and .tsv


def _read_delimited(kind: str) -> Callable[[bytes, Path, set[str], list[str]], dict[str, pandas.Series]]:
    def read(content: bytes, path: Path, text: set[str], notes: list[str]) -> dict[str, pandas.Series]:
        import pyarrow
        from pyarrow import compute

        content = _utf8(content, path, notes)
        with _long_cells():
            header = _Header(content, path, kind)
        columns = _cells(content, header, path)
        if all(column.null_count for column in columns):  # a row without any cell may be among them
            filled = columns[0].is_valid()
            for column in columns[1:]:
                filled = compute.or_(filled, column.is_valid())
            columns = [column.filter(filled) for column in columns]
        columns += [pyarrow.nulls(len(columns[0]), pyarrow.string())] * (len(header.names) - len(columns))
        names = header.names + [""] * (len(columns) - len(header.names))
        kept = _kept_columns(names, columns, path, header.line, "line", notes)
        comma = header.delimiter == ";"
        return {
            name: _series(column if name in text else _typed(column, comma, path, name, notes), path, name, notes)
            for name, column in kept
        }

    return read


def _utf8(content: bytes, path: Path, notes: list[str]) -> bytes:
    """The text in UTF-8, without a mark at its head."""
    for start, other in ((b"PK\x03\x04", ".xlsx"), (b"PAR1", ".parquet"), (b"\x1f\x8b", f"{path.suffix}.gz")):
        if content.startswith(start):
            raise _error(path, f"this is no text. If it is a file of the kind {other}, name it so.")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            content = content.decode("utf-16").encode("utf-8")
        except UnicodeDecodeError as error:
            raise _error(path, "its mark says UTF-16, and it is not. Save it as UTF-8.") from error
    content = content.removeprefix(codecs.BOM_UTF8)
    binary = _error(path, "this is no text: it holds bytes that are no characters. Save the table as UTF-8 text.")
    if b"\0" in content:
        raise binary
    try:
        decoder = codecs.getincrementaldecoder("utf-8")()
        for position in range(0, len(content), 2**20):
            place = position - len(decoder.getstate()[0])
            decoder.decode(content[position : position + 2**20], final=position + 2**20 >= len(content))
    except UnicodeDecodeError as error:
        if re.search(rb"[\x00-\x08\x0e-\x1f]", content):
            raise binary from error
        line = content.count(b"\n", 0, place + error.start) + 1
        try:
            name, content = "Windows-1252", content.decode("cp1252").encode("utf-8")
        except UnicodeDecodeError:  # five bytes are nothing there
            name, content = "Latin-1", content.decode("latin-1").encode("utf-8")
        notes.append(f"{path} is not UTF-8 (line {line}): read as {name}.")
    return content


def _lines(content: bytes) -> Iterator[str]:
    return io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")


@contextmanager
def _long_cells() -> Iterator[None]:
    """Python's own reader, which finds headers and words errors, takes cells of any length."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


class _Header:
    """The first line of a text that is not empty: names, what stands between them, and where it ends."""

    def __init__(self, content: bytes, path: Path, kind: str) -> None:
        self.path, self.line, self.length, self.n_lines = path, 0, 0, 0
        lines = _lines(content)
        whole = ""
        for line in lines:
            self.n_lines += 1
            self.length += len(line.encode())
            whole += line
            if not whole.strip("\r\n") or re.fullmatch(f"sep=[{''.join(DELIMITERS)}]", whole.strip()):
                whole = ""  # the second is what some programs write for spreadsheets
                continue
            self.line = self.line or self.n_lines
            if whole.count('"') % 2 == 0:
                break
        if not whole:
            raise _error(path, "the file is empty. It must begin with a header, the names of the columns.")
        if whole.count('"') % 2:
            raise _error(path, "a quote of the header is opened and never closed.", self.line)
        sample = [line for line, _ in zip(lines, range(50), strict=False)]
        bare = re.sub('"[^"]*"', "", whole)
        found = sorted((mark for mark in DELIMITERS if mark in bare), key=bare.count, reverse=True) or [","]
        if kind == "tsv" and "\t" in found:
            found = ["\t"]
        fitting = [mark for mark in found if self._fits(whole, sample, mark)]
        self.delimiter = (fitting or found)[0]
        self.names = next(csv.reader([whole], delimiter=self.delimiter))
        first = next(filter(None, csv.reader(sample, delimiter=self.delimiter)), self.names)
        self.width = len(first) if self._ends_open(first) else len(self.names)

    def _ends_open(self, row: list[str]) -> bool:
        """Whether the header or the row alone has a delimiter at its end."""
        more = len(row) - len(self.names)
        return (more == 1 and row[-1] == "") or (more == -1 and self.names[-1] == "")

    def _fits(self, whole: str, sample: list[str], mark: str) -> bool:
        self.names = next(csv.reader([whole], delimiter=mark))
        rows = list(filter(None, csv.reader(sample, delimiter=mark)))[: -1 if len(sample) == 50 else None]
        return all(len(row) == len(self.names) or self._ends_open(row) for row in rows)


def _cells(content: bytes, header: _Header, path: Path) -> list[Any]:
    """The cells below the header as columns of texts; empty ones are missing."""
    import pyarrow
    from pyarrow import csv as arrow

    names = [str(i) for i in range(header.width)]
    n_quotes = content.count(b'"', header.length)
    if not content[header.length :].lstrip(b"\r\n"):
        return [pyarrow.chunked_array([], pyarrow.string()) for _ in names]
    body = pyarrow.py_buffer(content).slice(header.length - 1)  # with a line end, lest a U+FEFF be taken for a mark
    if n_quotes % 2:
        _check_rows(content, header, path)
    converting = arrow.ConvertOptions(
        column_types=dict.fromkeys(names, pyarrow.string()), null_values=[""], strings_can_be_null=True
    )
    parsing = arrow.ParseOptions(delimiter=header.delimiter, newlines_in_values=n_quotes > 0)
    for block in (2**22, min(len(content) + 1, 2**31 - 1)):  # a row must fit into a block
        try:
            reading = arrow.ReadOptions(column_names=names, block_size=block)
            table = arrow.read_csv(
                pyarrow.BufferReader(body), read_options=reading, parse_options=parsing, convert_options=converting
            )
            return list(table.columns)
        except pyarrow.ArrowInvalid as error:
            problem = error
    _check_rows(content, header, path)
    raise _error(path, f"it cannot be read as a table: {problem}") from problem


def _check_rows(content: bytes, header: _Header, path: Path) -> None:
    """Find the line that has too many cells, or too few, or a quote without an end."""
    mark, width = header.delimiter, header.width
    pending: list[str] = []  # the lines of the row that is being read

    def lines() -> Iterator[str]:
        for i, line in enumerate(_lines(content)):
            if i >= header.n_lines:
                pending.append(line)
                yield line

    with _long_cells():
        line = header.n_lines + 1
        for row in csv.reader(lines(), delimiter=mark):
            try:
                list(csv.reader(pending, delimiter=mark, strict=True))
            except csv.Error as error:
                if "unexpected end" in str(error):
                    trouble = (
                        "a quote is opened here and never closed. Close it, or double it if it belongs to the text."
                    )
                    raise _error(path, trouble, line) from error
            if row and len(row) != width:
                cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                remedy = f"Quote cells that hold a {DELIMITERS[mark]}."
                if len(row) < width:
                    remedy = f"Is a {DELIMITERS[mark]} missing? Quote cells that hold a line break."
                raise _error(path, f"{cells}, where the header has {width}. {remedy}", line)
            line += len(pending)
            pending.clear()


def _typed(column: Any, comma: bool, path: Path, name: str, notes: list[str]) -> Any:
    """A column of texts as numbers or truths, if each of them is one."""
    import pyarrow
    from pyarrow import compute

    if column.null_count == len(column):
        return pyarrow.nulls(len(column)) if len(column) else column
    head = column.slice(0, 1000).drop_null() if column.slice(0, 1000).null_count < 1000 else column.drop_null()
    head = head.slice(0, 100).to_pylist()
    if all(value in TRUE + FALSE + GAPS for value in head):
        truths = compute.is_in(column, pyarrow.array(TRUE))
        decided = compute.or_(truths, compute.is_in(column, pyarrow.array(FALSE)))
        known = compute.or_(decided, compute.is_in(column, pyarrow.array([*GAPS, None], pyarrow.string())))
        if compute.any(decided).as_py() and compute.all(known).as_py():
            return compute.if_else(decided, truths, pyarrow.scalar(None, pyarrow.bool_()))
    if all(NUMBER.fullmatch(value.strip()) or value.strip() in GAPS for value in head):
        numbers = _numbers(column)
        if numbers is None or (
            numbers.type == pyarrow.float64() and compute.any(compute.starts_with(column, "+")).as_py()
        ):
            texts = _plainly(column, comma, path, name, notes)
            numbers = _numbers(texts)
            if (
                numbers is None
                and compute.all(compute.match_substring_regex(texts, WHOLE)).as_py()
                and not _codes(texts)
            ):
                notes.append(_too_long(path, name))
        return column if numbers is None else numbers
    return column


def _plainly(column: Any, comma: bool, path: Path, name: str, notes: list[str]) -> Any:
    """The same numbers as Arrow reads them: no spaces around, no plus, no words for a gap, a point as decimal mark."""
    import pyarrow
    from pyarrow import compute

    texts = compute.utf8_trim_whitespace(column)
    texts = compute.if_else(
        compute.is_in(texts, pyarrow.array([*GAPS, ""])), pyarrow.scalar(None, pyarrow.string()), texts
    )
    if not _codes(texts):
        texts = compute.replace_substring_regex(texts, r"^\+([0-9.,])", r"\1")
    with_comma = texts.filter(compute.match_substring(texts, ","))
    if comma and len(with_comma):
        if not compute.all(compute.match_substring_regex(texts, DECIMAL_COMMA)).as_py():
            return texts  # commas and points, which make no column of numbers
        if compute.all(compute.match_substring_regex(with_comma, "^-?[1-9][0-9]{0,2},[0-9]{3}$")).as_py():
            shown = with_comma[0].as_py()
            point = shown.replace(",", ".")
            notes.append(f"{path}: column {name!r}: {shown} is read as {point}, with a decimal comma.")
        texts = compute.replace_substring(texts, ",", ".")
    return texts


def _numbers(texts: Any) -> Any:
    """The numbers of these texts, if they are all numbers that keep what the text says; else None."""
    import pyarrow
    from pyarrow import compute

    if texts.null_count == len(texts) or _codes(texts):
        return None
    try:
        return texts.cast(pyarrow.int64())
    except pyarrow.ArrowInvalid:
        pass
    try:
        numbers = texts.cast(pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return None
    spread = compute.min_max(numbers).as_py()
    if spread["max"] >= 2**63 or spread["min"] < -(2**63):
        if compute.all(compute.match_substring_regex(texts, WHOLE)).as_py():
            return None
        endless = texts.filter(compute.is_inf(numbers))
        spelled = compute.match_substring_regex(endless, "^-?inf(inity)?$", ignore_case=True)
        if not compute.all(spelled, min_count=0).as_py():
            return None
    return numbers if compute.any(compute.is_finite(numbers)).as_py() else None


def _codes(texts: Any) -> bool:
    """Whether one begins with a zero that a number would lose (0x1F is none either), or is a telephone number."""
    import pyarrow
    from pyarrow import compute

    starts = compute.binary_slice(texts.cast(pyarrow.binary()), 0, 2)
    some = texts.filter(compute.is_in(starts, pyarrow.array(CODE_STARTS, pyarrow.binary())))
    return len(some) > 0 and compute.any(compute.match_substring_regex(some, CODE)).as_py()


# --- .jsonl


def _read_lines(content: bytes, path: Path, text: set[str], notes: list[str]) -> dict[str, pandas.Series]:
    content = _utf8(content, path, notes)
    rows: list[dict[str, Any]] = []
    lines: list[int] = []

    def pairs(given: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(given)
        if len(made) < len(given):
            _check_no_name_twice([name for name, _ in given], path, number)
        return made

    decoder = json.JSONDecoder(object_pairs_hook=pairs)
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = decoder.decode(line.decode().strip(" \t\r"))
        except (json.JSONDecodeError, RecursionError) as error:
            where = f" at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise _error(path, f"this is no JSON{where}. Each line must be one object.", number) from error
        except ValueError as error:
            raise error if isinstance(error, FileError) else _error(path, f"{error}.", number) from error
        if not isinstance(row, dict):
            raise _error(
                path, f"each line must be an object, {{...}}. Got {line[:40].decode(errors='replace')}.", number
            )
        for name, value in row.items():
            if isinstance(value, dict | list):
                trouble = f"{name!r} is nested, and a cell must be one value. Flatten it."
                raise _error(path, trouble, number)
        rows.append(row)
        lines.append(number)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        raise _error(path, "it holds no row with a value, and so no column. Each line must be an object, {...}.")
    if "" in names:
        raise _error(
            path, "a column has an empty name. Name it.", lines[next(i for i, r in enumerate(rows) if "" in r)]
        )
    return {
        name: _column([row.get(name) for row in rows], path, name, name in text, notes, lines, "line") for name in names
    }


# --- .parquet


def _read_parquet(content: bytes, path: Path, text: set[str], notes: list[str]) -> dict[str, pandas.Series]:
    import pyarrow
    from pyarrow import types

    parquet = _library("pyarrow.parquet", path)
    try:
        table = parquet.ParquetFile(pyarrow.BufferReader(content)).read()
    except (pyarrow.ArrowException, OSError) as error:
        raise _error(path, "this is no Parquet file, or a damaged or cut one. Copy or write it again.") from error
    made = {}
    _check_no_name_twice(table.column_names, path)
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if name.startswith("__index_level_"):
            notes.append(f"{path}: the index that pandas wrote without a name was left out.")
            continue
        if not name:
            raise _error(path, "a column has an empty name. Name it.")
        if types.is_nested(kind):
            raise _error(path, f"column {name!r} is nested ({kind}), and a cell must be one value. Flatten it.")
        known = (types.is_temporal, types.is_string, types.is_large_string, types.is_null, types.is_boolean)
        if not any(check(kind) for check in (*known, types.is_integer, types.is_floating, types.is_decimal)):
            raise _error(path, f"column {name!r} holds values of the kind {kind}. Write it as texts or numbers.")
        if name in text and not (types.is_string(kind) or types.is_large_string(kind)):
            values = column.to_pylist()
            made[name] = _column(values, path, name, True, notes, range(1, len(values) + 1), "row")
        else:
            made[name] = _series(column, path, name, notes)
    if not made:
        raise _error(path, "it has no column.")
    return made


# --- .xlsx


def _read_workbook(content: bytes, path: Path, text: set[str], notes: list[str]) -> dict[str, pandas.Series]:
    openpyxl = _library("openpyxl", path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and other things that no value hangs on
            rows, formats = _sheet(openpyxl, content, path, notes)
    except FileError:
        raise
    except Exception as error:
        remedy = "Save it as .xlsx without a password."
        raise _error(path, f"this is no workbook, or a damaged or locked one. {remedy}") from error
    if not rows:
        raise _error(path, "the sheet is empty. It must begin with a header, the names of the columns.")
    (first, header), *rest = rows
    width = max(i + 1 for i, value in enumerate(header) if value is not None)
    names = [_as_text(value) or "" for value in header[:width]]
    for number, row in rest:
        if any(value is not None for value in row[width:]):
            trouble = f"a value stands to the right of the last named column, {names[-1]!r}. Name its column."
            raise _error(path, trouble, number, unit="row")
    lines = [number for number, _ in rest]
    columns = [[row[i] if i < len(row) else None for _, row in rest] for i in range(width)]
    for i, name in enumerate(names):
        if name in text:
            columns[i] = [
                str(value).zfill(formats.get((number, i), 0)) if type(value) is int and value >= 0 else value
                for number, value in zip(lines, columns[i], strict=True)
            ]
    kept = _kept_columns(names, columns, path, first, "row", notes)
    return {name: _column(values, path, name, name in text, notes, lines, "row") for name, values in kept}


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
                raise _error(path, trouble)


_READERS: dict[str, Callable[[bytes, Path, set[str], list[str]], dict[str, pandas.Series]]] = {
    "csv": _read_delimited("csv"),
    "tsv": _read_delimited("tsv"),
    "jsonl": _read_lines,
    "parquet": _read_parquet,
    "xlsx": _read_workbook,
}


# --- writing --------------------------------------------------------------------------------------


def write_table(frame: pandas.DataFrame, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write a table to a file, whole or not at all.

    Missing values are empty cells, and null in .jsonl. Texts are in UTF-8, with its mark at the head of a .csv or .tsv
    if a character is not ASCII: without it a spreadsheet would show, and then save, other characters. In a workbook
    texts are cells of text, which keep "03" as it is, also when a person edits them.

    Parameters
    ----------
    frame : pandas.DataFrame
        Its columns, after those of its index that have a name. Cells are texts, numbers, truths, dates, or missing.
    path : str or path
        A file in one of the formats of `SUFFIXES`, told by its name.
    force : bool
        Whether a file that is there may be written over.

    Raises
    ------
    FileError
        There is such a file, the folder is missing or full, or the format cannot hold a value without changing it.
    """
    path = Path(path)
    kind, zipped = _format_of(path)
    _check_target(path, force)
    named = [i for i, name in enumerate(frame.index.names) if name is not None]
    index = {str(frame.index.names[i]): frame.index.get_level_values(i) for i in named}
    names = [*index, *(str(name) for name in frame.columns)]
    if "" in names:
        raise _error(path, f"column {names.index('') + 1} of the table has no name. Name it.")
    _check_no_name_twice(names, path)
    frame = frame.reset_index(drop=True).set_axis(names[len(index) :], axis=1)
    for i, (name, values) in enumerate(index.items()):
        frame.insert(i, name, values)
    if kind in {"csv", "tsv", "xlsx"}:
        _check_no_blank_row(frame, path)
    content = _WRITERS[kind](frame, path)
    if zipped:
        content = gzip.compress(content, mtime=0)
    with written_whole(path, force=force) as unfinished:
        unfinished.write_bytes(content)


def _check_no_blank_row(frame: pandas.DataFrame, path: Path) -> None:
    blank = np.full(len(frame), frame.shape[1] > 0)
    for name in frame:
        blank[blank] = [value is None or value != value or value == "" for value in _values(frame[name][blank], path)]
        if not blank.any():
            return
    if blank.any():
        trouble = f"row {np.argmax(blank) + 1} of the table has no value, and would be no row here. Leave it out."
        raise _error(path, trouble)


def _values(column: pandas.Series, path: Path) -> list[Any]:
    """A column as Python's own values, None where one is missing."""
    filled = column.notna().tolist()
    values = [value if there else None for value, there in zip(column.astype(object).tolist(), filled, strict=True)]
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    known = (str, bool, int, float, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta, type(None))
    for value in values:
        if not isinstance(value, known):
            raise _error(path, f"column {column.name!r} holds a {type(value).__name__}. Make it a text or numbers.")
    return values


def _encoded(text: str, path: Path) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        trouble = f"{text[max(error.start - 20, 0) : error.start]!r} is followed by half of a character. Remove it."
        raise _error(path, trouble) from error


def _write_delimited(mark: str) -> Callable[[pandas.DataFrame, Path], bytes]:
    def write(frame: pandas.DataFrame, path: Path) -> bytes:
        for name, column in frame.items():
            if column.dtype == object:
                _values(column.rename(name), path)
        quoting = re.compile(
            f'["\r\n{"".join(DELIMITERS)}]'
        )  # of a name with any delimiter: the header is to tell which it is
        names = ['"' + name.replace('"', '""') + '"' if quoting.search(name) else name for name in frame.columns]
        for end in ("\n", "\r\n"):  # the writer quotes what holds a character of its line ends
            rows = frame.to_csv(None, sep=mark, index=False, header=False, lineterminator=end)
            if "\r" not in rows:
                break
        text = mark.join(names) + end + rows
        if "\0" in text:
            raise _error(path, "a text holds a character NUL, which no table of text can hold. Remove it.")
        return (b"" if text.isascii() else codecs.BOM_UTF8) + _encoded(text, path)

    return write


def _write_lines(frame: pandas.DataFrame, path: Path) -> bytes:
    def plain(value: Any) -> Any:
        return value if isinstance(value, str | int | float | None) else _as_text(value)

    columns = [map(plain, _values(column, path)) for _, column in frame.items()]
    try:
        rows = zip(*columns, strict=True)
        made = [
            json.dumps(dict(zip(frame.columns, row, strict=True)), ensure_ascii=False, allow_nan=False) for row in rows
        ]
    except ValueError as error:
        raise _error(path, "a number is infinite, which JSON cannot hold. Write .csv or .parquet.") from error
    return _encoded("".join(f"{line}\n" for line in made), path)


def _write_parquet(frame: pandas.DataFrame, path: Path) -> bytes:
    pyarrow, parquet = _library("pyarrow", path), _library("pyarrow.parquet", path)
    for name, column in frame.items():
        kinds = {type(value) for value in _values(column, path)} - {type(None)} if column.dtype == object else set()
        if len(kinds) > 1:
            some = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise _error(path, f"column {name!r} holds values of several kinds ({some}). Make them all texts.")
    target = io.BytesIO()
    try:
        parquet.write_table(pyarrow.Table.from_pandas(frame, preserve_index=False), target)
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise _error(path, f"Parquet cannot hold the table: {error}") from error
    return target.getvalue()


def _write_workbook(frame: pandas.DataFrame, path: Path) -> bytes:
    openpyxl = _library("openpyxl", path)
    if len(frame) >= SHEET_ROWS or frame.shape[1] > SHEET_COLUMNS:
        trouble = f"a sheet holds {SHEET_ROWS - 1} rows and {SHEET_COLUMNS} columns. Got {frame.shape}. Write .csv."
        raise _error(path, trouble)
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
                raise _error(path, f"{trouble} Write .csv.")
            _encoded(value, path)
            made = openpyxl.cell.WriteOnlyCell(sheet, value)
            made.data_type, made.number_format = "s", "@"  # a text, even where it begins with =
            return made
        if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
            if not math.isfinite(value) or (isinstance(value, int) and abs(value) > EXACT):
                trouble = f"column {name!r} holds {value}, which a workbook cannot hold. Write .csv, or make it a text."
                raise _error(path, trouble)
            made = openpyxl.cell.WriteOnlyCell(sheet, str(value))
            made.data_type = "n"  # with all digits; as a number it would be cut to 16
            return made
        if getattr(value, "tzinfo", None) is not None:
            raise _error(
                path, f"column {name!r} has a time zone, which a workbook cannot hold. Write .parquet or .csv."
            )
        return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value

    columns = [[cell(name, name), *(cell(value, name) for value in _values(frame[name], path))] for name in frame]
    for row in zip(*columns, strict=True):  # a sheet that is begun must be ended: by now nothing is refused
        sheet.append(row)
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


_WRITERS: dict[str, Callable[[pandas.DataFrame, Path], bytes]] = {
    "csv": _write_delimited(","),
    "tsv": _write_delimited("\t"),
    "jsonl": _write_lines,
    "parquet": _write_parquet,
    "xlsx": _write_workbook,
}


def _check_target(path: Path, force: bool) -> None:
    try:
        if path.is_dir():
            raise FileError(f"{path} is a folder. Name a file in it.")
        if not path.parent.is_dir():
            raise _error(path, f"there is no folder {path.parent}. Make it first.")
        if path.exists() and not path.is_file():
            raise FileError(f"{path} is not a regular file. Name another file.")
        if path.exists() and not force:
            raise FileError(f"{path} exists. --force overwrites it, or name another file.")
    except OSError as error:
        raise _error(path, f"it cannot be written: {error.strerror}.") from error


@contextmanager
def written_whole(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A file to write, in the same folder, that takes the place of `path` once it is whole and on the disk.

    After any error (a full disk, Ctrl-C) it is gone, and at `path` stands what stood there before, if anything.

    Parameters
    ----------
    path : str or path
        Where the file shall stand. A link is followed.
    force : bool
        Whether a file that is there may be replaced.

    Yields
    ------
    pathlib.Path
        An empty file, with the suffix of `path`, to be written over.

    Raises
    ------
    FileError
        `path` exists and there is no `force`, is no file, or cannot be written.
    """
    path = Path(path)
    _check_target(path, force)
    target = Path(os.path.realpath(path))
    kept = path.suffixes[-2:] if path.suffix.lower() == ".gz" else path.suffixes[-1:]
    unfinished = target.with_name(f".{secrets.token_hex(8)}{''.join(kept)}")
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        _check_target(path, force)  # it may have come in the meantime
        if target.exists():
            unfinished.chmod(stat.S_IMODE(target.stat().st_mode))
        unfinished.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        if error.filename not in {None, str(unfinished), os.fspath(unfinished)}:
            raise
        remedy = " Make room." if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
        raise _error(path, f"it could not be written: {error.strerror or error}.{remedy}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system can
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
