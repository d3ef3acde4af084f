"""Weights of training rows, and keywords of fits, in draws and refits: a weight is how many times a row counts."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from modAL.models import ActiveLearner
from scipy.special import expit
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skactive import StochasticBatchQuery, StoppingReport, run_experiment, sample_posterior
from skactive.posterior import bootstrap
from skactive.posterior._wrappers import weight_keyword
from skactive.query import score_pool

X, Y = make_classification(220, 5, n_informative=4, n_redundant=0, random_state=0)
N = 40
WEIGHT = np.where(Y[:N] == 1, 6.0, 1.0)
REPEATED = np.repeat(np.arange(N), WEIGHT.astype(int))
FIRST, POOL = X[:N], X[N : N + 60]
GIVEN = {"X_training": FIRST, "y_training": Y[:N]}


class Means(ClassifierMixin, BaseEstimator):
    """Classes at their means: as fast to fit as can be."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.array([0, 1])
        w = np.ones(len(y)) if sample_weight is None else sample_weight
        self.means_ = [w[y == c] @ X[y == c] / w[y == c].sum() for c in (0, 1)]
        return self

    def predict_proba(self, X):
        p = expit(X @ (self.means_[1] - self.means_[0]))
        return np.stack([1 - p, p], axis=-1)


class UnweightedMeans(Means):
    def fit(self, X, y):
        return super().fit(X, y)


def probabilities(estimator, rows, draws, weight=None):
    """Mean and standard deviation over draws of the probability of class 1, on the pool."""
    keyword = weight_keyword(estimator)
    model = estimator.fit(X[rows], Y[rows], **({} if weight is None or keyword is None else {keyword: weight}))
    p = draws(model, X[rows], Y[rows], weight)(POOL)[..., 1]
    return p.mean(axis=0), p.std(axis=0)


def laplace(model, X, y, weight):
    return sample_posterior(model, 4000, np.random.default_rng(0), X_training=X, y_training=y, sample_weight=weight)


def resampled(model, X, y, weight, n_draws=400):
    return bootstrap(model, X, y, n_draws, np.random.default_rng(0), sample_weight=weight)


@pytest.mark.parametrize(
    ("estimator", "draws"),
    [
        (LogisticRegression(), laplace),
        (UnweightedMeans(), resampled),
    ],
    ids=["Laplace", "without weights"],
)
def test_draws_of_a_weighted_model_are_those_of_repeated_rows(estimator, draws):
    mean, deviation = probabilities(estimator, REPEATED, draws)
    weighted_mean, weighted_deviation = probabilities(estimator, np.arange(N), draws, WEIGHT)
    plain = probabilities(estimator, np.arange(N), draws)[1]
    # Two means of n independent draws differ by deviation * sqrt(2 / n), deviations by less.
    tolerance = 4 * deviation.max() * np.sqrt(2 / (4000 if draws is laplace else 400))
    np.testing.assert_allclose(weighted_mean, mean, atol=tolerance)
    np.testing.assert_allclose(weighted_deviation, deviation, atol=tolerance)
    assert abs(plain - deviation).max() > tolerance  # the test can tell


def test_resamples_have_the_weight_of_each_class_and_of_the_rows_on_average():
    seen = []

    class Kept(Means):
        def fit(self, X, y, sample_weight=None):
            seen.append(sample_weight)
            return super().fit(X, y, sample_weight)

    for weight in (WEIGHT, WEIGHT / 100, WEIGHT * 2.5):
        seen.clear()
        resampled(Kept(), FIRST, Y[:N], weight, 300)
        counts = np.stack(seen)
        for c in (0, 1):
            np.testing.assert_allclose(counts[:, Y[:N] == c].sum(axis=1), weight[Y[:N] == c].sum())
        assert abs(counts.mean(axis=0) - weight).max() < 6 * counts.std(axis=0).max() / 17
    assert counts.std(axis=0).min() > 0


def learner_with(estimator, query, **keywords):
    return ActiveLearner(estimator, query, FIRST, Y[:N], **keywords)


@pytest.mark.parametrize(
    ("estimator", "keyword", "posterior"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), "logisticregression__sample_weight", "auto"),
        (GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2), "sample_weight", "auto"),
        (DecisionTreeClassifier(random_state=0), "sample_weight", "bootstrap"),
        (LogisticRegression(), "sample_weight", RandomForestClassifier(20, random_state=0)),
    ],
    ids=["pipeline", "search", "bootstrap", "forest as a surrogate"],
)
def test_a_learner_brings_the_weights_that_it_was_fitted_with(estimator, keyword, posterior):
    def scores(keywords, **options):
        query = StochasticBatchQuery("bald", beta=1.0, posterior=posterior, random_state=0)
        learner_with(estimator, query, **keywords).query(POOL, n_instances=3, **options)
        return query.scores_

    of_learner = scores({keyword: WEIGHT})
    np.testing.assert_array_equal(of_learner, scores({keyword: WEIGHT}, sample_weight=WEIGHT))
    assert abs(of_learner - scores({})).max() > 1e-3
    np.testing.assert_array_equal(scores({}), scores({keyword: np.ones(N)}))  # weights of 1 are none


