"""The registry of formats. A new one is a module with its reader and its writer, and an entry in `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ._delimited import read_delimited, write_delimited
from ._errors import file_error
from ._json_lines import read_lines, write_lines
from ._parquet import read_parquet, write_parquet
from ._workbook import read_workbook, write_workbook

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, kw_only=True)
class Format:
    """One way to keep a table in a file."""

    suffixes: tuple[str, ...]
    read: Callable[[bytes, Path, set[str], list[str]], dict[str, pandas.Series]]
    """From the content, the path, the columns to read as text, and a list that takes notes."""
    write: Callable[[pandas.DataFrame, Path], bytes]
    is_text: bool = False
    """Whether it is text, which may also be packed by gzip: then .gz stands behind the suffix."""
    blank_rows: bool = True
    """Whether it can hold a row without any value."""
    start: bytes = b""
    """What every such file begins with, if it is no text."""
    library: str | None = None
    """What it needs beside pandas and pyarrow."""


FORMATS = (
    Format(suffixes=(".csv",), read=read_delimited("csv"), write=write_delimited(","), is_text=True, blank_rows=False),
    Format(suffixes=(".tsv",), read=read_delimited("tsv"), write=write_delimited("\t"), is_text=True, blank_rows=False),
    Format(suffixes=(".jsonl", ".ndjson"), read=read_lines, write=write_lines, is_text=True),
    Format(suffixes=(".parquet",), read=read_parquet, write=write_parquet, start=b"PAR1", library="pyarrow.parquet"),
    Format(
        suffixes=(".xlsx",),
        read=read_workbook,
        write=write_workbook,
        blank_rows=False,
        start=b"PK\x03\x04",
        library="openpyxl",
    ),
)
_TEXTS = {suffix: form for form in FORMATS if form.is_text for suffix in form.suffixes}
_OTHERS = {suffix: form for form in FORMATS if not form.is_text for suffix in form.suffixes}
SUFFIXES = (*_TEXTS, *(f"{suffix}.gz" for suffix in _TEXTS), *_OTHERS)


def format_of(path: Path) -> tuple[Format, bool]:
    """The format of a file by its name, and whether it is packed by gzip."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if path.name.lower().endswith(suffix):
            return (_TEXTS | _OTHERS)[suffix.removesuffix(".gz")], suffix.endswith(".gz")
    raise file_error(path, f"a table is told by the end of its name, which must be one of {', '.join(SUFFIXES)}.")
