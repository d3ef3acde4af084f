"""Power sampling with repulsion: batches against the exact law, in every space and container, and their probabilities.

Picks of large pools are placed in their law given those before them: such places are uniform and independent.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, special, stats

from skactive.samplers import _repulsion, power, repulsive
from skactive.samplers._distances import Leaves, PointSet, Residuals, Vectors
from skactive.samplers._feasibility import Allowance
from skactive.samplers._law import draw_batch
from skactive.samplers._repulsion import Repulsion

quietly = pytest.mark.filterwarnings("ignore:Only .* rows have a positive score and lie apart:UserWarning")

SCORES = np.array([0.9, 0.2, 0.5, 0.4, 0.7])
PLACES = np.array([[0.0, 0.0], [1.5, -0.5], [0.25, 2.0], [-1.0, 0.75], [0.5, 0.25]])
OTHERS = np.array([[1.0, -2.0, 0.5], [0.5, 0.5, 0.5], [-1.0, 0.0, 0.25], [2.0, 1.0, -1.0], [0.0, -1.0, 1.5]])
PROBABILITIES = special.softmax(PLACES @ [[1.0, -1.0, 0.5], [0.0, 1.0, -0.5]], axis=1)
LEAVES = np.array([[1, 5, 2, 7], [1, 5, 3, 7], [2, 5, 3, 8], [2, 6, 3, 8], [1, 6, 2, 9]], dtype=np.int16)


def vectors(array):
    return PointSet(Vectors(array, "points", centred=True))


def outer_products(a, b):
    """Points of two factors, with all coordinates written out."""
    return [[x * y for x in left for y in right] for left, right in zip(*map(reference.exactly, (a, b)), strict=True)]


def spaces():
    """Five points of each kind: as the package holds them, as the oracle does, and the oracle's distance."""
    a = reference.residuals(PROBABILITIES)
    return {
        "vectors": (vectors(PLACES), reference.exactly(PLACES), reference.squared_distance),
        "outer products": (
            PointSet(Vectors(PLACES, "points"), Vectors(OTHERS, "points")),
            outer_products(PLACES, OTHERS),
            reference.squared_distance,
        ),
        "leaves": (PointSet(Leaves(LEAVES)), LEAVES.tolist(), reference.leaf_distance),
        "gradients": (
            PointSet(Residuals(PROBABILITIES), Vectors(OTHERS, "space")),
            list(zip(a, reference.exactly(OTHERS), strict=True)),
            reference.gradient_distance(reference.inner),
        ),
        "gradients with leaves": (
            PointSet(Residuals(PROBABILITIES), Leaves(LEAVES)),
            list(zip(a, LEAVES.tolist(), strict=True)),
            reference.gradient_distance(reference.shared_leaves),
        ),
    }


def draw_apart(sampler, scores, points, k, rng, beta, gamma, epsilon=0.0):
    """A batch that keeps apart, and its law."""
    scores = np.asarray(scores, dtype=float)
    return draw_batch(sampler, scores, k, rng, beta=beta, epsilon=epsilon, points=points, diversity=gamma)


def law_of(batch, log_weights, points, gamma, epsilon=0.0):
    """The law of a given batch."""
    allowance = Allowance(len(log_weights), len(batch))
    for row in batch:
        allowance.take(int(row))
    return Repulsion(np.asarray(log_weights), points, gamma, allowance, epsilon)


def count(points, scores, k, beta, gamma, *, n_trials=250, epsilon=0.0, sampler="power", seed=0):
    """Counts of ordered batches, all from one generator."""
    rng = np.random.default_rng(seed)
    batches = (draw_apart(sampler, scores, points, k, rng, beta, gamma, epsilon)[0] for _ in range(n_trials))
    return Counter(tuple(batch.tolist()) for batch in batches)


