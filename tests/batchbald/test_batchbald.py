"""BatchBALD: the joint information by enumeration, greedy without short cuts, and a query that keeps few draws."""

from __future__ import annotations

import itertools
import math
import pickle
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from skactive import BatchBALDQuery, MCDropoutClassifier, sample_posterior
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
    """One-hot, identical, uniform and ordinary rows, rows with zeros, and twins, side by side."""
    n_draws = draw(st.integers(2, 5))
    n_classes = draw(st.integers(2, most_classes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    points = []
    for kind in draw(st.lists(st.sampled_from(["one-hot", "same", "flat", "any", "zeros", "twin"]), min_size=1)):
        p = rng.dirichlet(np.full(n_classes, 0.7), n_draws)
        if kind == "one-hot":
            p = np.eye(n_classes)[rng.integers(n_classes, size=n_draws)]
        elif kind == "same":
            p[:] = p[0]
        elif kind == "flat":
            p[:] = 1 / n_classes
        elif kind == "zeros":
            p[:, 0] = 0
            p /= p.sum(-1, keepdims=True)
        elif kind == "twin" and points:
            p = points[-1]
        points.append(p)
    return np.stack(points[:most_points], axis=1)


# --------------------------------------------------------------------------------------------- exact, by enumeration


@quietly
@settings(max_examples=40)
@given(degenerate_draws(), st.data())
def test_gains_add_up_to_the_joint_information_and_each_is_the_largest_there_was(draws, data):
    k = data.draw(st.integers(1, min(4, draws.shape[1])))
    batch = choose(draws, k)
    assert sorted(set(batch.indices.tolist())) == sorted(batch.indices.tolist())
    assert len(batch.indices) == k
    for b in range(k):
        prefix = batch.indices[:b].tolist()
        gains = reference.next_gains(draws, prefix)
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
    totals = [0.3099846407828503, 0.4928670579433878, 0.5991861248110935]
    np.testing.assert_allclose(batch.gains.cumsum(), totals, atol=1e-9)
    assert batch.information == pytest.approx(totals[-1], abs=1e-9)


CERTAIN = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
CROSSED = [[0.95, 0.05], [0.05, 0.95], [0.95, 0.05], [0.05, 0.95]]
NOISY = [[0.7, 0.3], [0.3, 0.7]]
FAINT = [[0.4, 0.6], [0.5, 0.5]]


def test_a_twin_is_taken_only_if_a_second_label_tells_something():
    # BlackHC/batchbald_redux #16: a second certain label tells nothing, a second noisy one does.
    certain = choose(np.swapaxes([CERTAIN, CERTAIN, CROSSED], 0, 1), 2)
    assert 2 in certain.indices
    np.testing.assert_allclose(sorted(certain.gains), [1.187779117774018 - math.log(2), math.log(2)], atol=1e-9)
    noisy = choose(np.swapaxes([NOISY, NOISY, FAINT], 0, 1), 2)
    assert set(noisy.indices.tolist()) == {0, 1}
    np.testing.assert_allclose(noisy.gains, [0.08228287850505178, 0.1517105766423117 - 0.08228287850505178], atol=1e-9)


def test_a_certain_twin_is_not_taken_for_its_gain():
    draws = np.swapaxes([CERTAIN, CERTAIN, CROSSED, CROSSED], 0, 1)
    for seed in range(20):
        with pytest.warns(UserWarning, match="BatchBALD chose 3 of the 4 rows"):
            batch = choose(draws, 4, seed)
        assert batch.n_informative == 3
        assert batch.indices[3] in (0, 1)


def test_pairs_are_at_least_as_good_as_greedy_promises():
    # Greedy reaches 1 - 1/e of the best set (Nemhauser 1978); for most draws it finds it.
    best_found = 0
    for seed in range(20):
        draws = some_draws(4, 6, 2, seed)
        sets = itertools.combinations(range(6), 3)
        best = max(reference.joint_information(draws, batch) for batch in sets)
        information = choose(draws, 3).information
        assert (1 - 1 / math.e) * best <= information <= best + 1e-11
        best_found += information == pytest.approx(best, abs=1e-11)
    assert best_found >= 10


# ------------------------------------------------------------------------------------------------- ties, order, dtypes


def test_one_row_is_the_top_of_bald():
    for seed in range(30):
        draws = some_draws(7, 40, 4, seed)
        batch = choose(draws, 1, seed)
        assert batch.indices.tolist() == [int(bald(draws).argmax())]
        assert batch.gains[0] == pytest.approx(bald(draws).max(), abs=1e-12)


@quietly
def test_ties_are_broken_at_random_for_every_row():
    draws = np.repeat(np.swapaxes([NOISY], 0, 1), 3, axis=1)
    orders = Counter(tuple(choose(draws, 3, seed).indices.tolist()) for seed in range(300))
    law = reference.ordered_batches([1, 1, 1], 3)
    reference.assert_counts_fit(orders, law, 300)


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


def containers(draws):
    read_only = draws.copy()
    read_only.flags.writeable = False
    return {
        "list": draws.tolist(),
        "Fortran order": np.asfortranarray(draws),
        "classes first in memory": np.ascontiguousarray(draws.swapaxes(1, 2)).swapaxes(1, 2),
        "other byte order": draws.astype(">f8"),
        "negative strides": draws[::-1, ::-1][::-1, ::-1],
        "read-only": read_only,
        "tensor": torch.from_numpy(draws),
        "tensor, classes first in memory": torch.from_numpy(draws).transpose(1, 2).contiguous().transpose(1, 2),
    }


@pytest.mark.parametrize("container", containers(some_draws()))
def test_any_array_or_tensor_of_draws_will_do(container):
    draws = some_draws(9, 50, 3)
    expected, batch = choose(draws, 5, max_outcomes=50), choose(containers(draws)[container], 5, max_outcomes=50)
    assert batch.indices.tolist() == expected.indices.tolist()
    np.testing.assert_allclose(batch.gains, expected.gains, rtol=1e-9)
    assert batch.indices.dtype == np.int64
    assert batch.gains.dtype == batch.standard_errors.dtype == np.float64


@pytest.mark.arithmetic
@pytest.mark.parametrize("dtype", [np.float32, np.float16, torch.float32, torch.float16, torch.bfloat16])
def test_gains_of_low_precision_draws_are_those_of_the_same_numbers_in_float64(dtype):
    draws = some_draws(6, 30, 3)
    low = torch.from_numpy(draws).to(dtype) if isinstance(dtype, torch.dtype) else draws.astype(dtype)
    same = low.double().numpy() if isinstance(dtype, torch.dtype) else low.astype(np.float64)
    same = same / same.sum(-1, keepdims=True)
    batch = choose(low, 4)
    totals = [reference.joint_information(same, batch.indices[:b].tolist()) for b in range(1, 5)]
    np.testing.assert_allclose(batch.gains.cumsum(), totals, atol=1e-10)


def test_draws_and_global_state_are_left_as_they_were(global_state_untouched):
    draws = some_draws(9, 50, 3).astype(np.float32)
    before = draws.tobytes()
    choose(draws, 5, max_outcomes=50)
    assert draws.tobytes() == before


def test_the_same_generator_gives_the_same_batch():
    draws = like_dropout(200, 10, 4)
    one, other = choose(draws, 12, 5, max_outcomes=100), choose(draws, 12, 5, max_outcomes=100)
    assert one.indices.tolist() == other.indices.tolist()
    assert one.gains.tolist() == other.gains.tolist()


# ------------------------------------------------------------------------------------------ short cuts against the long


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


@pytest.mark.parametrize("max_outcomes", [40, 3000])
@pytest.mark.parametrize("concentration", [0.2, 3.0])
def test_bounds_find_the_rows_that_gains_of_all_rows_find(max_outcomes, concentration):
    draws = some_draws(8, 300, 3, 3, concentration)
    batch = choose(draws, 9, 7, max_outcomes=max_outcomes)
    rows, gains = long_way(draws, 9, 7, max_outcomes)
    assert batch.indices.tolist() == rows
    np.testing.assert_allclose(batch.gains, gains, rtol=1e-8)


def test_bounds_find_them_among_many_rows_and_classes():
    draws = like_dropout(2500, 20, 10)
    batch = choose(draws, 6, 1, max_outcomes=3000)
    rows, gains = long_way(draws, 6, 1, 3000)
    assert batch.indices.tolist() == rows
    np.testing.assert_allclose(batch.gains, gains, rtol=1e-8)


def test_most_gains_are_never_computed(monkeypatch):
    computed = Counter()
    plain = Outcomes.gains

    def gains(self, draws_KnC, dtype):
        computed["of all outcomes" if len(self) > 600 else "bounds"] += draws_KnC.shape[1]
        return plain(self, draws_KnC, dtype)

    monkeypatch.setattr(Outcomes, "gains", gains)
    choose(like_dropout(2500, 20, 10), 8, max_outcomes=3000)
    assert computed["of all outcomes"] < 0.1 * 5 * 2500  # five steps have more than 600 outcomes


def test_gains_of_twins_are_computed_once(monkeypatch):
    computed = Counter()
    plain = Outcomes.gains

    def gains(self, draws_KnC, dtype):
        computed["rows"] += draws_KnC.shape[1]
        return plain(self, draws_KnC, dtype)

    monkeypatch.setattr(Outcomes, "gains", gains)
    distinct = like_dropout(10, 8, 4)
    draws = np.repeat(distinct, 500, axis=1)
    batch = choose(draws, 6, max_outcomes=1000)
    assert computed["rows"] < 5 * 10 * 3 * math.ceil(5000 / 1024)
    np.testing.assert_allclose(batch.gains, choose(np.repeat(distinct, 6, axis=1), 6, max_outcomes=1000).gains)


def test_rows_of_equal_scores_need_not_be_twins():
    # Classes swapped: the same BALD score, but what one tells of the other's draws differs.
    p = np.array([[0.9, 0.8, 0.1], [0.2, 0.7, 0.6]])
    first = np.stack([p, 1 - p], axis=-1).transpose(1, 0, 2)
    draws = np.concatenate([np.repeat(first[:, :1], 3, axis=1), first[:, :1, ::-1], first[:, 1:]], axis=1)
    batch = choose(draws, 5)
    totals = [reference.joint_information(draws, batch.indices[:b].tolist()) for b in range(1, 6)]
    np.testing.assert_allclose(batch.gains.cumsum(), totals, atol=1e-11)


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


@pytest.mark.parametrize(("n_draws", "n_classes"), [(20, 2), (2, 10), (20, 10), (20, 200), (200, 3)])
@pytest.mark.parametrize("concentration", [0.01, 0.5, 50.0])
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


# ----------------------------------------------------------------------------------------------------- sampled outcomes


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
    ("n_draws", "n_classes", "n_rows", "concentration", "max_outcomes"),
    [(10, 3, 9, 0.5, 60), (20, 2, 13, 3.0, 200), (6, 3, 9, 0.2, 30), (20, 4, 7, 5.0, 300)],
)
def test_sampled_gains_are_unbiased_with_the_errors_they_report(
    n_draws, n_classes, n_rows, concentration, max_outcomes
):
    draws = torch.from_numpy(some_draws(n_draws, n_rows, n_classes, 1, concentration))
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
    assert (batch.standard_errors[: batch.n_informative] >= 0).all()


def test_the_error_of_a_gain_shrinks_with_what_is_left():
    batch = choose(like_dropout(300, 20, 10), 25, max_outcomes=1000)
    assert batch.n_informative == 25
    assert batch.ceiling - batch.information < 0.03
    sampled = batch.standard_errors > 0
    assert sampled.sum() == 25 - 4  # 1, 10, 100 and 1,000 outcomes are all there are
    assert (batch.standard_errors[sampled] < 0.1 * batch.gains[sampled]).all()


# ------------------------------------------------------------------------------------------------------ filling up


def test_once_all_is_known_the_rest_is_sampled_by_bald_and_said_so():
    yes, no, faint = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]], [[0.8, 0.2], [0.2, 0.8]]
    draws = np.swapaxes([faint, yes, faint, no, NOISY], 0, 1)
    law = reference.ordered_batches(reference.power_weights(np.delete(bald(draws), 1), 1), 3)
    rest = Counter()
    for seed in range(200):
        with pytest.warns(
            UserWarning, match=r"chose 1 of the 4 rows.* carry 0\.6931 of at most .* the other 3 rows"
        ) as seen:
            batch = choose(draws, 4, seed)
        assert len(seen) == 1
        assert batch.indices[0] == 1
        assert batch.gains.tolist() == pytest.approx([math.log(2), 0, 0, 0])
        assert batch.standard_errors[0] == 0
        assert np.isnan(batch.standard_errors[1:]).all()
        rest[tuple((batch.indices[1:] - (batch.indices[1:] > 1)).tolist())] += 1
    reference.assert_counts_fit(rest, law, 200)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_draws_that_agree_everywhere_give_a_uniform_batch_and_a_warning(k):
    draws = np.repeat(some_draws(1, 9, 3), 4, axis=0)
    with pytest.warns(UserWarning, match=rf"chose 0 of the {k} rows.* All draws agree on every row(?!.*more draws)"):
        batches = [choose(draws, k, seed) for seed in range(150)]
    first = Counter((int(batch.indices[0]),) for batch in batches)
    reference.assert_counts_fit(first, reference.ordered_batches([1] * 9, 1), 150)
    assert all(len(set(batch.indices.tolist())) == k for batch in batches)
    assert not any(batch.information or batch.n_informative for batch in batches)


