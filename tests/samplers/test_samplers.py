"""Samplers against the exact law of their batches (Plackett–Luce), and the log-probabilities of those batches.

Frequencies are compared with the law cell by cell, by exact binomial tails: with a fixed seed a count outside the
1e-6 tail means a wrong law, not bad luck. For pools too large to enumerate, the picks of a group of rows minus their
conditional probabilities are a martingale, whose excess Freedman's inequality bounds at the same level.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter

import numpy as np
import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from skactive import samplers
from skactive.samplers import power, softmax, softrank, topk
from skactive.samplers._law import draw_batch

NAMES = ["power", "softmax", "softrank", "topk", "uniform"]
RANDOM = ["power", "softmax", "softrank"]
INF = math.inf


def batches(sampler, scores, k, beta, n_trials, seed):
    """Counts of ordered batches, all from one generator."""
    rng = np.random.default_rng(seed)
    return Counter(tuple(int(i) for i in sampler(scores, k, rng, beta=beta)) for _ in range(n_trials))


def first_picks(counts, length=1):
    """The same counts, of the first picks alone."""
    firsts = Counter()
    for batch, count in counts.items():
        firsts[batch[:length]] += count
    return firsts


def assert_follows(name, scores, k, beta, n_trials=2000, seed=0):
    """Ordered batches, and each of their prefixes, follow the law."""
    scores = np.asarray(scores, dtype=float)
    law = reference.batch_law(name, scores, k, beta)
    counts = batches(samplers.SAMPLERS[name], scores, k, beta, n_trials, seed)
    for length in range(1, k + 1):
        reference.assert_counts_fit(first_picks(counts, length), reference.prefixes(law, length), n_trials)
    return counts, law


# ------------------------------------------------------------------------------------------- laws of small pools, exact


LAWS = [(name, beta) for name in RANDOM for beta in (0, 0.5, 1, 2, 4)] + [("topk", 1), ("uniform", 1)]


@pytest.mark.parametrize("scores", [[0.1, 0.4, 0.2, 0.3], [0.3, 0.9, 0.3, 0.05, 0.9]], ids=["distinct", "tied"])
@pytest.mark.parametrize(("name", "beta"), LAWS)
def test_first_picks_and_ordered_pairs_follow_the_law(name, beta, scores):
    assert_follows(name, scores, 2, beta)


@pytest.mark.parametrize("name", NAMES)
def test_ordered_triples_follow_the_law(name):
    # Every prefix of a batch of three has the law of a smaller batch.
    assert_follows(name, [0.5, 0.15, 0.25, 0.1], 3, 1, n_trials=4000)


@pytest.mark.parametrize("beta", [0, 0.5, 1, 4])
def test_power_never_takes_a_zero_while_a_positive_score_is_left(beta):
    # β = 0 is uniform over all rows, the zeros included, by definition.
    counts, _ = assert_follows("power", [0.0, 0.6, 0.2, 0.0, 0.5], 2, beta)
    assert any(0 in batch for batch in counts) == (beta == 0)


@pytest.mark.parametrize("beta", [0.5, 1, 4])
@pytest.mark.parametrize("name", ["softmax", "softrank"])
def test_minus_infinity_is_never_taken_while_anything_else_is_left(name, beta):
    counts, _ = assert_follows(name, [-INF, 0.6, 0.2, -INF, 0.5], 3, beta)
    assert not any({0, 3} & set(batch) for batch in counts)


@pytest.mark.parametrize("name", ["softmax", "softrank"])
def test_minus_infinity_is_taken_uniformly_when_nothing_else_is_left(name):
    assert_follows(name, [-INF, 0.6, -INF, -INF, 0.5], 4, 1, n_trials=3000)


@pytest.mark.parametrize("name", ["softmax", "softrank"])
def test_a_pool_of_minus_infinity_alone_is_taken_uniformly(name):
    assert_follows(name, [-INF] * 4, 2, 1)


@pytest.mark.filterwarnings("ignore:.*positive:UserWarning")
@pytest.mark.parametrize("scores", [[0.0, 0.7, 0.0, 0.0], [0.0] * 4], ids=["one positive", "none"])
def test_power_fills_up_uniformly_after_the_positive_scores(scores):
    assert_follows("power", scores, 3, 1, n_trials=2000)


def test_power_first_pick_is_proportional_to_powers_of_the_scores():
    # baal-org/baal PR #206; google/uncertainty-baselines PR #913: temperature and coldness mixed up.
    scores = [0.1, 0.4, 0.2, 0.3]
    expected = {
        0.5: [0.16270045344786255, 0.3254009068957251, 0.2300931878702196, 0.2818054517861928],
        1: [0.1, 0.4, 0.2, 0.3],
        2: [0.03333333333333333, 0.5333333333333333, 0.13333333333333333, 0.3],
        8: [1.382093595378279e-05, 0.9057688586671089, 0.003538159604168394, 0.0906791607927688],
    }
    for beta, probabilities in expected.items():
        log_weights = power.log_weights(np.array(scores), beta)
        np.testing.assert_allclose(special.softmax(log_weights), probabilities, rtol=0, atol=1e-12)
        counts = first_picks(batches(power, np.array(scores), 1, beta, 2000, seed=1))
        reference.assert_counts_fit(counts, {(i,): p for i, p in enumerate(probabilities)}, 2000)


def test_softmax_first_pick_does_not_overflow():
    # meta-pytorch/botorch PR #2753: NaN as soon as β · score passes 709.
    expected = {
        1: [0.09003057317038046, 0.24472847105479764, 0.6652409557748218],
        2: [0.015876239976466765, 0.11731042782619838, 0.8668133321973349],
        1e4: [0.0, 0.0, 1.0],
    }
    for beta, probabilities in expected.items():
        scores = np.array([1000.0, 1001.0, 1002.0])
        np.testing.assert_allclose(
            special.softmax(softmax.log_weights(scores, beta)), probabilities, rtol=0, atol=1e-12
        )
        counts = first_picks(batches(softmax, scores, 1, beta, 2000, seed=2))
        reference.assert_counts_fit(counts, {(i,): p for i, p in enumerate(probabilities)}, 2000)
    small = softmax.log_weights(np.array([-3000.0, -3001.0, -3002.0]), 1)
    np.testing.assert_allclose(special.softmax(small), expected[1][::-1], rtol=0, atol=1e-12)


def test_softrank_ranks_start_at_one_for_the_highest_score():
    # baal-org/baal PR #206 (RankBasedSampling): ranks from 0, or ascending, turn the law round.
    expected = {
        0.5: [0.25394781402392946, 0.17956822136382072, 0.2073475218846084, 0.35913644272764145],
        1: [0.24, 0.12, 0.16, 0.48],
        2: [0.17560975609756097, 0.04390243902439024, 0.07804878048780486, 0.7024390243902439],
    }
    for scores in ([0.3, 0.1, 0.2, 0.9], [300000.0, -7.0, 0.0, 3e9]):
        for beta, probabilities in expected.items():
            log_weights = softrank.log_weights(np.array(scores), beta)
            np.testing.assert_allclose(special.softmax(log_weights), probabilities, rtol=0, atol=1e-12)
            counts = first_picks(batches(softrank, np.array(scores), 1, beta, 2000, seed=3))
            reference.assert_counts_fit(counts, {(i,): p for i, p in enumerate(probabilities)}, 2000)


def test_two_of_four_under_power_have_the_exact_inclusion_probabilities():
    # anndvision/causal-bald PR #15; T. Vieira, "Algorithms for sampling without replacement" (2019): not k · p_i.
    counts, law = assert_follows("power", [1, 2, 3, 4], 2, 1, n_trials=5000)
    expected = [197 / 840, 139 / 315, 73 / 120, 451 / 630]
    np.testing.assert_allclose([float(p) for p in reference.inclusions(law, 4)], expected, rtol=1e-12)
    assert float(law[3, 2]) == pytest.approx(1 / 5)
    for row, probability in enumerate(expected):
        seen = sum(count for batch, count in counts.items() if row in batch)
        assert reference.tail(seen, 5000, probability) > 1e-6


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize(("name", "beta"), [("power", 1), ("softmax", 3), ("softrank", 2), ("topk", 1), ("uniform", 1)])
def test_inclusion_probabilities_of_six_rows_agree_with_enumeration(name, beta, k):
    scores = np.array([0.2, 0.9, 0.2, 0.5, 0.1, 0.5])
    probabilities = reference.inclusions(reference.batch_law(name, scores, k, beta), 6)
    assert sum(probabilities) == k
    counts = batches(samplers.SAMPLERS[name], scores, k, beta, 1500, seed=4)
    for row, probability in enumerate(probabilities):
        seen = sum(count for batch, count in counts.items() if row in batch)
        assert reference.tail(seen, 1500, probability) > 1e-6, (row, seen, float(probability))


@pytest.mark.parametrize(("value", "beta"), [(0.4, 0.5), (0.4, 4), (0.0, 1)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:.*positive:UserWarning")
def test_no_row_is_preferred_by_its_position_when_all_scores_are_equal(name, value, beta):
    # modAL-python/modAL #130; secondmind-labs/trieste #464; KatherLab/MediSwarm PR #555: argsort takes the last rows.
    counts = batches(samplers.SAMPLERS[name], np.full(5, value), 2, beta, 1500, seed=5)
    reference.assert_counts_fit(counts, dict.fromkeys(itertools.permutations(range(5), 2), 1 / 20), 1500)


def test_ties_inside_and_at_the_edge_of_a_top_k_batch_are_broken_at_random():
    counts = batches(topk, np.array([1.0, 3.0, 1.0, 2.0, 1.0, 2.0]), 4, 1.0, 1500, seed=6)
    law = {(1, *inside, edge): 1 / 6 for inside in ((3, 5), (5, 3)) for edge in (0, 2, 4)}
    reference.assert_counts_fit(counts, law, 1500)


@pytest.mark.parametrize("name", NAMES)
def test_ties_are_broken_at_random_in_a_large_pool(name):
    # 5000 equal rows: half of the picks come from the first half of the pool, and a quarter from every fourth row.
    # Hypergeometric counts are less spread than binomial ones, so that binomial tails are safe.
    rng = np.random.default_rng(7)
    picks = np.concatenate([samplers.SAMPLERS[name](np.ones(5000), 50, rng) for _ in range(40)])
    assert reference.tail((picks < 2500).sum(), picks.size, 1 / 2) > 1e-6
    assert reference.tail((picks % 4 == 0).sum(), picks.size, 1 / 4) > 1e-6
    assert reference.tail((picks % 64 < 16).sum(), picks.size, 1256 / 5000) > 1e-6


# ------------------------------------------------------------------------------------------------- laws of large pools


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


def halves(n_rows):
    """0 for the first half of the pool, 1 for the second."""
    return 2 * np.arange(n_rows) // n_rows


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
@pytest.mark.parametrize("beta", [0.5, 1, 4])
@pytest.mark.parametrize("name", ["power", "softmax"])
def test_large_pools_follow_the_law(name, beta, order):
    # Five levels of score, from few and high to many and low, each met in both halves of the pool (where shuffled).
    rng = np.random.default_rng(8)
    level = np.repeat(np.arange(5), [200, 1800, 3000, 5000, 10_000])
    if order == "shuffled":
        rng.shuffle(level)
    scores = np.array([1.6, 0.8, 0.4, 0.2, 0.1])[level]
    weights = scores**beta if name == "power" else np.exp(beta * scores)
    groups = 2 * level + halves(len(level))
    assert_groups_follow(samplers.SAMPLERS[name], scores, weights, groups, k=60, beta=beta, n_trials=40, seed=9)


@pytest.mark.parametrize("beta", [0.5, 1, 2])
def test_large_pools_follow_the_law_under_softrank(beta):
    rng = np.random.default_rng(10)
    scores = rng.permutation(20_000).astype(float)
    ranks = 20_000 - scores
    groups = 2 * np.digitize(ranks, [2, 10, 100, 1000]) + halves(20_000)
    assert_groups_follow(softrank, scores, ranks**-beta, groups, k=60, beta=beta, n_trials=40, seed=11)


@pytest.mark.parametrize("name", ["power", "softmax"])
def test_the_law_holds_while_the_heavy_rows_run_out(name):
    # Each level is a thousandth of the one before and soon exhausted: most draws with replacement would be repeats.
    level = np.repeat(np.arange(5), [1, 3, 9, 27, 5000])
    np.random.default_rng(12).shuffle(level)
    weights = 1e-3 ** level.astype(float)
    scores = weights if name == "power" else np.log(weights)
    groups = 2 * level + halves(len(level))
    assert_groups_follow(samplers.SAMPLERS[name], scores, weights, groups, k=80, beta=1.0, n_trials=60, seed=13)


@pytest.mark.parametrize("name", ["power", "softmax"])
def test_the_law_holds_down_to_the_last_row(name):
    level = np.repeat(np.arange(4), [100, 200, 300, 400])
    np.random.default_rng(14).shuffle(level)
    weights = 0.25 ** level.astype(float)
    scores = weights if name == "power" else np.log(weights)
    groups = 2 * level + halves(1000)
    assert_groups_follow(samplers.SAMPLERS[name], scores, weights, groups, k=1000, beta=1.0, n_trials=10, seed=15)


def test_zeros_of_a_large_pool_stay_out_under_power():
    rng = np.random.default_rng(16)
    scores = np.zeros(50_000)
    positive = rng.choice(50_000, 120, replace=False)
    scores[positive] = rng.random(120) + 0.1
    for k in (1, 100, 120):
        assert set(power(scores, k, rng).tolist()) <= set(positive.tolist())


# ------------------------------------------------------------------------------------------------------ limits of β


@pytest.mark.parametrize("beta", [0, 1e-12, 5e-324])
@pytest.mark.parametrize("name", RANDOM)
def test_beta_near_zero_is_uniform(name, beta):
    law = dict.fromkeys(itertools.permutations(range(4), 2), 1 / 12)
    counts = batches(samplers.SAMPLERS[name], np.array([0.05, 0.6, 0.2, 0.5]), 2, beta, 1500, seed=17)
    reference.assert_counts_fit(counts, law, 1500)


@pytest.mark.parametrize("name", RANDOM)
def test_beta_zero_counts_every_row_of_a_pool_with_zeros(name):
    # google/uncertainty-baselines PR #913: 0 · log 0 became NaN.
    law = dict.fromkeys(itertools.permutations(range(4), 2), 1 / 12)
    counts = batches(samplers.SAMPLERS[name], np.array([0.0, 0.6, 0.2, 0.5]), 2, 0, 1500, seed=18)
    reference.assert_counts_fit(counts, law, 1500)


@pytest.mark.parametrize("beta", [1e3, 1e6, 1e300, np.finfo(float).max])
@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("n_rows", [5, 3000])
def test_a_very_large_beta_is_top_k(name, beta, n_rows, rng):
    # The closest weights, of ranks 5 and 6 under softrank, still differ by a factor (6/5)^1000.
    scores = rng.permutation(np.arange(1.0, n_rows + 1))
    if name == "power":
        scores = 2.0 ** (rng.permutation(n_rows) % 2000 - 1000)
        scores[rng.permutation(n_rows)[:5]] = 10.0 ** np.arange(301, 306)
    expected = np.argsort(-scores)[:5]
    np.testing.assert_array_equal(samplers.SAMPLERS[name](scores, 5, rng, beta=beta), expected)


@pytest.mark.parametrize("name", RANDOM)
def test_an_infinite_beta_is_top_k_or_refused(name, rng):
    scores = np.array([0.05, 0.6, 0.2, 0.5])
    try:
        batch = samplers.SAMPLERS[name](scores, 2, rng, beta=INF).tolist()
    except ValueError as error:
        batch = str(error)
    assert batch == [1, 3] or "`beta`" in batch


@pytest.mark.parametrize("beta", [1e3, 1e300])
@pytest.mark.parametrize("name", RANDOM)
def test_ties_stay_random_under_a_very_large_beta(name, beta):
    law = {(1, 0): 1 / 3, (1, 2): 1 / 3, (1, 3): 1 / 3}
    counts = batches(samplers.SAMPLERS[name], np.array([0.5, 0.9, 0.5, 0.5, 0.1]), 2, beta, 2000, seed=19)
    reference.assert_counts_fit(counts, law, 2000)


# ------------------------------------------------------------------------------------------------------ extreme scores


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e-310])
@pytest.mark.parametrize("beta", [0.5, 1, 4])
def test_power_is_invariant_to_the_unit_of_the_scores(scale, beta):
    scores = np.array([1.0, 4.0, 2.0, 3.0])
    law = reference.batch_law("power", scores, 2, beta)
    counts = batches(power, scores * scale, 2, beta, 1500, seed=20)
    reference.assert_counts_fit(counts, law, 1500)


def test_power_spans_six_hundred_orders_of_magnitude():
    law = {(1, 2): 1 / 6, (1, 3): 2 / 6, (1, 4): 3 / 6}
    counts = batches(power, np.array([0.0, 1e300, 1e-300, 2e-300, 3e-300]), 2, 1.0, 1500, seed=21)
    reference.assert_counts_fit(counts, law, 1500)


@pytest.mark.parametrize("shift", [-1e6, 1e6, 2.0**50])
def test_softmax_is_invariant_to_shifts(shift):
    scores = np.array([0.0, 1.0, 3.0, 2.0])
    law = reference.batch_law("softmax", scores, 2, 0.5)
    counts = batches(softmax, scores + shift, 2, 0.5, 1500, seed=22)
    reference.assert_counts_fit(counts, law, 1500)


def test_softmax_over_a_range_of_two_million_takes_the_best_first(rng):
    scores = rng.permutation(np.linspace(-1e6, 1e6, 2001))
    np.testing.assert_array_equal(softmax(scores, 2001, rng), np.argsort(-scores))


@pytest.mark.parametrize("beta", [1.0, 1e200, 1e300])
def test_softmax_of_the_largest_floats_takes_the_best_first(beta, rng):
    # The difference of two scores, and β times a score, may both be beyond the largest float.
    scores = np.array([0.0, 1.7e308, -1.7e308, 1e300, -1e300])
    np.testing.assert_array_equal(softmax(scores, 5, rng, beta=beta), [1, 3, 0, 4, 2])


@pytest.mark.parametrize("low", [-1e6, -1e16, -1e30])
def test_softmax_keeps_the_law_when_the_batch_reaches_a_far_lower_score(low):
    # Such as a large negative number that stands for "never": centred there, the others would lose their digits.
    rest = reference.ordered_batches(reference.softmax_weights([0, 2, 1], 1), 3)
    law = {(*((0, 2, 3)[i] for i in batch), 1): probability for batch, probability in rest.items()}
    counts = batches(softmax, np.array([0.0, low, 2.0, 1.0]), 4, 1.0, 1500, seed=29)
    reference.assert_counts_fit(counts, law, 1500)


def test_softmax_keeps_the_law_within_each_of_far_apart_groups():
    scores = np.array([0.0, 1e9, 2.0, 1e9 + 1, 1.0, -1e20])
    upper = reference.ordered_batches(reference.softmax_weights([0, 1], 1), 2)
    lower = reference.ordered_batches(reference.softmax_weights([0, 2, 1], 1), 3)
    law = {
        (*((1, 3)[i] for i in first), *((0, 2, 4)[i] for i in second)): p * q
        for first, p in upper.items()
        for second, q in lower.items()
    }
    counts = batches(softmax, scores, 5, 1.0, 1500, seed=30)
    reference.assert_counts_fit(counts, law, 1500)
    assert {batch[4] for batch in batches(softmax, scores, 6, 1.0, 50, seed=31)} <= {0, 2, 4}


@pytest.mark.parametrize("beta", [1.0, 1e300])
def test_softmax_keeps_the_order_of_scores_a_whole_range_above_the_last(beta, rng):
    scores = np.array([-1.7e308, 1.6e308, 1.7e308, 1.5e308])
    np.testing.assert_array_equal(softmax(scores, 4, rng, beta=beta), [2, 1, 3, 0])


@given(seed=st.integers(0, 2**32 - 1), beta=st.sampled_from([0.1, 1.0, 8.0]), n=st.integers(1, 30))
def test_softrank_ignores_monotone_maps(seed, beta, n):
    scores = np.random.default_rng(seed).normal(size=n).round(1)
    one, other = (softrank(s, n, np.random.default_rng(seed), beta=beta) for s in (scores, 1e200 * np.sinh(scores) - 7))
    np.testing.assert_array_equal(one, other)


# ------------------------------------------------------------------------------------------- any scores, any β, any k

BETAS = st.one_of(
    st.sampled_from([0, 1, 1e-300, 1e300]), st.floats(0, 100, allow_nan=False), st.floats(0, 1e308, allow_nan=False)
)
POSITIVE = st.one_of(st.floats(0, 1e308), st.sampled_from([0.0, 5e-324, 1e-300, 1.0, 1.0, 1e300]))
REAL = st.one_of(st.floats(-8e307, 8e307), st.sampled_from([-INF, 0.0, 1.0, 1.0, -8e307, 8e307]))


@st.composite
def tasks(draw, scores):
    """(scores, k, beta, seed)."""
    values = np.array(draw(st.lists(scores, min_size=1, max_size=20)))
    return values, draw(st.integers(1, len(values))), draw(BETAS), draw(st.integers(0, 2**32 - 1))


def assert_is_a_batch(indices, n_rows, k):
    assert isinstance(indices, np.ndarray)
    assert indices.dtype == np.int64
    assert indices.shape == (k,)
    assert len(set(indices.tolist())) == k
    assert all(0 <= i < n_rows for i in indices.tolist())


@given(task=tasks(POSITIVE))
def test_power_returns_distinct_rows_positive_ones_first(task):
    scores, k, beta, seed = task
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        indices = power(scores, k, np.random.default_rng(seed), beta=beta)
    assert_is_a_batch(indices, len(scores), k)
    n_positive = int((scores > 0).sum())
    if beta > 0:
        assert (scores[indices[:n_positive]] > 0).all()
    assert len(caught) == (beta > 0 and n_positive < k)


@given(task=tasks(POSITIVE))
def test_power_under_the_largest_beta_returns_the_highest_scores_in_order(task):
    scores, k, _, seed = task
    n_positive = int((scores > 0).sum())
    if n_positive:
        k = min(k, n_positive)
        indices = power(scores, k, np.random.default_rng(seed), beta=np.finfo(float).max)
        picked, best = scores[indices], np.sort(scores)[::-1][:k]
        # Scores are told apart through their logarithms: to 1e-13 of themselves.
        np.testing.assert_allclose(picked, best, rtol=1e-12)


@given(task=tasks(REAL))
def test_softmax_under_the_largest_beta_returns_the_highest_scores_in_order(task):
    scores, k, _, seed = task
    scores = np.where(np.abs(scores) < 1e-290, 0.0, scores)  # now β times the smallest difference is 100 and more
    indices = softmax(scores, k, np.random.default_rng(seed), beta=np.finfo(float).max)
    np.testing.assert_array_equal(scores[indices], np.sort(scores)[::-1][:k])


@pytest.mark.parametrize("name", ["softmax", "softrank"])
@given(task=tasks(REAL))
def test_softmax_and_softrank_return_distinct_rows_minus_infinity_last(name, task):
    scores, k, beta, seed = task
    indices = samplers.SAMPLERS[name](scores, k, np.random.default_rng(seed), beta=beta)
    assert_is_a_batch(indices, len(scores), k)
    if beta > 0:
        assert (scores[indices[: (scores > -INF).sum()]] > -INF).all()


@given(task=tasks(st.floats(-1e308, 1e308)))
def test_top_k_returns_the_highest_scores_in_order(task):
    scores, k, beta, seed = task
    indices = topk(scores, k, np.random.default_rng(seed), beta=beta)
    assert_is_a_batch(indices, len(scores), k)
    np.testing.assert_array_equal(scores[indices], np.sort(scores)[::-1][:k])


@pytest.mark.parametrize("name", NAMES)
@given(task=tasks(POSITIVE))
def test_draw_gives_the_batch_of_the_sampler_and_its_log_probabilities(name, task):
    scores, k, beta, seed = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        indices = samplers.SAMPLERS[name](scores, k, np.random.default_rng(seed), beta=beta)
        batch, said = draw_batch(name, scores, k, np.random.default_rng(seed), beta=beta)
    np.testing.assert_array_equal(batch, indices)
    log_proba = np.asarray(said.log_proba())
    assert log_proba.shape == (k,)
    assert log_proba.dtype == np.float64
    assert np.isfinite(log_proba).all()
    assert (log_proba <= 1e-12).all()


@pytest.mark.parametrize("n_rows", [5, 3000, 20_000])
def test_a_pool_of_minus_infinity_alone_is_a_pool_of_equal_rows_whatever_its_size(n_rows, rng):
    for sampler in (softmax, softrank, topk):
        assert_is_a_batch(sampler(np.full(n_rows, -INF), 3, rng), n_rows, 3)


@pytest.mark.parametrize("kind", ["ours", "the user's own"])
def test_a_mixture_names_the_row_of_a_score_that_its_sampler_refuses(kind, rng):
    # A sampler of the user's own sees the rows in random order.
    def own(scores, k, rng, *, beta=1.0):
        return power(scores, k, rng, beta=beta)

    own.log_weights = power.log_weights
    sampler = power if kind == "ours" else own
    scores = np.ones(50)
    scores[7] = -1.0
    with pytest.raises(ValueError, match=r"Got -1\.0 in row 7\b"):
        draw_batch(sampler, scores, 3, rng, epsilon=0.1)


# ---------------------------------------------------------------------------------------- log-probabilities of batches


@st.composite
def weighted_batches(draw):
    """(values, positions, beta): any values with −∞ among them, any ordered batch."""
    values = draw(
        st.lists(st.one_of(st.floats(-800, 800), st.sampled_from([-INF, 0.0, 0.0, 690.0])), min_size=1, max_size=10)
    )
    positions = draw(st.permutations(range(len(values))))
    # The rows of mass 0 go to the end: before it such a batch cannot be drawn.
    positions = sorted(positions, key=lambda i: values[i] == -INF)[: draw(st.integers(1, len(values)))]
    return np.array(values), np.array(positions), draw(st.sampled_from([0.1, 1.0, 7.0, 1000.0]))


@given(task=weighted_batches())
def test_log_proba_equals_its_formula_in_fifty_digits(task):
    values, positions, beta = task
    expected = reference.log_proba(reference.exact_log_weights("softmax", values, beta), positions)
    # Values times β reach 8e5: an ulp of them is 1e-10.
    np.testing.assert_allclose(samplers.log_proba(values, positions, beta=beta), expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("beta", [0, 0.5, 1, 4, 1e3])
@pytest.mark.parametrize("values", [[0.3, -1.0, 0.0, 0.3], [-INF, 2.0, -INF, 1.0], [-INF] * 4])
def test_probabilities_of_all_ordered_batches_sum_to_one(values, beta, k):
    values = np.array(values)
    total = sum(
        math.exp(samplers.log_proba(values, np.array(batch), beta=beta).sum())
        for batch in itertools.permutations(range(4), k)
    )
    assert total == pytest.approx(1, abs=1e-12)


def test_log_proba_at_beta_zero_is_uniform_over_all_rows():
    values = np.array([3.0, -1000.0, 0.0, 1e300, 5.0])
    expected = -np.log([5, 4, 3])
    np.testing.assert_allclose(samplers.log_proba(values, np.array([3, 1, 0]), beta=0), expected, rtol=1e-15)


def test_log_proba_of_the_rest_after_one_overwhelming_row():
    # One 1e300 among 1e-300s: with the global maximum subtracted, or by subtracting from the total, the rest is lost.
    values = np.log(np.full(100_001, 1e-300))
    values[0] = math.log(1e300)
    expected = [0, -math.log(100_000), -math.log(99_999)]
    np.testing.assert_allclose(samplers.log_proba(values, np.array([0, 5, 99_999])), expected, rtol=1e-12, atol=1e-12)
    expected = [-600 * math.log(10), 0]
    np.testing.assert_allclose(samplers.log_proba(values, np.array([5, 0])), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", ["falling", "rising", "mixed"])
@pytest.mark.parametrize("step", [1.0, 20.0, 50.0])
def test_log_proba_on_a_ladder_of_weights(order, step, rng):
    # Every weight e^−step of the one before: after each pick what is left is tiny against what was taken.
    values = -step * np.arange(25)
    positions = {"falling": np.arange(25), "rising": np.arange(25)[::-1], "mixed": rng.permutation(25)}[order]
    expected = reference.log_proba(reference.exact_log_weights("softmax", values, 1), positions)
    np.testing.assert_allclose(samplers.log_proba(values, positions), expected, rtol=1e-12, atol=1e-15)


def test_log_proba_of_a_whole_permutation_does_not_drift(rng):
    values = rng.normal(scale=10, size=1500)
    positions = rng.permutation(1500)
    rest = np.logaddexp.accumulate(values[positions][::-1])[::-1]  # sums from the end: nothing is subtracted
    np.testing.assert_allclose(samplers.log_proba(values, positions), values[positions] - rest, rtol=1e-9, atol=1e-9)
    assert samplers.log_proba(values, positions)[-1] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("shift", [-1e6, 1e6, 1e15])
def test_log_proba_is_invariant_to_shifts(shift):
    values, positions = np.array([1.0, 4.0, 2.0, 0.0]), np.array([2, 1, 0])
    np.testing.assert_allclose(
        samplers.log_proba(values + shift, positions), samplers.log_proba(values, positions), rtol=1e-12
    )


def test_log_proba_beyond_the_largest_float():
    values = np.array([0.0, 1.7e308, -1.7e308, 1e300])
    np.testing.assert_allclose(
        samplers.log_proba(values, np.array([1, 3, 0, 2]), beta=1e200), np.zeros(4), rtol=0, atol=1e-12
    )


# -------------------------------------------------------------------------------------- log-probabilities of a draw


@pytest.mark.parametrize("beta", [0, 0.5, 1, 4, 1e3])
@pytest.mark.parametrize("name", RANDOM)
def test_log_proba_of_a_draw_is_that_of_its_batch_under_the_law(name, beta):
    rng = np.random.default_rng(25)
    for n_rows in (1, 2, 8, 40):
        scores = rng.random(n_rows) + 0.01
        ranks = np.argsort(np.argsort(-scores)) + 1
        batch, said = draw_batch(name, scores, n_rows, rng, beta=beta)
        weights = reference.exact_log_weights(name, scores, beta, ranks)
        np.testing.assert_allclose(said.log_proba(), reference.log_proba(weights, batch), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("name", "beta"), [("power", 2), ("softmax", 3), ("softrank", 1), ("uniform", 1), ("topk", 1)])
def test_probabilities_of_draws_are_the_frequencies_of_their_batches(name, beta):
    # Ordered pairs of distinct scores: what the draw says of itself must be how often it comes.
    scores, n_trials = np.array([0.9, 0.4, 0.7, 0.1]), 2000
    rng = np.random.default_rng(26)
    said, counts = {}, Counter()
    for _ in range(n_trials):
        batch, of_batch = draw_batch(name, scores, 2, rng, beta=beta)
        pair = tuple(batch.tolist())
        counts[pair] += 1
        said.setdefault(pair, math.exp(np.sum(of_batch.log_proba())))
    law = {pair: float(p) for pair, p in reference.batch_law(name, scores, 2, beta).items()}
    assert {pair: pytest.approx(p, rel=1e-9) for pair, p in said.items()} == {pair: law[pair] for pair in said}
    reference.assert_counts_fit(counts, law, n_trials)


@pytest.mark.parametrize("scores", [[0.5, 0.9, 0.5, 0.5, 0.1], [0.3, 0.1, 0.8, 0.4, 0.2]])
@pytest.mark.parametrize("name", ["power", "softmax", "softrank", "uniform"])
def test_inverse_probabilities_of_the_first_pick_average_to_the_pool_size(name, scores):
    # E[1/q(i)] = n whatever the law, given the realised ranks as well: Var = Σ 1/q − n² for each ranking. 5 sigma.
    scores, n_trials = np.array(scores), 1500
    rng = np.random.default_rng(27)
    inverse = [math.exp(-draw_batch(name, scores, 1, rng)[1].log_proba()[0]) for _ in range(n_trials)]
    law = reference.batch_law(name, scores, 1, 1)
    if name == "softrank":
        law = {rank: (1 / rank) / (137 / 60) for rank in range(1, 6)}
    sigma = math.sqrt(max(0.0, sum(1 / float(q) for q in law.values()) - 25))
    assert np.mean(inverse) == pytest.approx(5, abs=5 * sigma / math.sqrt(n_trials) + 1e-9)


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


def test_log_proba_under_top_k_counts_the_ties_that_are_left(rng):
    scores = np.array([2.0, 1.0, 3.0, 2.0, 1.0, 1.0, 2.0])
    said = draw_batch("topk", scores, 6, rng)[1]
    np.testing.assert_allclose(said.log_proba(), -np.log([1, 3, 2, 1, 3, 2]), rtol=1e-12, atol=1e-15)


def test_log_proba_under_uniform_counts_the_rows_that_are_left(rng):
    said = draw_batch("uniform", np.array([2.0, 1.0, 3.0, 2.0]), 4, rng)[1]
    np.testing.assert_allclose(said.log_proba(), -np.log([4, 3, 2, 1]), rtol=1e-12, atol=1e-15)


@pytest.mark.filterwarnings("ignore:.*positive:UserWarning")
def test_log_proba_of_the_uniform_fill_up_counts_the_rows_that_are_left(rng):
    batch, said = draw_batch("power", np.array([0.0, 0.25, 0.0, 0.75, 0.0]), 5, rng)
    first = math.log(0.75 if batch[0] == 3 else 0.25)
    np.testing.assert_allclose(said.log_proba(), [first, 0, *-np.log([3, 2, 1])], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["softmax", "softrank"])
def test_log_proba_of_minus_infinity_counts_the_rows_that_are_left(name, rng):
    said = draw_batch(name, np.array([-INF, 7.0, -INF, -INF]), 4, rng)[1]
    np.testing.assert_allclose(said.log_proba(), [0, *-np.log([3, 2, 1])], rtol=1e-12, atol=1e-15)


def test_log_proba_of_a_draw_keeps_to_the_scores_it_was_drawn_from(rng):
    # It is computed when asked for; by then the caller may have used the array for something else.
    scores = np.array([0.1, 0.4, 0.2, 0.3])
    batch, said = draw_batch("power", scores, 1, rng)
    expected = math.log(scores[batch[0]])
    scores[:] = 0.25
    np.testing.assert_allclose(said.log_proba(), [expected], rtol=1e-12)


@pytest.mark.parametrize("name", RANDOM)
def test_log_proba_of_a_large_pool_equals_its_formula(name, rng):
    scores = rng.random(200_000)
    batch, said = draw_batch(name, scores, 100, rng, beta=2.0)
    if name == "softrank":
        ranks = np.empty(200_000)
        ranks[np.argsort(-scores)] = np.arange(1, 200_001)
        weights = ranks**-2.0
    else:
        weights = scores**2.0 if name == "power" else np.exp(2 * scores)
    picked = weights[batch]
    rest = math.fsum(weights) - np.concatenate([[0], np.cumsum(picked)[:-1]])
    np.testing.assert_allclose(said.log_proba(), np.log(picked / rest), rtol=0, atol=1e-9)


# ------------------------------------------------------------------------------------------------ logs of the weights


def test_log_weights_of_power_give_zero_scores_no_mass():
    weights = np.exp(power.log_weights(np.array([0.0, 0.25, 0.75]), 1.0))
    np.testing.assert_allclose(weights / weights.sum(), [0, 0.25, 0.75], rtol=1e-12)


@pytest.mark.parametrize("name", RANDOM)
def test_log_weights_at_beta_zero_are_equal(name):
    log_weights = samplers.SAMPLERS[name].log_weights(np.array([0.0, 0.25, 0.75]), 0)
    np.testing.assert_array_equal(log_weights, np.full(3, log_weights[0]))
    assert np.isfinite(log_weights).all()


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("value", [-1e-8, -0.5, -INF])
def test_negative_scores_are_refused_by_power(value, rng):
    scores = np.array([0.1, 0.2, 0.3, value, 0.4])
    with pytest.raises(ValueError, match=r"\b3\b") as caught:
        power(scores, 2, rng)
    assert any(text in str(caught.value) for text in (repr(value), str(value), f"{value:g}"))


@pytest.mark.parametrize("value", [-1e-17, -1e-9])
def test_rounding_below_zero_counts_as_zero_under_power(value, rng):
    scores = np.array([0.1, value, 0.3, value])
    assert {int(power(scores, 1, rng)[0]) for _ in range(200)} == {0, 2}
    with pytest.warns(UserWarning, match="2") as caught:
        indices = power(scores, 3, rng)
    assert len(caught) == 1
    assert set(indices[:2].tolist()) == {0, 2}
    assert scores[1] == value


def test_power_says_once_how_many_scores_were_positive(rng):
    with pytest.warns(UserWarning, match="positive") as caught:
        power(np.array([0.0, 0.4, 0.0, 0.0, 0.3]), 4, rng)
    assert len(caught) == 1
    assert "2" in str(caught[0].message)
    assert "4" in str(caught[0].message)


def test_power_says_so_when_no_score_is_positive(rng):
    with pytest.warns(UserWarning, match="0") as caught:
        power(np.zeros(5), 3, rng)
    assert len(caught) == 1
    assert "3" in str(caught[0].message)


@pytest.mark.parametrize("beta", [0, 1, 1e6])
@pytest.mark.parametrize("name", NAMES)
def test_equal_positive_scores_give_a_batch_without_a_warning(name, beta, rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_is_a_batch(samplers.SAMPLERS[name](np.full(5, 0.4), 5, rng, beta=beta), 5, 5)


@pytest.mark.parametrize("name", NAMES)
def test_samplers_take_negative_scores_where_their_law_does(name, rng):
    scores = np.array([-3.0, -1.0, -2.0])
    if name == "power":
        with pytest.raises(ValueError):
            power(scores, 2, rng)
    else:
        assert_is_a_batch(samplers.SAMPLERS[name](scores, 2, rng), 3, 2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_scores_on_the_gpu_give_the_same_batch(name, rng):
    scores = rng.random(1000)
    batch = samplers.SAMPLERS[name](torch.from_numpy(scores).cuda(), 10, np.random.default_rng(0))
    np.testing.assert_array_equal(batch, samplers.SAMPLERS[name](scores, 10, np.random.default_rng(0)))


@pytest.mark.parametrize("beta", [0.25, 1.0, 8.0])
def test_softmax_of_scores_as_large_as_floats_can_be_has_the_law_of_small_ones(beta):
    small = np.array([-1.5, 1.5, 1.0, 0.25, 0.0, -np.inf])
    large = small * 2.0**1023  # near 1.3e308: their differences are no floats
    ours, ours_law = draw_batch("softmax", large, 4, np.random.default_rng(0), beta=beta * 2.0**-1023)
    theirs, theirs_law = draw_batch("softmax", small, 4, np.random.default_rng(0), beta=beta)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(ours_law.log_proba(), theirs_law.log_proba(), rtol=1e-12)
