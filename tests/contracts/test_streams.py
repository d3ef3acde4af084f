"""Pools that are read in blocks: the batch is that of the rows in one array, and every block is read once."""

from __future__ import annotations

import functools
import pathlib

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
import torch
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skactive import (
    ACSFWQuery,
    BADGEQuery,
    BatchBALDQuery,
    KCenterQuery,
    MCDropoutClassifier,
    StochasticBatchQuery,
    blocks,
)
from skactive import _containers as containers
from skactive._containers import _blocks as stored

N, FIRST, K = 3_000, 60, 100
rng = np.random.default_rng(0)
NAMES = ["a", "b", "c", "d"]
X = np.round(rng.normal(size=(FIRST + N, 4)), 3)
X[:, 3] = rng.integers(0, 3, FIRST + N)
y = (X[:, 0] + 0.5 * rng.normal(size=FIRST + N) > 0).astype(int)
NUMBERS = pd.DataFrame(X, columns=NAMES)
MIXED = NUMBERS.assign(d=np.array(["red", "green", "blue"])[X[:, 3].astype(int)])
LABELLED, POOL = slice(0, FIRST), slice(FIRST, None)


class Items(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], 0


def parquet(frame, folder, n_files):
    for i, part in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[part].to_parquet(pathlib.Path(folder) / f"{i:02}.parquet", index=False, row_group_size=271)
    return pyarrow.dataset.dataset(str(folder))


def memmap(frame, folder):
    np.save(pathlib.Path(folder) / "rows.npy", frame.to_numpy())
    return np.load(pathlib.Path(folder) / "rows.npy", mmap_mode="r")


def in_blocks(frame, n):
    return [frame.iloc[part] for part in np.array_split(np.arange(len(frame)), n)]


OF_FRAMES = {
    "Parquet": lambda frame, folder: parquet(frame, folder, 1),
    "Parquet in many files": lambda frame, folder: parquet(frame, folder, 7),
    "Arrow": lambda frame, folder: pyarrow.table(frame),
    "batches that come once": lambda frame, folder: blocks(pyarrow.table(frame).to_reader(max_chunksize=170)),
    "polars": lambda frame, folder: polars.from_pandas(frame),
    "lazy polars": lambda frame, folder: polars.from_pandas(frame).lazy(),
    "dask frame": lambda frame, folder: dask.dataframe.from_pandas(frame, npartitions=5),
    "iterable": lambda frame, folder: blocks(iter(in_blocks(frame, 11))),
    "function of iterables": lambda frame, folder: blocks(functools.partial(in_blocks, frame, 3)),
}
OF_ARRAYS = {
    "memory map": memmap,
    "dask": lambda frame, folder: dask.array.from_array(frame.to_numpy(), chunks=(113, 4)),
    "dask of unknown lengths": lambda frame, folder: dask.array.from_array(frame.to_numpy(), chunks=(700, 2))[
        dask.array.from_array(np.ones(len(frame), dtype=bool), chunks=700)
    ],
    "torch dataset": lambda frame, folder: Items(torch.from_numpy(frame.to_numpy().copy())),
    "torch loader": lambda frame, folder: torch.utils.data.DataLoader(
        Items(torch.from_numpy(frame.to_numpy().copy())), batch_size=123
    ),
}
LAZY = OF_FRAMES | OF_ARRAYS


@functools.cache
def model(name, of_frames):
    rows = MIXED if name == "mixed" else NUMBERS
    labelled = rows[LABELLED] if of_frames else rows[LABELLED].to_numpy()
    if name == "forest":
        made = RandomForestClassifier(10, random_state=0)
    elif name == "net":
        made = make_pipeline(
            StandardScaler(), MCDropoutClassifier((16,), max_epochs=5, predict_batch_size=256, random_state=0)
        )
    else:
        numbers = (StandardScaler(), ["a", "b", "c"])
        made = make_pipeline(
            make_column_transformer(numbers, (OneHotEncoder(), ["d"])), RandomForestClassifier(10, random_state=0)
        )
    return made.fit(labelled, y[LABELLED])


def make(sampler="power", **parameters):
    return StochasticBatchQuery("bald", sampler, random_state=0, **parameters)


@functools.cache
def of_one_array(name, sampler):
    query = make(sampler)
    query.select(model(name, name == "mixed"), MIXED[POOL] if name == "mixed" else X[POOL], K)
    return query


CASES = [("mixed", container, "power") for container in OF_FRAMES] + [("net", name, "power") for name in OF_ARRAYS]
CASES += [("forest", "iterable", sampler) for sampler in ("softrank", "topk")]


