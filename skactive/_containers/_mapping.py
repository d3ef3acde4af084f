"""Work on a block where it lies: what is done there, and what of it comes back.

A net answers to the bit only if it sees the same batches of rows, which begin at multiples of its batch size from the
first row of a pass on. The blocks of a pool begin anywhere. So a block is worked on from the first such multiple in it
to the last; the few rows before and behind come back, and `Edges` puts those of neighbours together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._alike import Layout, check_alike
from ._registry import kind_of

Indices = NDArray[np.int64]
Values = NDArray[np.float64]

Function = Callable[[slice, Any], Values]
"""``function(where, chunk)``, (n_columns, n_rows): ``where`` are the rows of the chunk among those of the pass."""


@dataclass(frozen=True)
class Part:
    """What comes back of a block, or of rows from the edges of some.

    Attributes
    ----------
    values : list of (slice, ndarray)
        Where among the rows of the pass, and what the function answered for them.
    edges : list of (int, rows)
        Rows that are no whole batch of a net, each with the place of the first among the rows of the pass.
    kept : list of (ndarray, rows)
        Positions in the pool of rows that were announced, and these rows.
    stop : int
        The position in the pool behind the last row of the block.
    """

    values: list[tuple[slice, Values]]
    edges: list[tuple[int, Any]] = field(default_factory=list)
    kept: list[tuple[Indices, Any]] = field(default_factory=list)
    stop: int = 0


@dataclass(frozen=True)
class Work:
    """What is done with every block of a pass: all that has to be known where the block is.

    Attributes
    ----------
    function : callable
        As `Function`.
    rows : ndarray of int64, or None
        Positions in the pool of the rows of the pass, in increasing order; None if they are all.
    size : int
        Rows of a chunk, a multiple of ``multiple``.
    multiple : int
        Rows that a net is asked for at once; 1 for models that are no nets.
    announced : ndarray of int64
        Positions of rows that come back.
    layout, like
        What the first block was like, and a row of it, or none.
    """

    function: Function
    rows: Indices | None
    size: int
    multiple: int
    announced: Indices
    layout: Layout
    like: Any

    def of_block(self, block: Any, start: int) -> Part:
        """The work on a block that begins at a row of the pool."""
        kind = kind_of(block)
        length = kind.count_rows(block)
        stop = start + length
        check_alike(self.layout, Layout.of(block, kind_of), self.like, block, start)
        first, last = (start, stop) if self.rows is None else np.searchsorted(self.rows, [start, stop]).tolist()
        if self.rows is not None and last - first < length:
            block = kind.take(block, self.rows[first:last] - start)
        begin = min(-(-first // self.multiple) * self.multiple, last)
        end = max(last // self.multiple * self.multiple, begin)
        edges = [(at, kind.slice(block, at - first, to - first)) for at, to in ((first, begin), (end, last)) if at < to]
        values = self.of_rows(begin, kind.slice(block, begin - first, end - first)).values
        here = np.arange(first, last) if self.rows is None else self.rows[first:last]
        inside = np.flatnonzero(np.isin(here, self.announced, assume_unique=True))
        kept = [(here[inside], kind.take(block, inside))] if len(inside) else []
        return Part(values, edges, kept, stop)

    def of_rows(self, start: int, rows: Any) -> Part:
        """The work on rows that follow one another in the pass, the first at ``start``."""
        kind, values = kind_of(rows), []
        for at in range(0, kind.count_rows(rows), self.size):
            chunk = kind.slice(rows, at, min(at + self.size, kind.count_rows(rows)))
            where = slice(start + at, start + at + kind.count_rows(chunk))
            values.append((where, self.function(where, chunk)))
        return Part(values)


class Edges:
    """Rows from the edges of blocks, which come in order, put together to batches of a net."""

    def __init__(self, multiple: int) -> None:
        self._multiple = multiple
        self._start = self._n = 0
        self._rows: list[Any] = []

    def add(self, edges: list[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Batches that are whole by now: the place of the first row, and the rows."""
        for start, rows in edges:
            self._start = self._start if self._rows else start
            self._rows.append(rows)
            self._n += kind_of(rows).count_rows(rows)
            if (self._start + self._n) % self._multiple == 0:
                yield from self.rest()

    def rest(self) -> Iterator[tuple[int, Any]]:
        """What is left when the last block has come: the last batch, which may be smaller."""
        if self._rows:
            rows = self._rows[0] if len(self._rows) == 1 else kind_of(self._rows[0]).stack(self._rows)
            self._rows, self._n = [], 0
            yield self._start, rows