@pytest.mark.parametrize("posterior", ["auto", "bootstrap"])
@pytest.mark.parametrize("only_new", [True, False])
def test_draws_are_of_the_rows_of_the_last_fit_and_of_their_weights(only_new, posterior):
    rows = np.arange(N if only_new else 0, N + 20)
    weight = np.where(Y[rows] == 1, 2.0, 1.0)
    query, again = (StochasticBatchQuery("bald", posterior=posterior, random_state=0) for _ in range(2))
    learner = learner_with(LogisticRegression(), query)
    learner.teach(X[N : N + 20], Y[N : N + 20], only_new=only_new, sample_weight=weight)
    learner.query(POOL, n_instances=3)
    model = LogisticRegression().fit(X[rows], Y[rows], sample_weight=weight)
    given = {"X_training": X[rows], "y_training": Y[rows], "sample_weight": pd.Series(weight)}
    again.select(model, POOL, 3, **given)
    np.testing.assert_array_equal(query.scores_, again.scores_)
    assert StoppingReport.from_learner(learner, POOL).labels == (len(rows),)


def test_draws_are_of_all_rows_where_a_fit_goes_on_from_the_last_one():
    query = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    learner = learner_with(LogisticRegression(warm_start=True), query)
    learner.teach(X[N : N + 20], Y[N : N + 20], only_new=True, sample_weight=np.full(20, 2.0))
    with pytest.warns(UserWarning, match="60 training rows.* last fitted with 20 weights.* counts? each row once"):
        learner.query(POOL, n_instances=3)


@pytest.mark.parametrize("case", ["asked for", "not asked for", "not passed on"])
def test_weights_go_where_metadata_routing_lets_them(case):
    with config_context(enable_metadata_routing=True):
        model = LogisticRegression().set_fit_request(sample_weight=case == "asked for")
        ada = AdaBoostClassifier(model, n_estimators=2)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        estimator = ada if case == "not passed on" else pipeline
        assert weight_keyword(estimator) == ("sample_weight" if case == "asked for" else None)
        bootstrap(estimator, FIRST, Y[:N], 2, np.random.default_rng(0), sample_weight=WEIGHT)
        query = StochasticBatchQuery("entropy", posterior=estimator, random_state=0)
        told = pytest.warns(UserWarning, match=r"unless a part asks .*set_fit_request")
        with nullcontext() if case == "asked for" else told:
            query.select(Means().fit(FIRST, Y[:N]), POOL, 2, **GIVEN, sample_weight=WEIGHT)


@pytest.mark.parametrize("weight", [WEIGHT[:-1], -WEIGHT, np.zeros(N)])
def test_weights_that_are_none_are_refused(weight):
    model, query = RandomForestClassifier(5).fit(FIRST, Y[:N]), StochasticBatchQuery("bald")
    for call in (
        lambda **w: query.select(model, POOL, 2, **GIVEN, **w),
        lambda **w: score_pool(model, POOL, **GIVEN, **w),
        lambda **w: bootstrap(model, FIRST, Y[:N], 2, np.random.default_rng(0), **w),
        lambda **w: run_experiment(model, {"a": query}, FIRST, Y[:N], n_initial=5, n_rounds=1, **w),
    ):
        with pytest.raises(ValueError, match="`sample_weight` must"):
            call(sample_weight=weight)


def test_training_data_by_halves_are_refused():
    query, model = StochasticBatchQuery("bald"), LogisticRegression().fit(FIRST, Y[:N])
    for given in ({"X_training": FIRST}, {"y_training": Y[:N]}, {"X_training": FIRST[:3], "y_training": Y[:N]}):
        with pytest.raises(ValueError, match="`X_training` and `y_training` must be given together"):
            query.select(model, POOL, 2, **given)


# --- keywords of fits


class Keeping(ClassifierMixin, BaseEstimator):
    """Fits like naive Bayes, and writes down the keywords it got."""

    fits = ()

    def fit(self, X, y, eval_set=None, offset=None):
        assert eval_set is not None
        if offset is not None:
            assert len(offset) == len(X)
            assert (np.asarray(offset) == np.asarray(X)[:, 0]).all()
        type(self).fits = (*self.fits, (len(X), eval_set))
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


EVAL = [(POOL[:10], Y[N : N + 10])]


@pytest.mark.parametrize("posterior", ["bootstrap", Keeping()])
def test_refits_and_surrogates_get_the_keywords_of_fits_and_arrays_follow_their_rows(posterior):
    params = {"eval_set": EVAL, "offset": FIRST[:, 0]}
    model, Keeping.fits = Keeping().fit(FIRST, Y[:N], **params), ()
    query = StochasticBatchQuery("margin", beta=1.0, posterior=posterior, random_state=0)
    query.select(model, POOL, 2, **GIVEN, fit_params=params)
    assert {n for n, _ in Keeping.fits} == {N}
    assert all(evaluated is EVAL for _, evaluated in Keeping.fits)


def test_a_learner_brings_the_keywords_it_was_fitted_with_to_its_own_refits_alone():
    query = StochasticBatchQuery("bald", beta=1.0, posterior="bootstrap", random_state=0)
    learner = learner_with(Keeping(), query, eval_set=EVAL)
    learner.query(POOL, n_instances=2)
    learner.query(POOL, n_instances=2, posterior=RandomForestClassifier(5))  # whose fit knows no eval_set
    with pytest.raises(TypeError, match=r"Fitting RandomForestClassifier, the `posterior`.*eval_set"):
        learner.query(POOL, n_instances=2, posterior=RandomForestClassifier(5), fit_params={"eval_set": EVAL})


def test_keywords_and_weights_that_are_none_are_refused():
    model, query = GaussianNB().fit(FIRST, Y[:N]), StochasticBatchQuery("bald")
    for params, message in (([1], "None or a dict"), ({"sample_weight": WEIGHT}, "not hold row weights.* `sample_w")):
        with pytest.raises(ValueError, match=f"`fit_params` must .*{message}"):
            query.select(model, POOL, 2, **GIVEN, fit_params=params)
    with pytest.raises(ValueError, match="`sample_weight` must be given along with `X_training` and `y_training`"):
        query.select(model, POOL, 2, sample_weight=WEIGHT)
