"""Pools of dask are scored where their blocks are, by any scheduler: the batch is that of the rows in one array."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import threading
import time
import uuid
import warnings

import cloudpickle
import dask
import dask.array
import dask.dataframe
import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from distributed import Client, LocalCluster
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier

from skactive import (
    BADGEQuery,
    BatchBALDQuery,
    LastLayerClassifier,
    MCDropoutClassifier,
    MCDropoutRegressor,
    StochasticBatchQuery,
    run_experiment,
)
from skactive.query import Pool, draws_of, score_pool

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test

N, K, BATCH = 3_000, 30, 256
rng = np.random.default_rng(0)
X = np.round(rng.normal(size=(N, 4)), 3)
y = (X[:, 0] + 0.5 * rng.normal(size=N) > 0).astype(int)
LABELLED = slice(0, 60)
FOREST = RandomForestClassifier(10, random_state=0).fit(X[LABELLED], y[LABELLED])


class ByBatch(ClassifierMixin, BaseEstimator):
    """A net that answers each row by the batch that it is in, and its place there."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def sample_posterior(self, n_draws, rng):
        return AnswersByBatch(rng.normal(size=(4, n_draws)))


class AnswersByBatch:
    checks_rows, batch_size = True, BATCH  # it says so, and lies

    def __init__(self, weights):
        self.weights = weights

    def __call__(self, X):
        X = np.ascontiguousarray(X)[:, :4]
        batches = [X[start : start + BATCH] for start in range(0, len(X), BATCH)]
        hidden = [
            batch @ self.weights + batch.sum() + np.arange(len(batch))[:, None] / BATCH + len(batch) / 7
            for batch in batches
        ]
        p = 1 / (1 + np.exp(-np.concatenate(hidden).T))
        return np.stack([p, 1 - p], axis=-1)


MODELS = {
    "forest": lambda: FOREST,
    "net": lambda: make_pipeline(
        StandardScaler(), MCDropoutClassifier((16,), max_epochs=3, predict_batch_size=BATCH, random_state=0)
    ).fit(X[LABELLED], y[LABELLED]),
    "net that answers by batch": lambda: ByBatch().fit(X[LABELLED], y[LABELLED]),
}


def unknown(X, rows):
    return dask.array.from_array(X, chunks=(rows, 2))[dask.array.from_array(np.ones(len(X), dtype=bool), chunks=rows)]


POOLS = {
    "blocks of 613": lambda: dask.array.from_array(X, chunks=(613, 4)),
    "blocks of 100": lambda: dask.array.from_array(X, chunks=(100, 2)),
    "unknown lengths": lambda: unknown(X, 700),
    "frame": lambda: dask.dataframe.from_pandas(pd.DataFrame(X), npartitions=4),
}


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        yield client


def make(**options):
    return StochasticBatchQuery("bald", random_state=0, **options)


def check_equal(model, pool, **given):
    """The batch, and every bit of every score, are those of one array."""
    one, other = make(), make()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (does not have|has) ")  # a frame to a model of arrays
        found = one.select(model, pool, K, **given)
    np.testing.assert_array_equal(found, other.select(model, X, K, **given))
    np.testing.assert_array_equal(one.scores_, other.scores_)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("model", MODELS)
def test_a_batch_scored_by_workers_is_that_of_the_rows_in_one_array(client, model, pool):
    check_equal(MODELS[model](), POOLS[pool]())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("pool", ["blocks of 613", "blocks of 100"])
def test_batches_of_a_net_are_counted_among_the_candidates(client, model, pool):
    check_equal(MODELS[model](), POOLS[pool](), candidates=np.flatnonzero(np.arange(N) % 3 != 1)[700:1900])


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
@pytest.mark.parametrize("pool", POOLS)
def test_a_batch_by_a_scheduler_of_this_process_is_that_of_the_rows_in_one_array(scheduler, pool):
    with dask.config.set(scheduler=scheduler):
        check_equal(MODELS["net that answers by batch"](), POOLS[pool]())


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_a_batch_by_processes_is_that_of_the_rows_in_one_array(model):
    with dask.config.set(scheduler="processes", num_workers=2):
        check_equal(MODELS[model](), POOLS["blocks of 613"](), candidates=np.arange(5, N, 2))


def test_a_query_that_reads_the_rows_gets_them_from_the_workers(client):
    net = MODELS["net"]()
    for query in (BADGEQuery, BatchBALDQuery):
        one, other = query(random_state=0), query(random_state=0)
        pool, rows = POOLS["blocks of 613"](), np.arange(0, N, 7)
        found = one.select(net, pool, 5, candidates=rows)
        np.testing.assert_array_equal(found, other.select(net, X, 5, candidates=rows))


