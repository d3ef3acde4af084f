"""k-center: the greedy rule by brute force, exact distances, and embeddings of any model."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from skactive import KCenterQuery
from skactive.kcenter import _farthest_first, _lower
from skactive.samplers._feasibility import Allowance

X = np.random.default_rng(0).normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)
MODEL = LinearRegression().fit(X, Y)


def greedy(points, k, labelled, rng):
    """The rule word for word, in Python."""
    chosen = []
    for _ in range(k):
        others = [*map(tuple, labelled), *(tuple(points[i]) for i in chosen)]
        left = [i for i in range(len(points)) if i not in chosen]
        far = {i: min((np.linalg.norm(points[i] - other) for other in others), default=np.inf) for i in left}
        chosen.append(int(rng.choice([i for i in left if far[i] == max(far.values())])))
    return chosen


small = hnp.arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 3)), elements=st.integers(-9, 9))


@given(points=small, data=st.data())
def test_each_row_is_the_farthest_from_those_before_it(points, data):
    k = data.draw(st.integers(1, len(points)))
    labelled = points[: data.draw(st.integers(0, 2))]
    distances = np.full(len(points), np.inf)
    if len(labelled):
        _lower(distances, points, labelled)
    found = _farthest_first(points, distances, Allowance(len(points), k), np.random.default_rng(1))
    assert found.tolist() == greedy(points, k, labelled, np.random.default_rng(1))


def test_distances_are_exact_far_from_the_origin():
    points = np.array([[1e9], [1e9 + 1e-3], [1e9 + 3e-3]])
    distances = np.full(3, np.inf)
    _lower(distances, points, points[:1])
    np.testing.assert_allclose(distances, points[:, 0] - points[0, 0], rtol=1e-15)


def test_labelled_rows_count_as_chosen_and_scores_are_the_distances_from_them():
    query = KCenterQuery(random_state=0)
    rows = query.select(MODEL, X, 5, X_training=X[:50], y_training=Y[:50])
    nearest = np.linalg.norm(X[:, None] - X[None, :50], axis=2).min(axis=1)
    np.testing.assert_allclose(query.scores_, nearest, rtol=1e-12, atol=1e-12)
    assert rows[0] == nearest.argmax()
    assert not set(rows.tolist()) & set(range(50))
    known = np.concatenate([X[:50], X[rows]])
    left = np.linalg.norm(X[:, None] - known[None], axis=2).min(axis=1)
    assert query.radius_ == pytest.approx(left.max())


def test_sparse_rows_a_function_of_the_users_and_no_labelled_rows_choose_as_dense_rows_do():
    model = RandomForestRegressor(3, random_state=0).fit(X, Y)
    expected = KCenterQuery(random_state=0).select(model, X, 8)
    for query, rows, given_ in [
        (KCenterQuery(random_state=0), sparse.csc_array(X), {}),
        (KCenterQuery(lambda rows: rows.copy(), random_state=0), X, {}),
        (KCenterQuery(random_state=0), X, {"X_training": X[:0], "y_training": Y[:0]}),
    ]:
        np.testing.assert_array_equal(query.select(model, rows, 8, **given_), expected)


def test_columns_of_labelled_rows_go_by_name_and_others_are_refused():
    frame, query = pd.DataFrame(X, columns=[*"abc"]), KCenterQuery(random_state=0)
    expected = query.select(MODEL, X, 5, X_training=X[:50], y_training=Y[:50])
    labelled = frame[["c", "a", "b"]][:50]
    for rows in (labelled, pyarrow.table(labelled)):
        query = KCenterQuery(random_state=0)
        np.testing.assert_array_equal(query.select(MODEL, frame, 5, X_training=rows, y_training=Y[:50]), expected)
    for rows in (labelled.rename(columns={"c": "d"}), X[:50, :1]):
        with pytest.raises(ValueError, match=r"`X_training` must have .* of `X_pool`, (3\. Got 1|.*Got \['d')"):
            query.select(MODEL, frame, 5, X_training=rows, y_training=Y[:50])


def test_embeddings_that_are_not_finite_or_no_row_for_each_row_are_refused():
    for embedding, message in [
        (lambda rows: np.where(rows > rows.max() - 0.1, np.nan, rows), "finite numbers"),
        (lambda rows: rows.mean(0, keepdims=True), r"shape \(200, 3\) for these 200 rows. Got shape \(1, 3\)"),
        (lambda rows: rows[:, 0], r"Got shape \(1,\)"),
    ]:
        with pytest.raises(ValueError, match=f"`embedding` must give .*{message}"):
            KCenterQuery(embedding).select(MODEL, X, 2)


@pytest.mark.arithmetic
def test_the_layout_of_the_rows_does_not_decide_between_ties():
    grid = np.round(np.random.default_rng(0).integers(0, 3, size=(400, 12)) * 0.1, 1)
    model = LinearRegression().fit(grid, grid[:, 0])
    for seed in range(3):
        batches = [KCenterQuery(random_state=seed).select(model, rows, 30) for rows in (grid, np.asfortranarray(grid))]
        np.testing.assert_array_equal(*batches)
