"""ACS-FW: projections and steps as in the formulas, always k distinct rows, and a query that keeps projections only."""

import math

import numpy as np
import pytest
import reference
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from skactive import ACSFWQuery, sample_posterior
from skactive.acsfw import _core_set, _project, acs_fw
from skactive.samplers._feasibility import Allowance

quietly = pytest.mark.filterwarnings("ignore:ACS-FW found:UserWarning")


def some_draws(n_draws=6, n_points=12, n_classes=3, seed=0, concentration=1.0):
    return reference.random_draws(
        np.random.default_rng(seed), n_draws, n_points, n_classes, concentration=concentration
    )


def oracle_vectors(draws):
    return reference.expected_log_likelihoods(draws) / math.sqrt(len(draws))


@pytest.mark.parametrize("concentration", [0.05, 100.0])
def test_projections_are_expected_log_likelihoods(concentration):
    draws = some_draws(concentration=concentration)
    np.testing.assert_allclose(_project(draws), oracle_vectors(draws), rtol=1e-9, atol=1e-13)


def test_zero_probabilities_count_as_the_floor():
    draws = np.array([[[1.0, 0.0]], [[0.5, 0.5]]])
    expected = [0.75 * math.log(1 / 0.75) + 0.25 * math.log(1e-12 / 0.25), math.log(0.5) - 0.75 * math.log(0.75)]
    expected[1] -= 0.25 * math.log(0.25)
    np.testing.assert_allclose(_project(draws)[0] * math.sqrt(2), expected, rtol=1e-12)


@pytest.mark.parametrize(("n_draws", "dtype"), [(3, np.float32), (49, np.float64)])
def test_rows_on_which_all_draws_agree_have_no_length(n_draws, dtype):
    # The two entropies as such would leave 1e-16 of either sign, and its direction would be a vertex.
    draws = np.repeat(some_draws(1, 500, 7).astype(dtype), n_draws, axis=0)
    assert not _project(draws).any()


def test_twins_are_projected_alike_wherever_they_stand():
    draws = some_draws(9, 5, 4)
    vectors = _project(draws[:, np.arange(40_000) % 5])
    np.testing.assert_array_equal(vectors, vectors[:5][np.arange(40_000) % 5])


@pytest.mark.parametrize("seed", range(3))
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


@pytest.mark.arithmetic
def test_neither_the_order_of_the_rows_nor_a_tensor_nor_an_rng_without_ties_matters():
    draws = some_draws(n_draws=20, n_points=50, seed=1)
    order = np.random.default_rng(0).permutation(50)
    core, moved = acs_fw(draws, 10), acs_fw(draws[:, order], 10)
    other = acs_fw(torch.from_numpy(draws), 10, np.random.default_rng(0))
    for indices, weights in [(order[moved.indices], moved.weights), (other.indices, other.weights)]:
        np.testing.assert_array_equal(indices, core.indices)
        np.testing.assert_allclose(weights, core.weights, rtol=1e-6)


def test_a_short_row_that_points_where_the_pool_does_comes_first_and_weighs_as_much_as_it_takes():
    vectors = np.array([[3.0, 0.0]] * 50 + [[0.0, 3.0]] * 50 + [[0.01, 0.01]])
    core = _core_set(vectors, Allowance(len(vectors), 1), None)
    assert core.indices[0] == 100
    assert core.weights[0] == pytest.approx(15_001)


def test_twins_tie_and_two_of_them_never_come_before_the_rest():
    n_first = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        indices = acs_fw(np.tile(some_draws(8, 30, 3, seed=seed % 5), (1, 2, 1)), 8, rng).indices
        assert len(set((indices % 30).tolist())) == 8
        n_first += indices[0] < 30
    assert reference.tail(n_first, 100, 0.5) > 1e-6
    assert acs_fw(np.tile(some_draws(8, 30, 3, seed=3), (1, 2, 1)), 8).indices.max() < 30  # without an rng the first


def test_once_the_residual_is_gone_the_longest_rows_fill_up_with_one_warning():
    draws = some_draws(n_draws=3, n_points=60)
    with pytest.warns(UserWarning, match="ACS-FW found") as caught:
        core = acs_fw(draws, 40)
    n_found = int((core.weights > 0).sum())
    assert core.n_informative == n_found
    assert f"found {n_found} of the 40 rows" in str(caught.pop().message)
    lengths = np.linalg.norm(oracle_vectors(draws), axis=1)
    rest = np.setdiff1d(np.arange(60), core.indices[:n_found])
    np.testing.assert_array_equal(core.indices[n_found:], rest[np.argsort(-lengths[rest])][: 40 - n_found])
    assert not core.weights[n_found:].any()
    vectors = _project(draws)
    residual = vectors.sum(axis=0) - core.weights @ vectors[core.indices]
    assert np.linalg.norm(residual) < 1e-4 * np.linalg.norm(vectors.sum(axis=0))


def test_where_all_draws_agree_on_everything_the_batch_is_uniform():
    draws = np.repeat(some_draws(1, 4), 5, axis=0)
    with pytest.warns(UserWarning, match="ACS-FW found 0 of the 2 rows.*All draws agree"):
        cores = [acs_fw(draws, 2, np.random.default_rng(seed)) for seed in range(200)]
    counts = np.bincount(np.concatenate([core.indices for core in cores]))
    assert all(reference.tail(int(count), 200, 0.5) > 1e-6 for count in counts)
    assert not any(core.weights.any() for core in cores)


@quietly
@pytest.mark.parametrize("n_classes", [1, 2, 4])
def test_a_batch_is_always_k_distinct_rows_with_weights_from_zero_up_and_rows_without_length_last(n_classes, rng):
    members = np.vstack([np.eye(n_classes), np.full((1, n_classes), 1 / n_classes)])
    for has_rng in [False, True] * 20:
        draws = members[rng.integers(n_classes + 1, size=(rng.integers(2, 6), rng.integers(1, 13)))]
        k = int(rng.integers(1, draws.shape[1] + 1))
        core = acs_fw(draws, k, rng if has_rng else None)
        assert core.weights.shape == (len(set(core.indices.tolist())),) == (k,)
        assert ((core.weights >= 0) & np.isfinite(core.weights)).all()
        has_length = _project(draws)[core.indices].any(axis=1)
        assert (np.diff(has_length.astype(int)) <= 0).all()


X, Y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
LABELLED, LABELS, POOL = X[:150], Y[:150], X[150:450]


@quietly
def test_a_query_is_acs_fw_on_the_draws_of_the_model_and_reports_its_weights():
    forest = RandomForestClassifier(4, random_state=0).fit(LABELLED, LABELS)
    query = ACSFWQuery(random_state=0)
    indices = query.select(forest, POOL, 30)
    draws_rng, batch_rng = (np.random.default_rng(s) for s in np.random.default_rng(0).integers(2**63, size=(2, 4)))
    draws = sample_posterior(forest, None, draws_rng)(POOL)
    core = acs_fw(draws, 30, batch_rng)
    np.testing.assert_array_equal(indices, core.indices)
    np.testing.assert_allclose(query.scores_, np.linalg.norm(oracle_vectors(draws), axis=1), rtol=1e-9)
    np.testing.assert_allclose(query.weights_, core.weights, rtol=1e-6)
    assert query.n_informative_ == core.n_informative < 30


def test_a_single_draw_is_refused():
    with pytest.raises(ValueError, match="`n_draws` must be 2 or more for ACS-FW"):
        acs_fw(some_draws(n_draws=1), 2)
