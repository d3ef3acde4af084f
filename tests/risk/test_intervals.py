"""Intervals of a risk: against a slow one written from the papers, and by how often they hold the risk of a pool."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from modAL.models import ActiveLearner
from scipy import optimize, stats
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, balanced_accuracy_score, make_scorer, max_error
from small_models import first_law

from skactive import StochasticBatchQuery
from skactive.risk import (
    LOSSES,
    ActiveTester,
    RiskDifference,
    RiskEstimate,
    estimate_risk,
    lure_weights,
)
from skactive.risk._estimates import at_every_look, estimate_difference, gamma_end
from skactive.risk._weights import largest_of

X, y = load_digits(return_X_y=True)
X = X / 16


def mid_p_gamma(value, variance, step, tail):
    """Both ends, by solving for them: the lower one of one gamma law, the upper one of the equal mixture of two."""

    def cdf(x, mean, var):
        return stats.gamma.cdf(x, mean**2 / var, scale=var / mean) if mean > 0 and var > 0 else 1.0

    def above(x):
        return (cdf(x, value + step, variance + step**2) + cdf(x, value, variance)) / 2 - (1 - tail)

    low = stats.gamma.ppf(tail, value**2 / variance, scale=variance / value) if value > 0 and variance > 0 else 0.0
    return low, optimize.brentq(above, 1e-12, value + 80 * (step + math.sqrt(variance)) + 1e-9, xtol=1e-14)


@given(
    st.floats(1e-3, 10),
    st.floats(0.02, 2),
    st.floats(1e-3, 5),
    st.sampled_from([0.005, 0.025, 0.05, 0.2]),
)
def test_ends_are_those_of_the_mid_p_gamma_method(value, relative_error, step, tail):
    variance = (value * relative_error) ** 2
    low, high = mid_p_gamma(value, variance, step, tail)
    assert gamma_end(value, variance, step, tail, upper=False) == pytest.approx(low, rel=1e-6, abs=1e-12)
    assert gamma_end(value, variance, step, tail, upper=True) == pytest.approx(high, rel=1e-6)


def uniform(n_pool, n_labelled):
    return -np.log(n_pool - np.arange(float(n_labelled)))


def test_without_an_error_seen_the_upper_end_is_the_rule_of_three():
    low, high = estimate_risk(np.zeros(60), uniform(10_000, 60), 10_000).interval()
    assert low == 0
    assert high == pytest.approx(-math.log(0.05) / 60, rel=1e-3)  # half of a law that is 0: 0.05 of the other half
    one_sided = estimate_risk(np.zeros(60), uniform(10_000, 60), 10_000).interval(side="upper")
    assert one_sided == (0, pytest.approx(-math.log(0.1) / 60, rel=1e-3))


def test_where_every_row_was_wrong_the_interval_is_that_of_no_row_being_right():
    wrong, right = (estimate_risk(np.full(60, of), uniform(10_000, 60), 10_000).interval() for of in (1.0, 0.0))
    assert wrong == pytest.approx((1 - right[1], 1 - right[0]))


def test_an_accuracy_has_the_interval_of_the_errors_from_the_other_side():
    model = LogisticRegression(max_iter=500).fit(X[:100], y[:100])
    tester = ActiveTester(StochasticBatchQuery("variation_ratio", epsilon=0.1, random_state=0), X[100:])
    tester.tell(y[100:][tester.ask(model, 60)])
    accuracy, errors = tester.accuracy(model), tester.risk(model, "zero_one")
    low, high = errors.interval()
    assert accuracy.interval() == pytest.approx((1 - high, 1 - low))
    assert accuracy.interval(side="lower") == pytest.approx((1 - errors.interval(side="upper")[1], accuracy.limits[1]))


def test_one_side_leaves_the_other_to_the_limit_and_lies_within_both():
    estimate = estimate_risk([0, 1, 0, 0, 1, 0, 0, 0, 0, 0], uniform(100, 10), 100)
    low, high = estimate.interval()
    assert estimate.interval(side="upper")[0] == estimate.limits[0] == 2 / 100
    assert low < estimate.interval(side="lower")[0] < estimate.value < estimate.interval(side="upper")[1] < high


def test_no_interval_goes_beyond_what_the_labels_seen_leave_possible():
    losses = np.r_[np.ones(30), np.zeros(65)]
    estimate = estimate_risk(losses, uniform(100, 95), 100)
    assert estimate.limits == (0.3, 0.35)
    low, high = estimate.interval(0.999999)
    assert 0.3 <= low <= high <= 0.35
    assert estimate_risk(np.zeros(5), uniform(1000, 5), 1000).interval(0.999999)[1] <= 1


def test_a_single_label_says_no_more_than_the_range_of_the_loss():
    estimate = estimate_risk([1.0], uniform(10, 1), 10)
    assert estimate.interval() == (0.1, 1.0)
    assert math.isnan(estimate_risk([0.7], uniform(10, 1), 10).interval()[1])  # a loss without a bound


# ------------------------------------------------------------------------------------------------------------- weights


def test_the_largest_weight_is_that_of_a_fair_part_of_the_pool():
    q = np.r_[np.full(900, 0.99 / 900), np.full(100, 0.01 / 100)]
    # A tenth of the rows have the weight 10: behind them a tenth of the risk could hide, 5 labels' worth of 50.
    assert largest_of(np.log(q), 50) == pytest.approx(5)
    assert largest_of(np.log(q), 500) == pytest.approx(10)
    assert largest_of(np.r_[np.log(q), -np.inf], 500) == pytest.approx(10, rel=0.01)


@given(st.lists(st.floats(-30, 0), min_size=1, max_size=40), st.integers(1, 100))
def test_the_largest_weight_is_found_by_trying_all(log_weights, n_labelled):
    log_q = np.minimum(np.array(log_weights) - np.logaddexp.reduce(log_weights), 0)
    weights = np.exp(-log_q) / len(log_q)
    found = max(min(w, n_labelled * np.mean(weights >= w * (1 - 1e-12))) for w in weights)
    assert largest_of(log_q, n_labelled) == pytest.approx(max(1.0, found), rel=1e-6)


def test_a_tester_hands_the_querys_weights_over():
    model = RandomForestClassifier(20, random_state=0).fit(X[:300], y[:300])
    query = StochasticBatchQuery("bald", beta=4, epsilon=0.1, random_state=0)
    tester = ActiveTester(query, X[300:])
    rows = tester.ask(model, 40)
    tester.tell(y[300:][rows])
    expected = largest_of(first_law(query), 40)
    seen = lure_weights(query.log_proba_, len(X) - 300).max()
    assert expected > 1.5
    assert tester.risk(model, "zero_one").step == pytest.approx(max(expected, seen) / 40, rel=0.02)


def test_first_probabilities_of_a_query_are_those_of_its_law():
    model = RandomForestClassifier(20, random_state=0).fit(X[:300], y[:300])
    query = StochasticBatchQuery("margin", beta=2, epsilon=0.2, random_state=0)
    query.select(model, X[300:], 5)
    scores = query.scores_**2
    expected = np.log(0.8 * scores / scores.sum() + 0.2 / len(scores))
    np.testing.assert_allclose(first_law(query), expected, rtol=1e-9)


# ------------------------------------------------------------------------------------------------------------ coverage


def held(losses, scores, beta, epsilon, n_labelled, n_repetitions, **options):
    """How many of the intervals hold the risk of the pool."""
    query, truth, n_held = StochasticBatchQuery(beta=beta, epsilon=epsilon, random_state=0), losses.mean(), 0
    for _ in range(n_repetitions):
        rows = query.select_scored(scores, n_labelled)
        weight = largest_of(first_law(query), n_labelled)
        found = estimate_risk(losses[rows], query.log_proba_, len(losses), largest_weight=weight, **options)
        low, high = found.interval()
        n_held += low <= truth <= high
    return n_held


def rare_errors(rate, spread, seed=5):
    rng = np.random.default_rng(seed)
    scores = np.exp(spread * rng.standard_normal(1500))
    p = np.clip(rate * scores / scores.mean(), 0, 0.95)
    return (rng.random(1500) < p * rate / p.mean()).astype(float), scores


@pytest.mark.parametrize(
    ("rate", "spread", "beta", "epsilon", "n_labelled"),
    [(0.03, 2, 4, 0.1, 200), (0.03, 1, 0, 0.1, 50), (0.01, 2, 1, 0.02, 100), (0.2, 2, 4, 0.1, 50)],
)
def test_intervals_hold_the_error_rate_where_errors_are_rare_and_queries_cold(rate, spread, beta, epsilon, n_labelled):
    # Student's intervals hold it in 27 to 80 % of these cases.
    losses, scores = rare_errors(rate, spread)
    n = 150
    assert stats.binom.cdf(held(losses, scores, beta, epsilon, n_labelled, n), n, 0.93) > 1e-6


def test_intervals_of_log_normal_losses_hold_their_mean():
    rng = np.random.default_rng(1)
    scores = np.exp(rng.standard_normal(1500))
    losses, n = scores * np.exp(rng.standard_normal(1500)), 150
    assert stats.binom.cdf(held(losses, scores, 1, 0.1, 100, n), n, 0.9) > 1e-6


def test_intervals_at_every_look_share_the_chance_of_a_miss_out():
    misses = [1 - at_every_look(0.95, look) for look in range(1, 5000)]
    assert sum(misses) == pytest.approx(0.05, rel=1e-3)
    assert all(a > b for a, b in itertools.pairwise(misses))
    model = LogisticRegression(max_iter=500).fit(X[:100], y[:100])
    tester = ActiveTester(StochasticBatchQuery("margin", epsilon=0.1, random_state=0), X[100:])
    for look in range(1, 4):
        tester.tell(y[100:][tester.ask(model, 20)])
        estimate = tester.accuracy(model)
        assert estimate.n_looks == look
        assert estimate.interval(every_look=True) == estimate.interval(at_every_look(0.95, look))


# --------------------------------------------------------------------------------------------------------- differences


@pytest.fixture(scope="module")
def models():
    return [
        LogisticRegression(max_iter=500).fit(X[:100], y[:100]),
        RandomForestClassifier(20, random_state=0).fit(X[:100], y[:100]),
    ]


def test_a_difference_is_that_of_both_risks_with_a_smaller_error_than_apart(models):
    tester = ActiveTester(StochasticBatchQuery("margin", epsilon=0.2, random_state=0), X[100:])
    tester.tell(y[100:][tester.ask(models[0], 200)])
    a, b = (tester.risk(model, "zero_one") for model in models)
    difference = tester.difference(*models)
    assert isinstance(difference, RiskDifference)
    assert difference.value == pytest.approx(a.value - b.value)
    assert difference.standard_error < math.hypot(a.standard_error, b.standard_error)
    assert tester.difference(*models[::-1]).value == pytest.approx(-difference.value)
    low, high = difference.interval()
    assert low < difference.value < high
    assert tester.difference(*models[::-1]).interval() == pytest.approx((-high, -low))
    assert tester.difference(models[0], models[0]).value == 0


def test_intervals_of_differences_hold_the_difference_on_the_pool(models):
    wrong = [(model.predict(X[100:]) != y[100:]).astype(float) for model in models]
    truth, n_pool, n = (wrong[0] - wrong[1]).mean(), len(X) - 100, 150
    margin = np.sort(models[0].predict_proba(X[100:]), axis=1)
    scores, n_held = 1 - (margin[:, -1] - margin[:, -2]), 0
    query = StochasticBatchQuery(beta=1, epsilon=0.2, random_state=0)
    for _ in range(n):
        rows = query.select_scored(scores, 100)
        low, high = estimate_difference(tuple(of[rows] for of in wrong), query.log_proba_, n_pool).interval()
        n_held += low <= truth <= high
    assert stats.binom.cdf(n_held, n, 0.95) > 1e-6


# -------------------------------------------------------------------------------------------------- losses and measures


def test_the_brier_loss_is_the_squared_distance_from_certainty(models):
    p = models[0].predict_proba(X[100:130])
    expected = ((p - np.eye(10)[y[100:130]]) ** 2).sum(axis=1)
    np.testing.assert_allclose(LOSSES["brier"](models[0], X[100:130], y[100:130]), expected, rtol=1e-12)
    of_unknown = LOSSES["brier"](models[0], X[100:101], np.array([77]))
    np.testing.assert_allclose(of_unknown, (p[:1] ** 2).sum(axis=1) + 1)


def test_the_absolute_error_is_that_of_a_regressor():
    regressor = RandomForestRegressor(10, random_state=0).fit(X[:100], y[:100].astype(float))
    expected = np.abs(regressor.predict(X[100:120]) - y[100:120])
    np.testing.assert_allclose(LOSSES["absolute_error"](regressor, X[100:120], y[100:120]), expected)
    tester = ActiveTester(StochasticBatchQuery("std_dev", epsilon=0.2, random_state=0), X[100:])
    tester.tell(y[100:][tester.ask(regressor, 10)].astype(float))
    with pytest.raises(TypeError, match="must be a classifier for `zero_one`"):
        tester.accuracy(regressor)


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "average_precision"])
def test_measures_are_the_weighted_ones_with_an_interval_around_them(scoring):
    labels = (y == 8).astype(int)
    model = LogisticRegression(max_iter=500).fit(X[:100], labels[:100])
    tester = ActiveTester(StochasticBatchQuery("margin", epsilon=0.2, random_state=0), X[100:])
    tester.tell(labels[100:][tester.ask(model, 300)])
    found = tester.measure(model, scoring, n_resamples=200, random_state=0)
    rows, weights = X[100:][tester.indices_], lure_weights(tester.log_proba_, len(X) - 100)
    if scoring == "balanced_accuracy":
        expected = balanced_accuracy_score(tester.labels_, model.predict(rows), sample_weight=weights)
        truth = balanced_accuracy_score(labels[100:], model.predict(X[100:]))
    else:
        expected = average_precision_score(tester.labels_, model.decision_function(rows), sample_weight=weights)
        truth = average_precision_score(labels[100:], model.decision_function(X[100:]))
    assert found.value == pytest.approx(expected)
    low, high = found.interval()
    assert low <= truth <= high
    again = tester.measure(model, scoring, n_resamples=200, random_state=0)
    np.testing.assert_array_equal(found.resampled, again.resampled)
    assert "not unbiased" in str(found)


def test_a_scorer_without_weights_is_refused():
    regressor = RandomForestRegressor(10, random_state=0).fit(X[:100], y[:100].astype(float))
    tester = ActiveTester(StochasticBatchQuery("std_dev", epsilon=0.2, random_state=0), X[100:])
    tester.tell(y[100:][tester.ask(regressor, 10)].astype(float))
    with pytest.raises(TypeError, match="`scoring` must take `sample_weight`"):
        tester.measure(regressor, make_scorer(max_error))


def test_a_model_of_one_class_has_measures_that_are_defined(recwarn):
    model = DummyClassifier().fit(X[:20], np.zeros(20))
    tester = ActiveTester(StochasticBatchQuery("margin", "uniform", random_state=0), X[100:])
    tester.tell((y[100:][tester.ask(model, 30)] == 8).astype(float))
    assert tester.measure(model, "balanced_accuracy", n_resamples=50, random_state=0).value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({"largest_loss": 0.5}, "`largest_loss` must be a number above 0 that no loss exceeds"),
        ({"largest_loss": 0}, "`largest_loss` must be a number above 0"),
        ({"largest_loss": "one"}, "`largest_loss` must be a number above 0"),
        ({"largest_weight": 0.5}, "`largest_weight`"),
        ({"n_looks": 0}, "`n_looks`"),
    ],
)
def test_options_of_an_estimate_are_checked(options, seen):
    with pytest.raises((ValueError, TypeError), match=seen):
        estimate_risk([0.0, 1.0], uniform(10, 2), 10, **options)


def test_a_measure_that_no_resampling_changes_has_no_interval_and_that_of_the_whole_pool_no_width():
    model = RandomForestClassifier(20, random_state=0).fit(X, y)
    tester = ActiveTester(StochasticBatchQuery("margin", epsilon=0.5, random_state=0), X[:60])
    tester.tell(y[:60][tester.ask(model, 20)])
    assert np.isnan(tester.measure(model, "accuracy", n_resamples=20).interval()).all()
    tester.tell(y[:60][tester.ask(model, 40)])
    weak = LogisticRegression(C=1e-4).fit(X[:100], y[:100])
    measured = tester.measure(weak, "balanced_accuracy")
    assert measured.interval() == (measured.value, measured.value)
    assert measured.value == pytest.approx(balanced_accuracy_score(y[:60], weak.predict(X[:60])))


def test_a_learner_of_modal_is_tested_by_its_estimator():
    learner = ActiveLearner(RandomForestClassifier(20, random_state=0), X_training=X[:100], y_training=y[:100])
    tester = ActiveTester(StochasticBatchQuery("margin", epsilon=0.2, random_state=0), X[100:])
    tester.tell(y[100:][tester.ask(learner, 40)])
    for loss in ("log_loss", "brier", "zero_one"):
        assert tester.risk(learner, loss) == tester.risk(learner.estimator, loss)
    assert tester.measure(learner, "accuracy", n_resamples=10).value > 0
    assert tester.difference(learner, learner.estimator).value == 0


@pytest.mark.parametrize("keyword", ["pending", "candidates", "beta"])
def test_a_tester_leaves_no_rows_out(keyword):
    model = RandomForestClassifier(5, random_state=0).fit(X[:100], y[:100])
    tester = ActiveTester(StochasticBatchQuery("margin", epsilon=0.2, random_state=0), X[100:])
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{keyword}'"):
        tester.ask(model, 5, **{keyword: [1]})


def test_labels_by_position_are_put_in_the_order_of_asking():
    model = RandomForestClassifier(20, random_state=0).fit(X[:100], y[:100])
    testers = [ActiveTester(StochasticBatchQuery("margin", epsilon=0.2, random_state=0), X[100:]) for _ in range(2)]
    rows, again = (tester.ask(model, 40) for tester in testers)
    np.testing.assert_array_equal(rows, again)
    testers[0].tell(y[100:][rows])
    testers[1].tell(pd.Series(y[100:])[np.sort(rows)])
    np.testing.assert_array_equal(testers[0].labels_, testers[1].labels_)


def test_labels_without_an_index_of_their_own_come_in_the_order_of_asking():
    model = RandomForestClassifier(20, random_state=0).fit(X[:100], y[:100])
    tester = ActiveTester(StochasticBatchQuery("margin", epsilon=0.2, random_state=0), X[100:140])
    rows = tester.ask(model, 40)
    assert rows.tolist() != list(range(40))
    tester.tell(pd.Series(y[100:140][rows]))  # its index is 0 to 39, as the positions are
    np.testing.assert_array_equal(tester.labels_, y[100:140][rows])


def test_one_side_of_a_difference_is_open():
    losses = np.r_[np.ones(8), np.zeros(32)], np.r_[np.zeros(36), np.ones(4)]
    found = estimate_difference(losses, uniform(500, 40), 500)
    low, high = found.interval()
    assert found.interval(side="upper") == (-math.inf, pytest.approx(found.interval(0.9)[1]))
    assert found.interval(side="lower")[1] == math.inf
    assert low < found.interval(side="lower")[0] < found.value < found.interval(side="upper")[1] < high


@pytest.mark.parametrize("side", ["left", None, 1])
def test_a_side_is_one_of_three(side):
    with pytest.raises((ValueError, TypeError), match="`side` must be"):
        RiskEstimate(0.1, 0.01, 10, 100).interval(side=side)
