"""What a query says to bad input, and what it never does to good input."""

from __future__ import annotations

import functools
import math
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import reference
import torch
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from skorch import NeuralNetClassifier
from torch import nn

from skactive import (
    ACSFWQuery,
    BADGEQuery,
    BatchBALDQuery,
    CausalBALDQuery,
    MCDropoutClassifier,
    StochasticBatchQuery,
)
from skactive.acsfw import acs_fw
from skactive.badge import badge
from skactive.batchbald import batchbald
from skactive.causal import estimate_effects, potential_outcomes, predict_effects, sqrt_pehe
from skactive.datasets import make_causal
from skactive.query import score_pool
from skactive.risk import ActiveTester, estimate_risk, lure_weights, pure_weights
from skactive.samplers import SAMPLERS
from skactive.scores import SCORES, epig

CLASS_SCORES = ["bald", "entropy", "variation_ratio", "margin"]


def table(n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).astype(np.float32)
    y = np.clip(np.rint(X[:, 0] + 1 + rng.normal(scale=0.3, size=n_rows)), 0, 2).astype(np.int64)
    return X, y


X_TRAIN, Y_TRAIN = table()
LABELS = np.array(["ash", "elm", "oak"])[Y_TRAIN]
X_POOL, _ = table(30, seed=1)


def skorch_net(*layers, **params):
    """A fitted skorch net: deterministic weights, without a training step unless asked for."""
    torch.manual_seed(0)
    params = {"criterion": nn.CrossEntropyLoss, "max_epochs": 0, "train_split": None, "verbose": 0, **params}
    return NeuralNetClassifier(nn.Sequential(*layers), **params).fit(X_TRAIN, Y_TRAIN)


def batch_norm_net(**params):
    return skorch_net(
        nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3), max_epochs=1, **params
    )


def make_estimator(kind):
    if kind == "forest":
        return RandomForestClassifier(10, max_depth=4, random_state=0).fit(X_TRAIN, LABELS)
    if kind == "pipeline":
        forest = RandomForestClassifier(10, max_depth=4, random_state=0)
        return make_pipeline(StandardScaler(), forest).fit(X_TRAIN, LABELS)
    if kind == "net":
        return MCDropoutClassifier((8,), max_epochs=5, n_draws=5, random_state=0, device="cpu").fit(X_TRAIN, LABELS)
    if kind == "skorch":
        return batch_norm_net()
    raise KeyError(kind)


@pytest.fixture(scope="module")
def estimators():
    return {kind: make_estimator(kind) for kind in ("forest", "pipeline", "net", "skorch")}


@pytest.fixture(scope="module")
def forest(estimators):
    return estimators["forest"]


every_estimator = pytest.mark.parametrize("kind", ["forest", "pipeline", "net", "skorch"])


class Echo(ClassifierMixin, BaseEstimator):
    """Its draws say of each row what the row says of itself: P(yes) is the first column."""

    def fit(self, X, y=None):
        self.classes_ = np.array(["no", "yes"])
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict_proba(self, X):
        yes = np.asarray(X, dtype=float)[:, 0]
        return np.stack([1 - yes, yes], axis=-1)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def sample_posterior(self, n_draws, rng):
        return lambda X: np.repeat(self.predict_proba(X)[None], n_draws or 3, axis=0)


def echo(values):
    """A fitted Echo and a pool for which the score of row i, `first_column`, is values[i]."""
    X = np.zeros((len(values), 2))
    X[:, 0] = np.linspace(0.1, 0.9, len(values))

    def first_column(draws):
        rows = np.abs(np.asarray(draws)[0, :, 1][:, None] - X[:, 0]).argmin(axis=1)
        return np.asarray(values, dtype=float)[rows]

    return Echo().fit(X), X, first_column


# ---------------------------------------------------------------------------------------------------- size of the batch


@every_estimator
@pytest.mark.parametrize("n_instances", [31, 10**9, 0, -1])
def test_a_batch_size_outside_the_pool_names_itself_and_the_pool_size(kind, n_instances, estimators):
    with pytest.raises(ValueError, match="`n_instances`") as caught:
        StochasticBatchQuery().select(estimators[kind], X_POOL, n_instances)
    assert "30" in str(caught.value)
    assert str(n_instances) in str(caught.value)


@pytest.mark.parametrize("n_instances", [True, np.True_, 2.0, 2.5, math.nan, "2", None])
def test_a_batch_size_that_is_no_integer_names_itself_and_the_pool_size(n_instances, forest):
    with pytest.raises((TypeError, ValueError), match="`n_instances`") as caught:
        StochasticBatchQuery().select(forest, X_POOL, n_instances)
    assert "30" in str(caught.value)


@pytest.mark.parametrize(("n_instances", "error"), [(31, ValueError), (0, ValueError), (True, TypeError)])
def test_a_bad_batch_size_is_refused_inside_modal_as_well(n_instances, error, forest):
    learner = ActiveLearner(RandomForestClassifier(5), StochasticBatchQuery(), X_training=X_TRAIN, y_training=LABELS)
    with pytest.raises(error, match="`n_instances`"):
        learner.query(X_POOL, n_instances=n_instances)


@pytest.mark.parametrize("n_instances", [1, np.int64(1), np.int16(30), 30])
def test_numpy_integers_up_to_the_pool_size_are_batch_sizes(n_instances, forest):
    indices = StochasticBatchQuery(sampler="softmax").select(forest, X_POOL, n_instances)
    assert sorted(set(indices.tolist())) == sorted(indices.tolist())
    assert len(indices) == n_instances


# ------------------------------------------------------------------------------------------------------------ the pool

EMPTY_POOLS = {
    "array": np.empty((0, 4), dtype=np.float32),
    "list": [],
    "frame": pd.DataFrame(np.empty((0, 4))),
    "csr matrix": sparse.csr_matrix((0, 4), dtype=np.float32),
    "csr array": sparse.csr_array((0, 4), dtype=np.float32),
}


@pytest.mark.parametrize("n_instances", [1, 0])
@pytest.mark.parametrize("container", EMPTY_POOLS)
def test_an_empty_pool_is_refused(container, n_instances, forest):
    # ntucllab/libact #14; baal-org/baal #59: the error came from deep inside a data loader.
    with pytest.raises(ValueError, match=r"(?i)empty|\b0\b"):
        StochasticBatchQuery().select(forest, EMPTY_POOLS[container], n_instances)


@every_estimator
def test_an_empty_pool_is_refused_for_every_estimator(kind, estimators):
    with pytest.raises(ValueError, match=r"(?i)empty|\b0\b"):
        StochasticBatchQuery().select(estimators[kind], EMPTY_POOLS["array"], 1)


@every_estimator
@pytest.mark.parametrize("score", ["bald", "entropy"])
@pytest.mark.parametrize("n_features", [3, 5])
def test_a_pool_with_other_columns_than_the_model_was_fitted_on_is_refused(kind, score, n_features, estimators):
    with pytest.raises(ValueError):
        StochasticBatchQuery(score=score).select(estimators[kind], np.zeros((9, n_features), dtype=np.float32), 2)


# ------------------------------------------------------------------------------------------------------ a user's scores


@pytest.mark.parametrize("chunk_size", [None, 4])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("sampler", sorted(SAMPLERS))
def test_scores_that_are_nan_or_infinite_are_refused_with_the_row_of_the_pool(sampler, value, chunk_size):
    values = np.full(15, 0.5)
    values[13] = value
    estimator, X, score = echo(values)
    query = StochasticBatchQuery(score=score, sampler=sampler, chunk_size=chunk_size)
    with pytest.raises(ValueError, match=rf"(?s)(\b13\b.*{value})|({value}.*\b13\b)"):
        query.select(estimator, X, 2)


