"""Posterior draws: a fitted estimator in, K fixed functions out.

`sample_posterior` answers with ``predict_draws``; every call of it evaluates the *same* K functions, so a pool can be
streamed through them chunk by chunk. It asks, in this order: the estimator's own method
``sample_posterior(n_draws, rng)``; a function registered for its type; one step down a Pipeline or a search. What
has no draws of its own can be given some: by `bootstrap`, or by a surrogate estimator.

Adding a source is one registration::

    @sample_posterior.register(MyEstimator)
    def _(estimator, n_draws, rng):
        return predict_draws

The sources of this package stand in modules by kind, which this one loads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import _containers as chunks
from .. import scores
from .._checks import as_array, check_draws_of, check_one_output, check_same_functions
from . import _ensembles, _gaussian_processes, _linear_models, _nets, _wrappers  # noqa: F401 - for their sources
from ._bootstrap import bootstrap, seeded_clone
from ._checks import check_draws_differ
from ._registry import SOURCES, PredictDraws, has_source, in_batches, members, noise_variance, sample_posterior
from ._wrappers import innermost

__all__ = [
    "SOURCES",
    "PredictDraws",
    "bootstrap",
    "check_posterior",
    "has_source",
    "in_batches",
    "innermost",
    "members",
    "noise_variance",
    "one_draw",
    "sample_posterior",
    "seeded_clone",
]


def one_draw(estimator: Any) -> PredictDraws:
    """The predictive distribution as a single draw, for scores that need no more."""
    check_is_fitted(estimator)
    return lambda X: check_one_output(estimator.predict_proba(X), estimator)[np.newaxis]


def check_posterior(
    estimator: Any, X: Any, *, n_draws: int | None = None, X_training: Any = None, y_training: Any = None
) -> None:
    """Check that an estimator's draws keep what `sample_posterior` promises; for a source of your own, in a test.

    Parameters
    ----------
    estimator : fitted estimator
    X : array-like of shape (n_points, ...)
        Some rows, five or more, of which two differ.
    n_draws : int, optional
    X_training, y_training : array-like, optional
        What the estimator was fitted to, for sources that need it.

    Raises
    ------
    ValueError
        If draws have the wrong axes, are not probabilities, are not the same functions at every call, change with the
        rows beside a row, or are all alike.
    NoPosteriorError
        If the estimator has no draws of its own.

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
    draws = as_array(predict_draws(X))
    classes = getattr(estimator, "classes_", None)
    check_draws_of(draws, chunks.count_rows(X), None if classes is None else len(classes), n_draws)
    if draws.ndim == 3:
        scores.entropy(draws)  # which refuses what is no probability
    check_same_functions(draws, as_array(predict_draws(X)), "a second call")
    one_by_one = [as_array(predict_draws(row)) for row in chunks.iter_chunks(X, None, 1)]
    check_same_functions(draws, np.concatenate(one_by_one, axis=1), "rows given one by one")
    check_draws_differ(draws)