@pytest.mark.parametrize("n_classes", [2, 17, 200])
@pytest.mark.parametrize("kind", ["one-hot", "forest", "confident"])
def test_many_rows_of_any_kind_are_distinct(kind, n_classes):
    rng = np.random.default_rng(n_classes)
    draws = some_draws(8, 150, n_classes, 1, 0.02 if kind == "confident" else 1.0)
    if kind == "one-hot":
        draws = np.eye(n_classes)[rng.integers(n_classes, size=(8, 150))]
    if kind == "forest":
        draws = np.where(draws == draws.max(-1, keepdims=True), 0.75, 0.25 / (n_classes - 1))
    with pytest.warns(UserWarning, match="BatchBALD chose"):
        batch = choose(draws, 150, max_outcomes=500)
    assert sorted(batch.indices.tolist()) == list(range(150))
    assert batch.ceiling - batch.information < 1e-4
    assert 1 <= batch.n_informative < 150


def test_one_hot_draws_are_told_apart_by_few_rows():
    # Eight draws that differ in three binary labels: three rows tell all, and every outcome leaves one draw.
    bits = np.array([[draw >> i & 1 for i in range(3)] for draw in range(8)])
    draws = np.eye(2)[np.concatenate([bits, bits, np.ones_like(bits)], axis=1)]
    with pytest.warns(UserWarning, match=r"chose 3 of the 4 rows.* the other 1 rows were drawn"):
        batch = choose(draws, 4)
    assert sorted(batch.indices[:3] % 3) == [0, 1, 2]
    np.testing.assert_allclose(batch.gains[:3], math.log(2))


