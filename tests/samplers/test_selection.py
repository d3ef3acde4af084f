"""Every way of choosing rows follows the law of drawing one after the other, wherever one takes over from another."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from skactive.samplers import _selection
from skactive.samplers._law import draw_batch
from skactive.samplers._selection import draw_ranks, draw_rows, rows_of_ranks, sample_by_blocks

WITH_ZEROS, ONE_HEAVY, EMPTY_BLOCK = [0, 5, 0, 1, 2, 0, 0, 2], [1, 1000, 1, 1, 1], [0, 0, 3, 1, 0, 0]
NONE = np.empty(0, dtype=np.int64)


def weights_of(numbers):
    """Weights relative to the largest, as a function of rows."""
    relative = np.array(numbers, dtype=float) / max(numbers)
    return lambda rows: relative[rows]


def assert_pairs_follow(numbers, draw):
    counts = Counter(tuple(draw().tolist()) for _ in range(1200))
    reference.assert_batches_fit(counts, reference.ordered_batches(numbers, 2))


def only(monkeypatch, ways):
    """Let `draw_rows` use some of its ways, however few the rows are."""
    monkeypatch.setattr(_selection, "_FEW_ROWS", 0)
    monkeypatch.setattr(_selection, "_LARGE_BATCH", 1)
    monkeypatch.setattr(_selection, "_MANY_ROWS", 0 if "blocks" in ways else 10**9)
    if "rejection" not in ways:
        monkeypatch.setattr(_selection, "sample_by_rejection", lambda *_: NONE)


@pytest.mark.parametrize(("numbers", "block"), [(WITH_ZEROS, 1), (EMPTY_BLOCK, 2), (WITH_ZEROS, 3), (ONE_HEAVY, 64)])
def test_ordered_pairs_follow_the_law_by_blocks(numbers, block, monkeypatch):
    monkeypatch.setattr(_selection, "_BLOCK", block)
    rng = np.random.default_rng(0)
    assert_pairs_follow(numbers, lambda: sample_by_blocks(weights_of(numbers), len(numbers), 2, rng, NONE))


@pytest.mark.parametrize(
    ("ways", "numbers"),
    [("blocks", WITH_ZEROS), ("rejection, noise", ONE_HEAVY), ("rejection, blocks", WITH_ZEROS)],
)
def test_ordered_pairs_follow_the_law_by_every_way(ways, numbers, monkeypatch):
    only(monkeypatch, ways)
    rng, weights, n = np.random.default_rng(1), weights_of(numbers), len(numbers)

    def values():
        with np.errstate(divide="ignore"):
            return np.log(weights(slice(None)))

    assert_pairs_follow(numbers, lambda: draw_rows(n, 2, rng, 1.0, values, weights))


@pytest.mark.parametrize("block", [2, 64])
def test_blocks_draw_all_rows_with_mass_and_no_other_and_go_on_from_those_that_are_drawn(block, monkeypatch):
    monkeypatch.setattr(_selection, "_BLOCK", block)
    for seed, drawn in itertools.product(range(50), [[], [7, 1]]):
        rng = np.random.default_rng(seed)
        batch = sample_by_blocks(weights_of(WITH_ZEROS), 8, 8, rng, np.array(drawn, dtype=np.int64)).tolist()
        assert batch[: len(drawn)] == drawn
        assert sorted(batch) == [1, 3, 4, 7]


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_ends_of_the_uniform_numbers_draw_no_row_without_weight(uniform):
    class Ends:
        def random(self, n):
            return np.full(n, uniform)

    weights = np.array([0.0] * 70 + [0.1, 0.0, 0.7, 0.1] + [0.0] * 200)
    sums = _selection._block_sums(lambda rows: weights[rows], len(weights))
    drawn = _selection._draw(lambda rows: weights[rows], sums, len(weights), NONE, 1, Ends())
    assert drawn.tolist() == [70 if uniform == 0 else 73]


def test_when_the_mass_runs_out_the_rest_is_uniform():
    scores = np.zeros(20_000)
    scores[[3, 7_000, 19_999]] = 1.0, 2.0, 1e-300
    with pytest.warns(UserWarning, match="Only 3 rows"):
        batch, law = draw_batch("power", scores, 6, np.random.default_rng(0))
    assert set(batch[:3].tolist()) == {3, 7_000, 19_999}
    np.testing.assert_allclose(np.exp(law.log_proba()[3:]), 1 / np.array([19_997, 19_996, 19_995]))


def test_powers_are_powers():
    x = np.random.default_rng(0).random(100)
    for beta in (0.5, 1, 2, 3, 4, 6, 8):
        np.testing.assert_allclose(_selection.raised(x, beta), x**beta, rtol=1e-14, err_msg=str(beta))


@pytest.mark.parametrize(("beta", "stretches"), [(0.01, 64), (1.0, 64), (3.0, 1)])
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


@pytest.mark.parametrize("beta", [0.3, 2.0])
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


def test_steep_weights_give_the_first_ranks_in_order():
    # Ranks 5 and 6 still differ by a factor (6/5)^900.
    for beta in (900.0, 1000.0, 1001.0, 1e300):
        assert draw_ranks(100_000, 100_000, 5, np.random.default_rng(0), beta).tolist() == [0, 1, 2, 3, 4]


def test_what_has_no_rank_is_drawn_last():
    for n_ranked, k in [(0, 3), (2, 3), (5, 5), (9_990, 100)]:
        positions = draw_ranks(10_000, n_ranked, k, np.random.default_rng(0), 1.0)
        assert len(set(positions.tolist())) == k
        assert (np.sort(positions[:n_ranked]) < n_ranked).all()
        assert ((positions[n_ranked:] >= n_ranked) & (positions[n_ranked:] < 10_000)).all()


ANY_SCORE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-np.inf, -0.0, 0.0, 1.0, 1.0, 1.0, np.nextafter(1.0, 2), 5e-324, -5e-324, 1.7e308, -1.7e308]),
)


@given(
    large=st.sampled_from([1, 3, 10**9]),
    scores=st.lists(ANY_SCORE, min_size=1, max_size=40),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_of_ranks_are_those_of_the_sorted_scores(large, scores, seed):
    scores, rng = np.array(scores), np.random.default_rng(seed)
    positions = rng.permutation(len(scores))[: rng.integers(1, len(scores) + 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_selection, "_FEW_ROWS", 1)
        patch.setattr(_selection, "_LARGE_BUCKET", large)
        patch.setattr(_selection, "_AT_ONCE", 7)
        rows = rows_of_ranks(scores, positions, rng)
    assert len(set(rows.tolist())) == len(positions)
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
