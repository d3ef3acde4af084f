"""Pools that are read in blocks, in order: files, dask collections, generators.

A `Source` reads the blocks of one kind of pool. A `Stream` is a pool from any source, for one query: it reads each
block once, cuts blocks into chunks of the wanted size, and counts rows on the way.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from .._utils.validation import failure_explained, warn
from ._kinds import Arrays, Indices, check_plain, kind_of

Where = int | Indices  # of a block: the position of its first row if rows are consecutive, else of all rows
Function = Callable[[slice, Any], Any]  # of a chunk, and its rows among those of the pass
Found = Iterable[tuple[slice, Any]]  # what a function gives for rows that follow one another, and where these are
Layout = list[str | None]  # what a block is, what a row of it is, what each column holds; None for no values

MOST_IN_MEMORY = 64 * 2**20  # bytes of rows up to which those that are read again are kept in memory
NEAR = 1000  # so many first rows are taken by beginning the next pass, others by a pass of their own

_OF_UNKNOWN = 1024  # bytes that a row of texts or objects is assumed to take


class Source(ABC):
    """How the blocks of one kind of pool are read; ``name`` is what messages call it."""

    name: str
    is_once: bool = False  # whether it can be read a single time
    may_change: bool = False  # whether rows come from the user's own code, which may return others when read again

    def __init__(self, X: Any, name: str) -> None:  # ``name`` is the parameter that X was given for
        self.X = X

    def n_rows(self) -> int | None:
        """Number of rows, if it is known without reading them."""
        return None

    def count(self) -> int | None:
        """Number of rows, if finding out is much less work than reading them."""
        return self.n_rows()

    @abstractmethod
    def read(self, wanted: Indices | None) -> Iterator[tuple[Where, Any]]:
        """Blocks in memory, and where their rows are; those without a row at ``wanted`` (sorted) may be skipped."""

    def mapped(self, function: Function, rows: Indices | None, size: int, first: Layout) -> Found | None:
        """The function of chunks of each block, computed where the blocks are; None if they have to be read here."""
        return None


class ReadInBlocks(Arrays):
    """All containers of which a test says that one class of `Source` reads them."""

    def __init__(self, holds: Callable[[Any], bool], source: Callable[[Any, str], Source]) -> None:
        self.holds, self.source = holds, source  # type: ignore[assignment,method-assign]

    def prepare(self, X: Any, name: str) -> Any:
        """A stream for a pool; other rows, of which there are few, are read into memory."""
        stream = Stream(self.source(X, name))
        return stream if name == "X_pool" else stream.whole()


class Streams(Arrays):
    """Pools that are read in blocks, as `prepare` leaves them."""

    def holds(self, X: Any) -> bool:
        return isinstance(X, Stream)

    def count_rows(self, X: Any) -> int:
        return X.count("The number of rows has to be known before they are read")

    def count_columns(self, X: Any) -> int | None:
        return kind_of(X.like).count_columns(X.like)

    def names(self, X: Any) -> list[Any] | None:
        return kind_of(X.like).names(X.like)

    def take(self, X: Any, rows: Indices) -> Any:
        return X.take(rows)

    def bytes_per_row(self, X: Any) -> float | None:
        return kind_of(X.like).bytes_per_row(X.like)


class Stream:
    """A pool that is read in blocks, for one query; ``n_rows`` is None while their number is unknown."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.n_rows = source.n_rows()
        self._first: Layout | None = None
        self._like: Any = None
        self._begun: tuple[Indices | None, list[Any], Iterator[Any]] | None = None

    def chunks(self, rows: Indices | None, size: int) -> Iterator[Any]:
        """All rows, or those at some positions, in their order and ``size`` at a time: one pass if they are sorted."""
        left: list[Any] = []
        n_left = 0
        for piece in self._pass(rows):
            kind, at, length = kind_of(piece), 0, count(piece)
            while n_left + length - at >= size:
                stop = at + size - n_left
                part = kind.slice(piece, at, stop)
                yield kind.stack([*left, part]) if left else part
                left, n_left, at = [], 0, stop
            if at < length:
                left.append(kind.slice(piece, at, length))
                n_left += length - at
        if left:
            yield _stacked(left)

    def mapped(self, function: Function, rows: Indices | None, size: int) -> Iterator[tuple[slice, Any]]:
        found = None
        if rows is None or (rows[1:] > rows[:-1]).all():
            self.begin(rows, 1)  # shows what all blocks must be like
            found = None if self._first is None else self.source.mapped(function, rows, size, self._first)
        if found is None:
            yield from values_of(function, self.chunks(rows, size))
            return
        self._begun, stop = None, 0
        for where, values in found:
            stop = where.stop
            yield where, values
        if rows is None:
            self.n_rows = stop

    def begin(self, rows: Indices | None, n: int) -> int:
        """Read ``n`` or more first rows of a pass, from which the next pass over the same rows goes on; how many."""
        begun, self._begun = self._begun, None  # nothing is left of a pass that fails
        _, read, pieces = (rows, [], self._pieces(rows)) if begun is None or begun[0] is not rows else begun
        while sum(map(count, read)) < n and (piece := next(pieces, None)) is not None:
            read.append(piece)
        self._begun = rows, read, pieces
        return sum(map(count, read))

    def _pass(self, rows: Indices | None) -> Iterator[Any]:
        """All pieces of a pass, from where it was begun."""
        begun, self._begun = self._begun, None
        if begun is None or begun[0] is not rows:
            return self._pieces(rows)
        return itertools.chain(_consumed(begun[1]), begun[2])

    def _pieces(self, rows: Indices | None) -> Iterator[Any]:
        """Blocks less the rows that are not wanted; none is empty. Unsorted rows are read in several passes."""
        if rows is not None and (rows[1:] < rows[:-1]).any():
            for run in np.split(rows, np.flatnonzero(rows[1:] < rows[:-1]) + 1):
                yield from self._pieces(run)
            return
        n = 0
        for where, block in self._read(rows):
            start, n = _span(where, count(block))
            if self._first is None and self.source.may_change and not self.source.is_once:
                self._check_stays(where, block)
            self._check(block, start)
            piece = block if rows is None else _part(where, block, rows)
            del block  # it need not stay until the next one is there
            if count(piece):
                yield piece
        self._check_number(n, rows)

    def _read(self, wanted: Indices | None) -> Iterator[tuple[Where, Any]]:
        with failure_explained("Reading `X_pool`"):
            yield from self.source.read(wanted)

    def take(self, rows: Indices) -> Any:
        """Rows at some positions, in this order, by a pass of their own."""
        wanted = np.unique(rows)
        pieces = list(self._pieces(wanted))
        if len(rows) and not pieces:
            raise self._empty_error()
        found = _stacked(pieces) if pieces else self.like
        return kind_of(found).take(found, np.searchsorted(wanted, rows))

    def take_candidates(self, rows: Indices | None, candidates: Indices) -> Any:
        """The rows at these places among ``rows``; near the beginning, they are read by the next pass."""
        last = int(candidates.max(initial=0))
        if last >= NEAR or self.begin(rows, last + 1) <= last:
            return self.take(candidates if rows is None else rows[candidates])
        read = self._begun[1]  # type: ignore[index]
        read[:] = [_stacked(read)]
        return kind_of(read[0]).take(read[0], candidates)

    def whole(self) -> Any:
        pieces = list(self._pass(None))
        return _stacked(pieces) if pieces else self.like

    @property
    def like(self) -> Any:
        """A row of the pool, or a block without rows: what all blocks are like."""
        self.look(None)
        if self._first is None:
            raise self._empty_error()
        return self._like

    def look(self, rows: Indices | None) -> None:
        if self._first is None:
            self.begin(rows, 1)

    def _empty_error(self) -> ValueError:
        return ValueError(f"`X_pool` is empty: this {self.source.name} has no rows.")

    def count(self, why: str) -> int:
        """How many rows there are. If finding out is as much work as reading them, they are read and stored."""
        if self.n_rows is None:
            self.n_rows = self.source.count()
        if self.n_rows is None:
            self.store(None, why)
        return self.n_rows  # type: ignore[return-value]

    def store(self, rows: Indices | None, why: str) -> None:
        """Keep all rows, or some, to read them again; many are written to a temporary folder, with a warning."""
        if isinstance(self.source, Stored):
            return
        stored, n = Stored(self.n_rows), 0
        for piece in self._pass(rows):
            start, n = n, n + count(piece)
            stored.add(start if rows is None else rows[start:n], piece)
        stored.total = self.n_rows = n if self.n_rows is None else self.n_rows
        name, self.source = self.source.name, stored
        if stored.n_bytes:
            size = f"{stored.n_bytes / 2**20:.3g} MiB"
            warn(f"{why}, so the rows of this {name} were written to a temporary folder ({size}).")

    def _check_number(self, n: int, rows: Indices | None) -> None:
        """Check that a pass over ``rows``, which ended at row n, has met all of them."""
        if rows is None and self.n_rows is None:
            self.n_rows = n
        if n != self.n_rows and (rows is None or n <= rows.max(initial=-1)):
            raise ValueError(
                f"`X_pool` reported {self.n_rows} rows but yielded {n}: the length of this {self.source.name} is "
                "wrong, or it has changed meanwhile."
            )

    def _check_stays(self, where: Where, block: Any) -> None:
        """Refuse a pool whose first rows are others when they are read again."""
        wanted = np.arange(where, where + count(block)) if isinstance(where, int) else where
        _, again = next(self._read(wanted), (where, block))  # whole: augmentation may be rare
        n = min(count(block), count(again))
        first, second = (kind_of(rows).keys(kind_of(rows).slice(rows, 0, n)) for rows in (block, again))
        if first != second:
            raise ValueError(
                f"`X_pool` must have the same rows whenever it is read. The first rows of this {self.source.name} were "
                "different the second time: give the pool without random augmentation, in a fixed order. What can be "
                "read only once is a pool as skactive.blocks(iterator)."
            )

    def _check(self, block: Any, start: int) -> None:
        if self._first is None:
            self._first, self._like = layout_of(block), kind_of(block).slice(block, 0, 1)
        elif not isinstance(self.source, Stored):
            check_alike(self._first, block, start)


