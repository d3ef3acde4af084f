"""BatchBALD: the joint information by enumeration, greedy without short cuts, and a query that keeps few draws."""

import math
from collections import Counter

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin

from skactive import BatchBALDQuery
from skactive._utils.randomness import spawn
from skactive.batchbald import _greedy, batchbald
from skactive.batchbald._outcomes import Outcomes
from skactive.scores import bald

quietly = pytest.mark.filterwarnings("ignore:BatchBALD chose:UserWarning")


def some_draws(n_draws=5, n_points=6, n_classes=3, seed=0, concentration=0.5):
    return reference.random_draws(
        np.random.default_rng(seed), n_draws, n_points, n_classes, concentration=concentration
    )


def like_dropout(n_points, n_draws=20, n_classes=10, seed=0):
    """float32 draws of a net: logits of a point, and noise a draw."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((n_draws, n_points, n_classes)) + 2 * rng.standard_normal((n_points, n_classes))
    p = np.exp(logits)
    return (p / p.sum(-1, keepdims=True)).astype(np.float32)


def choose(draws, k, seed=0, **params):
    return batchbald(draws, k, np.random.default_rng(seed), **params)


@st.composite
def degenerate_draws(draw, most_points=6, most_classes=3):
    """One-hot, uniform and ordinary members in any place: rows that agree, rows with zeros, and twins."""
    n_draws, n_classes = draw(st.integers(2, 5)), draw(st.integers(2, most_classes))
    n_points = draw(st.integers(1, most_points))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    some = rng.dirichlet(np.full(n_classes, 0.7), 4)
    members = np.concatenate([np.eye(n_classes), np.full((1, n_classes), 1 / n_classes), some])
    choice = rng.integers(len(members), size=(n_draws, n_points))
    choice[:, draw(st.integers(0, n_points - 1))] = choice[0, 0]  # all draws agree
    choice[:, draw(st.integers(0, n_points - 1))] = choice[:, -1]  # a twin
    return members[choice]


def totals(draws, batch):
    """The information in each prefix of a batch, by enumeration."""
    return [reference.joint_information(draws, batch.indices[:b].tolist()) for b in range(1, len(batch.indices) + 1)]


@quietly
@settings(max_examples=25)
@given(degenerate_draws(), st.data())
def test_gains_add_up_to_the_joint_information_and_each_is_the_largest_there_was(draws, data):
    k = data.draw(st.integers(1, min(4, draws.shape[1])))
    batch = choose(draws, k)
    assert len(set(batch.indices.tolist())) == k
    for b in range(k):
        gains = reference.next_gains(draws, batch.indices[:b].tolist())
        assert gains[batch.indices[b]] == pytest.approx(batch.gains[b], abs=1e-11)
        if b < batch.n_informative:
            assert batch.gains[b] == pytest.approx(max(gain for gain in gains if gain is not None), abs=1e-11)
    assert batch.information == pytest.approx(reference.joint_information(draws, batch.indices.tolist()), abs=1e-11)
    assert not batch.standard_errors[: batch.n_informative].any()


# baal-org/baal #52, #54: rows were permuted instead of outcomes listed. Probabilities [point][draw][class].
FOUR_POINTS = [
    [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]],
    [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]],
    [[0.1, 0.9], [0.3, 0.7], [0.95, 0.05]],
    [[0.55, 0.45], [0.5, 0.5], [0.45, 0.55]],
]


def test_four_points_worked_out_by_hand():
    batch = choose(np.swapaxes(FOUR_POINTS, 0, 1), 3)
    assert batch.indices.tolist() == [2, 0, 1]
    by_hand = [0.3099846407828503, 0.4928670579433878, 0.5991861248110935]
    np.testing.assert_allclose(batch.gains.cumsum(), by_hand, atol=1e-9)


NOISY = [[0.7, 0.3], [0.3, 0.7]]


def test_rows_of_equal_scores_need_not_be_twins():
    # Classes swapped: the same BALD score, but what one tells of the other's draws differs.
    p = np.array([[0.9, 0.8, 0.1], [0.2, 0.7, 0.6]])
    first = np.stack([p, 1 - p], axis=-1).transpose(1, 0, 2)
    draws = np.concatenate([np.repeat(first[:, :1], 3, axis=1), first[:, :1, ::-1], first[:, 1:]], axis=1)
    batch = choose(draws, 5)
    np.testing.assert_allclose(batch.gains.cumsum(), totals(draws, batch), atol=1e-11)


@quietly
def test_ties_are_broken_at_random_for_every_row():
    draws = np.repeat(np.swapaxes([NOISY], 0, 1), 3, axis=1)
    orders = Counter(tuple(choose(draws, 3, seed).indices.tolist()) for seed in range(120))
    reference.assert_counts_fit(orders, reference.ordered_batches([1, 1, 1], 3), 120)


@pytest.mark.arithmetic
@pytest.mark.parametrize("max_outcomes", [64, 10_000])
def test_other_orders_of_rows_draws_and_classes_change_nothing(max_outcomes):
    draws = some_draws(12, 60, 3, concentration=2.0)
    rng = np.random.default_rng(1)
    rows = rng.permutation(60)
    plain = choose(draws, 6, max_outcomes=max_outcomes)
    shuffled = choose(draws[:, rows], 6, max_outcomes=max_outcomes)
    assert rows[shuffled.indices].tolist() == plain.indices.tolist()
    np.testing.assert_allclose(shuffled.gains, plain.gains, rtol=1e-9)
    if max_outcomes == 10_000:  # a sample depends on the order of labels
        turned = choose(draws[rng.permutation(12)][..., rng.permutation(3)], 6)
        assert turned.indices.tolist() == plain.indices.tolist()
        np.testing.assert_allclose(turned.gains, plain.gains, rtol=1e-9)


@pytest.mark.arithmetic
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gains_of_low_precision_draws_are_those_of_the_same_numbers_in_float64(dtype):
    low = torch.from_numpy(some_draws(6, 30, 3)).to(dtype)
    same = low.double().numpy()
    batch = choose(low, 4)
    np.testing.assert_allclose(batch.gains.cumsum(), totals(same / same.sum(-1, keepdims=True), batch), atol=1e-10)


def long_way(draws, k, seed, max_outcomes):
    """Greedy that computes the gain of every row at every step."""
    rng = np.random.default_rng(seed)
    draws = torch.from_numpy(draws)
    outcomes, batch, gains = Outcomes.of_no_labels(len(draws)), [], []
    while len(batch) < k:
        of_rows = outcomes.gains(draws, torch.float64).numpy()
        of_rows[batch] = -1
        row = int(rng.choice(np.flatnonzero(of_rows == of_rows.max())))
        batch.append(row)
        gains.append(of_rows[row])
        outcomes = outcomes.extended(draws[:, row], max_outcomes, rng)
    return batch, gains


@pytest.mark.parametrize(
    ("draws", "k", "max_outcomes"),
    [
        (some_draws(8, 300, 3, 3, 0.2), 9, 40),
        (some_draws(8, 300, 3, 3, 3.0), 9, 3000),
        (like_dropout(1500, 20, 10), 5, 3000),
    ],
    ids=["few outcomes", "many outcomes", "many rows and classes"],
)
def test_bounds_find_the_rows_that_gains_of_all_rows_find(draws, k, max_outcomes):
    batch = choose(draws, k, 7, max_outcomes=max_outcomes)
    rows, gains = long_way(draws, k, 7, max_outcomes)
    assert batch.indices.tolist() == rows
    np.testing.assert_allclose(batch.gains, gains, rtol=1e-8)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from([0.1, 1.0, 10.0]))
def test_merged_outcomes_bound_gains_from_above(seed, concentration):
    rng = np.random.default_rng(seed)
    draws = torch.from_numpy(some_draws(6, 12, 3, seed, concentration))
    outcomes = Outcomes.of_no_labels(6)
    for row in range(4):
        outcomes = outcomes.extended(draws[:, row], 60, rng)
    merged = outcomes.merged(8)
    assert len(merged) <= 8
    assert merged.weight == pytest.approx(outcomes.weight, rel=1e-12)
    torch.testing.assert_close(merged.weights @ merged.posteriors, outcomes.weights @ outcomes.posteriors)
    gains, bounds = outcomes.gains(draws, torch.float64), merged.gains(draws, torch.float64)
    assert (bounds >= gains - 1e-12).all()
    assert (bounds <= merged.left + 1e-12).all()


@pytest.mark.parametrize(("n_draws", "n_classes", "concentration"), [(2, 10, 0.5), (20, 200, 0.01), (200, 3, 50.0)])
def test_float32_bounds_are_off_by_less_than_what_is_allowed_for(n_draws, n_classes, concentration):
    draws = torch.from_numpy(some_draws(n_draws, 40, n_classes, 0, concentration))
    outcomes = Outcomes.of_no_labels(n_draws)
    rng = np.random.default_rng(0)
    allowed = _greedy._rounding_of_bounds(draws.shape)
    for row in range(5):
        if not len(outcomes):
            break
        exact, rounded = (outcomes.gains(draws, dtype) for dtype in (torch.float64, torch.float32))
        # A tenth of what is allowed for, which is the worst that rounding can do; it is a few eps on every machine.
        assert float((exact - rounded).abs().max()) < allowed / 10 * outcomes.weight
        outcomes = outcomes.extended(draws[:, row], 1000, rng)


def gains_in_order(draws, max_outcomes, rng):
    """Gains and standard errors of the rows in the order they stand in."""
    outcomes, gains, errors = Outcomes.of_no_labels(len(draws)), [], []
    for row in range(draws.shape[1]):
        errors.append(outcomes.standard_error(draws[:, row]))
        longer = outcomes.extended(draws[:, row], max_outcomes, rng)
        gains.append(outcomes.left - longer.left)
        outcomes = longer
    return gains, errors


@pytest.mark.parametrize(
    ("draws", "max_outcomes"), [(some_draws(10, 9, 3, 1, 0.5), 60), (some_draws(20, 7, 4, 1, 5.0), 300)]
)
def test_sampled_gains_are_unbiased_with_the_errors_they_report(draws, max_outcomes):
    draws = torch.from_numpy(draws)
    exact, no_errors = gains_in_order(draws, 10**7, np.random.default_rng(0))
    assert not any(no_errors)
    runs = [gains_in_order(draws, max_outcomes, np.random.default_rng(seed)) for seed in range(100)]
    gains, errors = np.array(runs).transpose(1, 0, 2)
    spread = gains.std(axis=0)
    sampled = spread > 1e-12
    assert sampled.sum() >= 2
    # The mean of 100 runs: 5 sigma. Without sampling there is rounding only.
    assert (np.abs(gains.mean(axis=0) - exact) <= 5 * spread / math.sqrt(100) + 1e-12).all()
    # Errors take outcomes for independent; a stratified sample has smaller ones, and one of samples somewhat larger.
    assert (spread[sampled] <= 2 * errors.mean(axis=0)[sampled]).all()
    assert math.sqrt((errors**2).mean()) <= 15 * math.sqrt((spread**2).mean())


@settings(max_examples=25)
@given(degenerate_draws(most_points=12, most_classes=4), st.integers(0, 100))
@quietly
def test_information_never_exceeds_the_logarithm_of_the_number_of_draws(draws, seed):
    # A packaged program reports 7.26 nats from 20 draws, which can tell 3.0.
    k = draws.shape[1]
    batch = choose(draws, k, seed, max_outcomes=draws.shape[2])
    assert sorted(batch.indices.tolist()) == list(range(k))
    assert 0 <= batch.information <= batch.ceiling == pytest.approx(math.log(len(draws)))
    assert batch.information == pytest.approx(batch.gains.sum(), abs=1e-12)
    assert (batch.gains >= 0).all()


def test_once_all_is_known_the_rest_is_sampled_by_bald_and_said_so():
    yes, no, faint = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]], [[0.8, 0.2], [0.2, 0.8]]
    draws = np.swapaxes([faint, yes, faint, no, NOISY], 0, 1)
    law = reference.ordered_batches(reference.power_weights(np.delete(bald(draws), 1), 1), 3)
    rest = Counter()
    for seed in range(200):
        with pytest.warns(UserWarning, match="chose 1 of the 4 rows.* the other 3 rows"):
            batch = choose(draws, 4, seed)
        assert batch.indices[0] == 1
        assert batch.gains.tolist() == pytest.approx([math.log(2), 0, 0, 0])
        assert np.isnan(batch.standard_errors).tolist() == [False, True, True, True]
        rest[tuple((batch.indices[1:] - (batch.indices[1:] > 1)).tolist())] += 1
    reference.assert_counts_fit(rest, law, 200)


def test_draws_that_agree_everywhere_give_a_uniform_batch_and_a_warning():
    draws = np.repeat(some_draws(1, 9, 3), 4, axis=0)
    with pytest.warns(UserWarning, match="chose 0 of the 4 rows.* All draws agree on every row"):
        batches = [choose(draws, 4, seed) for seed in range(150)]
    first = Counter((int(batch.indices[0]),) for batch in batches)
    reference.assert_counts_fit(first, reference.ordered_batches([1] * 9, 1), 150)
    assert not any(batch.information or batch.n_informative for batch in batches)


class Softmax(ClassifierMixin, BaseEstimator):
    """Its draws are softmax regressions with weights of its own, the same for every query."""

    def fit(self, X, y=None):
        self.classes_ = np.array(["a", "b", "c"])
        self.n_features_in_ = 4
        self.calls_ = []
        return self

    def sample_posterior(self, n_draws, rng):
        weights = np.random.default_rng(0).normal(size=(12, 4, 3))

        def predict_draws(X):
            self.calls_.append(len(X))
            logits = np.exp((X[None, :, :, None] * weights[:, None]).sum(axis=2))
            return logits / logits.sum(axis=-1, keepdims=True)

        return predict_draws


ROWS = np.random.default_rng(1).normal(size=(400, 4))


def batch_of(rows, k):
    """What the function chooses from the draws of these rows, with the generator of a query of random state 0."""
    draws = Softmax().fit(None).sample_posterior(None, None)(rows)
    return batchbald(draws, k, spawn(np.random.default_rng(0), 2)[1], max_outcomes=100), draws


def test_the_query_chooses_what_the_function_chooses_from_the_draws_and_reports_its_gains():
    estimator = Softmax().fit(None)
    query = BatchBALDQuery(max_outcomes=100, random_state=0)
    indices = query.select(estimator, ROWS, 8)
    batch, draws = batch_of(ROWS, 8)
    assert indices.tolist() == query.indices_.tolist() == batch.indices.tolist()
    np.testing.assert_allclose(query.scores_, bald(draws), rtol=1e-12)
    np.testing.assert_allclose(query.gains_, batch.gains, rtol=1e-9)
    np.testing.assert_allclose(query.gain_errors_, batch.standard_errors, rtol=1e-6)
    assert query.information_ == pytest.approx(batch.information)
    assert (query.ceiling_, query.n_informative_) == (batch.ceiling, batch.n_informative)
    assert sum(estimator.calls_) == 400 + 4  # where there is room, no row is drawn twice


def test_draws_that_there_is_no_room_for_are_drawn_again(monkeypatch):
    monkeypatch.setattr(_greedy, "_MAX_BYTES", 40 * 12 * 3 * 8)
    monkeypatch.setattr(_greedy, "_ROWS_AT_ONCE", 16)
    estimator = Softmax().fit(None)
    query = BatchBALDQuery(max_outcomes=100, chunk_size=50, random_state=0)
    assert query.select(estimator, ROWS, 10).tolist() == batch_of(ROWS, 10)[0].indices.tolist()
    first_pass, again = estimator.calls_[:11], estimator.calls_[11:]
    assert sorted(first_pass) == [1, 1, 2, *[50] * 8]  # a row, alone and in company; another, alone
    assert len(again) > 0
    assert max(again) <= 16
    assert sum(again) < 10 * 400 / 2
    candidates = np.arange(1, 400, 2)
    indices = query.set_params(random_state=0).select(estimator, ROWS, 8, candidates=candidates)
    assert indices.tolist() == candidates[batch_of(ROWS[candidates], 8)[0].indices].tolist()
    assert np.flatnonzero(np.isfinite(query.scores_)).tolist() == candidates.tolist()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_draws_on_a_device_give_the_same_batch():
    draws = like_dropout(2000)
    here, there = choose(draws, 12, max_outcomes=2000), choose(torch.from_numpy(draws).cuda(), 12, max_outcomes=2000)
    assert here.indices.tolist() == there.indices.tolist()
    np.testing.assert_allclose(here.gains, there.gains, rtol=1e-9)


def test_draws_that_are_no_probabilities_of_classes_are_refused():
    draws = some_draws(6, 9, 3)
    with pytest.raises(ValueError, match="`n_draws` must be 2 or more for BatchBALD"):
        choose(draws[:1], 2)
    for shape in [(6, 9), (2, 6, 9, 3), (0, 9, 3), (6, 9, 0)]:
        with pytest.raises(ValueError, match="`draws` must"):
            choose(np.ones(shape), 2)
    draws[4, 7, 1] = math.nan
    for held in (draws, torch.from_numpy(draws)):
        with pytest.raises(ValueError, match="in draw 4 of point 7"):
            choose(held, 2)


def test_outcomes_must_hold_those_of_one_label_which_is_enough():
    with pytest.raises(ValueError, match=r"`max_outcomes` must be .*n_classes=3 or more"):
        choose(some_draws(6, 9, 3), 2, max_outcomes=2)
    assert len(set(choose(some_draws(6, 9, 3), 9, max_outcomes=3).indices.tolist())) == 9
