"""Wrappers: draws of what is inside, on the data as it gets there."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._checks import as_array
from ._checks import search_without_refit_error
from ._registry import PredictDraws, Through, has_noise_variance, noise_variance, sample_posterior, source

_INSIDE = {"draws": "those of what is inside", "kind": "as inside", "cost": "none"}


def innermost(estimator: Any) -> Any:
    """The model at the end of pipelines and inside of searches."""
    while True:
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif isinstance(estimator, GridSearchCV | RandomizedSearchCV) and hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        else:
            return estimator


@source(Pipeline, **_INSIDE)
def _pipeline(
    estimator: Pipeline,
    n_draws: int | None,
    rng: np.random.Generator,
    *,
    X_training: Any = None,
    y_training: Any = None,
) -> PredictDraws:
    last = estimator.steps[-1][1]
    if len(estimator.steps) == 1:
        return sample_posterior(last, n_draws, rng, X_training=X_training, y_training=y_training)
    transform = estimator[:-1].transform
    Z_training = None if X_training is None else transform(X_training)
    predict_draws = sample_posterior(last, n_draws, rng, X_training=Z_training, y_training=y_training)
    return Through(predict_draws, before=transform)


@source(GridSearchCV, RandomizedSearchCV, **_INSIDE)
def _search(
    estimator: Any, n_draws: int | None, rng: np.random.Generator, *, X_training: Any = None, y_training: Any = None
) -> PredictDraws:
    check_is_fitted(estimator)
    if not hasattr(estimator, "best_estimator_"):
        raise search_without_refit_error(estimator)
    return sample_posterior(estimator.best_estimator_, n_draws, rng, X_training=X_training, y_training=y_training)


@source(FrozenEstimator, **_INSIDE)
def _frozen(
    estimator: Any, n_draws: int | None, rng: np.random.Generator, *, X_training: Any = None, y_training: Any = None
) -> PredictDraws:
    return sample_posterior(estimator.estimator, n_draws, rng, X_training=X_training, y_training=y_training)


@source(TunedThresholdClassifierCV, FixedThresholdClassifier, **_INSIDE)
def _threshold(
    estimator: Any, n_draws: int | None, rng: np.random.Generator, *, X_training: Any = None, y_training: Any = None
) -> PredictDraws:
    check_is_fitted(estimator)
    return sample_posterior(estimator.estimator_, n_draws, rng, X_training=X_training, y_training=y_training)


@source(TransformedTargetRegressor, draws="those of what is inside, in the units of y", kind="as inside", cost="none")
def _transformed_target(
    estimator: Any, n_draws: int | None, rng: np.random.Generator, *, X_training: Any = None, y_training: Any = None
) -> PredictDraws:
    check_is_fitted(estimator)
    back = estimator.transformer_.inverse_transform
    if y_training is not None:
        y_training = estimator.transformer_.transform(np.asarray(y_training).reshape(-1, 1)).ravel()
    predict_draws = sample_posterior(estimator.regressor_, n_draws, rng, X_training=X_training, y_training=y_training)

    def in_units_of_y(draws: Any) -> Any:
        draws = as_array(draws)
        return back(draws.reshape(-1, 1)).reshape(draws.shape)

    return Through(predict_draws, after=in_units_of_y)


@has_noise_variance(Pipeline)
def _pipeline_noise(estimator: Pipeline) -> Any:
    return noise_variance(estimator.steps[-1][1])


@has_noise_variance(GridSearchCV, RandomizedSearchCV)
def _search_noise(estimator: Any) -> Any:
    return noise_variance(estimator.best_estimator_)


@has_noise_variance(FrozenEstimator)
def _frozen_noise(estimator: Any) -> Any:
    return noise_variance(estimator.estimator)
