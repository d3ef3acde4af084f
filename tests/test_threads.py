"""One query, and one fitted model, in several threads: a call is the call's own, and nothing of it stays behind."""

import copy
import gc
import pickle
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from modAL.models import ActiveLearner
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from threadpoolctl import threadpool_info
from torch import nn

from skactive import (
    ACSFWQuery,
    BADGEQuery,
    BatchBALDQuery,
    MCDropoutClassifier,
    StochasticBatchQuery,
    sample_posterior,
    scores,
)
from skactive import _random as global_random
from skactive._threads import one_thread
from skactive.query import Batch, BatchQuery
from skactive.risk import ActiveTester

X, y = load_digits(return_X_y=True)
X = X / 16
POOL = X[100:300]
FOREST = RandomForestClassifier(5, random_state=0).fit(X[:100], y[:100])
TRAINING = {"X_training": X[:60], "y_training": y[:60]}

N_THREADS, N_CALLS = 8, 30


@pytest.fixture
def switching():
    """Threads that take turns a hundred times as often as usual."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def in_threads(job, n_threads=N_THREADS):
    """What ``job(0)``, ``job(1)``, ... return, each in a thread of its own, all begun at once."""
    ready = threading.Barrier(n_threads)

    def begin(number):
        ready.wait()
        return job(number)

    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(begin, range(n_threads)))


class Pairs:
    """A learner whose query takes pairs, as that of modAL 0.4.2."""

    def __init__(self, estimator):
        self.estimator, self.query_strategy = estimator, None

    def query(self, X_pool, return_metrics=False):
        raise NotImplementedError


ALL_DRAWS = {name: scores.SCORES[name](sample_posterior(FOREST, None, np.random.default_rng(0))(POOL)) for name in
             ("bald", "entropy", "margin", "std_dev")}  # fmt: skip


@pytest.mark.usefixtures("switching")
def test_calls_of_eight_threads_go_by_their_own_parameters_and_answer_with_their_own_results():
    query = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    before = query.get_params()
    names = list(ALL_DRAWS)

    def job(number):
        wrong = 0
        for turn in range(N_CALLS):
            name, k = names[(number + turn) % len(names)], 1 + (3 * number + turn) % 7
            n = 200 - 10 * number  # pools of many sizes
            sampler, beta = [("topk", 1.0), ("power", 1e6)][turn % 2]  # the top of the ranking, by either
            rows, metrics = query(Pairs(FOREST), POOL[:n], k, score=name, sampler=sampler, beta=beta)
            top = np.sort(ALL_DRAWS[name][:n])[::-1][:k]
            wrong += not np.array_equal(metrics, ALL_DRAWS[name][:n][rows]) or not np.allclose(metrics, top, rtol=1e-4)
        return wrong

    assert in_threads(job) == [0] * N_THREADS
    assert query.get_params() == before
    assert len(query.batch_size_history_) == N_THREADS * N_CALLS
    alone = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    for _ in range(N_THREADS * N_CALLS):
        alone.streams()  # what a call takes of the stream
    assert query.rng_.bit_generator.state == alone.rng_.bit_generator.state


@pytest.mark.usefixtures("switching")
def test_batches_of_eight_threads_are_those_of_one_thread_in_some_order():
    one = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    expected = [tuple(one.select(FOREST, POOL, 10)) for _ in range(N_THREADS * 10)]
    query = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    found = [
        batch for part in in_threads(lambda _: [tuple(query.select(FOREST, POOL, 10)) for _ in range(10)])
        for batch in part
    ]  # fmt: skip
    assert sorted(found) == sorted(expected)
    assert len(set(found)) == N_THREADS * 10
    assert query.select(FOREST, POOL, 10).tolist() == one.select(FOREST, POOL, 10).tolist()


@pytest.mark.usefixtures("switching")
def test_histories_of_beta_and_of_sizes_get_every_call_of_every_thread():
    query = StochasticBatchQuery("bald", beta="auto", random_state=0)
    in_threads(lambda number: [query.select(FOREST, POOL, 1 + number) for _ in range(5)])
    assert sorted(query.batch_size_history_) == sorted([*range(1, 9)] * 5)
    assert len(query.beta_history_) == 40


@pytest.mark.usefixtures("switching")
def test_one_query_finds_scores_indices_and_probabilities_of_a_single_call_behind():
    query = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    in_threads(lambda number: [query.select(FOREST, POOL[: 200 - 20 * number], 5) for _ in range(10)])
    assert query.indices_.max() < len(query.scores_)
    batch = query._batch
    np.testing.assert_array_equal(query.log_proba_, batch.law.log_proba())
    np.testing.assert_array_equal(batch.positions, query.indices_)


@pytest.mark.usefixtures("switching")
def test_a_gaussian_process_is_shared_by_threads():
    process = GaussianProcessRegressor(alpha=0.1, optimizer=None).fit(X[:60, :5], X[:60, 20])
    query = StochasticBatchQuery("std_dev", "topk", n_draws=10, random_state=0)
    one = clone(query)
    expected = [tuple(one.select(process, POOL[:, :5], 5)) for _ in range(40)]
    found = in_threads(lambda _: [tuple(query.select(process, POOL[:, :5], 5)) for _ in range(5)])
    assert sorted(batch for part in found for batch in part) == sorted(expected)


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("kind", [BatchBALDQuery, BADGEQuery, ACSFWQuery])
def test_batch_methods_are_shared_by_threads(kind):
    model = LogisticRegression().fit(X[:100], y[:100]) if kind is BADGEQuery else RandomForestClassifier(20)
    model.set_params(random_state=0).fit(X[:100], y[:100])
    query, one = kind(random_state=0), kind(random_state=0)
    expected = [tuple(one.select(model, POOL, 2)) for _ in range(16)]
    found = in_threads(lambda _: [tuple(query.select(model, POOL, 2)) for _ in range(2)])
    assert sorted(batch for part in found for batch in part) == sorted(expected)


@pytest.mark.usefixtures("switching")
@pytest.mark.filterwarnings("ignore:This GaussianNB is not fitted")
def test_cold_starts_and_suggested_sizes_are_shared_by_threads():
    query = StochasticBatchQuery("entropy", beta=1.0, batch_range=(2, 30), random_state=0)
    query.select(FOREST, POOL, 5)
    learner = ActiveLearner(GaussianNB(), X_training=X[:60], y_training=y[:60])
    size = pickle.loads(pickle.dumps(query)).suggest_batch_size(learner, POOL)

    def ask(number):
        return [query.suggest_batch_size(learner, POOL) for _ in range(3)]

    def start(number):
        pairs = [query(Pairs(GaussianNB()), POOL[: 50 + number], 3, beta=1.0 + number) for _ in range(10)]
        return all(np.isnan(metrics).all() and rows.max() < 50 + number for rows, metrics in pairs)

    assert in_threads(ask) == [[size] * 3] * N_THREADS
    assert in_threads(start) == [True] * N_THREADS
    assert query.beta == 1.0


@pytest.mark.usefixtures("switching")
def test_a_tester_goes_by_the_probabilities_of_its_own_call():
    query = StochasticBatchQuery("variation_ratio", beta=1.0, epsilon=0.5, random_state=0)

    def job(number):
        pool = POOL[: 40 + 20 * number]
        tester = ActiveTester(query, pool)
        for _ in range(5):
            rows = tester.ask(FOREST, 3)
            tester.tell(y[100:][rows])
            log_proba = tester.log_proba_[-3:]
            n_left = len(pool) - len(tester.indices_) + 3 - np.arange(3)
            assert (log_proba >= np.log(0.5 / n_left) - 1e-9).all()  # what epsilon gives each row left in this pool
        return len(tester.indices_)

    assert in_threads(job) == [15] * N_THREADS


def test_a_call_with_a_random_state_of_its_own_leaves_the_stream_and_the_members_alone():
    query, silent = (
        StochasticBatchQuery("bald", beta=1.0, posterior="bootstrap", n_draws=3, random_state=0) for _ in range(2)
    )
    model = GaussianNB().fit(X[:60], y[:60])
    for q in (query, silent):
        q.select(model, POOL, 5, **TRAINING)
    other = query(model, POOL, 5, random_state=7, **TRAINING)
    alone = StochasticBatchQuery("bald", beta=1.0, posterior="bootstrap", n_draws=3, random_state=7).select(
        model, POOL, 5, **TRAINING
    )
    np.testing.assert_array_equal(other, alone)
    np.testing.assert_array_equal(
        query.select(model, POOL, 5, **TRAINING), silent.select(model, POOL, 5, **TRAINING)
    )  # fmt: skip
    assert query.memory_.refits is not silent.memory_.refits
    np.testing.assert_array_equal(query.scores_, silent.scores_)


# --- calls that fail


def test_a_call_that_fails_or_is_interrupted_leaves_the_query_and_its_stream_as_they_were():
    query = StochasticBatchQuery("bald", beta="auto", random_state=0)
    query.select(FOREST, POOL, 5)
    for error in (KeyError("lost"), KeyboardInterrupt(), SystemExit()):
        before = dict(vars(query))
        state = query.rng_.bit_generator.state

        def score(draws, error=error):
            raise error

        with pytest.raises((RuntimeError, KeyboardInterrupt, SystemExit)):
            query(FOREST, POOL, 5, score=score, beta=3.0)
        assert vars(query).keys() == before.keys()
        assert all(vars(query)[name] is value for name, value in before.items())
        assert query.rng_.bit_generator.state == state


def test_a_call_that_fails_does_not_give_its_random_numbers_to_another_that_came_meanwhile():
    query = StochasticBatchQuery("bald", beta=1.0, random_state=0)

    def score(draws):
        query.select(FOREST, POOL, 5)  # another call begins, and ends, while this one is at work
        raise KeyError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        query(FOREST, POOL, 5, score=score)
    other = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    other.streams()  # those of the call that failed
    inner = other.select(FOREST, POOL, 5)
    np.testing.assert_array_equal(query.indices_, inner)
    assert query.rng_.bit_generator.state == other.rng_.bit_generator.state


@pytest.mark.parametrize("random_state", [0, np.random.default_rng(0), np.random.RandomState(0)])
def test_a_call_is_repeated_after_a_failure_as_if_there_had_been_none(random_state):
    query = StochasticBatchQuery("bald", beta=1.0, random_state=random_state)
    alone = StochasticBatchQuery("bald", beta=1.0, random_state=copy.deepcopy(random_state))
    with pytest.raises(ValueError, match="n_instances"):
        query.select(FOREST, POOL, 10_000)
    with pytest.raises(RuntimeError):
        query(FOREST, POOL, 5, score=lambda draws: 1 / 0)
    np.testing.assert_array_equal(query.select(FOREST, POOL, 5), alone.select(FOREST, POOL, 5))


def test_a_call_that_fails_before_it_takes_random_numbers_puts_back_none():
    query, alone = (
        StochasticBatchQuery("bald", beta=1.0, random_state=0),
        StochasticBatchQuery("bald", beta=1.0, random_state=0),
    )
    for q in (query, alone):
        q.streams()
    with pytest.raises(ValueError, match="n_instances"):
        query.select(FOREST, POOL, 10_000)
    assert query.rng_.bit_generator.state == alone.rng_.bit_generator.state


def test_the_batch_that_a_query_records_cannot_be_changed():
    query = StochasticBatchQuery("bald", beta=1.0, random_state=0)
    rows = query.select(FOREST, POOL, 5)
    rows[:] = 0
    with pytest.raises(ValueError, match="read-only"):
        query.indices_[0] = 1


# --- queries of one's own


class Counting(BatchQuery):
    """What a user may write: attributes that end in an underscore, and lists that grow."""

    def __init__(self, random_state=None):
        self.random_state = random_state
        self._notes = ["kept"]

    def choose(self, learner, pool, k, rngs):
        self.n_calls_ = vars(self).get("n_calls_", 0) + 1
        self.sizes_history_ = [*vars(self).get("sizes_history_", ()), k]
        self._last = k
        return Batch(rngs.batch.permutation(len(pool))[:k], np.arange(float(len(pool))))


def test_a_query_of_ones_own_keeps_what_it_sets():
    query = Counting(random_state=0)
    for k in (2, 3):
        assert len(query.select(FOREST, POOL, k)) == k
    assert (query.n_calls_, query.sizes_history_, query._last) == (2, [2, 3], 3)
    assert not query.scores_.flags.writeable
    twin = pickle.loads(pickle.dumps(query))
    assert twin.select(FOREST, POOL, 4).tolist() == query.select(FOREST, POOL, 4).tolist()


@pytest.mark.usefixtures("switching")
def test_a_query_of_ones_own_is_shared_by_threads():
    query = Counting(random_state=0)
    in_threads(lambda number: [query.select(FOREST, POOL, number + 1) for _ in range(20)])
    assert sorted(query.sizes_history_) == sorted([*range(1, 9)] * 20)


def test_what_a_call_takes_away_is_gone():
    class Forgetful(Counting):
        def choose(self, learner, pool, k, rngs):
            batch = super().choose(learner, pool, k, rngs)
            if self.n_calls_ == 2:
                del self._last
            return batch

    query = Forgetful(random_state=0)
    query.select(FOREST, POOL, 2)
    assert query._last == 2
    query.select(FOREST, POOL, 2)
    assert not hasattr(query, "_last")


# --- a fresh start


AFRESH = {
    "scores": lambda: StochasticBatchQuery("bald", beta=1.0),
    "members": lambda: StochasticBatchQuery("bald", beta=1.0, posterior="bootstrap", n_draws=3),
    "surrogate": lambda: StochasticBatchQuery("bald", beta=1.0, posterior=RandomForestClassifier(5)),
    "coldness": lambda: StochasticBatchQuery("bald", beta="auto", posterior="bootstrap", n_draws=3),
    "BatchBALD": lambda: BatchBALDQuery(posterior="bootstrap", n_draws=3),
    "ACS-FW": lambda: ACSFWQuery(posterior="bootstrap", n_draws=3),
    "BADGE": lambda: BADGEQuery(),
    "own": lambda: Counting(),
}


@pytest.mark.parametrize("name", AFRESH)
def test_a_random_state_that_is_set_is_a_fresh_start_as_a_new_query_is(name):
    model = LogisticRegression().fit(X[:60], y[:60]) if name != "scores" else FOREST
    used, new = AFRESH[name]().set_params(random_state=0), AFRESH[name]().set_params(random_state=1)
    for _ in range(2):
        used.select(model, POOL, 3, **TRAINING)
    used.set_params(random_state=1)
    assert vars(used).keys() == vars(new).keys()
    for _ in range(2):
        batches = [query.select(model, POOL, 3, **TRAINING).tolist() for query in (used, new)]
        assert batches[0] == batches[1]
        np.testing.assert_array_equal(used.scores_, new.scores_)


def test_a_fresh_start_while_a_call_is_under_way_is_not_undone_by_it():
    query = StochasticBatchQuery("bald", beta=1.0, posterior="bootstrap", n_draws=3, random_state=0)
    model = GaussianNB().fit(X[:60], y[:60])

    def score(draws):
        query.set_params(random_state=1)
        return scores.bald(draws)

    query(model, POOL, 3, score=score, **TRAINING)
    new = StochasticBatchQuery("bald", beta=1.0, posterior="bootstrap", n_draws=3, random_state=1)
    expected = new.select(model, POOL, 3, **TRAINING)
    np.testing.assert_array_equal(query.select(model, POOL, 3, **TRAINING), expected)


def test_members_are_refitted_for_an_estimator_that_differs_in_the_middle_of_a_long_array():
    class Shifted(ClassifierMixin, BaseEstimator):
        def __init__(self, shifts):
            self.shifts = shifts

        def fit(self, X, y):
            self.model_ = KNeighborsClassifier(5).fit(X + self.shifts[1000], y)
            self.classes_ = self.model_.classes_
            return self

        def predict_proba(self, X):
            return self.model_.predict_proba(X)

    query = StochasticBatchQuery("entropy", beta=1.0, posterior="bootstrap", n_draws=2, random_state=0)
    seen = []
    for shift in (0.0, 9.0):
        shifts = np.zeros(2001)
        shifts[1000] = shift
        query.select(Shifted(shifts).fit(X[:60], y[:60]), POOL, 3, **TRAINING)
        seen.append(query.memory_.refits.predict)
    assert seen[0] is not seen[1]


# --- what belongs to the process


def test_global_random_numbers_are_lent_to_nobody_who_is_known_to_need_none():
    known = [
        RandomForestClassifier(),
        make_pipeline(StandardScaler(), MCDropoutClassifier()),
        make_pipeline(FunctionTransformer(np.log1p), GaussianNB()),
    ]
    unknown = [make_pipeline(FunctionTransformer(lambda X: X), GaussianNB()), Own(), make_pipeline(Own())]
    assert all(map(global_random.draws_by_itself, known))
    assert not any(map(global_random.draws_by_itself, unknown))


class Own(ClassifierMixin, BaseEstimator):
    """Draws from numpy's global generator."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.weights_ = np.random.random_sample((X.shape[1], len(self.classes_)))  # noqa: NPY002
        return self

    def predict_proba(self, X):
        values = np.exp(X @ self.weights_)
        return values / values.sum(axis=1, keepdims=True)


