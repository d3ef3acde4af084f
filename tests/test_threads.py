"""One fitted model in several threads, each with a clone of the query; and what belongs to the whole process."""

import random
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info
from torch import nn

from skactive import BADGEQuery, BatchBALDQuery, MCDropoutClassifier, StochasticBatchQuery, sample_posterior
from skactive._utils import randomness as global_random
from skactive._utils.devices import one_thread, one_torch_thread
from skactive._utils.validation import each_warning_once

X, y = load_digits(return_X_y=True)
X = X / 16
POOL = X[100:250]
FOREST = RandomForestClassifier(5, random_state=0).fit(X[:100], y[:100])
N_THREADS = 4


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


@pytest.fixture(scope="module")
def net():
    return MCDropoutClassifier((16,), max_epochs=3, random_state=0).fit(X[:100], y[:100])


MODELS = {
    "forest": (FOREST, POOL, StochasticBatchQuery("bald")),
    "BatchBALD": (RandomForestClassifier(20, random_state=0).fit(X[:100], y[:100]), POOL, BatchBALDQuery()),
    "BADGE": (LogisticRegression().fit(X[:100], y[:100]), POOL, BADGEQuery()),
    "Gaussian process": (
        GaussianProcessRegressor(alpha=0.1, optimizer=None).fit(X[:60, :5], X[:60, 20]),
        POOL[:, :5],
        StochasticBatchQuery("std_dev", n_draws=5),
    ),
}


@pytest.mark.usefixtures("switching")
@pytest.mark.parametrize("name", MODELS)
def test_threads_with_a_clone_of_the_query_each_choose_what_they_would_choose_alone(name):
    model, pool, query = MODELS[name]

    def job(number):
        own = clone(query).set_params(random_state=number)
        return [own.select(model, pool, 2).tolist() for _ in range(2)]

    assert in_threads(job) == [job(number) for number in range(N_THREADS)]


def test_a_call_that_is_interrupted_leaves_the_query_and_its_results_as_they_were():
    def score(draws):
        raise KeyboardInterrupt

    query = StochasticBatchQuery("bald", random_state=0)
    query.select(FOREST, POOL, 5)
    before = vars(query).copy()
    with pytest.raises(KeyboardInterrupt):
        query(FOREST, POOL, 5, score=score, beta=3.0)
    assert vars(query).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(query).items() if name != "rng_")


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


@pytest.mark.usefixtures("switching")
def test_a_net_of_somebody_else_s_is_undisturbed_while_ours_is_fitted_and_asked(net):
    bystander, rows = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3)), torch.from_numpy(X[:50]).float()
    expected, call = bystander(rows).detach(), nn.Module.__call__
    stop = threading.Event()

    def use():
        while not stop.is_set():
            assert torch.equal(bystander(rows), expected)

    with ThreadPoolExecutor(1) as pool:
        user = pool.submit(use)
        for i in range(8):
            StochasticBatchQuery("bald", beta=1.0, n_draws=4, random_state=i).select(net, POOL, 5)
            net.predict_proba(POOL)
        fitted = clone(net).fit(X[:100], y[:100])
        stop.set()
        user.result()
    assert nn.Module.__call__ is call
    np.testing.assert_array_equal(fitted.predict_proba(POOL), net.predict_proba(POOL))


@pytest.mark.usefixtures("switching")
def test_one_net_answers_in_several_threads_what_it_answers_in_one(net):
    pool = POOL.astype(np.float32)

    def drawn(seed):
        return sample_posterior(net.net_, 5, np.random.default_rng(seed))

    expected = [np.asarray(drawn(seed)(pool)) for seed in range(N_THREADS)]
    shared, probabilities = drawn(3), net.predict_proba(POOL)

    def ask(number):
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(drawn(number)(pool)), expected[number])
            np.testing.assert_array_equal(np.asarray(shared(pool)), expected[3])
            np.testing.assert_array_equal(net.predict_proba(POOL), probabilities)

    in_threads(ask)


def test_limits_of_threads_are_lifted_by_the_last_who_leaves():
    def numbers():
        return [library["num_threads"] for library in threadpool_info()], torch.get_num_threads()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    for limit in (one_torch_thread, one_thread):
        at_first, first, second = numbers(), limit(), limit()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert numbers()[1] == 1
        second.__exit__(None, None, None)
        assert numbers() == at_first
    torch.set_num_threads(before)


def test_calls_that_end_in_the_order_in_which_they_began_hide_no_warning_afterwards(monkeypatch):
    shown = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *more, **named: shown.append(str(message)))
    first, second = each_warning_once(), each_warning_once()
    first.__enter__()
    second.__enter__()
    for _ in range(2):
        warnings.showwarning("inside", UserWarning, "a file", 1)
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    for _ in range(2):
        warnings.showwarning("inside", UserWarning, "a file", 1)
    assert shown == ["inside"] * 3