def test_negative_scores_under_power_are_refused_with_row_and_value():
    values = np.full(15, 0.5)
    values[11] = -0.25
    estimator, X, score = echo(values)
    with pytest.raises(ValueError, match=r"(?s)(\b11\b.*-0\.25)|(-0\.25.*\b11\b)"):
        StochasticBatchQuery(score=score, chunk_size=4).select(estimator, X, 2)


def test_rounding_below_zero_counts_as_zero_under_power():
    values = np.full(15, -1e-10)
    values[[2, 9]] = 0.5
    estimator, X, score = echo(values)
    query = StochasticBatchQuery(score=score, random_state=0)
    for _ in range(20):
        assert set(query.select(estimator, X, 2).tolist()) == {2, 9}


@pytest.mark.parametrize("sampler", ["softmax", "softrank"])
def test_minus_infinity_means_never_unless_needed(sampler):
    values = np.full(15, -math.inf)
    values[[2, 9]] = -3.0
    estimator, X, score = echo(values)
    query = StochasticBatchQuery(score=score, sampler=sampler, random_state=0)
    for _ in range(20):
        assert set(query.select(estimator, X, 2).tolist()) == {2, 9}
    assert set(query.select(estimator, X, 5)[:2].tolist()) == {2, 9}


@pytest.mark.parametrize("n_positive", [0, 2])
@pytest.mark.parametrize("chunk_size", [None, 4])
def test_too_few_positive_scores_under_power_are_filled_up_with_one_warning(n_positive, chunk_size):
    values = np.zeros(15)
    values[3 : 3 + n_positive] = 0.5
    estimator, X, score = echo(values)
    query = StochasticBatchQuery(score=score, chunk_size=chunk_size, random_state=0)
    with pytest.warns(UserWarning, match=rf"\b{n_positive}\b") as caught:
        indices = query.select(estimator, X, 7)
    assert len(caught) == 1
    assert "7" in str(caught[0].message)
    assert len(set(indices.tolist())) == 7
    assert set(indices[:n_positive].tolist()) == set(range(3, 3 + n_positive))
    np.testing.assert_allclose(query.log_proba_[n_positive:], -np.log(np.arange(15 - n_positive, 8, -1)), rtol=1e-9)


@pytest.mark.parametrize("sampler", sorted(SAMPLERS))
def test_equal_positive_scores_give_a_batch_without_a_warning(sampler):
    estimator, X, score = echo(np.full(15, 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        indices = StochasticBatchQuery(score=score, sampler=sampler, random_state=0).select(estimator, X, 15)
    assert sorted(indices.tolist()) == list(range(15))


# ---------------------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("beta", [-1.0, math.nan, "1", None, True])
def test_a_beta_that_is_no_number_from_zero_up_is_refused(beta, forest):
    with pytest.raises((TypeError, ValueError), match="`beta`"):
        StochasticBatchQuery(beta=beta).select(forest, X_POOL, 2)
    learner = ActiveLearner(RandomForestClassifier(5), StochasticBatchQuery(), X_training=X_TRAIN, y_training=LABELS)
    with pytest.raises((TypeError, ValueError), match="`beta`"):
        learner.query(X_POOL, n_instances=2, beta=beta)


@pytest.mark.parametrize("sampler", ["topk", "uniform", lambda scores, k, rng, *, beta: np.arange(k)])
def test_a_beta_that_sets_itself_needs_a_sampler_that_has_one(sampler, forest):
    with pytest.raises(ValueError, match='`beta`="auto" needs a sampler'):
        StochasticBatchQuery(sampler=sampler, beta="auto").select(forest, X_POOL, 2)


def test_another_word_for_beta_is_refused_with_the_one_there_is(forest):
    with pytest.raises(TypeError, match=r'`beta` must be "auto" or a finite number, 0 \(uniform\) or larger'):
        StochasticBatchQuery(beta="Auto").select(forest, X_POOL, 2)


@pytest.mark.parametrize("n_queries_before", [0, 1])
def test_a_batch_has_no_size_by_itself_where_training_data_are_not_known(n_queries_before, forest):
    query = StochasticBatchQuery(beta="auto", random_state=0)
    for _ in range(n_queries_before):
        query.select(forest, X_POOL, 2)
    with pytest.raises(ValueError, match="`X_training` and `y_training` must be known"):
        query.select(forest, X_POOL, "auto")


@pytest.mark.parametrize(("parameter", "registry"), [("score", SCORES), ("sampler", SAMPLERS)])
@pytest.mark.parametrize("name", ["nope", "BALD", ""])
def test_an_unknown_name_is_refused_with_the_names_there_are(parameter, registry, name, forest):
    with pytest.raises(ValueError, match=f"`{parameter}`") as caught:
        StochasticBatchQuery(**{parameter: name}).select(forest, X_POOL, 2)
    assert all(known in str(caught.value) for known in registry)


@pytest.mark.parametrize("parameter", ["score", "sampler"])
@pytest.mark.parametrize("value", [3, None, ["bald"]])
def test_a_score_or_sampler_that_is_neither_name_nor_function_is_refused(parameter, value, forest):
    with pytest.raises((TypeError, ValueError), match=f"`{parameter}`"):
        StochasticBatchQuery(**{parameter: value}).select(forest, X_POOL, 2)


def test_parameters_are_checked_when_used_not_when_set():
    query = StochasticBatchQuery(score="nope", beta="no number")
    assert query.get_params()["score"] == "nope"
    assert query.get_params()["beta"] == "no number"


def test_an_unknown_keyword_of_a_query_is_a_type_error():
    learner = ActiveLearner(RandomForestClassifier(5), StochasticBatchQuery(), X_training=X_TRAIN, y_training=LABELS)
    with pytest.raises(TypeError, match="betta"):
        learner.query(X_POOL, n_instances=2, betta=2.0)


def test_an_estimator_with_draws_of_its_own_is_asked_for_a_hundred_unless_told_otherwise():
    asked = []

    class Curious(Echo):
        def sample_posterior(self, n_draws, rng):
            asked.append(n_draws)
            return super().sample_posterior(n_draws, rng)

    X = np.full((9, 2), 0.5)
    for n_draws in (None, 7):
        StochasticBatchQuery("entropy", n_draws=n_draws).select(Curious().fit(X), X, 2)
    assert asked == [100, 7]


# ------------------------------------------------------------------------------------------------- draws that are none


@pytest.mark.parametrize(
    ("row", "seen"),
    [([-0.25, 1.25], r"-0\.25"), ([0.75, 0.75], r"1\.5"), ([math.nan, 0.5], "(?i)nan"), ([3.0, -2.0], r"-2")],
)
@pytest.mark.parametrize("score", ["bald", "entropy"])
def test_probabilities_that_are_none_are_refused_with_what_was_seen(score, row, seen):
    class Wrong(Echo):
        def predict_proba(self, X):
            p = super().predict_proba(X)
            p[-1] = row
            return p

    X = np.full((9, 2), 0.5)
    with pytest.raises(ValueError, match=seen):
        StochasticBatchQuery(score=score).select(Wrong().fit(X), X, 2)


@pytest.mark.parametrize("bad", [math.nan, -0.5])
def test_predict_proba_that_gives_no_probabilities_is_refused_as_well(bad):
    class Wrong(KNeighborsClassifier):
        def predict_proba(self, X):
            p = super().predict_proba(X)
            p[-1, 0] = bad
            return p

    with pytest.raises(ValueError, match=f"(?i){bad}"):
        StochasticBatchQuery(score="entropy").select(Wrong().fit(X_TRAIN, LABELS), X_POOL, 2)


def test_a_net_trained_on_logits_is_scored_by_its_own_nonlinearity():
    # skorch-dev/skorch #637, #519, #136: CrossEntropyLoss means that the module returns logits.
    net = skorch_net(nn.Linear(4, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3))
    seen = []

    def spy(draws):
        seen.append(np.asarray(draws, dtype=float))
        return SCORES["bald"](draws)

    StochasticBatchQuery(score=spy, n_draws=200, random_state=0).select(net, X_POOL, 2)
    draws = np.concatenate(seen, axis=1)
    assert draws.shape == (200, 30, 3)
    np.testing.assert_allclose(draws.sum(axis=-1), 1, rtol=0, atol=1e-5)
    # Without dropout the net's own answer lies within the draws: their mean differs from it by less than 0.15 here,
    # while softmax applied twice would flatten every row to within 0.25 of 1/3.
    assert np.abs(draws.mean(axis=0) - net.predict_proba(X_POOL)).max() < 0.15
    assert draws.max() > 0.6


def test_a_module_that_returns_logits_under_a_loss_of_probabilities_is_refused():
    net = skorch_net(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 3), criterion=nn.NLLLoss)
    with pytest.raises(ValueError, match=r"(?i)negative|sum"):
        StochasticBatchQuery().select(net, X_POOL, 2)


# ------------------------------------------------------------------------------------ estimators without a posterior


def test_a_learner_that_was_never_fitted_gets_a_uniform_batch_and_one_warning():
    query = StochasticBatchQuery(random_state=0)
    learner = ActiveLearner(RandomForestClassifier(), query)
    n_trials, counts = 300, np.zeros(6, dtype=int)
    for _ in range(n_trials):
        with pytest.warns(UserWarning, match=r"(?i)fit") as caught:
            indices, X_batch = learner.query(X_POOL[:6], n_instances=2)
        assert len(caught) == 1
        assert len(set(indices.tolist())) == 2
        np.testing.assert_array_equal(X_batch, X_POOL[:6][indices])
        counts[indices] += 1
    for row, count in enumerate(counts):  # each row is in 2 of 6 batches: exact binomial tails
        assert reference.tail(count, n_trials, 1 / 3) > 1e-6, (row, count)


def test_a_learner_that_was_never_fitted_still_needs_a_pool_and_a_batch_size():
    learner = ActiveLearner(RandomForestClassifier(), StochasticBatchQuery())
    with pytest.raises(ValueError, match=r"(?i)empty|\b0\b"):
        learner.query(EMPTY_POOLS["array"], n_instances=1)
    with pytest.raises(ValueError, match="`n_instances`"):
        learner.query(X_POOL, n_instances=31)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(),
        make_pipeline(StandardScaler(), RandomForestClassifier()),
        MCDropoutClassifier(),
        LogisticRegression(),
    ],
    ids=["forest", "pipeline", "net", "logistic regression"],
)
@pytest.mark.parametrize("score", ["bald", "entropy"])
def test_an_estimator_that_was_never_fitted_is_refused_by_score_pool_alone(estimator, score):
    with pytest.raises(NotFittedError):
        score_pool(estimator, X_POOL, score)
    with pytest.warns(UserWarning, match="not fitted yet.* uniform at random"):
        assert len(StochasticBatchQuery(score=score).select(estimator, X_POOL, 2)) == 2


