"""Ensembles and committees: members are draws, in the ensemble's classes, and their mean is what the ensemble says."""

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from modAL.models import ActiveLearner, Committee, CommitteeRegressor
from modAL.uncertainty import classifier_margin
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skactive import StochasticBatchQuery, sample_posterior
from skactive.posterior import bootstrap, check_posterior
from skactive.scores import bald, variation_ratio

X, codes = load_iris(return_X_y=True)
y = np.array(["virginica", "setosa", "versicolor"])[codes]  # sorted order is not the order of the codes
X_reg, t = load_diabetes(return_X_y=True)


def rng(seed=0):
    return np.random.default_rng(seed)


def draws_of(estimator, rows, n_draws=None, **training):
    return sample_posterior(estimator, n_draws, rng(), **training)(rows)


def voting(**options):
    members = [("nb", GaussianNB()), ("gone", "drop"), ("tree", DecisionTreeClassifier(max_depth=2, random_state=0))]
    return VotingClassifier([*members, ("knn", KNeighborsClassifier())], **options)


AVERAGING = {
    "bagging, some columns": (BaggingClassifier(GaussianNB(), 7, max_features=2, random_state=0), 7),
    "members miss classes": (BaggingClassifier(KNeighborsClassifier(1), 15, max_samples=3, random_state=0), 15),
    "bagging of voters": (BaggingClassifier(RidgeClassifier(), 5, random_state=0), 5),
    "voting": (voting(voting="soft"), 3),
    "voting, whole weights": (voting(voting="soft", weights=[1, 5, 3, 2]), 6),
    "calibrated": (CalibratedClassifierCV(GaussianNB(), cv=4), 4),
    "calibrated voters": (CalibratedClassifierCV(RidgeClassifier(), cv=3, method="isotonic"), 3),
}


@pytest.mark.parametrize("name", AVERAGING)
def test_the_mean_of_the_members_is_predict_proba(name):
    estimator, n_members = AVERAGING[name]
    estimator.fit(X, y)
    draws = draws_of(estimator, X)
    assert draws.shape == (n_members, 150, 3)
    np.testing.assert_allclose(draws.mean(0), estimator.predict_proba(X), rtol=0, atol=1e-12)
    check_posterior(estimator, X[::10])


def test_weights_that_are_many_or_not_whole_are_met_in_proportion():
    for weights in ([0.2, 9, 0.35, 0.45], [60, 9, 30, 31]):
        estimator = voting(voting="soft", weights=weights).fit(X, y)
        draws = draws_of(estimator, X)
        assert len(draws) == 100
        np.testing.assert_allclose(draws.mean(0), estimator.predict_proba(X), atol=0.01)


def test_hard_voting_draws_one_vote_a_member():
    estimator = voting(voting="hard").fit(X, y)
    draws = draws_of(estimator, X)
    np.testing.assert_array_equal(np.unique(draws), [0, 1])
    np.testing.assert_array_equal(estimator.classes_[draws.mean(0).argmax(1)], estimator.predict(X))


@pytest.mark.parametrize("labels", [y, codes, codes + 1], ids=["texts", "codes", "numbers from 1 on"])
@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_members_fitted_beforehand_answer_in_the_columns_of_their_own_labels(voting, labels):
    some = labels != np.unique(labels)[0]
    members = GaussianNB().fit(X, labels), GaussianNB().fit(X[some], labels[some])  # they know labels, others positions
    frozen = [(f"{id(member)}", FrozenEstimator(member)) for member in members]
    estimator = VotingClassifier(frozen, voting=voting).fit(X, labels)
    draws = draws_of(estimator, X)
    if voting == "soft":  # scikit-learn averages columns as they stand
        with pytest.raises(ValueError, match="one was fitted to others"):
            StochasticBatchQuery("entropy").select(estimator, X, 2)
    for member, of_member in zip(members, draws, strict=True):
        inside = np.isin(estimator.classes_, member.classes_)
        p = member.predict_proba(X)
        expected = p if voting == "soft" else member.predict(X)[:, None] == member.classes_
        np.testing.assert_array_equal(of_member[:, inside], expected)
        assert not of_member[:, ~inside].any()
        bagging = BaggingClassifier(FrozenEstimator(member), 2, random_state=0).fit(X, labels)
        np.testing.assert_array_equal(draws_of(bagging, X)[0][:, inside], p)


