"""What all queries that choose batches as a whole say to bad input, and what they never change."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from small_models import (
    LABELS,
    X_POOL,
    X_TRAIN,
    Y_TRAIN,
    Echo,
    assert_same_state,
    batch_norm_net,
    contents,
    echo,
    every_estimator,
    every_method,
    every_query,
    pools,
    state_of,
)

from skactive import ACSFWQuery, BatchBALDQuery


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


@every_method
def test_methods_refuse_a_chunk_size_that_is_no_positive_integer(method, forest):
    with pytest.raises(ValueError, match="`chunk_size`"):
        method(chunk_size=0).select(forest, X_POOL, 2)
    with pytest.raises(TypeError, match="`chunk_size`"):
        method(chunk_size=2.5).select(forest, X_POOL, 2)


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


@every_query
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"X_training": X_TRAIN}, "`X_training` and `y_training` must be given together.* 60 rows and no labels"),
        ({"y_training": LABELS}, "`X_training` and `y_training` must be given together.* no rows and 60 labels"),
        ({"X_training": X_TRAIN, "y_training": LABELS[:50]}, "`X_training` and `y_training`.* 60 rows and 50 labels"),
        ({"X_training": pd.DataFrame(X_TRAIN[:3]), "y_training": list(LABELS)}, "3 rows and 60 labels"),
    ],
)
def test_training_data_by_halves_are_refused_without_a_warning_of_a_refit(query, given, message):
    with pytest.raises(ValueError, match=message):
        query().select(LogisticRegression().fit(X_TRAIN, LABELS), X_POOL, 2, **given)


@pytest.mark.parametrize("query", [ACSFWQuery(), BatchBALDQuery()])
@pytest.mark.parametrize("estimator", [LogisticRegression(), KNeighborsClassifier()])
def test_methods_without_draws_point_to_those_that_need_none(query, estimator):
    with pytest.raises(ValueError, match=r"`posterior`.* and BADGEQuery, need `predict_proba` alone"):
        query.select(estimator.fit(X_TRAIN, LABELS), X_POOL, 2)


@every_query
def test_a_model_whose_probabilities_miss_the_sum_is_named_with_a_remedy(query):
    class Rounding(Echo):
        def __init__(self, n_classes=10):
            self.n_classes = n_classes

        def predict_proba(self, X):
            p = np.zeros((len(X), 10))
            p[:, 7], p[:, 8] = 1, 0.125
            return p

    with pytest.raises(ValueError, match=r"This Rounding gave no probabilities.* sums to 1\.125,.*as float64"):
        query().select(Rounding().fit(X_POOL), X_POOL, 2)


@every_method
def test_methods_have_no_sampling_law_and_say_so(method, forest):
    query = method(random_state=0)
    with pytest.raises(AttributeError, match="_batch"):
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


@every_method
def test_methods_refuse_an_estimator_of_several_outputs(method):
    forest = RandomForestClassifier(5, random_state=0).fit(X_TRAIN, np.stack([Y_TRAIN, Y_TRAIN], axis=1))
    with pytest.raises(ValueError, match="several outputs"):
        method().select(forest, X_POOL, 2)


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
