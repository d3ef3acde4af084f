"""Every way of choosing rows follows the law of drawing one after the other, wherever one takes over from another."""

import itertools
from collections import Counter

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from skactive.samplers import _selection
from skactive.samplers._law import draw_batch
from skactive.samplers._selection import draw_rows, rows_of_ranks, sample_by_blocks

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
    [
        ("noise", WITH_ZEROS),
        ("blocks", EMPTY_BLOCK),
        ("rejection, noise", ONE_HEAVY),
        ("rejection, blocks", WITH_ZEROS),
    ],
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


def test_batches_larger_than_one_round_of_draws_are_complete(monkeypatch):
    monkeypatch.setattr(_selection, "_DRAWS_AT_ONCE", 7)
    weights = np.linspace(0.1, 1, 300)
    drawn = sample_by_blocks(lambda rows: weights[rows], 300, 250, np.random.default_rng(0), NONE)
    assert len(set(drawn.tolist())) == 250


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


ANY_SCORE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-np.inf, -0.0, 0.0, 1.0, 1.0, 1.0, np.nextafter(1.0, 2), 5e-324, -5e-324, 1.7e308, -1.7e308]),
)


@given(scores=st.lists(ANY_SCORE, min_size=1, max_size=40), seed=st.integers(0, 2**32 - 1))
def test_rows_of_ranks_are_those_of_the_sorted_scores(scores, seed):
    scores, rng = np.array(scores), np.random.default_rng(seed)
    positions = rng.permutation(len(scores))[: rng.integers(1, len(scores) + 1)]
    rows = rows_of_ranks(scores, positions, rng)
    assert len(set(rows.tolist())) == len(positions)
    np.testing.assert_array_equal(scores[rows], np.sort(scores)[::-1][positions])


def test_ties_share_their_ranks_at_random():
    # The three rows of score 2 hold the ranks 1 and 3 in each of the six orders alike.
    scores, rng, n_trials = np.array([2.0, 1.0, 2.0, 5.0, 2.0, 0.0, 0.0, 1.0]), np.random.default_rng(5), 1500
    pairs = [tuple(rows_of_ranks(scores, np.array([1, 3]), rng).tolist()) for _ in range(n_trials)]
    for pair in itertools.permutations([0, 2, 4], 2):
        assert reference.tail(pairs.count(pair), n_trials, 1 / 6) > 1e-7
