"""What is read in blocks: Arrow, lazy frames of polars, dask, datasets of torch, and blocks of the user's own."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn import config_context, get_config

from .._utils.devices import Lock
from .._utils.validation import failure_explained
from ._blocks import (
    Found,
    Function,
    Layout,
    ReadInBlocks,
    Source,
    Streams,
    Where,
    check_alike,
    count,
    inside,
    values_of,
)
from ._kinds import Indices, Others, is_of_torch, kind_of, library_of, no_rows_error

_BLOCK = 16 * 2**20  # bytes of a block that is read from a file
_ITEMS = 64  # items of a dataset of torch in a block


def _rows_of_block(n_columns: int) -> int:
    """Rows that fit a block with 8 bytes a column, 131,072 at most."""
    return min(2**17, 1 + _BLOCK // (8 * n_columns + 8))


@dataclass(eq=False)
class Blocks:
    """What `skactive.blocks` returns: blocks of rows, in order, as a pool."""

    source: Iterable[Any] | Callable[[], Iterable[Any]]
    is_read: bool = field(default=False, repr=False)


def blocks(source: Iterable[Any] | Callable[[], Iterable[Any]]) -> Blocks:
    """Make a pool of blocks of rows that come from anywhere: a database, a generator, files of any format.

    Blocks are read in order, one at a time; a query that samples from scores reads each of them once (the first twice,
    if it can be read again, to see that it stays the same). A query that looks at rows again, such as `BatchBALDQuery`,
    keeps them, in a temporary folder if they take more than 64 MiB, and says so.

    Parameters
    ----------
    source : iterable of array-like, or callable
        Blocks of rows, each in a container that `StochasticBatchQuery.select` takes: arrays, DataFrames, tables of
        Arrow, sparse arrays, lists of texts. All have the same columns and types, and any number of rows. An iterator
        can be read only once: for more than one query, pass a function without parameters that returns a new one.

    Returns
    -------
    Blocks
        A pool for ``select``, `skactive.query.score_pool` and ``learner.query``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive import StochasticBatchQuery, blocks
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X[::10], y[::10])
    >>> pool = blocks(X[start : start + 40] for start in range(0, 150, 40))
    >>> StochasticBatchQuery(random_state=0).select(forest, pool, n_instances=3).shape
    (3,)
    """
    if isinstance(source, type | str | bytes) or not (callable(source) or hasattr(source, "__iter__")):
        raise TypeError(
            "`source` must be an iterable of blocks of rows, or a function that returns one. "
            f"Got a {type(source).__name__}."
        )
    return Blocks(source)


class GivenBlocks(Source):
    """Blocks as a user gives them."""

    name = "iterable of blocks"
    may_change = True

    def __init__(self, X: Blocks, name: str) -> None:
        self.X = X
        self.is_once = not callable(X.source) and iter(X.source) is X.source

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        if self.is_once and self.X.is_read:
            raise ValueError(
                "the blocks come from an iterator that was read before, and can be read only once: give "
                "`skactive.blocks` a function that returns a new one"
            )
        self.X.is_read, source, start = True, self.X.source, 0
        for i, given in enumerate(source() if callable(source) else source):
            if isinstance(kind_of(given), Others | ReadInBlocks | Streams):
                raise TypeError(f"blocks must be rows in memory, but block {i} is a {type(given).__name__}")
            block = kind_of(given).prepare(given, "blocks")
            yield start, kind_of(block).slice(block, 0, count(block))  # tables of Arrow become those of pandas
            start += count(block)


class ArrowDataset(Source):
    """The files of a dataset, in its order. Of Parquet files, row groups without a wanted row are not read."""

    name = "dataset of Arrow"

    def __init__(self, X: Any, name: str) -> None:
        self.X = X
        files = [] if getattr(X, "_scan_options", None) else list(X.get_fragments())  # options of a filter
        is_of_groups = bool(files) and all(hasattr(file, "row_groups") for file in files)
        self._groups = [group for file in files for group in file.split_by_row_group()] if is_of_groups else None
        self._lengths = [sum(group.num_rows for group in part.row_groups) for part in self._groups or ()]

    def n_rows(self) -> int | None:
        return None if self._groups is None else sum(self._lengths)

    def count(self) -> int | None:
        return int(self.X.count_rows())

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        schema = self.X.schema
        options = {"batch_size": _rows_of_block(len(schema)), "batch_readahead": 1, "fragment_readahead": 1}
        if self._groups is None:
            yield from _frames(self.X.to_batches(**options), schema)
            return
        start = 0
        # One row group after the other: of more of them, Arrow would read all bytes ahead.
        for group, length in zip(self._groups, self._lengths, strict=True):
            if wanted is None or len(inside(wanted, start, length)):
                yield from _frames(group.to_batches(schema=schema, **options), schema, start)
            start += length


def _frames(batches: Iterable[Any], schema: Any, start: int = 0) -> Iterator[tuple[int, Any]]:
    """Batches as DataFrames of pandas; small ones are put together before."""
    waiting: list[Any] = []
    for batch in itertools.chain(batches, [None]):
        waiting += [] if batch is None else [batch]
        n_rows = sum(part.num_rows for part in waiting)
        if n_rows and (batch is None or n_rows >= _rows_of_block(len(schema))):
            yield start, sys.modules["pyarrow"].Table.from_batches(waiting).to_pandas()
            start, waiting = start + n_rows, []


class PolarsPlan(Source):
    """The rows of a lazy frame, whose plan is run once."""

    name = "LazyFrame"

    def count(self) -> int | None:
        import polars

        return int(self.X.select(polars.len()).collect().item())

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        size, start = _rows_of_block(len(self.X.collect_schema())), 0
        if hasattr(self.X, "collect_batches"):
            found = iter(self.X.collect_batches(chunk_size=size, maintain_order=True, lazy=True))
        else:  # older versions
            found = self.X.collect().iter_slices(size)
        for block in found:
            yield start, block
            start += block.height


class DaskBlocks(Source):
    """Partitions of a frame of dask, or blocks of an array; they are built and scored where dask's scheduler likes."""

    def __init__(self, X: Any, name: str) -> None:
        self.name = f"{type(X).__name__} of dask"
        if hasattr(X, "divisions"):
            self._parts, lengths = X.to_delayed(), [np.nan] * X.npartitions
        elif getattr(X, "shape", ()):
            rows = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
            self._parts, lengths = rows.to_delayed().ravel().tolist(), X.chunks[0]
        else:
            raise no_rows_error(X, name)
        self._lengths = [None if np.isnan(length) else int(length) for length in lengths]

    def n_rows(self) -> int | None:
        return None if None in self._lengths else sum(length or 0 for length in self._lengths)

    def count(self) -> int | None:
        """Number of rows, for which every block is built once."""
        import dask

        if None in self._lengths:
            with failure_explained("Counting the rows of `X_pool` by dask"):
                self._lengths = list(dask.compute(*map(dask.delayed(count, pure=False), self._parts)))
        return self.n_rows()

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        start = 0
        for part, length in zip(self._parts, self._lengths, strict=True):
            if length is None or wanted is None or len(inside(wanted, start, length)):
                block = part.compute()
                length = _counted(block, length)
                yield start, block
            start += length

    def mapped(self, function: Function, rows: Indices | None, size: int, first: Layout) -> Found:
        import dask

        if rows is not None:
            self.count()
        work = dask.delayed(_Work(function, size, first), pure=False, traverse=False)  # once in the graph
        on_block, counted = dask.delayed(_Work.on_block, pure=False), dask.delayed(count, pure=False)
        tasks, start, place = [], 0, 0
        for part, length in zip(self._parts, self._lengths, strict=True):
            wanted = None if rows is None or length is None else inside(rows, start, length)
            if wanted is None or len(wanted):
                tasks.append(on_block(work, part, start, length, wanted, place))
            start = start + (counted(part) if length is None else length)
            place = start if wanted is None else place + len(wanted)
        large = {"distributed.admin.large-graph-warning-threshold": "1TB"}  # the warning is about the model
        with failure_explained("Scoring `X_pool` by dask"), dask.config.set(large):
            return list(itertools.chain(*dask.compute(*tasks)))


