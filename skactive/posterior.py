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

from . import _ensembles, _nets, _wrappers  # noqa: F401 - importing them registers their sources
from . import _validation as validation
from ._bootstrap import bootstrap, seeded_clone
from ._dispatch import PredictDraws, has_source, sample_posterior

__all__ = ["PredictDraws", "bootstrap", "has_source", "one_draw", "sample_posterior", "seeded_clone"]


def one_draw(estimator: Any) -> PredictDraws:
    """The predictive distribution as a single draw, for scores that need no more."""
    check_is_fitted(estimator)
    return lambda X: validation.check_one_output(estimator.predict_proba(X), estimator)[np.newaxis]