@pytest.mark.parametrize(("n_draws", "remedy"), [(4, "can distinguish more rows"), (64, "No remaining row separates")])
def test_more_draws_are_asked_for_only_if_those_that_there_are_have_told_all(n_draws, remedy):
    # Two distinct rows of two labels tell no more than log 4.
    bits = np.array([[draw >> i & 1 for i in range(2)] for draw in range(n_draws)])
    with pytest.warns(UserWarning, match=f"BatchBALD chose 2 of the 5 rows.*{remedy}"):
        choose(np.eye(2)[np.tile(bits, (1, 5))], 5)


def test_gradients_of_tensors_are_left_alone():
    draws = torch.from_numpy(some_draws(6, 40, 3)).requires_grad_()
    assert choose(draws, 4).indices.tolist() == choose(draws.detach(), 4).indices.tolist()
    assert draws.grad is None


# ------------------------------------------------------------------------------------------------------------ the query


class Softmax(ClassifierMixin, BaseEstimator):
    """Its draws are softmax regressions with weights of its own, the same for every query."""

    def __init__(self, n_members=12):
        self.n_members = n_members

    def fit(self, X, y=None):
        self.classes_ = np.array(["a", "b", "c"])
        self.n_features_in_ = 4
        self.calls_ = []
        return self

    def sample_posterior(self, n_draws, rng):
        weights = np.random.default_rng(0).normal(size=(self.n_members, 4, 3))

        def predict_draws(X):
            X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)
            self.calls_.append(len(X))
            logits = np.exp((X[None, :, :, None] * weights[:, None]).sum(axis=2))
            return logits / logits.sum(axis=-1, keepdims=True)

        return predict_draws