@pytest.mark.parametrize(
    ("space", "k", "beta", "gamma", "epsilon", "n_pending"),
    [
        ("vectors", 3, 0, 0.5, 0.0, 0),
        ("vectors", 3, 4, 2, 0.3, 0),
        pytest.param("vectors", 5, 1, 4, 0.0, 0, marks=pytest.mark.law),
        ("vectors", 2, 1, 2, 0.3, 1),
        ("outer products", 2, 1, 1, 0.0, 0),
        ("leaves", 3, 4, 0.5, 0.0, 0),
        ("leaves", 2, 1, 2, 0.3, 2),
        ("gradients", 2, 0, 4, 0.0, 0),
        pytest.param("gradients with leaves", 4, 1, 2, 0.0, 0, marks=pytest.mark.law),
        ("gradients with leaves", 2, 1, 2, 0.0, 2),
        *[pytest.param(space, 3, 2, 1, 0.2, 1, marks=pytest.mark.law) for space in spaces()],
    ],
)
def test_ordered_batches_follow_the_law_in_every_space(space, k, beta, gamma, epsilon, n_pending):
    points, places, distance = spaces()[space]
    n = 5 - n_pending
    options = {"epsilon": epsilon, "pending": places[n:], "distance": distance}
    law = reference.repulsive_law(SCORES[:n], places[:n], k, beta, gamma, **options)
    reference.assert_batches_fit(count(points, SCORES[:n], k, beta, gamma, epsilon=epsilon), law)


def rule_of(places, scores, beta, gamma, epsilon):
    exact, n = reference.exactly(places), len(scores)
    return reference.Repulsion(scores, exact[:n], beta, gamma, epsilon, pending=exact[n:])


TWO_PAIRS = np.array([[0.0, 0.0], [0.05, 0.0], [3.0, 0.0], [3.0, 0.05], [0.0, 3.0]])
SPECIAL = {
    "twins come when all other places are taken": (SCORES, PLACES[[0, 1, 1, 2, 2]], 4, 1, 1, 0.0),
    "once all places are taken the rest is uniform": (SCORES, PLACES[[0, 1, 0, 1, 1]], 4, 4, 2, 0.0),
    "rows of score 0 come when no other is left": ([0.0, 0.6, 0.2, 0.0, 0.5], PLACES, 4, 1, 2, 0.0),
    "unless beta is 0": ([0.0, 0.6, 0.2, 0.0, 0.5], PLACES, 4, 0, 2, 0.0),
    "a twin with a score is as good as a row apart without": ([0.6, 0.6, 0.0, 0.0], PLACES[[0, 0, 1, 2]], 3, 1, 1, 0.0),
    "no scores": (np.zeros(5), PLACES, 2, 1, 1, 0.0),
    "chance alone": (SCORES, PLACES, 2, 4, 4, 1.0),
    "rows without a weight by chance": ([0.0, 0.6, 0.2, 0.2, 0.2], PLACES[[0, 1, 2, 2, 2]], 3, 1, 1, 0.3),
    "rows by chance keep near ones away": (np.ones(5), TWO_PAIRS, 3, 1, 1, 0.5),
    "a twin of a row in flight comes last": (SCORES[:4], PLACES[[0, 1, 2, 3, 1]], 4, 1, 1, 0.0),
    "no place apart from the rows in flight": (SCORES[:4], PLACES[[0, 1, 0, 1, 0, 1]], 2, 4, 1, 0.0),
    "all weights but those chosen underflow": ([1.0, 1e-6, 1.02e-6, 1.01e-6], TWO_PAIRS[[0, 2, 4, 1]], 3, 64, 8, 0.0),
    "a diversity near 0": (SCORES, PLACES, 3, 1, 5e-324, 0.0),
    "all points are equal": (SCORES, np.full((5, 2), 1e8 / 3), 3, 2, 1, 0.3),
}


@quietly
@pytest.mark.filterwarnings("ignore:All points are equal:UserWarning")
@pytest.mark.parametrize("case", SPECIAL)
def test_ordered_batches_follow_the_law_where(case):
    scores, places, k, beta, gamma, epsilon = SPECIAL[case]
    rule = rule_of(places, scores, beta, gamma, epsilon)
    law = reference.all_batches(rule.next, k)
    n_trials = 1000 if case == "rows by chance keep near ones away" else 300
    counts = count(vectors(places), scores, k, beta, gamma, epsilon=epsilon, n_trials=n_trials)
    reference.assert_batches_fit(counts, law)
    batch, said = draw_apart("power", scores, vectors(places), k, np.random.default_rng(0), beta, gamma, epsilon)
    np.testing.assert_allclose(said.log_proba(), rule.log_proba(batch.tolist()), rtol=1e-9, atol=1e-9)


def test_diversity_0_is_power_alone_whatever_the_points():
    for seed in range(20):
        ours, theirs = (np.random.default_rng(seed) for _ in range(2))
        batch = repulsive(SCORES, PLACES, 3, ours, beta=2, diversity=0)
        np.testing.assert_array_equal(batch, power(SCORES, 3, theirs, beta=2))


