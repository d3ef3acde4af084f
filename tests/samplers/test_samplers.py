"""Samplers against the exact law of their batches (Plackett–Luce), and the log-probabilities of those batches."""

from __future__ import annotations

import math
import pickle
import warnings
from collections import Counter

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from skactive import samplers
from skactive.samplers import power, softmax, softrank
from skactive.samplers._law import draw_batch

NAMES = sorted(samplers.SAMPLERS)
RANDOM = ["power", "softmax", "softrank"]
INF = math.inf


def batches(sampler, scores, k, beta, n_trials, seed):
    """Counts of ordered batches, all from one generator."""
    rng = np.random.default_rng(seed)
    return Counter(tuple(int(i) for i in sampler(scores, k, rng, beta=beta)) for _ in range(n_trials))


DISTINCT, TIED = [0.1, 0.4, 0.2, 0.3], [0.3, 0.9, 0.3, 0.05, 0.9]


@pytest.mark.filterwarnings("ignore:.*positive:UserWarning")
@pytest.mark.parametrize(
    ("name", "scores", "k", "beta"),
    [
        # baal-org/baal PR #206; google/uncertainty-baselines PR #913: temperature and coldness mixed up.
        ("power", DISTINCT, 2, 0.5),
        ("power", DISTINCT, 3, 4),
        ("power", TIED, 2, 1),
        ("softmax", DISTINCT, 3, 4),
        ("softmax", TIED, 2, 1),
        # meta-pytorch/botorch PR #2753: NaN as soon as beta times a score passes 709.
        ("softmax", [1000.0, 1001.0, 1002.0], 2, 1),
        # baal-org/baal PR #206: ranks from 0, or ascending, turn the law round.
        ("softrank", [3e5, -7.0, 0.0, 3e9], 3, 0.5),
        ("softrank", DISTINCT, 2, 4),
        ("softrank", TIED, 2, 1),
        ("topk", TIED, 4, 1),
        ("uniform", TIED, 2, 1),
        # At beta 0 every row counts, by definition: google/uncertainty-baselines PR #913, 0 log 0 became NaN.
        ("power", [0.0, 0.6, 0.2, 0.5], 2, 0),
        ("softmax", [0.0, 0.6, 0.2, 0.5], 2, 0),
        ("softrank", [0.0, 0.6, 0.2, 0.5], 2, 5e-324),
        # Rows without mass come last, and then uniformly.
        ("power", [0.0, 0.6, 0.2, 0.0, 0.5], 2, 0.5),
        ("power", [0.0, 0.7, 0.0, 0.0], 3, 1),
        ("power", [0.0] * 4, 3, 1),
        ("softmax", [-INF, 0.6, -INF, -INF, 0.5], 4, 1),
        ("softrank", [-INF, 0.6, -INF, -INF, 0.5], 4, 1),
        ("softmax", [-INF] * 4, 2, 1),
        # Scores of any unit, and of six hundred orders of magnitude.
        ("power", [1e300, 4e300, 2e300, 3e300], 2, 1),
        ("power", [1e-310, 4e-310, 2e-310, 3e-310], 2, 0.5),
        ("power", [0.0, 1e300, 1e-300, 2e-300, 3e-300], 2, 1),
        # Ties stay random under a very large beta.
        ("power", [0.5, 0.9, 0.5, 0.5, 0.1], 2, 1e3),
        ("softmax", [0.5, 0.9, 0.5, 0.5, 0.1], 2, 1e3),
    ],
)
def test_batches_and_their_prefixes_follow_the_law(name, scores, k, beta):
    counts = batches(samplers.SAMPLERS[name], np.array(scores), k, beta, 2000, seed=0)
    reference.assert_batches_fit(counts, reference.batch_law(name, scores, k, beta))


