"""BatchBALD: the joint information by enumeration, greedy without short cuts, and a query that keeps few draws."""

from __future__ import annotations

import math
import pickle
import warnings
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

import skactive
from skactive import BatchBALDQuery, MCDropoutClassifier, _kept_draws, sample_posterior
from skactive import batchbald as module
from skactive._outcomes import Outcomes
from skactive.batchbald import batchbald
from skactive.scores import bald

quietly = pytest.mark.filterwarnings("ignore:BatchBALD found:UserWarning")


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
    informations = [0.3099846407828503, 0.4928670579433878, 0.5991861248110935]
    np.testing.assert_allclose(batch.gains.cumsum(), informations, atol=1e-9)
    assert batch.information == pytest.approx(informations[-1], abs=1e-9)


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
        with pytest.warns(UserWarning, match="BatchBALD found 3 rows"):
            batch = choose(draws, 4, seed)
        assert batch.n_informative == 3
        assert batch.indices[3] in (0, 1)


def test_pairs_are_at_least_as_good_as_greedy_promises():
    # Greedy reaches 1 - 1/e of the best set (Nemhauser 1978); for most draws it finds it.
    best_found = 0
    for seed in range(20):
        draws = some_draws(4, 6, 2, seed)
        sets = [(i, j, l) for i in range(6) for j in range(i) for l in range(j)]
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
    orders = Counter(tuple(choose(draws, 3, seed).indices.tolist()) for seed in range(600))
    law = reference.ordered_batches([1, 1, 1], 3)
    reference.assert_counts_fit(orders, law, 600)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float16, torch.float32, torch.float16, torch.bfloat16])
def test_gains_of_low_precision_draws_are_those_of_the_same_numbers_in_float64(dtype):
    draws = some_draws(6, 30, 3)
    low = torch.from_numpy(draws).to(dtype) if isinstance(dtype, torch.dtype) else draws.astype(dtype)
    same = low.double().numpy() if isinstance(dtype, torch.dtype) else low.astype(np.float64)
    same = same / same.sum(-1, keepdims=True)
    batch = choose(low, 4)
    informations = [reference.joint_information(same, batch.indices[:b].tolist()) for b in range(1, 5)]
    np.testing.assert_allclose(batch.gains.cumsum(), informations, atol=1e-10)


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


@pytest.mark.parametrize("n_classes", [2, 10, 200])
@pytest.mark.parametrize("concentration", [0.01, 0.5, 50.0])
def test_float32_bounds_are_off_by_less_than_what_is_allowed_for(n_classes, concentration):
    draws = torch.from_numpy(some_draws(20, 200, n_classes, 0, concentration))
    outcomes = Outcomes.of_no_labels(20)
    rng = np.random.default_rng(0)
    for row in range(5):
        exact, rounded = (outcomes.gains(draws, dtype) for dtype in (torch.float64, torch.float32))
        assert float((exact - rounded).abs().max()) < module._ROUNDING_OF_BOUNDS / 2 * outcomes.weight
        outcomes = outcomes.extended(draws[:, row], 1000, rng)


# ------------------------------------------------------------------------------------------------------ sampled outcomes


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
    runs = [gains_in_order(draws, max_outcomes, np.random.default_rng(seed)) for seed in range(150)]
    gains, errors = np.array(runs).transpose(1, 0, 2)
    spread = gains.std(axis=0)
    sampled = spread > 1e-12
    assert sampled.sum() >= 2
    # The mean of 150 runs: 5 sigma. Without sampling there is rounding only.
    assert (np.abs(gains.mean(axis=0) - exact) <= 5 * spread / math.sqrt(150) + 1e-12).all()
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
    assert (batch.standard_errors >= 0).all()


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
    for seed in range(400):
        with pytest.warns(UserWarning, match=r"found 1 rows that tell 0\.6931 nats.* 4 were asked for.* other 3 ") as seen:
            batch = choose(draws, 4, seed)
        assert len(seen) == 1
        assert batch.indices[0] == 1
        assert batch.gains.tolist() == pytest.approx([math.log(2), 0, 0, 0])
        assert batch.standard_errors.tolist() == [0, 0, 0, 0]
        rest[tuple((batch.indices[1:] - (batch.indices[1:] > 1)).tolist())] += 1
    reference.assert_counts_fit(rest, law, 400)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_draws_that_agree_everywhere_give_a_uniform_batch_and_a_warning(k):
    draws = np.repeat(some_draws(1, 9, 3), 4, axis=0)
    with pytest.warns(UserWarning, match="found 0 rows"):
        batches = [choose(draws, k, seed) for seed in range(300)]
    first = Counter((int(batch.indices[0]),) for batch in batches)
    reference.assert_counts_fit(first, reference.ordered_batches([1] * 9, 1), 300)
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
    with pytest.warns(UserWarning, match="BatchBALD found"):
        batch = choose(draws, 150, max_outcomes=500)
    assert sorted(batch.indices.tolist()) == list(range(150))
    assert batch.ceiling - batch.information < 1e-4
    assert 1 <= batch.n_informative < 150


def test_one_hot_draws_are_told_apart_by_few_rows():
    # Eight draws that differ in three binary labels: three rows tell all, and every outcome leaves one draw.
    bits = np.array([[draw >> i & 1 for i in range(3)] for draw in range(8)])
    draws = np.eye(2)[np.concatenate([bits, bits, np.ones_like(bits)], axis=1)]
    with pytest.warns(UserWarning, match="found 3 rows"):
        batch = choose(draws, 4)
    assert sorted(batch.indices[:3] % 3) == [0, 1, 2]
    np.testing.assert_allclose(batch.gains[:3], math.log(2))
