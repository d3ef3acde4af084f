"""Every way of choosing rows follows the law of drawing one after the other, wherever one takes over from another."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from skactive import samplers
from skactive.samplers import _selection
from skactive.samplers._law import draw_batch
from skactive.samplers._selection import (
    draw_ranks,
    draw_rows,
    rows_of_ranks,
    sample_by_blocks,
    sample_by_rejection,
)

WEIGHTS = {
    "four": [1, 2, 3, 4],
    "with zeros": [0, 5, 0, 1, 2, 0, 0, 2],
    "one heavy": [1, 1000, 1, 1, 1],
    "a block without mass": [0, 0, 3, 1, 0, 0],
}
NONE = np.empty(0, dtype=np.int64)


def ordered_pairs(weights):
    """Exact probabilities of the first two picks."""
    total = sum(weights)
    pairs = itertools.permutations(range(len(weights)), 2)
    return {(i, j): Fraction(weights[i], total) * Fraction(weights[j], total - weights[i]) for i, j in pairs}


def assert_pairs_follow(weights, draw, n_trials=1200):
    counts = dict.fromkeys(ordered_pairs(weights), 0)
    for _ in range(n_trials):
        counts[tuple(draw().tolist())] += 1
    for pair, p in ordered_pairs(weights).items():
        # exact binomial tails, both sides; 1e-7 a cell
        assert stats.binom.cdf(counts[pair], n_trials, float(p)) > 1e-7
        assert stats.binom.sf(counts[pair] - 1, n_trials, float(p)) > 1e-7


def only(monkeypatch, *ways):
    """Let `draw_rows` use some of its ways, however few the rows are."""
    monkeypatch.setattr(_selection, "_FEW_ROWS", 0)
    monkeypatch.setattr(_selection, "_LARGE_BATCH", 1)
    monkeypatch.setattr(_selection, "_MANY_ROWS", 0 if "blocks" in ways else 10**9)
    if "rejection" not in ways:
        monkeypatch.setattr(_selection, "sample_by_rejection", lambda *_: NONE)


WAYS = [("noise",), ("blocks",), ("rejection", "noise"), ("rejection", "blocks")]


# ------------------------------------------------------------------------------------------------ drawing under weights


@pytest.mark.parametrize("block", [1, 3, 64])
@pytest.mark.parametrize("name", WEIGHTS)
def test_ordered_pairs_follow_the_law_by_blocks(name, block, monkeypatch):
    monkeypatch.setattr(_selection, "_BLOCK", block)
    weights = np.array(WEIGHTS[name], dtype=float) / max(WEIGHTS[name])
    rng = np.random.default_rng(0)
    assert_pairs_follow(WEIGHTS[name], lambda: sample_by_blocks(lambda rows: weights[rows], len(weights), 2, rng, NONE))


@pytest.mark.parametrize("ways", WAYS, ids=" then ".join)
@pytest.mark.parametrize("name", WEIGHTS)
def test_ordered_pairs_follow_the_law_by_every_way(name, ways, monkeypatch):
    only(monkeypatch, *ways)
    weights = np.array(WEIGHTS[name], dtype=float) / max(WEIGHTS[name])
    rng = np.random.default_rng(1)

    def values():
        with np.errstate(divide="ignore"):
            return np.log(weights)

    assert_pairs_follow(WEIGHTS[name], lambda: draw_rows(len(weights), 2, rng, 1.0, values, lambda rows: weights[rows]))


@pytest.mark.parametrize("beta", [1.0, 3.0])
@pytest.mark.parametrize("name", ["power", "softmax"])
@pytest.mark.parametrize("ways", WAYS[1:], ids=" then ".join)
def test_all_ways_follow_the_same_law(ways, name, beta, monkeypatch):
    """The log-probability of batches, which knows nothing of how they are drawn, has one distribution in all ways."""
    scores = np.random.default_rng(0).gamma(1.0, 0.2, 3000)
    means = []
    for used in (("noise",), ways):
        with monkeypatch.context() as patch:
            only(patch, *used)
            rng = np.random.default_rng(1)
            means.append([draw_batch(name, scores, 20, rng, beta=beta)[1].log_proba().sum() for _ in range(120)])
    # Welch's test of equal means, and Kolmogorov-Smirnov of equal distributions
    assert stats.ttest_ind(*means, equal_var=False).pvalue > 1e-6
    assert stats.ks_2samp(*means).pvalue > 1e-6


@pytest.mark.parametrize("block", [2, 64])
def test_all_rows_with_mass_are_drawn_and_no_other(block, monkeypatch):
    monkeypatch.setattr(_selection, "_BLOCK", block)
    weights = np.array([0, 5, 0, 1, 2, 0, 0, 2.0]) / 5
    for seed in range(50):
        drawn = sample_by_blocks(lambda rows: weights[rows], 8, 8, np.random.default_rng(seed), NONE)
        assert sorted(drawn.tolist()) == [1, 3, 4, 7]


def test_blocks_go_on_from_the_rows_that_are_drawn():
    weights, drawn = np.array([0, 5, 0, 1, 2, 0, 0, 2.0]) / 5, np.array([7, 1])
    for seed in range(50):
        batch = sample_by_blocks(lambda rows: weights[rows], 8, 8, np.random.default_rng(seed), drawn)
        assert batch[:2].tolist() == [7, 1]
        assert sorted(batch[2:].tolist()) == [3, 4]


def test_batches_larger_than_one_round_of_draws_are_complete(monkeypatch):
    monkeypatch.setattr(_selection, "_DRAWS_AT_ONCE", 7)
    weights = np.linspace(0.1, 1, 300)
    drawn = sample_by_blocks(lambda rows: weights[rows], 300, 250, np.random.default_rng(0), NONE)
    assert len(set(drawn.tolist())) == 250


def test_steeply_falling_weights_are_drawn_in_order_to_the_last():
    weights = 10.0 ** -np.arange(0, 190.0, 1.0)
    drawn = sample_by_blocks(lambda rows: weights[rows], 190, 190, np.random.default_rng(0), NONE)
    assert sorted(drawn.tolist()) == list(range(190))
    # neighbours swap with probability 1/11; 5 sigma of 189 of them
    assert (np.diff(drawn) < 0).sum() < 189 / 11 + 5 * np.sqrt(189 / 11)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_ends_of_the_uniform_numbers_draw_no_row_without_weight(uniform):
    class Ends:
        def random(self, n):
            return np.full(n, uniform)

    weights = np.array([0.0] * 70 + [0.1, 0.0, 0.7, 0.1] + [0.0] * 200)
    sums = _selection._block_sums(lambda rows: weights[rows], len(weights))
    drawn = _selection._draw(lambda rows: weights[rows], sums, len(weights), NONE, 1, Ends())
    assert drawn.tolist() == [70 if uniform == 0 else 73]


class Counted:
    """Weights that remember how many rows were asked for."""

    def __init__(self, weights):
        self.weights, self.n_rows = weights, 0

    def __call__(self, rows):
        found = self.weights[rows]
        self.n_rows += len(found)
        return found


def test_rejection_reads_few_rows_of_a_large_pool():
    # A mean weight of 1/2: a batch of 100 takes 200 proposals, and there are 1,424 at once.
    weights = Counted(np.random.default_rng(0).random(100_000))
    assert len(set(sample_by_rejection(weights, 100_000, 100, np.random.default_rng(1)).tolist())) == 100
    assert weights.n_rows == 1424


@pytest.mark.parametrize("share", [0.0, 1e-4])
def test_rejection_gives_up_at_once_where_next_to_nothing_is_accepted(share):
    rng = np.random.default_rng(0)
    weights = Counted((rng.random(100_000) < share).astype(float))
    assert len(sample_by_rejection(weights, 100_000, 100, rng)) < 100
    assert weights.n_rows == 1424


def test_when_the_mass_runs_out_the_rest_is_uniform():
    scores = np.zeros(20_000)
    scores[[3, 7_000, 19_999]] = 1.0, 2.0, 1e-300
    with pytest.warns(UserWarning, match="Only 3 rows"):
        batch, law = draw_batch("power", scores, 6, np.random.default_rng(0))
    assert set(batch[:3].tolist()) == {3, 7_000, 19_999}
    np.testing.assert_allclose(np.exp(law.log_proba()[3:]), 1 / np.array([19_997, 19_996, 19_995]))


def test_scores_of_every_size_keep_their_order_among_many_rows():
    scores = np.full(20_000, 1e-300)
    scores[5] = 1e300
    scores[6] = 1e-100
    batch = samplers.power(scores, 50, np.random.default_rng(0))
    assert batch[:2].tolist() == [5, 6]


@pytest.mark.parametrize("beta", [0.5, 1, 2, 3, 4, 6, 8])
def test_powers_are_powers(beta):
    x = np.random.default_rng(0).random(100)
    np.testing.assert_allclose(_selection.raised(x, beta), x**beta, rtol=1e-14)


# ------------------------------------------------------------------------------------------------------- drawing ranks


@pytest.mark.parametrize("stretches", [1, 64])
@pytest.mark.parametrize("beta", [0.01, 0.5, 1.0, 3.0])
def test_arrivals_are_a_poisson_process(beta, stretches, monkeypatch):
    monkeypatch.setattr(_selection, "_STRETCHES", stretches)
    start, n, key = 100, 10_000, -math.log(1e5 / (np.arange(101.0, 10_001) ** -beta).sum())
    positions, keys = _selection._arrivals(start, n, key, np.random.default_rng(2), beta)
    edges = np.geomspace(start, n, 40).astype(int)
    for begin, end in itertools.pairwise(edges):
        expected = math.exp(-key) * (np.arange(begin + 1.0, end + 1) ** -beta).sum()
        count = ((positions >= begin) & (positions < end)).sum()
        assert stats.poisson.cdf(count, expected) > 1e-7
        assert stats.poisson.sf(count - 1, expected) > 1e-7
    # Uniform times up to exp(-key), and no position outside.
    assert stats.kstest(np.exp(key - keys), "uniform").pvalue > 1e-6
    assert positions.min() >= start
    assert positions.max() < n


@pytest.mark.parametrize("beta", [0.3, 1.0, 2.0])
def test_pairs_of_ranks_follow_the_law(beta, monkeypatch):
    # Of two draws 16 ranks are timed one by one.
    monkeypatch.setattr(_selection, "_TIMED", 1)
    n, rng, n_trials = 40, np.random.default_rng(3), 2000
    weights = np.arange(1.0, n + 1) ** -beta
    weights /= weights.sum()
    law = np.outer(weights, weights) / (1 - weights)[:, None]
    np.fill_diagonal(law, 0.0)
    pairs = np.array([draw_ranks(n, n, 2, rng, beta) for _ in range(n_trials)])
    assert (pairs[:, 0] != pairs[:, 1]).all()
    for first, second in itertools.product([slice(0, 4), slice(4, 16), slice(16, 25), slice(25, n)], repeat=2):
        inside = [(pairs[:, i] >= part.start) & (pairs[:, i] < part.stop) for i, part in enumerate((first, second))]
        assert reference.tail((inside[0] & inside[1]).sum(), n_trials, law[first, second].sum()) > 1e-7


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_batches_of_ranks_have_the_same_law_however_many_are_timed(beta, monkeypatch):
    means = []
    for timed in (1, 10**9):
        monkeypatch.setattr(_selection, "_TIMED", timed)
        rng = np.random.default_rng(4)
        batches = [draw_ranks(3000, 3000, 20, rng, beta) for _ in range(250)]
        means.append([np.log1p(batch).sum() for batch in batches])
        assert all(len(set(batch.tolist())) == 20 for batch in batches)
    assert stats.ttest_ind(*means, equal_var=False).pvalue > 1e-6
    assert stats.ks_2samp(*means).pvalue > 1e-6


@pytest.mark.parametrize("beta", [900.0, 1000.0, 1001.0, 1e300])
def test_steep_weights_give_the_first_ranks_in_order(beta):
    # Ranks 5 and 6 still differ by a factor (6/5)^900.
    assert draw_ranks(100_000, 100_000, 5, np.random.default_rng(0), beta).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("n_ranked", "k"), [(0, 3), (2, 3), (5, 5), (9_990, 100)])
def test_what_has_no_rank_is_drawn_last(n_ranked, k):
    positions = draw_ranks(10_000, n_ranked, k, np.random.default_rng(0), 1.0)
    assert len(set(positions.tolist())) == k
    assert (np.sort(positions[:n_ranked]) < n_ranked).all()
    assert ((positions[n_ranked:] >= n_ranked) & (positions[n_ranked:] < 10_000)).all()


# -------------------------------------------------------------------------------------------------------- rows of ranks

ANY_SCORE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-np.inf, -0.0, 0.0, 1.0, 1.0, 1.0, np.nextafter(1.0, 2), 5e-324, -5e-324, 1.7e308, -1.7e308]),
)


@pytest.mark.parametrize("large", [1, 3, 10**9], ids=["none large", "some large", "all large"])
@given(scores=st.lists(ANY_SCORE, min_size=1, max_size=40), seed=st.integers(0, 2**32 - 1))
def test_rows_of_ranks_are_those_of_the_sorted_scores(large, scores, seed):
    scores, rng = np.array(scores), np.random.default_rng(seed)
    positions = rng.permutation(len(scores))[: rng.integers(1, len(scores) + 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_selection, "_FEW_ROWS", 1)
        patch.setattr(_selection, "_LARGE_BUCKET", large)
        rows = rows_of_ranks(scores, positions, rng)
    assert len(set(rows.tolist())) == len(positions)
    np.testing.assert_array_equal(scores[rows], np.sort(scores)[::-1][positions])


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: rng.gamma(1.0, 0.2, 50_000),
        lambda rng: rng.gamma(1.0, 0.2, 50_000) * (rng.random(50_000) < 0.1),
        lambda rng: rng.normal(size=50_000).round(2),
        lambda rng: 1e9 + rng.normal(size=50_000) * (rng.random(50_000) < 0.9),
        lambda rng: np.r_[1e300, -1e300, -np.inf, 1 + 1e-12 * rng.normal(size=49_997)],
        lambda rng: 10.0 ** rng.uniform(-300, 300, 50_000),
        lambda rng: np.full(50_000, 3.0),
    ],
    ids=["smooth", "mostly zero", "signs and ties", "far from zero", "outliers", "all sizes", "equal"],
)
def test_rows_of_ranks_of_many_rows(make, rng):
    scores = make(rng)
    for positions in (np.arange(10), rng.permutation(50_000)[:500], rng.permutation(50_000)):
        rows = rows_of_ranks(scores, positions, rng)
        assert len(np.unique(rows)) == len(positions)
        np.testing.assert_array_equal(scores[rows], np.sort(scores)[::-1][positions])


@pytest.mark.parametrize("large", [2, 10**9], ids=["sorted", "by themselves"])
def test_ties_share_their_ranks_at_random(large, monkeypatch):
    # The three rows of score 2 hold the ranks 1 and 3 in each of the six orders alike.
    monkeypatch.setattr(_selection, "_FEW_ROWS", 1)
    monkeypatch.setattr(_selection, "_LARGE_BUCKET", large)
    scores, rng, n_trials = np.array([2.0, 1.0, 2.0, 5.0, 2.0, 0.0, 0.0, 1.0]), np.random.default_rng(5), 1500
    pairs = [tuple(rows_of_ranks(scores, np.array([1, 3]), rng).tolist()) for _ in range(n_trials)]
    for pair in itertools.permutations([0, 2, 4], 2):
        assert reference.tail(pairs.count(pair), n_trials, 1 / 6) > 1e-7