def test_a_net_without_dropout_is_refused():
    plain = skorch_net(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    never = skorch_net(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 3))
    own = MCDropoutClassifier((8,), dropout=0.0, max_epochs=1, random_state=0, device="cpu").fit(X_TRAIN, LABELS)
    for net in (plain, never, own, make_pipeline(StandardScaler(), plain).fit(X_TRAIN, Y_TRAIN)):
        with pytest.raises(ValueError, match=r"(?i)dropout"):
            StochasticBatchQuery().select(net, X_POOL, 2)


@pytest.mark.parametrize("score", ["bald", "entropy", "std_dev"])
def test_an_estimator_that_is_neither_classifier_nor_regressor_is_refused_by_its_type(score):
    kmeans = KMeans(2, n_init=1, random_state=0).fit(X_TRAIN)
    with pytest.raises((TypeError, ValueError), match="KMeans"):
        StochasticBatchQuery(score=score).select(kmeans, X_POOL, 2)


@pytest.mark.parametrize("regressor", [RandomForestRegressor(5, random_state=0), LinearRegression()])
@pytest.mark.parametrize("score", [score for score in CLASS_SCORES if score != "bald"])
def test_a_class_score_of_a_regressor_is_refused_with_the_type_and_the_way_out(score, regressor):
    regressor.fit(X_TRAIN, X_TRAIN[:, 0])
    with pytest.raises((TypeError, ValueError), match=type(regressor).__name__) as caught:
        StochasticBatchQuery(score=score).select(regressor, X_POOL, 2, X_training=X_TRAIN, y_training=X_TRAIN[:, 0])
    assert "std_dev" in str(caught.value)


TWO_TARGETS = np.c_[(X_TRAIN[:, 0] > 0).astype(int), (X_TRAIN[:, 1] > 0).astype(int)]


@pytest.mark.filterwarnings("ignore:.*has no posterior draws:UserWarning")
@pytest.mark.parametrize("n_rows", [7, 2])  # with two rows and two outputs no shape gives it away
@pytest.mark.parametrize("score", ["bald", "entropy"])
@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(5, random_state=0),
        make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)),
        KNeighborsClassifier(),
        MultiOutputClassifier(LogisticRegression()),
    ],
    ids=["forest", "pipeline", "neighbours", "one each"],
)
def test_an_estimator_of_several_outputs_is_refused(estimator, score, n_rows):
    # modAL-python/modAL #193, #185; huggingface/setfit PR #466: predict_proba is a list, its rows the targets.
    estimator.fit(X_TRAIN, TWO_TARGETS)
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=r"(?i)output"):
        StochasticBatchQuery(score=score).select(
            estimator, X_POOL[:n_rows], 1, X_training=X_TRAIN, y_training=TWO_TARGETS
        )


@pytest.mark.parametrize("n_rows", [7, 2])
def test_a_regressor_of_several_outputs_is_refused(n_rows):
    regressor = RandomForestRegressor(5, random_state=0).fit(X_TRAIN, X_TRAIN[:, :2])
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=r"(?i)output"):
        StochasticBatchQuery(score="std_dev").select(regressor, X_POOL[:n_rows], 1)


@pytest.mark.parametrize("score", ["bald", "std_dev"])
@pytest.mark.parametrize("posterior", ["auto", "bootstrap", RandomForestClassifier(5)])
def test_a_score_of_draws_without_draws_and_training_data_names_the_posterior(score, posterior):
    logistic = LogisticRegression().fit(X_TRAIN, LABELS)
    with pytest.raises(ValueError, match=r"(?i)`posterior`|training"):
        StochasticBatchQuery(score=score, posterior=posterior).select(logistic, X_POOL, 2)
    if posterior == "auto":
        with pytest.raises(ValueError, match="`posterior`"):
            StochasticBatchQuery(score=score).select(logistic, X_POOL, 2)


# ------------------------------------------------------------------------------------------------- what never happens


def pools():
    """One pool in every container, with what is to be compared afterwards."""
    unsorted = sparse.csr_matrix(X_POOL)
    unsorted.indices = unsorted.indices.reshape(30, 4)[:, ::-1].ravel().copy()
    unsorted.data = unsorted.data.reshape(30, 4)[:, ::-1].ravel().copy()
    unsorted.has_sorted_indices = False
    return {
        "array": X_POOL.copy(),
        "float64": X_POOL.astype(np.float64),
        "Fortran order": np.asfortranarray(X_POOL),
        "list": X_POOL.tolist(),
        "frame": pd.DataFrame(X_POOL.copy(), index=[7] * 30),
        "csr, unsorted": unsorted,
        "csc": sparse.csc_matrix(X_POOL),
    }


def contents(pool):
    if sparse.issparse(pool):
        return [pool.data.copy(), pool.indices.copy(), pool.indptr.copy()]
    if isinstance(pool, pd.DataFrame):
        return [pool.to_numpy().copy(), pool.index.to_numpy().copy()]
    return [np.array(pool)]


