"""Tables in files: read without a guess that changes a value.

Columns named in `text` (ids and labels) are read to the letter: "007", "1e5" and "NA" stay texts, and only an empty
cell is missing. Another column of .csv or .tsv, which have no types, holds numbers or booleans if every cell is one, or
one of `GAPS`; a column with leading zeros is text, and dates are text. Formats with types keep them; a column of mixed
types is text. Whole numbers are never floats that would lose digits: with gaps they are Int64, beyond 64 bits text.
What a model makes of texts is decided in `campaign._columns`.
"""

from __future__ import annotations

import codecs
import csv
import functools
import gzip
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from pyarrow import compute, parquet

from ..campaign._columns import GAPS, NEARLY_ALL, OTHER, numbers_in_lists
from ._cells import OPEN, TOO_LONG, Choices, Dialect, File, Header, column_of, plain_text, plain_values, table_of
from ._files import FileError, atomic_write, check_size, check_target, contents
from ._workbooks import read_workbook, write_workbook

DELIMITERS = ",;\t|"
TRUE, FALSE = ["True", "true", "TRUE"], ["False", "false", "FALSE"]

WHOLE = r"^-?(0|[1-9][0-9]*)$"
TELEPHONE = r"^\+[0-9]{7}"
NUMBER = r"(?i)^[+-]?(inf|infinity|((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?)$"
WITH_COMMA = NUMBER.replace(r"\.", ",")
INTEGER = r"(0|[1-9][0-9]*|[1-9][0-9]{0,2}(GROUP[0-9]{3})+)"
WITH_MARK = rf"^[^\w.,]{{0,3}}({INTEGER}(MARK[0-9]+)?|MARK[0-9]+)(e[+-]?[0-9]+)?[^0-9.,;]{{0,12}}$"
PARTED_THOUSANDS = r"^[^\w.,]{0,3}[1-9][0-9]{0,2}[.,][0-9]{3}[^0-9.,;]{0,12}$"

# --- reading --------------------------------------------------------------------------------------


def read_table(
    *paths: str, text: Iterable[str] = (), names: Iterable[str] = (), dialect: Dialect = OPEN, like: Dialect = OPEN
) -> pd.DataFrame:
    """The table in a file of a format told by its suffix; columns in ``text``, which need not be there, to the letter.

    Its header is the first row with ``names``. ``dialect`` is known; what a file does not show is as in ``like``, a
    decimal mark only if the separator is, too. Rows of several files follow each other; all must have the same columns.
    The index has the numbers of rows in a spreadsheet. ``attrs["notes"]`` has sentences that a user should know, such
    as "... is not UTF-8: read as ...", ``attrs["dialect"]`` how the first file is written, ``attrs["above"]`` what is
    above headers, ``attrs["files"]`` how many rows each file has, ``attrs["formats"]`` how a workbook shows columns.
    """
    tables, notes, files = [], [], []
    for path in paths:
        read, _ = _format_of(path)
        file = File(frozenset(text), frozenset(names), dialect, like)
        with _told_of(path, "read"):
            tables.append(_named(read(contents(path), file), file))
            if tables[-1].column_names != tables[0].column_names:
                raise ValueError(f"its columns must be those of {paths[0]}")
        notes += [f"{path}: {note}" for note in file.notes]
        files.append(file)
    with _told_of(f"{paths[0]}, ...", "read"):
        table = pa.concat_tables(tables, promote_options="default")
        frame = pd.DataFrame({name: _series(table[name]) for name in table.column_names})
    frame.index = pd.Index(np.concatenate([np.asarray(file.rows, dtype=np.int64) for file in files]))
    frame.attrs.update(notes=notes, dialect=files[0].dialect, decimal=files[0].dialect.mark)
    frame.attrs |= {"above": [row for file in files for row in file.above], "formats": files[0].formats}
    frame.attrs["files"] = [(str(path), len(one)) for path, one in zip(paths, tables, strict=True)]
    return frame


def place(frame: pd.DataFrame, entries: Sequence[int]) -> tuple[str, list[int]]:
    """The file that the first of some entries of a table is in, and the numbers of all rows of them in this file."""
    names, counts = zip(*frame.attrs["files"], strict=True)
    files = np.searchsorted(np.cumsum(counts), entries, side="right")
    return names[files[0]], frame.index[np.asarray(entries)[files == files[0]]].tolist()