@dataclass(frozen=True)
class _Work:
    """What is done with a block where it is, one at a time in a process, as models keep state in a pass."""

    function: Function
    size: int
    first: Layout
    lock: Lock = field(default_factory=Lock)
    config: dict[str, Any] = field(default_factory=get_config)  # of scikit-learn, which belongs to a thread

    def on_block(self, block: Any, start: int, length: int | None, wanted: Indices | None, place: int) -> Found:
        """What is found for a block that begins at ``start``; its rows ``wanted`` are at ``place`` of the pass."""
        _counted(block, length)
        check_alike(self.first, block, start)
        rows = block if wanted is None else kind_of(block).take(block, wanted)
        starts = range(0, count(rows), self.size)
        chunks = (kind_of(rows).slice(rows, at, min(at + self.size, count(rows))) for at in starts)
        with self.lock, config_context(**self.config):
            return list(values_of(self.function, chunks, place))


def _counted(block: Any, length: int | None) -> int:
    """Number of rows of a block, checked against what dask says; None if it does not know."""
    if length is not None and count(block) != length:
        raise ValueError(f"`X_pool` reported {length} rows in a block but yielded {count(block)}.")
    return count(block)


class TorchItems(Source):
    """The items of a Dataset, one after the other: a row each, or a pair of a row and a label, which is left out."""

    may_change = True

    def __init__(self, X: Any, name: str) -> None:
        self.X, self.name = X, type(X).__name__
        self._has_places = hasattr(X, "__getitem__") and hasattr(X, "__len__")

    def n_rows(self) -> int | None:
        return len(self.X) if self._has_places else None

    def read(self, wanted: Indices | None) -> Iterator[tuple[Where, Any]]:
        if self._has_places:
            places = np.arange(len(self.X)) if wanted is None else wanted
            for start in range(0, len(places), _ITEMS):
                part = places[start : start + _ITEMS]
                yield part, _collated([self.X[i] for i in part.tolist()])
            return
        items, start = iter(self.X), 0
        while rows := list(itertools.islice(items, _ITEMS)):
            yield start, _collated(rows)
            start += len(rows)


