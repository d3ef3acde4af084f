"""The coldness that a sampler should have, measured by how well the last scores identify the best rows of now.

A stochastic sampler takes the value that a row will have (log-score, score, or minus log rank) once the rest of the
batch is labelled for today's value plus Gumbel noise of scale 1/beta. What that noise is can be seen a batch later:
some rows of the pool are kept with the scores they had, and the new model scores them again. Under the sampler's own
model their new order is a draw from the Plackett-Luce law with weights ``exp(beta * old value)``, which is a likelihood
of beta. Only the order of the new scores enters, so that it does not matter if all shrink, or a class appears.

Between two rounds scores change because labels came in, and because the model was fitted again, from another seed. Both
make it uncertain which row will be the best, and both are measured.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

BOUNDS = (0.5, 4096.0)
"""A measured beta lies between. Entropies, all near log C, and softmax, in units of 1/score, need large ones."""

BEST = 0.1
"""The part of the rows whose places in the new order are evidence: the part that batches come from."""

LAPSE = 0.05
"""Probability that a place goes to any row, whatever its value: a score of 0 that was wrong, say."""

_FAR = 1e6  # below the best value: no weight, for any beta
_LOG_BETAS = np.linspace(-1, 1, 201) * math.log(BOUNDS[1])

Values = NDArray[np.float64]


def measured_coldness(values: Values, new_scores: Values) -> float:
    """Posterior mean of log beta, as beta, given old values and new scores of the same rows, in random order.

    The prior is normal around log 1 with standard deviation 1. Each of the best places is worth about one unit of
    information about log beta, as long as values differ by more than the noise, so that some ten rows outweigh it; with
    none, beta is 1.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Log-weights of the sampler at beta = 1; -inf is a row of no mass. A constant added to them changes nothing, so
        that ranks among these rows do as well as ranks among all of the pool.
    new_scores : ndarray of shape (n_rows,)
        Ties are broken by the order of the rows; those tied for the last place are no evidence.

    Returns
    -------
    float
        Within `BOUNDS`.
    """
    n_best = min(math.ceil(BEST * len(values)), int(np.count_nonzero(new_scores > new_scores.min(initial=np.inf))))
    top = values.max(initial=-np.inf)
    if n_best == 0 or top == -np.inf:
        return 1.0
    order = np.argsort(-new_scores, kind="stable")
    log_posterior = _log_likelihood((values - top)[order], n_best) - _LOG_BETAS**2 / 2
    posterior = np.exp(log_posterior - log_posterior.max())
    return float(np.clip(math.exp(posterior @ _LOG_BETAS / posterior.sum()), *BOUNDS))


def _log_likelihood(values: Values, n_best: int) -> Values:
    """Of the first places of this order of rows, for each beta of the grid: Plackett-Luce, with lapses."""
    n_left = len(values) - np.arange(n_best)
    log_weights = np.exp(_LOG_BETAS)[:, None] * np.maximum(values, -_FAR)  # (n_betas, n_rows)
    log_left = np.logaddexp.accumulate(log_weights[:, ::-1], axis=1)[:, ::-1]
    log_picked = (log_weights - log_left)[:, :n_best]
    return np.logaddexp(math.log1p(-LAPSE) + log_picked, math.log(LAPSE) - np.log(n_left)).sum(axis=1)
