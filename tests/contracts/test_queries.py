"""What every query of the package keeps to. A new one is tested as soon as `skactive` names it."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LogisticRegression

import skactive
from skactive import MCDropoutClassifier, MCDropoutRegressor
from skactive.query import BatchQuery

rng = np.random.default_rng(0)
X = np.round(rng.normal(size=(90, 4)), 6)  # a text of six digits, in any container, is the same number
X[:, -1] = np.arange(90) % 2  # a treatment
Y_CLASSES = np.array(["ash", "elm", "oak"])[np.digitize(X[:, 0] + 0.3 * rng.normal(size=90), [-0.5, 0.5])]
Y_VALUES = X[:, 0] + X[:, -1]
FIRST, POOL = slice(0, 30), X[30:]

QUERIES = {
    name: getattr(skactive, name)
    for name in skactive.__all__
    if isinstance(getattr(skactive, name), type) and issubclass(getattr(skactive, name), BatchQuery)
}
NEEDS = {"CausalBALDQuery": {"treatment": -1}}
"""Parameters that a query cannot do without."""
OF_REGRESSORS = {"CausalBALDQuery"}

every_query = pytest.mark.parametrize("name", QUERIES)


def make(name, **params):
    return QUERIES[name](**NEEDS.get(name, {}), **params)


def labels(name):
    return Y_VALUES if name in OF_REGRESSORS else Y_CLASSES


def unfitted(name, kind="forest"):
    regression = name in OF_REGRESSORS
    if kind == "linear":
        return BayesianRidge() if regression else LogisticRegression()
    if kind == "forest":
        return (RandomForestRegressor if regression else RandomForestClassifier)(8, max_depth=4, random_state=0)
    net = MCDropoutRegressor if regression else MCDropoutClassifier
    return net((8,), max_epochs=3, n_draws=4, random_state=0, device="cpu")


@pytest.fixture(scope="module")
def models():
    """Fitted models, a net and a forest for each query, fitted when they are asked for."""
    known = {}

    def fitted(name, kind="net"):
        key = kind, name in OF_REGRESSORS
        if key not in known:
            rows = X[FIRST].astype(np.float32) if kind == "net" else X[FIRST]
            known[key] = unfitted(name, kind).fit(rows, labels(name)[FIRST])
        return known[key]

    return fitted


def training(name):
    return {"X_training": X[FIRST], "y_training": labels(name)[FIRST]}


def select(query, model, pool=POOL, k=5, **given):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* of the .* rows")  # a small pool is soon used up
        return query.select(model, pool, k, **given)


def test_there_are_queries_to_test():
    assert {"StochasticBatchQuery", "BatchBALDQuery", "BADGEQuery", "ACSFWQuery", "CausalBALDQuery"} <= QUERIES.keys()


# --- parameters -----------------------------------------------------------------------------------


@every_query
def test_a_clone_has_the_parameters_and_no_memory(name, models):
    query = make(name, random_state=3)
    select(query, models(name))
    twin = clone(query)
    assert twin.get_params() == query.get_params()
    assert vars(twin).keys() == query.get_params().keys()


@every_query
def test_every_parameter_has_a_rule_or_takes_anything(name):
    free = {"X_target", "treatment"}
    assert make(name).get_params(deep=False).keys() - QUERIES[name].rules.keys() <= free


def bad_values(name):
    parameters = sorted(make(name).get_params(deep=False).keys() & QUERIES[name].rules.keys())
    return [(parameter, value) for parameter in parameters for value in (b"no", -2.5, object())]


@pytest.mark.parametrize(("name", "parameter", "value"), [(name, *bad) for name in QUERIES for bad in bad_values(name)])
def test_a_bad_parameter_is_named_before_any_label_is_lost(name, parameter, value, models):
    """At the first query of a loop, too, when the learner is not fitted yet, and in every other call."""
    query = make(name)
    query.set_params(**{parameter: value})
    cold = ActiveLearner(unfitted(name), query)
    calls = [
        lambda: cold.query(POOL, n_instances=20),
        lambda: query.select(models(name), POOL, 5),
        lambda: query(models(name), POOL, 5),
        lambda: ActiveLearner(unfitted(name), make(name)).query(POOL, n_instances=5, **{parameter: value}),
    ]
    for call in calls:
        with pytest.raises((ValueError, TypeError), match=f"^`{parameter}` must be "):
            call()
    assert vars(query).keys() == query.get_params().keys()


@every_query
def test_an_unknown_keyword_is_a_type_error_that_lists_the_known(name, models):
    with pytest.raises(TypeError, match=rf"{name} takes no keyword `betta`\. It takes: n_instances, .*random_state"):
        make(name)(models(name), POOL, 2, betta=1)


# --- batches --------------------------------------------------------------------------------------


@every_query
@pytest.mark.parametrize("k", [1, 7, 60])
def test_a_batch_is_distinct_positions_of_the_pool(name, k, models):
    rows = select(make(name, random_state=0), models(name), k=k)
    assert rows.shape == (k,)
    assert rows.dtype == np.int64
    assert len(set(rows.tolist()) & set(range(len(POOL)))) == k


@every_query
@pytest.mark.parametrize("kind", ["net", "forest", "linear"])
def test_candidates_alone_are_chosen_and_scored(name, kind, models):
    mask = np.arange(len(POOL)) % 3 == 0
    for candidates in (mask, np.flatnonzero(mask)[::-1]):
        query = make(name, random_state=0)
        assert mask[select(query, models(name, kind), candidates=candidates, **training(name))].all()
        np.testing.assert_array_equal(~np.isnan(query.scores_), mask)


@pytest.mark.arithmetic
@every_query
@pytest.mark.parametrize("kind", ["net", "forest"])
@pytest.mark.parametrize("chunk_size", [1, 7, 1000])
def test_the_size_of_chunks_makes_no_difference(name, kind, chunk_size, models):
    batches = [select(make(name, random_state=0, chunk_size=size), models(name, kind)) for size in (chunk_size, None)]
    np.testing.assert_array_equal(*batches)


@every_query
@pytest.mark.parametrize(
    "container",
    [pd.DataFrame, np.ndarray.tolist, sparse.csr_array, np.asfortranarray, lambda X: X[::-1].copy()[::-1]],
    ids=["frame", "list", "sparse", "columns first", "reversed"],
)
def test_the_container_of_the_pool_makes_no_difference(name, container, models):
    model = models(name, "forest")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X has feature names")
        batch = select(make(name, random_state=0), model, container(POOL.copy()))
    np.testing.assert_array_equal(batch, select(make(name, random_state=0), model))


@every_query
def test_the_scores_are_a_record_that_cannot_be_changed(name, models):
    query = make(name, random_state=0)
    rows = select(query, models(name))
    assert query.scores_.shape == (len(POOL),)
    assert query.scores_.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        query.scores_[0] = 0.0
    np.testing.assert_array_equal(query.indices_, rows)
    assert query.n_features_in_ == 4


# --- randomness -----------------------------------------------------------------------------------


@every_query
def test_a_seed_gives_the_same_batches_and_a_call_moves_the_stream_on(name, models):
    one, other = (make(name, random_state=4) for _ in range(2))
    for _ in range(3):
        np.testing.assert_array_equal(select(one, models(name)), select(other, models(name)))
    assert one.rng_.bit_generator.state == other.rng_.bit_generator.state
    assert one.rng_.bit_generator.state != np.random.default_rng(4).bit_generator.state


@every_query
def test_a_query_goes_on_where_it_was_pickled_or_copied(name, models):
    query = make(name, random_state=5)
    select(query, models(name))
    others = [pickle.loads(pickle.dumps(query)), copy.deepcopy(query)]
    expected = select(query, models(name))
    for other in others:
        np.testing.assert_array_equal(select(other, models(name)), expected)


@every_query
def test_a_random_state_that_is_set_again_starts_afresh(name, models):
    query, new = make(name, random_state=6), make(name, random_state=6)
    select(query, models(name))
    query.set_params(random_state=6)
    np.testing.assert_array_equal(select(query, models(name)), select(new, models(name)))


@every_query
def test_a_random_state_for_a_call_leaves_the_stream_where_it_was(name, models):
    query = make(name, random_state=7)
    select(query, models(name))
    before = copy.deepcopy(query.rng_.bit_generator.state)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* of the .* rows")
        query(models(name), POOL, 5, random_state=1)
    assert query.rng_.bit_generator.state == before


@every_query
def test_nothing_global_and_nothing_of_the_users_is_changed(name, models, global_state_untouched):
    model, pool = models(name), POOL.copy()
    before = pickle.dumps(model.get_params()), pool.tobytes()
    select(make(name, random_state=0), model, pool)
    assert (pickle.dumps(model.get_params()), pool.tobytes()) == before


@every_query
def test_a_call_that_fails_leaves_the_results_of_the_last(name, models):
    query = make(name, random_state=8)
    select(query, models(name))
    before = dict(vars(query))
    with pytest.raises(ValueError, match="n_instances"):
        query.select(models(name), POOL, 1000)
    assert vars(query) == before


# --- models ---------------------------------------------------------------------------------------


@every_query
def test_a_learner_that_is_not_fitted_gets_a_uniform_batch_and_one_warning(name):
    learner = ActiveLearner(unfitted(name), make(name, random_state=0))
    with pytest.warns(UserWarning, match="not fitted yet, so there are no scores") as caught:
        rows, _ = learner.query(POOL, n_instances=6)
    assert len(caught) == 1
    assert len(set(rows.tolist())) == 6
    assert np.isnan(learner.query_strategy.scores_).all()


@every_query
def test_select_takes_a_uniform_batch_for_an_estimator_that_is_not_fitted_as_a_loop_does(name):
    with pytest.warns(UserWarning, match="not fitted yet.* uniform at random"):
        rows = make(name, random_state=0).select(unfitted(name), POOL, 2)
    with pytest.warns(UserWarning, match="not fitted yet"):
        np.testing.assert_array_equal(rows, make(name, random_state=0)(unfitted(name), POOL, 2))


@every_query
def test_a_pool_of_other_columns_is_refused(name, models):
    with pytest.raises(ValueError, match=r"`X_pool` has 3 columns, but .* was fitted on 4"):
        make(name).select(models(name), POOL[:, 1:], 2)


@every_query
def test_a_loop_of_modal_teaches_what_was_chosen(name):
    learner = ActiveLearner(
        unfitted(name), make(name, random_state=0), X_training=X[FIRST], y_training=labels(name)[FIRST]
    )
    left = np.arange(30, 90)
    for n in (4, 3):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* of the .* rows")
            rows, batch = learner.query(X[left], n_instances=n)
        np.testing.assert_array_equal(batch, X[left][rows])
        learner.teach(batch, labels(name)[left][rows])
        left = np.delete(left, rows)
    assert len(learner.X_training) == 37
