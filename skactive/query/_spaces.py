"""Rows of a pool as points of a space of the model's: rows that it treats alike lie near each other.

===========  =========================================================================================================
embeddings   nets: what enters the last layer; trees: the leaves; linear models: their features; others: their draws
gradients    of the last layer, by the probable label: p - e times the above, or times features for other classifiers
===========  =========================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from .. import _containers as containers
from .._checks import PointError, Rules, as_array, check_classifier, check_one_output, name_or_callable
from .._types import SpaceName
from ..posterior._embeddings import embed_by, has_embeddings, is_of_leaves, leaves_by, represent_by
from ..posterior._registry import has_source, innermost
from ..posterior._wrappers import Composed, in_batches
from ..samplers._distances import Leaves, PointSet, Residuals, Vectors
from ..samplers._repulsion import DIVERSITY
from ._draws import PoolDraws
from ._embeddings import as_numbers, check_ran_a_layer, collect
from ._model import model_of
from ._pool import Pool

SPACES = get_args(SpaceName)

RULES: Rules = {"diversity": DIVERSITY, "space": name_or_callable(SPACES)}
"""Rules of the parameters that keep rows of a batch apart."""


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

    Parameters
    ----------
    pool : Pool
    learner : fitted estimator, or modAL learner
    draws : PoolDraws or None
        The space of models that have neither embeddings nor leaves.
    space, chunk_size, predict_batch_size, verbose
        As in `skactive.StochasticBatchQuery`.
    """
    found = _find(model_of(learner), space, draws, predict_batch_size)
    batch_size = getattr(found.of_rows, "batch_size", None)
    arrays = collect(
        pool.with_pending(),
        lambda X: found.checked(X, containers.count_rows(X)),
        model=model_of(learner),
        doing="placing",
        parameter="space",
        chunk_size=chunk_size,
        batch_size=batch_size,
        verbose=verbose,
    )
    name = "space function" if callable(space) else "space"
    last = Leaves(arrays[-1]) if found.is_of_leaves else Vectors(arrays[-1], name, centred=len(arrays) == 1)
    try:
        return PointSet(*(Residuals(array) for array in arrays[:-1]), last)
    except PointError as error:
        raise error.of_rows(pool.with_pending().rows) from None


def is_drawn(model: Any, space: str | Callable[..., Any]) -> bool:
    """Whether draws are the space, as the model has any, and neither embeddings nor leaves."""
    by_features = callable(space) or space == "gradients"
    return not by_features and has_source(innermost(model)) and leaves_by(model) is None and not has_embeddings(model)


@dataclass(frozen=True)
class _Space:
    """A function of rows, and what its last array holds; it returns an array alone, or probabilities and an array."""

    of_rows: Callable[[Any], Any]
    is_of_leaves: bool = False
    has_probabilities: bool = False

    def checked(self, X: Any, n_rows: int) -> tuple[Any, ...]:
        *before, last = self.of_rows(X) if self.has_probabilities else (self.of_rows(X),)
        return (*before, last if self.is_of_leaves else _checked(last, n_rows))


def _find(model: Any, space: str | Callable[..., Any], draws: PoolDraws | None, batch_size: int | None) -> _Space:
    if callable(space):
        return _Space(in_batches(embed_by(model, space), batch_size))
    leaves = leaves_by(model)
    if space == "gradients":
        check_classifier(model, 'space="gradients"')
        if leaves is None:
            represent = in_batches(represent_by(model), batch_size)
            return _Space(Composed(represent, after=_check_ran), has_probabilities=True)

        def both(X: Any) -> tuple[Any, Any]:
            return check_one_output(model.predict_proba(X), model), leaves(X)

        return _Space(both, is_of_leaves(model), has_probabilities=True)
    if leaves is not None:
        return _Space(leaves, is_of_leaves(model))
    if draws is not None and draws.n_draws > 1 and not has_embeddings(model):
        return _Space(_Drawn(draws))
    embed = in_batches(embed_by(model), batch_size)
    return _Space(Composed(embed, after=check_ran_a_layer))


def _check_ran(both: tuple[Any, Any]) -> tuple[Any, Any]:
    return both[0], check_ran_a_layer(both[1])


class _Drawn:
    """All draws of a row in one line."""

    def __init__(self, draws: PoolDraws) -> None:
        self._draws = draws
        self.batch_size = draws.batch_size

    def __call__(self, X: Any) -> NDArray[Any]:
        draws = as_array(self._draws.of(X, containers.count_rows(X)))
        return np.moveaxis(draws, 1, 0).reshape(draws.shape[1], -1)


def _checked(embeddings: Any, n_rows: int) -> Any:
    embeddings = as_numbers(embeddings, "space")
    if len(embeddings.shape) != 2 or embeddings.shape[0] != n_rows or embeddings.shape[1] == 0:
        raise ValueError(
            f"`space` must give an array with a row for each of the {n_rows} rows of a chunk, shape ({n_rows}, "
            f"n_columns). Got shape {tuple(embeddings.shape)}."
        )
    return embeddings