@pytest.mark.parametrize("container", pools())
@pytest.mark.parametrize("kind", ["forest", "net"])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_no_query_changes_its_pool(container, kind, estimators):
    if kind == "net" and container.startswith("cs"):
        pytest.skip("nets take dense rows")
    pool = pools()[container]
    before = contents(pool)
    mask = np.arange(30) % 2 == 0
    kept = mask.copy()
    indices = StochasticBatchQuery(sampler="softrank", random_state=0).select(
        estimators[kind], pool, 3, candidates=mask
    )
    assert mask[indices].all()
    np.testing.assert_array_equal(mask, kept)
    for was, is_now in zip(before, contents(pool), strict=True):
        np.testing.assert_array_equal(is_now, was)


@pytest.mark.parametrize("kind", ["forest", "pipeline"])
def test_no_query_changes_its_estimator(kind, estimators):
    before = joblib.hash(estimators[kind])
    StochasticBatchQuery(random_state=0).select(estimators[kind], X_POOL, 3)
    assert joblib.hash(estimators[kind]) == before


def state_of(module):
    """All that a query must leave as it was."""
    return {
        "tensors": {name: value.detach().clone() for name, value in module.state_dict().items()},
        "modes": [part.training for part in module.modules()],
        "requires grad": [p.requires_grad for p in module.parameters()],
        "grads": [None if p.grad is None else p.grad.clone() for p in module.parameters()],
        "identity": [id(p) for p in module.parameters()],
        "hooks": [
            len(part._forward_hooks) + len(part._forward_pre_hooks) + ("forward" in vars(part))
            for part in module.modules()
        ],
    }


def assert_same_state(module, before):
    after = state_of(module)
    for name, value in before["tensors"].items():
        assert torch.equal(after["tensors"][name], value), name
    for key in ("modes", "requires grad", "identity", "hooks"):
        assert after[key] == before[key], key
    for was, is_now in zip(before["grads"], after["grads"], strict=True):
        assert (was is None) == (is_now is None)
        assert was is None or torch.equal(was, is_now)


def batch_norm_module():
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))


@pytest.mark.parametrize("mode", ["train", "eval", "mixed"])
@pytest.mark.parametrize("score", ["bald", "entropy"])
@pytest.mark.parametrize("kind", ["skorch", "net"])
def test_no_query_changes_a_module(kind, score, mode):
    if kind == "skorch":
        net = batch_norm_net()
        module = net.module_
    else:
        net = MCDropoutClassifier(module=batch_norm_module, max_epochs=2, random_state=0, device="cpu")
        module = net.fit(X_TRAIN, LABELS).net_.module_
    module.train(mode != "eval")
    if mode == "mixed":
        next(part for part in module.modules() if isinstance(part, nn.BatchNorm1d)).eval()
    parameters = list(module.parameters())
    for parameter in parameters:
        parameter.grad = None
    parameters[0].requires_grad_(False)
    parameters[-1].grad = torch.ones_like(parameters[-1])
    before = state_of(module)
    indices = StochasticBatchQuery(score=score, n_draws=5, chunk_size=7, random_state=0).select(net, X_POOL, 3)
    assert len(set(indices.tolist())) == 3
    assert_same_state(module, before)


@pytest.mark.parametrize("kind", ["skorch", "net"])
def test_a_module_is_left_in_its_mode_after_an_error_too(kind, estimators):
    net = estimators[kind]
    module = net.module_ if kind == "skorch" else net.net_.module_
    module.train()
    before = state_of(module)

    def failing(draws):
        raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError, match="the user's own"):
        StochasticBatchQuery(score=failing, n_draws=5).select(net, X_POOL, 3)
    with pytest.raises((ValueError, RuntimeError)):
        StochasticBatchQuery(n_draws=5).select(net, np.zeros((9, 7), dtype=np.float32), 3)
    assert_same_state(module, before)


@every_estimator
@pytest.mark.parametrize("random_state", [None, 0])
@pytest.mark.parametrize("score", ["bald", "entropy"])
@pytest.mark.usefixtures("global_state_untouched")
def test_no_query_consumes_global_random_state(kind, random_state, score, estimators):
    query = StochasticBatchQuery(score=score, n_draws=10, random_state=random_state)
    indices = query.select(estimators[kind], X_POOL, 3)
    assert len(set(indices.tolist())) == 3


@pytest.mark.usefixtures("global_state_untouched")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("posterior", ["bootstrap", RandomForestClassifier(5)], ids=["bootstrap", "surrogate"])
def test_refits_consume_no_global_random_state_and_follow_the_seed_of_the_query(posterior):
    # The members' own random_state is None: left alone they would draw from numpy's global generator.
    tree = DecisionTreeClassifier(splitter="random", max_depth=3, random_state=0).fit(X_TRAIN, LABELS)
    tree.set_params(random_state=None)
    scores = []
    for _ in range(2):
        query = StochasticBatchQuery(posterior=posterior, n_draws=5, random_state=0)
        query.select(tree, X_POOL, 3, X_training=X_TRAIN, y_training=LABELS)
        scores.append(query.scores_)
    np.testing.assert_array_equal(*scores)


@pytest.mark.usefixtures("global_state_untouched")
def test_a_cold_start_consumes_no_global_random_state():
    learner = ActiveLearner(RandomForestClassifier(), StochasticBatchQuery())
    with pytest.warns(UserWarning, match=r"(?i)fit"):
        indices, _ = learner.query(X_POOL, n_instances=3)
    assert len(set(indices.tolist())) == 3


@pytest.mark.usefixtures("global_state_untouched")
def test_fitting_a_net_consumes_no_global_random_state():
    net = MCDropoutClassifier((8,), max_epochs=2, random_state=0, device="cpu").fit(X_TRAIN, LABELS)
    assert net.predict_proba(X_POOL).shape == (30, 3)


# ---------------------------------------------------------------------------------------------------- BADGE and ACS-FW

every_method = pytest.mark.parametrize("method", [BADGEQuery, ACSFWQuery, BatchBALDQuery])


