"""Pools of dask are scored where their blocks are: the batch is that of the rows in one array."""

from __future__ import annotations

import pathlib
import sys
import threading
import uuid

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
from sklearn import config_context, get_config
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
NET = make_pipeline(
    StandardScaler(), MCDropoutClassifier((16,), max_epochs=3, predict_batch_size=BATCH, random_state=0)
).fit(X[LABELLED], y[LABELLED])
MODELS = {"forest": FOREST, "net": NET}


def unknown(X, rows):
    return dask.array.from_array(X, chunks=(rows, 2))[dask.array.from_array(np.ones(len(X), dtype=bool), chunks=rows)]


def with_an_empty_block():
    return dask.dataframe.concat([frame() for frame in (lambda: of_frame(X[:0]), lambda: of_frame(X))])


def of_frame(X):
    return dask.dataframe.from_pandas(pd.DataFrame(X), npartitions=4, sort=False)


POOLS = {
    "blocks of 613": lambda: dask.array.from_array(X, chunks=(613, 4)),
    "unknown lengths": lambda: unknown(X, 700),
    "frame": lambda: of_frame(X),
    "an empty block": with_an_empty_block,
}


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def make(**options):
    return StochasticBatchQuery("bald", random_state=0, **options)


@pytest.mark.filterwarnings("ignore:X (does not have|has) ")  # a frame to a model of arrays
def check_equal(model, pool, **given):
    """The batch is that of one array, and scores are equal to rounding."""
    one, other = make(), make()
    found = one.select(model, pool, K, **given)
    np.testing.assert_array_equal(found, other.select(model, X, K, **given))
    np.testing.assert_allclose(one.scores_, other.scores_, rtol=1e-5, atol=1e-9)


SOME = {"all": {}, "candidates": {"candidates": np.flatnonzero(np.arange(N) % 3 != 1)[700:1900]}}


@pytest.mark.filterwarnings("ignore:X (does not have|has) ")  # a frame to a model of arrays
@pytest.mark.parametrize("rows", SOME)
@pytest.mark.parametrize(("model", "pool"), [("forest", pool) for pool in POOLS] + [("net", "blocks of 613")])
def test_a_batch_by_threads_is_that_of_the_rows_in_one_array(model, pool, rows):
    with dask.config.set(scheduler="threads"):
        check_equal(MODELS[model], POOLS[pool](), **SOME[rows])


@pytest.mark.parametrize("model", MODELS)
def test_a_batch_by_workers_is_that_of_the_rows_in_one_array(client, model):
    with client.as_current():
        check_equal(MODELS[model], POOLS["unknown lengths"](), **SOME["candidates"])


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_a_batch_by_processes_is_that_of_the_rows_in_one_array(model):
    with dask.config.set(scheduler="processes", num_workers=2):
        check_equal(MODELS[model], POOLS["blocks of 613"](), candidates=np.arange(5, N, 2))


def test_a_query_that_reads_the_rows_gets_them_from_the_workers(client):
    for query in (BADGEQuery, BatchBALDQuery):
        one, other = query(random_state=0), query(random_state=0)
        rows = np.arange(0, N, 7)
        with client.as_current():
            found = one.select(NET, POOLS["blocks of 613"](), 5, candidates=rows)
        np.testing.assert_array_equal(found, other.select(NET, X, 5, candidates=rows))


def test_many_scores_share_a_pass_and_a_bar_counts_its_rows(capsys):
    found = score_pool(FOREST, POOLS["blocks of 613"](), ["bald", "margin"], random_state=0, verbose=1)
    for name, expected in score_pool(FOREST, X, ["bald", "margin"], random_state=0).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-9)
    assert "3000/3000" in capsys.readouterr().err


# --- what is built ----------------------------------------------------------------------------------


def noted(folder, rows=613):
    """A pool that leaves a file for every block that is built, whoever builds it."""

    def note(block, block_info=None):
        if block_info:
            (pathlib.Path(folder) / f"{block_info[0]['chunk-location'][0]}-{uuid.uuid4().hex}").touch()
        return block

    return dask.array.from_array(X, chunks=(rows, 4)).map_blocks(note, meta=np.empty((0, 4)))


