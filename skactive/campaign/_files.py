"""Files of Parquet that are one table: which they are, whether they are alike, and what types their columns have.

A column has one type in all blocks that are read, that which it would have in one DataFrame of all rows: whole numbers
with a gap anywhere are floats everywhere.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import dataset as arrow
from pyarrow import fs

from .._containers._readers import ArrowDataset
from ._errors import CampaignError, shown

UNNAMED = "__index_level_"
"""How columns begin that pandas writes for an index without a name."""


class TypedBlocks(ArrowDataset):
    """Blocks of a dataset in which each column has one type."""

    def __init__(self, dataset: Any, types: dict[str, Any]) -> None:
        super().__init__(dataset, "frame")
        self._types = types

    def read(self, wanted: NDArray[np.int64] | None) -> Iterator[tuple[int, Any]]:
        for start, block in super().read(wanted):
            others = {name: kind for name, kind in self._types.items() if block[name].dtype != kind}
            yield start, block.astype(others) if others else block


class Files:
    """Files of Parquet in their order, as a table.

    Parameters
    ----------
    frame : path, list of paths, or pyarrow.dataset.Dataset
        Paths are those of files or folders, or patterns with ``*``; their files are sorted by name.

    Attributes
    ----------
    given : list of str or None
        The paths, absolute; None for a dataset.
    columns : list of str
    """

    def __init__(self, frame: Any) -> None:
        schema = None
        if hasattr(frame, "get_fragments"):
            self.given = None
            schema, files = frame.schema, _of_dataset(frame)
        else:
            paths = [frame] if isinstance(frame, str | os.PathLike) else list(frame)
            self.given = [os.path.abspath(path) for path in paths]
            local, form = fs.LocalFileSystem(), arrow.ParquetFileFormat()
            files = [form.make_fragment(path, filesystem=local) for path in files_at(paths)]
        self._fragments = files
        self.schema = _one_schema(files, schema)
        self.columns = self.schema.names
        self._lengths = [sum(group.num_rows for group in file.row_groups) for file in files]
        self._stamps = self._stamped()
        self._types: dict[str, Any] = {}

    def __len__(self) -> int:
        return sum(self._lengths)

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        ends = np.cumsum(self._lengths)
        file = int(np.searchsorted(ends, row, side="right"))
        return f"row {row - (ends[file] - self._lengths[file]) + 1} of {self._fragments[file].path}"

    def blocks(self, columns: Sequence[str]) -> TypedBlocks:
        """Some columns of all rows, read in blocks."""
        self._check_unchanged()
        dataset = self._of_columns(columns)
        unknown = [name for name in columns if name not in self._types]
        if unknown:
            self._types |= self._types_of(unknown)
        return TypedBlocks(dataset, {name: self._types[name] for name in columns})

    def _of_columns(self, columns: Sequence[str]) -> Any:
        known = json.loads((self.schema.metadata or {}).get(b"pandas", b"{}"))
        metadata = {b"pandas": json.dumps(known | {"index_columns": []})} if known else None
        schema = pa.schema([self.schema.field(name) for name in columns], metadata=metadata)
        first = self._fragments[0]
        return arrow.FileSystemDataset(self._fragments, schema, first.format, first.filesystem)

    def _types_of(self, columns: list[str]) -> dict[str, Any]:
        dataset = self._of_columns(columns)
        types = dict(dataset.schema.empty_table().to_pandas().dtypes)
        plain = [name for name in columns if isinstance(types[name], np.dtype) and types[name].kind in "iub"]
        for name in self._with_gaps(plain):
            types[name] = np.dtype(object if types[name].kind == "b" else np.float64)
        categories = [name for name in columns if isinstance(types[name], pd.CategoricalDtype)]
        for name in categories:
            types[name] = self._categories(name)
        return types

    def _with_gaps(self, columns: list[str]) -> list[str]:
        """Columns that lack a value in any row: as the ends of the files say, or, where they do not, the rows."""
        found, unknown = [], []
        for name in columns:
            counts = [n for file in self._fragments for n in _gaps_by_group(file, name)]
            if any(counts):
                found.append(name)
            elif None in counts:
                unknown.append(name)
        if unknown:
            with_some = set()
            for batch in self._of_columns(unknown).to_batches():
                with_some |= {name for name in unknown if batch.column(name).null_count}
            found += sorted(with_some)
        return found

    def _categories(self, name: str) -> pd.CategoricalDtype:
        """All that occur, in the order in which files name them, as one DataFrame would have them."""
        seen: dict[Any, None] = {}
        ordered = False
        for batch in self._of_columns([name]).to_batches():
            column = batch.column(name)
            ordered = column.type.ordered
            seen |= dict.fromkeys(column.dictionary.to_pylist())
        return pd.CategoricalDtype(list(seen), ordered)

    def _stamped(self) -> dict[str, tuple[int, int]]:
        """Size and time of files on this machine, which tell whether they have changed."""
        stamps = {}
        for file in self._fragments:
            if isinstance(file.filesystem, fs.LocalFileSystem):
                try:
                    found = os.stat(file.path)
                except FileNotFoundError:
                    raise CampaignError(f"`frame`: {file.path} is gone. Put it back.") from None
                stamps[file.path] = found.st_size, found.st_mtime_ns
        return stamps

    def _check_unchanged(self) -> None:
        for path, stamp in self._stamped().items():
            if stamp != self._stamps[path]:
                raise CampaignError(
                    f"`frame`: {path} has changed since the campaign was opened, so that nobody knows which row is "
                    "which. Open the campaign again."
                )


def files_at(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The files that paths, folders and patterns name, sorted by name."""
    found: set[str] = set()
    for given in [os.fspath(path) for path in paths]:
        if os.path.isdir(given):
            inside = [str(path) for path in Path(given).iterdir() if path.is_file() and is_parquet(path)]
            if not inside:
                raise CampaignError(f"`frame`: the folder {given} holds no file .parquet. Name one that does.")
        elif os.path.exists(given):
            inside = [given]
        else:
            inside = [path for path in glob.glob(given, recursive=True) if os.path.isfile(path)]
            if not inside and glob.has_magic(given):
                raise CampaignError(f"`frame`: no file matches {given}. Name files, or a folder of them.")
            if not inside:
                raise CampaignError(f"`frame`: {given} does not exist. Name files .parquet, or a folder of them.")
        found.update(map(os.path.abspath, inside))
    return sorted(found)


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet" and not path.name.startswith((".", "_"))