@pytest.mark.parametrize(("name", "container", "sampler"), CASES)
def test_a_batch_is_that_of_the_rows_in_one_array(name, container, sampler, tmp_path):
    rows = (MIXED if name == "mixed" else NUMBERS)[POOL].reset_index(drop=True)
    query, expected = make(sampler), of_one_array(name, sampler)
    found = query.select(model(name, container in OF_FRAMES), LAZY[container](rows, tmp_path), K)
    np.testing.assert_array_equal(found, expected.indices_)
    np.testing.assert_allclose(query.log_proba_, expected.log_proba_, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(query.scores_, expected.scores_, rtol=1e-5, atol=1e-9)


# --- every block is read once -----------------------------------------------------------------------


class Counted:
    """An iterable of blocks that says how often each was asked for."""

    def __init__(self, frame, n_blocks):
        self.blocks, self.read = in_blocks(frame, n_blocks), []

    def __iter__(self):
        for i, block in enumerate(self.blocks):
            self.read.append(i)
            yield block


QUERIES = {
    "default": lambda: make(),
    "small chunks": lambda: make(chunk_size=50),
    "BADGE": lambda: BADGEQuery(random_state=0),
    "k-center": lambda: KCenterQuery(random_state=0),
    "ACS-FW": lambda: ACSFWQuery(random_state=0),
    "BatchBALD": lambda: BatchBALDQuery(random_state=0, n_draws=5),
    "diversity": lambda: make(diversity=1.0),
}


@pytest.mark.filterwarnings("ignore:.* of the .* rows")
@pytest.mark.parametrize("query", QUERIES)
def test_blocks_that_come_once_serve_every_query(query):
    net = model("net", True) if query in {"BADGE", "k-center"} else model("forest", True)
    counted = Counted(NUMBERS[POOL], 6)
    found = QUERIES[query]().select(net, blocks(iter(counted)), 20)
    assert counted.read == [0, 1, 2, 3, 4, 5]
    expected = QUERIES[query]().select(net, NUMBERS[POOL].reset_index(drop=True), 20)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("query", ["BADGE", "k-center", "diversity"])
def test_blocks_of_tensors_and_sparse_rows_in_flight_give_the_batch_of_an_array(query):
    rows, linear = X[POOL], LogisticRegression().fit(X[LABELLED], y[LABELLED])
    given = {"X_training": X[LABELLED], "y_training": y[LABELLED], "pending": [3, 5]}
    expected = QUERIES[query]().select(linear, rows, 10, **given)
    for pool in (blocks([torch.from_numpy(rows[:99]), torch.from_numpy(rows[99:])]), sparse.csr_array(rows)):
        np.testing.assert_array_equal(QUERIES[query]().select(linear, pool, 10, **given), expected)


# --- in a loop --------------------------------------------------------------------------------------


def test_a_modal_loop_goes_over_a_pool_on_disk(tmp_path):
    rows = MIXED[POOL].reset_index(drop=True)
    pool = parquet(rows, tmp_path, 7)
    learner = ActiveLearner(model("mixed", True), make(), MIXED[LABELLED], y[LABELLED])
    bought = []
    for _ in range(2):
        free = np.setdiff1d(np.arange(N), bought)
        indices, batch = learner.query(pool, n_instances=5, candidates=free)
        np.testing.assert_array_equal(batch, rows.iloc[indices])
        learner.teach(batch, y[POOL][indices])
        bought += indices.tolist()
    assert len(set(bought)) == 10
    assert len(learner.X_training) == FIRST + 10


def test_a_learner_is_not_asked_for_rows_that_are_gone():
    asked = ActiveLearner(model("forest", True), make(), NUMBERS[LABELLED], y[LABELLED])
    pool = blocks(iter(in_blocks(NUMBERS[POOL], 3)))
    with pytest.raises(ValueError, match="can be read only once, but a learner reads the rows of the batch again"):
        asked.query(pool, n_instances=5)
    assert len(make().select(asked, pool, 5)) == 5  # nothing was read before


def test_texts_come_as_arrays_of_arrow_series_of_dask_and_items_of_torch():
    texts = [" ".join(rng.choice(["ash", "elm", "oak", "fir"], 1 + i % 4)) for i in range(200)]
    reader = make_pipeline(CountVectorizer(), RandomForestClassifier(5, random_state=0)).fit(texts[:50], y[:50])
    expected = make().select(reader, texts, 5)
    for pool in (
        pyarrow.chunked_array([texts[:90], texts[90:]]),
        dask.dataframe.from_pandas(pd.Series(texts), npartitions=3),
        Items(texts),
        blocks([polars.Series(texts[:90]), polars.Series(texts[90:])]),
    ):
        np.testing.assert_array_equal(make().select(reader, pool, 5), expected)


# --- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (
            blocks([NUMBERS, NUMBERS.rename(columns={"b": "e"})]),
            r"rows of \['a', 'e', .* the first has rows of \['a', 'b'",
        ),
        (torch.utils.data.DataLoader(Items(torch.ones(9, 4)), 4, shuffle=True), "shuffle=False"),
    ],
)
def test_blocks_of_other_columns_and_rows_in_another_order_each_time_are_refused(pool, message):
    with pytest.raises(ValueError, match=message):
        make().select(model("forest", True), pool, 3)


class Mirrored(Items):
    """Rows that are reversed at random, rarely, as augmentation does with pictures: the commonest slip."""

    def __getitem__(self, i):
        return self.rows[i].flip(0) if torch.rand(()) < 0.1 else self.rows[i]