def built(folder):
    return sorted(int(file.name.partition("-")[0]) for file in pathlib.Path(folder).iterdir())


@pytest.mark.parametrize("model", MODELS)
def test_blocks_are_built_once_and_the_first_once_more_to_look_at_it(model, tmp_path):
    make().select(MODELS[model], noted(tmp_path), K)
    assert built(tmp_path) == [0, 0, 1, 2, 3, 4]


def test_a_block_without_a_candidate_is_not_built(tmp_path):
    make().select(FOREST, noted(tmp_path), 3, candidates=np.r_[5:9, 1300:1400])
    assert built(tmp_path) == [0, 0, 2]


def test_one_block_is_scored_at_a_time_in_a_process_with_the_settings_of_the_query():
    seen, inside = [], []

    def score(draws):
        inside.append(1)
        seen.append((len(inside), get_config()["working_memory"]))
        value = np.asarray(draws).mean(axis=(0, 2))
        inside.pop()
        return value

    with dask.config.set(scheduler="threads", num_workers=4), config_context(working_memory=7):
        StochasticBatchQuery(score, random_state=0).select(FOREST, POOLS["blocks of 613"](), 3)
    assert set(seen) == {(1, 7)}


KINDS = {
    "forest": RandomForestClassifier(5),
    "regression forest": RandomForestRegressor(5),
    "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(5)),
    "logistic regression": LogisticRegression(),
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
    if np.shape(draws)[1] > 2:  # not of the first rows
        raise ZeroDivisionError("no luck")
    return np.asarray(draws).mean(axis=(0, 2))


def of_blocks(*blocks):
    return dask.array.concatenate(
        [dask.array.from_delayed(dask.delayed(block), (500, 4), dtype=float) for block in blocks]
    )


def vanished():
    def fail(block, block_info=None):
        if block_info and block_info[0]["chunk-location"][0] == 2:
            raise FileNotFoundError("rows.npy is gone")
        return block

    return dask.array.from_array(X, chunks=(613, 4)).map_blocks(fail, meta=np.empty((0, 4)))


BAD = {
    "a score that fails": (
        lambda: StochasticBatchQuery(score_that_fails).select(FOREST, POOLS["blocks of 613"](), 3),
        r"Scoring rows \d+ to \d+ failed: ZeroDivisionError: no luck",
    ),
    "a block of another shape": (
        lambda: make().select(FOREST, of_blocks(X[:500], X[:500, :3]), 3),
        r"rows of \(3,\) .* where the first has rows of \(4,\)",
    ),
    "a block of another length": (
        lambda: make().select(FOREST, of_blocks(X[:500], X[:400]), 3),
        "reported 500 rows in a block and yielded 400",
    ),
    "a block that is not built": (lambda: make().select(FOREST, vanished(), 3), "FileNotFoundError: rows.npy is gone"),
    "no row": (
        lambda: make().select(FOREST, dask.array.from_array(X[:0], chunks=10), 3),
        "`n_instances` must be from 1 to the number of rows|is empty",
    ),
    "too many, seen late": (lambda: make().select(FOREST, unknown(X, 700), N + 1), "from 1 to the number of rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_scored_gets_one_clear_message(name):
    call, message = BAD[name]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        call()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of dask, about what it cannot pickle
def test_what_cannot_be_pickled_is_refused_by_workers_and_no_matter_to_threads(client):
    model = WithLock(5, random_state=0).fit(X[LABELLED], y[LABELLED])
    with client.as_current(), pytest.raises((TypeError, RuntimeError), match="Scoring `X_pool` by dask failed"):
        make().select(model, POOLS["blocks of 613"](), 3)
    with dask.config.set(scheduler="threads"):
        check_equal(model, POOLS["blocks of 613"]())


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

    with client.as_current(), joblib.parallel_config(backend="dask"):
        found = run(2)
    pd.testing.assert_frame_equal(*(result.to_frame().filter(regex="^(?!.*seconds)") for result in (found, run(1))))
