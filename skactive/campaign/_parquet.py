"""A table in files of Parquet, of which a part at a time is in memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from .._containers import Stream
from .._containers._blocks import Source
from ._errors import CampaignError
from ._files import Files, TypedBlocks
from ._ids import Ids, check_distinct, plain_ids
from ._labels import plain_labels
from ._table import EMPTY, columns_of, prints_of

Indices = NDArray[np.int64]

MOST_KEPT = 100_000
"""Rows that were fetched and are kept, as they will be asked for again: those with labels above all."""

MOST_RUNS = 64
"""How often files may have to be read from the start for one pass in the order of a campaign."""


@dataclass(frozen=True)
class ParquetTable:
    """A table in files, of which one pass has seen all rows.

    Attributes
    ----------
    files : Files
    id : str
    columns : list of str
        For a model to go by.
    ids : Ids
    labels : list
        One for each row; None where the target has a gap.
    """

    files: Files
    id: str
    columns: list[str]
    ids: Ids
    labels: list[Any]
    _prints: NDArray[np.uint64]

    @classmethod
    def of(cls, frame: Any, *, id: str | None, target: str, columns: list[str] | None = None) -> ParquetTable:
        """Read all rows once: ids, labels, and whether a row has changed."""
        files = Files(frame)
        if id is None:
            raise CampaignError("`id` must name a column of `frame`, as files have no index. Got None.")
        ours = columns_of(files.columns, id=id, target=target, columns=columns)
        if len(files) == 0:
            raise CampaignError(EMPTY)
        labels: list[Any] = []
        prints = []

        def ids() -> Iterator[list[Any]]:
            for start, block in _read(files, [id, target, *ours]):
                keys = plain_ids(block[id], functools.partial(_place, files, start))
                labels.extend(plain_labels(block[target], "target", keys))
                prints.append(prints_of(block[ours]))
                yield keys

        found = Ids.of_blocks(ids())
        check_distinct(found, files.place)
        return cls(files, id, ours, found, labels, np.concatenate(prints))

    def prints(self) -> NDArray[np.uint64]:
        return self._prints

    def settings(self) -> dict[str, Any]:
        return {"pool": self.files.given or []}

    def in_order(self, positions: Indices, ids: Ids) -> OnDisk:
        return OnDisk(self.files, self.id, self.columns, positions, ids)


def _place(files: Files, start: int, row: int) -> str:
    return files.place(start + row)


def _read(files: Files, columns: list[str]) -> Iterator[tuple[int, pd.DataFrame]]:
    """Blocks of some columns, and where each begins."""
    start = 0
    try:
        for start, block in files.blocks(columns).read(None):
            yield start, block
            start += len(block)
    except (pa.ArrowException, OSError) as error:
        raise CampaignError(
            f"`frame` could not be read from {files.place(start)} on: {' '.join(str(error).split())[:200]}. Write the "
            "file again."
        ) from error


class InOrder(Source):
    """Blocks of files in the order of a campaign, in which rows may have been added in between, moved or lost."""

    name = "table in files"

    def __init__(self, blocks: TypedBlocks, places: Indices, runs: list[Indices]) -> None:
        self._blocks, self._places, self._runs = blocks, places, runs

    def n_rows(self) -> int:
        return len(self._places)

    def _of_run(self, run: Indices, wanted: Indices) -> Indices:
        is_all = len(run) == len(self._places)
        return wanted if is_all else np.intersect1d(run, wanted, assume_unique=True)

    def read(self, wanted: Indices | None) -> Iterator[tuple[Indices, Any]]:
        for run in self._runs:
            rows = run if wanted is None else self._of_run(run, wanted)
            places = self._places[rows]
            if len(rows) == 0:
                continue
            for start, block in self._blocks.read(places):
                inside = slice(*np.searchsorted(places, (start, start + len(block))))
                here = places[inside] - start
                if len(here):
                    yield rows[inside], block if len(here) == len(block) else block.iloc[here]


class OnDisk:
    """The rows of a campaign in files.

    Parameters
    ----------
    files : Files
    id : str
    columns : list of str
    places : ndarray of shape (n_rows,), int64
        Where in the files each row of the campaign is; -1 if it is gone.
    ids : Ids
    """

    def __init__(self, files: Files, id: str, columns: list[str], places: Indices, ids: Ids) -> None:
        self.files, self.columns = files, columns
        self._id, self._places, self._ids = id, places, ids
        there = np.flatnonzero(places >= 0)
        self._runs = np.split(there, np.flatnonzero(np.diff(places[there]) < 0) + 1)
        if len(self._runs) > MOST_RUNS:
            raise CampaignError(
                "`frame` must have the rows of its files in the order of the campaign, to which others may be added. "
                "These are in another one: bring the old files back, or sort the rows."
            )
        self._kept: tuple[Indices, pd.DataFrame] | None = None

    def take(self, rows: ArrayLike) -> pd.DataFrame:
        rows = np.asarray(rows, dtype=np.int64)
        if self._kept is not None and len(np.union1d(rows, self._kept[0])) > MOST_KEPT:
            self._kept = None
        if self._kept is None:
            known = np.unique(rows)
            found = self.pool().take(known)
        else:
            known, found = self._kept
            missing = np.setdiff1d(rows, known)
            if len(missing):
                known = np.concatenate([known, missing])
                found = pd.concat([found, self.pool().take(missing)], ignore_index=True)
        self._kept = known, found
        order = np.argsort(known)
        return found.iloc[order[np.searchsorted(known, rows, sorter=order)]].set_axis(self._index(rows), axis=0)

    def _index(self, rows: Indices) -> pd.Index:
        return pd.Index(self._ids.at(rows), name=self._id)

    def column(self, name: str) -> NDArray[Any]:
        values = np.concatenate([block[name].to_numpy() for _, block in _read(self.files, [name])])
        return values[np.maximum(self._places, 0)]

    def aligned(self, values: Any, name: str) -> Any:
        if not isinstance(values, pd.Series) or len(values) != len(self._ids):
            return values
        if isinstance(values.index, pd.RangeIndex) and values.index.name is None:
            return values
        order = Ids.of(plain_ids(values.index.to_series())).find(self._ids)
        if (order < 0).any():
            raise CampaignError(f"`{name}` must have the ids of the table as its index, or no index.")
        return values.to_numpy()[order]

    def pool(self) -> Stream:
        return Stream(self._source())

    def _source(self) -> InOrder:
        return InOrder(self.files.blocks(self.columns), self._places, self._runs)

    def fields(self) -> list[Any]:
        return [self.files.schema.field(name) for name in self.columns]

    def parts(self) -> Iterator[tuple[Indices, pd.DataFrame]]:
        """All rows that are there, some at a time, indexed by id, with their positions."""
        for rows, block in self._source().read(None):
            yield rows, block.set_axis(self._index(rows), axis=0)
