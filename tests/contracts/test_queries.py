"""What every query of the package keeps to. A new one is tested as soon as `skactive` names it."""

from __future__ import annotations

import copy
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from small_models import X_POOL, Echo, assert_same_state, batch_norm_net, state_of

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

assert len(QUERIES) >= 6
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


@every_query
def test_a_clone_has_the_parameters_and_no_memory_and_a_seed_begins_anew(name, models):
    query = make(name, random_state=3)
    first = select(query, models(name))
    state = copy.deepcopy(query.rng_.bit_generator.state)
    query(models(name), POOL, 1, random_state=1)  # which is for that call alone
    assert query.rng_.bit_generator.state == state
    twin = clone(query)
    assert twin.get_params() == query.get_params()
    assert vars(twin).keys() == query.get_params().keys()
    np.testing.assert_array_equal(select(twin, models(name)), first)
    np.testing.assert_array_equal(select(query.set_params(random_state=3), models(name)), first)


@every_query
def test_a_bad_parameter_is_named_before_any_label_is_lost(name, models):
    for parameter in make(name).get_params(deep=False).keys() & QUERIES[name].rules.keys():
        for value in (b"no", -2.5, object()):
            query = make(name)
            query.set_params(**{parameter: value})
            for call in (
                lambda query=query: ActiveLearner(unfitted(name), query).query(POOL, n_instances=20),
                lambda bad={parameter: value}: make(name)(models(name), POOL, 5, **bad),
            ):
                with pytest.raises((ValueError, TypeError), match=f"^`{parameter}` must be "):
                    call()
            assert vars(query).keys() == query.get_params().keys()


@every_query
def test_a_batch_is_distinct_positions_of_the_pool(name, models):
    for k in (1, 12):
        rows = select(make(name, random_state=0), models(name, "forest"), POOL[:12], k)
        assert (rows.shape, rows.dtype) == ((k,), np.int64)
        assert len(set(rows.tolist()) & set(range(12))) == k
    assert len(make(name)(models(name, "forest"), POOL)) == len(make(name).select(models(name, "forest"), POOL)) == 1


@every_query
@pytest.mark.parametrize("kind", ["net", "linear"])
def test_candidates_that_are_not_in_flight_are_chosen_and_scored(name, kind, models):
    mask, pending = np.arange(len(POOL)) % 3 == 0, np.arange(6)
    left = mask & (np.arange(len(POOL)) >= 6)
    for candidates in (mask, np.flatnonzero(mask)[::-1]):
        query = make(name, random_state=0)
        given = {"candidates": candidates, "pending": pending, **training(name)}
        assert left[select(query, models(name, kind), k=2, **given)].all()
        np.testing.assert_array_equal(~np.isnan(query.scores_), left)
    with pytest.raises(ValueError, match=r"`n_instances` must be .*, 18\. Got 19"):
        make(name).select(models(name, kind), POOL, 19, **given)


@pytest.mark.arithmetic
@every_query
@pytest.mark.parametrize(("kind", "chunk_size"), [("net", 7), ("net", 1000), ("forest", 7), ("forest", 13)])
def test_the_size_of_chunks_makes_no_difference(name, kind, chunk_size, models):
    batches = [select(make(name, random_state=0, chunk_size=size), models(name, kind)) for size in (chunk_size, None)]
    np.testing.assert_array_equal(*batches)


@every_query
def test_the_container_of_the_pool_makes_no_difference_and_it_stays_as_it_is(name, models):
    expected = select(make(name, random_state=0), models(name, "forest"))
    for container in (pd.DataFrame, np.ndarray.tolist, sparse.csr_array, np.asfortranarray):
        pool = container(POOL.copy())
        before = pickle.dumps(pool)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X has feature names")
            batch = select(make(name, random_state=0), models(name, "forest"), pool)
        np.testing.assert_array_equal(batch, expected)
        assert pickle.dumps(pool) == before


@every_query
def test_the_results_are_a_record_that_cannot_be_changed(name, models):
    query = make(name, random_state=0)
    rows = select(query, models(name))
    with pytest.raises(ValueError, match="read-only"):
        query.scores_[0] = 0.0
    np.testing.assert_array_equal(query.indices_, rows)
    assert hasattr(query, "log_proba_") == (name in {"StochasticBatchQuery", "CausalBALDQuery"})


@every_query
def test_a_query_goes_on_where_it_was_pickled_or_copied(name, models):
    query = make(name, random_state=5)
    select(query, models(name))
    assert query.rng_.bit_generator.state != np.random.default_rng(5).bit_generator.state
    others = [pickle.loads(pickle.dumps(query)), copy.deepcopy(query)]
    expected = select(query, models(name))
    for other in others:
        np.testing.assert_array_equal(select(other, models(name)), expected)


