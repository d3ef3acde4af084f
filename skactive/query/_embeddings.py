"""Arrays that a model gives for the candidates of a pool, a row each: embeddings, and probabilities beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._checks import failure_explained
from ._pool import Pool


def collect(
    pool: Pool,
    function: Callable[[Any], Sequence[Any]],
    *,
    doing: str = "embedding",
    chunk_size: int | None = None,
    batch_size: int | None = None,
    verbose: int = 0,
) -> list[Any]:
    """Stream the candidates through a function of rows that returns arrays (n_rows, n_columns), and keep these.

    An array is dense or sparse as those of the first row are. Where the function returns the rows that it was given,
    nothing is kept: the pool's own rows are the answer, read in place.
    """
    first = pool.take(np.array([0]))
    with failure_explained(f"{doing.capitalize()} one row of the pool"):
        kept = [_Kept(part, pool, part is first) for part in function(first)]
    n_values = sum(array.n_columns for array in kept)
    for rows, chunk in pool.chunks(n_values, doing, chunk_size=chunk_size, batch_size=batch_size, verbose=verbose):
        with failure_explained(f"{doing.capitalize()} rows {rows.start} to {rows.stop - 1}"):
            for array, part in zip(kept, function(chunk), strict=True):
                array.add(rows, part)
    return [array.all() for array in kept]


class _Kept:
    """One array over all candidates, filled chunk by chunk."""

    def __init__(self, first: Any, pool: Pool, in_place: bool) -> None:
        self._pool, self._in_place, self.n_columns = pool, in_place, first.shape[1]
        self._parts: list[Any] = []
        is_dense = not (in_place or sparse.issparse(first))
        self._array = np.empty((len(pool), self.n_columns), first.dtype) if is_dense else None

    def add(self, rows: slice, part: Any) -> None:
        if self._array is not None:
            self._array[rows] = part
        elif not self._in_place:
            self._parts.append(part)

    def all(self) -> Any:
        if self._in_place:
            return self._pool.X if self._pool.rows is None else RowsOf(self._pool.X, self._pool.rows)
        return sparse.vstack(self._parts, format="csr") if self._array is None else self._array


class RowsOf:
    """Some rows of an array, as an array: none is copied before it is asked for."""

    def __init__(self, array: Any, rows: NDArray[np.int64]) -> None:
        self._array, self._rows = array, rows
        self.shape, self.dtype = (len(rows), array.shape[1]), array.dtype

    def __getitem__(self, rows: Any) -> Any:
        return self._array[self._rows[rows]]
