"""Learners in trouble: not fitted, fitted in part, of several labels, frozen, or with fewer members than draws."""

from __future__ import annotations

import numpy as np
import pytest
from modAL.models import ActiveLearner
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skactive import StochasticBatchQuery, StoppingReport
from skactive.posterior import bootstrap
from skactive.query import score_pool

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
    ],
)
def test_a_frozen_model_is_not_bootstrapped_into_equal_members(wrap):
    frozen = wrap(KNeighborsClassifier().fit(X[:40], Y[:40]))
    query = StochasticBatchQuery("bald", beta=1.0, posterior="bootstrap")
    with pytest.raises(ValueError, match=r"a FrozenEstimator, which stays as it is.* this KNeighborsClassifier"):
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