@contextmanager
def _told_of(path: str, done: str) -> Iterator[None]:
    """Whatever a library says of a file, on one line that begins with its name."""
    try:
        yield
    except (FileError, ImportError):
        raise
    except Exception as error:  # a damaged file can end in any error of the library
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        said = "a row is longer than 64 MiB" if "straddl" in str(said) else said  # Arrow speaks of its blocks
        raise FileError(f"{path} cannot be {done}: {' '.join(str(said).split())}") from error


def _format_of(path: str, *others: str) -> tuple[Callable[..., Any], Callable[..., bytes]]:
    suffix = os.path.splitext(str(path).lower().removesuffix(".gz"))[1]
    if suffix not in FORMATS or (_is_packed(path) and suffix in (".parquet", ".xlsx")):
        known = ", ".join([*FORMATS, *others])
        raise FileError(f"{path}: the suffix of a table must be one of {known}; text files may add .gz.")
    return FORMATS[suffix]


def check_output(path: str | None, force: bool) -> None:
    """Refuse a path where no table can be written, before there is one; None is none."""
    if path is not None:
        _format_of(path)
        check_target(Path(path), force)


def _is_packed(path: str) -> bool:
    return str(path).lower().endswith(".gz")


def _named(table: Any, file: File) -> Any:
    """The named columns. One without a name may be empty, or the index that pandas writes before all others."""
    kept: dict[str, Any] = {}
    pairs = enumerate(zip(table.column_names, table.columns, strict=True))
    for i, name, column in ((i, *part) for i, pair in pairs for part in _without_lists(*pair, file.rows)):
        if name in kept:
            raise ValueError(f"several columns have the name {name!r}. Rename all but one.")
        is_counter = i == 0 and table.num_columns > 1 and column.type == pa.int64() and not column.null_count
        if name.startswith("__index_level_") or (not name and is_counter and len(column)):
            file.notes.append("the unnamed index that pandas wrote is ignored.")
        elif name:
            kept[name] = column
        elif column.null_count < len(column):
            raise ValueError(f"column {i + 1} has no name. Name it, or remove it.")
    if not kept:
        raise ValueError("the file has no columns. It must begin with a header, the names of the columns.")
    return pa.table(kept)


def _without_lists(name: str, column: Any, rows: Sequence[int]) -> list[tuple[str, Any]]:
    """A column, or one for each place in its lists of numbers."""
    types, kind = pa.types, column.type
    if not types.is_nested(kind):
        return [(name, column)]
    cells = column.to_pandas().rename(name).set_axis(rows)
    numbers, odd = numbers_in_lists(cells)
    if odd or column.null_count == len(column):
        remedy = "Remove it, or make all of them lists of numbers of one length"
        raise ValueError(f"column {name!r} holds values of type {kind}{odd}, not texts or numbers. {remedy}.")
    return [(place, pa.chunked_array([pa.array(numbers[place], from_pandas=True)])) for place in numbers]


def _series(column: Any) -> pd.Series:
    """A column of Arrow in pandas; whole numbers and booleans with gaps in the types of pandas that have gaps."""
    if pa.types.is_null(column.type):
        return pd.Series([math.nan] * len(column), dtype="float64")
    if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        name = {"bool": "boolean"}.get(str(column.type), str(column.type).replace("uint", "UInt").replace("int", "Int"))
        return column.to_pandas(types_mapper={column.type: pd.api.types.pandas_dtype(name)}.get)
    return column.to_pandas(date_as_object=False)


def _decoded(content: bytes, file: File) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = content.decode("utf-16")
        file.found(encoding="utf-16")
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            text = content.decode("cp1252")
            file.found(encoding="cp1252")
            if file.like.encoding != "cp1252":
                file.notes.append(f"it is not UTF-8 (line {line}): read as Windows-1252.")
    if "\0" in text:
        raise ValueError("it holds NUL characters, so it is not text. Save the table as UTF-8 text.")
    return text


# --- .csv and .tsv --------------------------------------------------------------------------------


