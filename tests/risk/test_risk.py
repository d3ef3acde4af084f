"""Risk from chosen labels: exactly unbiased in fractions, and as sure as it says over simulated acquisitions."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from modAL.models import ActiveLearner
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from small_models import first_rows

from skactive import BADGEQuery, StochasticBatchQuery
from skactive.risk import LOSSES, ActiveTester, estimate_risk, lure_weights
from skactive.risk._estimates import counted
from skactive.risk._tester import Picks
from skactive.samplers._law import draw_batch

ALL_DIGITS, DIGITS = load_digits(return_X_y=True)
ALL_DIGITS = ALL_DIGITS / 16
X_TRAIN, Y_TRAIN, POOL, LABELS = ALL_DIGITS[:100], DIGITS[:100], ALL_DIGITS[100:], DIGITS[100:]


@pytest.fixture(scope="module")
def model():
    return LogisticRegression(max_iter=1000).fit(X_TRAIN, Y_TRAIN)


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(10, random_state=0).fit(X_TRAIN, Y_TRAIN)


@pytest.fixture(scope="module")
def regressor():
    return RandomForestRegressor(5, random_state=0).fit(X_TRAIN, Y_TRAIN.astype(float))


# --- weights --------------------------------------------------------------------------------------


@st.composite
def purchases(draw):
    """Losses and probabilities of some picks, and the number of rows they were picked from."""
    n_pool = draw(st.integers(2, 12))
    n_labelled = draw(st.integers(1, n_pool - 1))  # of the whole pool formulas have 0/0
    q = [Fraction(draw(st.integers(1, 99)), 100) for _ in range(n_labelled)]
    losses = [Fraction(draw(st.integers(0, 40)), 8) for _ in range(n_labelled)]
    return losses, q, n_pool


def floats(values):
    return np.array([float(value) for value in values])


@given(bought=purchases())
def test_estimates_and_standard_errors_equal_their_formulas_and_no_weight_is_negative(bought):
    losses, q, n_pool = bought
    log_proba = np.log(floats(q))
    assert (lure_weights(log_proba, n_pool) >= 0).all()
    found = estimate_risk(floats(losses), log_proba, n_pool)
    assert found.value == pytest.approx(float(reference.lure(losses, q, n_pool)), rel=1e-9, abs=1e-9)
    if len(losses) > 1:
        expected = reference.lure_standard_error(losses, q, n_pool)
        assert found.standard_error == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("k", [2, 4])
def test_estimates_are_unbiased_in_fractions_over_all_batches(k):
    # Two rounds of different weights, the second going by what was bought in the first; some rows all but impossible.
    losses = [Fraction(1), Fraction(5), Fraction(0), Fraction(2), Fraction(7)]
    weights = [Fraction(1), Fraction(4), Fraction(0), Fraction(2), Fraction(1, 9)]
    first = reference.ordered_batches(weights, 2, 0.25)
    expected, counting, counts = Fraction(0), 0.0, np.array([1, 1, 0.25, 0.25])[:k]
    for batch, probability in first.items():
        left = [i for i in range(5) if i not in batch]
        second = reference.ordered_batches([losses[i] + losses[batch[0]] for i in left], k - 2, 0.5)
        for more, p_more in second.items():
            picks = [*batch, *(left[i] for i in more)]
            q = [*steps(first, batch), *steps(second, more)]
            bought = [losses[i] for i in picks]
            expected += probability * p_more * reference.lure(bought, q, 5)
            of_law = floats(bought), np.log(floats(q))
            counting += float(probability * p_more) * counted(estimate_risk(*of_law, 5), *of_law, counts).value
    assert expected == Fraction(15, 5) == pytest.approx(counting)


@pytest.mark.parametrize(("loss", "bound"), [("zero_one", 1), ("brier", 2)])
def test_weighted_estimates_are_unbiased_over_all_batches(model, loss, bound):
    rows, weights, expected = POOL[60:66], np.array([0.0, 1.0, 3.0, 0.5, 2.0, 1.0]), 0.0
    labels = (LABELS[60:66] + [0, 1, 0, 1, 0, 1]) % 10  # every other one is not what the model says
    losses, law = (
        LOSSES[loss](model, rows, labels),
        reference.ordered_batches([Fraction(k) for k in (1, 4, 2, 2, 0, 1)], 3, 0.25),
    )
    for batch, probability in law.items():
        tester, picks = ActiveTester(StochasticBatchQuery(), rows, row_weight=weights), np.array(batch)
        answers = ((np.arange(3), labels[picks]),)
        tester._picks = Picks(picks, np.log(floats(steps(law, batch))), np.zeros(3, dtype=int), answers)
        tester._first_log_proba = [np.zeros(1)]
        found = tester.risk(model, loss)
        expected += float(probability) * found.value
        known, left = (weights * losses)[picks].sum(), bound * np.delete(weights, picks).sum()
        assert found.limits == pytest.approx((known / 7.5, (known + left) / 7.5))
    assert expected == pytest.approx(np.average(losses, weights=weights))


def test_row_weights_are_refused_that_are_no_weights_of_the_rows():
    for wrong in (np.ones(5), np.zeros(6), np.r_[-1.0, np.ones(5)], np.r_[np.nan, np.ones(5)]):
        with pytest.raises(ValueError, match="`row_weight` must"):
            ActiveTester(StochasticBatchQuery(), POOL[:6], row_weight=wrong)


def steps(law, batch):
    """Probability of each pick of a batch given those before it."""
    marginals = [sum(p for b, p in law.items() if b[:m] == batch[:m]) for m in range(len(batch) + 1)]
    return [after / before for before, after in itertools.pairwise(marginals)]


def test_weights_of_uniform_picks_are_one_and_a_whole_pool_leaves_nothing_to_estimate(rng):
    np.testing.assert_allclose(lure_weights(-np.log(50.0 - np.arange(20)), 50), 1, rtol=1e-12)
    losses, log_proba = rng.random(50), np.log(rng.uniform(0.1, 0.9, 50))
    np.testing.assert_array_equal(lure_weights(log_proba, 50), 1)
    estimate = estimate_risk(losses, log_proba, 50)
    assert estimate.value == pytest.approx(losses.mean())
    assert estimate.standard_error == 0
    assert estimate.interval() == (estimate.value, estimate.value)


# --- simulated acquisitions -----------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "beta"), [("zero_one", 1.0), ("log_loss", 0.5)])
def test_estimates_agree_with_the_risk_of_the_pool_and_intervals_hold_it(loss, beta):
    rng, n_times = np.random.default_rng(1), 120
    p = rng.uniform(0.5, 0.98, size=1500)  # a model that is right about itself
    wrong, entropy = rng.random(1500) > p, -p * np.log(p) - (1 - p) * np.log(1 - p)
    losses = wrong.astype(float) if loss == "zero_one" else -np.log(np.where(wrong, 1 - p, p))
    estimates, naive = [], []
    for _ in range(n_times):
        left, bought, log_proba = np.arange(len(losses)), [], []
        for _ in range(5):  # from a shrinking pool, its scores new in every round
            scores = entropy[left] * rng.uniform(0.7, 1.3, size=len(left))
            batch, law = draw_batch("power", scores, 20, rng, beta=beta, epsilon=0.1)
            bought, log_proba = np.r_[bought, losses[left[batch]]], np.r_[log_proba, law.log_proba()]
            left = np.delete(left, batch)
        estimates.append(estimate_risk(bought, log_proba, len(losses), largest_loss=losses.max()))
        naive.append(bought.mean())
    values, naive = np.array([estimate.value for estimate in estimates]), np.array(naive)
    risk, error = losses.mean(), values.std(ddof=1) / math.sqrt(n_times)
    assert abs(values.mean() - risk) < 4 * error
    assert abs(naive.mean() - risk) > 5 * naive.std(ddof=1) / math.sqrt(n_times)
    covered = sum(low <= risk <= high for low, high in (estimate.interval() for estimate in estimates))
    assert stats.binom.cdf(covered, n_times, 0.93) > 1e-4
    # The standard error is that of the estimates: its mean square is known to some 8 % here.
    said = math.sqrt(np.mean([estimate.standard_error**2 for estimate in estimates]))
    assert said == pytest.approx(values.std(ddof=1), rel=0.25)


# --- ActiveTester ---------------------------------------------------------------------------------


def the_estimate(of):
    return of.value, of.standard_error, of.n_labelled, of.n_pool


def a_tester(pool=POOL, score="variation_ratio", epsilon=0.1, **parameters):
    return ActiveTester(StochasticBatchQuery(score, epsilon=epsilon, random_state=0, **parameters), pool)


def test_a_tester_asks_for_each_row_once_and_estimates_the_pool_by_what_the_query_says(model):
    tester, log_proba = a_tester(), []
    for n_instances in (60, 40, 80):
        tester.tell(LABELS[tester.ask(model, n_instances)])
        log_proba.append(tester.query.log_proba_)
    assert np.unique(tester.indices_).size == 180
    np.testing.assert_array_equal(tester.labels_, LABELS[tester.indices_])
    accuracy, risk, errors = tester.accuracy(model), tester.risk(model, "log_loss"), tester.risk(model, "zero_one")
    # Five standard errors, as they were measured above to be right.
    assert abs(accuracy.value - model.score(POOL, LABELS)) < 5 * accuracy.standard_error < 0.2
    assert abs(risk.value - log_loss(LABELS, model.predict_proba(POOL))) < 5 * risk.standard_error
    assert the_estimate(accuracy) == (1 - errors.value, errors.standard_error, 180, len(POOL))
    wrong = model.predict(POOL[tester.indices_]) != tester.labels_
    assert the_estimate(errors) == the_estimate(estimate_risk(wrong, np.concatenate(log_proba), len(POOL)))


def test_a_tester_takes_any_loss_and_any_model(model, forest, regressor):
    tester = a_tester()
    tester.tell(LABELS[tester.ask(forest, 30)])

    def distance(estimator, X, y):
        return np.abs(estimator.predict(X) - y)

    residuals = regressor.predict(POOL[tester.indices_]) - tester.labels_
    weights = lure_weights(tester.log_proba_, len(POOL))
    assert tester.risk(regressor, "squared_error").value == pytest.approx(np.mean(weights * residuals**2))
    for loss in (distance, "absolute_error"):
        assert tester.risk(regressor, loss).value == pytest.approx(np.mean(weights * np.abs(residuals)))
    assert tester.risk(model, distance).value > 0

    def wrong(estimator, X, y):
        return estimator.predict(X) != y

    losses = ("brier", "log_loss", "zero_one", wrong, distance)
    bounds = [tester.risk(model, loss).largest_loss for loss in losses]
    assert bounds == [2, pytest.approx(52 * math.log(2)), 1, 1, math.inf]
    assert tester.risk(model) == tester.risk(model, "brier")
    assert tester.risk(model, distance, largest_loss=9).largest_loss == 9
    assert tester.difference(model, forest, distance, largest_loss=9).more.largest_loss == 9
    with pytest.raises(ValueError, match="`largest_loss` must be a number that no loss exceeds"):
        tester.risk(model, distance, largest_loss=np.full(len(POOL), 0.5))


def test_losses_of_probabilities_are_those_of_their_formulas_and_unknown_labels_are_impossible(model):
    p, unknown = model.predict_proba(POOL), np.array([99])
    assert LOSSES["log_loss"](model, POOL, LABELS).mean() == pytest.approx(log_loss(LABELS, p))
    assert LOSSES["log_loss"](model, POOL[:1], unknown) == pytest.approx(-math.log(np.finfo(float).eps))
    squares = ((p - np.eye(10)[LABELS]) ** 2).sum(axis=1)
    np.testing.assert_allclose(LOSSES["brier"](model, POOL, LABELS), squares, rtol=1e-9)
    np.testing.assert_allclose(LOSSES["brier"](model, POOL[:1], unknown), (p[:1] ** 2).sum(axis=1) + 1)


def test_a_learner_of_modal_is_tested_by_its_estimator():
    learner, tester = ActiveLearner(RandomForestClassifier(20), X_training=X_TRAIN, y_training=Y_TRAIN), a_tester()
    tester.tell(LABELS[tester.ask(learner, 40)])
    assert tester.risk(learner, "brier") == tester.risk(learner.estimator, "brier")
    assert tester.difference(learner, learner.estimator).value == 0


def test_labels_told_in_parts_and_in_any_order_give_the_estimate_of_those_told_at_once(model, rng):
    at_once, in_parts = a_tester(), a_tester()
    asked = [in_parts.ask(model, k) for k in (40, 30)]
    for k in (40, 30):
        at_once.tell(LABELS[at_once.ask(model, k)])
    np.testing.assert_array_equal(in_parts.open_, np.concatenate(asked))
    with pytest.raises(ValueError, match=r"`rows` must say which.*2 asks are open"):
        in_parts.tell(LABELS[asked[0]])
    for rows in np.split(rng.permutation(in_parts.open_), [3, 20, 21, 50]):
        in_parts.tell(LABELS[rows], rows=rows)
    for name in ("indices_", "labels_", "log_proba_"):
        np.testing.assert_array_equal(getattr(in_parts, name), getattr(at_once, name))
    assert in_parts.accuracy(model) == dataclasses.replace(at_once.accuracy(model), n_looks=5)
    assert in_parts.open_.size == 0


def test_an_estimate_is_that_of_the_first_picks_while_later_ones_are_open(model):
    # Every prefix of the order of asking is a purchase of its own, and estimates the whole pool.
    tester = a_tester()
    rows = tester.ask(model, 40)
    log_proba = tester.query.log_proba_
    tester.ask(model, 10)
    tester.tell(LABELS[rows[:25], None], rows=rows[:25])  # a column will do
    wrong = model.predict(POOL[rows[:25]]) != LABELS[rows[:25]]
    found = tester.risk(model, "zero_one")
    assert the_estimate(found) == the_estimate(estimate_risk(wrong, log_proba[:25], len(POOL)))
    assert found.n_looks == 1


def test_an_estimate_is_refused_while_a_pick_before_others_is_open(model):
    tester = a_tester()
    rows = tester.ask(model, 10)
    late, told = rows[[2, 7]], np.delete(rows, [2, 7])
    tester.tell(LABELS[told], rows=told)
    np.testing.assert_array_equal(tester.open_, late)
    np.testing.assert_array_equal(tester.labels_, LABELS[told])
    for estimate in (tester.accuracy, tester.risk, lambda model: tester.log_proba_):
        with pytest.raises(ValueError, match=f"row {late[0]} was asked for before others.*2 rows are open"):
            estimate(model)
    tester.tell(LABELS[late])  # the one ask that is open, its rest
    assert tester.accuracy(model).n_labelled == 10


def test_labels_with_an_index_go_by_that_of_the_pool():
    frame = pd.DataFrame(POOL, index=np.arange(len(POOL)) * 3 + 1000)
    model = LogisticRegression(max_iter=1000).fit(frame[:100], LABELS[:100])
    labels = frame.assign(label=LABELS)["label"]
    expected, tester = a_tester(frame), a_tester(frame)
    expected.tell(LABELS[expected.ask(model, 30)])
    rows = tester.ask(model, 30)
    tester.tell(labels.iloc[np.sort(rows[:10])], rows=rows[:10])
    tester.tell(labels.iloc[rows[10:]].sample(frac=1, random_state=0))
    np.testing.assert_array_equal(tester.labels_, expected.labels_)
    rows = tester.ask(model, 5)
    for other in (labels.iloc[rows].reset_index(drop=True), labels.iloc[(rows + 1) % len(POOL)]):
        with pytest.raises(ValueError, match=r"`labels` must have the index of its rows.*to_numpy"):
            tester.tell(other)
    np.testing.assert_array_equal(tester.open_, rows)


def test_labels_by_position_are_put_in_the_order_of_asking_and_those_without_an_index_come_in_it(model):
    by_position, in_order = a_tester(POOL[:40]), a_tester(POOL[:40])
    rows = by_position.ask(model, 20)
    by_position.tell(pd.Series(LABELS)[np.sort(rows)])
    np.testing.assert_array_equal(by_position.labels_, LABELS[rows])
    rows = in_order.ask(model, 40)
    assert rows.tolist() != list(range(40))
    in_order.tell(pd.Series(LABELS[rows]))  # its index is 0 to 39, as the positions are
    np.testing.assert_array_equal(in_order.labels_, LABELS[rows])


# --- refusals -------------------------------------------------------------------------------------


def test_missing_labels_and_rows_that_are_not_open_are_refused_and_the_rows_stay_open(model):
    tester = a_tester()
    rows = tester.ask(model, 5)
    tester.tell(LABELS[rows[:2]], rows=rows[:2])
    other = np.setdiff1d(np.arange(20), rows)[:1]
    for of, labels, message in [
        (rows[1:3], [1, 1], f"Got {rows[1]}; 1 such"),
        (other, [1], f"Got {other[0]}; 1 such"),
        (rows[[2, 2]], [1, 1], "distinct positions"),
        (None, [1.0, math.nan, 2.0], "`labels` must have a finite label for every row.*in row 1, and 1 such"),
    ]:
        with pytest.raises(ValueError, match=message):
            tester.tell(labels, rows=of)
    np.testing.assert_array_equal(tester.open_, rows[2:])


def test_labels_of_a_kind_that_the_model_does_not_know_are_refused(model):
    tester = a_tester()
    rows = tester.ask(model, 3)
    with pytest.raises(ValueError, match=r"`labels` must be of the same kind as those of the model, such as 0\. Got"):
        tester.tell(["1", "2", "3"])
    np.testing.assert_array_equal(tester.open_, rows)
    tester.tell(LABELS[rows].astype(float))
    other = LogisticRegression(max_iter=1000).fit(X_TRAIN, Y_TRAIN.astype(str))
    for loss in ("zero_one", "log_loss"):
        with pytest.raises(ValueError, match="`labels` must be of the same kind as those of the model"):
            tester.risk(other, loss)


def test_losses_that_do_not_go_with_model_or_labels_are_refused(model, regressor):
    tester = a_tester()
    forest = RandomForestClassifier(5, random_state=0).fit(X_TRAIN, Y_TRAIN.astype(str))
    with pytest.raises(ValueError, match="The tester has no labels yet"):
        tester.risk(forest)
    rows = tester.ask(forest, 5)
    with pytest.raises(ValueError, match="labels of the 5 rows"):
        tester.tell(["1", "2"])
    tester.tell(LABELS[rows].astype(str))
    with pytest.raises(TypeError, match=r"`estimator` must be a classifier.*squared_error"):
        tester.accuracy(regressor)
    with pytest.raises(TypeError, match="`labels` must give numbers"):
        tester.risk(regressor, "squared_error")
    with pytest.raises(TypeError, match="RidgeClassifier has none"):
        tester.risk(RidgeClassifier().fit(X_TRAIN, LABELS[:100].astype(str)))


def test_a_tester_says_when_rows_are_out_of_reach(forest):
    with pytest.warns(UserWarning, match=r"of 1697 rows could not be picked.*epsilon"):
        a_tester(score="bald", epsilon=0.0).ask(forest, 10)
    with pytest.warns(UserWarning, match="With `diversity`, copies of a picked row"):
        a_tester(epsilon=0.0, sampler="uniform", diversity=1.0).ask(forest, 2)


def test_a_tester_needs_a_query_that_knows_its_probabilities_and_leaves_no_rows_out(forest):
    for query in (BADGEQuery(embedding=lambda X: X), StochasticBatchQuery(sampler=first_rows)):
        with pytest.raises(TypeError, match=r"`query` must know the probability of its picks"):
            ActiveTester(query, POOL[:50]).ask(forest, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'candidates'"):
        a_tester().ask(forest, 5, candidates=[1])


def test_purchases_that_give_no_weights_are_refused():
    for losses, log_proba, n_pool, message in [
        ([1.0, 0.0], [-1.0, -math.inf], 10, r"-inf for pick 1; 1 such .*epsilon"),
        ([1.0, 0.0], [-1.0, -800.0], 10, r"-800\.0 for pick 1.*epsilon"),
        ([1.0, 0.0], [0.5, -1.0], 10, r"`log_proba` must be natural logarithms .* Got 0\.5 for pick 0"),
        ([1.0], [math.nan], 10, "nan for pick 0"),
        ([1.0, 0.0], [-1.0, -1.0], 1, "`n_pool` must be"),
        ([1.0], [-1.0, -1.0], 10, "`losses` must be"),
        ([math.inf, 0.0], [-1.0, -1.0], 10, "`losses` must be"),
        ([1.0, -0.5], [-1.0, -1.0], 10, "`losses` must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            estimate_risk(losses, log_proba, n_pool)
