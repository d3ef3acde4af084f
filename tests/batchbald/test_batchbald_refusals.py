"""What BatchBALD says to bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference
import torch
from sklearn.ensemble import RandomForestClassifier
from small_models import LABELS, X_POOL, X_TRAIN, Echo

from skactive import BatchBALDQuery
from skactive.batchbald import batchbald


def test_complex_tensors_are_no_draws():
    with pytest.raises(TypeError, match="`draws` must be an array of real numbers"):
        batchbald(torch.ones((2, 9, 1), dtype=torch.complex64), 2, np.random.default_rng(0))


DRAWS = reference.random_draws(np.random.default_rng(0), 6, 9, 3)


def batchbald_of(draws=DRAWS, k=2, rng=None, **params):
    return batchbald(draws, k, np.random.default_rng(0) if rng is None else rng, **params)


@pytest.mark.parametrize(("k", "error"), [(10, ValueError), (0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_batchbald_refuses_a_batch_size_outside_the_points(k, error):
    with pytest.raises(error, match=r"`k` must be .*the number of points, 9"):
        batchbald_of(k=k)


@pytest.mark.parametrize(
    ("max_outcomes", "error"), [(2, ValueError), (0, ValueError), (1e4, TypeError), (None, TypeError)]
)
def test_batchbald_refuses_outcomes_that_do_not_hold_those_of_one_label(max_outcomes, error, forest):
    with pytest.raises(error, match=r"`max_outcomes` must be .*n_classes=3 or more"):
        batchbald_of(max_outcomes=max_outcomes)
    with pytest.raises(error, match=r"`max_outcomes` must be"):
        BatchBALDQuery(max_outcomes=max_outcomes).select(forest, X_POOL, 2)


def test_outcomes_of_one_label_are_enough_for_batchbald():
    assert len(set(batchbald_of(k=9, max_outcomes=3).indices.tolist())) == 9


def test_one_draw_is_refused_with_the_parameter_to_raise():
    with pytest.raises(ValueError, match=r"`n_draws` must be 2 or more for BatchBALD"):
        batchbald_of(DRAWS[:1])
    for estimator, params in [(RandomForestClassifier(1), {}), (RandomForestClassifier(5), {"n_draws": 1})]:
        with pytest.raises(ValueError, match=r"`n_draws` must be 2 or more for BatchBALD"):
            BatchBALDQuery(**params).select(estimator.fit(X_TRAIN, LABELS), X_POOL, 2)


@pytest.mark.parametrize("shape", [(6, 9), (9,), (2, 6, 9, 3), (0, 9, 3), (6, 9, 0)])
def test_batchbald_refuses_draws_of_another_shape(shape):
    with pytest.raises(ValueError, match="`draws` must"):
        batchbald_of(np.ones(shape))


def test_batchbald_refuses_an_empty_pool_of_draws():
    with pytest.raises(ValueError, match="Cannot choose `k`=2 rows from 0 points"):
        batchbald_of(DRAWS[:, :0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.5, 2.0])
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_batchbald_refuses_rows_that_are_no_probabilities_and_names_them(bad, kind):
    draws = DRAWS.copy()
    draws[4, 7, 1] = bad
    with pytest.raises(ValueError, match="in draw 4 of point 7"):
        batchbald_of(kind(draws))


@pytest.mark.parametrize("rng", [0, np.random.RandomState(0), np.random])
def test_batchbald_refuses_another_source_of_randomness(rng):
    with pytest.raises(TypeError, match="`rng`"):
        batchbald_of(rng=rng)


class MaskARow(Echo):
    """Dropout left on: the mask of a row is the next one, or goes by the row's place in the batch."""

    def __init__(self, by_place=True):
        self.by_place = by_place

    def sample_posterior(self, n_draws, rng):
        def predict_draws(X):
            masks = np.random.default_rng(0) if self.by_place else rng
            yes = masks.uniform(0.2, 0.8, size=(len(X), 5)).T
            return np.stack([1 - yes, yes], axis=-1)

        return predict_draws


@pytest.mark.parametrize("by_place", [True, False])
@pytest.mark.parametrize("chunk_size", [None, 4])
def test_batchbald_refuses_draws_with_a_mask_a_row(by_place, chunk_size):
    X = np.full((9, 2), 0.5)
    with pytest.raises(ValueError, match=r"`predict_draws` must return the same values"):
        BatchBALDQuery(chunk_size=chunk_size).select(MaskARow(by_place).fit(X), X, 2)


def test_batchbald_refuses_draws_of_other_shapes_on_the_way():
    class Shrinking(Echo):
        def sample_posterior(self, n_draws, rng):
            predict_draws = super().sample_posterior(n_draws, rng)
            return lambda X: predict_draws(X)[: 3 if len(X) == 1 else 2]

    X = np.full((9, 2), 0.5)
    with pytest.raises(ValueError, match="`predict_draws` must return draws of shape"):
        BatchBALDQuery().select(Shrinking().fit(X), X, 2)
