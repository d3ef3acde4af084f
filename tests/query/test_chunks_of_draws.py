"""Draws of all chunks have one shape, whichever query asks."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from skactive import ACSFWQuery, BatchBALDQuery, CausalBALDQuery, StochasticBatchQuery
from skactive.causal import estimate_effects

POOL = np.column_stack([np.linspace(0.1, 0.9, 40), np.arange(40) % 2])


class FewerDraws(ClassifierMixin, BaseEstimator):
    """It gives a single draw for blocks that begin with its row 20."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def sample_posterior(self, n_draws, rng):
        shifts = rng.uniform(-0.05, 0.05, size=4)

        def predict_draws(X):
            n = 1 if len(X) > 2 and X[0, 0] == POOL[20, 0] else 4
            p = np.stack([X[:, 0] + shift for shift in shifts[:n]])
            return np.stack([1 - p, p], axis=-1)

        return predict_draws


class Values(RegressorMixin, BaseEstimator):
    def __init__(self, bad=None):
        self.bad = bad

    def fit(self, X, y):
        self.is_fitted_ = True
        return self

    def predict(self, X):
        return X[:, 0]

    def sample_posterior(self, n_draws, rng):
        slopes = rng.normal(size=4)

        def predict_draws(X):
            draws = slopes[:, None] * X[:, 0] + X[:, 1]
            if self.bad is not None:
                draws[0, X[:, 0] == POOL[7, 0]] = self.bad
            return draws[:1] if self.bad is None and len(X) > 2 and X[0, 0] == POOL[20, 0] else draws

        return predict_draws


@pytest.mark.parametrize(
    "query",
    [StochasticBatchQuery("bald", beta=1.0, chunk_size=20), BatchBALDQuery(chunk_size=20), ACSFWQuery(chunk_size=20)],
    ids=repr,
)
def test_a_chunk_with_fewer_draws_than_the_first_row_is_refused(query):
    model = FewerDraws().fit(POOL, [0, 1] * 20)
    with pytest.raises(ValueError, match=r"`predict_draws` must return as many draws.* Got shape \(1, 20, 2\)"):
        query.select(model, POOL, 3)


def test_effects_of_chunks_with_fewer_draws_are_refused():
    for call in (
        lambda: estimate_effects(Values().fit(POOL, POOL[:, 0]), POOL, 1, chunk_size=20),
        lambda: CausalBALDQuery(treatment=1, chunk_size=20).select(Values().fit(POOL, POOL[:, 0]), POOL, 3),
    ):
        with pytest.raises(ValueError, match="`predict_draws` must return as many draws"):
            call()


def test_effects_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match=r"Estimating rows 0 to 39 failed: the draws hold numbers that are not finite"):
        estimate_effects(Values(np.nan).fit(POOL, POOL[:, 0]), POOL, 1)