ROWS = np.random.default_rng(1).normal(size=(400, 4))


def softmax_draws(rows=slice(None)):
    return Softmax().fit(None).sample_posterior(None, None)(ROWS[rows])


def of_the_query(seed=0):
    """The generator that a query of this random state chooses with."""
    return spawn(np.random.default_rng(seed), 2)[1]


@pytest.mark.parametrize("chunk_size", [None, 7, 400])
def test_the_query_chooses_what_the_function_chooses_from_the_draws(chunk_size):
    query = BatchBALDQuery(max_outcomes=100, chunk_size=chunk_size, random_state=0)
    indices = query.select(Softmax().fit(None), ROWS, 8)
    batch = batchbald(softmax_draws(), 8, of_the_query(), max_outcomes=100)
    assert indices.tolist() == query.indices_.tolist() == batch.indices.tolist()
    np.testing.assert_allclose(query.scores_, bald(softmax_draws()), rtol=1e-12)
    assert query.n_features_in_ == 4


def test_the_query_reports_the_gains_of_its_batch():
    query = BatchBALDQuery(max_outcomes=100, random_state=0)
    query.select(Softmax().fit(None), ROWS, 8)
    batch = batchbald(softmax_draws(), 8, of_the_query(), max_outcomes=100)
    np.testing.assert_allclose(query.gains_, batch.gains, rtol=1e-9)
    np.testing.assert_allclose(query.gain_errors_, batch.standard_errors, rtol=1e-6)
    assert query.information_ == pytest.approx(batch.information)
    assert (query.ceiling_, query.n_informative_) == (batch.ceiling, batch.n_informative)


