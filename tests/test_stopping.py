"""Reports on whether to go on: gains equal their definition, verdicts follow from them, nothing is changed."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_regression
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor, VotingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.preprocessing import LabelEncoder
from sklearn.tree import DecisionTreeClassifier

from skactive import MCDropoutClassifier, StochasticBatchQuery
from skactive.risk import RiskEstimate
from skactive.scores import bald
from skactive.stopping import BEST, MOST_ROWS, StoppingReport

X, Y = load_digits(return_X_y=True)
X = X / 16
POOL = X[300:]


def fitted(n, estimator=None):
    return clone(LogisticRegression(max_iter=200) if estimator is None else estimator).fit(X[:n], Y[:n])


def report(n, previous=None, estimator=None, pool=POOL, **options):
    model = fitted(n, estimator)
    return StoppingReport.from_learner(
        model, pool, previous, X_training=X[:n], y_training=Y[:n], **{"random_state": 0, **options}
    )


class Draws:
    """A classifier whose draws, and so predictions, are given row by row; X holds positions."""

    _estimator_type = "classifier"

    def __init__(self, draws):
        self.draws = np.asarray(draws, dtype=float)  # (n_draws, n_points, n_classes)
        self.classes_ = np.arange(self.draws.shape[2])

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return self.draws.mean(axis=0)[np.asarray(X)[:, 0].astype(int)]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def sample_posterior(self, n_draws, rng):
        return lambda X: self.draws[:, np.asarray(X)[:, 0].astype(int)]


def of_draws(draws, previous=None, **options):
    rows = np.arange(np.shape(draws)[1])[:, None]
    return StoppingReport.from_learner(Draws(draws), rows, previous, random_state=0, **options)


def random_draws(seed, n_draws=8, n_points=200, n_classes=3):
    return np.random.default_rng(seed).dirichlet(np.ones(n_classes), (n_draws, n_points))


# ---------------------------------------------------------------------------------------------------------------- gains


def test_gain_and_changed_equal_their_definitions_row_by_row():
    before, now = Draws(random_draws(0)), Draws(random_draws(1))
    gain = changed = 0.0
    for row in range(200):
        p = now.draws[:, row].mean(axis=0)
        old, new = before.draws[:, row].mean(axis=0).argmax(), p.argmax()
        gain += (p[new] - p[old]) / 200
        changed += (old != new) / 200
    found = of_draws(now.draws, of_draws(before.draws))
    assert found.gain == pytest.approx(gain, rel=1e-12)
    assert found.changed == pytest.approx(changed, rel=1e-12)
    assert found.n_rows == 200


def test_accuracy_cannot_change_by_more_than_the_part_of_predictions_that_changed():
    pool, labels = X[300:1300], Y[300:1300]
    previous, accuracy = report(30, pool=pool), np.mean(fitted(30).predict(pool) == labels)
    for n in (40, 60, 100, 200):
        previous, accuracy_before = report(n, previous, pool=pool), accuracy
        accuracy = np.mean(fitted(n).predict(pool) == labels)
        assert previous.n_rows == len(pool)
        assert abs(accuracy - accuracy_before) <= previous.changed + 1e-12


def test_the_same_model_brings_nothing():
    found = report(50, report(50))
    assert (found.gain, found.changed) == (0.0, 0.0)
    assert found.changed_interval()[0] == 0.0


def test_a_class_that_appears_counts_as_any_other():
    two = np.flatnonzero(Y[:300] < 2)[:40]
    model = LogisticRegression().fit(X[two], Y[two])
    first = StoppingReport.from_learner(model, POOL, X_training=X[two], y_training=Y[two], random_state=0)
    found = report(300, first)
    assert found.changed > 0.6  # rows of the other eight classes
    assert 0.3 < found.gain < found.changed


def test_without_probabilities_the_gain_is_the_part_that_changed():
    options = {"estimator": RidgeClassifier(), "posterior": RandomForestClassifier(10, random_state=0)}
    found = report(60, report(30, **options), **options)
    assert found.gain == found.changed > 0


def test_a_regressor_gains_the_square_of_what_changed():
    X, y = make_regression(400, 5, noise=5.0, random_state=0)
    models = [RandomForestRegressor(20, random_state=0).fit(X[:n], y[:n]) for n in (20, 60)]
    first = StoppingReport.from_learner(models[0], X[100:], random_state=0)
    found = StoppingReport.from_learner(models[1], X[100:], first, random_state=0)
    old, new = (model.predict(X[100:]) for model in models)
    assert found.gain == pytest.approx(np.mean((new - old) ** 2) / new.var(), rel=1e-12)
    assert np.isnan(found.changed)
    assert np.isnan(found.changed_interval()).all()
    assert found.ceiling == np.inf
    assert found.best_score > found.mean_score > 0


def test_a_regressor_of_constant_predictions_does_not_divide_by_zero():
    X = make_regression(60, 3, random_state=0)[0]
    models = [RandomForestRegressor(5, random_state=0).fit(X[:20], np.full(20, value)) for value in (1.0, 2.0)]
    first, same = (StoppingReport.from_learner(models[0], X, previous) for previous in (None, None))
    assert StoppingReport.from_learner(models[0], X, first).gain == 0.0
    assert StoppingReport.from_learner(models[1], X, same).gain == 1.0


# --------------------------------------------------------------------------------------------------------------- scores


def test_best_rows_are_chosen_by_one_half_of_the_draws_and_scored_by_the_other():
    draws = random_draws(2, n_draws=10, n_points=100)
    even, odd = bald(draws[::2]), bald(draws[1::2])
    n_best = round(BEST * 100)
    expected = (odd[np.argsort(-even)[:n_best]].mean() + even[np.argsort(-odd)[:n_best]].mean()) / 2
    found = of_draws(draws)
    assert found.best_score == pytest.approx(expected, rel=1e-12)
    assert found.mean_score == pytest.approx(bald(draws).mean(), rel=1e-12)
    assert found.ceiling == pytest.approx(np.log(3))


def test_rows_that_differ_by_luck_alone_are_seldom_told_apart():
    # All rows have one law. The floor is two standard errors above the mean of scores by all draws, which is above that
    # of scores by half of them: fewer than one in twenty exceed it.
    above = [found.best_score > found.floor for found in (of_draws(random_draws(seed)) for seed in range(100))]
    assert np.mean(above) < 0.05 + 5 * np.sqrt(0.05 * 0.95 / 100)


def test_rows_that_the_model_does_not_know_are_above_the_floor():
    draws = random_draws(3, n_draws=20, n_points=400)
    draws[:, 40:] = draws[:1, 40:]  # on all others the draws agree
    found = of_draws(draws)
    assert found.best_score > found.floor > found.mean_score
    assert "The best tenth of the pool scores" in str(found)


def test_draws_that_disagree_as_much_as_they_can_are_at_the_ceiling():
    draws = np.zeros((6, 50, 6))
    draws[np.arange(6), :, np.arange(6)] = 1.0  # each is sure of another class
    found = of_draws(draws)
    assert found.ceiling == pytest.approx(np.log(6))
    assert found.mean_score == pytest.approx(found.ceiling)


def test_few_members_give_a_report_without_a_floor():
    voters = VotingClassifier([(str(i), DecisionTreeClassifier(random_state=i)) for i in range(3)], voting="soft")
    found = StoppingReport.from_learner(voters.fit(X[:60], Y[:60]), POOL)
    assert np.isnan(found.floor)
    assert found.best_score >= found.mean_score


# ------------------------------------------------------------------------------------------------------------- verdicts


def sequence(gains, **options):
    """The last of reports whose gains are these: in each, so many rows of a thousand become surely another class."""
    labels = np.zeros(1000, dtype=int)
    found, at = of_draws(_sure(labels), **options), 0
    for gain in gains:
        labels = labels.copy()
        labels[at : at + round(1000 * gain)] += 1
        found, at = of_draws(_sure(labels), found, **options), at + round(1000 * gain)
    return found


def _sure(labels):
    draws = np.zeros((4, len(labels), 3))
    draws[:, np.arange(len(labels)), labels] = 1.0
    return draws


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([], "too early"),
        ([0.004], "too early"),
        ([0.004, 0.001], "too early"),
        ([0.004, 0.001, 0.001], "stop"),
        ([0.2], "go on"),
        ([0.2, 0.0], "go on"),
        ([0.2, 0.0, 0.0], "go on"),
        ([0.2, 0.0, 0.0, 0.0], "stop"),
        ([0.0, 0.0, 0.2], "go on"),
        ([0.001, 0.001, 0.013], "go on"),  # the mean is the tolerance
        ([0.0, 0.0, 0.0, 0.2], "go on"),
    ],
)
def test_the_verdict_follows_from_the_last_gains(gains, verdict):
    found = sequence(gains)
    assert found.gains == pytest.approx(gains, abs=1e-12)
    assert found.verdict == verdict


def test_tolerance_and_patience_are_the_users():
    assert sequence([0.02, 0.02], patience=2).verdict == "go on"
    assert sequence([0.02, 0.02], patience=2, tolerance=0.03).verdict == "stop"
    assert sequence([0.02], patience=1, tolerance=0.03).verdict == "stop"


def test_a_risk_surely_below_its_target_stops_whatever_the_gains():
    low = RiskEstimate(0.02, 0.005, n_labelled=100, n_pool=1000)
    assert sequence([0.2], risk=low, target_risk=0.05).verdict == "stop"
    assert sequence([0.2], risk=low, target_risk=0.025).verdict == "go on"  # within its interval
    assert sequence([0.2], risk=low).verdict == "go on"
    assert "below its target of 0.05" in str(sequence([0.2], risk=low, target_risk=0.05))


def test_labels_that_bring_nothing_and_miss_the_target_call_for_another_model():
    high = RiskEstimate(0.2, 0.01, n_labelled=100, n_pool=1000)
    found = sequence([0.0, 0.0, 0.0], risk=high, target_risk=0.05)
    assert found.verdict == "stop"
    assert "misses its target" in str(found)


# ------------------------------------------------------------------------------------------------------------ sentences


def test_sentences_name_labels_points_and_bounds():
    found = report(60, report(20))
    low, high = found.changed_interval()
    assert low < found.changed < high
    text = str(found)
    assert text.startswith("60 labels: go on. By the model's own reckoning the last batch brought ")
    assert f"{100 * found.gain:.2g} points, no less than the 0.5 that make one worth its price." in text
    assert (
        f"The last batch changed {100 * found.changed:.2g} % of the predictions ({100 * high:.2g} % at most)." in text
    )


def test_the_first_report_says_when_to_look_again():
    assert str(report(50, patience=4)).startswith("50 labels: too early. Report after each of the next 4 batches")


def test_without_training_data_the_number_of_labels_is_left_out():
    forest = RandomForestClassifier(10, random_state=0)
    found = StoppingReport.from_learner(fitted(50, forest), POOL, random_state=0)
    assert found.n_labelled is None
    assert str(found).startswith("too early.")


def test_rows_are_in_no_text():
    assert "Kept" not in repr(report(50))


# ---------------------------------------------------------------------------------------------- learners and containers


def test_a_loop_with_a_modal_learner_ends():
    learner = ActiveLearner(
        RandomForestClassifier(20, random_state=0),
        StochasticBatchQuery(beta=4, random_state=0),
        X_training=X[:50],
        y_training=Y[:50],
    )
    left = np.arange(300, len(X))
    found = StoppingReport.from_learner(learner, X[left], tolerance=0.02, random_state=0)
    for _ in range(30):
        if found.verdict == "stop":
            break
        rows, _ = learner.query(X[left], n_instances=10)
        learner.teach(X[left[rows]], Y[left[rows]])
        left = np.delete(left, rows)
        found = StoppingReport.from_learner(learner, X[left], found, tolerance=0.02, random_state=0)
    assert found.verdict == "stop"
    assert found.n_labelled == 50 + 10 * len(found.gains)
    assert np.mean(found.gains[-3:]) < 0.02


@pytest.mark.parametrize("container", [list, pd.DataFrame, sparse.csr_array], ids=["list", "DataFrame", "sparse"])
def test_the_container_changes_nothing(container):
    array = report(80, report(40))
    pool = container(POOL.tolist() if container is list else POOL)
    found = report(80, report(40, pool=pool), pool=pool)
    assert found.gains == pytest.approx(array.gains, rel=1e-9)
    assert found.best_score == pytest.approx(array.best_score, rel=1e-9)


def test_labels_may_be_text():
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[Y]
    found = None
    for n in (40, 80):
        model = LogisticRegression(max_iter=200).fit(X[:n], names[:n])
        given = {"X_training": X[:n], "y_training": names[:n]}
        found = StoppingReport.from_learner(model, POOL, found, random_state=0, **given)
    order = LabelEncoder().fit(names).classes_
    assert set(found._kept.predictions) <= set(order)
    assert found.gain == pytest.approx(report(80, report(40)).gain, rel=1e-3)


def test_a_large_pool_is_looked_at_in_part():
    pool = np.tile(POOL, (3, 1))
    assert report(50, pool=pool).n_rows == MOST_ROWS < len(pool)


def test_the_same_rows_are_compared_while_the_pool_shrinks():
    first = report(40)
    later = report(80, report(60, first, pool=POOL[200:]), pool=POOL[400:])
    assert later._kept.X is first._kept.X


def test_a_seed_gives_the_same_report_and_a_pickled_one_goes_on():
    options = {"estimator": RandomForestClassifier(10, random_state=0)}
    first, again = report(40, **options), report(40, **options)
    assert first == again
    assert report(60, pickle.loads(pickle.dumps(first)), **options) == report(60, first, **options)


@pytest.mark.usefixtures("global_state_untouched")
def test_nothing_is_changed():
    net = MCDropoutClassifier((16,), max_epochs=5, device="cpu", random_state=0).fit(X[:60], Y[:60])
    pool, mode = POOL.copy(), net.net_.module_.training
    first = StoppingReport.from_learner(net, pool, random_state=0)
    gains = first.gains
    StoppingReport.from_learner(net, pool, first, random_state=0)
    np.testing.assert_array_equal(pool, POOL)
    assert net.net_.module_.training is mode
    assert first.gains == gains == ()


def test_models_without_draws_are_bootstrapped_on_their_training_data():
    with pytest.warns(UserWarning, match="bootstrap"):
        found = report(60, estimator=DecisionTreeClassifier(random_state=0))
    assert found.mean_score > 0


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tolerance": -0.1}, ValueError, "`tolerance` must be the gain"),
        ({"tolerance": "5 %"}, ValueError, "`tolerance` must be the gain"),
        ({"patience": 0}, ValueError, "`patience`"),
        ({"patience": None}, TypeError, "`patience`"),
        ({"risk": 0.1}, TypeError, "`risk` must be a RiskEstimate"),
        ({"target_risk": 0.1}, ValueError, "`risk`, which is missing"),
        ({"target_risk": np.nan, "risk": RiskEstimate(0.1, 0.1, 5, 10)}, ValueError, "`target_risk` must be a number"),
        ({"previous": "report"}, TypeError, "`previous` must be the StoppingReport"),
        ({"pool": POOL[:0]}, ValueError, "pool"),
        ({"pool": POOL[:, :5]}, ValueError, "64"),
    ],
)
def test_bad_input_is_named(options, error, words):
    with pytest.raises(error, match=words):
        report(50, **options)


def test_a_report_on_other_rows_is_refused():
    with pytest.raises(ValueError, match="`previous` must be a report on rows like those"):
        report(50, report(50, pool=pd.DataFrame(POOL)))


def test_an_unfitted_model_is_refused():
    with pytest.raises(ValueError, match="fit"):
        StoppingReport.from_learner(LogisticRegression(), POOL)


def test_several_targets_are_refused():
    model = LinearRegression().fit(X[:50], X[:50, :2])
    surrogate = RandomForestRegressor(5, random_state=0)
    with pytest.raises(ValueError, match="one target"):
        StoppingReport.from_learner(model, POOL, posterior=surrogate, X_training=X[:50], y_training=Y[:50])
