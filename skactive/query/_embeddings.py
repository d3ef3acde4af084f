"""Arrays that a model gives for the candidates of a pool, a row each: embeddings, and probabilities beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .. import _containers as containers
from .._checks import failure_explained, numbers_in_place
from .._types import Embedding
from ..posterior._embeddings import embed_by
from ..posterior._wrappers import bytes_on_the_way, in_batches
from ._model import model_of
from ._pool import Pool


def embeddings_of(
    pool: Pool,
    learner: Any,
    *,
    embedding: Embedding = "auto",
    chunk_size: int | None = None,
    predict_batch_size: int | None = None,
    verbose: int = 0,
) -> Any:
    """Embeddings of the candidates by the model of a learner.

    Parameters
    ----------
    pool : Pool
    learner : fitted estimator, or modAL learner
    embedding, chunk_size, predict_batch_size, verbose
        As in `skactive.BADGEQuery`.

    Returns
    -------
    array of shape (n_candidates, n_units)
        Dense, or a sparse CSR array if the model embeds rows so. Where rows are their own embeddings, as those of a
        linear model, it is the pool itself, of which rows are read when they are asked for.

    Raises
    ------
    ValueError
        If a net ran no linear layer.

    See Also
    --------
    query.draws_of : Draws for the same rows.
    KCenterQuery : A query by embeddings alone.
    """
    model = model_of(learner)
    embed = in_batches(embed_by(model, embedding), predict_batch_size)
    batch_size = getattr(embed, "batch_size", None)
    options: dict[str, Any] = {"chunk_size": chunk_size, "batch_size": batch_size, "verbose": verbose, "model": model}
    return collect(pool, lambda X: (as_numbers(check_ran_a_layer(embed(X))),), **options)[0]


def as_numbers(embeddings: Any, parameter: str = "embedding") -> Any:
    """What rows can be taken from by position: the array of numbers that it is, or a copy."""
    try:
        return numbers_in_place("embeddings", embeddings)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`embeddings` must be an array of numbers. Got a {type(embeddings).__name__} of something else: {error}. "
            "Rows of text or of mixed types need a model that makes numbers of them: put the estimator behind its "
            f"transformers in a Pipeline, or give the query a function of the rows as `{parameter}`."
        ) from error


def check_ran_a_layer(embeddings: Any) -> Any:
    """Refuse the embeddings of a net that has no layer to take them from: they have no columns."""
    if containers.count_columns(embeddings) == 0:
        raise ValueError(
            '`embedding`="auto" uses the input of the last torch.nn.Linear layer of a net, and no such layer ran in '
            "this one. Give a function of the rows as `embedding`, or the net a method `embed(X)`."
        )
    return embeddings


def collect(
    pool: Pool,
    function: Callable[[Any], Sequence[Any]],
    *,
    model: Any,
    doing: str = "embedding",
    parameter: str = "embedding",
    chunk_size: int | None = None,
    batch_size: int | None = None,
    verbose: int = 0,
) -> list[Any]:
    """Stream the candidates through a function of rows that returns arrays (n_rows, n_columns), and keep these.

    ``model`` is what the function asks. An array is dense or sparse as those of the first row are. Where the function
    returns the rows that it was given, nothing is kept: the pool's own rows are the answer, read in place.
    """
    first = pool.take(np.array([0]))
    with failure_explained(f"{doing.capitalize()} one row of the pool"):
        n_beside = math.ceil(bytes_on_the_way(model, first) / 8)
        kept = [_Kept(part, pool, part is first and not pool.is_read_in_blocks, parameter) for part in function(first)]
    n_values = sum(array.n_columns for array in kept) + n_beside
    for rows, chunk in pool.chunks(n_values, doing, chunk_size=chunk_size, batch_size=batch_size, verbose=verbose):
        with failure_explained(f"{doing.capitalize()} rows {rows.start} to {rows.stop - 1}"):
            for array, part in zip(kept, function(chunk), strict=True):
                array.add(rows, part)
    return [array.all() for array in kept]


class _Kept:
    """One array over all candidates, filled chunk by chunk."""

    def __init__(self, first: Any, pool: Pool, in_place: bool, parameter: str) -> None:
        self._pool, self._in_place, self.n_columns, self._parameter = pool, in_place, first.shape[1], parameter
        self._parts: list[Any] = []
        is_dense = not (in_place or sparse.issparse(first))
        self._array = pool.room((len(pool), self.n_columns), first.dtype) if is_dense else None

    def add(self, rows: slice, part: Any) -> None:
        if part.shape[1:] != (self.n_columns,):
            raise ValueError(
                f"`{self._parameter}` must give every row as many numbers as the first one, {self.n_columns}. Got an "
                f"array of shape {tuple(part.shape)} for {rows.stop - rows.start} rows."
            )
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

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Any) -> Any:
        return self._array[self._rows[rows]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)