POOLS = {
    "list": ROWS.tolist(),
    "frame": pd.DataFrame(ROWS, index=np.arange(400)[::-1], columns=list("abcd")),
    "csc": sparse.csc_matrix(ROWS),
    "float32": ROWS.astype(np.float32),
}


@pytest.mark.parametrize("container", POOLS)
def test_the_query_takes_any_pool(container, monkeypatch):
    few_draws_kept(monkeypatch, 60)
    query = BatchBALDQuery(random_state=0, max_outcomes=100)
    expected = query.select(Softmax().fit(None), ROWS, 6)
    assert clone(query).select(Softmax().fit(None), POOLS[container], 6).tolist() == expected.tolist()


def few_draws_kept(monkeypatch, n_rows):
    monkeypatch.setattr(_greedy, "_MAX_BYTES", n_rows * 12 * 3 * 8)
    monkeypatch.setattr(_greedy, "_ROWS_AT_ONCE", 16)


def test_draws_that_there_is_no_room_for_are_drawn_again(monkeypatch):
    expected = BatchBALDQuery(max_outcomes=100, random_state=0).select(Softmax().fit(None), ROWS, 10)
    few_draws_kept(monkeypatch, 40)
    estimator = Softmax().fit(None)
    query = BatchBALDQuery(max_outcomes=100, chunk_size=50, random_state=0)
    assert query.select(estimator, ROWS, 10).tolist() == expected.tolist()
    first_pass, again = estimator.calls_[:11], estimator.calls_[11:]
    assert sorted(first_pass) == [1, 1, 2, *[50] * 8]  # a row, alone and in company; another, alone
    assert len(again) > 0
    assert max(again) <= 16
    assert sum(again) < 10 * 400 / 2


def test_no_row_is_drawn_twice_where_there_is_room():
    estimator = Softmax().fit(None)
    BatchBALDQuery(max_outcomes=100, random_state=0).select(estimator, ROWS, 10)
    assert sum(estimator.calls_) == 400 + 4


@pytest.mark.parametrize("n_rows", [40, 400])
def test_only_candidates_are_scored_and_chosen(n_rows, monkeypatch):
    few_draws_kept(monkeypatch, n_rows)
    candidates = np.arange(1, 400, 2)
    query = BatchBALDQuery(max_outcomes=100, random_state=0)
    indices = query.select(Softmax().fit(None), ROWS, 8, candidates=candidates)
    batch = batchbald(softmax_draws(candidates), 8, of_the_query(), max_outcomes=100)
    assert indices.tolist() == candidates[batch.indices].tolist()
    assert np.flatnonzero(np.isfinite(query.scores_)).tolist() == candidates.tolist()


def test_the_query_warns_once_when_all_is_known_and_fills_up():
    query = BatchBALDQuery(random_state=0)
    with pytest.warns(UserWarning, match="BatchBALD chose") as seen:
        indices = query.select(Softmax(n_members=2).fit(None), ROWS, 100)
    assert len(seen) == 1
    assert str(seen[0].filename) == __file__
    assert len(set(indices.tolist())) == 100