@pytest.mark.usefixtures("switching")
def test_global_random_numbers_are_lent_to_one_thread_at_a_time_and_put_back():
    def draw(seed):
        with global_random.seeded(seed):
            return [(random.random(), np.random.random_sample()) for _ in range(50)]  # noqa: NPY002

    expected = [draw(seed) for seed in range(N_THREADS)]
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    for _ in range(5):
        assert in_threads(draw) == expected
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


def test_a_suggested_size_moves_no_global_numbers_of_others_while_it_fits_a_forest():
    query = StochasticBatchQuery("bald", beta=1.0, batch_range=(2, 30), random_state=0)
    query.select(FOREST, POOL, 5)
    states = []

    def score(draws):
        states.append(np.random.get_state()[1].tobytes())  # noqa: NPY002
        return scores.bald(draws)

    query.set_params(score=score).suggest_batch_size(FOREST, POOL, **TRAINING)
    assert len(states) >= 3
    assert len(set(states)) == 1


# Nets: torch is the same for everybody else while one of ours is asked


def net():
    return MCDropoutClassifier((16,), max_epochs=3, random_state=0).fit(X[:100], y[:100])


@pytest.mark.usefixtures("switching")
def test_a_net_of_somebody_else_s_is_undisturbed_while_ours_is_asked():
    bystander, rows = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3)), torch.from_numpy(X[:50]).float()
    expected, call = bystander(rows).detach(), nn.Module.__call__
    asked, stop, counts = net(), threading.Event(), []

    def use():
        n = 0
        while not stop.is_set():
            assert torch.equal(bystander(rows), expected)
            n += 1
        counts.append(n)

    with ThreadPoolExecutor(1) as pool:
        user = pool.submit(use)
        for i in range(20):
            StochasticBatchQuery("bald", beta=1.0, n_draws=4, random_state=i).select(asked, POOL, 5)
            asked.predict_proba(POOL)
        fitted = net()
        stop.set()
        user.result()
    assert counts[0] > 20
    assert nn.Module.__call__ is call
    np.testing.assert_array_equal(fitted.predict_proba(POOL), asked.predict_proba(POOL))


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("kind", ["our own", "skorch net", "bare module"])
def test_one_net_answers_in_eight_threads_what_it_answers_in_one(kind):
    ours = net()
    estimator = {"our own": ours, "skorch net": ours.net_, "bare module": ours.net_.module_}[kind]
    pool = POOL.astype(np.float32)
    expected = {
        seed: np.asarray(sample_posterior(estimator, 5, np.random.default_rng(seed))(pool)) for seed in range(8)
    }
    shared = sample_posterior(estimator, 5, np.random.default_rng(3))
    probabilities = ours.predict_proba(POOL)

    def ask(number):
        for _ in range(5):
            own = sample_posterior(estimator, 5, np.random.default_rng(number))
            np.testing.assert_array_equal(np.asarray(own(pool)), expected[number])
            np.testing.assert_array_equal(np.asarray(shared(pool)), expected[3])
            np.testing.assert_array_equal(ours.predict_proba(POOL), probabilities)
        return True

    assert all(in_threads(ask))


