"""A table read from a file, and written to one, in whichever format the name says."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ._columns import values_of
from ._errors import FileError, file_error, needed
from ._formats import FORMATS, format_of
from ._names import check_no_name_twice
from ._whole import check_target, written_whole

if TYPE_CHECKING:
    import pandas


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
    form, zipped = format_of(path)
    pandas = needed("pandas", path)
    needed("pyarrow.compute", path)
    notes: list[str] = []
    content = _content(path, zipped)
    if form.is_text:
        _check_no_other_start(content, path)
    if form.library:
        needed(form.library, path)
    columns = form.read(content, path, names, notes)
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
        raise file_error(path, f"it cannot be read: {error.strerror}.") from error
    if zipped:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise file_error(path, "what gzip packed is damaged or cut off. Copy the file again.") from error
    if not content:
        raise file_error(path, "the file is empty. It must begin with a header, the names of the columns.")
    return content


def _check_no_other_start(content: bytes, path: Path) -> None:
    """Refuse what is named as text and begins as another format does."""
    starts = [(form.start, form.suffixes[0]) for form in FORMATS if form.start]
    for start, other in (*starts, (b"\x1f\x8b", f"{path.suffix}.gz")):
        if content.startswith(start):
            raise file_error(path, f"this is no text. If it is a file of the kind {other}, name it so.")


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
    form, zipped = format_of(path)
    check_target(path, force)
    named = [i for i, name in enumerate(frame.index.names) if name is not None]
    index = {str(frame.index.names[i]): frame.index.get_level_values(i) for i in named}
    names = [*index, *(str(name) for name in frame.columns)]
    if "" in names:
        raise file_error(path, f"column {names.index('') + 1} of the table has no name. Name it.")
    check_no_name_twice(names, path)
    frame = frame.reset_index(drop=True).set_axis(names[len(index) :], axis=1)
    for i, (name, values) in enumerate(index.items()):
        frame.insert(i, name, values)
    if not form.blank_rows:
        _check_no_blank_row(frame, path)
    if form.library:
        needed(form.library, path)
    content = form.write(frame, path)
    if zipped:
        content = gzip.compress(content, mtime=0)
    with written_whole(path, force=force) as unfinished:
        unfinished.write_bytes(content)


def _check_no_blank_row(frame: pandas.DataFrame, path: Path) -> None:
    blank = np.full(len(frame), frame.shape[1] > 0)
    for name in frame:
        blank[blank] = [value is None or value != value or value == "" for value in values_of(frame[name][blank], path)]
        if not blank.any():
            return
    if blank.any():
        trouble = f"row {np.argmax(blank) + 1} of the table has no value, and would be no row here. Leave it out."
        raise file_error(path, trouble)