def count(block: Any) -> int:
    return int(kind_of(block).count_rows(block))


def values_of(function: Function, chunks: Iterable[Any], start: int = 0) -> Iterator[tuple[slice, Any]]:
    """The function of each chunk, of rows that follow one another, and where these are."""
    for chunk in chunks:
        where = slice(start, start + count(chunk))
        yield where, function(where, chunk)
        start = where.stop


def _consumed(pieces: list[Any]) -> Iterator[Any]:
    """Pieces that are let go as they are passed on."""
    while pieces:
        yield pieces.pop(0)


def _stacked(pieces: list[Any]) -> Any:
    return pieces[0] if len(pieces) == 1 else kind_of(pieces[0]).stack(pieces)


def _span(where: Where, length: int) -> tuple[int, int]:
    """The position of the first row of a block, and that behind its last row."""
    return (where, where + length) if isinstance(where, int) else (int(where[0]), int(where[-1]) + 1)


def inside(wanted: Indices, start: int, length: int) -> Indices:
    """Positions in a block of consecutive rows of the wanted ones (sorted) that it has."""
    return wanted[slice(*np.searchsorted(wanted, [start, start + length]))] - start


def _part(where: Where, block: Any, rows: Indices) -> Any:
    """The rows of a block that are among those at some sorted positions."""
    if isinstance(where, int):
        found = inside(rows, where, count(block))
    else:
        found = np.flatnonzero(np.isin(where, rows, assume_unique=True))
    return block if len(found) == count(block) else kind_of(block).take(block, found)