@pytest.mark.parametrize(("space", "updates", "proposals"), [("vectors", "never", 8), ("vectors", "always", 1)])
def test_the_law_is_the_same_whenever_weights_are_brought_up_to_date(space, updates, proposals, monkeypatch):
    # When to update is a matter of speed: with few rows it happens all the time, with many hardly ever.
    policy = _repulsion.Bounds.update if updates == "always" else lambda self: None
    monkeypatch.setattr(_repulsion.Bounds, "_update_if_worth_it", lambda self, *_: policy(self))
    monkeypatch.setattr(_repulsion, "_PROPOSALS", proposals)
    points, places, distance = spaces()[space]
    law = reference.repulsive_law(SCORES, places, 3, 1, 2, distance=distance)
    reference.assert_batches_fit(count(points, SCORES, 3, 1, 2), law)


def test_bounds_from_norms_hold_in_every_direction_and_are_corrected_for():
    # Of two factors nothing is centred: the bound is right for opposite rows, many times too high for near ones.
    a, b = np.full((6, 1), 0.5), np.array([[1.0], [0.5], [0.2], [0.0], [-0.5], [-0.99]])
    points = PointSet(Vectors(a, "points"), Vectors(b, "points"))
    law = reference.repulsive_law(np.ones(6), outer_products(a, b), 2, 1, 4)
    reference.assert_batches_fit(count(points, np.ones(6), 2, 1, 4, n_trials=600), law)


def squares(scores, k, rng, *, beta):
    """A sampler of a user's, which needs no more than log_weights to keep rows apart."""
    raise NotImplementedError


squares.log_weights = lambda scores, beta: beta * np.log(scores)


@pytest.mark.parametrize(
    ("sampler", "scores", "weights"),
    [
        ("softmax", [-300.0, -299.5, -math.inf, -301.0, -300.2], None),
        ("softrank", [0.3, 7.0, -2.0, 0.1, 100.0], reference.softrank_weights([3, 2, 5, 4, 1], 2)),
        ("uniform", SCORES, [1] * 5),
        (squares, SCORES, reference.power_weights(SCORES, 2)),
    ],
)
def test_weights_of_other_samplers_keep_apart_as_well_and_have_their_probabilities(sampler, scores, weights):
    weights = reference.softmax_weights(scores, 2) if weights is None else weights
    places, points = reference.exactly(PLACES), vectors(PLACES)
    counts = count(points, scores, 3, 2.0, 2, sampler=sampler)
    reference.assert_batches_fit(counts, reference.repulsive_law(weights, places, 3, 1, 2))
    batch, law = draw_apart(sampler, scores, points, 4, np.random.default_rng(0), 2.0, 2.0)
    expected = reference.Repulsion(weights, places, 1, 2).log_proba(batch.tolist())
    np.testing.assert_allclose(law.log_proba(), expected, rtol=0, atol=1e-9)


def places_in_the_law(batch, log_weights, distances, gamma, epsilon, rng):
    """Where each pick lies in the law given those before it, summed up from the nearest row to the farthest.

    At random within the pick's own share, which makes places uniform and independent.
    """
    n = len(log_weights)
    nearest = distances[:, n:].min(axis=1, initial=np.inf)
    left = np.ones(n, dtype=bool)
    for pick in batch:
        apart = nearest if np.isfinite(nearest[pick]) else np.ones(n)
        with np.errstate(divide="ignore"):
            log_law = np.where(left, log_weights + gamma * np.log(apart), -np.inf)
        law = (1 - epsilon) * special.softmax(log_law) + epsilon * left / left.sum()
        order = np.argsort(apart, kind="stable").tolist()
        yield law[order[: order.index(pick)]].sum() + rng.random() * law[pick]
        left[pick] = False
        nearest = np.minimum(nearest, distances[:, pick])


def assert_picks_fit(points, scores, distances, beta, gamma, epsilon=0.0):
    """Places of all picks of many batches are uniform."""
    rng, log_weights = np.random.default_rng(3), beta * np.log(scores)
    places = []
    for _ in range(120):
        batch = draw_apart("power", scores, points, 20, rng, beta, gamma, epsilon)[0]
        places += places_in_the_law(batch, log_weights, distances, gamma, epsilon, rng)
    counts = np.histogram(places, bins=20, range=(0, 1))[0]
    assert stats.chisquare(counts).pvalue > 1e-5