class TorchLoader(Source):
    """The batches of a DataLoader, in the order of its dataset."""

    name = "DataLoader"
    may_change = True

    def __init__(self, X: Any, name: str) -> None:
        self.X = X
        order = type(getattr(X, "sampler", None)).__name__
        if order not in {"SequentialSampler", "_InfiniteConstantSampler", "NoneType"} or X.drop_last:
            got = "drop_last=True, which leaves rows out" if X.drop_last else f"a {order}"
            raise ValueError(
                f"`{name}` must give its rows in the order of its dataset, or their positions would mean nothing. Got "
                f"a DataLoader with {got}: make one with shuffle=False and drop_last=False."
            )

    def n_rows(self) -> int | None:
        return len(self.X.dataset) if hasattr(self.X.dataset, "__len__") else None

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        start = 0
        for batch in self.X:
            is_tuple = isinstance(batch, list | tuple) and len(batch) > 0 and hasattr(batch[0], "shape")
            rows = _prepared(_row_of(tuple(batch)) if is_tuple else batch)
            yield start, rows
            start += count(rows)


def _row_of(item: Any) -> Any:
    """The row of an item; as everywhere with torch, a pair is a row and its label."""
    if not isinstance(item, tuple):
        return item
    if len(item) in (1, 2):
        return item[0]
    raise TypeError(
        f"items of a Dataset must be rows, or pairs of a row and a label. Got tuples of {len(item)}: let "
        "`__getitem__` return a dict, by the names that the net has for its parts"
    )


def _collated(items: list[Any]) -> Any:
    rows = [_row_of(item) for item in items]
    return rows if isinstance(rows[0], str) else _prepared(sys.modules["torch"].utils.data.default_collate(rows))


def _prepared(rows: Any) -> Any:
    return kind_of(rows).prepare(rows, "X_pool") if isinstance(rows, Mapping) else rows


SOURCES: list[tuple[Callable[[Any], bool], type[Source]]] = [
    (lambda X: isinstance(X, Blocks), GivenBlocks),
    (lambda X: library_of(X) == "dask", DaskBlocks),
    (lambda X: is_of_torch(X, "Dataset"), TorchItems),  # of a TensorDataset, the tensor was taken before
    (lambda X: is_of_torch(X, "DataLoader"), TorchLoader),
    (lambda X: library_of(X) == "polars" and hasattr(X, "collect_schema") and not hasattr(X, "shape"), PolarsPlan),
    (lambda X: library_of(X) == "pyarrow" and hasattr(X, "get_fragments"), ArrowDataset),
]
