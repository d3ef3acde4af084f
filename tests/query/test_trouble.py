"""Learners in trouble: not fitted, fitted in part, of several labels, frozen, or with fewer members than draws."""

from __future__ import annotations

import numpy as np
import pytest
from modAL.models import ActiveLearner, Committee
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from skactive import BADGEQuery, StochasticBatchQuery, StoppingReport, blocks, run_experiment
from skactive.posterior import bootstrap
from skactive.query import score_pool
from skactive.risk import ActiveTester

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
Y = (X[:, 0] > 0).astype(int)
ONES, OTHERS = np.flatnonzero(Y == 1)[:5], np.flatnonzero(Y == 0)[:5]
POOL = X[60:]


@pytest.mark.filterwarnings("ignore:.*fits failed")
@pytest.mark.parametrize(
    ("estimator", "score"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), "margin"),
        (GridSearchCV(LogisticRegression(), {}, cv=2), "bald"),
        (CalibratedClassifierCV(LogisticRegression(), cv=2), "margin"),
        (SVC(), "bald"),
    ],
)
def test_after_a_teach_of_one_class_a_learner_says_so_and_goes_on(estimator, score):
    query = StochasticBatchQuery(score, beta=1.0, posterior="auto", random_state=0)
    learner = ActiveLearner(estimator, query)
    with pytest.raises(ValueError, match=r"class|fits failed"):
        learner.teach(X[ONES], Y[ONES])
    with pytest.warns(UserWarning, match=r"last fit of this .* failed.* its labels are all 1.* uniform at random"):
        rows, _ = learner.query(POOL, n_instances=6)
    assert len(set(rows.tolist())) == 6
    assert np.isnan(query.scores_).all()
    with pytest.raises(ValueError, match="its labels are all 1"):
        score_pool(learner, POOL, score)
    with pytest.raises(ValueError, match="its labels are all 1"):
        StoppingReport.from_learner(learner, POOL)
    learner.teach(X[OTHERS], Y[OTHERS])
    if score == "margin" and hasattr(learner.estimator, "predict_proba"):
        learner.query(POOL, n_instances=6)
        assert np.isfinite(query.scores_).all()


def test_a_model_whose_fit_failed_is_told_from_a_fitted_one_without_a_learner():
    model = LogisticRegression()
    with pytest.raises(ValueError, match="one class"):
        model.fit(X[ONES], Y[ONES])
    with pytest.warns(UserWarning, match=r"it has no `coef_`, so there are no scores: the batch is uniform"):
        assert len(StochasticBatchQuery("margin", beta=1.0).select(model, POOL, 3)) == 3
    with pytest.raises(ValueError, match=r"it has no `coef_`, and its labels are all 1\. Fit it again, with labels"):
        score_pool(model, POOL, X_training=X[ONES], y_training=Y[ONES])


def test_a_model_that_was_fitted_before_a_teach_failed_goes_on_with_scores():
    query = StochasticBatchQuery("margin", beta=1.0, random_state=0)
    learner = ActiveLearner(RandomForestClassifier(5, random_state=0), query, X[:20], Y[:20])
    with pytest.raises(TypeError):
        learner.teach(X[20:22], Y[20:22], no_such_keyword=1)
    learner.query(POOL, n_instances=2)
    assert np.isfinite(query.scores_).all()


@pytest.mark.parametrize(
    "wrap",
    [
        FrozenEstimator,
        lambda model: make_pipeline(StandardScaler().fit(X[:40]), FrozenEstimator(model)),
        lambda model: CalibratedClassifierCV(FrozenEstimator(model)).fit(X[:40], Y[:40]),
        lambda model: VotingClassifier([("a", FrozenEstimator(model)), ("gone", "drop")]).fit(X[:40], Y[:40]),
        lambda model: StackingClassifier([("a", model)], cv="prefit").fit(X[:40], Y[:40]),
    ],
)
def test_a_frozen_model_is_not_bootstrapped_into_equal_members(wrap):
    frozen = wrap(KNeighborsClassifier().fit(X[:40], Y[:40]))
    query = StochasticBatchQuery("bald", beta=1.0, posterior="bootstrap")
    with pytest.raises(ValueError, match=r"be refitted.* FrozenEstimator.* (this KNeighbors|`cv` at None)"):
        query.select(frozen, POOL, 2, X_training=X[:40], y_training=Y[:40])


def test_a_frozen_step_before_the_model_is_no_obstacle():
    model = make_pipeline(FrozenEstimator(StandardScaler().fit(X)), KNeighborsClassifier()).fit(X[:40], Y[:40])
    draws = bootstrap(model, X[:40], Y[:40], 5, np.random.default_rng(0))(POOL)
    assert np.ptp(draws, axis=0).max() > 0


def test_scores_of_a_mean_take_all_members_where_more_draws_are_asked_for():
    model = CalibratedClassifierCV(LogisticRegression(), cv=3).fit(X[:40], Y[:40])
    queries = [StochasticBatchQuery("entropy", n_draws=n_draws) for n_draws in (20, None)]
    for query in queries:
        query.select(model, POOL, 2)
    np.testing.assert_array_equal(queries[0].scores_, queries[1].scores_)
    with pytest.raises(ValueError, match=r"`n_draws` must be an integer from 1 to the number of members.*, 3. Got 20"):
        StochasticBatchQuery("bald", n_draws=20).select(model, POOL, 2)