def grouped(n_groups, spread):
    """120 rows in so many groups, whose places differ by about ``spread``, and all squared distances."""
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(n_groups, 6)) * rng.choice([1, 0.05], size=(n_groups, 1))
    places = centres[rng.permutation(np.arange(120) % n_groups)] + spread * rng.normal(size=(120, 6))
    return places, ((places[:, None] - places[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize(
    ("beta", "gamma", "groups", "epsilon", "n_pending"),
    [(1, 0.5, (12, 0.02), 0.0, 0), (4, 4, (120, 0.02), 0.0, 0), (2, 2, (12, 1e-3), 0.3, 10)],
)
def test_every_pick_of_large_batches_follows_its_law_given_those_before(beta, gamma, groups, epsilon, n_pending):
    places, distances = grouped(*groups)
    scores = np.random.default_rng(5).random(120 - n_pending) + 0.05
    assert_picks_fit(vectors(places), scores, distances[: len(scores)], beta, gamma, epsilon)


def test_heavy_rows_that_are_chosen_leave_the_law_of_the_light_ones_as_it_is():
    # Three rows weigh 10^16 times all others together: what is left of sums that hold them has no digits.
    places, distances = grouped(120, 0.02)
    scores = np.random.default_rng(10).random(120) + 0.5
    scores[[5, 60, 110]] = [1e17, 1e18, 1e19]
    assert_picks_fit(vectors(places), scores, distances, 1, 1)


@st.composite
def small_pools(draw):
    """Points on a grid of any scale, so that some are equal, scores with zeros among them, and rows in flight."""
    n, n_pending = draw(st.integers(1, 7)), draw(st.integers(0, 2))
    cells = st.tuples(st.integers(-2, 2), st.integers(-1, 1))
    places = np.array(draw(st.lists(cells, min_size=n + n_pending, max_size=n + n_pending)), dtype=float)
    places *= draw(st.sampled_from([1.0, 1e-20, 1e18]))
    scores = draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0, 1e-300]), min_size=n, max_size=n))
    beta, gamma = draw(st.sampled_from([0.0, 0.5, 1.0, 4.0])), draw(st.sampled_from([0.5, 1.0, 2.0, 4.0]))
    return places, np.array(scores), beta, gamma, draw(st.sampled_from([0.0, 0.3])), draw(st.integers(1, n))