@every_method
@pytest.mark.parametrize(
    ("n_instances", "error"), [(31, ValueError), (0, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_methods_refuse_a_batch_size_outside_the_pool(method, n_instances, error, forest):
    with pytest.raises(error, match=r"`n_instances`.*30"):
        method().select(forest, X_POOL, n_instances)


@every_method
def test_methods_refuse_fewer_candidates_than_the_batch_has_rows(method, forest):
    with pytest.raises(ValueError, match=r"`n_instances`.*candidates.*, 3\. Got 5"):
        method().select(forest, X_POOL, 5, candidates=[1, 2, 3])
    with pytest.raises(ValueError, match="`max_candidates`"):
        method(max_candidates=3).select(forest, X_POOL, 5)


@every_method
@pytest.mark.parametrize("parameter", ["chunk_size", "max_candidates"])
def test_methods_refuse_parameters_that_are_no_positive_integers(method, parameter, forest):
    with pytest.raises(ValueError, match=f"`{parameter}`"):
        method(**{parameter: 0}).select(forest, X_POOL, 2)
    with pytest.raises(TypeError, match=f"`{parameter}`"):
        method(**{parameter: 2.5}).select(forest, X_POOL, 2)


@every_method
@pytest.mark.parametrize("kind", ["net", "forest"])
@pytest.mark.parametrize("n_features", [3, 5])
def test_methods_refuse_a_pool_with_other_columns(method, kind, n_features, estimators):
    with pytest.raises(ValueError, match=f"`X_pool` has {n_features} columns"):
        method().select(estimators[kind], np.zeros((9, n_features), dtype=np.float32), 2)


@every_method
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_methods_refuse_a_pool_that_the_model_refuses_and_name_the_rows(method, value, estimators):
    pool = X_POOL.copy()
    pool[17, 1] = value
    with pytest.raises(ValueError, match=r"rows 16 to 19 failed.*(NaN|infinity)"):
        method(chunk_size=4, predict_batch_size=4).select(estimators["net"], pool, 2)


@every_method
@pytest.mark.parametrize("bad", [math.nan, -0.5])
def test_methods_refuse_probabilities_that_are_none(method, bad):
    model, X, _ = echo(np.zeros(5))
    X[3, 0] = bad
    with pytest.raises(ValueError, match=r"`(draws|probabilities)` must"):
        method().select(model, X, 2)


@every_method
def test_methods_say_that_an_estimator_was_never_fitted(method):
    with pytest.warns(UserWarning, match="This RandomForestClassifier is not fitted yet"):
        method().select(RandomForestClassifier(), X_POOL, 2)


@every_method
@pytest.mark.parametrize("regressor", [RandomForestRegressor(5, random_state=0), LinearRegression()])
def test_methods_refuse_a_regressor_before_anything_is_refitted(method, regressor):
    name = f"{type(regressor).__name__}, a regressor"
    with pytest.raises(TypeError, match=rf'`estimator` must be a classifier for .*{name}.*Query\("std_dev"\)'):
        method().select(regressor.fit(X_TRAIN, Y_TRAIN), X_POOL, 2, X_training=X_TRAIN, y_training=Y_TRAIN)


@pytest.mark.parametrize("method", [ACSFWQuery, BatchBALDQuery])
def test_methods_refuse_a_regressor_to_draw_from(method, forest):
    with pytest.raises(TypeError, match=r"`posterior` must be a classifier for .*RandomForestRegressor"):
        method(posterior=RandomForestRegressor(5)).select(
            forest, X_POOL, 2, X_training=X_TRAIN, y_training=Y_TRAIN.astype(float)
        )


every_query = pytest.mark.parametrize("query", [StochasticBatchQuery, BADGEQuery, ACSFWQuery, BatchBALDQuery])


@every_query
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X_training": X_TRAIN}, "`y_training` must be given along with `X_training`.* 60 rows"),
        ({"y_training": LABELS}, "`X_training` must be given along with `y_training`.* 60 labels"),
        ({"X_training": X_TRAIN, "y_training": LABELS[:50]}, "`X_training` and `y_training`.* 60 rows and 50 labels"),
        ({"X_training": pd.DataFrame(X_TRAIN[:3]), "y_training": list(LABELS)}, "3 rows and 60 labels"),
    ],
)
def test_training_data_by_halves_are_refused_without_a_warning_of_a_refit(query, given, message):
    with pytest.raises(ValueError, match=message):
        query().select(LogisticRegression().fit(X_TRAIN, LABELS), X_POOL, 2, **given)


@pytest.mark.parametrize("query", [ACSFWQuery(), BatchBALDQuery()])
@pytest.mark.parametrize("estimator", [LogisticRegression(), KNeighborsClassifier()])
def test_methods_without_draws_point_to_those_that_need_none_and_to_no_score(query, estimator):
    with pytest.raises(ValueError, match=r'`posterior`.* BADGEQuery and StochasticBatchQuery\("entropy"\)') as caught:
        query.select(estimator.fit(X_TRAIN, LABELS), X_POOL, 2)
    assert "score" not in str(caught.value)


@every_query
def test_a_model_whose_probabilities_miss_the_sum_is_named_with_a_remedy(query):
    class Rounding(Echo):
        def __init__(self, n_classes=10):
            self.n_classes = n_classes

        def predict_proba(self, X):
            p = np.zeros((len(X), 10))
            p[:, 7], p[:, 8] = 1, 0.125
            return p

    with pytest.raises(ValueError, match=r"This Rounding gave \[1, 0\.125, 0, 0, 0\] and 5 more.* 1\.125,.*as float64"):
        query().select(Rounding().fit(X_POOL), X_POOL, 2)


def test_float64_is_the_remedy_for_naive_bayes_in_float32():
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    model = GaussianNB().fit(X[:80], y[:80])
    with pytest.raises(ValueError, match=r"This GaussianNB gave .*as float64"):
        BADGEQuery().select(model, X[80:680], 3)
    model.fit(X[:80].astype(np.float64), y[:80])
    assert len(BADGEQuery(random_state=0).select(model, X[80:680].astype(np.float64), 3)) == 3


@pytest.mark.parametrize("convert", [str, object, complex], ids=["text", "objects", "complex"])
@pytest.mark.parametrize("container", [np.asarray, np.ndarray.tolist], ids=["array", "list"])
def test_probabilities_that_are_no_real_numbers_are_refused(convert, container):
    draws = reference.random_draws(np.random.default_rng(0), 3, 9, 3).astype(convert)
    if convert is object and container is np.ndarray.tolist:
        draws[0, 0, 0] = None
    rng = np.random.default_rng(0)
    for score in ("bald", "entropy", "std_dev"):
        with pytest.raises(TypeError, match="`draws` must be an array of real numbers"):
            SCORES[score](container(draws))
    for function in (acs_fw, functools.partial(batchbald, rng=rng)):
        with pytest.raises(TypeError, match="`draws` must be an array of real numbers"):
            function(container(draws), 2)
    with pytest.raises(TypeError, match="`probabilities` must be an array of real numbers"):
        badge(container(draws[0]), np.ones((9, 2)), 2, rng)


@pytest.mark.parametrize("convert", [str, complex])
def test_embeddings_that_are_no_real_numbers_are_refused(convert):
    for embeddings in (np.ones((9, 2), convert), np.ones((9, 2), convert).tolist()):
        with pytest.raises(TypeError, match="`embeddings` must be an array of numbers"):
            badge(np.full((9, 2), 0.5), embeddings, 2, np.random.default_rng(0))
    with pytest.raises(TypeError, match="`embeddings` must be an array of numbers"):
        badge(np.full((9, 2), 0.5), torch.ones((9, 2), dtype=torch.complex64), 2, np.random.default_rng(0))


def test_complex_tensors_are_no_draws():
    with pytest.raises(TypeError, match="`draws` must be an array of real numbers"):
        batchbald(torch.ones((2, 9, 1), dtype=torch.complex64), 2, np.random.default_rng(0))


def test_badge_on_gaps_that_only_the_model_takes_mentions_an_embedding():
    pool = X_POOL.copy()
    pool[4, 1] = np.nan
    trees = HistGradientBoostingClassifier(max_iter=2).fit(X_TRAIN, LABELS)
    with pytest.raises(ValueError, match=r"`embeddings` must be finite.* row 4.* `embedding`, a function of the rows"):
        BADGEQuery().select(trees, pool, 2)
    assert len(BADGEQuery(np.nan_to_num, random_state=0).select(trees, pool, 2)) == 2


@every_method
def test_methods_have_no_sampling_law_and_say_so(method, forest):
    query = method(random_state=0)
    with pytest.raises(AttributeError, match="no query yet"):
        query.log_proba_  # noqa: B018
    query.select(forest, X_POOL, 2)
    with pytest.raises(
        AttributeError, match=f"{method.__name__} has no `log_proba_`: its batches have no sampling law"
    ):
        query.log_proba_  # noqa: B018


@every_query
@pytest.mark.parametrize("candidates", [None, np.arange(5, 20)])
def test_scores_of_a_query_are_read_only(query, candidates, forest):
    query = query(random_state=0)
    query.select(forest, X_POOL, 2, candidates=candidates)
    with pytest.raises(ValueError, match="read-only"):
        query.scores_[0] = 1.0


@pytest.mark.parametrize("estimator", [RidgeClassifier(), KMeans(2, n_init=1)])
def test_badge_refuses_what_has_no_probabilities_with_the_way_out(estimator):
    with pytest.raises(TypeError, match=rf"`estimator`.*{type(estimator).__name__}.*CalibratedClassifierCV"):
        BADGEQuery().select(estimator.fit(X_TRAIN, Y_TRAIN), X_POOL, 2)


@every_method
def test_methods_refuse_an_estimator_of_several_outputs(method):
    forest = RandomForestClassifier(5, random_state=0).fit(X_TRAIN, np.stack([Y_TRAIN, Y_TRAIN], axis=1))
    with pytest.raises(ValueError, match="several outputs"):
        method().select(forest, X_POOL, 2)


def test_badge_refuses_rows_of_text_that_only_the_model_understands():
    texts = [["red", "hot"], ["blue", "cold"]] * 5
    model = Echo().fit(texts)
    model.predict_proba = lambda X: np.full((len(X), 2), 0.5)
    for pool in (texts, np.array(texts), pd.DataFrame(texts)):
        with pytest.raises(TypeError, match=r"`embeddings` must be an array of numbers.*`embedding`"):
            BADGEQuery().select(model, pool, 2)


@every_method
@pytest.mark.parametrize("container", pools())
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_methods_do_not_change_a_pool(method, container, forest):
    pool = pools()[container]
    before = contents(pool)
    assert len(set(method(random_state=0).select(forest, pool, 3).tolist())) == 3
    for was, is_now in zip(before, contents(pool), strict=True):
        np.testing.assert_array_equal(is_now, was)


@every_method
@pytest.mark.parametrize("training", [True, False])
def test_methods_do_not_change_a_module(method, training):
    net = batch_norm_net()
    net.module_.train(training)
    before = state_of(net.module_)
    for model in (net, net.module_):
        indices = method(chunk_size=7, random_state=0).select(model, X_POOL, 3)
        assert len(set(indices.tolist())) == 3
        assert_same_state(net.module_, before)


@every_method
@every_estimator
@pytest.mark.parametrize("random_state", [None, 0])
@pytest.mark.usefixtures("global_state_untouched")
def test_methods_consume_no_global_random_state(method, kind, random_state, estimators):
    assert len(set(method(random_state=random_state).select(estimators[kind], X_POOL, 3).tolist())) == 3


@every_method
def test_an_unknown_keyword_of_a_method_is_a_type_error(method, forest):
    with pytest.raises(TypeError, match="`beta`"):
        method()(forest, X_POOL, 2, beta=2.0)


# ----------------------------------------------------------------------------------------------------------- BatchBALD

DRAWS = reference.random_draws(np.random.default_rng(0), 6, 9, 3)


def batchbald_of(draws=DRAWS, k=2, rng=None, **params):
    return batchbald(draws, k, np.random.default_rng(0) if rng is None else rng, **params)


@pytest.mark.parametrize(("k", "error"), [(10, ValueError), (0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_batchbald_refuses_a_batch_size_outside_the_points(k, error):
    with pytest.raises(error, match=r"`k` must be .*the number of points, 9"):
        batchbald_of(k=k)


@pytest.mark.parametrize(
    ("max_outcomes", "error"), [(2, ValueError), (0, ValueError), (1e4, TypeError), (None, TypeError)]
)
def test_batchbald_refuses_outcomes_that_do_not_hold_those_of_one_label(max_outcomes, error, forest):
    with pytest.raises(error, match=r"`max_outcomes` must be .*n_classes=3 or more"):
        batchbald_of(max_outcomes=max_outcomes)
    with pytest.raises(error, match=r"`max_outcomes` must be"):
        BatchBALDQuery(max_outcomes=max_outcomes).select(forest, X_POOL, 2)


def test_outcomes_of_one_label_are_enough_for_batchbald():
    assert len(set(batchbald_of(k=9, max_outcomes=3).indices.tolist())) == 9


def test_one_draw_is_refused_with_the_parameter_to_raise():
    with pytest.raises(ValueError, match=r"`n_draws` must be 2 or more for BatchBALD"):
        batchbald_of(DRAWS[:1])
    for estimator, params in [(RandomForestClassifier(1), {}), (RandomForestClassifier(5), {"n_draws": 1})]:
        with pytest.raises(ValueError, match=r"`n_draws` must be 2 or more for BatchBALD"):
            BatchBALDQuery(**params).select(estimator.fit(X_TRAIN, LABELS), X_POOL, 2)


@pytest.mark.parametrize("shape", [(6, 9), (9,), (2, 6, 9, 3), (0, 9, 3), (6, 9, 0)])
def test_batchbald_refuses_draws_of_another_shape(shape):
    with pytest.raises(ValueError, match="`draws` must"):
        batchbald_of(np.ones(shape))


def test_batchbald_refuses_an_empty_pool_of_draws():
    with pytest.raises(ValueError, match="Cannot choose `k`=2 rows from 0 points"):
        batchbald_of(DRAWS[:, :0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.5, 2.0])
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_batchbald_refuses_rows_that_are_no_probabilities_and_names_them(bad, kind):
    draws = DRAWS.copy()
    draws[4, 7, 1] = bad
    with pytest.raises(ValueError, match="in draw 4 of point 7"):
        batchbald_of(kind(draws))


@pytest.mark.parametrize("rng", [0, np.random.RandomState(0), np.random])
def test_batchbald_refuses_another_source_of_randomness(rng):
    with pytest.raises(TypeError, match="`rng`"):
        batchbald_of(rng=rng)


class MaskARow(Echo):
    """Dropout left on: the mask of a row is the next one, or goes by the row's place in the batch."""

    def __init__(self, by_place=True):
        self.by_place = by_place

    def sample_posterior(self, n_draws, rng):
        def predict_draws(X):
            masks = np.random.default_rng(0) if self.by_place else rng
            yes = masks.uniform(0.2, 0.8, size=(len(X), 5)).T
            return np.stack([1 - yes, yes], axis=-1)

        return predict_draws


@pytest.mark.parametrize("by_place", [True, False])
@pytest.mark.parametrize("chunk_size", [None, 4])
def test_batchbald_refuses_draws_with_a_mask_a_row(by_place, chunk_size):
    X = np.full((9, 2), 0.5)
    with pytest.raises(ValueError, match=r"`predict_draws` must return the same values"):
        BatchBALDQuery(chunk_size=chunk_size).select(MaskARow(by_place).fit(X), X, 2)


def test_batchbald_refuses_draws_of_other_shapes_on_the_way():
    class Shrinking(Echo):
        def sample_posterior(self, n_draws, rng):
            predict_draws = super().sample_posterior(n_draws, rng)
            return lambda X: predict_draws(X)[: 3 if len(X) == 1 else 2]

    X = np.full((9, 2), 0.5)
    with pytest.raises(ValueError, match="`predict_draws` must return draws of shape"):
        BatchBALDQuery().select(Shrinking().fit(X), X, 2)


# ---------------------------------------------------------------------------------------------------------- CausalBALD

X_CAUSAL, Y_CAUSAL, _ = make_causal(60, np.random.default_rng(0))
OUTCOMES = RandomForestRegressor(10, random_state=0).fit(X_CAUSAL[:30], Y_CAUSAL[:30])
CAUSAL_POOL = X_CAUSAL[30:]


def causal_batch(pool=CAUSAL_POOL, model=OUTCOMES, **params):
    given = {name: params.pop(name) for name in ("X_training", "y_training") if name in params}
    return CausalBALDQuery(**{"treatment": 1, "random_state": 0, **params}).select(model, pool, 3, **given)


class DrawsOfClasses:
    """Draws that no tag announces as those of a classifier."""

    def sample_posterior(self, n_draws, rng):
        return lambda X: np.full((3, len(X), 4), 0.25)


def with_treatments(*values, dtype=float):
    """A pool with these in its treatment column, and what was there below."""
    pool = CAUSAL_POOL.astype(dtype)
    pool[: len(values), 1] = values
    return pool


@pytest.mark.parametrize(
    ("treatment", "error", "says"),
    [
        (None, ValueError, "Got None"),
        (2, ValueError, "from 0 to 1, or negative.*Got 2"),
        (-3, ValueError, "Got -3"),
        ("t", TypeError, "columns have no names.*Got 't'.*DataFrame"),
        (1.0, TypeError, "an integer.*Got 1.0"),
        (True, TypeError, "an integer.*Got True"),
    ],
)
def test_a_treatment_that_is_no_column_is_refused(treatment, error, says):
    with pytest.raises(error, match=f"`treatment` must.*{says}"):
        causal_batch(treatment=treatment)
    if treatment is not None:
        with pytest.raises(error, match=f"`treatment` must.*{says}"):
            predict_effects(OUTCOMES, CAUSAL_POOL, treatment)
        with pytest.raises(error, match=f"`treatment` must.*{says}"):
            estimate_effects(OUTCOMES, CAUSAL_POOL, treatment)
        with pytest.raises(error, match=f"`treatment` must.*{says}"):
            potential_outcomes(lambda X: np.zeros((2, len(X))), CAUSAL_POOL, treatment)


def test_a_name_that_is_no_column_is_refused_with_the_columns():
    frame = pd.DataFrame(CAUSAL_POOL, columns=["age", "drug"])
    forest = RandomForestRegressor(5).fit(frame, Y_CAUSAL[30:])
    with pytest.raises(ValueError, match=r"`treatment` must be one of the columns 'age', 'drug'.*Got 'dose'"):
        causal_batch(frame, forest, treatment="dose")
    twice = pd.DataFrame(CAUSAL_POOL, columns=["drug", "drug"])
    with pytest.raises(ValueError, match="Got 'drug', of which there are 2"):
        predict_effects(OUTCOMES, twice, "drug")


@pytest.mark.parametrize("pool", [["yes", "no", "no"], np.zeros(5), np.zeros((5, 2, 3))])
def test_rows_without_columns_have_no_treatment(pool):
    with pytest.raises(ValueError, match="`treatment` is a column, and the rows are not a table"):
        causal_batch(pool, DrawsOfClasses(), treatment=0)


@pytest.mark.parametrize(("value", "shown"), [(2, "2.0"), (-1, "-1.0"), (0.5, "0.5"), (math.nan, "nan")])
def test_treatments_other_than_0_and_1_are_refused_with_the_first(value, shown):
    with pytest.raises(ValueError, match=rf"`treatment` must be 0 or 1 in every row. Got .*{shown}"):
        causal_batch(with_treatments(0, 1, value))
    with pytest.raises(ValueError, match=rf"`treatment` must be 0 or 1 in every row. Got {shown}"):
        SCORES["mu"](np.zeros((2, 3, 2)), treatment=[0, 1, value])


def test_treatments_that_are_words_are_refused():
    with pytest.raises(ValueError, match=r"`treatment` must be 0 or 1 in every row. Got 'drug'"):
        causal_batch(with_treatments("drug", "placebo", dtype=object))


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("training", [{}, {"X_training": True}])
def test_a_constant_treatment_is_refused(value, training):
    pool = with_treatments(*[value] * len(CAUSAL_POOL))
    given = {"X_training": pool[:5], "y_training": Y_CAUSAL[:5]} if training else {}
    with pytest.raises(ValueError, match=f"`treatment` is {value} in every row of the pool.*the right column"):
        causal_batch(pool, **given)


def test_a_classifier_of_outcomes_is_refused_with_what_to_do():
    forest = RandomForestClassifier(5, random_state=0).fit(X_CAUSAL, Y_CAUSAL > 0)
    for call in (lambda: causal_batch(model=forest), lambda: estimate_effects(forest, CAUSAL_POOL, 1)):
        with pytest.raises(TypeError, match=r"`estimator` must be a regressor .* fit a regressor to 0 and 1"):
            call()


def test_draws_of_classes_are_refused_for_effects():
    model = DrawsOfClasses()
    for call in (lambda: causal_batch(model=model), lambda: estimate_effects(model, CAUSAL_POOL, 1)):
        with pytest.raises(TypeError, match=r"`estimator` must predict one outcome.*\(3, 1, 4\)"):
            call()


@pytest.mark.parametrize("score", ["bald", "variance"])
def test_scores_of_anything_but_outcomes_are_refused(score):
    with pytest.raises(ValueError, match=rf"`score` must be a callable or one of \['mu', .*Got '{score}'"):
        causal_batch(score=score)


@pytest.mark.parametrize("score", ["mu_rho", "mu", "tau", "rho", "mu_pi"])
def test_scores_of_outcomes_are_refused_where_there_is_no_treatment(score, forest):
    for model, pool in ((OUTCOMES, CAUSAL_POOL), (forest, X_POOL)):
        with pytest.raises(
            ValueError, match=rf"`score`='{score}' .* CausalBALDQuery\(score='{score}', treatment=...\)"
        ):
            StochasticBatchQuery(score=score).select(model, pool, 2)


@pytest.mark.parametrize("shape", [(6, 9), (6, 9, 3), (6, 9, 1), (9,)])
def test_draws_that_are_not_two_outcomes_are_refused(shape):
    with pytest.raises(ValueError, match=r"`draws` must have shape \(n_draws, n_points, 2\). Got shape \("):
        SCORES["tau"](np.ones(shape))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_outcome_that_is_not_finite_is_named_by_draw_and_point(bad):
    draws = np.zeros((6, 9, 2))
    draws[4, 7, 1] = bad
    with pytest.raises(ValueError, match=f"`draws` must be finite. Got {bad} in draw 4 of point 7"):
        SCORES["mu_rho"](draws, treatment=np.zeros(9))


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, 1.5, math.nan])
def test_a_propensity_of_0_or_1_is_refused(value):
    with pytest.raises(ValueError, match=rf"`propensity` must be above 0 and below 1.*Got {value}.*less sure"):
        SCORES["mu_pi"](np.zeros((2, 3, 2)), treatment=[0, 1, 1], propensity=[0.5, value, 0.5])


@pytest.mark.parametrize("name", ["treatment", "propensity"])
@pytest.mark.parametrize("value", [0.5, [0.5], [[0.5] * 3] * 2])
def test_a_treatment_or_propensity_that_is_not_one_a_point_is_refused(name, value):
    given = {"treatment": [0, 1, 1], "propensity": [0.5, 0.5, 0.5], name: value}
    with pytest.raises(ValueError, match=rf"`{name}` must have shape \(3,\)"):
        SCORES["mu_pi"](np.zeros((2, 3, 2)), **given)


def test_a_propensity_that_is_sure_is_refused_in_a_query():
    sure = DecisionTreeClassifier(random_state=0)
    with pytest.raises(ValueError, match=r"Scoring rows 0 to 29 failed: `propensity` must be above 0 and below 1"):
        causal_batch(score="mu_pi", propensity=sure)


def test_a_score_of_the_propensity_needs_a_classifier_for_it():
    with pytest.raises(ValueError, match="`propensity` must be given for score='mu_pi'"):
        causal_batch(score="mu_pi")
    for model in (LinearRegression(), RidgeClassifier(), 0.5):
        with pytest.raises(TypeError, match="`propensity` must be None or a classifier with predict_proba"):
            causal_batch(score="mu_pi", propensity=model)


def test_a_propensity_that_cannot_be_fitted_says_so():
    gaps = CAUSAL_POOL.copy()
    gaps[3, 0] = math.nan
    with pytest.raises(ValueError, match="Fitting LogisticRegression, the `propensity`, to the treatments failed"):
        causal_batch(gaps, score="mu_pi", propensity=LogisticRegression())
    untreated = CAUSAL_POOL[CAUSAL_POOL[:, 1] == 0]
    given = {"X_training": X_CAUSAL, "y_training": Y_CAUSAL}
    with pytest.raises(ValueError, match=r"`propensity` must be fitted to treatments 0 and 1.*Got the classes \[0\]"):
        causal_batch(untreated, score="mu_pi", propensity=RandomForestClassifier(5), **given)


def test_one_draw_of_outcomes_is_refused():
    with pytest.raises(ValueError, match="`score`='mu_rho' needs two draws or more"):
        causal_batch(n_draws=1)


@pytest.mark.parametrize(
    ("true_effects", "effects", "says"),
    [
        ([1.0], [1.0, 2.0], r"same shape .*\(1,\) and \(2,\)"),
        ([[1.0]], [[1.0]], "same shape"),
        ([], [], "a point or more"),
        ([1.0, math.nan], [1.0, 2.0], "`true_effects` must be finite. Got nan in row 1"),
        ([1.0, 2.0], [math.inf, 2.0], "`effects` must be finite. Got inf in row 0"),
    ],
)
def test_effects_that_cannot_be_compared_are_refused(true_effects, effects, says):
    with pytest.raises(ValueError, match=says):
        sqrt_pehe(true_effects, effects)


@pytest.mark.parametrize(("level", "error"), [(0, ValueError), (1.0, ValueError), (95, ValueError), ("a", TypeError)])
def test_a_level_outside_0_and_1_is_refused(level, error):
    with pytest.raises(error, match="`level` must be"):
        estimate_effects(OUTCOMES, CAUSAL_POOL, 1, level=level)


def test_effects_need_a_model_that_predicts():
    with pytest.raises(TypeError, match=r"`estimator` must be a fitted regressor with `predict`. Got a object"):
        predict_effects(object(), CAUSAL_POOL, 1)
    with pytest.raises(NotFittedError):
        estimate_effects(RandomForestRegressor(), CAUSAL_POOL, 1)


@pytest.mark.parametrize(("n", "rng", "error"), [(0, None, ValueError), (1.5, None, TypeError), (5, 0, TypeError)])
def test_synthetic_treatments_are_made_of_a_number_and_a_generator(n, rng, error):
    with pytest.raises(error, match=r"`n`|`rng`"):
        make_causal(n, np.random.default_rng(0) if rng is None else rng)


@pytest.mark.parametrize("container", ["frame", "array"])
def test_queries_of_effects_do_not_change_a_pool(container):
    pool = CAUSAL_POOL.copy()
    pool.flags.writeable = False
    pool = pd.DataFrame(pool, copy=True) if container == "frame" else pool
    before = np.array(pool)
    assert len(causal_batch(pool, RandomForestRegressor(5).fit(pool, Y_CAUSAL[30:]))) == 3
    np.testing.assert_array_equal(np.array(pool), before)


# ----------------------------------------------------------------------------------------------------- EPIG, and risk


def test_epig_without_targets_says_what_to_give(forest):
    with pytest.raises(ValueError, match=r"`X_target` must be given for score='epig'"):
        StochasticBatchQuery("epig").select(forest, X_POOL, 2)


@pytest.mark.parametrize("X_target", [X_POOL[:, :3], X_POOL[:0], X_POOL[:, :3].tolist()])
def test_targets_of_other_columns_or_none_are_refused(X_target, forest):
    with pytest.raises(ValueError, match=r"`X_target` must (have the columns of `X_pool`, 4. Got 3|hold one row)"):
        StochasticBatchQuery("epig", X_target=X_target).select(forest, X_POOL, 2)


def test_targets_that_the_model_cannot_take_are_named(forest):
    with pytest.raises(ValueError, match="`X_target`"):
        StochasticBatchQuery("epig", X_target=X_POOL.astype(str) + "?").select(forest, X_POOL, 2)


@pytest.mark.parametrize("shape", [(3, 5, 4), (2, 5, 3), (3, 0, 4), (3, 5)])
def test_target_draws_of_other_axes_are_refused_with_their_shape(shape):
    with pytest.raises(ValueError, match=r"`target_draws` must have shape \(2, n_targets, 4\)"):
        epig(np.full((2, 6, 4), 0.25), target_draws=np.full(shape, 1 / shape[-1]))


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, math.nan, 1.0], [1.0, math.inf, 1.0]]
)
def test_target_weights_that_are_none_are_refused(weights):
    draws = np.full((2, 3, 4), 0.25)
    with pytest.raises(ValueError, match="`target_weights`"):
        epig(draws, target_draws=draws, target_weights=weights)


