"""The first rows of a campaign, chosen without a model: their laws against enumeration, and odd points."""

from collections import Counter

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skactive.campaign import _first_batch
from skactive.campaign._first_batch import standardised, typical_rows


def blobs(sizes, rng, n_columns=3, spread=0.1):
    """Points of clusters that lie far apart, shuffled, and the cluster of each."""
    centres = 10 * np.eye(len(sizes), n_columns)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return centres[group] + spread * rng.normal(size=(len(group), n_columns)), group


def test_equal_points_give_rows_at_random():
    for points in (np.ones((7, 2)), np.full((7, 1), 0.1), np.empty((7, 0))):
        rng = np.random.default_rng(0)
        counts = Counter(int(typical_rows(points, 3, rng)[0]) for _ in range(400))
        reference.assert_counts_fit(counts, dict.fromkeys(range(7), 1 / 7), 400)


def test_a_prefix_of_typical_rows_is_of_the_largest_clusters(monkeypatch):
    points, group = blobs([10, 60, 25, 40], np.random.default_rng(0), n_columns=4)
    for most in (_first_batch.MOST_MEMBERS, 8):  # in the end among some members only
        monkeypatch.setattr(_first_batch, "MOST_MEMBERS", most)
        assert group[typical_rows(points, 4, np.random.default_rng(0))].tolist() == [1, 3, 2, 0]


def test_the_typical_row_has_the_smallest_mean_distance_to_its_neighbours():
    points = np.random.default_rng(0).normal(size=(200, 2))
    scaled = standardised(points)
    distances = [sorted(np.linalg.norm(scaled - x, axis=1))[1 : _first_batch.N_NEIGHBOURS + 1] for x in scaled]
    means = np.mean(distances, axis=1)
    (row,) = typical_rows(points, 1, np.random.default_rng(1))
    assert means[row] == pytest.approx(means.min())


def test_many_clusters_are_found_by_mini_batches():
    points, group = blobs([9] * 60, np.random.default_rng(0), n_columns=60)
    found = typical_rows(points, 60, np.random.default_rng(0))
    assert len(set(found.tolist())) == 60
    assert len(set(group[found].tolist())) > 45  # of 60 at random, 38


def test_copies_come_only_when_each_place_has_given_a_row():
    places = np.array([[0.0, 1.0], [5.0, 2.0], [9.0, 9.0], [2.0, 7.0]])
    group = np.repeat(range(4), [20, 1, 5, 2])
    found = typical_rows(places[group], 10, np.random.default_rng(0))
    assert sorted(group[found[:4]].tolist()) == [0, 1, 2, 3]
    assert len(set(found.tolist())) == 10


def test_the_same_generator_gives_the_same_rows_and_points_stay_as_they_are():
    points, _ = blobs([30, 30, 30], np.random.default_rng(0), spread=1.0)
    before = points.copy()
    first, second = (typical_rows(points, 12, np.random.default_rng(7)) for _ in range(2))
    assert (first.tolist(), first.dtype) == (second.tolist(), np.int64)
    np.testing.assert_array_equal(points, before)
    assert len({tuple(typical_rows(points, 12, np.random.default_rng(seed))) for seed in range(4)}) > 1


@given(data=st.data())
def test_any_points_give_distinct_rows(data):
    n, n_columns = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 3))
    values = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-15, -7.5, 1e-310, 1e308, -1.7e308])
    points = data.draw(arrays(np.float64, (n, n_columns), elements=values))
    k = data.draw(st.integers(1, n))
    found = typical_rows(points, k, np.random.default_rng(0))
    assert len(set(found.tolist())) == k
    assert set(found.tolist()) <= set(range(n))


def test_columns_of_numbers_have_mean_0_and_deviation_1_whatever_their_unit():
    x = np.random.default_rng(0).normal(size=80)
    scaled = standardised(np.column_stack([x, 1e300 * x, 1e-300 * x + 1e-301, 5 - 3 * x]))
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=1e-4)
    np.testing.assert_allclose(scaled, scaled[:, :1] * [1, 1, 1, -1], atol=2e-4)


def test_columns_of_two_values_are_0_and_1_of_nearly_one_value_signs_and_without_spread_none():
    row = np.arange(1_000)
    half, rare = row % 2, row == 0
    scaled = standardised(np.column_stack([5 - 2.0 * half, 1.0 * rare, 3e9 * rare + 1]))
    np.testing.assert_array_equal(scaled, np.column_stack([1 - half, rare, rare]))
    signs = np.select([row == 0, row == 1, row == 2], [1e-3, -8, 1e6])
    steady = 0.1 + 1e-17 * (row % 4)
    scaled = standardised(np.column_stack([steady, signs, np.zeros(1_000)]))
    np.testing.assert_array_equal(scaled[:4], [[1], [-1], [1], [0]])


def test_a_number_that_is_far_out_does_not_hide_the_others():
    x = np.random.default_rng(0).normal(size=1_000)
    scaled = standardised(np.where(np.arange(1_000) == 0, 1e9, x)[:, None])
    assert 2 < scaled.max() < 4
    assert np.corrcoef(scaled[1:, 0], x[1:])[0, 1] > 0.99
