"""Posterior draws: a fitted estimator in, K fixed functions out.

`sample_posterior` asks, in this order: the estimator's own method ``sample_posterior(n_draws, rng)``; a source
registered for its class; the model inside, if the estimator is a wrapper. Adding a source is one registration::

    @sample_posterior.register(MyEstimator)
    def draws_of_my_estimator(estimator, n_draws, rng):
        return predict_draws

The sources of this package are registered by its modules, which are loaded here.
"""

from . import _ensembles, _gaussian_processes, _linear, _nets  # noqa: F401 - for their sources
from ._ensembles import bootstrap
from ._registry import check_posterior, noise_variance, sample_posterior

__all__ = ["bootstrap", "check_posterior", "noise_variance", "sample_posterior"]
