"""What a query says to bad input."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import reference
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_models import LABELS, X_POOL, X_TRAIN, Y_TRAIN, Echo, echo, every_estimator, first_rows, skorch_net
from torch import nn

from skactive import MCDropoutClassifier, StochasticBatchQuery
from skactive.query import score_pool
from skactive.samplers import SAMPLERS
from skactive.scores import SCORES

CLASS_SCORES = ["bald", "entropy", "variation_ratio", "margin"]


# ---------------------------------------------------------------------------------------------------- size of the batch


@every_estimator
@pytest.mark.parametrize("n_instances", [31, 10**9, 0, -1])
def test_a_batch_size_outside_the_pool_names_itself_and_the_pool_size(kind, n_instances, estimators):
    with pytest.raises(ValueError, match="`n_instances`") as caught:
        StochasticBatchQuery("bald", beta=1.0).select(estimators[kind], X_POOL, n_instances)
    assert "30" in str(caught.value)
    assert str(n_instances) in str(caught.value)


@pytest.mark.parametrize("n_instances", [True, np.True_, 2.0, 2.5, math.nan, "2", None])
def test_a_batch_size_that_is_no_integer_names_itself_and_the_pool_size(n_instances, forest):
    with pytest.raises((TypeError, ValueError), match="`n_instances`") as caught:
        StochasticBatchQuery("bald", beta=1.0).select(forest, X_POOL, n_instances)
    assert "30" in str(caught.value)


@pytest.mark.parametrize(("n_instances", "error"), [(31, ValueError), (0, ValueError), (True, TypeError)])
def test_a_bad_batch_size_is_refused_inside_modal_as_well(n_instances, error, forest):
    learner = ActiveLearner(
        RandomForestClassifier(5), StochasticBatchQuery("bald", beta=1.0), X_training=X_TRAIN, y_training=LABELS
    )
    with pytest.raises(error, match="`n_instances`"):
        learner.query(X_POOL, n_instances=n_instances)


@pytest.mark.parametrize("n_instances", [1, np.int64(1), np.int16(30), 30])
def test_numpy_integers_up_to_the_pool_size_are_batch_sizes(n_instances, forest):
    indices = StochasticBatchQuery("bald", beta=1.0, sampler="softmax").select(forest, X_POOL, n_instances)
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
        StochasticBatchQuery("bald", beta=1.0).select(forest, EMPTY_POOLS[container], n_instances)


@every_estimator
def test_an_empty_pool_is_refused_for_every_estimator(kind, estimators):
    with pytest.raises(ValueError, match=r"(?i)empty|\b0\b"):
        StochasticBatchQuery("bald", beta=1.0).select(estimators[kind], EMPTY_POOLS["array"], 1)


@every_estimator
@pytest.mark.parametrize("score", ["bald", "entropy"])
@pytest.mark.parametrize("n_features", [3, 5])
def test_a_pool_with_other_columns_than_the_model_was_fitted_on_is_refused(kind, score, n_features, estimators):
    with pytest.raises(ValueError):
        StochasticBatchQuery(score=score, beta=1.0).select(
            estimators[kind], np.zeros((9, n_features), dtype=np.float32), 2
        )


# ------------------------------------------------------------------------------------------------------ a user's scores


@pytest.mark.parametrize("chunk_size", [None, 4])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("sampler", sorted(SAMPLERS))
def test_scores_that_are_nan_or_infinite_are_refused_with_the_row_of_the_pool(sampler, value, chunk_size):
    values = np.full(15, 0.5)
    values[13] = value
    estimator, X, score = echo(values)
    query = StochasticBatchQuery(score=score, sampler=sampler, chunk_size=chunk_size, beta=1.0)
    with pytest.raises(ValueError, match=rf"(?s)(\b13\b.*{value})|({value}.*\b13\b)"):
        query.select(estimator, X, 2)


def test_negative_scores_under_power_are_refused_with_row_and_value():
    values = np.full(15, 0.5)
    values[11] = -0.25
    estimator, X, score = echo(values)
    with pytest.raises(ValueError, match=r"(?s)(\b11\b.*-0\.25)|(-0\.25.*\b11\b)"):
        StochasticBatchQuery(score=score, chunk_size=4, beta=1.0).select(estimator, X, 2)


def test_rounding_below_zero_counts_as_zero_under_power():
    values = np.full(15, -1e-10)
    values[[2, 9]] = 0.5
    estimator, X, score = echo(values)
    query = StochasticBatchQuery(score=score, random_state=0, beta=1.0)
    for _ in range(20):
        assert set(query.select(estimator, X, 2).tolist()) == {2, 9}


@pytest.mark.parametrize("sampler", ["softmax", "softrank"])
def test_minus_infinity_means_never_unless_needed(sampler):
    values = np.full(15, -math.inf)
    values[[2, 9]] = -3.0
    estimator, X, score = echo(values)
    query = StochasticBatchQuery(score=score, sampler=sampler, random_state=0, beta=1.0)
    for _ in range(20):
        assert set(query.select(estimator, X, 2).tolist()) == {2, 9}
    assert set(query.select(estimator, X, 5)[:2].tolist()) == {2, 9}


@pytest.mark.parametrize("n_positive", [0, 2])
@pytest.mark.parametrize("chunk_size", [None, 4])
def test_too_few_positive_scores_under_power_are_filled_up_with_one_warning(n_positive, chunk_size):
    values = np.zeros(15)
    values[3 : 3 + n_positive] = 0.5
    estimator, X, score = echo(values)
    query = StochasticBatchQuery(score=score, chunk_size=chunk_size, random_state=0, beta=1.0)
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
        indices = StochasticBatchQuery(score=score, sampler=sampler, random_state=0, beta=1.0).select(estimator, X, 15)
    assert sorted(indices.tolist()) == list(range(15))


# ---------------------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("beta", [-1.0, math.nan, "1", "auto", None, True])
def test_a_beta_that_is_no_number_from_zero_up_is_refused(beta, forest):
    with pytest.raises((TypeError, ValueError), match="`beta`"):
        StochasticBatchQuery("bald", beta=beta).select(forest, X_POOL, 2)
    learner = ActiveLearner(
        RandomForestClassifier(5), StochasticBatchQuery("bald", beta=1.0), X_training=X_TRAIN, y_training=LABELS
    )
    with pytest.raises((TypeError, ValueError), match="`beta`"):
        learner.query(X_POOL, n_instances=2, beta=beta)


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
    learner = ActiveLearner(
        RandomForestClassifier(5), StochasticBatchQuery("bald", beta=1.0), X_training=X_TRAIN, y_training=LABELS
    )
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
        StochasticBatchQuery("bald", "softmax", beta=1.0, n_draws=n_draws).select(Curious().fit(X), X, 2)
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
        StochasticBatchQuery(score=score, beta=1.0).select(Wrong().fit(X), X, 2)


@pytest.mark.parametrize("bad", [math.nan, -0.5])
def test_predict_proba_that_gives_no_probabilities_is_refused_as_well(bad):
    class Wrong(KNeighborsClassifier):
        def predict_proba(self, X):
            p = super().predict_proba(X)
            p[-1, 0] = bad
            return p

    with pytest.raises(ValueError, match=f"(?i){bad}"):
        StochasticBatchQuery(score="entropy", beta=1.0).select(Wrong().fit(X_TRAIN, LABELS), X_POOL, 2)


def test_a_net_trained_on_logits_is_scored_by_its_own_nonlinearity():
    # skorch-dev/skorch #637, #519, #136: CrossEntropyLoss means that the module returns logits.
    net = skorch_net(nn.Linear(4, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3))
    seen = []

    def spy(draws):
        seen.append(np.asarray(draws, dtype=float))
        return SCORES["bald"](draws)

    StochasticBatchQuery(score=spy, n_draws=200, random_state=0, beta=1.0).select(net, X_POOL, 2)
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
        StochasticBatchQuery("bald", beta=1.0).select(net, X_POOL, 2)


# ------------------------------------------------------------------------------------ estimators without a posterior


def test_a_learner_that_was_never_fitted_gets_a_uniform_batch_and_one_warning():
    query = StochasticBatchQuery("bald", beta=1.0, random_state=0)
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
    learner = ActiveLearner(RandomForestClassifier(), StochasticBatchQuery("bald", beta=1.0))
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
    with pytest.warns(UserWarning, match=r"not fitted yet.* uniform at random"):
        assert len(StochasticBatchQuery(score=score, beta=1.0).select(estimator, X_POOL, 2)) == 2


def test_a_net_without_dropout_is_refused():
    plain = skorch_net(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    never = skorch_net(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 3))
    own = MCDropoutClassifier((8,), dropout=0.0, max_epochs=1, random_state=0, device="cpu").fit(X_TRAIN, LABELS)
    for net in (plain, never, own, make_pipeline(StandardScaler(), plain).fit(X_TRAIN, Y_TRAIN)):
        with pytest.raises(ValueError, match=r"(?i)dropout"):
            StochasticBatchQuery("bald", beta=1.0).select(net, X_POOL, 2)


@pytest.mark.parametrize("score", ["bald", "entropy", "std_dev"])
def test_an_estimator_that_is_neither_classifier_nor_regressor_is_refused_by_its_type(score):
    kmeans = KMeans(2, n_init=1, random_state=0).fit(X_TRAIN)
    with pytest.raises((TypeError, ValueError), match="KMeans"):
        StochasticBatchQuery(score=score, beta=1.0).select(kmeans, X_POOL, 2)


@pytest.mark.parametrize("regressor", [RandomForestRegressor(5, random_state=0), LinearRegression()])
@pytest.mark.parametrize("score", [score for score in CLASS_SCORES if score != "bald"])
def test_a_class_score_of_a_regressor_is_refused_with_the_type_and_the_way_out(score, regressor):
    regressor.fit(X_TRAIN, X_TRAIN[:, 0])
    with pytest.raises((TypeError, ValueError), match=type(regressor).__name__) as caught:
        StochasticBatchQuery(score=score, beta=1.0).select(
            regressor, X_POOL, 2, X_training=X_TRAIN, y_training=X_TRAIN[:, 0]
        )
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
        StochasticBatchQuery(score=score, beta=1.0).select(
            estimator, X_POOL[:n_rows], 1, X_training=X_TRAIN, y_training=TWO_TARGETS
        )


@pytest.mark.parametrize("n_rows", [7, 2])
def test_a_regressor_of_several_outputs_is_refused(n_rows):
    regressor = RandomForestRegressor(5, random_state=0).fit(X_TRAIN, X_TRAIN[:, :2])
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=r"(?i)output"):
        StochasticBatchQuery(score="std_dev", beta=1.0).select(regressor, X_POOL[:n_rows], 1)


@pytest.mark.parametrize("score", ["bald", "std_dev"])
@pytest.mark.parametrize("posterior", ["auto", "bootstrap", RandomForestClassifier(5)])
def test_a_score_of_draws_without_draws_and_training_data_names_the_posterior(score, posterior):
    logistic = LogisticRegression().fit(X_TRAIN, LABELS)
    with pytest.raises(ValueError, match=r"(?i)`posterior`|training"):
        StochasticBatchQuery(score=score, posterior=posterior, beta=1.0).select(logistic, X_POOL, 2)
    if posterior == "auto":
        with pytest.raises(ValueError, match="`posterior`"):
            StochasticBatchQuery(score=score, beta=1.0).select(logistic, X_POOL, 2)


# ------------------------------------------------------------------------------------- targets of EPIG, and epsilon


def test_epig_without_targets_says_what_to_give(forest):
    with pytest.raises(ValueError, match=r"`X_target` must be given for score='epig'"):
        StochasticBatchQuery("epig", beta=1.0).select(forest, X_POOL, 2)


@pytest.mark.parametrize("X_target", [X_POOL[:, :3], X_POOL[:0], X_POOL[:, :3].tolist()])
def test_targets_of_other_columns_or_none_are_refused(X_target, forest):
    with pytest.raises(ValueError, match=r"`X_target` must (have the columns of `X_pool`, 4. Got 3|hold one row)"):
        StochasticBatchQuery("epig", beta=1.0, X_target=X_target).select(forest, X_POOL, 2)


def test_targets_that_the_model_cannot_take_are_named(forest):
    with pytest.raises(ValueError, match="`X_target`"):
        StochasticBatchQuery("epig", beta=1.0, X_target=X_POOL.astype(str) + "?").select(forest, X_POOL, 2)


@pytest.mark.parametrize(("epsilon", "error"), [(-0.1, ValueError), (1.5, ValueError), (math.nan, ValueError)])
def test_an_epsilon_outside_0_and_1_is_refused(epsilon, error, forest):
    with pytest.raises(error, match="`epsilon`"):
        StochasticBatchQuery("bald", beta=1.0, epsilon=epsilon).select(forest, X_POOL, 2)


@pytest.mark.parametrize("epsilon", ["0.1", None, True])
def test_an_epsilon_that_is_no_number_is_refused(epsilon, forest):
    with pytest.raises(TypeError, match="`epsilon`"):
        StochasticBatchQuery("bald", beta=1.0, epsilon=epsilon).select(forest, X_POOL, 2)


def test_epsilon_needs_a_sampler_of_known_law(forest):
    with pytest.raises(ValueError, match=r"`epsilon`.*'first_rows' has no `log_weights`"):
        StochasticBatchQuery("bald", beta=1.0, sampler=first_rows, epsilon=0.1).select(forest, X_POOL, 2)
