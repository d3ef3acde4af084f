"""Blocks of rows that come from anywhere: a cursor of a database, files of a format of one's own, a generator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ._kinds import Indices, Others
from ._lazy import ReadInBlocks, Streams
from ._registry import kind_of
from ._streams import Source


class Blocks:
    """What `skactive.blocks` returns: blocks of rows, in order, as a pool."""

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self.source = source
        self.is_read = False

    @property
    def is_once(self) -> bool:
        return not callable(self.source) and iter(self.source) is self.source

    def __repr__(self) -> str:
        return f"blocks({self.source!r})"


def blocks(source: Iterable[Any] | Callable[[], Iterable[Any]]) -> Blocks:
    """Make a pool of blocks of rows that come from anywhere: a database, a generator, files of any format.

    Blocks are read in order, one at a time, and their rows are counted on the way. A query that samples from scores
    reads each of them once. One that looks at rows again, such as `BatchBALDQuery`, writes them to a temporary folder
    while it reads them, and says so.

    Parameters
    ----------
    source : iterable of array-like, or callable
        Blocks of rows, each in a container that `StochasticBatchQuery.select` takes: arrays, DataFrames, tables of
        Arrow, sparse arrays, lists of texts. All have the same columns and types, and any number of rows. A list or
        another iterable that can be begun again can be a pool again. An iterator can be read once; so give a function
        without parameters that returns a new one, where more than one query is to be asked. They are read in the
        thread of the query.

    Returns
    -------
    Blocks
        A pool for ``select``, `skactive.query.score_pool` and ``learner.query``.

    Raises
    ------
    TypeError
        If ``source`` is neither.

    See Also
    --------
    StochasticBatchQuery.select : Takes it as ``X_pool``.

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


class OfBlocks(ReadInBlocks):
    def holds(self, X: Any) -> bool:
        return isinstance(X, Blocks)

    def source(self, X: Any, name: str) -> Source:
        return GivenBlocks(X)


class GivenBlocks(Source):
    """Blocks as a user gives them, read in the thread of the query, as a cursor of a database may insist on."""

    name = "iterable of blocks"
    reads_ahead = False

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    @property
    def is_once(self) -> bool:  # type: ignore[override]
        return self._blocks.is_once

    def read(self, wanted: Indices | None) -> Iterator[tuple[int, Any]]:
        if self.is_once and self._blocks.is_read:
            raise ValueError(
                "the blocks come from an iterator that was read before, and can be read once: give `skactive.blocks` a "
                "function that returns a new one"
            )
        self._blocks.is_read = True
        return self._each()

    def _each(self) -> Iterator[tuple[int, Any]]:
        start = 0
        source = self._blocks.source
        for i, block in enumerate(source() if callable(source) else source):
            kind = kind_of(block)
            if isinstance(kind, Others | ReadInBlocks | Streams):
                raise TypeError(
                    f"blocks must be arrays, DataFrames or other rows in memory, and block {i} is a "
                    f"{type(block).__name__}"
                )
            block = kind.prepare(block, "blocks")
            kind = kind_of(block)
            length = kind.count_rows(block)
            yield start, kind.slice(block, 0, length)
            start += length
