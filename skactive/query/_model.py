"""What a query is asked about, as given or as a modAL learner holds it: the model, its training data, and the pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _containers as containers
from .. import _modal as modal
from .._checks import (
    ParameterError,
    UnfittedError,
    check_is_model,
    check_sample_weight,
    is_fitted,
    not_fitted_error,
    shown,
    warn,
)
from ..posterior._bootstrap import weight_keyword
from ._limits import Limits
from ._pool import Pool


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


def training_of(
    learner: Any,
    *,
    X_training: Any = None,
    y_training: Any = None,
    sample_weight: Any = None,
    fit_params: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Attributes of a `Pool` that say what the model of a learner was fitted to, checked.

    Weights and keywords that a learner was fitted with go with its own training data alone.
    """
    model, X, y = modal.unwrap(learner, X_training, y_training)
    X = None if X is None else containers.prepare_pool(X, "X_training")
    _check_fit_params(fit_params, model)
    kept = modal.fit_keywords(learner) if X_training is None and y_training is None else {}
    keyword = weight_keyword(model) if kept else None
    of_learner = _weights_kept(kept.pop(keyword, None), X, model) if keyword else None
    if sample_weight is None:
        sample_weight = of_learner
    elif X is None:
        raise ValueError(
            "`sample_weight` must be given along with `X_training` and `y_training`, the rows that it weights. Got it "
            "alone."
        )
    else:
        sample_weight = containers.aligned(sample_weight, X, "sample_weight")
    return {
        "X_training": X,
        "y_training": y,
        "sample_weight": None if X is None else check_sample_weight(sample_weight, containers.count_rows(X)),
        "fit_params": kept if fit_params is None else fit_params,
        "surrogate_params": fit_params,
    }


def has_nothing_to_tell(learner: Any, y_training: Any) -> bool:
    """Whether the last fit of a learner failed, and its labels are all of one class, as at a cold start."""
    return bool(modal.fit_failure(learner)) and y_training is not None and len(np.unique(np.asarray(y_training))) == 1


def check_last_fit(learner: Any, y_training: Any) -> None:
    """Say what the last fit of a learner failed with, if there is nothing before it to go by."""
    if has_nothing_to_tell(learner, y_training):
        kind, label = type(modal.unwrap(learner)[0]).__name__, np.unique(np.asarray(y_training)).tolist()[0]
        raise UnfittedError(
            f"The last fit of this {kind} failed ({modal.fit_failure(learner).rstrip('.')}), and its labels are all "
            f"{label!r}",
            "Teach labels of another class.",
        )


def _weights_kept(sample_weight: Any, X_training: Any, model: Any) -> Any:
    """Weights of the last fit of a learner, unless that was to its new rows alone."""
    if sample_weight is None or X_training is None or len(sample_weight) == containers.count_rows(X_training):
        return sample_weight
    warn(
        f"The learner holds {containers.count_rows(X_training)} training rows, and its {type(model).__name__} was last "
        f"fitted with {len(sample_weight)} weights: draws that need the training data count each row once. Give "
        "`sample_weight`, a weight for each row."
    )
    return None


def _check_fit_params(fit_params: Any, model: Any) -> None:
    if fit_params is None:
        return
    if not isinstance(fit_params, Mapping) or not all(isinstance(name, str) for name in fit_params):
        raise ParameterError(
            f"`fit_params` must be None or a dict from keywords of `fit` to their values. Got {shown(fit_params)} "
            "instead."
        )
    keyword = weight_keyword(model)
    for name in ("sample_weight", keyword):
        if name in fit_params:
            raise ParameterError(
                f"`fit_params` must not hold weights of rows. Got {name!r} among them. Give them as `sample_weight`."
            )
