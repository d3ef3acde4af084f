"""The model that a query asks about, and the pool that it asks for: as given, or as a learner holds them."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from .. import _modal as modal
from .._checks import check_is_model, is_fitted, not_fitted_error
from ._limits import Limits
from ._pool import Pool
from ._training import training_of


def model_of(learner: Any) -> Any:
    """The fitted estimator of a modAL learner; an estimator by itself is its own.

    See Also
    --------
    query.draws_of : Draws from the model.
    """
    return modal.unwrap(learner)[0]


def pool_for(
    learner: Any,
    X_pool: Any,
    *,
    candidates: ArrayLike | None = None,
    pending: ArrayLike | None = None,
    limits: Limits | None = None,
    **training: Any,
) -> tuple[Any, Pool]:
    """The estimator of a learner, and the pool with the training data: those given, else the learner's own."""
    known = training_of(learner, **training)
    return modal.unwrap(learner)[0], Pool.of(X_pool, candidates, pending=pending, limits=limits, **known)


def check_fits(model: Any, pool: Pool) -> None:
    """Check that a model is fitted, and to rows like those of the pool."""
    check_is_model(model)
    if not is_fitted(model):
        raise not_fitted_error(model)
    fitted_on = getattr(model, "n_features_in_", None)
    if fitted_on is not None and pool.n_columns is not None and pool.n_columns != fitted_on:
        what = "columns" if getattr(pool.X, "ndim", 2) == 2 else "channels (the second axis)"
        raise ValueError(
            f"`X_pool` has {pool.n_columns} {what}, but {type(model).__name__} was fitted on {fitted_on}. "
            "Give the pool the shape of the training data."
        )
