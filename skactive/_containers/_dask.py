"""Arrays, DataFrames and Series of dask: each block is computed once, where dask's scheduler sees fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._kinds import Indices, library_of, no_rows_error
from ._lazy import ReadInBlocks
from ._registry import kind_of
from ._streams import Source


class Dask(ReadInBlocks):
    """Collections of dask; blocks of arrays are what they hold, numpy arrays mostly, those of frames are of pandas."""

    def holds(self, X: Any) -> bool:
        return library_of(X) in {"dask", "dask_expr"}

    def source(self, X: Any, name: str) -> Source:
        if hasattr(X, "divisions"):  # a DataFrame or a Series
            return DaskBlocks(X.partitions, [np.nan] * X.npartitions, f"{type(X).__name__} of dask")
        if not getattr(X, "shape", ()):
            raise no_rows_error(X, name)
        return DaskBlocks(X.blocks, X.chunks[0], "dask array")


class DaskBlocks(Source):
    """The blocks of a collection along its first axis."""

    def __init__(self, blocks: Any, lengths: Any, name: str) -> None:
        self._blocks = blocks
        self._lengths = [None if np.isnan(length) else int(length) for length in lengths]
        self.name = name

    def n_rows(self) -> int | None:
        return None if None in self._lengths else sum(length or 0 for length in self._lengths)

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        start = 0
        for i, length in enumerate(self._lengths):
            if wanted is not None and length is not None:
                stop = start + length
                if np.searchsorted(wanted, start) == np.searchsorted(wanted, stop):
                    start = stop
                    continue
            block = self._blocks[i].compute()
            yield start, block
            start += kind_of(block).count_rows(block)