@pytest.mark.parametrize(("epsilon", "error"), [(-0.1, ValueError), (1.5, ValueError), (math.nan, ValueError)])
def test_an_epsilon_outside_0_and_1_is_refused(epsilon, error, forest):
    with pytest.raises(error, match="`epsilon`"):
        StochasticBatchQuery(epsilon=epsilon).select(forest, X_POOL, 2)


@pytest.mark.parametrize("epsilon", ["0.1", None, True])
def test_an_epsilon_that_is_no_number_is_refused(epsilon, forest):
    with pytest.raises(TypeError, match="`epsilon`"):
        StochasticBatchQuery(epsilon=epsilon).select(forest, X_POOL, 2)


def first_rows(scores, k, rng, *, beta=1.0):
    return np.arange(k)


def test_epsilon_needs_a_sampler_of_known_law(forest):
    with pytest.raises(ValueError, match=r"`epsilon`.*'first_rows' has no `log_weights`"):
        StochasticBatchQuery(sampler=first_rows, epsilon=0.1).select(forest, X_POOL, 2)


@pytest.mark.parametrize("weights", [lure_weights, pure_weights])
@pytest.mark.parametrize(
    ("log_proba", "error", "message"),
    [
        (None, TypeError, "`log_proba` must be .*Got None"),
        ([], ValueError, r"`log_proba` must have shape"),
        ([[-1.0]], ValueError, r"`log_proba` must have shape .*\(1, 1\)"),
        ([-1.0, -math.inf], ValueError, r"-inf for pick 1, and 1 such .*epsilon=0\.1"),
        ([-1.0, -800.0], ValueError, r"-800\.0 for pick 1.*epsilon"),
        ([0.5, -1.0], ValueError, r"`log_proba` must be natural logarithms .* Got 0\.5 for pick 0"),
        ([math.nan], ValueError, "nan for pick 0"),
    ],
)
def test_log_probabilities_that_give_no_weights_are_refused(weights, log_proba, error, message):
    with pytest.raises(error, match=message):
        weights(log_proba, 10)