def _of_dataset(dataset: Any) -> list[Any]:
    is_filtered = bool(getattr(dataset, "_scan_options", None))
    files = [] if is_filtered else list(dataset.get_fragments())
    if is_filtered or not all(hasattr(file, "row_groups") for file in files):
        raise CampaignError(
            "`frame` must be a dataset of Parquet files, without a filter. Write the rows to Parquet first, or give a "
            "DataFrame."
        )
    if not files:
        raise CampaignError("`frame` must have at least one row. Got a dataset without a file.")
    return files


def _one_schema(files: list[Any], given: Any) -> Any:
    """Columns and types of all files, if they are alike. A column without any value in a file has any type."""
    schemas = [_schema_of(file) for file in files]
    types: dict[str, Any] = {}
    for file, schema in zip(files, schemas, strict=True):
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise CampaignError(f"`frame`: {file.path} has several columns {shown(twice)}. Rename them.")
        lacking, more = set(schemas[0].names) - set(schema.names), set(schema.names) - set(schemas[0].names)
        if lacking or more:
            what = (
                f"{file.path} has no column {shown(sorted(lacking))}, which {files[0].path} has"
                if lacking
                else f"{files[0].path} has no column {shown(sorted(more))}, which {file.path} has"
            )
            raise CampaignError(f"`frame` must have the same columns in all files. {what}. Write them alike.")
        for field in schema:
            known = types.setdefault(field.name, field.type)
            if pa.types.is_null(known) or (pa.types.is_large_string(field.type) and _alike(known, field.type)):
                types[field.name] = field.type
            elif not (pa.types.is_null(field.type) or _alike(known, field.type)):
                raise CampaignError(
                    f"`frame` must have one type for each column in all files. Column {field.name!r} holds "
                    f"{field.type} in {file.path}, and {known} before. Write them alike."
                )
    fields = [pa.field(name, kind) for name, kind in types.items()]
    fields += [field for field in given or () if field.name not in types]  # of folders
    return pa.schema(fields, metadata=schemas[0].metadata)


def _schema_of(file: Any) -> Any:
    try:
        schema = file.physical_schema
        return pa.schema([field for field in schema if not field.name.startswith(UNNAMED)], schema.metadata)
    except FileNotFoundError:
        raise CampaignError(f"`frame`: {file.path} does not exist.") from None
    except (pa.ArrowException, OSError):
        raise CampaignError(
            f"`frame`: {file.path} is no Parquet file, or a damaged or cut one. Write it again; other kinds of files "
            "are read into a DataFrame first."
        ) from None


def _alike(one: Any, other: Any) -> bool:
    if pa.types.is_dictionary(one) and pa.types.is_dictionary(other):
        return bool(one.value_type == other.value_type)
    both = (one, other)
    return bool(one == other) or all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in both)


def _gaps_by_group(file: Any, name: str) -> list[int | None]:
    """Gaps in each row group of a column, None where that is not written down."""
    metadata = file.metadata
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    if name not in names:  # one that a folder's name tells
        return [0]
    found: list[int | None] = []
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(names.index(name)).statistics
        found.append(statistics.null_count if statistics is not None and statistics.has_null_count else None)
    return found