@pytest.mark.parametrize(
    ("rows", "why"), [(slice(100, None), "More draws .*can"), ([100, 101] * 20, "No remaining row")]
)
def test_the_warning_names_what_there_is_too_little_of(rows, why):
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(12, random_state=0).fit(X[:100], y[:100])
    with pytest.warns(UserWarning, match=rf"BatchBALD chose.*\. {why}"):
        BatchBALDQuery(random_state=0).select(forest, X[rows], 30)


def test_a_learner_of_modal_gets_indices_rows_and_keyword_overrides():
    X, y = load_digits(return_X_y=True)
    query = BatchBALDQuery(random_state=0)
    forest = RandomForestClassifier(20, min_samples_leaf=5, random_state=0)
    learner = ActiveLearner(forest, query, X_training=X[:100], y_training=y[:100])
    indices, rows = learner.query(X[100:], n_instances=4, max_outcomes=200)[:2]
    np.testing.assert_array_equal(rows, X[100:][indices])
    assert query.max_outcomes == 10_000
    learner.teach(rows, y[100:][indices])


def test_a_net_is_drawn_from_and_left_as_it_was(global_state_untouched):
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    net = MCDropoutClassifier((16,), max_epochs=5, random_state=0, device="cpu").fit(X[:200], y[:200])
    before = pickle.dumps(net.net_.module_.state_dict())
    query = BatchBALDQuery(n_draws=10, random_state=0, max_outcomes=100)
    indices = query.select(net, X[200:], 6)
    assert pickle.dumps(net.net_.module_.state_dict()) == before
    rngs = spawn(np.random.default_rng(0), 2)
    draws = sample_posterior(net, 10, rngs[0])(X[200:])
    assert batchbald(draws, 6, rngs[1], max_outcomes=100).indices.tolist() == indices.tolist()


def test_a_query_goes_on_in_its_stream_and_a_clone_starts_afresh():
    forest = RandomForestClassifier(30, min_samples_leaf=5, random_state=0).fit(ROWS[:100], ROWS[:100, 0] > 0)
    query = BatchBALDQuery(n_draws=10, random_state=0)  # ten members at random
    batches = [query.select(forest, ROWS, 3).tolist() for _ in range(3)]
    assert len({tuple(batch) for batch in batches}) > 1
    assert clone(query).select(forest, ROWS, 3).tolist() == batches[0]
    assert pickle.loads(pickle.dumps(query)).select(forest, ROWS, 3).tolist() == query.select(forest, ROWS, 3).tolist()


def test_there_are_no_log_probabilities():
    query = BatchBALDQuery(random_state=0)
    query.select(Softmax().fit(None), ROWS, 3)
    assert not hasattr(query, "log_proba_")


def test_progress_is_shown_on_request(capsys):
    BatchBALDQuery(random_state=0, verbose=1).select(Softmax().fit(None), ROWS, 3)
    shown = capsys.readouterr().err
    assert "scoring" in shown
    assert "choosing" in shown
    BatchBALDQuery(random_state=0).select(Softmax().fit(None), ROWS, 3)
    assert not capsys.readouterr().err


def test_progress_ends_at_the_end_of_a_batch_that_is_filled_up(capsys):
    forest = RandomForestClassifier(4, random_state=0).fit(ROWS, np.arange(len(ROWS)) % 2)
    with pytest.warns(UserWarning, match="chose 2 of the 12 rows"):
        BatchBALDQuery(random_state=0, verbose=1).select(forest, ROWS, 12)
    assert "choosing: 100%" in capsys.readouterr().err


def test_an_unfitted_learner_gets_a_uniform_batch_and_a_warning():
    learner = ActiveLearner(RandomForestClassifier(5), BatchBALDQuery(random_state=0))
    with pytest.warns(UserWarning, match="not fitted"):
        indices = learner.query(ROWS, n_instances=7)[0]
    assert len(set(np.asarray(indices).tolist())) == 7


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_draws_on_a_device_give_the_same_batch():
    draws = like_dropout(2000)
    here, there = choose(draws, 12, max_outcomes=2000), choose(torch.from_numpy(draws).cuda(), 12, max_outcomes=2000)
    assert here.indices.tolist() == there.indices.tolist()
    np.testing.assert_allclose(here.gains, there.gains, rtol=1e-9)