@pytest.mark.filterwarnings("ignore:All points are equal:UserWarning")
@quietly
@given(small_pools(), st.integers(0, 2**32 - 1))
def test_a_batch_knows_the_probability_of_each_pick_given_those_before(pool, seed):
    places, scores, beta, gamma, epsilon, k = pool
    rng = np.random.default_rng(seed)
    batch, law = draw_apart("power", scores, vectors(places), k, rng, beta, gamma, epsilon)
    rule = rule_of(places, scores, beta, gamma, epsilon)
    np.testing.assert_allclose(law.log_proba(), rule.log_proba(batch.tolist()), rtol=0, atol=1e-9)
    first = np.array([float(p) for p in rule.next(()).values()])
    np.testing.assert_allclose(np.exp(law.first_log_proba()), first, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(law.first_log_proba() == -np.inf, first == 0)


@pytest.mark.arithmetic
@pytest.mark.parametrize("space", spaces())
def test_every_ordered_batch_has_the_probability_of_the_law_in_every_space(space):
    points, places, distance = spaces()[space]
    log_weights = power.log_weights(SCORES, 2.0)
    for epsilon in (0.0, 0.3):
        expected = reference.repulsive_law(SCORES, places, 3, 2, 1.5, epsilon, distance=distance)
        ours = {
            batch: math.exp(law_of(batch, log_weights, points, 1.5, epsilon).log_proba().sum())
            for batch in itertools.permutations(range(len(SCORES)), 3)
        }
        assert ours == pytest.approx({batch: float(p) for batch, p in expected.items()}, rel=1e-9)
        assert math.fsum(ours.values()) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(("n_pending", "epsilon"), [(0, 0.3), (7, 0.0)])
def test_log_probabilities_of_a_large_pool_are_those_of_its_law(n_pending, epsilon):
    # More rows than a block holds beside the numbers of 40 picks.
    rng = np.random.default_rng(11)
    n, k = 6000, 40
    array = np.concatenate([rng.normal(size=(n, 8)), rng.normal(size=(n_pending, 8))])
    scores = rng.random(n)
    batch, law = draw_apart("power", scores, vectors(array), k, rng, 2.0, 1.5, epsilon)
    expected, nearest, left = [], np.full(n, np.inf), np.ones(n, dtype=bool)
    for row in range(n, n + n_pending):
        nearest = np.minimum(nearest, ((array[:n] - array[row]) ** 2).sum(axis=1))
    for pick in batch:
        weights = scores**2 * (nearest**1.5 if np.isfinite(nearest[0]) else 1) * left
        expected.append(math.log((1 - epsilon) * weights[pick] / math.fsum(weights) + epsilon / left.sum()))
        nearest, left[pick] = np.minimum(nearest, ((array[:n] - array[pick]) ** 2).sum(axis=1)), False
    np.testing.assert_allclose(law.log_proba(), expected, rtol=0, atol=1e-9)


TINY = np.array([1.0, 1e-6, 1.05e-6, 1.1e-6, 2e-200])
NEAR_AND_FAR = np.array([[0.0, 0.0], [1.0, 0.02], [1.0, 0.0], [1.0, 0.5], [-50.0, 0.0]])


@pytest.mark.parametrize(("gamma", "n_pending"), [(8, 0), (0.5, 1)])
def test_weights_that_no_float_can_hold_have_the_probabilities_of_the_law(gamma, n_pending):
    # 2e-200 to the power 64 is 1e-12781, and the power 8 of the squared distances goes from 1e-28 to 1e27.
    n = 5 - n_pending
    log_weights, points = power.log_weights(TINY[:n], 64), vectors(NEAR_AND_FAR)
    rule = rule_of(NEAR_AND_FAR, TINY[:n], 64, gamma, 0)
    # A dot product of D numbers is off by D eps of the norms: that much of the least distance, times gamma, at the ends
    # of each quotient.
    off = 4 * np.finfo(float).eps * 50**2 / 0.02**2
    for batch in itertools.permutations(range(n), 3):
        ours = law_of(batch, log_weights, points, gamma).log_proba()
        np.testing.assert_allclose(ours, rule.log_proba(batch), rtol=1e-12, atol=1e-9 + 2 * gamma * off)


def test_leaves_of_more_trees_than_a_byte_can_count_have_the_distances_that_they_have():
    leaves = np.random.default_rng(16).integers(2, size=(4, 300))
    leaves[1] = leaves[0]
    rows = PointSet(Leaves(leaves))[slice(0, 4)]
    expected = 2 * (leaves[:, None] != leaves).mean(axis=2)
    np.testing.assert_allclose(rows.squared_distances(rows), expected, rtol=1e-12)


def test_a_very_large_diversity_takes_the_farthest_row():
    # Rows on a line at 0, 1, 3, 7, 15: after the first each row has a farthest one, and no two are as far as another.
    places = np.array([[0.0], [1.0], [3.0], [7.0], [15.0]])
    for seed in range(5):
        batch = repulsive(np.ones(5), places, 4, np.random.default_rng(seed), diversity=100).tolist()
        for t in range(1, 4):
            nearest = np.abs(places - places[batch[:t]].T).min(axis=1)
            assert nearest[batch[t]] == nearest.max()


def test_the_scale_of_the_points_does_not_matter_unless_their_squares_leave_the_floats():
    rng = np.random.default_rng(14)
    points, scores = rng.normal(size=(300, 6)), rng.random(300)
    batches = {
        tuple(repulsive(scores, points * factor, 20, np.random.default_rng(0), diversity=2))
        for factor in (1, 2.0**-300, 1e90)
    }
    assert len(batches) == 1
    for factor in (1e-120, 1e120):
        with pytest.raises(ValueError, match="`points` must have a scale"):
            repulsive(SCORES, PLACES * factor, 2, np.random.default_rng(0))


def test_points_far_from_the_origin_have_the_distances_that_they_have():
    # Multiples of 1/1024 less than 8: with the offset they are still exact, so that the law is that without it.
    rng = np.random.default_rng(15)
    places, scores = rng.integers(-8000, 8000, size=(40, 3)) / 1024, rng.random(40)
    rule = rule_of(places, scores, 1, 2, 0)
    batch, law = draw_apart("power", scores, vectors(places - 2.0**40), 6, rng, 1.0, 2.0)
    np.testing.assert_allclose(law.log_proba(), rule.log_proba(batch.tolist()), rtol=0, atol=1e-9)


def test_where_all_points_are_equal_scores_alone_decide_and_a_warning_says_so():
    ones = np.ones((5, 2))
    law = reference.ordered_batches(reference.power_weights(SCORES, 2), 2)
    for points in (PointSet(Vectors(ones, "points"), Vectors(ones / 3, "points")), PointSet(Leaves(4 * ones))):
        with pytest.warns(UserWarning, match="All points are equal.*scores alone decide"):
            reference.assert_batches_fit(count(points, SCORES, 2, 2.0, 1.0), law)


def test_what_fills_up_a_batch_is_counted_in_a_warning():
    with pytest.warns(UserWarning, match="Only 2 rows .* 5 were asked for: the other 3 "):
        repulsive(SCORES, PLACES[[0, 1, 0, 1, 1]], 5, np.random.default_rng(0))


@quietly
@pytest.mark.parametrize(("offset", "n_columns", "dtype"), [(0.0, 3, np.float64), (50.0, 512, np.float32)])
def test_copies_come_only_when_every_other_place_is_taken(offset, n_columns, dtype):
    # A rounded distance of a row from its twin is not 0, and may be larger than a real one: up to D eps |x|^2.
    rng = np.random.default_rng(17)
    copies = np.tile(np.arange(60), 3)
    points = (rng.normal(size=(60, n_columns)) + offset)[copies].astype(dtype)
    batch = repulsive(np.ones(180), points, 70, np.random.default_rng(0))
    assert sorted(copies[batch[:60]]) == list(range(60))
    assert len(set(batch.tolist())) == 70


@pytest.mark.usefixtures("global_state_untouched")
def test_a_batch_is_the_same_in_every_container_of_points_and_of_scores_which_are_left_as_they_were(tmp_path):
    rng = np.random.default_rng(20)
    points, scores = rng.integers(-3, 4, size=(150, 5)).astype(np.float32), rng.random(150)
    scores[7] = -1e-12  # counts as 0
    before = points.copy(), scores.copy()
    np.save(tmp_path / "points.npy", points)
    pools = {
        "memory map": (scores, np.load(tmp_path / "points.npy", mmap_mode="r")),
        "big-endian": (scores, points.astype(points.dtype.newbyteorder(">"))),
        "negative strides": (scores, points[::-1, ::-1].copy()[::-1, ::-1]),
        "tensors": (torch.from_numpy(scores), torch.from_numpy(points).requires_grad_()),
        "pandas": (pd.Series(scores, index=[3] * 150), pd.DataFrame(points, index=[7] * 150)),
        "lists": (scores.tolist(), points.tolist()),
        "sparse": (scores, sparse.csr_matrix(points)),
        "dask": (scores, da.from_array(points, chunks=(37, 2))),
        "int8": (scores, points.astype(np.int8)),
    }
    expected, other = (repulsive(scores, points, 12, np.random.default_rng(s), diversity=2).tolist() for s in (0, 1))
    assert expected != other
    for name, pool in pools.items():
        assert repulsive(*pool, 12, np.random.default_rng(0), diversity=2).tolist() == expected, name
    np.testing.assert_array_equal(points, before[0])
    np.testing.assert_array_equal(scores, before[1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_batch_on_the_gpu_is_that_on_the_cpu():
    rng = np.random.default_rng(25)
    points, scores = rng.normal(size=(3000, 16)), rng.random(3000)
    for sampler, data in ((power, [scores]), (repulsive, [scores, points])):
        on_gpu = [torch.from_numpy(array).cuda() for array in data]
        batch, expected = (sampler(*held, 100, np.random.default_rng(0)) for held in (on_gpu, data))
        np.testing.assert_array_equal(batch, expected)


def test_points_that_do_not_do_are_refused_by_name_with_what_was_seen():
    for points, seen in [
        (np.where(PLACES == 2.0, np.nan, PLACES), "must be finite.*row 2"),
        (torch.tensor(np.where(PLACES == 2.0, -np.inf, PLACES)), "must be finite.*row 2"),
        (PLACES[:4], r"row for each score.*\(4, 2\)"),
        (PLACES[:, 0], r"shape \(5,\)"),
        (PLACES[:, :0], r"shape \(5, 0\)"),
    ]:
        with pytest.raises(ValueError, match=f"`points`.*{seen}"):
            repulsive(SCORES, points, 2, np.random.default_rng(0))
