"""Lazy frames of polars: their plan is run once, and its rows come as DataFrames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._kinds import Indices, library_of
from ._lazy import ReadInBlocks
from ._sizes import bytes_of_polars, rows_of_block, sum_of
from ._streams import Source


class LazyPolars(ReadInBlocks):
    def holds(self, X: Any) -> bool:
        return library_of(X) == "polars" and hasattr(X, "collect_schema") and not hasattr(X, "shape")

    def source(self, X: Any, name: str) -> Source:
        return PolarsPlan(X)


class PolarsPlan(Source):
    """The rows that a plan gives."""

    name = "LazyFrame"

    def __init__(self, plan: Any) -> None:
        self._plan = plan

    def count(self) -> int | None:
        import polars

        return int(self._plan.select(polars.len()).collect().item())

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        of_row = sum_of([bytes_of_polars(dtype) for dtype in self._plan.collect_schema().dtypes()])
        size, start = rows_of_block(of_row), 0
        for block in self._batches(size):
            yield start, block
            start += block.height

    def _batches(self, size: int) -> Iterator[Any]:
        if hasattr(self._plan, "collect_batches"):
            return iter(self._plan.collect_batches(chunk_size=size, maintain_order=True, lazy=True))
        return self._plan.collect().iter_slices(size)  # of older versions
