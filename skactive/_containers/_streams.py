"""Pools that are read in blocks, in order: what is on disk, on a cluster, or comes from a generator.

A *source* says how the blocks of one kind of pool are read, and is all that differs between kinds. A `Stream` is a pool
of any of them, for one query. It reads every block once, one ahead of what is worked on, cuts blocks into chunks of the
size that is asked for, counts rows on the way, and keeps the first rows, and those that were announced, so that nobody
has to read them again.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._checks import failure_explained, warn
from ._alike import Layout, check_alike
from ._mapping import Function, Part, Values, Work
from ._stored import Stored, Where

Indices = NDArray[np.int64]

NEAR = 1000
"""A row among so many of the first ones is read by beginning the pass that is to come, not by one of its own."""


_OF_UNKNOWN = 1024
"""Bytes that a row of texts or objects is taken to have."""


class Source(ABC):
    """How the blocks of one kind of pool are read.

    Attributes
    ----------
    name : str
        What a message calls it.
    is_once : bool
        Whether it can be read a single time.
    reads_ahead : bool
        Whether another thread may read the next block.
    """

    name: str
    is_once: ClassVar[bool] = False
    reads_ahead: ClassVar[bool] = True

    def n_rows(self) -> int | None:
        """How many rows there are, if that is known without reading them."""
        return None

    def count(self) -> int | None:
        """The same, where finding out is much less work than reading all rows."""
        return self.n_rows()

    @abstractmethod
    def read(self, wanted: Indices | None) -> Iterator[tuple[Where, Any]]:
        """Blocks in order: where their rows are, and the rows, in a container that can be taken from by position.

        All blocks, or at least those with rows at the positions ``wanted``, which are sorted.
        """

    def mapper(self, multiple: int) -> Callable[[Work], Iterator[Part]] | None:
        """What does work on all blocks where they lie, if that is elsewhere; None if they have to be read.

        ``multiple`` is that of the work. Parts come in the order of the blocks; those of the edges of blocks later.
        """
        return None


@dataclass
class _Begun:
    """A pass over some rows of which the first are read: they wait for the one who goes on."""

    rows: Indices | None
    pieces: Iterator[Any]
    read: list[Any] = field(default_factory=list)
    n_read: int = 0
    is_at_end: bool = False

    def places_of(self, rows: Indices) -> Indices | None:
        """Where among the rows that were read some rows of the pool are; None if any is not there."""
        if self.rows is None:
            return rows if rows.max(initial=-1) < self.n_read else None
        return places_in(self.rows[: self.n_read], rows)


class Stream:
    """A pool that is read in blocks, for one query.

    Parameters
    ----------
    source : Source or Stored
    kind_of : callable
        The kind of the container that a block is.

    Attributes
    ----------
    n_rows : int or None
        How many rows there are; None as long as that is not known.
    """

    def __init__(self, source: Source, kind_of: Callable[[Any], Any]) -> None:
        self.source: Source | Stored = source
        self.n_rows = source.n_rows()
        self._kind_of = kind_of
        self._layout: Layout | None = None
        self._like: Any = None
        self._begun: _Begun | None = None
        self._announced: Indices = np.empty(0, dtype=np.int64)
        self._kept: list[tuple[Indices, Any]] = []

    # --- passes -------------------------------------------------------------------------------------

    def chunks(self, rows: Indices | None, size: int) -> Iterator[Any]:
        """All rows, or those at some positions, in their order and ``size`` at a time.

        One pass over the source, if the positions are in increasing order.
        """
        left: list[Any] = []
        n_left = 0
        for piece in self._pass(rows):
            kind, at, length = self._kind_of(piece), 0, self._count(piece)
            while n_left + length - at >= size:
                stop = at + size - n_left
                part = kind.slice(piece, at, stop)
                yield kind.stack([*left, part]) if left else part
                left, n_left, at = [], 0, stop
            if at < length:
                left.append(kind.slice(piece, at, length))
                n_left += length - at
        if left:
            yield self._stacked(left)

    def mapped(
        self, function: Function, rows: Indices | None, size: int, multiple: int
    ) -> Iterator[tuple[slice, Values]]:
        """What a function answers for the `chunks` of a pass, and where their rows are among those of the pass.

        If the rows lie elsewhere, the function goes there, and only its answers come back: in any order. Chunks begin
        at multiples of ``multiple`` all the same, of which ``size`` is one.
        """
        is_sorted = rows is None or bool((rows[1:] > rows[:-1]).all())
        mapper = None if isinstance(self.source, Stored) or not is_sorted else self.source.mapper(multiple)
        if mapper is not None:
            yield from self._mapped_elsewhere(mapper, function, rows, size, multiple)
            return
        stop = 0
        for chunk in self.chunks(rows, size):
            start, stop = stop, stop + self._count(chunk)
            yield slice(start, stop), function(slice(start, stop), chunk)

    def _mapped_elsewhere(
        self,
        mapper: Callable[[Work], Iterator[Part]],
        function: Function,
        rows: Indices | None,
        size: int,
        multiple: int,
    ) -> Iterator[tuple[slice, Values]]:
        if not self.was_seen:
            self.begin(rows, 1)
        like, layout = self.like, self._layout
        announced, self._announced = self._announced, np.empty(0, dtype=np.int64)
        self._begun = None
        n = 0
        for part in mapper(Work(function, rows, size, multiple, announced, layout, like)):  # type: ignore[arg-type]
            self._kept += part.kept
            n = max(n, part.stop)
            yield from part.values
        if rows is None:
            self._check_number(n)

    def begin(self, rows: Indices | None, n: int) -> int:
        """Read the first n rows of a pass, or of the whole blocks that hold them. How many are read by then."""
        begun = self._begun
        if begun is None or begun.rows is not rows:
            begun = self._begun = _Begun(rows, self._pieces(rows))
        while begun.n_read < n and not begun.is_at_end:
            piece = next(begun.pieces, None)
            begun.is_at_end = piece is None
            if piece is not None:
                begun.read.append(piece)
                begun.n_read += self._count(piece)
        return begun.n_read

    def _pass(self, rows: Indices | None) -> Iterator[Any]:
        """All pieces of a pass, from where it was begun; rows that were announced are kept."""
        begun, self._begun = self._begun, None
        is_begun = begun is not None and begun.rows is rows
        pieces = itertools.chain(begun.read, begun.pieces) if begun and is_begun else self._pieces(rows)
        del begun  # whose blocks need not be kept until the end
        announced, self._announced = self._announced, np.empty(0, dtype=np.int64)
        start = 0
        for piece in pieces:
            stop = start + self._count(piece)
            if len(announced):
                here = np.arange(start, stop) if rows is None else rows[start:stop]
                inside = np.flatnonzero(np.isin(here, announced, assume_unique=True))
                if len(inside):
                    self._kept.append((here[inside], self._kind_of(piece).take(piece, inside)))
            start = stop
            yield piece

    def _pieces(self, rows: Indices | None) -> Iterator[Any]:
        """Blocks, less the rows that are not wanted; none is empty. Rows behind larger ones are read after these."""
        if rows is not None and (rows[1:] < rows[:-1]).any():
            for run in np.split(rows, np.flatnonzero(rows[1:] < rows[:-1]) + 1):
                yield from self._pieces(run)
            return
        n = 0
        for where, block in self._read(rows):
            length = self._count(block)
            start, n = _span(where, length)
            if not isinstance(self.source, Stored):
                self._check(block, start)
            if rows is None:
                piece = block
            else:
                inside = _inside(where, length, rows)
                piece = block if len(inside) == length else self._kind_of(block).take(block, inside)
            if self._count(piece):
                yield piece
        if rows is None:
            self._check_number(n)
        elif len(rows) and n <= rows[-1]:
            self._check_number(n, at_least=int(rows[-1]) + 1)

    def _read(self, wanted: Indices | None) -> Iterator[tuple[Where, Any]]:
        with failure_explained("Reading `X_pool`"):
            blocks = self.source.read(wanted)
        if self.source.reads_ahead:
            blocks = _ahead(blocks)
        n = 0
        while True:
            with failure_explained(f"Reading `X_pool` from row {n} on"):
                found = next(blocks, None)
            if found is None:
                return
            where, block = found
            n = _span(where, self._count(block))[1]
            yield where, block
            del block, found  # so that it need not stay until the next one is there

    # --- rows ---------------------------------------------------------------------------------------

    def announce(self, rows: Indices) -> None:
        """Say which rows `take` will be asked for after the next pass, so that they are kept on the way."""
        self._announced = np.union1d(self._announced, rows)

    def take(self, rows: Indices) -> Any:
        """Rows at some positions, in this order: those at hand, else read for it."""
        found = self._at_hand(rows)
        if found is not None:
            return found
        wanted = np.unique(rows)
        pieces = list(self._pieces(wanted))
        rows_of = self._stacked(pieces) if pieces else self.like
        return self._kind_of(rows_of).take(rows_of, np.searchsorted(wanted, rows))

    def take_candidates(self, rows: Indices | None, candidates: Indices) -> Any:
        """The same for some of the rows of a pass; if they are near its beginning, by beginning it."""
        positions = candidates if rows is None else rows[candidates]
        found = self._at_hand(positions)
        if found is None and candidates.max(initial=0) < NEAR:
            self.begin(rows, int(candidates.max(initial=0)) + 1)
        return self.take(positions) if found is None else found

    def whole(self) -> Any:
        """All rows in one container, in memory."""
        pieces = list(self._pass(None))
        return self._stacked(pieces) if pieces else self.like

    @property
    def was_seen(self) -> bool:
        """Whether any block was read by now."""
        return self._like is not None

    @property
    def like(self) -> Any:
        """A row of the pool, or none of an empty one: what all blocks are like."""
        if self._like is None:
            self.begin(None, 1)
        if self._like is None:
            raise ValueError(f"`X_pool` is empty: this {self.source.name} has no block.")
        return self._like

    def _at_hand(self, rows: Indices) -> Any:
        """Rows that were read and not passed yet, or were kept; None if any of them is neither."""
        if self._begun is not None and self._begun.read:
            places = self._begun.places_of(rows)
            if places is not None:
                self._begun.read = [self._stacked(self._begun.read)]
                return self._kind_of(self._begun.read[0]).take(self._begun.read[0], places)
        if self._kept:
            places = places_in(np.concatenate([positions for positions, _ in self._kept]), rows)
            if places is not None:
                kept = self._stacked([part for _, part in self._kept])
                return self._kind_of(kept).take(kept, places)
        return None

    # --- how many -----------------------------------------------------------------------------------

    def count(self, why: str) -> int:
        """How many rows there are. If finding out is as much work as reading them, they are read and stored."""
        if self.n_rows is None:
            self.n_rows = self.source.count()
        if self.n_rows is None:
            self.store(None, why)
        return self.n_rows  # type: ignore[return-value]

    def store(self, rows: Indices | None, why: str) -> None:
        """Keep all rows, or some, where they can be read again: if they are many in a temporary folder, which is said.

        ``why`` is said then as well.
        """
        if isinstance(self.source, Stored):
            return
        name, stored, n = self.source.name, Stored(self.n_rows), 0
        for piece in self._pass(rows):
            start, length = n, self._count(piece)
            n = start + length
            n_bytes = length * (self._kind_of(piece).bytes_per_row(piece) or _OF_UNKNOWN)
            stored.add(start if rows is None else rows[start:n], piece, length, n_bytes)
        stored.total = self.n_rows = n if self.n_rows is None else self.n_rows
        self.source = stored
        if stored.n_bytes:
            warn(
                f"{why}, so the rows of this {name} were written to a temporary folder "
                f"({stored.n_bytes / 2**20:.3g} MiB)."
            )

    def _check_number(self, n: int, at_least: int | None = None) -> None:
        if self.n_rows is not None and n != self.n_rows and not (at_least and n >= at_least):
            raise ValueError(
                f"`X_pool` must have as many rows as it says. This {self.source.name} says {self.n_rows}, and {n} were "
                "read: its length is wrong, or it has changed meanwhile."
            )
        if at_least is None:
            self.n_rows = n

    def _check(self, block: Any, start: int) -> None:
        if self._layout is None:
            self._layout = Layout.of(block, self._kind_of)
            self._like = self._kind_of(block).slice(block, 0, 1)
        check_alike(self._layout, Layout.of(block, self._kind_of), self._like, block, start)

    def _count(self, block: Any) -> int:
        return self._kind_of(block).count_rows(block)

    def _stacked(self, pieces: list[Any]) -> Any:
        return pieces[0] if len(pieces) == 1 else self._kind_of(pieces[0]).stack(pieces)


def places_in(positions: Indices, rows: Indices) -> Indices | None:
    """Where among some positions some rows are; None if any is not there."""
    order = np.argsort(positions, kind="stable")
    places = np.searchsorted(positions, rows, sorter=order)
    if not (places < len(positions)).all():
        return None
    return order[places] if np.array_equal(positions[order[places]], rows) else None


def _span(where: Where, length: int) -> tuple[int, int]:
    """The position of the first row of a block, and that behind its last row."""
    return (where, where + length) if isinstance(where, int) else (int(where[0]), int(where[-1]) + 1)


def _inside(where: Where, length: int, rows: Indices) -> Indices:
    """Which rows of a block are among those at some sorted positions."""
    if isinstance(where, int):
        return rows[np.searchsorted(rows, where) : np.searchsorted(rows, where + length)] - where
    return np.flatnonzero(np.isin(where, rows, assume_unique=True))


def _ahead(blocks: Iterator[Any]) -> Iterator[Any]:
    """The same blocks, each read by another thread while the one before is worked on."""
    reader = ThreadPoolExecutor(1, thread_name_prefix="skactive-reader")
    try:
        coming = reader.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, blocks, None)
            yield block
            del block
    finally:  # who waits for a thread here may be that thread, where it collects garbage
        reader.shutdown(wait=False, cancel_futures=True)