@pytest.mark.parametrize(("n_pool", "error"), [(1, ValueError), (0, ValueError), (10.0, TypeError), (None, TypeError)])
def test_a_pool_smaller_than_the_picks_is_refused(n_pool, error):
    with pytest.raises(error, match="`n_pool` must be"):
        lure_weights([-1.0, -1.0], n_pool)


@pytest.mark.parametrize("losses", [[1.0], [[1.0, 2.0]], [1.0, math.nan], [math.inf, 0.0]])
def test_losses_that_do_not_fit_the_picks_are_refused(losses):
    with pytest.raises(ValueError, match="`losses` must be"):
        estimate_risk(losses, [-1.0, -1.0], 10)


def test_a_tester_needs_a_query_that_knows_its_probabilities(forest):
    with pytest.raises(TypeError, match="`query` must be a query with probabilities"):
        ActiveTester("bald", X_POOL)
    with pytest.raises(ValueError, match="max_candidates=5"):
        ActiveTester(StochasticBatchQuery(max_candidates=5), X_POOL)
    for query in (BADGEQuery(embedding=lambda X: X), StochasticBatchQuery(sampler=first_rows)):
        with pytest.raises(TypeError, match=r"`query` must know the probability of its picks"):
            ActiveTester(query, X_POOL).ask(forest, 2)


def test_a_tester_is_told_the_labels_of_the_rows_it_asked_for(forest):
    tester = ActiveTester(StochasticBatchQuery(epsilon=0.1), X_POOL)
    with pytest.raises(ValueError, match="`ask` was not called"):
        tester.tell(["oak"])
    with pytest.raises(ValueError, match="The tester has no labels yet"):
        tester.risk(forest)
    tester.ask(forest, 3)
    with pytest.raises(ValueError, match=r"labels of the 3 rows.*\(2,\)"):
        tester.tell(["oak", "elm"])
    tester.tell(["oak", "elm", "elm"])
    with pytest.raises(ValueError, match="`loss` must be a callable or one of 'log_loss'"):
        tester.risk(forest, "accuracy")
    with pytest.raises(TypeError, match="RidgeClassifier has none"):
        tester.risk(RidgeClassifier().fit(X_TRAIN, LABELS))
