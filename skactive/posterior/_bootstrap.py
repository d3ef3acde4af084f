"""Draws for anything: clones of an estimator, refitted to resampled training data."""

from __future__ import annotations

import functools
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import has_fit_parameter

from .. import _containers as chunks
from .._checks import N_JOBS, check_cloneable, check_n_draws
from .._random import check_rng, seeded_clone
from ._ensembles import member_probabilities
from ._registry import PredictDraws
from ._unwrap import labels_to_fit, without_searches

BOOTSTRAP_DRAWS = 20


def bootstrap(
    estimator: Any, X: Any, y: Any, n_draws: int | None, rng: np.random.Generator, *, n_jobs: int | None = None
) -> PredictDraws:
    """Draw functions by refitting clones of an estimator to resampled training data.

    Parameters
    ----------
    estimator : estimator
        Anything that scikit-learn can clone; a fitted search is represented by its best estimator. Members without
        ``predict_proba`` vote.
    X : array-like of shape (n_labelled, ...)
        Training data.
    y : array-like of shape (n_labelled,) or (n_labelled, 1)
        Labels. Classes are resampled one by one, so every member knows all of them. Regressors that are not of
        scikit-learn or this package are fitted with the axes given here.
    n_draws : int or None
        Number of members; None is 20.
    rng : numpy.random.Generator
    n_jobs : int, optional
        Members fitted at once, as in joblib.

    Returns
    -------
    predict_draws : callable
        As of `sample_posterior`; columns in the order of the estimator's ``classes_`` (sorted labels, if it has none).

    References
    ----------
    Efron (1979), Bootstrap Methods; Lakshminarayanan et al. (2017), on ensembles as draws.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive.posterior import bootstrap
    >>> X, y = load_iris(return_X_y=True)
    >>> predict_draws = bootstrap(LogisticRegression(max_iter=500), X, y, 4, np.random.default_rng(0))
    >>> predict_draws(X).shape
    (4, 150, 3)
    """
    check_cloneable(estimator)
    check_rng(rng)
    N_JOBS.check("n_jobs", n_jobs)
    n_draws = BOOTSTRAP_DRAWS if n_draws is None else check_n_draws(n_draws)
    estimator = without_searches(estimator)
    X, y = chunks.prepare_pool(X, "X"), labels_to_fit(estimator, y)
    labels = y if is_classifier(estimator) else np.zeros(len(y))
    resamples = [_stratified_resample(labels, rng) for _ in range(n_draws)]
    clones = [seeded_clone(estimator, rng) for _ in range(n_draws)]
    members = joblib.Parallel(n_jobs=n_jobs)(
        joblib.delayed(_fitted)(member, X, y, rows) for member, rows in zip(clones, resamples, strict=True)
    )
    if not is_classifier(estimator):
        return functools.partial(_predictions, members)
    return functools.partial(_probabilities, members, np.asarray(getattr(estimator, "classes_", np.unique(y))))


def _predictions(members: list[Any], X: Any) -> NDArray[np.float64]:
    return np.stack([np.asarray(member.predict(X)).reshape(chunks.count_rows(X)) for member in members])


def _probabilities(members: list[Any], classes: NDArray[Any], X: Any) -> NDArray[np.float64]:
    return np.stack([member_probabilities(member, X, classes) for member in members])


def _fitted(member: Any, X: Any, y: NDArray[Any], rows: NDArray[np.int64]) -> Any:
    if _takes_counts(member):
        return member.fit(X, y, sample_weight=np.bincount(rows, minlength=len(y)).astype(np.float64))
    return member.fit(chunks.take_rows(X, rows), y[rows])


def _takes_counts(member: Any) -> bool:
    """Whether rows may be weighted by how often they were drawn, which saves copies and leaves no category unknown.

    Not where parts of the data are fitted by themselves: all rows of a fold or a mini-batch might weigh nothing.
    """
    parameters = member.get_params(deep=False)
    by_parts = "cv" in parameters or "batch_size" in parameters or parameters.get("early_stopping") is True
    return has_fit_parameter(member, "sample_weight") and not by_parts


def _stratified_resample(labels: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """As many rows of each label as there are, drawn with replacement."""
    _, which = np.unique(labels, return_inverse=True)
    rows_of = [np.flatnonzero(which == c) for c in range(which.max() + 1)]
    return np.sort(np.concatenate([rng.choice(rows, len(rows)) for rows in rows_of]))