@pytest.mark.parametrize("name", NAMES)
def test_no_row_is_preferred_by_its_position_when_all_scores_are_equal(name):
    # modAL-python/modAL #130; secondmind-labs/trieste #464; KatherLab/MediSwarm PR #555: argsort takes the last rows.
    # 5000 equal rows: half of the picks come from the first half of the pool, and a quarter from every fourth row.
    # Hypergeometric counts are less spread than binomial ones, so that binomial tails are safe.
    rng = np.random.default_rng(7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picks = np.concatenate([samplers.SAMPLERS[name](np.ones(5000), 50, rng) for _ in range(40)])
    assert reference.tail((picks < 2500).sum(), picks.size, 1 / 2) > 1e-6
    assert reference.tail((picks % 4 == 0).sum(), picks.size, 1 / 4) > 1e-6
    assert reference.tail((picks % 64 < 16).sum(), picks.size, 1256 / 5000) > 1e-6


def assert_groups_follow(sampler, scores, weights, groups, k, beta, n_trials, seed):
    """Σ over picks of (picked from group g) − P(group g | picks before): a martingale, bounded by Freedman."""
    rng = np.random.default_rng(seed)
    n_groups = groups.max() + 1
    totals = np.bincount(groups, weights, n_groups)
    picked, expected, variance = np.zeros(n_groups), np.zeros(n_groups), np.zeros(n_groups)
    for _ in range(n_trials):
        batch = sampler(scores, k, rng, beta=beta)
        assert len(set(batch.tolist())) == k
        mass = totals.copy()
        for row in batch:
            proba = np.clip(mass, 0, None) / np.clip(mass, 0, None).sum()
            expected += proba
            variance += proba * (1 - proba)
            picked[groups[row]] += 1
            mass[groups[row]] -= weights[row]
    excess = np.abs(picked - expected)
    bound = np.array([reference.martingale_bound(v) for v in variance])
    assert (excess <= bound).all(), f"picked {picked}, expected {expected.round(1)}, allowed {bound.round(1)}"


LEVELS = [200, 1800, 3000, 5000, 10_000], [1.6, 0.8, 0.4, 0.2, 0.1]  # from few rows of high scores to many of low ones
SOON_GONE = [1, 3, 9, 27, 5000], 1e-3 ** np.arange(5.0)  # most draws with replacement would be repeats
ALL_ROWS = [100, 200, 300, 400], 0.25 ** np.arange(4.0)


@pytest.mark.parametrize(
    ("name", "beta", "levels", "is_sorted", "k"),
    [
        ("power", 0.5, LEVELS, False, 60),
        ("power", 4, LEVELS, True, 60),
        ("softmax", 1, LEVELS, True, 60),
        ("softmax", 4, LEVELS, False, 60),
        ("power", 1, SOON_GONE, False, 80),
        ("softmax", 1, (SOON_GONE[0], np.log(SOON_GONE[1])), False, 80),
        ("power", 1, ALL_ROWS, False, 1000),
    ],
)
def test_large_pools_follow_the_law(name, beta, levels, is_sorted, k):
    sizes, values = levels
    level = np.repeat(np.arange(len(sizes)), sizes)
    if not is_sorted:
        np.random.default_rng(8).shuffle(level)
    scores = np.array(values)[level]
    weights = scores**beta if name == "power" else np.exp(beta * scores)
    groups = 2 * level + 2 * np.arange(len(level)) // len(level)  # of each level, in both halves of the pool
    assert_groups_follow(samplers.SAMPLERS[name], scores, weights, groups, k, beta, n_trials=max(10, 3000 // k), seed=9)


@pytest.mark.parametrize("beta", [0.5, 2])
def test_large_pools_follow_the_law_under_softrank(beta):
    scores = np.random.default_rng(10).permutation(20_000).astype(float)
    ranks = 20_000 - scores
    groups = 2 * np.digitize(ranks, [2, 10, 100, 1000]) + np.arange(20_000) // 10_000
    assert_groups_follow(softrank, scores, ranks**-beta, groups, k=60, beta=beta, n_trials=40, seed=11)


@pytest.mark.parametrize("n_rows", [5, 3000])
@pytest.mark.parametrize("name", RANDOM)
def test_a_very_large_beta_is_top_k(name, n_rows, rng):
    # The closest weights, of ranks 5 and 6 under softrank, still differ by a factor (6/5)^1000.
    scores = rng.permutation(np.arange(1.0, n_rows + 1))
    if name == "power":
        scores = 2.0 ** (rng.permutation(n_rows) % 2000 - 1000)
        scores[rng.permutation(n_rows)[:5]] = 10.0 ** np.arange(301, 306)
    expected = np.argsort(-scores)[:5]
    for beta in (1e3, 1e6, np.finfo(float).max):
        np.testing.assert_array_equal(samplers.SAMPLERS[name](scores, 5, rng, beta=beta), expected, err_msg=str(beta))


def test_softmax_of_scores_as_large_as_floats_can_be_has_the_law_of_small_ones():
    small = np.array([-1.5, 1.5, 1.0, 0.25, 0.0, -np.inf])
    large = small * 2.0**1023  # near 1.3e308: their differences are no floats
    ours, ours_law = draw_batch("softmax", large, 4, np.random.default_rng(0), beta=2.0**-1023)
    theirs, theirs_law = draw_batch("softmax", small, 4, np.random.default_rng(0), beta=1.0)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(ours_law.log_proba(), theirs_law.log_proba(), rtol=1e-12)


def test_softmax_keeps_the_law_within_each_of_far_apart_groups():
    beta = 2.0**-20
    scores = np.array([0.0, 1e9, 2.0, 1e9 + 1, 1.0, -1e20]) / beta
    upper = reference.ordered_batches(reference.softmax_weights([0, 1], 1), 2)
    lower = reference.ordered_batches(reference.softmax_weights([0, 2, 1], 1), 3)
    law = {
        (*((1, 3)[i] for i in first), *((0, 2, 4)[i] for i in second)): p * q
        for first, p in upper.items()
        for second, q in lower.items()
    }
    reference.assert_batches_fit(batches(softmax, scores, 5, beta, 1500, seed=30), law)
    assert {batch[4] for batch in batches(softmax, scores, 6, beta, 50, seed=31)} <= {0, 2, 4}


BETAS = st.one_of(
    st.sampled_from([0, 1, 1e-300, 1e300]), st.floats(0, 100, allow_nan=False), st.floats(0, 1e308, allow_nan=False)
)
REAL = st.one_of(st.floats(-8e307, 8e307), st.sampled_from([-INF, 0.0, 5e-324, 1e-300, 1.0, 1.0, -8e307, 8e307]))


@given(
    name=st.sampled_from(NAMES),
    scores=st.lists(REAL, min_size=1, max_size=20),
    beta=BETAS,
    k=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=120)
def test_any_scores_give_distinct_rows_those_without_mass_last_and_their_log_probabilities(name, scores, beta, k, seed):
    scores, k = np.maximum(scores, 0.0 if name == "power" else -INF), min(k, len(scores))
    has_mass = scores > (0.0 if name == "power" else -INF)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batch = samplers.SAMPLERS[name](scores, k, np.random.default_rng(seed), beta=beta)
        assert len(caught) == (name == "power" and beta > 0 and has_mass.sum() < k)
        same, said = draw_batch(name, scores, k, np.random.default_rng(seed), beta=beta)
    np.testing.assert_array_equal(batch, same)
    assert (batch.dtype, len(set(batch.tolist()))) == (np.int64, k)
    if beta > 0 and name != "uniform":
        assert has_mass[batch[: has_mass.sum()]].all()
    if name == "topk":
        np.testing.assert_array_equal(scores[batch], np.sort(scores)[::-1][:k])
    log_proba = said.log_proba()
    assert (log_proba.shape, log_proba.dtype) == ((k,), np.float64)
    assert ((log_proba > -INF) & (log_proba <= 1e-12)).all()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(said)).log_proba(), log_proba)


@given(
    values=st.lists(st.floats(-800, 800) | st.sampled_from([-INF, 0.0, 0.0, 690.0]), min_size=1, max_size=10),
    beta=st.sampled_from([0.0, 0.1, 1.0, 7.0, 1000.0]),
    random=st.randoms(use_true_random=False),
)
def test_log_proba_equals_its_formula_in_fifty_digits(values, beta, random):
    # The rows of mass 0 go to the end: before it such a batch cannot be drawn.
    positions = sorted(random.sample(range(len(values)), len(values)), key=lambda i: values[i] == -INF)
    positions = np.array(positions[: random.randint(1, len(values))])
    expected = reference.log_proba(reference.exact_log_weights("softmax", values, beta), positions)
    # Values times β reach 8e5: an ulp of them is 1e-10.
    np.testing.assert_allclose(samplers.log_proba(values, positions, beta=beta), expected, rtol=1e-12, atol=1e-9)


def test_log_proba_of_the_rest_after_one_overwhelming_row():
    # One 1e300 among 1e-300s: with the global maximum subtracted, or by subtracting from the total, the rest is lost.
    values = np.log([1e300, *[1e-300] * 100_000])
    for batch, expected in [
        ([0, 5, 99_999], [0, -math.log(100_000), -math.log(99_999)]),
        ([5, 0], [-600 * math.log(10), 0]),
    ]:
        np.testing.assert_allclose(samplers.log_proba(values, np.array(batch)), expected, rtol=1e-12, atol=1e-12)
    beyond_floats = samplers.log_proba([0.0, 1.7e308, -1.7e308, 1e300], np.array([1, 3, 0, 2]), beta=1e200)
    np.testing.assert_allclose(beyond_floats, 0, rtol=0, atol=1e-12)


def test_log_proba_under_softrank_is_exact_given_the_realised_ranks():
    # Three rows tie for ranks 2, 3, 4; the probability of the first pick is that of the rank it was given.
    scores = np.array([0.5, 0.9, 0.5, 0.5, 0.1])
    harmonic = sum(1 / r for r in range(1, 6))
    allowed = {1: {1}, 4: {5}, 0: {2, 3, 4}, 2: {2, 3, 4}, 3: {2, 3, 4}}
    seen = {row: set() for row in range(5)}
    rng = np.random.default_rng(28)
    for _ in range(400):
        batch, said = draw_batch("softrank", scores, 1, rng)
        rank = 1 / (math.exp(said.log_proba()[0]) * harmonic)
        assert rank == pytest.approx(round(rank), abs=1e-9)
        seen[int(batch[0])].add(round(rank))
    assert seen == allowed  # the rarest of these is missed in 400 draws with a chance of (1 − 1/27)^400 < 1e-6


def test_log_proba_of_a_draw_keeps_to_the_scores_it_was_drawn_from(rng):
    # It is computed when asked for; by then the caller may have used the array for something else.
    scores = np.array([0.1, 0.4, 0.2, 0.3])
    batch, said = draw_batch("power", scores, 1, rng)
    expected = math.log(scores[batch[0]])
    scores[:] = 0.25
    np.testing.assert_allclose(said.log_proba(), [expected], rtol=1e-12)


def test_negative_scores_are_refused_by_power(rng):
    for value in (-1e-8, -INF):
        with pytest.raises(ValueError, match=rf"Got {value} in row 3\b"):
            power(np.array([0.1, 0.2, 0.3, value, 0.4]), 2, rng)


def test_rounding_below_zero_counts_as_zero_under_power(rng):
    for value in (-1e-17, -1e-9):
        scores = np.array([0.1, value, 0.3, value])
        assert {int(power(scores, 1, rng)[0]) for _ in range(200)} == {0, 2}
        with pytest.warns(UserWarning, match="Only 2 rows"):
            assert set(power(scores, 3, rng)[:2].tolist()) == {0, 2}
        assert scores[1] == value