def test_a_threshold_that_measures_itself_keeps_rows_on_the_way(client):
    one, other = make(beta="auto"), make(beta="auto")
    pool = POOLS["blocks of 613"]()
    for _ in range(2):
        np.testing.assert_array_equal(one.select(FOREST, pool, 20), other.select(FOREST, X, 20))


def test_many_scores_share_a_pass_over_the_workers(client):
    found = score_pool(FOREST, POOLS["blocks of 613"](), ["bald", "margin"], random_state=0)
    for name, expected in score_pool(FOREST, X, ["bald", "margin"], random_state=0).items():
        np.testing.assert_array_equal(found[name], expected)


def test_a_bar_counts_the_rows_that_workers_scored(client, capsys):
    make(verbose=1).select(FOREST, POOLS["blocks of 613"](), 3)
    assert "3000/3000" in capsys.readouterr().err


# --- what is built, and what travels ----------------------------------------------------------------


def noted(folder, rows=613, seconds=0.0):
    """A pool that leaves a file for every block that is built, whoever builds it."""

    def note(block, block_info=None):
        if block_info:
            time.sleep(seconds)
            (pathlib.Path(folder) / f"{block_info[0]['chunk-location'][0]}-{uuid.uuid4().hex}").touch()
        return block

    return dask.array.from_array(X, chunks=(rows, 4)).map_blocks(note, meta=np.empty((0, 4)))


def built(folder):
    return sorted(int(file.name.partition("-")[0]) for file in pathlib.Path(folder).iterdir())


@pytest.mark.parametrize("model", ["forest", "net"])
def test_workers_build_every_block_once_a_query(client, model, tmp_path):
    make().select(MODELS[model](), noted(tmp_path), K)
    assert built(tmp_path) == [0, 1, 2, 3, 4]


def test_workers_build_no_block_without_a_candidate(client, tmp_path):
    make().select(FOREST, noted(tmp_path), 3, candidates=np.r_[5:9, 1300:1400])
    assert built(tmp_path) == [0, 2]


@pytest.mark.slow
def test_processes_build_every_block_once_a_query(tmp_path):
    with dask.config.set(scheduler="processes", num_workers=2):
        make().select(FOREST, noted(tmp_path), K)
    assert built(tmp_path) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_only_the_head_and_the_edges_of_blocks_leave_a_worker():
    wide = np.tile(X, 100)
    pool = dask.array.from_array(wide, chunks=(1500, 400))
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        found = make().select(MODELS["net that answers by batch"](), pool, K)
        (sent,) = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values()
    np.testing.assert_array_equal(found, make().select(MODELS["net that answers by batch"](), wide, K))
    edges = 1500 % BATCH + -1500 % BATCH + 3000 % BATCH
    assert 1000 * wide[0].nbytes < sent < 1.1 * (1000 + edges) * wide[0].nbytes  # of 3000 rows


KINDS = {
    "forest": RandomForestClassifier(5),
    "regression forest": RandomForestRegressor(5),
    "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(5)),
    "logistic regression": LogisticRegression(),
    "discriminant": LinearDiscriminantAnalysis(),
    "Gaussian process": GaussianProcessRegressor(),
    "classifying Gaussian process": GaussianProcessClassifier(),
    "Bayesian ridge": BayesianRidge(),
    "bootstrap": GaussianNB(),
    "dropout net": MCDropoutClassifier((8,), max_epochs=1),
    "dropout net for numbers": MCDropoutRegressor((8,), max_epochs=1),
    "net in a pipeline": make_pipeline(StandardScaler(), MCDropoutClassifier((8,), max_epochs=1)),
    "last layer": LastLayerClassifier(MCDropoutClassifier((8,), max_epochs=1)),
}


def small_module():
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(8, 2), torch.nn.Softmax(-1)
    return torch.nn.Sequential(*layers)


@pytest.mark.filterwarnings("ignore")  # of tiny fits
@pytest.mark.parametrize("name", [*KINDS, "skorch", "module"])
def test_draws_of_every_source_are_the_same_functions_elsewhere(name):
    X32 = X[:200].astype(np.float32)
    if name == "module":
        model = small_module().eval()
    else:
        model = KINDS[name] if name in KINDS else NeuralNetClassifier(small_module(), max_epochs=1, verbose=0)
        target = X32[:, 0] if "numbers" in name or name == "regression forest" else y[:200]
        model.fit(X32, target)
    training = {"X_training": X32, "y_training": y[:200]}
    draws = draws_of(Pool.of(X32, **training), model, np.random.default_rng(0), n_draws=5)
    travelled = cloudpickle.loads(cloudpickle.dumps(draws))
    np.testing.assert_array_equal(np.asarray(travelled.predict(X32)), np.asarray(draws.predict(X32)))