def _read_delimited(content: bytes, file: File, delimiter: str | None = None) -> Any:
    """Cells by Arrow, which refuses rows of another width; what it lacks is the header, the delimiter and the types.

    pandas fills short rows with gaps and so does not see a missing delimiter.
    """
    text = _decoded(content, file)
    if declared := re.match("[\r\n]*sep=(.)(\r\n|\r|\n)", text):  # which Excel wants before the header, and hides
        text, delimiter = text[declared.end() :], declared[1]
    if not text.strip("\r\n"):
        raise ValueError("the file is empty. It must begin with a header, the names of the columns.")
    delimiters = delimiter or file.dialect.sep or f"{DELIMITERS}{file.like.sep or ''}"
    *_, start, delimiter, header = max(_beginnings(text, delimiters, file))
    file.begins_at(header)
    text = "\n" * (header.row - 1) + text[start:]  # with all rows, so that they have their numbers
    table = _parsed(text, delimiter, header, file)
    names = [column[header.row - 1].as_py() or "" for column in table.columns]
    filled = functools.reduce(compute.or_, map(compute.is_valid, table.columns)).slice(header.row)
    body = table.slice(header.row).filter(filled)  # spreadsheets leave rows of delimiters alone
    file.rows = np.flatnonzero(filled.to_numpy()) + header.row + 1
    cells = {name: _cells(column) for name, column in zip(names, body.columns, strict=True) if name not in file.text}
    mark = file.dialect.decimal or _decimal_mark([*cells.values()], delimiter, file.like)
    file.found(sep=delimiter, decimal=mark)
    if mark is None and file.like.sep is None:  # else it was said of the first table
        _note_doubts(cells, file)
    typed = [
        _typed(column, cells[name], name, file) if name in cells else column
        for name, column in zip(names, body.columns, strict=True)
    ]
    return pa.Table.from_arrays(typed, names)


def _beginnings(text: str, delimiters: str, file: File) -> Iterator[tuple[Any, ...]]:
    """For each delimiter where the header starts; the largest counts.

    It has the names that it must have, and gives the first rows its width, or that of most columns.
    """
    sample = text[:100_000]
    for place, mark in enumerate(delimiters):
        lines, rows, starts = io.StringIO(sample, newline=""), [], [0]
        for row in csv.reader(lines, delimiter=mark):
            rows.append(row)
            starts.append(lines.tell())
        header = file.header_in(rows)
        _, *below = rows[header.row - 1 :]
        if len(sample) < len(text) and below:
            below.pop()  # which the sample may cut
        width = len(rows[header.row - 1])
        is_even = width > 1 and all(len(row) == width for row in below if row)
        is_like = mark == file.like.sep
        yield header.is_named, width > 1, is_even, is_like, width, -place, starts[header.row - 1], mark, header


def _parsed(text: str, delimiter: str, header: Header, file: File) -> Any:
    """All rows as texts, those above the header empty."""
    if text.count('"') % 2:
        _check_quotes(text, delimiter)
    begin = io.StringIO(text[header.row - 1 : header.row - 1 + 2**22], newline="")
    names = [f"f{i}" for i, _ in enumerate(next(csv.reader(begin, delimiter=delimiter)))]
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(f"\ufeff{text}\n".encode()),  # after a byte order mark, lest a second one be dropped
            # One thread numbers the rows in messages; blocks hold the longest row.
            pa.csv.ReadOptions(use_threads=False, block_size=2**26, column_names=names),
            pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values='"' in text, ignore_empty_lines=False),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
            ),
        )
    except pa.ArrowInvalid as error:
        lacks = "" if header.is_named else f". No row has the names {', '.join(map(repr, sorted(file.names)))}"
        raise ValueError(f"{error}{lacks if file.names else ''}") from error
    if (table.columns[-1][-1].as_py() or "").endswith("\n"):  # the last quote may be open up to the end
        _check_quotes(text, delimiter)
    return table


def _check_quotes(text: str, delimiter: str) -> None:
    """Refuse a quote that is never closed, which would swallow the rows below."""
    rows, line = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), 1
    try:
        for _ in rows:
            line = rows.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {line}: {error}. Is a quotation mark not closed?") from error


def _cells(column: Any) -> Any:
    """Texts without the words for gaps."""
    texts = compute.utf8_trim_whitespace(column)
    return compute.if_else(compute.is_in(texts, pa.array([*GAPS, ""])), pa.scalar(None, pa.string()), texts)


def _decimal_mark(columns: list[Any], delimiter: str, like: Dialect) -> str | None:
    """The mark that columns of numbers show, if it is one; else that of a file like it."""

    def shows(mark: str) -> bool:  # by numbers in which it cannot part thousands
        return not all(_all_match(_marked(texts, mark), PARTED_THOUSANDS) for texts in columns)

    found = {mark for mark in OTHER if shows(mark)}
    if len(found) == 1:
        return found.pop()
    return like.decimal if delimiter in (like.sep, "\t") else None


