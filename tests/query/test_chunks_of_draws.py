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

    def values(self, X, slopes):
        p = 0.5 + slopes[:, None] * X[:, 0]
        return np.stack([1 - p, p], axis=-1)

    def sample_posterior(self, n_draws, rng):
        slopes = rng.uniform(-0.05, 0.05, size=4)
        return lambda X: self.values(X, slopes[:1] if len(X) > 2 and X[0, 0] == POOL[20, 0] else slopes)


class FewerValues(RegressorMixin, FewerDraws):
    first = 0.0

    def values(self, X, slopes):
        draws = slopes[:, None] * X[:, 0] + X[:, 1]
        draws[0, X[:, 0] == POOL[7, 0]] += self.first
        return draws


QUERIES = [StochasticBatchQuery("bald", chunk_size=20), BatchBALDQuery(chunk_size=20), ACSFWQuery(chunk_size=20)]


@pytest.mark.parametrize("query", [*QUERIES, CausalBALDQuery(treatment=1, chunk_size=20)], ids=repr)
def test_a_chunk_with_fewer_draws_than_the_first_row_is_refused(query):
    model = (FewerDraws if query in QUERIES else FewerValues)().fit(POOL, [0, 1] * 20)
    with pytest.raises(ValueError, match=r"`predict_draws` must return as many draws.* Got shape \(1, 20"):
        query.select(model, POOL, 3)


def test_effects_of_chunks_with_fewer_draws_or_that_are_not_finite_are_refused():
    model = FewerValues().fit(POOL, POOL[:, 0])
    with pytest.raises(ValueError, match="`predict_draws` must return as many draws"):
        estimate_effects(model, POOL, 1, chunk_size=20)
    model.first = np.nan
    with pytest.raises(ValueError, match=r"Estimating rows 0 to 39 failed: the draws hold numbers that are not finite"):
        estimate_effects(model, POOL, 1)
