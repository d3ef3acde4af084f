"""The promise that draws keep, as a check for the tests of a new source."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _containers as chunks
from .._checks import ProbabilityError, as_array, check_draws_of, check_same_functions, real_array, sum_tolerance
from ._registry import sample_posterior


def check_posterior(
    estimator: Any, X: Any, *, n_draws: int | None = None, X_training: Any = None, y_training: Any = None
) -> None:
    """Check that an estimator's draws keep what `sample_posterior` promises; for the tests of a new source.

    Parameters
    ----------
    estimator : fitted estimator
    X : array-like of shape (n_points, ...)
        Five rows or more, of which at least two differ.
    n_draws : int, optional
    X_training, y_training : array-like, optional
        What the estimator was fitted to, for sources that need it.

    Raises
    ------
    ValueError
        If draws have the wrong axes, are not probabilities, change from call to call or with the rows passed along, or
        are all alike.
    TypeError
        If draws are not real numbers, or the source returns no function.
    NoPosteriorError
        A TypeError: the estimator has no posterior draws.

    See Also
    --------
    sample_posterior : Where draws of your own are registered.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive.posterior import check_posterior
    >>> X, y = load_iris(return_X_y=True)
    >>> check_posterior(RandomForestClassifier(random_state=0).fit(X, y), X)
    """
    training = {"X_training": X_training, "y_training": y_training}
    X = chunks.prepare_pool(X)
    predict_draws = sample_posterior(estimator, n_draws, np.random.default_rng(0), **training)
    draws = predict_draws(X)
    classes = getattr(estimator, "classes_", None)
    check_draws_of(draws, chunks.count_rows(X), None if classes is None else len(classes), n_draws)
    draws = real_array("draws", draws, objects=False)
    if draws.ndim == 3:
        _check_probabilities(draws)
    check_same_functions(draws, as_array(predict_draws(X)), "a second call")
    one_by_one = [as_array(predict_draws(row)) for row in chunks.iter_chunks(X, None, 1)]
    check_same_functions(draws, np.concatenate(one_by_one, axis=1), "rows given one by one")
    if len(draws) < 2 or np.ptp(as_array(draws).astype(np.float64), axis=0).max() == 0:
        raise ValueError("`predict_draws` must return two draws or more that differ somewhere. These are all alike.")


def _check_probabilities(draws: Any) -> None:
    tolerance = sum_tolerance(draws)  # of their own type: bfloat16 becomes float32 as an array
    draws = as_array(draws)
    sums = draws.sum(axis=-1, dtype=np.float64)
    bad = ~((draws >= 0).all(axis=-1) & (np.abs(sums - 1) <= tolerance))
    if bad.any():
        draw, point = (int(position) for position in np.argwhere(bad)[0])
        raise ProbabilityError("draws", draws[draw, point], f"draw {draw} of point {point}", tolerance)