class Kept(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Keeps what it learns in ``model``, which says nothing to scikit-learn, and answers with lists."""

    steps, model = 100, None  # of its training: no pipeline
    change = staticmethod(np.ndarray.tolist)
    classes_ = property(lambda self: self.model.classes_.tolist())

    def fit(self, X, y):
        self.model = LogisticRegression().fit(X, y)
        return self

    def predict(self, X):
        return self.model.predict(X).tolist()

    def predict_proba(self, X):
        return self.change(self.model.predict_proba(X))


WITH = {"X_training": X[:60], "y_training": Y[:60]}
KEPT, INSIDE = Kept().fit(X[:60], Y[:60]), LogisticRegression().fit(X[:60], Y[:60])


def asked(model):
    """What uses of a model say that look at how fitted it is."""
    tester = ActiveTester(StochasticBatchQuery("margin", beta=1.0, epsilon=0.5, random_state=0), POOL)
    tester.tell(Y[60:][tester.ask(model, 10)])
    yield tester.risk(model).value
    bald = StochasticBatchQuery("bald", diversity=0, posterior="bootstrap", random_state=0)
    for query in (BADGEQuery(random_state=0), bald):
        yield query.select(model, POOL, 5, **WITH).tolist()
    learners = [ActiveLearner(clone(model), X_training=X[:n], y_training=Y[:n]) for n in (40, 60)]
    yield StochasticBatchQuery("bald", random_state=0).select(Committee(learners), POOL, 5).tolist()
    options = {"n_initial": 20, "n_rounds": 2, "batch_size": 5, "n_trials": 1, "random_state": 0}
    queries = {"q": StochasticBatchQuery("margin", beta=1.0, diversity=0)}
    rounds = run_experiment(clone(model), queries, X, Y, **options).rounds
    yield [done.indices for done in rounds]
    yield StoppingReport.from_learner(model, POOL, **WITH, random_state=0).commonest


def test_a_model_that_keeps_no_underscore_is_asked_whether_it_is_fitted():
    np.testing.assert_equal(list(asked(KEPT)), list(asked(INSIDE)))
    with pytest.raises(ValueError, match="1 features"):  # not taken for a model that is not fitted
        StochasticBatchQuery("margin").select(KEPT, POOL[:, :1], 5)


PRIOR = make_pipeline(FunctionTransformer(), GaussianProcessRegressor())  # predicts without labels


@pytest.mark.parametrize("new", [Kept(), PRIOR, Committee([ActiveLearner(Kept())])])
def test_a_model_that_learned_nothing_gets_a_random_batch(new):
    with pytest.warns(UserWarning, match=r"not fitted yet.* uniform at random"):
        StochasticBatchQuery("std_dev").select(new, POOL, 5, **WITH)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"classes_": property(lambda self: self.no_classes)}, r"has none\. Fit it, or set `self\.classes_`"),
        ({"change": lambda self, p: np.hstack([p, p]) / 2}, r"shape \(n_rows, 2\), a column for each of.* Got .*, 4"),
        ({"change": lambda self, p: np.array(list(map(tuple, p)), "f8, f8")}, r"each of its `classes_`.*'f0'"),
        ({"change": lambda self, p: np.ma.array(p, mask=p > 0.9)}, "`predict_proba` must be an array, without a mask"),
        ({"change": lambda self, p: 100 * p}, r"This Kept gave no probabilities.* sums to 100"),
    ],
)
def test_answers_that_are_no_probabilities_of_classes_are_refused(members, message):
    model = type("Kept", (Kept,), members)().fit(X[:60], Y[:60])
    tester = ActiveTester(StochasticBatchQuery("margin", epsilon=0.5, beta=1.0), POOL)
    tester.tell(Y[60:][tester.ask(INSIDE, 5)])
    asks = [lambda: StoppingReport.from_learner(model, POOL, **WITH), lambda: tester.risk(model, "log_loss")]
    if "change" in members:  # scores need no names of classes
        asks += [lambda: score_pool(model, POOL, "margin"), lambda: BADGEQuery().select(model, POOL, 2)]
    for ask in asks:
        with pytest.raises((TypeError, ValueError), match=message):
            ask()


FOREST, NEW = RandomForestClassifier(5, random_state=0).fit(X, Y), LogisticRegression()


@pytest.mark.parametrize(
    ("query", "lack"),
    [
        (StochasticBatchQuery(lambda m, X: X @ m.coef_[0]), "coef_"),
        (StochasticBatchQuery(lambda draws: draws[0, :, 0] * FOREST.oob_score_), "oob_score_"),
        (StochasticBatchQuery(lambda m, X: NEW.predict_proba(X)[:, 0]), "LogisticRegression.* not fitted"),
        (StochasticBatchQuery(lambda m, X: score_pool(NEW, X, "margin")["margin"]), "LogisticRegression.* not fitted"),
        (StochasticBatchQuery(diversity=1.0, space=lambda m, X: X * m.coef_), "coef_"),
    ],
)
def test_a_function_of_the_user_s_that_fails_is_an_error_and_no_failed_fit(query, lack):
    with pytest.raises((ValueError, RuntimeError), match=lack):
        query.select(FOREST, blocks(iter([POOL[:30], POOL[30:]])), 3)  # which can be read once
