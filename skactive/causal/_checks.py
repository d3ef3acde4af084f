"""What a causal query refuses or warns of, and in which words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import float64_array, not_binary_error, shown, task


def check_binary(treatments: NDArray[Any]) -> NDArray[np.int64]:
    """A column of zeros and ones, whatever its type, as integers."""
    try:
        numbers = treatments.astype(np.float64)
    except (TypeError, ValueError):
        raise not_binary_error(treatments[0]) from None
    bad = np.flatnonzero((numbers != 0) & (numbers != 1))
    if bad.size:
        raise not_binary_error(treatments[bad[0]])
    return numbers.astype(np.int64)


def check_both_treatments(values: set[int]) -> None:
    """Check that treatments of the pool, and of the training data if known, are not all the same."""
    if len(values) < 2:
        raise ValueError(
            f"`treatment` is {min(values)} in every row of the pool and of what is known of the training data: a "
            "constant column says nothing about an effect. Is it the right column? If only the labelled rows have the "
            "other treatment, give them as `X_training`."
        )


def check_outcome_model(estimator: Any) -> None:
    if task(estimator) == "classifier":
        raise TypeError(
            f"`estimator` must be a regressor of the outcome on covariates and treatment. Got a "
            f"{type(estimator).__name__}, a classifier. For a yes/no outcome, fit a regressor to 0 and 1."
        )


def check_value_draws(shape: Any, estimator: Any) -> None:
    """Check the shape of draws of one row of predicted values."""
    if len(shape) != 2:
        raise TypeError(
            f"`estimator` must predict one outcome: draws are (n_draws, n_points). Got a {type(estimator).__name__} "
            f"with draws of shape {tuple(shape)}, those of a classifier."
        )


def no_propensity_error(name: Any) -> ValueError:
    return ValueError(
        f"`propensity` must be given for score={name!r}: a classifier with predict_proba, LogisticRegression() say. It "
        "is fitted to the treatments of the pool; a fitted one can be kept in sklearn.frozen.FrozenEstimator."
    )


def check_propensity_classes(classes: Any) -> int:
    """The column of predict_proba that is the treatment."""
    found = np.asarray(classes).tolist()
    if len(found) != 2 or set(found) != {0, 1}:
        raise ValueError(
            f"`propensity` must be fitted to treatments 0 and 1, both of them. Got the classes {found}. Where the pool "
            "has one treatment left, give a FrozenEstimator around a classifier fitted to all rows."
        )
    return found.index(1)


def check_finite_outcomes(outcomes: NDArray[np.float64]) -> None:
    """Check draws of both outcomes (n_draws, n, 2) of some rows."""
    if not np.isfinite(outcomes).all():
        draw, row, _ = np.argwhere(~np.isfinite(outcomes))[0]
        raise ValueError(
            f"`draws` must be finite. Got {outcomes[draw, row].tolist()} in draw {draw} of row {row} of these."
        )


def check_effects(true_effects: Any, effects: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two arrays of finite effects, one a row."""
    true_effects, effects = float64_array("true_effects", true_effects), float64_array("effects", effects)
    if true_effects.ndim != 1 or true_effects.shape != effects.shape or not len(effects):
        raise ValueError(
            "`true_effects` and `effects` must have the same shape (n_points,), with a point or more. Got "
            f"{true_effects.shape} and {effects.shape}."
        )
    return check_one_a_row("true_effects", true_effects), check_one_a_row("effects", effects)


def check_one_a_row(name: str, effects: Any) -> NDArray[np.float64]:
    """Finite effects of shape (n_points,)."""
    effects = float64_array(name, effects)
    if effects.ndim != 1:
        raise ValueError(f"`{name}` must have shape (n_points,). Got {effects.shape} instead.")
    if not np.isfinite(effects).all():
        row = int(np.flatnonzero(~np.isfinite(effects))[0])
        raise ValueError(f"`{name}` must be finite. Got {effects[row]} in row {row}.")
    return effects


def check_predictor(estimator: Any) -> None:
    if not hasattr(estimator, "predict") or isinstance(estimator, type):
        got = shown(estimator) if isinstance(estimator, type) else f"a {type(estimator).__name__} without it"
        raise TypeError(f"`estimator` must be a fitted regressor with `predict`. Got {got}.")
