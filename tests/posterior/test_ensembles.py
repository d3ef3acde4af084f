"""Ensembles and wrappers: members are draws, in the ensemble's classes, and their mean is what the ensemble says."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from modAL.disagreement import vote_entropy
from modAL.models import ActiveLearner, Committee, CommitteeRegressor
from modAL.uncertainty import classifier_entropy, classifier_margin, classifier_uncertainty
from modAL.utils.combination import make_linear_combination
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skactive import MCDropoutClassifier, MCDropoutRegressor, StochasticBatchQuery, sample_posterior
from skactive.posterior import check_posterior
from skactive.scores import bald, std_dev, variation_ratio

X, codes = load_iris(return_X_y=True)
y = np.array(["virginica", "setosa", "versicolor"])[codes]  # sorted order is not the order of the codes
X_reg, t = load_diabetes(return_X_y=True)


def rng(seed=0):
    return np.random.default_rng(seed)


def voting(**options):
    members = [("nb", GaussianNB()), ("gone", "drop"), ("tree", DecisionTreeClassifier(max_depth=2, random_state=0))]
    return VotingClassifier([*members, ("knn", KNeighborsClassifier())], **options)


AVERAGING = {
    "bagging": (BaggingClassifier(n_estimators=7, random_state=0), 7),
    "bagging, some columns": (BaggingClassifier(GaussianNB(), 7, max_features=2, random_state=0), 7),
    "bagging, members miss classes": (
        BaggingClassifier(KNeighborsClassifier(1), 15, max_samples=3, random_state=0),
        15,
    ),
    "bagging of voters": (BaggingClassifier(RidgeClassifier(), 5, random_state=0), 5),
    "voting": (voting(voting="soft"), 3),
    "voting, whole weights": (voting(voting="soft", weights=[1, 5, 3, 2]), 6),
    "calibrated": (CalibratedClassifierCV(GaussianNB(), cv=4), 4),
    "calibrated voters": (CalibratedClassifierCV(RidgeClassifier(), cv=3, method="isotonic"), 3),
    "bagging in a pipeline": (make_pipeline(StandardScaler(), BaggingClassifier(n_estimators=4, random_state=0)), 4),
}


@pytest.mark.parametrize("name", AVERAGING)
def test_the_mean_of_the_members_is_predict_proba(name):
    estimator, n_members = AVERAGING[name]
    estimator.fit(X, y)
    draws = sample_posterior(estimator, None, rng())(X)
    assert draws.shape == (n_members, 150, 3)
    np.testing.assert_allclose(draws.mean(0), estimator.predict_proba(X), rtol=0, atol=1e-12)
    check_posterior(estimator, X[::10])


def test_weights_that_are_not_whole_are_met_in_proportion():
    estimator = voting(voting="soft", weights=[0.2, 9, 0.35, 0.45]).fit(X, y)
    draws = sample_posterior(estimator, None, rng())(X)
    np.testing.assert_allclose(draws.mean(0), estimator.predict_proba(X), atol=0.01)


def test_hard_voting_draws_one_vote_a_member():
    estimator = voting(voting="hard").fit(X, y)
    draws = sample_posterior(estimator, None, rng())(X)
    np.testing.assert_array_equal(np.unique(draws), [0, 1])
    winners = estimator.classes_[draws.mean(0).argmax(1)]
    np.testing.assert_array_equal(winners, estimator.predict(X))


def test_members_of_a_voting_classifier_speak_codes_and_columns_are_its_classes():
    # scikit-learn 12189
    estimator = voting(voting="soft").fit(X, y)
    draws = sample_posterior(estimator, None, rng())(X)
    for member, draw in zip(estimator.estimators_, draws, strict=True):
        np.testing.assert_array_equal(estimator.classes_[draw.argmax(1)], estimator.classes_[member.predict(X)])
    assert (estimator.classes_[draws[0].argmax(1)] == y).mean() > 0.9


REGRESSORS = {
    "bagging": (BaggingRegressor(n_estimators=6, random_state=0), 6),
    "bagging, some columns": (BaggingRegressor(KNeighborsRegressor(), 6, max_features=3, random_state=0), 6),
    "voting": (VotingRegressor([("a", LinearRegression()), ("b", DecisionTreeRegressor(max_depth=3))]), 2),
    "frozen": (FrozenEstimator(RandomForestRegressor(5, random_state=0).fit(X_reg, t)), 5),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_the_mean_of_the_members_of_a_regressor_is_its_prediction(name):
    estimator, n_members = REGRESSORS[name]
    estimator.fit(X_reg, t)
    draws = sample_posterior(estimator, None, rng())(X_reg)
    assert draws.shape == (n_members, len(t))
    np.testing.assert_allclose(draws.mean(0), estimator.predict(X_reg))


def test_draws_under_a_transformed_target_are_in_the_units_of_y():
    estimator = TransformedTargetRegressor(RandomForestRegressor(5, random_state=0), func=np.log, inverse_func=np.exp)
    estimator.fit(X_reg, t)
    draws = sample_posterior(estimator, None, rng())(X_reg)
    np.testing.assert_allclose(np.exp(np.log(draws).mean(0)), estimator.predict(X_reg))


CITIES = rng(1).choice(np.array(["bern", "rome", "oslo"], dtype=object), 80)
CODES = rng(2).choice(np.array(["01", "1", "02", "007"], dtype=object), 80)  # texts that read as numbers
GAPS = np.where(np.arange(80) % 9 == 0, None, CITIES)
WITH_TEXTS = {
    "frame": pd.DataFrame({"n": rng(3).normal(size=80), "city": CITIES}),
    "frame with gaps": pd.DataFrame({"n": rng(3).normal(size=80), "city": GAPS}),
    "array": np.column_stack([rng(3).normal(size=80).astype(object), CITIES]),
    "array with gaps": np.column_stack([np.arange(80).astype(object) % 7, GAPS]),
    "codes": np.column_stack([CODES, CITIES == "bern"]).astype(object),
    "codes alone": CODES[:, np.newaxis],
    "frame of codes": pd.DataFrame({"zip": CODES, "n": np.arange(80) % 5}),
    "list": [[n, city] for n, city in zip([0.5, 1.5] * 40, CITIES.tolist(), strict=True)],
}


@pytest.mark.parametrize("max_features", [1.0, 1])
@pytest.mark.parametrize("name", WITH_TEXTS)
def test_members_of_bagging_see_texts_as_bagging_gives_them(name, max_features):
    rows = WITH_TEXTS[name]
    labels = (CITIES == "bern") | np.isin(CODES, ["01", "007"])
    encoder = OneHotEncoder(handle_unknown="ignore")
    options = {"max_features": max_features, "random_state": 0}
    bagging = BaggingClassifier(make_pipeline(encoder, LogisticRegression()), 5, **options).fit(rows, labels)
    draws = sample_posterior(bagging, None, rng())(rows)
    np.testing.assert_allclose(draws.mean(axis=0), bagging.predict_proba(rows), rtol=0, atol=1e-15)
    assert draws.std(axis=0).max() > 0.01
    bagging = BaggingRegressor(make_pipeline(encoder, LinearRegression()), 5, **options).fit(rows, labels * 1.0)
    draws = sample_posterior(bagging, None, rng())(rows)
    np.testing.assert_allclose(draws.mean(axis=0), bagging.predict(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("convert", [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array])
def test_sparse_pools_give_bagging_the_draws_of_dense_ones(convert):
    # modAL-python/modAL PR 105
    D = rng().poisson(0.3, size=(60, 12)).astype(float)
    labels = (D[:, 0] + D[:, 1] > D[:, 2] + D[:, 3]).astype(int)
    estimator = BaggingClassifier(LogisticRegression(), 6, max_features=5, random_state=0).fit(convert(D), labels)
    draws = sample_posterior(estimator, None, rng())
    np.testing.assert_allclose(draws(convert(D)), draws(D), atol=1e-9)


# --- wrapped in anything


def frame_and_labels(n=200):
    r = rng(1)
    frame = pd.DataFrame(
        {"city": r.choice(["bern", "rome", None], n), "size": r.normal(size=n), "age": r.normal(size=n)}
    )
    frame.loc[::9, "age"] = np.nan
    return frame, np.where(frame["size"] + r.normal(size=n) > 0, "yes", "no")


def encoder():
    return make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["city"]), ("passthrough", ["size", "age"]))


FOREST = RandomForestClassifier(8, random_state=0)
WRAPPED = {
    "columns": make_pipeline(encoder(), FOREST),
    "columns as a frame": make_pipeline(
        make_column_transformer((OneHotEncoder(sparse_output=False), ["city"]), ("passthrough", ["size", "age"])),
        FOREST,
    ).set_output(transform="pandas"),
    "a search in a search": GridSearchCV(
        GridSearchCV(make_pipeline(encoder(), FOREST), {"randomforestclassifier__max_depth": [3]}, cv=2),
        {"cv": [2]},
        cv=2,
    ),
    "a pipeline in a pipeline": make_pipeline(encoder(), make_pipeline("passthrough", FOREST)),
    "a tuned threshold": TunedThresholdClassifierCV(make_pipeline(encoder(), FOREST), cv=2),
    "calibrated pipelines": CalibratedClassifierCV(make_pipeline(encoder(), FOREST), cv=3),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_whatever_wraps_a_model_its_draws_come_through_and_average_to_its_probabilities(name):
    frame, labels = frame_and_labels()
    estimator = WRAPPED[name].fit(frame, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draws = sample_posterior(estimator, None, rng())(frame)
    np.testing.assert_allclose(draws.mean(0), estimator.predict_proba(frame), atol=1e-12)
    query = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    indices = query.select(estimator, frame, 5)
    assert len(set(indices)) == 5
    assert query.scores_.max() > 0


def test_a_union_of_features_and_a_frozen_model_come_through():
    estimator = make_pipeline(make_union(StandardScaler(), SelectKBest(k=2)), FOREST).fit(X, y)
    expected = sample_posterior(estimator, None, rng())(X)
    np.testing.assert_array_equal(sample_posterior(FrozenEstimator(estimator), None, rng())(X), expected)


# --- modAL's committees


def committee(strategy=None):
    """Members that know different classes: modAL-python/modAL 97."""
    pairs = [["ape", "bee"], ["cat", "bee"], ["ape", "cat"]]
    learners = [
        ActiveLearner(
            DecisionTreeClassifier(random_state=0), X_training=np.array([[0.0], [1.0]]), y_training=np.array(p)
        )
        for p in pairs
    ]
    return Committee(learners, strategy or StochasticBatchQuery("bald", beta=1.0, random_state=0))


def test_a_committee_draws_from_the_union_of_classes():
    draws = sample_posterior(committee(), None, rng())(np.array([[0.0], [1.0]]))
    expected = [[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 0, 1]]]
    np.testing.assert_array_equal(draws, expected)
    h = -(2 / 3) * np.log(2 / 3) - (1 / 3) * np.log(1 / 3)
    np.testing.assert_allclose(bald(draws), [h, h], atol=1e-9)
    np.testing.assert_allclose(variation_ratio(draws), [1 / 3, 1 / 3], atol=1e-9)


def test_a_committee_buys_batches_in_modal():
    learners = [
        ActiveLearner(RandomForestClassifier(5, random_state=i), X_training=X[i::10], y_training=y[i::10])
        for i in range(4)
    ]
    query = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    group = Committee(learners, query)
    indices, batch = group.query(X, n_instances=6)
    assert batch.shape == (6, 4)
    expected = bald(np.stack([learner.predict_proba(X) for learner in learners]))
    np.testing.assert_allclose(query.scores_, expected, atol=1e-12)
    group.teach(batch, y[indices])
    assert len(group.query(X, n_instances=3)[0]) == 3


def test_a_committee_that_is_not_fitted_gets_a_uniform_batch():
    group = Committee(
        [ActiveLearner(RandomForestClassifier(5)) for _ in range(2)],
        StochasticBatchQuery("bald", beta=1.0, random_state=0),
    )
    with pytest.warns(UserWarning, match="not fitted"):
        assert len(group.query(X, n_instances=3)[0]) == 3


def test_a_committee_of_regressors_buys_by_variance():
    learners = [
        ActiveLearner(DecisionTreeRegressor(random_state=i), X_training=X_reg[i::5], y_training=t[i::5])
        for i in range(4)
    ]
    query = StochasticBatchQuery(score="variance", sampler="topk", random_state=0)
    indices, _ = CommitteeRegressor(learners, query).query(X_reg, n_instances=5)
    variance = np.var([learner.predict(X_reg) for learner in learners], axis=0)
    np.testing.assert_allclose(query.scores_, variance)
    np.testing.assert_allclose(np.sort(variance[indices]), np.sort(variance)[-5:])


# --- scores that modAL's users have


@pytest.mark.parametrize(
    "score",
    [classifier_uncertainty, classifier_entropy, make_linear_combination(classifier_uncertainty, classifier_entropy)],
)
@pytest.mark.parametrize("sampler", ["power", "softmax", "softrank"])
def test_modals_own_utilities_get_stochastic_batches(score, sampler):
    query = StochasticBatchQuery(score, sampler, beta=3, chunk_size=40, random_state=0)
    learner = ActiveLearner(GaussianNB(), query, X[::10], y[::10])
    indices, _ = learner.query(X, n_instances=5)
    assert len(set(indices)) == 5
    np.testing.assert_allclose(query.scores_, score(learner, X))


def test_utilities_of_a_committee_are_scores_too():
    query = StochasticBatchQuery(vote_entropy, "softmax", beta=1.0, random_state=0)
    group = committee(query)
    pool = np.linspace(0, 1, 20)[:, None]
    group.query(pool, n_instances=3)
    np.testing.assert_allclose(query.scores_, vote_entropy(group, pool))


def test_a_score_with_one_parameter_beside_defaults_gets_draws():
    def score(draws, weight=2.0):
        return weight * draws[..., 0].mean(0)

    query = StochasticBatchQuery(score, "topk", random_state=0)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    query.select(forest, X, 3)
    np.testing.assert_allclose(query.scores_, 2 * forest.predict_proba(X)[:, 0])


# --- bad input


def test_one_member_is_too_few_for_bald_and_enough_for_entropy():
    forest = RandomForestClassifier(1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="two draws or more"):
        StochasticBatchQuery("bald", beta=1.0).select(forest, X, 3)
    with pytest.raises(ValueError, match="two draws or more"):
        StochasticBatchQuery("bald", beta=1.0, n_draws=1).select(RandomForestClassifier(9).fit(X, y), X, 3)
    with pytest.warns(UserWarning, match="positive score"):
        StochasticBatchQuery("entropy", beta=1.0, random_state=0).select(forest, X, 3)


def test_members_that_disagree_on_the_number_of_columns_are_named_in_a_chained_error():
    learners = [ActiveLearner(DecisionTreeClassifier(), X_training=X[:, :k], y_training=y) for k in (4, 3)]
    with pytest.raises(ValueError, match=r"failed: .*features") as caught:
        Committee(learners, StochasticBatchQuery("bald", beta=1.0)).query(X, n_instances=2)
    assert caught.value.__cause__ is not None


def test_a_surrogate_that_cannot_be_fitted_says_so_before_its_own_error():
    frame, labels = frame_and_labels(40)
    model = make_pipeline(encoder(), FOREST).fit(frame, labels)
    query = StochasticBatchQuery("bald", beta=1.0, posterior=GaussianNB())
    with pytest.raises(ValueError, match="Fitting GaussianNB, the `posterior`, to the training data failed"):
        query.select(model, frame, 3, X_training=frame, y_training=labels)


def test_a_surrogate_of_other_classes_is_refused():
    model = RidgeClassifier().fit(X, y)
    query = StochasticBatchQuery("bald", beta=1.0, posterior=RandomForestClassifier(5))
    with pytest.raises(ValueError, match="`posterior` was fitted to the classes"):
        query.select(model, X, 3, X_training=X, y_training=codes)


@pytest.mark.parametrize(
    ("draws", "match"),
    [
        (lambda X, n: np.full((len(X), n, 2), 0.5), "whichever rows"),  # as many draws as rows: only a probe tells
        (lambda X, n: np.full((n, len(X), 2), 0.6), "summing to 1"),
        (lambda X, n: rng(len(X)).dirichlet([1, 1], (n, len(X))), "whichever rows"),
        (lambda X, n: np.full((n, len(X), 2), 0.5), "alike"),
        (lambda X, n: np.full((n, len(X)), np.nan), r"alike|whichever rows"),
    ],
)
def test_check_posterior_finds_draws_that_break_the_promise(draws, match):
    class Mine:
        def sample_posterior(self, n_draws, rng):
            return lambda X: draws(X, n_draws)

    with pytest.raises(ValueError, match=match):
        check_posterior(Mine(), X[:6], n_draws=6)


def test_a_query_finds_axes_in_the_wrong_order_by_itself_and_other_functions_when_verbose(capsys):
    class Swapped:
        def sample_posterior(self, n_draws, rng):
            return lambda X: np.full((len(X), n_draws, 2), 0.5)

    class Fresh:
        def sample_posterior(self, n_draws, rng):
            return lambda X: rng.dirichlet([1, 1], (n_draws, len(X)))

    with pytest.raises(ValueError, match="must return draws of shape"):
        StochasticBatchQuery("bald", beta=1.0, n_draws=150).select(Swapped(), X, 3)
    with pytest.raises(ValueError, match="same values"):
        StochasticBatchQuery("bald", beta=1.0, verbose=1).select(Fresh(), X, 3)


# --- regression


def test_gaussian_bald_takes_the_noise_of_the_model_where_it_has_one():
    class Noisy(RandomForestRegressor):
        noise_variance_ = 100.0

    query = StochasticBatchQuery("gaussian_bald", beta=1.0, random_state=0)
    for model in (Noisy(6, random_state=0), make_pipeline(StandardScaler(), Noisy(6, random_state=0))):
        learner = ActiveLearner(model, query, X_reg[:100], t[:100])
        learner.query(X_reg[100:], n_instances=4)
        draws = sample_posterior(model, None, rng())(X_reg[100:])
        np.testing.assert_allclose(query.scores_, 0.5 * np.log1p(draws.var(0) / 100), atol=1e-12)


def test_gaussian_bald_of_a_model_without_noise_names_the_ways_out():
    forest = RandomForestRegressor(5, random_state=0).fit(X_reg, t)
    with pytest.raises(ValueError, match="noise_variance_"):
        StochasticBatchQuery("gaussian_bald", beta=1.0).select(forest, X_reg, 3)


# --- scores are high where a class of models cannot know, and low where data abound


def heaps():
    """Two heaps of rows on a line with a gap between them, and places in the heaps and in the gap."""
    r = rng(3)
    x = np.concatenate([r.normal(-3, 0.3, 40), r.normal(3, 0.3, 40)])[:, None]
    return x, np.repeat([0, 1], 40), np.linspace(-3.3, -2.7, 20)[:, None], np.linspace(-1, 1, 20)[:, None]


@pytest.mark.parametrize("name", ["Gaussian process", "net", "forest", "logistic regression"])
def test_bald_is_higher_in_the_gap_between_the_classes_than_among_the_data(name):
    x, labels, known, unknown = heaps()
    model = {
        "Gaussian process": GaussianProcessClassifier(1.0 * RBF(1.0), optimizer=None),
        "net": MCDropoutClassifier((32, 32), dropout=0.3, lr=3e-3, batch_size=-1, random_state=0),
        "forest": RandomForestClassifier(50, random_state=0),
        "logistic regression": LogisticRegression(),
    }[name].fit(x, labels)
    draws = sample_posterior(model, 50, rng(), X_training=x, y_training=labels)
    assert np.asarray(bald(draws(unknown))).mean() > 2 * np.asarray(bald(draws(known))).mean()


@pytest.mark.parametrize("name", ["Gaussian process", "net", "Bayesian ridge", "bagging"])
def test_std_dev_of_a_regressor_is_higher_where_there_are_no_data(name):
    x, _, known, gap = heaps()
    r = rng(4)
    y = np.sin(x[:, 0]) + 0.1 * r.normal(size=80)
    model = {
        "Gaussian process": GaussianProcessRegressor(1.0 * RBF(1.0), alpha=0.01, optimizer=None),
        "net": MCDropoutRegressor((64, 64), dropout=0.1, lr=3e-3, batch_size=-1, random_state=0),
        "Bayesian ridge": BayesianRidge(),
        "bagging": BaggingRegressor(n_estimators=50, random_state=0),
    }[name].fit(x, y)
    # A line is most certain between the heaps, and a net interpolates: what they do not know is how it goes on.
    unknown = np.linspace(6, 8, 20)[:, None] if name in {"Bayesian ridge", "net"} else gap
    draws = sample_posterior(model, 50, rng())
    assert np.asarray(std_dev(draws(unknown))).mean() > 1.5 * np.asarray(std_dev(draws(known))).mean()


def test_modals_margin_is_refused_because_it_is_small_where_a_model_is_unsure():
    learner = ActiveLearner(GaussianNB(), StochasticBatchQuery(classifier_margin, beta=1.0), X[::10], y[::10])
    with pytest.raises(ValueError, match='score="margin"'):
        learner.query(X, n_instances=3)


def test_a_learner_survives_pickling_after_a_bootstrap_and_buys_the_same_batch():
    learner = ActiveLearner(
        GaussianNB(), StochasticBatchQuery("bald", beta=1.0, posterior="bootstrap", random_state=0), X[::10], y[::10]
    )
    learner.query(X, n_instances=3)
    twin = pickle.loads(pickle.dumps(learner))
    np.testing.assert_array_equal(twin.query(X, n_instances=3)[0], learner.query(X, n_instances=3)[0])


@pytest.mark.parametrize("pool", [None, "abc", (row for row in X)])
def test_what_holds_no_rows_is_refused_by_its_type(pool):
    with pytest.raises(TypeError, match="`X_pool` must hold rows"):
        StochasticBatchQuery("bald", beta=1.0).select(RandomForestClassifier(5).fit(X, y), pool, 3)


def test_text_columns_into_a_model_of_numbers_are_refused_with_the_models_own_words():
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"failed: .*could not convert string"):
        StochasticBatchQuery("bald", beta=1.0).select(forest, np.full((9, 4), "rome", dtype=object), 3)