def layout_of(block: Any) -> Layout:
    """What all blocks of a pool, none of which is masked, must have in common."""
    check_plain(block, "X_pool")
    names, kinds = kind_of(block).layout(block)
    if isinstance(names, list):
        kinds = [kind and f"{kind} in column {name!r}" for kind, name in zip(kinds, names, strict=True)]
    return [f"a {type(block).__name__}", f"rows of {names}", *kinds]


def check_alike(first: Layout, block: Any, start: int) -> None:
    """Check a block that begins at a row of the pool against the first one; what is None may be anything."""
    for got, expected in zip(layout_of(block), first, strict=False):
        if got != expected and None not in (got, expected):
            raise ValueError(
                f"`X_pool` must have the same columns and types in every block. Got {got:.300} in the block that "
                f"begins at row {start}, where the first has {expected:.300}."
            )


class Stored(Source):
    """Rows that were read, in memory if they are few, else in a temporary folder that goes with this object.

    ``total`` are the rows of the whole pool, of which some may be kept; ``n_bytes`` is what files take.
    """

    name = "stored pool"

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.n_bytes = 0
        self._in_memory = 0.0
        self._folder: Path | None = None
        self._blocks: list[tuple[Where, int, Any]] = []

    def n_rows(self) -> int | None:
        return self.total

    def add(self, where: Where, rows: Any) -> None:
        self._blocks.append((where, count(rows), rows))
        self._in_memory += count(rows) * (kind_of(rows).bytes_per_row(rows) or _OF_UNKNOWN)
        if self._folder is not None:
            self._blocks[-1] = self._written(len(self._blocks) - 1)
        elif self._in_memory > MOST_IN_MEMORY:
            self._folder = Path(tempfile.mkdtemp(prefix="skactive-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            self._blocks = [self._written(i) for i in range(len(self._blocks))]

    def _written(self, i: int) -> tuple[Where, int, Path]:
        where, length, rows = self._blocks[i]
        file = Path(self._folder or "") / f"{i}.joblib"
        joblib.dump(rows, file)
        self.n_bytes += file.stat().st_size
        return where, length, file

    def read(self, wanted: Indices | None) -> Iterator[tuple[Where, Any]]:
        for where, length, rows in self._blocks:
            start, stop = _span(where, length)
            if wanted is None or len(inside(wanted, start, stop - start)):
                yield where, joblib.load(rows, mmap_mode="r") if isinstance(rows, Path) else rows