def _marked(texts: Any, mark: str) -> Any:
    """Those with this mark, if nearly all are numbers, which may have thousands parted by the other, and a unit."""
    marked = texts.filter(compute.match_substring(texts, mark))
    pattern = WITH_MARK.replace("GROUP", re.escape(OTHER[mark])).replace("MARK", re.escape(mark))
    some = marked.filter(compute.match_substring_regex(marked, pattern))
    is_number = len(some) and compute.mean(compute.match_substring_regex(texts, pattern)).as_py() > NEARLY_ALL
    return some if is_number else some.slice(0, 0)


def _note_doubts(cells: dict[str, Any], file: File) -> None:
    """Name a mark that may be the decimal mark, or part thousands, where no number of the file tells."""
    mark = file.dialect.mark or "."
    role_of_other = "parts thousands" if mark == "," else "may be either: no numbers"
    for name, texts in cells.items():
        for one, role in ((mark, "is the decimal mark"), (OTHER[mark], role_of_other)):
            some = _marked(texts, one)
            if len(some) and _all_match(some, PARTED_THOUSANDS):
                file.notes.append(f"column {name!r}: {one!r} in {some[0].as_py()!r} {role}; --decimal overrides it.")


def _typed(column: Any, texts: Any, name: str, file: File) -> Any:
    """A column of texts as numbers or booleans, if every text is one; else the texts."""
    if texts.null_count == len(texts):  # words for gaps alone are texts
        return pa.nulls(len(column)) if 0 < column.null_count == len(column) else column
    if compute.all(compute.or_kleene(compute.is_null(texts), compute.is_in(texts, pa.array(TRUE + FALSE)))).as_py():
        return compute.if_else(
            compute.is_null(texts), pa.scalar(None, pa.bool_()), compute.is_in(texts, pa.array(TRUE))
        )
    with_commas = file.dialect.mark == ","
    has_comma = with_commas and compute.any(compute.match_substring(texts, ",")).as_py()
    if not _all_match(texts, WITH_COMMA if has_comma else NUMBER):
        return column
    if compute.any(compute.starts_with(texts, "+")).as_py():
        if compute.any(compute.match_substring_regex(texts, TELEPHONE)).as_py():
            return column
        texts = compute.utf8_ltrim(texts, "+")  # which Arrow does not cast
    if has_comma:
        texts = compute.replace_substring(texts, ",", ".")
    elif with_commas and _all_match(texts.filter(compute.match_substring(texts, ".")), PARTED_THOUSANDS):
        texts = compute.replace_substring(texts, ".", "")
    if _all_match(texts, WHOLE):
        try:
            return texts.cast(pa.int64())
        except pa.ArrowInvalid:
            file.notes.append(TOO_LONG.format(name))
            return column
    numbers = texts.cast(pa.float64())
    # A number with digits that is infinite has overflown: "1e999" is a text, "inf" a number beside others.
    overflown = compute.match_substring_regex(texts.filter(compute.is_inf(numbers)), "[0-9]")
    are_numbers = compute.any(compute.is_finite(numbers)).as_py() and not compute.any(overflown).as_py()
    return numbers if are_numbers else column


def _all_match(texts: Any, pattern: str) -> bool:
    # The first hundred decide most columns of text, without a look at the others.
    parts = (texts.slice(0, 100), texts)
    return all(compute.all(compute.match_substring_regex(part, pattern), min_count=0).as_py() for part in parts)


def _write_delimited(frame: pd.DataFrame, dialect: Dialect, _: Any, delimiter: str | None = None) -> bytes:
    frame = frame.astype(dict.fromkeys(frame.select_dtypes("floating"), "float64"))  # fewer digits are other numbers
    if dialect.mark == ",":
        frame = frame.apply(lambda column: column.map(_with_comma, na_action="ignore"))
    text = frame.to_csv(None, sep=delimiter or dialect.sep or ",", index=False, lineterminator="\r\n")
    for encoding in (dialect.encoding or "ascii", "ascii"):
        with suppress(UnicodeEncodeError):
            return text.encode(encoding)
    # The mark of UTF-8 only where it matters: without it spreadsheets show, and save, other characters.
    return codecs.BOM_UTF8 + text.encode()


def _with_comma(value: Any) -> Any:
    return str(value).replace(".", ",") if isinstance(value, float) else value


# --- formats with types ---------------------------------------------------------------------------


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it has a duplicate key")
    return found


