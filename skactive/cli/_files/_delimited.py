"""Tables of text with a character between the cells: .csv and .tsv."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._columns import series_of, values_of
from ._encodings import as_utf8, encoded
from ._errors import file_error
from ._names import kept_columns
from ._typing import typed

if TYPE_CHECKING:
    import pandas

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


def read_delimited(kind: str) -> Callable[[bytes, Path, set[str], list[str]], dict[str, pandas.Series]]:
    def read(content: bytes, path: Path, text: set[str], notes: list[str]) -> dict[str, pandas.Series]:
        import pyarrow
        from pyarrow import compute

        content = as_utf8(content, path, notes)
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
        kept = kept_columns(names, columns, path, header.line, "line", notes)
        comma = header.delimiter == ";"
        return {
            name: series_of(column if name in text else typed(column, comma, path, name, notes), path, name, notes)
            for name, column in kept
        }

    return read


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
            raise file_error(path, "the file is empty. It must begin with a header, the names of the columns.")
        if whole.count('"') % 2:
            raise file_error(path, "a quote of the header is opened and never closed.", self.line)
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
    raise file_error(path, f"it cannot be read as a table: {problem}") from problem


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
                    raise file_error(path, trouble, line) from error
            if row and len(row) != width:
                cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                remedy = f"Quote cells that hold a {DELIMITERS[mark]}."
                if len(row) < width:
                    remedy = f"Is a {DELIMITERS[mark]} missing? Quote cells that hold a line break."
                raise file_error(path, f"{cells}, where the header has {width}. {remedy}", line)
            line += len(pending)
            pending.clear()


def write_delimited(mark: str) -> Callable[[pandas.DataFrame, Path], bytes]:
    def write(frame: pandas.DataFrame, path: Path) -> bytes:
        for name, column in frame.items():
            if column.dtype == object:
                values_of(column.rename(name), path)
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
            raise file_error(path, "a text holds a character NUL, which no table of text can hold. Remove it.")
        return (b"" if text.isascii() else codecs.BOM_UTF8) + encoded(text, path)

    return write
