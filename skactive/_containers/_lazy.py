"""What is common to the kinds of containers that are read in blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._kinds import Arrays, Indices
from ._registry import kind_of
from ._streams import Source, Stream


class Streams(Arrays):
    """Pools that are read in blocks, as `prepare` leaves them."""

    def holds(self, X: Any) -> bool:
        return isinstance(X, Stream)

    def prepare(self, X: Any, name: str) -> Any:
        return X

    def count_rows(self, X: Any) -> int:
        return X.count("The number of rows has to be known before they are read")

    def count_columns(self, X: Any) -> int | None:
        return kind_of(X.like).count_columns(X.like)

    def names(self, X: Any) -> list[Any] | None:
        return kind_of(X.like).names(X.like)

    def chunks(self, X: Any, size: int) -> Iterator[Any]:
        return X.chunks(None, size)

    def take(self, X: Any, rows: Indices) -> Any:
        return X.take(rows)

    def bytes_per_row(self, X: Any) -> float | None:
        return kind_of(X.like).bytes_per_row(X.like)


class ReadInBlocks(Arrays):
    """A kind of container that is read in blocks. What is not its `source` goes by a stream of it."""

    @abstractmethod
    def source(self, X: Any, name: str) -> Source:
        """How its blocks are read; ``name`` is the parameter that it was given for."""

    def prepare(self, X: Any, name: str) -> Any:
        """A stream for a pool; other rows, of which there are few, are read into memory."""
        stream = Stream(self.source(X, name), kind_of)
        return stream if name == "X_pool" else stream.whole()

    def _stream(self, X: Any) -> Any:
        return self.prepare(X, "X_pool")

    def count_rows(self, X: Any) -> int:
        return self._of(self._stream(X), "count_rows")

    def count_columns(self, X: Any) -> int | None:
        return self._of(self._stream(X), "count_columns")

    def names(self, X: Any) -> list[Any] | None:
        return self._of(self._stream(X), "names")

    def slice(self, X: Any, start: int, stop: int) -> Any:
        return self._stream(X).take(np.arange(start, stop))

    def chunks(self, X: Any, size: int) -> Iterator[Any]:
        return self._stream(X).chunks(None, size)

    def take(self, X: Any, rows: Indices) -> Any:
        return self._stream(X).take(rows)

    def keys(self, X: Any) -> list[Any]:
        rows = self._stream(X).whole()
        return kind_of(rows).keys(rows)

    def join(self, X: Any, more: Any) -> Any:
        rows = self._stream(X).whole()
        return kind_of(rows).join(rows, more)

    def column(self, X: Any, position: int) -> NDArray[Any]:
        rows = self._stream(X).whole()
        return kind_of(rows).column(rows, position)

    def bytes_per_row(self, X: Any) -> float | None:
        return self._of(self._stream(X), "bytes_per_row")

    def _of(self, stream: Any, what: str) -> Any:
        return getattr(kind_of(stream), what)(stream)
