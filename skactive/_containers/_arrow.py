"""Tables of Arrow, in memory, in files (Parquet above all), or on their way; the rows come as DataFrames of pandas."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._kinds import Arrays, Indices, library_of
from ._lazy import ReadInBlocks
from ._registry import kind_of
from ._sizes import bytes_of_arrow, rows_of_block, sum_of
from ._streams import Source

_READ: weakref.WeakSet[Any] = weakref.WeakSet()
"""Readers that were read: they have no rows left, and would look empty."""


class ArrowTables(Arrays):
    """Tables, record batches and arrays in memory; an array, of texts mostly, becomes a Series."""

    def holds(self, X: Any) -> bool:
        return library_of(X) == "pyarrow" and hasattr(X, "to_pandas") and not isinstance(X, type)

    def prepare(self, X: Any, name: str) -> Any:
        return X if hasattr(X, "column_names") else X.to_pandas()

    def count_columns(self, X: Any) -> int | None:
        return int(X.num_columns)

    def names(self, X: Any) -> list[Any] | None:
        return list(X.column_names)

    def slice(self, X: Any, start: int, stop: int) -> Any:
        return X.slice(start, max(0, min(stop, X.num_rows) - start)).to_pandas()

    def take(self, X: Any, rows: Indices) -> Any:
        return X.take(rows).to_pandas()

    def keys(self, X: Any) -> list[Any]:
        return self._of_pandas("keys", X)

    def join(self, X: Any, more: Any) -> Any:
        more = more.to_pandas() if self.holds(more) else more
        return self._of_pandas("join", X, more)

    def column(self, X: Any, position: int) -> NDArray[Any]:
        return self._of_pandas("column", X, position)

    def with_column(self, X: Any, position: int, value: int) -> Any:
        return self._of_pandas("with_column", X, position, value)

    def without_column(self, X: Any, position: int) -> Any:
        return self._of_pandas("without_column", X, position)

    def bytes_per_row(self, X: Any) -> float | None:
        return sum_of([bytes_of_arrow(field.type) for field in X.schema])

    def _of_pandas(self, what: str, X: Any, *others: Any) -> Any:
        frame = X.to_pandas()
        return getattr(kind_of(frame), what)(frame, *others)


class ArrowFiles(ReadInBlocks):
    """Datasets of Arrow: a Parquet file or folder, or files of other formats."""

    def holds(self, X: Any) -> bool:
        return library_of(X) == "pyarrow" and hasattr(X, "get_fragments")

    def source(self, X: Any, name: str) -> Source:
        return ArrowDataset(X)


class ArrowStreams(ReadInBlocks):
    """What can be read once, as a stream of Arrow: readers, scanners, and what other libraries offer as such."""

    def holds(self, X: Any) -> bool:
        is_arrow = library_of(X) == "pyarrow" and (hasattr(X, "read_next_batch") or hasattr(X, "scan_batches"))
        return is_arrow or (hasattr(X, "__arrow_c_stream__") and not isinstance(X, type) and library_of(X) != "pyarrow")

    def source(self, X: Any, name: str) -> Source:
        return ArrowReader(X)


class ArrowDataset(Source):
    """The files of a dataset, in its order; of Parquet files, row groups without a row that is wanted are left out."""

    name = "dataset of Arrow"

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._rows_at_once = _rows_at_once(dataset.schema)
        is_filtered = bool(getattr(dataset, "_scan_options", None))
        self._files = None if is_filtered else _parquet_files(dataset)
        self._lengths: list[list[int]] | None = None

    def n_rows(self) -> int | None:
        return None if self._files is None else sum(map(sum, self._row_groups()))

    def count(self) -> int | None:
        return int(self._dataset.count_rows())

    def _row_groups(self) -> list[list[int]]:
        """The number of rows in each row group of each file, which its last bytes tell."""
        if self._lengths is None:
            self._lengths = [[group.num_rows for group in file.row_groups] for file in self._files or ()]
        return self._lengths

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        options = {"batch_size": self._rows_at_once, "batch_readahead": 1, "fragment_readahead": 1}
        if self._files is None:
            yield from _blocks(self._dataset.to_batches(**options), self._rows_at_once)
            return
        start = 0
        for file, lengths in zip(self._files, self._row_groups(), strict=True):
            for first, groups in _runs(lengths, start, wanted):
                # One row group after the other: of more of them, Arrow would read all bytes ahead.
                parts = (file.subset(row_group_ids=[group]) for group in groups)
                batches = (part.to_batches(schema=self._dataset.schema, **options) for part in parts)
                yield from _blocks(itertools.chain.from_iterable(batches), self._rows_at_once, first)
            start += sum(lengths)


class ArrowReader(Source):
    """Batches that come once."""

    is_once = True

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.name = type(reader).__name__

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        if self._reader in _READ:
            raise ValueError(
                f"this {self.name} was read before, and can be read once: make a new one, or give a dataset, of which "
                "rows can be read again"
            )
        if library_of(self._reader) == "pyarrow":  # others give a new stream whenever they are asked
            _READ.add(self._reader)
        if hasattr(self._reader, "scan_batches"):
            schema, batches = self._reader.projected_schema, self._reader.to_batches()
        else:
            batches = self._reader
            if not hasattr(batches, "read_next_batch"):
                import pyarrow

                batches = pyarrow.RecordBatchReader.from_stream(batches)
            schema = batches.schema
        return _blocks(batches, _rows_at_once(schema))


def _parquet_files(dataset: Any) -> list[Any] | None:
    """The files of a dataset, if all are of Parquet."""
    files = list(dataset.get_fragments())
    return files if files and all(hasattr(file, "row_groups") for file in files) else None


def _runs(lengths: list[int], start: int, wanted: Indices | None) -> Iterator[tuple[int, list[int]]]:
    """Row groups to read that follow one another, and the position of the first row of each run."""
    run: list[int] = []
    first = start
    for i, length in enumerate(lengths):
        stop = start + length
        if wanted is None or np.searchsorted(wanted, start) < np.searchsorted(wanted, stop):
            first = first if run else start
            run.append(i)
        elif run:
            yield first, run
            run = []
        start = stop
    if run:
        yield first, run


def _blocks(batches: Iterable[Any], n_rows: int, start: int = 0) -> Iterator[tuple[int, Any]]:
    """Batches as DataFrames; small ones are put together before."""
    waiting: list[Any] = []
    n_waiting = 0
    for batch in batches:
        waiting.append(batch)
        n_waiting += batch.num_rows
        if n_waiting >= n_rows:
            yield start, _frame(waiting)
            start, waiting, n_waiting = start + n_waiting, [], 0
    if n_waiting:
        yield start, _frame(waiting)


def _frame(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0].to_pandas()
    return sys.modules["pyarrow"].Table.from_batches(batches).to_pandas()


def _rows_at_once(schema: Any) -> int:
    return rows_of_block(sum_of([bytes_of_arrow(field.type) for field in schema]))