class OneByOne(torch.utils.data.IterableDataset):
    def __iter__(self):
        return map(Mirrored(torch.from_numpy(X[POOL])).__getitem__, range(N))


CHANGING = {
    "dataset": lambda: Mirrored(torch.from_numpy(X[POOL])),
    "loader": lambda: torch.utils.data.DataLoader(Mirrored(torch.from_numpy(X[POOL])), batch_size=64),
    "iterable dataset": OneByOne,
    "function of blocks": lambda: blocks(lambda: (X[POOL] + rng.normal(size=(N, 1)) for _ in range(2))),
}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", CHANGING)
def test_a_pool_whose_rows_change_when_they_are_read_again_is_refused(name, query):
    # Fifty rows all fall alike twice with a probability of 0.82^50 = 5e-5: seeded.
    torch.manual_seed(0)
    for candidates in (None, np.arange(N - 50, N)):
        with pytest.raises(ValueError, match=r"the same rows whenever it is read.*without random augmentation"):
            QUERIES[query]().select(model("net", False), CHANGING[name](), 3, candidates=candidates)


def test_an_iterator_that_was_read_is_refused():
    pool = blocks(iter(in_blocks(NUMBERS[POOL], 3)))
    make().select(model("forest", True), pool, 3)
    with pytest.raises(ValueError, match="an iterator that was read before"):
        make().select(model("forest", True), pool, 3)


def test_a_stream_of_arrow_is_refused_with_the_pool_that_it_can_be():
    for pool in (pyarrow.table(NUMBERS).to_reader(), pyarrow.dataset.dataset(pyarrow.table(NUMBERS)).scanner()):
        with pytest.raises(TypeError, match=r"Make a pool of blocks of rows by `skactive\.blocks`"):
            make().select(model("forest", True), pool, 3)


def test_a_file_that_vanishes_is_said(tmp_path):
    rows = pd.concat([NUMBERS] * 60, ignore_index=True)  # of which two blocks are read
    chunks = containers.iter_chunks(containers.prepare_pool(parquet(rows, tmp_path, 3)), None, 200)
    next(chunks)
    (tmp_path / "02.parquet").unlink()
    with pytest.raises(RuntimeError, match="Reading `X_pool` failed: FileNotFoundError"):
        list(chunks)


# --- rows that are kept -----------------------------------------------------------------------------


def test_rows_that_are_kept_go_to_a_folder_if_they_are_many_and_it_goes_with_them(monkeypatch):
    few = containers.prepare_pool(blocks(iter(in_blocks(NUMBERS, 3))))
    assert few.count("A test counts the rows") == FIRST + N  # without a warning
    monkeypatch.setattr(stored, "MOST_IN_MEMORY", 50_000)
    stream = containers.prepare_pool(blocks(iter(in_blocks(NUMBERS, 3))))
    with pytest.warns(UserWarning, match="A test counts the rows, so the rows .* written to a temporary folder"):
        stream.count("A test counts the rows")
    folder = stream.source._folder
    assert len(list(folder.iterdir())) == 3
    for pool in (few, stream):
        pd.testing.assert_frame_equal(pool.take(np.array([2500, 3, 3, 1020])), NUMBERS.iloc[[2500, 3, 3, 1020]])
    del stream, pool
    assert not folder.exists()


@pytest.mark.parametrize("query", ["BatchBALD", "BADGE"])
@pytest.mark.filterwarnings("ignore:.*written to a temporary folder", "ignore:.* of the .* rows")
def test_a_batch_from_rows_in_a_folder_is_that_from_rows_in_memory(query, monkeypatch):
    monkeypatch.setattr(stored, "MOST_IN_MEMORY", 1)
    net = model("net", False) if query == "BADGE" else model("forest", False)
    pool = blocks(iter(np.array_split(X[POOL], 7)))
    np.testing.assert_array_equal(
        QUERIES[query]().select(net, pool, 20, candidates=np.arange(0, N, 3)),
        QUERIES[query]().select(net, X[POOL], 20, candidates=np.arange(0, N, 3)),
    )


@pytest.mark.parametrize("query", ["BADGE", "k-center", "ACS-FW"])
def test_queries_that_keep_what_they_need_of_a_row_do_not_keep_the_rows(query, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "MOST_IN_MEMORY", 1)  # a warning otherwise, which is an error here
    monkeypatch.setattr("skactive.query._pool._MOST_IN_MEMORY", 1)  # what is kept is in a file, which is closed
    net = model("forest", True) if query == "ACS-FW" else model("net", True)
    found = QUERIES[query]().select(net, parquet(NUMBERS[POOL], tmp_path, 3), 10)
    np.testing.assert_array_equal(found, QUERIES[query]().select(net, NUMBERS[POOL].reset_index(drop=True), 10))


def test_a_pass_that_failed_begins_anew():
    parts = [X[:1], None]
    stream = containers.prepare_pool(blocks(lambda: parts))
    with pytest.raises(TypeError, match="block 1 is a NoneType"):
        containers.n_first(stream, None)
    parts[1] = X[1:9]
    assert sum(len(chunk) for chunk in containers.iter_chunks(stream, None, 4)) == 9
