"""Pools of dask are scored where their blocks are: the batch is that of the rows in one array."""

import pathlib
import sys
import uuid

import cloudpickle
import dask
import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import torch
from distributed import Client, LocalCluster
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier

from skactive import BADGEQuery, BatchBALDQuery, LastLayerClassifier, MCDropoutClassifier, StochasticBatchQuery
from skactive.query import Pool, draws_of

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


def of_blocks():
    return dask.array.from_array(X, chunks=(613, 4))


def unknown():
    return dask.array.from_array(X, chunks=(700, 2))[dask.array.from_array(np.ones(N, dtype=bool), chunks=700)]


def of_frame(X=X):
    return dask.dataframe.from_pandas(pd.DataFrame(X), npartitions=4, sort=False)


def with_an_empty_block():
    return dask.dataframe.concat([of_frame(X[:0]), of_frame()])


@pytest.fixture(scope="module", params=["threads", pytest.param("processes", marks=pytest.mark.slow)])
def client(request):
    processes = request.param == "processes"
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=processes, dashboard_address=":0") as cluster,
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


SOME = {"candidates": np.flatnonzero(np.arange(N) % 3 != 1)[700:1900]}


@pytest.mark.filterwarnings("ignore:X (does not have|has) ")  # a frame to a model of arrays
@pytest.mark.parametrize(
    ("model", "pool", "rows"),
    [(FOREST, of_blocks, {}), (FOREST, unknown, SOME), (FOREST, of_frame, SOME), (FOREST, with_an_empty_block, {}),
     (NET, of_blocks, SOME), (NET, unknown, {})],
    ids=["blocks", "unknown lengths", "frame", "empty block", "blocks to a net", "unknown lengths to a net"],
)  # fmt: skip
def test_a_batch_by_threads_is_that_of_the_rows_in_one_array(model, pool, rows):
    with dask.config.set(scheduler="threads"):
        check_equal(model, pool(), **rows)


def test_a_batch_by_workers_is_that_of_the_rows_in_one_array(client):
    with client.as_current():
        check_equal(NET, unknown(), **SOME)


def test_a_query_that_reads_the_rows_gets_them_from_the_workers(client):
    for query in (BADGEQuery, BatchBALDQuery):
        one, other = query(random_state=0), query(random_state=0)
        rows = np.arange(0, N, 7)
        with client.as_current():
            found = one.select(NET, of_blocks(), 5, candidates=rows)
        np.testing.assert_array_equal(found, other.select(NET, X, 5, candidates=rows))


def noted(folder):
    """A pool that leaves a file for every block that is built, whoever builds it."""

    def note(block, block_info=None):
        if block_info:
            (pathlib.Path(folder) / f"{block_info[0]['chunk-location'][0]}-{uuid.uuid4().hex}").touch()
        return block

    return of_blocks().map_blocks(note, meta=np.empty((0, 4)))


def built(folder):
    return sorted(int(file.name.partition("-")[0]) for file in pathlib.Path(folder).iterdir())


@pytest.mark.parametrize(
    ("model", "candidates", "blocks"),
    [(NET, None, [0, 0, 1, 2, 3, 4]), (FOREST, np.r_[5:9, 1300:1400], [0, 0, 2])],
    ids=["all rows", "candidates"],
)
def test_blocks_of_candidates_are_built_once_and_the_first_once_more_to_look_at_it(model, candidates, blocks, tmp_path):
    make().select(model, noted(tmp_path), 3, candidates=candidates)
    assert built(tmp_path) == blocks


@pytest.mark.filterwarnings("ignore")  # of tiny fits
@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        GaussianProcessRegressor(optimizer=None),
        GaussianNB(),  # by a bootstrap
        LastLayerClassifier(MCDropoutClassifier((8,), max_epochs=1)),
        NeuralNetClassifier(
            torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(), torch.nn.Softmax(-1)),
            train_split=None,
            max_epochs=1,
            verbose=0,
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_draws_of_every_source_are_the_same_functions_elsewhere(model):
    X32 = X[:100].astype(np.float32)
    pool = Pool.of(X32, X_training=X32, y_training=y[:100])
    draws = draws_of(pool, model.fit(X32, y[:100]), np.random.default_rng(0), n_draws=5)
    travelled = cloudpickle.loads(cloudpickle.dumps(draws))
    np.testing.assert_array_equal(np.asarray(travelled.predict(X32)), np.asarray(draws.predict(X32)))


def delayed(*blocks):
    return dask.array.concatenate(
        [dask.array.from_delayed(dask.delayed(block), (500, 4), dtype=float) for block in blocks]
    )


BAD = {
    "a block of another shape": (lambda: delayed(X[:500], X[:500, :3]), 3, r"rows of \(3,\) .* rows of \(4,\)"),
    "a block of another length": (lambda: delayed(X[:500], X[:400]), 3, "500 rows in a block but yielded 400"),
    "too many, seen late": (unknown, N + 1, "from 1 to the number of rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_scored_is_refused(name):
    pool, n_instances, message = BAD[name]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        make().select(FOREST, pool(), n_instances)