def test_members_that_know_other_labels_than_their_ensemble_are_refused():
    frozen, some = FrozenEstimator(GaussianNB().fit(X, codes)), codes > 0
    for estimator in (VotingClassifier([("a", frozen)], voting="soft"), BaggingClassifier(frozen, 2)):
        with pytest.raises(ValueError, match=r"know only its classes, \[1 2\].* FrozenEstimator .* \[0\] as well"):
            draws_of(estimator.fit(X[some], codes[some]), X)


def test_a_soft_vote_takes_members_that_were_fitted_to_positions_of_its_labels():
    frozen = FrozenEstimator(GaussianNB().fit(X, codes))
    vote = VotingClassifier([("a", frozen)], voting="soft").fit(X, y)
    batches = [StochasticBatchQuery("entropy", random_state=0).select(model, X, 3).tolist() for model in (frozen, vote)]
    assert batches[0] == batches[1]


class Configured(GaussianNB):
    def fit(self, X, y, sample_weight=None):
        self.config_ = get_config()
        return super().fit(X, y)


def test_refits_have_the_configuration_of_scikit_learn():
    with config_context(transform_output="pandas"), parallel_config("threading"):
        predict_draws = bootstrap(Configured(), X, y, 2, rng(), n_jobs=2)
    assert all(m.config_["transform_output"] == "pandas" for m in predict_draws.args[0])


def test_the_mean_of_the_members_of_a_regressor_is_its_prediction():
    bagging = BaggingRegressor(KNeighborsRegressor(), 2, max_features=3, random_state=0)
    for estimator in (bagging, VotingRegressor([("a", LinearRegression()), ("b", KNeighborsRegressor())])):
        draws = draws_of(estimator.fit(X_reg, t), X_reg)
        assert draws.shape == (2, len(t))
        np.testing.assert_allclose(draws.mean(0), estimator.predict(X_reg))


CITIES = rng(1).choice(np.array(["bern", "rome", "oslo"], dtype=object), 80)
CODES = rng(2).choice(np.array(["01", "1", "02", "007"], dtype=object), 80)  # texts that read as numbers
GAPS = np.where(np.arange(80) % 9 == 0, None, CITIES)
WITH_TEXTS = {
    "frame with gaps": pd.DataFrame({"n": rng(3).normal(size=80), "city": GAPS}),
    "array with gaps": np.column_stack([np.arange(80).astype(object) % 7, GAPS]),
    "codes": CODES[:, np.newaxis],
}


@pytest.mark.parametrize("name", WITH_TEXTS)
def test_members_of_bagging_see_texts_as_bagging_gives_them(name):
    rows = WITH_TEXTS[name]
    labels = (CITIES == "bern") | np.isin(CODES, ["01", "007"])
    encoder = OneHotEncoder(handle_unknown="ignore")
    options = {"max_features": 1, "random_state": 0}
    bagging = BaggingClassifier(make_pipeline(encoder, LogisticRegression()), 5, **options).fit(rows, labels)
    draws = draws_of(bagging, rows)
    np.testing.assert_allclose(draws.mean(axis=0), bagging.predict_proba(rows), rtol=0, atol=1e-15)
    assert draws.std(axis=0).max() > 0.01
    bagging = BaggingRegressor(make_pipeline(encoder, LinearRegression()), 5, **options).fit(rows, labels * 1.0)
    np.testing.assert_allclose(draws_of(bagging, rows).mean(axis=0), bagging.predict(rows), rtol=0, atol=1e-12)


