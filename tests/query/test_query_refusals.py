"""What a query says to bad input."""

from __future__ import annotations

import math

import dask.array
import numpy as np
import pytest
import reference
from modAL.models import ActiveLearner
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_models import LABELS, X_POOL, X_TRAIN, skorch_net
from torch import nn

from skactive import MCDropoutClassifier, StochasticBatchQuery, blocks, run_experiment
from skactive.query import score_pool
from skactive.samplers import SAMPLERS
from skactive.scores import SCORES


def make(score="bald", **parameters):
    return StochasticBatchQuery(score, **{"beta": 1.0, "random_state": 0, **parameters})


@pytest.mark.parametrize("n_instances", [31, 10**9, 0, -1, True, 2.0, math.nan, "2", None])
def test_a_batch_size_that_is_none_of_the_pools_names_itself_and_the_pool_size(n_instances, forest):
    learner = ActiveLearner(RandomForestClassifier(5), make(), X_training=X_TRAIN, y_training=LABELS)
    for call in (lambda: make().select(forest, X_POOL, n_instances), lambda: learner.query(X_POOL, n_instances)):
        with pytest.raises((TypeError, ValueError), match=r"`n_instances`.* 30"):
            call()


def test_an_empty_pool_is_refused(forest):
    for pool in (np.empty((0, 4)), []):
        for call in (lambda X: make().select(forest, X, 1), lambda X: score_pool(forest, X)):
            with pytest.raises(ValueError, match="`X_pool` is empty"):
                call(pool)


def test_values_behind_a_mask_are_refused_wherever_rows_enter(forest):
    hidden = np.ma.array(X_POOL, mask=X_POOL > 1)
    for name, query, X_pool in [
        ("X_pool", make(), hidden),
        ("X_pool", make(), tuple(hidden)),
        ("X_pool", make(), blocks([X_POOL, hidden])),
        ("X_pool", make(), dask.array.from_array(hidden, chunks=9, asarray=False)),
        ("X_target", make("epig", X_target=[*hidden]), X_POOL),
    ]:
        with pytest.raises(ValueError, match=f"`{name}` must have no masked entries"):
            query.select(forest, X_pool, 2)
    with pytest.raises(ValueError, match="`X_training` must have no masked entries"):
        make(posterior="bootstrap").select(forest, X_POOL, 2, X_training=hidden, y_training=LABELS)
    with pytest.raises(ValueError, match="`X` must have no masked entries"):
        ActiveLearner(forest, make(), X_TRAIN, LABELS).teach(hidden, LABELS[: len(hidden)])
    assert len(make().select(forest, np.ma.array(X_POOL), 2)) == 2


def test_structured_arrays_are_refused_wherever_rows_enter(forest):
    records = np.rec.fromarrays(X_POOL.T, names="a, b, c, d")
    labels = np.zeros(len(records))
    for name, ask in [
        ("X_pool", lambda: make().select(forest, records, 2)),
        ("X_pool", lambda: make().select(forest, blocks([records]), 2)),
        ("X_training", lambda: make().select(forest, X_POOL, 2, X_training=records, y_training=labels)),
        ("X", lambda: run_experiment(forest, {"a": make()}, records, labels, n_initial=2, n_rounds=1)),
    ]:
        with pytest.raises(TypeError, match=f"`{name}` .* structured array with the fields .*'a'.*DataFrame"):
            ask()


@pytest.mark.parametrize(("parameter", "registry"), [("score", SCORES), ("sampler", SAMPLERS)])
def test_an_unknown_name_is_refused_with_the_names_there_are(parameter, registry, forest):
    with pytest.raises(ValueError, match=f"`{parameter}` must be a callable or one of") as caught:
        StochasticBatchQuery(**{parameter: "BALD"}).select(forest, X_POOL, 2)
    assert all(known in str(caught.value) for known in registry)


def test_targets_are_rows_of_the_columns_of_the_pool(forest):
    with pytest.raises(ValueError, match=r"`X_target` must be given if the pool can be read only once"):
        make("epig").select(forest, blocks(iter([X_POOL])), 2)
    for X_target in (X_POOL[:, :3], X_POOL[:0]):
        with pytest.raises(ValueError, match=r"`X_target` must (have the columns of `X_pool`, 4. Got 3|hold at least)"):
            make("epig", X_target=X_target).select(forest, X_POOL, 2)


def test_batches_of_a_learner_that_was_never_fitted_are_uniform():
    learner = ActiveLearner(RandomForestClassifier(), make())
    n_trials, counts = 150, np.zeros(6, dtype=int)
    for _ in range(n_trials):
        with pytest.warns(UserWarning, match="not fitted yet"):
            counts[learner.query(X_POOL[:6], n_instances=2)[0]] += 1
    for row, count in enumerate(counts):  # each row is in 2 of 6 batches: exact binomial tails
        assert reference.tail(count, n_trials, 1 / 3) > 1e-6, (row, count)


@pytest.mark.parametrize(
    "estimator", [make_pipeline(StandardScaler(), RandomForestClassifier()), MCDropoutClassifier()]
)
def test_an_estimator_that_was_never_fitted_is_refused_by_score_pool_alone(estimator):
    with pytest.raises(NotFittedError):
        score_pool(estimator, X_POOL, "entropy")
    with pytest.warns(UserWarning, match=r"not fitted yet.* uniform at random"):
        assert len(make("entropy").select(estimator, X_POOL, 2)) == 2


def test_a_net_without_dropout_is_refused():
    plain = skorch_net(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    never = skorch_net(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 3))
    for net in (plain, never):
        with pytest.raises(ValueError, match=r"(?i)dropout"):
            make().select(net, X_POOL, 2)


def test_a_class_score_of_a_regressor_is_refused_with_the_type_and_the_way_out():
    regressor = LinearRegression().fit(X_TRAIN, X_TRAIN[:, 0])
    with pytest.raises(ValueError, match=r"such as LinearRegression.*std_dev"):
        make("entropy").select(regressor, X_POOL, 2, X_training=X_TRAIN, y_training=X_TRAIN[:, 0])


@pytest.mark.parametrize("posterior", ["auto", "bootstrap", RandomForestClassifier(5)])
def test_a_score_of_draws_without_draws_and_training_data_names_the_posterior(posterior):
    with pytest.raises(ValueError, match=r"`posterior`.* Give `X_training` and `y_training`"):
        make(posterior=posterior).select(LogisticRegression().fit(X_TRAIN, LABELS), X_POOL, 2)