def _read_lines(content: bytes, file: File) -> Any:
    rows, file.rows = [], []
    for number, line in enumerate(_decoded(content, file).split("\n"), 1):
        if line.strip():
            file.rows.append(number)
            try:
                rows.append(json.loads(line, object_pairs_hook=without_doubles))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number} is not a JSON object: {error}") from error
            if not isinstance(rows[-1], dict):
                raise ValueError(f"line {number} must be a JSON object, {{...}}")
    names = list(dict.fromkeys(name for row in rows for name in row))
    return table_of(names, [[row.get(name) for row in rows] for name in names], file)


def _write_lines(frame: pd.DataFrame, *_: Any) -> bytes:
    rows = zip(*(plain_values(column) for _, column in frame.items()), strict=True)
    lines = [
        json.dumps(dict(zip(frame.columns, row, strict=True)), ensure_ascii=False, allow_nan=False, default=plain_text)
        for row in rows
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _read_parquet(content: bytes, file: File) -> Any:
    texts = [one.name for one in parquet.read_schema(pa.BufferReader(content)) if _is_string(one.type)]
    packed = parquet.ParquetFile(pa.BufferReader(content), read_dictionary=texts)  # different ones once, until measured
    known, remedy = packed.metadata, "Pass it in Python as a table in memory."
    n_bytes = sum(known.row_group(i).total_byte_size for i in range(known.num_row_groups))
    check_size(max(n_bytes, 8 * known.num_rows * known.num_columns), len(content), remedy)
    table = packed.read()  # which takes no columns from names of folders
    check_size(sum(map(_decoded_size, table.columns)), len(content), remedy)
    file.rows = range(1, len(table) + 1)
    pairs = zip(table.column_names, table.columns, strict=True)
    columns = [_parquet_column(name, column, name in file.text) for name, column in pairs]
    return pa.Table.from_arrays(columns, table.column_names)


def _is_string(kind: Any) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _decoded_size(column: Any) -> int:
    """Bytes of a column, of one by a dictionary once its texts are repeated."""
    if not (pa.types.is_dictionary(column.type) and _is_string(column.type.value_type)):
        return column.nbytes
    lengths = (compute.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
    return sum(compute.sum(one.cast(pa.int64())).as_py() or 0 for one in lengths)


def _parquet_column(name: str, column: Any, as_text: bool) -> Any:
    """A column in a type that tables of all formats have."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        return _parquet_column(name, column.cast(kind.value_type), as_text)
    if types.is_binary(kind) or types.is_large_binary(kind):
        raise ValueError(f"column {name!r} holds values of type {kind}, not texts or numbers. Remove it.")
    if as_text and not _is_string(kind):
        return column_of(column.to_pylist(), True, name, [])
    if types.is_time(kind):
        return column.cast(pa.string())
    if types.is_decimal(kind):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:  # a fraction, or too many digits
            return column.cast(pa.float64() if kind.scale > 0 else pa.string())
    return column


# --- writing --------------------------------------------------------------------------------------


def write_table(
    frame: pd.DataFrame, path: str, dialect: Dialect = OPEN, choices: Choices | None = None, *, force: bool = False
) -> None:
    """Write the columns of a table, without its index. Missing values are empty cells, and null in .jsonl."""
    content = packed(frame, path, dialect, choices)
    with atomic_write(path, force=force) as temporary:
        temporary.write_bytes(content)


def packed(frame: pd.DataFrame, path: str, dialect: Dialect, choices: Choices | None = None, *others: str) -> bytes:
    """The content of the file; ``others`` are suffixes that this command takes as well."""
    _, write = _format_of(path, *others)
    with _told_of(path, "written"):
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        if len({*frame.columns} - {""}) < frame.shape[1]:
            raise ValueError("columns must have different names.")
        frame.attrs = {"formats": frame.attrs.get("formats", {})}  # nothing else of what was found of another file
        content = write(frame, dialect, choices)
        return gzip.compress(content, mtime=0) if _is_packed(path) else content  # no time: equal tables, equal files


FORMATS: dict[str, tuple[Callable[..., Any], Callable[..., bytes]]] = {
    ".csv": (_read_delimited, _write_delimited),
    ".tsv": (functools.partial(_read_delimited, delimiter="\t"), functools.partial(_write_delimited, delimiter="\t")),
    ".jsonl": (_read_lines, _write_lines),
    ".parquet": (_read_parquet, lambda frame, *_: frame.to_parquet(index=False)),
    ".xlsx": (read_workbook, write_workbook),
}
"""How the content of each format is read, and how it is made of a table."""