@every_query
@pytest.mark.parametrize("kind", ["net", "forest"])
def test_nothing_global_and_nothing_of_the_users_is_changed(name, kind, models, global_state_untouched):
    model = models(name, kind)
    before = joblib.hash(model.get_params() if kind == "net" else model)
    select(make(name), model)
    assert joblib.hash(model.get_params() if kind == "net" else model) == before


@pytest.mark.parametrize("mode", ["train", "eval", "mixed"])
@pytest.mark.parametrize("name", sorted(QUERIES.keys() - OF_REGRESSORS))
def test_modes_statistics_and_gradients_of_a_module_stay_also_after_an_error(name, mode):
    net = batch_norm_net()
    module = net.module_.train(mode != "eval")
    if mode == "mixed":
        module[1].eval()
    first, *_, last = module.parameters()
    first.requires_grad_(False)
    last.grad = torch.ones_like(last)
    before = state_of(module)
    for model in (net, module):
        select(make(name, chunk_size=7, random_state=0), model, X_POOL, 3)
        assert_same_state(module, before)
    with pytest.raises((ValueError, RuntimeError)):
        make(name).select(net, np.zeros((9, 7), dtype=np.float32), 3)
    assert_same_state(module, before)


@pytest.mark.usefixtures("global_state_untouched")
@pytest.mark.parametrize("posterior", ["bootstrap", RandomForestClassifier(5)], ids=["bootstrap", "surrogate"])
def test_refits_consume_no_global_random_state_and_follow_the_seed_of_the_query(posterior):
    # The members' own random_state is None: left alone they would draw from numpy's global generator.
    tree = DecisionTreeClassifier(splitter="random", max_depth=3, random_state=0).fit(X[FIRST], Y_CLASSES[FIRST])
    tree.set_params(random_state=None)
    one, other = (
        make("StochasticBatchQuery", score="bald", posterior=posterior, n_draws=5, random_state=0) for _ in range(2)
    )
    for query in (one, other):
        query.select(tree, POOL, 3, **training("StochasticBatchQuery"))
    np.testing.assert_array_equal(one.scores_, other.scores_)


@every_query
def test_a_call_that_fails_leaves_the_results_of_the_last(name, models):
    query = make(name, random_state=8)
    select(query, models(name))
    before = dict(vars(query))
    with pytest.raises(ValueError, match="n_instances"):
        query.select(models(name), POOL, 1000)
    assert vars(query) == before


@every_query
def test_a_learner_that_is_not_fitted_gets_a_uniform_batch_and_one_warning(name, global_state_untouched):
    learner = ActiveLearner(unfitted(name), make(name, random_state=0))
    with pytest.warns(UserWarning, match="not fitted yet, so there are no scores") as caught:
        rows, _ = learner.query(POOL, n_instances=6, pending=np.arange(50))
    assert len(caught) == 1
    assert len(set(rows.tolist()) & set(range(50, 60))) == 6
    assert np.isnan(learner.query_strategy.scores_).all()


@pytest.mark.parametrize("name", sorted(QUERIES.keys() - OF_REGRESSORS))
def test_regressors_models_of_several_outputs_and_probabilities_of_another_sum_are_refused(name):
    regressor = RandomForestRegressor(5).fit(X[FIRST], Y_VALUES[FIRST])
    several = RandomForestClassifier(5).fit(X[FIRST], np.stack([X[FIRST, -1], X[FIRST, -1]], axis=1))
    if name not in {"StochasticBatchQuery", "KCenterQuery"}:
        with pytest.raises(TypeError, match=r'`estimator` must be a classifier.*, a regressor.*Query\("std_dev"\)'):
            make(name).select(regressor, POOL, 2, X_training=X[FIRST], y_training=Y_VALUES[FIRST])
        with pytest.raises(ValueError, match=r"several.*StochasticBatchQuery.*`reduce`"):
            make(name).select(several, POOL, 2)
    if name != "KCenterQuery":
        with pytest.raises(ValueError, match=r"This Rounding gave no probabilities.* sums to 1\.125,.*as float64"):
            make(name).select(Rounding().fit(POOL), POOL, 2)


class Rounding(Echo):
    """Rows of its probabilities sum to 1.125."""

    def predict_proba(self, X):
        return np.tile([1, 0.125], (len(X), 1))


@every_query
def test_a_pool_of_other_columns_is_refused(name, models):
    with pytest.raises(ValueError, match=r"`X_pool` has 3 columns, but .* was fitted on 4"):
        make(name).select(models(name), POOL[:, 1:], 2)


@every_query
def test_a_loop_of_modal_teaches_what_was_chosen(name):
    learner = ActiveLearner(unfitted(name), make(name, random_state=0), **training(name))
    left = np.arange(30, 90)
    for n in (4, 3):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* of the .* rows")
            rows, batch = learner.query(X[left], n_instances=n)
        np.testing.assert_array_equal(batch, X[left][rows])
        learner.teach(batch, labels(name)[left][rows])
        left = np.delete(left, rows)
    assert len(learner.X_training) == 37