def test_sparse_pools_give_bagging_the_draws_of_dense_ones():  # modAL-python/modAL PR 105
    D = rng().poisson(0.3, size=(60, 12)).astype(float)
    labels = (D[:, 0] + D[:, 1] > D[:, 2] + D[:, 3]).astype(int)
    for convert in (sparse.csr_matrix, sparse.csc_array):
        bagging = BaggingClassifier(LogisticRegression(), 6, max_features=5, random_state=0).fit(convert(D), labels)
        draws = sample_posterior(bagging, None, rng())
        np.testing.assert_allclose(draws(convert(D)), draws(D), atol=1e-9)


def committee():
    """Members that know different classes: modAL-python/modAL 97."""
    ends = np.array([[0.0], [1.0]])
    pairs = [["ape", "bee"], ["cat", "bee"], ["ape", "cat"]]
    learners = [
        ActiveLearner(DecisionTreeClassifier(random_state=0), X_training=ends, y_training=np.array(pair))
        for pair in pairs
    ]
    return Committee(learners, StochasticBatchQuery("bald", beta=1.0, random_state=0))


def test_a_committee_draws_from_the_union_of_classes():
    draws = draws_of(committee(), np.array([[0.0], [1.0]]))
    expected = [[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 0, 1]]]
    np.testing.assert_array_equal(draws, expected)
    h = -(2 / 3) * np.log(2 / 3) - (1 / 3) * np.log(1 / 3)
    np.testing.assert_allclose(bald(draws), [h, h], atol=1e-9)
    np.testing.assert_allclose(variation_ratio(draws), [1 / 3, 1 / 3], atol=1e-9)


def test_a_committee_of_models_of_several_outputs_is_refused():
    learner = ActiveLearner(DecisionTreeClassifier(), X_training=X, y_training=np.eye(2)[codes % 2])
    with pytest.raises(ValueError, match="one output per row for committees"):
        draws_of(Committee([learner, learner]), X)


def test_a_committee_of_regressors_draws_what_each_says():
    learners = [ActiveLearner(DecisionTreeRegressor(), X_training=X_reg[i::5], y_training=t[i::5]) for i in range(4)]
    expected = [learner.predict(X_reg) for learner in learners]
    np.testing.assert_array_equal(draws_of(CommitteeRegressor(learners), X_reg), expected)


def test_modals_margin_is_refused_because_it_is_small_where_a_model_is_unsure():
    learner = ActiveLearner(GaussianNB(), StochasticBatchQuery(classifier_margin, beta=1.0), X[::10], y[::10])
    with pytest.raises(ValueError, match='score="margin"'):
        learner.query(X, n_instances=3)


def test_check_posterior_finds_draws_that_break_the_promise():
    class Mine:
        def __init__(self, draws):
            self.draws = draws

        def sample_posterior(self, n_draws, rng):
            return lambda X: self.draws(X, n_draws)

    for draws, match in (
        (lambda X, n: np.full((len(X), n, 2), 0.5), "whichever rows"),  # as many draws as rows: only a probe tells
        (lambda X, n: np.full((n, len(X), 2), 0.6), "summing to 1"),
        (lambda X, n: rng(len(X)).dirichlet([1, 1], (n, len(X))), "whichever rows"),
        (lambda X, n: np.full((n, len(X), 2), 0.5), "all equal"),
    ):
        with pytest.raises(ValueError, match=match):
            check_posterior(Mine(draws), X[:6], n_draws=6)


def test_gaussian_bald_takes_the_noise_of_the_model_where_it_has_one():
    class Noisy(RandomForestRegressor):
        noise_variance_ = 100.0

    query = StochasticBatchQuery("gaussian_bald", beta=1.0, random_state=0)
    model = make_pipeline(StandardScaler(), Noisy(6, random_state=0)).fit(X_reg[:100], t[:100])
    query.select(model, X_reg[100:], 4)
    draws = draws_of(model, X_reg[100:])
    np.testing.assert_allclose(query.scores_, 0.5 * np.log1p(draws.var(0) / 100), atol=1e-12)
    with pytest.raises(ValueError, match="noise_variance_"):
        query.select(RandomForestRegressor(5).fit(X_reg, t), X_reg, 3)
