"""beta="auto": what is measured is the noise of the sampler's own model, and it goes on wherever the query goes."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from killed_experiment import keep_records
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from skactive import MCDropoutClassifier, StochasticBatchQuery, run_experiment, samplers
from skactive.query import _coldness as coldness
from skactive.query._coldness import measured_coldness
from skactive.query._reference import MOST_ROWS, Reference

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
COLD = ["power", "softmax", "softrank"]


def forest(n_labelled, seed=0):
    return RandomForestClassifier(20, random_state=seed).fit(X[:n_labelled], y[:n_labelled])


FORESTS = [forest(50), forest(60, 1), forest(70, 2)]
NET = MCDropoutClassifier((16,), max_epochs=5, n_draws=10, random_state=0)


def auto(**parameters):
    return StochasticBatchQuery(**{"score": "bald", "beta": "auto", "random_state": 0, **parameters})


def bought(query, models=FORESTS, pool=X[100:400], k=5):
    """Batches for one model after the other, of what is left of the pool, as rows of the pool."""
    left, batches = np.arange(len(pool) if isinstance(pool, list) else pool.shape[0]), []
    for model in models:
        rows = [pool[i] for i in left] if isinstance(pool, list) else getattr(pool, "iloc", pool)[left]
        batches.append(left[query.select(model, rows, k)])
        left = np.setdiff1d(left, batches[-1])
    return [batch.tolist() for batch in batches]


# --- the estimate ---------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.floats(-30, 0), st.integers(0, 8)), min_size=1, max_size=15))
def test_the_measured_coldness_is_the_posterior_mean_of_the_formula(rows):
    values, new_scores = np.array(rows, dtype=float).T
    expected = np.clip(reference.coldness(values, new_scores, coldness._LOG_BETAS), *coldness.BOUNDS)
    assert measured_coldness(values, new_scores) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("beta", [1.0, 4.0, 16.0, 200.0])
def test_gumbel_noise_of_scale_one_over_beta_is_measured_as_beta(beta):
    rng = np.random.default_rng(0)
    values = 10 / beta * rng.standard_normal(5000)  # the noise is a tenth of the spread
    found = [measured_coldness(values, values + rng.gumbel(size=5000) / beta) for _ in range(10)]
    # Information about log beta is the variance of beta * value under the law of what is left, summed over places:
    # 1,024 here. So the mean of ten has a standard error of 0.01. Room for lapses adds less than 5 %.
    assert -5 * 0.01 < np.mean(np.log(found)) - np.log(beta) < 5 * 0.01 + 0.05


@pytest.mark.parametrize("sampler", COLD)
def test_noise_on_what_a_sampler_perturbs_is_measured_end_to_end(sampler):
    rng = np.random.default_rng(0)
    values = np.log(rng.permutation(2000) + 1.0) if sampler == "softrank" else rng.uniform(-3, 0, size=2000)
    to_score = np.exp if sampler == "power" else np.asarray
    now = {"values": values}
    query = auto(sampler=sampler, score=lambda learner, rows: to_score(now["values"][rows[:, 0].astype(int)]))
    rows = np.arange(2000.0)[:, None]
    model = DecisionTreeClassifier().fit(rows[:2], [0, 1])
    query.select(model, rows, 10)
    if sampler == "softrank":
        values = -np.log(2000 - np.argsort(np.argsort(values)))
    now["values"] = values + rng.gumbel(size=2000) / 6
    query.select(model, rows, 10)
    # Information of the 50 places: 70 or more, but 15 for ranks, where the prior takes 10 % too; 5 standard errors.
    assert query.beta_history_[0] == 1
    assert abs(np.log(query.beta_ / 6)) < (1.4 if sampler == "softrank" else 0.65)


def test_the_more_an_order_lasts_the_colder():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(400)
    noise = rng.gumbel(size=400)
    found = [measured_coldness(values, values + scale * noise) for scale in (0.0, 0.1, 0.5, 2.0, 100.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 100
    assert found[-1] == coldness.BOUNDS[0] or found[-1] < 1


@pytest.mark.parametrize("values", [np.zeros(50), np.full(50, -np.inf), np.linspace(0, 1, 1), np.empty(0)])
def test_where_values_tell_nothing_beta_is_one(values):
    assert measured_coldness(values, np.arange(len(values)) / 7) == pytest.approx(1)


def test_where_all_new_scores_are_alike_beta_is_one():
    assert measured_coldness(np.linspace(0, 1, 50), np.zeros(50)) == 1


def test_thin_evidence_is_shrunk_to_one():
    def of_kept_order(n):
        values = np.linspace(0, 3, n)
        return measured_coldness(values, values)

    found = [of_kept_order(n) for n in (2, 10, 50, 500)]
    assert found == sorted(found)
    assert found[0] < 3 < found[-1]


def test_rows_of_score_zero_that_are_the_best_now_do_not_decide_alone():
    values = np.concatenate([np.linspace(-1, 0, 195), np.full(5, -np.inf)])
    best_now = np.concatenate([np.linspace(0, 1, 195), np.full(5, 2.0)])
    assert 1 < measured_coldness(values, best_now) < measured_coldness(values, np.where(best_now == 2, 0, best_now))


def test_the_scale_of_new_scores_does_not_matter():
    rng = np.random.default_rng(0)
    values, new_scores = rng.standard_normal(300), rng.random(300)
    assert measured_coldness(values, new_scores) == measured_coldness(values + 5, np.log(new_scores) * 1e-3)


# --- the query ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", COLD)
def test_the_first_batch_is_that_of_beta_one_and_history_is_kept(sampler):
    query = auto(sampler=sampler)
    first = bought(query, FORESTS[:1])
    assert query.beta_ == 1
    assert first == bought(auto(sampler=sampler, beta=1.0), FORESTS[:1])
    bought(query)
    assert len(query.beta_history_) == 4
    assert query.beta_history_[-1] == query.beta_ != 1


@pytest.mark.parametrize("model", ["forests", "net"])
def test_no_chunk_size_changes_batches_or_history(model):
    models = FORESTS if model == "forests" else [clone(NET).fit(X[:n], y[:n]) for n in (50, 60, 70)]
    queries = [auto(chunk_size=size) for size in (None, 7, 64)]
    batches = [bought(query, models, X[100:200]) for query in queries]
    assert batches[0] == batches[1] == batches[2]
    assert queries[0].beta_history_ == queries[1].beta_history_ == queries[2].beta_history_


@pytest.mark.parametrize("hold", [pd.DataFrame, sparse.csr_matrix, sparse.coo_array, np.ndarray.tolist])
def test_whatever_holds_the_pool_batches_and_history_are_the_same(hold):
    held, plain = auto(), auto()
    pool = hold(X[100:400])
    models = FORESTS
    if hold is pd.DataFrame:
        models = [clone(f).fit(pd.DataFrame(X[:n]), y[:n]) for f, n in zip(FORESTS, (50, 60, 70), strict=True)]
    elif hold is sparse.coo_array:
        pool = pool.tocsr()
    assert bought(held, models, pool) == bought(plain)
    assert held.beta_history_ == plain.beta_history_


def test_rows_are_known_by_what_they_hold_not_by_where_they_stand():
    one, other = auto(), auto()
    pool = X[100:400]
    for query, second in ((one, pool), (other, pool[::-1])):
        query.select(FORESTS[0], pool, 5)
        query.select(FORESTS[1], second, 5)
    assert one.beta_history_ == other.beta_history_


def test_a_class_that_appears_is_no_obstacle():
    rows = np.flatnonzero(y[:100] < 5)
    before = RandomForestClassifier(20, random_state=0).fit(X[rows], y[rows])
    query = auto()
    bought(query, [before, forest(100)])
    assert coldness.BOUNDS[0] <= query.beta_ <= coldness.BOUNDS[1]


def test_a_model_without_an_opinion_leaves_beta_at_one():
    stump = DecisionTreeClassifier(max_depth=1).fit(X[:50], np.zeros(50))
    query = auto(score="entropy")
    with pytest.warns(UserWarning, match="positive score"):
        bought(query, [stump, stump])
    assert query.beta_history_ == [1, 1]


def test_what_is_measured_includes_the_seed_of_the_model():
    same, other = auto(), auto()
    bought(same, [forest(50), forest(50)])
    bought(other, [forest(50), forest(50, seed=1)])
    assert other.beta_ < same.beta_


def test_rows_that_were_not_scored_are_not_kept():
    query = auto(max_candidates=120)
    query.select(FORESTS[0], X[100:400], 5, candidates=np.arange(200))
    assert len(query.memory_.reference.scores) == 115
    assert np.isfinite(query.memory_.reference.scores).all()
    query.select(FORESTS[1], X[100:400], 5)
    assert len(query.beta_history_) == 2


def test_rows_that_were_bought_are_not_kept():
    query, pool = auto(), X[100:130]
    batch = query.select(FORESTS[0], pool, 20)
    kept = {row.tobytes() for row in query.memory_.reference.X}
    assert kept == {row.tobytes() for row in np.delete(pool, batch, axis=0)}


def test_a_pool_may_be_bought_whole():
    query = auto()
    query.select(FORESTS[0], X[100:110], 10)
    query.select(FORESTS[1], X[200:210], 10)
    assert query.beta_history_ == [1, 1]


def test_another_pool_or_score_or_a_number_in_between_starts_from_one():
    narrow = RandomForestClassifier(5, random_state=0).fit(X[:50, :32], y[:50])
    framed = RandomForestClassifier(5, random_state=0).fit(pd.DataFrame(X[:50]), y[:50])
    for in_between in (
        lambda query: query.select(narrow, X[100:200, :32], 5),
        lambda query: query.select(framed, pd.DataFrame(X[100:200]), 5),
        lambda query: query.set_params(score="entropy"),
        lambda query: query(FORESTS[0], X[100:200], 5, beta=2.0),
    ):
        query = auto()
        query.select(FORESTS[0], X[100:200], 5)
        in_between(query)
        query.select(FORESTS[1], X[100:200], 5)
        assert set(query.beta_history_) == {1}


def test_memory_is_bounded():
    query = auto(score=lambda learner, rows: np.square(rows[:, 0]))
    for n_rows, n_columns, n_kept in ((50, 2**18, 7), (2000, 4, MOST_ROWS)):  # rows of 1 MiB, and of 16 bytes
        pool = np.random.default_rng(0).random((n_rows, n_columns), dtype=np.float32)
        query.select(DummyClassifier().fit(pool[:2], [0, 1]), pool, 3)
        assert len(query.memory_.reference.X) == n_kept


def test_a_sampler_of_ones_own_that_tells_its_law_can_have_its_beta_measured():
    def twice(scores, k, rng, *, beta=1.0):
        return samplers.power(scores, k, rng, beta=2 * beta)

    twice.log_weights = lambda scores, beta: samplers.power.log_weights(scores, 2 * beta)
    query, plain = auto(sampler=twice), auto()
    bought(query)
    bought(plain)
    assert query.beta_history_[1] < plain.beta_history_[1]


def test_a_part_of_uniform_picks_changes_the_law_but_not_what_is_measured():
    query, plain = auto(epsilon=0.3), auto()
    for q in (query, plain):
        q.select(FORESTS[0], X[100:400], 1)
        q.memory_ = replace(q.memory_, reference=Reference(X[100:400], q.scores_, "bald"))
        q.select(FORESTS[1], X[100:400], 1)
    assert query.beta_ == plain.beta_ != 1
    assert query.log_proba_[0] >= np.log(0.3 / 300)


# --- it goes on -----------------------------------------------------------------------------------


def test_a_pickled_query_goes_on_with_the_same_history():
    query = auto()
    bought(query, FORESTS[:2])
    twin = pickle.loads(pickle.dumps(query))
    assert bought(twin, FORESTS[2:], X[500:]) == bought(query, FORESTS[2:], X[500:])
    assert twin.beta_history_ == query.beta_history_
    assert len(twin.beta_history_) == 3


def test_a_clone_starts_afresh():
    query = auto()
    batches = bought(query)
    twin = clone(query)
    assert not hasattr(twin, "beta_history_")
    assert bought(twin) == batches


@pytest.mark.parametrize("n_records", [4, 6, 7])
def test_an_experiment_that_was_interrupted_goes_on_with_the_same_history(tmp_path, n_records):
    def experiment(path):
        tree = RandomForestClassifier(10)
        options = {"n_initial": 20, "n_rounds": 5, "n_trials": 1, "random_state": 0, "checkpoint": path}
        return [r.indices for r in run_experiment(tree, {"auto": auto()}, X[:300], y[:300], **options).rounds]

    path = tmp_path / "checkpoint"
    undisturbed = experiment(path)
    keep_records(path, n_records)
    assert experiment(path) == undisturbed


def test_a_learner_can_ask_for_it_by_keyword():
    query = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    learner = ActiveLearner(RandomForestClassifier(10, random_state=0), query, X_training=X[:50], y_training=y[:50])
    for start in (100, 200, 300):
        indices, rows = learner.query(X[start : start + 100], n_instances=5, beta="auto")
        learner.teach(rows, y[start + indices])
    assert len(query.beta_history_) == 3
    assert query.beta == 1