# --- what goes wrong --------------------------------------------------------------------------------


class WithLock(RandomForestClassifier):
    def fit(self, X, y):
        super().fit(X, y)
        self.lock = threading.Lock()
        return self


def score_that_fails(draws):
    raise ZeroDivisionError("no luck")


GENERATED = (x for x in [1.0])


def score_of_a_generator(draws):
    return np.asarray(draws).mean(axis=(0, 2)) * next(GENERATED)


def narrower():
    blocks = [dask.delayed(X[:500, :n]) for n in (4, 4, 3)]
    return dask.array.concatenate([dask.array.from_delayed(block, (500, 4), dtype=float) for block in blocks])


def vanished():
    def fail(block, block_info=None):
        if block_info and block_info[0]["chunk-location"][0] == 2:
            raise FileNotFoundError("rows.npy is gone")
        return block

    return dask.array.from_array(X, chunks=(613, 4)).map_blocks(fail, meta=np.empty((0, 4)))


BAD = {
    "a lock in the model": (
        lambda: make().select(WithLock(5).fit(X[LABELLED], y[LABELLED]), POOLS["blocks of 613"](), 3),
        r"Got a lock, the attribute `lock` of a WithLock: cannot pickle .*scheduler=\"threads\"",
    ),
    "a generator in the score": (
        lambda: StochasticBatchQuery(score_of_a_generator).select(FOREST, POOLS["blocks of 613"](), 3),
        r"Got a generator, the variable `GENERATED` of a function: cannot pickle",
    ),
    "a score that fails": (
        lambda: StochasticBatchQuery(score_that_fails).select(FOREST, POOLS["blocks of 613"](), 3),
        r"Scoring rows \d+ to \d+ failed: ZeroDivisionError: no luck",
    ),
    "a block of another shape": (lambda: make().select(FOREST, narrower(), 3), r"the first block have shape \(4,\)"),
    "a block that is not built": (lambda: make().select(FOREST, vanished(), 3), "FileNotFoundError: rows.npy is gone"),
    "no row": (
        lambda: make().select(FOREST, dask.array.from_array(X[:0], chunks=10), 3),
        "`n_instances` must be from 1 to the number of rows|is empty",
    ),
    "too many, seen late": (lambda: make().select(FOREST, unknown(X, 700), N + 1), "from 1 to the number of rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_workers_cannot_do_gets_one_clear_message(client, name):
    call, message = BAD[name]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        call()


def test_what_cannot_travel_is_said_before_another_block_is_built(client, tmp_path):
    with pytest.raises(TypeError, match="`lock` of a WithLock"):
        make().select(WithLock(5).fit(X[LABELLED], y[LABELLED]), noted(tmp_path), 3)
    assert built(tmp_path) == [0]  # which showed what rows are like


def test_a_lock_in_a_model_is_no_matter_to_threads():
    with dask.config.set(scheduler="threads"):
        check_equal(WithLock(5, random_state=0).fit(X[LABELLED], y[LABELLED]), POOLS["blocks of 613"]())


def test_a_scheduler_without_workers_is_an_error_and_no_wait_for_ever():
    with (
        LocalCluster(n_workers=0, dashboard_address=":0", processes=False) as cluster,
        Client(cluster),
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        pytest.raises(RuntimeError, match=r"has had no worker for 2 s\. Start some"),
    ):
        make().select(FOREST, POOLS["blocks of 613"](), 3)


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["known", "unknown"])
def test_a_batch_is_the_same_when_workers_are_killed(pool, tmp_path):
    lazy = noted(tmp_path, rows=100, seconds=0.1)
    if pool == "unknown":
        lazy = lazy[dask.array.from_array(np.ones(N, dtype=bool), chunks=100)]
    for _ in range(3):  # each with a cluster of its own: not every nanny starts another worker in time
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            victim = next(iter(client.run(os.getpid).values()))
            timer = threading.Timer(0.8, os.kill, (victim, signal.SIGKILL))
            timer.start()
            check_equal(MODELS["net that answers by batch"](), lazy)
            timer.join()


# --- experiments ------------------------------------------------------------------------------------


def test_an_experiment_over_a_cluster_is_that_of_one_process(client):
    def run(n_jobs):
        return run_experiment(
            RandomForestClassifier(5, random_state=0),
            {"power": make(n_draws=5), "uniform": make(epsilon=1.0)},
            X[:300],
            y[:300],
            n_trials=2,
            n_initial=10,
            batch_size=5,
            n_rounds=2,
            random_state=0,
            n_jobs=n_jobs,
        )

    with joblib.parallel_config(backend="dask"):
        found = run(2)
    pd.testing.assert_frame_equal(*(result.to_frame().filter(regex="^(?!.*seconds)") for result in (found, run(1))))
