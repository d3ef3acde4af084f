"""Arrays that a model gives for the candidates of a pool, a row each, and the points of a space that these are.

===========  =========================================================================================================
embeddings   nets: what enters the last layer; trees: the leaves; linear models: their features; others: their draws
gradients    of the last layer, by the probable label: p - e times the above, or times features for other classifiers
===========  =========================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .. import _containers as containers
from .._utils.types import Embedding, SpaceName
from .._utils.validation import (
    PointError,
    Rules,
    as_array,
    check_classifier,
    check_one_output,
    failure_explained,
    name_or_callable,
    numbers_in_place,
)
from ..posterior._embeddings import embed_by, has_embeddings, is_of_leaves, leaves_by, represent_by
from ..posterior._registry import has_source, innermost
from ..posterior._wrappers import Composed, bytes_on_the_way, in_batches
from ..samplers._distances import Leaves, PointSet, Residuals, Vectors
from ..samplers._repulsion import DIVERSITY
from ._draws import PoolDraws
from ._pool import Pool, model_of

RULES: Rules = {"diversity": DIVERSITY, "space": name_or_callable(get_args(SpaceName))}
"""Rules of the parameters that keep rows of a batch apart."""


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
            f"{error} Rows of text or of mixed types need transformers before the estimator, in a Pipeline, or a "
            f"function of the rows as `{parameter}`."
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

    An array is dense or sparse as those of the first row are. Where the function returns the rows that it was given,
    nothing is kept: the pool's own rows are the answer, read in place.
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
                f"`{self._parameter}` must give every row as many numbers as the first one, {self.n_columns}. Got "
                f"shape {tuple(part.shape)}."
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


# --- spaces -----------------------------------------------------------------------------------------


def points_of(
    pool: Pool,
    learner: Any,
    draws: PoolDraws | None,
    *,
    space: str | Callable[..., Any] = "auto",
    chunk_size: int | None = None,
    predict_batch_size: int | None = None,
    verbose: int = 0,
) -> PointSet:
    """The candidates of a pool as points, and after them the rows in flight.

    ``draws`` are the space of models that have neither embeddings nor leaves.
    """
    model, is_own = model_of(learner), callable(space)
    of_rows, has_probabilities = _find(model, space, draws, predict_batch_size)
    is_of_trees = not is_own and leaves_by(model) is not None and is_of_leaves(model)

    def arrays_of(X: Any) -> tuple[Any, ...]:
        *before, last = of_rows(X) if has_probabilities else (of_rows(X),)
        if not is_of_trees:
            last = _checked(last if is_own else check_ran_a_layer(last), containers.count_rows(X))
        return (*before, last)

    arrays = collect(
        pool.with_pending(),
        arrays_of,
        model=model,
        doing="placing",
        parameter="space",
        chunk_size=chunk_size,
        batch_size=getattr(of_rows, "batch_size", None),
        verbose=verbose,
    )
    name = "space function" if is_own else "space"
    last = Leaves(arrays[-1]) if is_of_trees else Vectors(arrays[-1], name, centred=len(arrays) == 1)
    try:
        return PointSet(*(Residuals(array) for array in arrays[:-1]), last)
    except PointError as error:
        raise error.of_rows(pool.with_pending().rows) from None


def is_drawn(model: Any, space: str | Callable[..., Any]) -> bool:
    """Whether draws are the space, as the model has any, and neither embeddings nor leaves."""
    by_features = callable(space) or space == "gradients"
    return not by_features and has_source(innermost(model)) and leaves_by(model) is None and not has_embeddings(model)


def _find(
    model: Any, space: str | Callable[..., Any], draws: PoolDraws | None, batch_size: int | None
) -> tuple[Callable[[Any], Any], bool]:
    """A function of rows that gives an array, and whether it gives probabilities before that."""
    if callable(space):
        return in_batches(embed_by(model, space), batch_size), False
    leaves = leaves_by(model)
    if space == "gradients":
        check_classifier(model, 'space="gradients"')
        if leaves is None:
            return in_batches(represent_by(model), batch_size), True
        return lambda X: (check_one_output(model.predict_proba(X), model), leaves(X)), True
    if leaves is not None:
        return leaves, False
    if draws is not None and draws.n_draws > 1 and not has_embeddings(model):
        return Composed(draws.predict, after=_in_a_line), False
    return in_batches(embed_by(model), batch_size), False


def _in_a_line(draws: Any) -> NDArray[Any]:
    """All draws of a row, (n_rows, n_draws * n_classes)."""
    of_rows = as_array(draws)
    return np.moveaxis(of_rows, 1, 0).reshape(of_rows.shape[1], -1)


def _checked(embeddings: Any, n_rows: int) -> Any:
    embeddings = as_numbers(embeddings, "space")
    if len(embeddings.shape) != 2 or embeddings.shape[0] != n_rows or embeddings.shape[1] == 0:
        raise ValueError(
            f"`space` must give an array with a row for each of the {n_rows} rows of a chunk, shape ({n_rows}, "
            f"n_columns). Got shape {tuple(embeddings.shape)}."
        )
    return embeddings
