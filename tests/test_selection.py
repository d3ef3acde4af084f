"""Sampling by blocks follows the law of drawing one row after the other, however the blocks fall."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from skactive import _selection, samplers
from skactive._selection import sample_by_blocks

WEIGHTS = {
    "four": [1, 2, 3, 4],
    "with zeros": [0, 5, 0, 1, 2, 0, 0, 2],
    "one heavy": [1, 1000, 1, 1, 1],
    "a block without mass": [0, 0, 3, 1, 0, 0],
}


def ordered_pairs(weights):
    """Exact probabilities of the first two picks."""
    total = sum(weights)
    pairs = itertools.permutations(range(len(weights)), 2)
    return {(i, j): Fraction(weights[i], total) * Fraction(weights[j], total - weights[i]) for i, j in pairs}


@pytest.mark.parametrize("block", [1, 2, 3, 4096])
@pytest.mark.parametrize("name", WEIGHTS)
def test_ordered_pairs_follow_the_law(name, block, monkeypatch):
    monkeypatch.setattr(_selection, "_BLOCK", block)
    weights = np.array(WEIGHTS[name], dtype=float) / max(WEIGHTS[name])
    rng, n_trials = np.random.default_rng(0), 4000
    counts = dict.fromkeys(ordered_pairs(WEIGHTS[name]), 0)
    for _ in range(n_trials):
        counts[tuple(sample_by_blocks(lambda rows: weights[rows], len(weights), 2, rng).tolist())] += 1
    for pair, p in ordered_pairs(WEIGHTS[name]).items():
        # exact binomial tails, both sides; 1e-7 a cell
        assert stats.binom.cdf(counts[pair], n_trials, float(p)) > 1e-7
        assert stats.binom.sf(counts[pair] - 1, n_trials, float(p)) > 1e-7


@pytest.mark.parametrize("block", [2, 4096])
def test_all_rows_with_mass_are_drawn_and_no_other(block, monkeypatch):
    monkeypatch.setattr(_selection, "_BLOCK", block)
    weights = np.array([0, 5, 0, 1, 2, 0, 0, 2.0]) / 5
    for seed in range(50):
        drawn = sample_by_blocks(lambda rows: weights[rows], 8, 8, np.random.default_rng(seed))
        assert sorted(drawn.tolist()) == [1, 3, 4, 7]


def test_steeply_falling_weights_are_drawn_in_order_to_the_last():
    weights = 10.0 ** -np.arange(0, 190.0, 1.0)
    drawn = sample_by_blocks(lambda rows: weights[rows], 190, 190, np.random.default_rng(0))
    assert sorted(drawn.tolist()) == list(range(190))
    # neighbours swap with probability 1/11; 5 sigma of 189 of them
    assert (np.diff(drawn) < 0).sum() < 189 / 11 + 5 * np.sqrt(189 / 11)


@pytest.mark.parametrize("sampler", ["power", "softmax", "softrank"])
@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_many_rows_and_few_follow_the_same_law(sampler, beta, monkeypatch):
    """The log-probability of batches, which knows nothing of how they are drawn, has one distribution both ways."""
    scores = np.random.default_rng(0).gamma(1.0, 0.2, 3000)
    draw = samplers.SAMPLERS[sampler].draw
    means = []
    for many in (1, 10**9):
        monkeypatch.setattr(_selection, "_MANY_ROWS", many)
        rng = np.random.default_rng(1)
        means.append([draw(scores, 20, rng, beta=beta).log_proba().sum() for _ in range(300)])
    # Welch's test of equal means, and Kolmogorov-Smirnov of equal distributions
    assert stats.ttest_ind(*means, equal_var=False).pvalue > 1e-6
    assert stats.ks_2samp(*means).pvalue > 1e-6


def test_when_the_mass_runs_out_the_rest_is_uniform():
    scores = np.zeros(20_000)
    scores[[3, 7_000, 19_999]] = 1.0, 2.0, 1e-300
    with pytest.warns(UserWarning, match="Only 3 rows"):
        batch = samplers.power.draw(scores, 6, np.random.default_rng(0))
    assert set(batch.indices[:3].tolist()) == {3, 7_000, 19_999}
    np.testing.assert_allclose(np.exp(batch.log_proba()[3:]), 1 / np.array([19_997, 19_996, 19_995]))


def test_scores_of_every_size_keep_their_order_among_many_rows():
    scores = np.full(20_000, 1e-300)
    scores[5] = 1e300
    scores[6] = 1e-100
    batch = samplers.power(scores, 50, np.random.default_rng(0))
    assert batch[:2].tolist() == [5, 6]