@pytest.mark.usefixtures("switching")
def test_one_query_of_a_net_gives_each_of_eight_threads_the_batch_of_its_own_score():
    asked, names = net(), ["bald", "entropy", "margin", "std_dev"]
    query = StochasticBatchQuery("bald", sampler="topk", n_draws=4, random_state=0)

    def ask(number):
        score = names[number % 4]
        rows = query(asked, POOL, 5, score=score, beta=number + 1.0)
        return score, rows

    for _ in range(4):
        for _, rows in in_threads(ask):
            assert len(set(rows.tolist())) == 5
    assert query.get_params()["score"] == "bald"
    assert query.get_params()["beta"] == 4.0


@pytest.mark.usefixtures("switching")
def test_nets_are_fitted_in_several_threads_to_what_they_are_fitted_to_in_one():
    expected = net().predict_proba(POOL)
    for found in in_threads(lambda _: net().predict_proba(POOL), 4):
        np.testing.assert_array_equal(found, expected)


def test_queries_of_a_net_leave_nothing_behind():
    asked = net()
    query = StochasticBatchQuery("bald", beta=1.0, n_draws=3, random_state=0)

    def objects_after(n):
        for _ in range(n):
            query.set_params(random_state=0).select(asked, POOL, 2)
        gc.collect()
        return len(gc.get_objects())

    before = objects_after(20)
    assert objects_after(40) - before < 40  # less than an object a query


def test_threads_that_overlap_leave_the_number_of_torch_threads_as_it_was():
    import torch

    from skactive._threads import one_torch_thread

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first, second = one_torch_thread(), one_torch_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert torch.get_num_threads() == 1
        second.__exit__(None, None, None)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_limits_of_threads_are_lifted_by_the_last_who_leaves():
    def numbers():
        return [library["num_threads"] for library in threadpool_info()], torch.get_num_threads()

    before = numbers()
    first, second = one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(numbers()[0]) == {1}
    assert numbers()[1] == 1
    second.__exit__(None, None, None)
    assert numbers() == before
