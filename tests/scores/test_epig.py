"""EPIG against its formula, its bounds, and in queries on every source of draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from skactive import StochasticBatchQuery
from skactive.posterior import sample_posterior
from skactive.scores import epig


def random_draws(rng, n_draws=6, n_points=9, n_classes=3):
    """Some rows certain, some on which all draws agree."""
    draws = reference.random_draws(rng, n_draws, n_points, n_classes)
    draws[:, 0] = draws[0, 0]
    draws[:, 1] = np.eye(n_classes)[rng.integers(n_classes, size=n_draws)]
    return draws


@st.composite
def draws_and_targets(draw):
    seed = draw(st.integers(0, 10**6))
    n_draws, n_classes = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rng = np.random.default_rng(seed)
    return tuple(random_draws(rng, n_draws, draw(st.integers(2, 4)), n_classes) for _ in range(2))


@given(both=draws_and_targets())
def test_epig_equals_its_formula_in_fifty_digits(both):
    draws, targets = both
    scores = epig(draws, target_draws=targets)
    np.testing.assert_allclose(scores, reference.epig(draws, targets), rtol=0, atol=1e-12)
    assert (scores >= 0).all()


@pytest.mark.arithmetic
@pytest.mark.parametrize(("n_draws", "n_points", "n_classes"), [(9, 18, 5), (2, 70, 2)])
def test_epig_equals_its_formula_where_points_and_targets_take_several_blocks(
    n_draws, n_points, n_classes, rng, monkeypatch
):
    draws, targets = (random_draws(rng, n_draws, n, n_classes) for n in (n_points, 4))
    expected = reference.epig(draws, targets)
    for elements in (2**18, 1000, 1):
        monkeypatch.setattr("skactive.scores._registry._BLOCK_ELEMENTS", elements)
        monkeypatch.setattr("skactive.scores._predictions._PRODUCT_ELEMENTS", elements)
        np.testing.assert_allclose(epig(draws, target_draws=targets), expected, rtol=0, atol=1e-12)


def test_targets_count_by_their_weights(rng):
    draws, targets = random_draws(rng), random_draws(rng, n_points=4)
    weights = np.array([0.0, 2.0, 0.5, 1.5])
    found = epig(draws, target_draws=targets, target_weights=weights)
    np.testing.assert_allclose(found, reference.epig(draws, targets, weights), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found, epig(draws, target_draws=targets, target_weights=10 * weights), rtol=1e-12)
    repeated = targets[:, [1, 1, 1, 1, 2, 3, 3, 3]]
    np.testing.assert_allclose(found, epig(draws, target_draws=repeated), rtol=1e-12)


def test_small_information_keeps_its_digits(rng):
    # Two draws a hair apart: about 1e-11 nats, of which a difference of entropies near 1 would keep five digits.
    base = np.array([0.3, 0.2, 0.5])
    draws = np.stack([base + 2e-3 * sign * np.array([1, -1, 0]) for sign in (1, -1)])[:, None]
    expected = reference.epig(draws, draws)
    assert 1e-11 < expected[0] < 1e-8
    np.testing.assert_allclose(epig(draws, target_draws=draws), expected, rtol=1e-9)


def test_epig_is_exactly_zero_where_draws_agree_on_the_point_or_on_all_targets(rng):
    for dtype in (np.float32, np.float64):
        draws = random_draws(rng, 7, 40, 5).astype(dtype)
        agreeing = np.repeat(random_draws(rng, 1, 40, 5), 7, axis=0).astype(dtype)
        np.testing.assert_array_equal(epig(agreeing, target_draws=draws), 0)
        np.testing.assert_array_equal(epig(draws, target_draws=agreeing), 0)


def test_target_draws_and_weights_that_do_not_do_are_refused_by_name():
    draws = np.full((2, 3, 4), 0.25)
    for shape in ((3, 5, 4), (2, 5, 3), (2, 0, 4), (2, 4)):
        with pytest.raises(ValueError, match=r"`target_draws` must have shape \(2, n_targets, 4\)"):
            epig(draws, target_draws=np.full(shape, 1 / shape[-1]))
    for weights in ([1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, math.nan, 1.0]):
        with pytest.raises(ValueError, match="`target_weights`"):
            epig(draws, target_draws=draws, target_weights=weights)


def rounding(n_draws, n_classes):
    """What two ways of adding up one score may differ by, of sums of n_draws in two sums of n_classes."""
    return n_draws * n_classes * np.finfo(float).eps


@pytest.mark.arithmetic
@pytest.mark.parametrize(("n_classes", "dtype"), [(2, np.float32), (10, np.float64)])
def test_twins_have_the_same_score_to_rounding_wherever_they_stand(n_classes, dtype, rng):
    draws = reference.random_draws(rng, 50, 70, n_classes, dtype)
    targets = reference.random_draws(rng, 50, 30, n_classes, dtype)
    whole = epig(draws, target_draws=targets)
    order = rng.permutation(70)
    for size in (1, 7, 37, 70):
        parts = [epig(draws[:, order[i : i + size]], target_draws=targets) for i in range(0, 70, size)]
        np.testing.assert_allclose(np.concatenate(parts), whole[order], rtol=0, atol=rounding(50, n_classes))


def table(n_rows, seed):
    X = np.random.default_rng(seed).normal(size=(n_rows, 3))
    return X, np.array(["ash", "elm", "oak"])[np.digitize(X[:, 0], [-0.5, 0.5])]


POOL, X_TARGET = table(120, 1)[0], table(200, 2)[0]
X_TARGET = X_TARGET[(X_TARGET[:, 0] > 0) & (X_TARGET[:, 0] < 1)][:25]


@pytest.mark.arithmetic
def test_a_query_by_epig_is_the_score_of_the_draws_for_every_chunk_size():
    forest = RandomForestClassifier(100, max_depth=4, random_state=0).fit(*table(40, 0))
    draws_rng = np.random.default_rng(np.random.default_rng(0).integers(2**63, size=(2, 4))[0])
    predict_draws = sample_posterior(forest, 30, draws_rng)
    expected = epig(predict_draws(POOL), target_draws=predict_draws(X_TARGET))
    batches = set()
    for size in (7, 50, None):
        query = StochasticBatchQuery("epig", n_draws=30, X_target=X_TARGET.tolist(), chunk_size=size, random_state=0)
        batches.add(tuple(query.select(forest, POOL, 10)))
        np.testing.assert_allclose(query.scores_, expected, rtol=0, atol=rounding(30, 3))
    assert len(batches) == 1
