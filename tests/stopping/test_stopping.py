"""Reports on whether to go on: gains equal their definition, verdicts follow from them, nothing is changed."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from modAL.models import ActiveLearner
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_classification, make_regression
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import average_precision_score, recall_score
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skactive import MCDropoutClassifier, StochasticBatchQuery
from skactive.risk import ActiveTester, RiskEstimate, estimate_risk
from skactive.stopping import StoppingReport
from skactive.stopping._evidence import MEASURES, MOST_ROWS, Known, Trust, scoring_for

X, Y = load_digits(return_X_y=True)
X = X / 16
POOL = X[300:]


def fitted(n, estimator=None):
    return clone(LogisticRegression(max_iter=200) if estimator is None else estimator).fit(X[:n], Y[:n])


def report(n, previous=None, estimator=None, pool=POOL, **options):
    """On a model of the first n digits."""
    given = {"X_training": X[:n], "y_training": Y[:n], "random_state": 0}
    if isinstance(pool, pd.DataFrame | sparse.csr_array):
        given["X_training"] = type(pool)(X[:n])
    return StoppingReport.from_learner(fitted(n, estimator), pool, previous, **{**given, **options})


def chain(model, X, y, sizes, pool=POOL, **options):
    """Reports on models of ever more labels, each with the one before it; the last one."""
    found = None
    for n in sizes:
        given = {"X_training": X[:n], "y_training": y[:n], "random_state": 0, **options}
        found = StoppingReport.from_learner(clone(model).fit(X[:n], y[:n]), pool, found, **given)
    return found


class Given:
    """A classifier whose probabilities are given row by row; X holds positions."""

    _estimator_type = "classifier"

    def __init__(self, p):
        self.p, self.classes_ = p, np.arange(p.shape[1])  # (n_points, n_classes)

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return self.p[np.asarray(X)[:, 0].astype(int)]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def of_given(p, previous=None, n_labels=200, n_bought=0):
    """On given probabilities; n_labels since the previous report, of which some are the first rows of the pool."""
    rows = np.arange(len(p))[:, None]
    n = n_labels + (0 if previous is None else previous.labels[-1])
    taught = np.concatenate([rows[:n_bought], np.full((n - n_bought, 1), -1)])
    given = {"X_training": taught, "y_training": np.arange(n), "random_state": 0}
    return StoppingReport.from_learner(Given(p), rows[n_bought:], previous, **given)


def random_p(seed):
    return np.random.default_rng(seed).dirichlet(np.ones(3), (8, 200)).mean(axis=0)  # none near the corners


# ---------------------------------------------------------------------------------------------------------------- gains


@pytest.mark.parametrize("n_bought", [0, 199])
def test_gain_and_changed_equal_their_definitions_row_by_row(n_bought):
    first, later, judge = (random_p(seed) for seed in range(3))
    gain = changed = 0.0
    for row in range(n_bought, 200):
        old, new, known = (p[row] for p in (first, later, judge))
        gain += (known[new.argmax()] - known[old.argmax()]) / (200 - n_bought)
        changed += (new.argmax() != known.argmax()) / (200 - n_bought)
    second = of_given(later, of_given(first, n_labels=10))
    assert second.gains == ()  # nobody has judged them
    found = of_given(judge, second, n_bought=n_bought)
    assert found.gains == pytest.approx((found.trust.slope * gain,), rel=1e-12)
    assert found.recent == pytest.approx(found.gains[0], rel=1e-12)
    assert found.changed == pytest.approx(changed, rel=1e-12)
    assert (found.n_rows, found.n_recent) == (200 - n_bought, 200)


def test_where_no_row_is_left_to_compare_the_gain_is_unknown_and_not_nothing():
    found = of_given(random_p(1), of_given(random_p(0), n_labels=10), n_bought=200)
    assert (found.n_rows, found.n_pool) == (0, 0)
    assert np.isnan([*found.gains, found.recent, found.changed, found.rate]).all()
    assert found.verdict == "stop"  # as the pool is empty
    assert "points of accuracy" not in str(found)


@pytest.mark.parametrize("estimator", [LinearSVC(), FixedThresholdClassifier(GaussianNB(), threshold=0.05)])
def test_where_predictions_are_not_the_most_probable_labels_the_gain_is_the_part_that_changed(estimator):
    found = chain(estimator, X, Y % 2, (30, 60))
    assert found.gains == (found.changed,)
    assert found.changed > 0
    assert found.measure == "changes"


def test_a_regressor_gains_the_square_of_what_moved_in_units_of_the_variance_of_labels():
    X, y = make_regression(400, 5, noise=5.0, random_state=0)
    forest = RandomForestRegressor(20, random_state=0)
    found = chain(forest, X, y, (20, 60), X[100:])
    old, new = (clone(forest).fit(X[:n], y[:n]).predict(X[100:]) for n in (20, 60))
    assert found.gains == pytest.approx([np.mean((new - old) ** 2) / y[:60].var()], rel=1e-12)
    assert np.isnan([found.changed, *found.changed_interval()]).all()
    assert "of the variance of the labels" in str(found)
    assert chain(LinearRegression(), X, np.ones(400), (20, 60), X[100:]).gains == (0.0,)  # of labels without a spread


# ------------------------------------------------------------------------------------------------------------- verdicts


def sequence(gains, n_labels=10, **options):
    """The last of reports: in each, so many rows of a thousand become surely another class; another one judges that.

    Labels are those of rows that keep their class, of which the model is sure, and right.
    """
    labels = np.repeat([0, 1, 0, 1], [500, 500, 200, 200])
    found, at = None, 0
    for gain in [0.0, *gains, 0.0]:
        labels = labels.copy()
        labels[at : at + round(1000 * gain)] += 1
        at += round(1000 * gain)
        n = n_labels if found is None else n_labels + found.labels[-1]
        taught = np.concatenate([np.arange(1000, 1000 + (n + 1) // 2), np.arange(1200, 1200 + n // 2)])[:, None]
        given = {"X_training": taught, "y_training": labels[taught[:, 0]], "random_state": 0}
        model = Given(np.eye(3)[labels])
        found = StoppingReport.from_learner(model, np.arange(1000)[:, None], found, **given, **options)
    return found


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([], "too early"),
        ([0.004, 0.001], "too early"),
        ([0.004, 0.001, 0.001], "stop"),
        ([0.2, 0.0, 0.0], "go on"),
        ([0.2, 0.0, 0.0, 0.0], "stop"),
        ([0.002, 0.002, 0.014], "go on"),
    ],
)
def test_the_verdict_follows_from_the_last_gains(gains, verdict):
    found = sequence(gains)
    assert found.gains == pytest.approx(gains, abs=1e-12)
    assert found.labels == tuple(range(10, 10 * len(gains) + 21, 10))
    assert found.verdict == verdict


def test_gains_are_reckoned_by_the_label_whatever_the_batches():
    assert sequence([0.02], n_labels=30).rate == pytest.approx(0.02 / 0.3)
    assert sequence([0.0, 0.005, 0.0] * 2, n_labels=5).rate == pytest.approx(0.01 / 0.3)
    assert sequence([0.0, 0.005, 0.0, 0.0, 0.0], n_labels=5).verdict == "too early"  # of 25 labels
    assert sequence([0.04], n_labels=100).verdict == "stop"
    assert sequence([0.06], n_labels=100).verdict == "go on"
    assert sequence([0.02, 0.02], patience=20).verdict == "go on"
    assert sequence([0.02, 0.02], patience=20, tolerance=0.3).verdict == "stop"


def test_a_risk_surely_below_its_target_stops_whatever_the_gains():
    low = RiskEstimate(0.02, 0.005, n_labelled=100, n_pool=1000, largest_loss=1)
    reached, open_ = (sequence([0.2], risk=low, target_risk=target) for target in (0.05, 0.025))
    assert (reached.verdict, open_.verdict) == ("stop", "go on")  # the latter is within its interval
    assert sequence([0.2], risk=low).verdict == "go on"
    # later, the more often one has looked, and without an error seen only when all labels are known
    for risk, verdict in [
        (RiskEstimate(0.02, 0.01, 100, 1000, n_looks=1, largest_loss=1), "stop"),
        (RiskEstimate(0.02, 0.01, 100, 1000, n_looks=10, largest_loss=1), "go on"),
        (RiskEstimate(0.0, 0.0, 5, 100), "go on"),
        (RiskEstimate(0.0, 0.0, 100, 100, limits=(0, 0)), "stop"),
        (RiskEstimate(0.0, np.nan, 1, 100), "go on"),
    ]:
        assert sequence([0.2], risk=risk, target_risk=0.06).verdict == verdict, risk


@pytest.mark.slow
def test_at_most_one_run_in_twenty_stops_falsely_at_any_of_thirty_reports():
    base, rng, n_runs, n_false = sequence([]), np.random.default_rng(0), 200, 0
    n, n_wrong, log_proba = 2000, 402, -np.log(2000 - np.arange(200.0))
    for _ in range(n_runs):  # the risk is 0.201, half of the errors change from model to model, labels stay
        rows, wrong, reports = rng.choice(n, 200, replace=False), rng.choice(n, n_wrong, replace=False), []
        for look in range(1, 31):
            losses = np.isin(np.arange(n), wrong).astype(float)
            risk = estimate_risk(losses[rows], log_proba, n, largest_loss=1)
            reports.append(replace(base, labels=tuple(range(look)), risk=risk, target_risk=0.2))
            left = rng.choice(wrong, n_wrong // 2, replace=False)
            wrong = np.r_[left, rng.choice(np.flatnonzero(losses == 0), n_wrong - len(left), replace=False)]
        n_false += any(report.standing == "reached" for report in reports)
    assert stats.binom.sf(n_false - 1, n_runs, 0.05) > 1e-4  # 24 to 48 % when looks were counted by asks


HIGH = RiskEstimate(0.9, 0.01, n_labelled=100, n_pool=1000, greater_is_better=True, largest_loss=1)


def test_an_accuracy_reaches_its_target_from_below():
    assert sequence([0.2], risk=HIGH, target_risk=0.85).verdict == "stop"
    assert sequence([0.2], risk=HIGH, target_risk=0.99).verdict == "go on"
    missed = sequence([0.0, 0.0, 0.0], risk=HIGH, target_risk=0.95)
    assert missed.verdict == "stop"
    assert "The accuracy misses its target" in str(missed)


def test_a_pool_that_is_used_up_stops_and_labels_of_one_class_are_too_few():
    for previous in (None, report(40, pool=POOL[:100])):
        found = report(60, previous, pool=POOL[:0])
        assert (found.verdict, found.n_pool) == ("stop", 0)
    assert chain(DecisionTreeClassifier(), X[Y == 1], np.ones(100), (10, 30, 60)).verdict == "too early"


def test_of_a_pool_that_was_looked_at_in_part_there_is_an_interval_and_as_a_whole_none():
    found = chain(GaussianNB(), X, Y, (20, 60, 70))
    low, high = found.changed_interval(0.9)
    assert low < found.changed < high
    assert f": {100 * found.rate:.2g} points per 100 labels. You asked to stop when 100 further labels" in str(found)
    assert f"below {100 * high:.2g} % on the pool, with 95 % confidence." in str(found)
    with pytest.raises(ValueError, match="`level` must be a number between 0 and 1"):
        found.changed_interval(95)
    whole = report(60, report(20, pool=POOL[:500]), pool=POOL[:500])
    assert whole.changed_interval() == (whole.changed, whole.changed)


# ---------------------------------------------------------------------------------------------- learners and containers


def test_rows_that_were_taught_with_other_values_than_those_of_the_pool_are_refused():
    pool, query = X[50:400], StochasticBatchQuery("entropy", random_state=0)
    learner = ActiveLearner(RandomForestClassifier(5, random_state=0), query, X[:50], Y[:50])
    before = StoppingReport.from_learner(learner, pool, random_state=0)
    rows, batch = learner.query(pool, n_instances=200)
    learner.teach(batch / 16, Y[50:400][rows])
    with pytest.raises(ValueError, match=r"`X_training` must hold .* Got none of the 350 rows .* though 200 have left"):
        StoppingReport.from_learner(learner, np.delete(pool, rows, axis=0), before, random_state=0)


def test_a_large_pool_is_looked_at_in_part_each_time_in_the_one_that_was_given():
    pool = np.tile(POOL, (3, 1))
    found = report(60, report(50, pool=pool), pool=pool)
    assert found.n_rows == MOST_ROWS < found.n_pool == len(pool)
    assert not found.whole_pool
    assert report(80, report(60, pool=POOL[:900]), pool=POOL[500:]).n_rows == 900


def test_a_seed_gives_the_same_report_and_a_pickled_one_goes_on():
    options = {"estimator": RandomForestClassifier(10, random_state=0)}
    first, again = report(40, **options), report(40, **options)
    assert first == again
    assert report(60, pickle.loads(pickle.dumps(first)), **options) == report(60, first, **options)


@pytest.mark.usefixtures("global_state_untouched")
def test_nothing_is_changed():
    net = MCDropoutClassifier((16,), max_epochs=1, device="cpu", random_state=0).fit(X[:60], Y[:60])
    pool, mode = POOL.copy(), net.net_.module_.training
    first = StoppingReport.from_learner(net, pool, random_state=0, X_training=X[:50], y_training=Y[:50])
    gains = first.gains
    StoppingReport.from_learner(net, pool, first, random_state=0, X_training=X[:60], y_training=Y[:60])
    np.testing.assert_array_equal(pool, POOL)
    assert net.net_.module_.training is mode
    assert first.gains == gains == ()


# ------------------------------------------------------------------------------------------------------------ bad input


def test_bad_input_is_refused():
    for options, words in [
        ({"tolerance": 5}, "`tolerance` must be between 0 and 1: the accuracy gain .* 0.05 is five points"),
        ({"target_risk": 85, "risk": HIGH}, "`target_risk` must be a number from 0 to 1 .* give 0.85 for 85 %"),
        ({"target_risk": np.nan, "risk": RiskEstimate(0.1, 0.1, 5, 10)}, "`target_risk` must be .* a finite number"),
        ({"X_training": None}, "`X_training` and `y_training` must be given"),
    ]:
        with pytest.raises((ValueError, TypeError), match=words):
            report(50, **{"estimator": GaussianNB(), **options})
    model = LinearRegression().fit(X[:50], X[:50, :2])
    with pytest.raises(ValueError, match="one target"):
        StoppingReport.from_learner(model, POOL, X_training=X[:50], y_training=X[:50, :2])


def test_a_report_on_other_rows_other_labels_or_no_fewer_ones_is_refused():
    first = report(50)
    with pytest.raises(ValueError, match="`previous` must be a report on rows like those"):
        report(60, report(50, pool=pd.DataFrame(POOL)))
    with pytest.raises(ValueError, match="Report once after each batch"):
        report(50, first)
    model = GaussianNB().fit(X[:60], Y[:60].astype(str))
    with pytest.raises(ValueError, match="`previous` must be a report on the same kind of labels"):
        StoppingReport.from_learner(model, POOL, first, X_training=X[:60], y_training=Y[:60].astype(str))


# ------------------------------------------------------------------------------------------ what a model says of itself


def loop(make_model, X, y, n_first=20, n_last=270):
    """Reports on models of ever more labels, ten at a time."""
    found = [None]
    for n in range(n_first, n_last + 1, 10):
        given = {"X_training": X[:n], "y_training": y[:n], "random_state": 0}
        found.append(StoppingReport.from_learner(make_model(n).fit(X[:n], y[:n]), X[300:], found[-1], **given))
    return found[1:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "model"),
    [*((share, DecisionTreeClassifier()) for share in (0.5, 0.3, 0.2, 0.12)), (0.2, RandomForestClassifier(10))],
)
def test_of_coins_at_most_one_run_in_twenty_says_go_on_and_one_in_twenty_ends_with_a_stop(model, share):
    n_runs, n_on, n_stopped = 30, 0, 0
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        rows, coins = rng.normal(size=(700, 5)), (rng.random(700) < share).astype(int)
        coins[:2] = 0, 1
        said = [
            report.verdict
            for report in loop(lambda n: clone(model).set_params(random_state=0), rows, coins, n_last=180)
        ]
        n_on, n_stopped = n_on + ("go on" in said), n_stopped + (said[-1] == "stop")
    for n in (n_on, n_stopped):  # by gains alone nearly all runs end with a stop
        assert stats.binom.sf(n - 1, n_runs, 0.05) > 1e-3


@pytest.mark.slow
def test_twelve_classes_that_can_be_learnt_go_on_in_three_reports_of_four():
    n_runs, n_on = 20, 0
    for seed in range(n_runs):
        rows, labels = make_blobs(900, 10, centers=12, cluster_std=6, random_state=seed)
        said = [report.verdict for report in loop(lambda n: GaussianNB(), rows, labels, n_first=30, n_last=150)]
        n_on += said[3:].count("go on") >= 0.75 * len(said[3:])
    assert n_on >= 0.75 * n_runs


def test_trust_is_the_slope_of_labels_against_probabilities_where_they_were_not_taught():
    found = report(60, report(50, report(40)))
    x, y = [], []
    for n in (40, 50):
        shares = np.bincount(Y[:n]) / n
        for row in range(n, n + 10):
            for c, p in enumerate(fitted(n).predict_proba(X[[row]])[0]):
                x.append(p - shares[c])
                y.append((Y[row] == c) - shares[c])
    x, y = np.array(x), np.array(y)
    assert found.trust.n_labels == 20
    assert found.trust.slope == pytest.approx(min(1.0, (x @ y + 1) / (x @ x + 1)), rel=1e-9)
    right = [fitted(n).predict(X[n : n + 10]) == Y[n : n + 10] for n in (40, 50)]
    named = [Y[n : n + 10] == np.bincount(Y[:n]).argmax() for n in (40, 50)]
    assert (found.trust.right, found.trust.guess) == pytest.approx((np.mean(right), np.mean(named)), rel=1e-9)
    assert 0 < found.trust.low <= found.trust.slope <= found.trust.high


ONLY_NO = Known(True, value=0.9, low=0.85, guess=0.9, ends=(0.8, 0.95), commonest="no")
BETTER = Known(True, value=0.9, low=0.85, guess=0.8, commonest="no")


@pytest.mark.parametrize(
    ("known", "verdict", "words"),
    [
        ({}, "stop", ""),
        ({"known": Known(is_told=False)}, "cannot be told", "Its accuracy is not known yet: label more rows."),
        (
            {"known": ONLY_NO},
            "cannot be told",
            "'no' is right in 90 % (80 % to 95 %). The model is no better than always",
        ),
        ({"known": ONLY_NO, "scoring": "balanced_accuracy"}, "stop", "Always guessing 'no' is right in 90 %"),
        ({"trust": Trust(1.0, 0.0, 1.0, 30, 0.9, 0.5, 0.55)}, "cannot be told", "right in 50 % of them, that guess"),
        ({"trust": Trust(), "labels": (120, 180, 200)}, "cannot be told", "try other columns or another model"),
        ({"advantage": 0.0}, "cannot be told", "It is not known to be better than always guessing"),
        ({"advantage": 0.0, "known": BETTER}, "stop", "Always guessing 'no' is right in 80 % of the labels taught."),
        ({"trust": Trust(), "n_pool": 0}, "stop", "No rows are left."),
        ({"recent": 0.3, "trust": Trust(1.0, 0.5), "known": Known(is_told=False)}, "go on", "points per 100 labels"),
        ({"recent": 0.3, "trust": Trust(), "known": BETTER}, "cannot be told", "not known to be reliable"),
    ],
)
def test_nobody_stops_with_a_model_that_is_no_better_than_a_guess_or_whose_accuracy_is_not_known(known, verdict, words):
    found = replace(sequence([0.0, 0.0, 0.0]), **known)
    assert (found.verdict, words in str(found)) == (verdict, True), str(found)


def test_a_test_or_a_risk_says_whether_a_model_is_better_than_naming_the_commonest_class():
    rows, labels = np.zeros((300, 1)), (np.arange(300) % 5 == 0).astype(int)
    tester = ActiveTester(StochasticBatchQuery("margin", "uniform", random_state=0), rows)
    constant = LogisticRegression().fit(rows, labels)
    tester.tell(labels[tester.ask(constant, 300)])
    given = {"X_training": rows[:50], "y_training": labels[:50], "random_state": 0}
    found = StoppingReport.from_learner(constant, rows, test=tester, **given)
    assert (found.known.value, found.known.guess, found.known.commonest) == pytest.approx((0.8, 0.8, 0))
    assert StoppingReport.from_learner(constant, rows, risk=tester.accuracy(constant), **given).known.is_told
    wide = RiskEstimate(0.7, 0.2, n_labelled=5, n_pool=300, greater_is_better=True, step=0.2)
    assert not StoppingReport.from_learner(constant, rows, risk=wide, **given).known.is_told
    unbounded = RiskEstimate(0.7, 0.2, n_labelled=5, n_pool=300)
    assert StoppingReport.from_learner(constant, rows, risk=unbounded, **given).known is None


def test_auto_is_average_precision_where_a_class_is_rare_however_late_that_shows():
    for counts, before, measured in [
        ((14, 6), None, "accuracy"),
        ((15, 5), None, "average_precision"),
        ((30, 10), "accuracy", "average_precision"),
        ((20, 20), "average_precision", "average_precision"),
        ((30, 10), "balanced_accuracy", "balanced_accuracy"),
        ((20,), None, None),
        ((20, 20, 1), None, "average_precision"),
        ((200, 200, 1), "accuracy", "accuracy"),
    ]:
        assert scoring_for(np.array(counts), "auto", before) == measured, counts


def test_of_numbers_no_measure_of_classes_is_taken_and_squared_errors_decide_nothing():
    rows, values = make_regression(400, 5, noise=5.0, random_state=0)
    values = values.round(-2)  # few numbers, one of them rare
    tester = ActiveTester(StochasticBatchQuery("std_dev", "uniform", random_state=0), rows[300:])
    tester.tell(values[300:][tester.ask(RandomForestRegressor(5, random_state=0).fit(rows[:50], values[:50]), 80)])
    found = chain(LinearRegression(), rows, values, (10, 60, 100), rows[100:300], test=tester)
    assert (found.scoring, found._tested_rates(), found.known) == (None, (-np.inf, np.inf), None)
    assert "reduced the loss by" in str(found)
    with pytest.raises(ValueError, match='`scoring` must be left at "auto" for a regressor'):
        chain(LinearRegression(), rows, values, (10,), rows[100:300], scoring="accuracy")


def test_large_rates_and_a_single_label_are_written_as_people_write_them():
    found = replace(sequence([0.0, 0.0, 0.0]), recent=0.016, n_recent=1)
    assert "The last label brought 1.6 points of accuracy" in str(found)
    assert ": 160 points per 100 labels." in str(found)


def test_where_all_rows_left_equal_labelled_ones_it_cannot_be_told_and_a_loop_is_warned():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (600, 3)).astype(float)
    labels = (rows[:, 0] + 0.4 * rng.normal(size=600) > 0.5).astype(int)
    with pytest.warns(UserWarning, match="Only 0 of 5.. unlabelled rows differ from all labelled"):
        found = chain(LogisticRegression(), rows, labels, (20, 40, 60), rows[100:])
    assert (found.verdict, found.n_rows) == ("cannot be told", 0)
    assert "Set a number of labels at which to stop. Pass `test=`" in str(found)
    assert "not known to be reliable" not in str(found)


def test_the_ends_that_decide_are_told():
    risk = estimate_risk(np.arange(200) < 11, -np.log(2000 - np.arange(200.0)), 2000)
    for n, verdict in ((1, "stop"), (10, "too early")):
        found = replace(sequence([0.0]), labels=tuple(range(n)), risk=risk, target_risk=0.1)
        end = risk.interval(1 - 0.05 / (n * (n + 1)), side="upper")[1]
        assert (end <= 0.1) == (verdict == "stop") == (found.verdict == "stop")
        assert f"(allowing for {n} look{'s' * (n > 1)}, below {end:.3g}): 0.055" in str(found)


def test_a_class_with_five_labels_lets_nobody_stop():
    labels = np.r_[np.zeros(1000), np.ones(1000)].astype(int)
    found = None
    for n in (100, 140, 180):
        taught = np.r_[np.arange(n - 5), np.arange(1000, 1005)]
        model = LogisticRegression().fit(labels[taught][:, None], labels[taught])
        given = {"X_training": taught[:, None].astype(float), "y_training": labels[taught], "scoring": "accuracy"}
        found = StoppingReport.from_learner(model, np.full((500, 1), 0.5), found, random_state=0, **given)
    assert found.rate < found.tolerance
    assert found.verdict == "cannot be told"


def test_where_a_class_is_rare_average_precision_counts_and_a_hundred_of_it_are_asked_for():
    rows, labels = make_classification(3000, 10, n_informative=6, weights=[0.97], flip_y=0, random_state=2)
    order = np.r_[np.flatnonzero(labels == 0)[:38], np.flatnonzero(labels == 1)[:2]]
    order = np.r_[order, np.setdiff1d(np.arange(3000), order)]
    rows, labels = rows[order], labels[order]
    found = loop(lambda n: LogisticRegression(), rows, labels, n_first=40, n_last=110)
    assert {report.scoring for report in found} == {"average_precision"}
    assert "stop" not in {report.verdict for report in found}  # accuracy alone stops at 70


def test_two_models_that_are_alike_gain_nothing_in_any_measure():
    p = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    for scoring, measure in MEASURES.items():
        assert measure(p, p, p) == 0, scoring
        assert measure(p, np.roll(p, 1, axis=0), p) > 0, scoring  # the truth is better than another row's


def test_average_precision_of_certain_labels_is_that_of_scikit_learn():
    rng = np.random.default_rng(3)
    labels, then, now = rng.integers(0, 2, 60), rng.random(60), rng.random(60).round(1)  # the latter with ties
    both = [np.c_[1 - p, p] for p in (labels.astype(float), then, now)]
    rarer = int(labels.mean() <= 0.5)
    scored = [average_precision_score(labels == rarer, p[:, rarer]) for p in both[1:]]
    assert MEASURES["average_precision"](*both) == pytest.approx(scored[1] - scored[0], rel=1e-9)
    recalls = [recall_score(labels, p.argmax(axis=1), average="macro") for p in both[1:]]
    assert MEASURES["balanced_accuracy"](*both) == pytest.approx(recalls[1] - recalls[0], rel=1e-9)


def test_test_labels_decide_where_they_can_tell():
    rows, model = np.arange(300, 1300), LogisticRegression(max_iter=200)
    tester = ActiveTester(StochasticBatchQuery("margin", "uniform", random_state=0), X[rows])
    tester.tell(Y[rows][tester.ask(fitted(50), 800)])
    found = chain(model, X, Y, (20, 60, 100), X[1300:], test=tester, tolerance=0.02)
    low, high = tester.difference(fitted(20), fitted(100)).interval(1 - 0.05 / (3 * 4))  # the third report
    assert found._tested_rates() == pytest.approx((100 * low / 80, 100 * high / 80))
    assert 100 * low / 80 >= 0.02
    assert f"(95 % interval, allowing for 3 looks, {100 * low:+.2g} to {100 * high:+.2g})" in str(found)
    assert found.verdict == "go on"
    assert chain(model, X, Y, (100, 200, 300), X[1300:], test=tester, tolerance=0.9).verdict == "stop"
