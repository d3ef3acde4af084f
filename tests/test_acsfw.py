"""ACS-FW: projections and steps as in the formulas, always k distinct rows, and a query that keeps projections only."""

from __future__ import annotations

import math
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from modAL.models import ActiveLearner
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

from skactive import ACSFWQuery, MCDropoutClassifier, sample_posterior
from skactive.acsfw import _core_set, _project, acs_fw
from skactive.samplers._feasibility import Allowance

quietly = pytest.mark.filterwarnings("ignore:ACS-FW found:UserWarning")


def some_draws(n_draws=6, n_points=12, n_classes=3, seed=0, concentration=1.0):
    return reference.random_draws(
        np.random.default_rng(seed), n_draws, n_points, n_classes, concentration=concentration
    )


def oracle_vectors(draws):
    return reference.expected_log_likelihoods(draws) / math.sqrt(len(draws))


# -------------------------------------------------------------------------------------------------------- projections


@pytest.mark.parametrize("concentration", [0.05, 1.0, 100.0])
def test_projections_are_expected_log_likelihoods(concentration):
    draws = some_draws(concentration=concentration)
    np.testing.assert_allclose(_project(draws), oracle_vectors(draws), rtol=1e-9, atol=1e-13)


def test_zero_probabilities_count_as_the_floor():
    draws = np.array([[[1.0, 0.0]], [[0.5, 0.5]]])
    expected = [0.75 * math.log(1 / 0.75) + 0.25 * math.log(1e-12 / 0.25), math.log(0.5) - 0.75 * math.log(0.75)]
    expected[1] -= 0.25 * math.log(0.25)
    np.testing.assert_allclose(_project(draws)[0] * math.sqrt(2), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_draws", [2, 3, 20, 49])
def test_rows_on_which_all_draws_agree_have_no_length(n_draws, dtype):
    # The two entropies as such would leave 1e-16 of either sign, and its direction would be a vertex.
    draws = np.repeat(some_draws(1, 500, 7).astype(dtype), n_draws, axis=0)
    assert not _project(draws).any()


def test_twins_are_projected_alike_wherever_they_stand():
    draws = some_draws(9, 5, 4)
    draws = draws[:, np.arange(40_000) % 5]
    vectors = _project(draws)
    np.testing.assert_array_equal(vectors, vectors[:5][np.arange(40_000) % 5])


# -------------------------------------------------------------------------------------------------------------- steps


@pytest.mark.parametrize("seed", range(8))
def test_rows_and_weights_are_those_of_the_steps_by_the_formulas(seed):
    draws = some_draws(n_draws=10, n_points=25, seed=seed)
    core = acs_fw(draws, 6)
    found = []
    steps = iter(reference.frank_wolfe(oracle_vectors(draws).tolist(), 60))
    while len(found) < 6:
        row, weights = next(steps)
        found += [row] * (row not in found)
    assert core.indices.tolist() == found
    assert core.indices.dtype == np.int64
    np.testing.assert_allclose(core.weights, np.array(weights)[found], rtol=1e-6)
    assert np.delete(weights, found).sum() == 0


def test_a_small_case_is_what_one_works_out_by_hand():
    # Two rows at right angles, of lengths 3 and 1: the first vertex is (4, 0); from 0 the best step to it is 3/4.
    vectors = [[3.0, 0.0], [0.0, 1.0]]
    (first, weights), (second, both) = reference.frank_wolfe(vectors, 2)
    assert (first, second) == (0, 1)
    np.testing.assert_allclose(weights, [1.0, 0.0])
    # From (3, 0) towards (0, 4) the residual is (0, 1): a step of 4/25.
    np.testing.assert_allclose(both, [21 / 25, 16 / 25])


@pytest.mark.parametrize("k", [1, 5, 20])
def test_weighted_rows_come_closer_to_the_pool_the_more_there_are(k):
    draws = some_draws(n_draws=30, n_points=200)
    vectors = _project(draws)
    lengths = np.linalg.norm(vectors, axis=1)

    def distance(core):
        return np.linalg.norm(vectors.sum(axis=0) - core.weights @ vectors[core.indices])

    fewer, more = acs_fw(draws, k), acs_fw(draws, k + 5)
    assert distance(more) < distance(fewer) < np.linalg.norm(vectors.sum(axis=0))
    assert (more.weights > 0).all()
    assert more.weights @ lengths[more.indices] <= lengths.sum() * (1 + 1e-9)
    np.testing.assert_array_equal(more.indices[:k], fewer.indices)


@pytest.mark.arithmetic
def test_the_order_of_the_rows_does_not_matter():
    draws = some_draws(n_draws=20, n_points=50, seed=1)
    order = np.random.default_rng(0).permutation(50)
    core, moved = acs_fw(draws, 10), acs_fw(draws[:, order], 10)
    np.testing.assert_array_equal(order[moved.indices], core.indices)
    np.testing.assert_allclose(moved.weights, core.weights, rtol=1e-6)


def test_without_ties_an_rng_changes_nothing():
    draws = some_draws(n_draws=20, n_points=50, seed=2)
    core, other = acs_fw(draws, 10), acs_fw(draws, 10, np.random.default_rng(0))
    np.testing.assert_array_equal(other.indices, core.indices)
    np.testing.assert_allclose(other.weights, core.weights, rtol=1e-6)


def test_a_short_row_that_points_where_the_pool_does_comes_first_and_weighs_as_much_as_it_takes():
    vectors = np.array([[3.0, 0.0]] * 50 + [[0.0, 3.0]] * 50 + [[0.01, 0.01]])
    core = _core_set(vectors, Allowance(len(vectors), 1), None)
    assert core.indices[0] == 100
    assert core.weights[0] == pytest.approx(15_001)


def test_weighted_lengths_stay_below_those_of_the_pool_and_come_closer_with_every_step():
    draws = some_draws(n_draws=10, n_points=40, seed=4)
    lengths = np.linalg.norm(_project(draws), axis=1)
    totals = [core.weights @ lengths[core.indices] for core in (acs_fw(draws, k) for k in (1, 4, 8))]
    assert totals[0] < totals[1] < totals[2] < lengths.sum()


def test_tensors_give_what_arrays_give():
    draws = some_draws(n_draws=8, n_points=40).astype(np.float32)
    core, of_tensor = acs_fw(draws, 6), acs_fw(torch.from_numpy(draws), 6)
    np.testing.assert_array_equal(of_tensor.indices, core.indices)
    np.testing.assert_array_equal(of_tensor.weights, core.weights)


# --------------------------------------------------------------------------------------------------------------- ties


def twins(n_draws=8, n_copies=2, seed=3):
    """Some rows, and all of them again."""
    return np.tile(some_draws(n_draws, 30, 3, seed=seed), (1, n_copies, 1))


def test_of_twins_the_first_is_taken_and_never_the_other():
    core = acs_fw(twins(), 8)
    assert len(set((core.indices % 30).tolist())) == 8
    assert core.indices.max() < 30


def test_gradients_of_tensors_are_left_alone():
    draws = torch.from_numpy(some_draws()).requires_grad_()
    np.testing.assert_array_equal(acs_fw(draws, 3).weights, acs_fw(draws.detach(), 3).weights)
    assert draws.grad is None


def test_an_rng_takes_each_twin_as_often():
    draws = twins()
    n_first = sum(acs_fw(draws, 1, np.random.default_rng(seed)).indices[0] < 30 for seed in range(200))
    assert reference.tail(n_first, 200, 0.5) > 1e-6


def test_with_an_rng_two_twins_never_come_before_the_rest():
    for seed in range(20):
        indices = acs_fw(twins(seed=seed), 8, np.random.default_rng(seed)).indices
        assert len(set((indices % 30).tolist())) == 8


# ------------------------------------------------------------------------------------------------------- filling up


def test_once_the_residual_is_gone_the_longest_rows_fill_up_with_one_warning():
    draws = some_draws(n_draws=3, n_points=60)
    with pytest.warns(UserWarning, match="ACS-FW found") as caught:
        core = acs_fw(draws, 40)
    assert len(caught) == 1
    n_found = int((core.weights > 0).sum())
    assert core.n_informative == n_found
    assert f"found {n_found} of the 40 rows" in str(caught[0].message)
    assert f"The other {40 - n_found} rows are" in str(caught[0].message)
    assert "can distinguish more rows" in str(caught[0].message)
    lengths = np.linalg.norm(oracle_vectors(draws), axis=1)
    rest = np.setdiff1d(np.arange(60), core.indices[:n_found])
    np.testing.assert_array_equal(core.indices[n_found:], rest[np.argsort(-lengths[rest])][: 40 - n_found])
    assert not core.weights[n_found:].any()
    vectors = _project(draws)
    residual = vectors.sum(axis=0) - core.weights @ vectors[core.indices]
    assert np.linalg.norm(residual) < 1e-4 * np.linalg.norm(vectors.sum(axis=0))


def test_no_warning_while_steps_find_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (acs_fw(some_draws(n_draws=20, n_points=100), 15).weights > 0).all()


def test_rows_without_length_come_last():
    draws = some_draws(n_draws=4, n_points=20)
    draws[:, ::2] = draws[0, ::2]
    with pytest.warns(UserWarning, match="ACS-FW found"):
        core = acs_fw(draws, 20, np.random.default_rng(0))
    assert set(core.indices[:10].tolist()) == set(range(1, 20, 2))
    assert sorted(core.indices.tolist()) == list(range(20))


def test_a_warning_asks_for_no_more_draws_where_all_agree():
    with pytest.warns(UserWarning, match="ACS-FW found 0 of the 2 rows.*All draws agree") as caught:
        acs_fw(np.repeat(some_draws(1, 4), 5, axis=0), 2)
    assert "more draws" not in str(caught[0].message).lower()


@quietly
def test_where_all_draws_agree_on_everything_the_batch_is_uniform():
    draws = np.repeat(some_draws(1, 4), 5, axis=0)
    counts = np.zeros(4)
    for seed in range(200):
        core = acs_fw(draws, 2, np.random.default_rng(seed))
        counts[core.indices] += 1
        assert not core.weights.any()
    assert all(reference.tail(int(count), 200, 0.5) > 1e-6 for count in counts)


@st.composite
def degenerate_draws(draw):
    """One-hot, equal and uniform members, rows that repeat."""
    n_draws, n_points, n_classes = draw(st.integers(2, 5)), draw(st.integers(1, 12)), draw(st.integers(1, 4))
    cells = st.integers(0, n_classes)
    labels = np.array(draw(st.lists(cells, min_size=n_draws * n_points, max_size=n_draws * n_points)))
    members = np.vstack([np.eye(n_classes), np.full((1, n_classes), 1 / n_classes)])
    return members[labels.reshape(n_draws, n_points)], draw(st.integers(1, n_points)), draw(st.booleans())


@quietly
@given(degenerate_draws())
def test_a_batch_is_always_k_distinct_rows_with_weights_from_zero_up(case):
    draws, k, has_rng = case
    core = acs_fw(draws, k, np.random.default_rng(0) if has_rng else None)
    assert core.indices.shape == core.weights.shape == (k,)
    assert len(set(core.indices.tolist())) == k
    assert (core.weights >= 0).all()
    assert np.isfinite(core.weights).all()


# ---------------------------------------------------------------------------------------------------------- the query

X, Y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
LABELLED, LABELS, POOL = X[:150], Y[:150], X[150:450]


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(30, max_depth=5, random_state=0).fit(LABELLED, LABELS)


@pytest.fixture(scope="module")
def net():
    return MCDropoutClassifier((16,), max_epochs=5, random_state=0, device="cpu").fit(LABELLED, LABELS)


def test_a_query_is_acs_fw_on_the_draws_of_the_model(forest):
    query = ACSFWQuery(random_state=0)
    indices = query.select(forest, POOL, 15)
    draws_rng, batch_rng = (np.random.default_rng(s) for s in np.random.default_rng(0).integers(2**63, size=(2, 4)))
    draws = sample_posterior(forest, None, draws_rng)(POOL)
    core = acs_fw(draws, 15, batch_rng)
    np.testing.assert_array_equal(indices, core.indices)
    np.testing.assert_allclose(query.scores_, np.linalg.norm(oracle_vectors(draws), axis=1), rtol=1e-9)
    assert query.n_features_in_ == 64
    assert not hasattr(query, "log_proba_")


def test_a_query_reports_the_weights_of_its_batch_and_how_many_rows_it_found():
    forest = RandomForestClassifier(4, random_state=0).fit(LABELLED, LABELS)
    query = ACSFWQuery(random_state=0)
    with pytest.warns(UserWarning, match="ACS-FW found"):
        query.select(forest, POOL, 40)
    assert query.n_informative_ == np.count_nonzero(query.weights_)
    assert query.weights_.shape == (40,)
    assert not query.weights_[query.n_informative_ :].any()


@pytest.mark.arithmetic
@pytest.mark.parametrize("kind", ["forest", "net"])
def test_a_batch_does_not_depend_on_the_chunks(kind, request):
    model = request.getfixturevalue(kind)
    whole, cut = (ACSFWQuery(n_draws=20, random_state=0, chunk_size=size) for size in (None, 37))
    np.testing.assert_array_equal(whole.select(model, POOL, 15), cut.select(model, POOL, 15))


def test_only_candidates_are_chosen_and_stood_for(forest):
    candidates = np.arange(5, 300, 3)
    query = ACSFWQuery(random_state=0)
    indices = query.select(forest, POOL, 10, candidates=candidates)
    alone = ACSFWQuery(random_state=0)
    np.testing.assert_array_equal(indices, candidates[alone.select(forest, POOL[candidates], 10)])
    assert np.isnan(np.delete(query.scores_, candidates)).all()


def test_the_draws_of_a_pool_are_never_held_at_once(forest):
    pool = np.tile(POOL, (30, 1))
    query = ACSFWQuery(random_state=0, chunk_size=500)
    tracemalloc.start()
    query.select(forest, pool, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size_of_draws = 8 * 30 * 10 * len(pool)
    assert peak < 0.5 * size_of_draws


def test_a_learner_of_modal_asks_it_before_and_after_teaching():
    forest = RandomForestClassifier(10, random_state=0)
    learner = ActiveLearner(forest, ACSFWQuery(random_state=0))
    with pytest.warns(UserWarning, match="not fitted"):
        first, _ = learner.query(POOL, n_instances=20)
    learner.teach(POOL[first], Y[150:450][first])
    second, rows = learner.query(POOL, n_instances=5, candidates=np.arange(100))
    np.testing.assert_array_equal(rows, POOL[second])
    assert len(set(second.tolist())) == 5


def test_a_posterior_of_its_own_may_be_given(forest):
    logistic = LogisticRegression(max_iter=1000).fit(LABELLED, LABELS)
    query = ACSFWQuery(posterior=RandomForestClassifier(10, random_state=0), random_state=0)
    indices = query.select(logistic, POOL, 5, X_training=LABELLED, y_training=LABELS)
    assert len(set(indices.tolist())) == 5


def test_a_query_can_be_cloned_and_saved(forest):
    query = ACSFWQuery(random_state=0, chunk_size=50)
    expected = query.select(forest, POOL, 5)
    np.testing.assert_array_equal(clone(query).select(forest, POOL, 5), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(query)).scores_, query.scores_)


# ---------------------------------------------------------------------------------------------------------- bad input


def with_value(value):
    draws = some_draws()
    draws[1, 2, 0] = value
    return draws


@pytest.mark.parametrize(
    ("draws", "seen"),
    [
        (with_value(np.nan), "point 2"),
        (with_value(-0.1), "point 2"),
        (2 * some_draws(), "sums to 2"),
        (some_draws()[0], "shape"),
        (some_draws()[0, 0], "shape"),
    ],
)
def test_draws_that_do_not_do_are_refused_with_what_was_seen(draws, seen):
    with pytest.raises(ValueError, match=f"`draws`.*{seen}"):
        acs_fw(draws, 2)


def test_a_single_draw_is_refused_by_the_name_of_the_parameter(forest):
    with pytest.raises(ValueError, match="`n_draws`"):
        acs_fw(some_draws(n_draws=1), 2)
    with pytest.raises(ValueError, match="`n_draws`"):
        ACSFWQuery(n_draws=1).select(forest, POOL, 2)


@pytest.mark.parametrize(("k", "error"), [(13, ValueError), (0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_a_k_outside_the_points_is_refused(k, error):
    with pytest.raises(error, match=r"`k`.*12"):
        acs_fw(some_draws(), k)


@pytest.mark.parametrize("rng", [0, np.random.RandomState(0)])
def test_an_rng_that_is_no_generator_is_refused(rng):
    with pytest.raises(TypeError, match="`rng`"):
        acs_fw(some_draws(), 2, rng)


class MaskPerRow(ClassifierMixin, BaseEstimator):
    """Leaves dropout on: each call, and each row, sees other functions."""

    def fit(self, X, y=None):
        self.classes_ = np.arange(3)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def sample_posterior(self, n_draws, rng):
        return lambda X: rng.dirichlet(np.ones(3), size=(n_draws, len(X)))


def test_draws_that_are_no_functions_are_refused():
    with pytest.raises(ValueError, match="same values"):
        ACSFWQuery(random_state=0).select(MaskPerRow().fit(POOL), POOL, 2)


def test_a_regressor_is_refused():
    forest = RandomForestRegressor(5, random_state=0).fit(LABELLED, LABELS)
    with pytest.raises(TypeError, match="`estimator` must be a classifier"):
        ACSFWQuery().select(forest, POOL, 2)
