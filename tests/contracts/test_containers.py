"""What every kind of container keeps to: rows by position, without copies, and columns."""

import tempfile

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
from scipy import sparse
from sklearn import config_context
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skorch.helper import SliceDict

import skactive
from skactive import StochasticBatchQuery
from skactive import _containers as chunks
from skactive._containers import KINDS, ArrowReader, Dicts, Others, Streams

X = np.arange(21.0).reshape(7, 3)
CONTAINERS = {
    "array": X,
    "fortran": np.asfortranarray(X),
    "list": X.tolist(),
    "tuple": tuple(map(tuple, X)),
    "frame": pd.DataFrame(X, index=[3, 1, 1, 0, 9, 9, 9]),
    "csr": sparse.csr_matrix(X),
    "csc": sparse.csc_array(X),
    "coo": sparse.coo_matrix(X),
    "dia": sparse.dia_matrix(X),
    "tensor": torch.from_numpy(X),
}


class Items(torch.utils.data.Dataset):
    """Rows that are read one by one, as from files of images."""

    def __init__(self, rows, labels=None):
        self.rows, self.labels = torch.from_numpy(np.asarray(rows)), labels

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i] if self.labels is None else (self.rows[i], self.labels[i])


def parquet(rows, folder, n_files=1, rows_per_group=2):
    for i, part in enumerate(np.array_split(np.asarray(rows), n_files)):
        table = pyarrow.table({name: part[:, j] for j, name in enumerate("abc")})
        pyarrow.parquet.write_table(table, f"{folder}/{i}.parquet", row_group_size=rows_per_group)
    return pyarrow.dataset.dataset(str(folder))


FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
FOLDER = tempfile.TemporaryDirectory()
READ_IN_BLOCKS = {
    "dask": dask.array.from_array(X, chunks=2),
    "dask of unknown chunks": dask.array.from_array(X, chunks=2)[dask.array.from_array(X[:, 0] > -1, chunks=2)],
    "dask frame": dask.dataframe.from_pandas(FRAME, npartitions=3),
    "Parquet": parquet(X, FOLDER.name, 2),
    "filtered Parquet": pyarrow.dataset.dataset(FOLDER.name).filter(pyarrow.dataset.field("a") > -1),
    "dataset in memory": pyarrow.dataset.dataset(pyarrow.table(FRAME)),
    "lazy polars": polars.from_pandas(FRAME).lazy(),
    "blocks": skactive.blocks([X[:3], X[3:4], X[4:4], X[4:]]),
    "blocks of frames": skactive.blocks(lambda: (FRAME[i : i + 3] for i in range(0, 7, 3))),
    "blocks of sparse rows": skactive.blocks([sparse.csr_array(X[:5]), sparse.csr_array(X[5:])]),
    "torch dataset": Items(X),
    "torch dataset of pairs": Items(X, np.zeros(7)),
    "torch loader": torch.utils.data.DataLoader(Items(X, np.zeros(7)), batch_size=3),
}
CONTAINERS |= READ_IN_BLOCKS | {
    "polars": polars.DataFrame(X, schema=["a", "b", "c"]),
    "Arrow": pyarrow.table(FRAME),
    "tensor dataset": torch.utils.data.TensorDataset(torch.from_numpy(X), torch.zeros(7)),
}


def dense(chunk):
    return chunk.toarray() if sparse.issparse(chunk) else np.asarray(chunk, dtype=float)


def test_every_kind_of_container_has_an_example_here():
    known = {chunks.kind_of(X) for X in CONTAINERS.values()}
    others = {kind for kind in KINDS if isinstance(kind, Others | Dicts | Streams)}
    assert known == set(KINDS) - others - {kind for kind in KINDS if getattr(kind, "source", None) is ArrowReader}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_chunks_in_order_are_the_pool(name, size):
    pool = chunks.prepare_pool(CONTAINERS[name])
    parts = [dense(part) for part in chunks.iter_chunks(pool, None, size)]
    assert [len(p) for p in parts] == [min(size, 7 - start) for start in range(0, 7, size)]
    np.testing.assert_array_equal(np.concatenate(parts), X)


@pytest.mark.parametrize("name", CONTAINERS)
def test_rows_are_taken_by_position_never_by_label(name):
    pool = chunks.prepare_pool(CONTAINERS[name])
    rows = np.array([6, 0, 3])
    np.testing.assert_array_equal(dense(chunks.take_rows(pool, rows)), X[rows])
    np.testing.assert_array_equal(np.concatenate([dense(c) for c in chunks.iter_chunks(pool, rows, 2)]), X[rows])


@pytest.mark.parametrize("name", CONTAINERS)
def test_counts(name):
    pool = chunks.prepare_pool(CONTAINERS[name])
    assert (chunks.count_rows(pool), chunks.count_columns(pool)) == (7, 3)


@pytest.mark.parametrize("name", CONTAINERS)
def test_columns_are_read_set_and_left_out_in_copies_of_a_chunk(name):
    chunk = chunks.take_rows(chunks.prepare_pool(CONTAINERS[name]), np.arange(7))
    before = dense(chunk).copy()
    np.testing.assert_array_equal(chunks.take_column(chunk, 1), X[:, 1])
    np.testing.assert_array_equal(
        dense(chunks.set_column(chunk, 1, 5)), np.column_stack([X[:, 0], np.full(7, 5), X[:, 2]])
    )
    np.testing.assert_array_equal(dense(chunks.drop_column(chunk, 1)), X[:, [0, 2]])
    np.testing.assert_array_equal(dense(chunk), before)


@pytest.mark.parametrize("name", CONTAINERS)
def test_equal_rows_have_equal_keys_and_others_do_not(name):
    chunk = chunks.take_rows(chunks.prepare_pool(CONTAINERS[name]), np.array([0, 1, 0, 6]))
    first, second, again, last = chunks.row_keys(chunk)
    assert first == again
    assert len({first, second, last}) == 3


# --- rows by value ----------------------------------------------------------------------------------

VALUES = np.array([[0.0, 1.0, -3.0], [2.0**50, 0.0, 7.0], [5.0, 5.0, 0.0]])  # that integers have, too
OF_ANY_TYPE = {
    **{f"array of {dtype}": VALUES.astype(dtype) for dtype in ("f4", "f8", "i8", "g", "O", ">f8")},
    "-0.0": np.where(VALUES == 0, -0.0, VALUES),
    "array of the rows' axes": VALUES.reshape(3, 3, 1),
    "list": VALUES.tolist(),
    "list of arrays": [*VALUES.astype(np.float32)],
    "tuple of integers": tuple(tuple(int(v) for v in row) for row in VALUES),
    "list of nested lists": VALUES.reshape(3, 3, 1).tolist(),
    "tensor": torch.from_numpy(VALUES).float(),
    "sparse": sparse.csr_array(VALUES),
    "sparse of integers": sparse.csr_matrix(VALUES.astype(np.int64)),
    "sparse with zeros that are written down": sparse.csr_array(
        (VALUES.ravel()[::-1], np.tile([2, 1, 0], 3), [0, 3, 6, 9]), shape=(3, 3)
    )[[2, 1, 0]],
    **{
        f"frame of {dtype}": pd.DataFrame(VALUES).astype(dtype)
        for dtype in ("f4", "i8", "O", "Int64", "int64[pyarrow]")
    },
    "frame of categories": pd.DataFrame(VALUES).astype("category"),
    "frame of several types": pd.DataFrame(VALUES).astype({0: "i8", 1: "f4", 2: "Float64"}),
}


@pytest.mark.parametrize("name", OF_ANY_TYPE)
def test_rows_of_equal_values_have_equal_keys_in_any_type_and_container(name):
    assert chunks.row_keys(OF_ANY_TYPE[name]) == chunks.row_keys(VALUES)


def test_gaps_are_equal_to_one_another_and_to_nothing_else():
    gaps = np.array([[np.nan, 1.0], [0.0, np.nan]])
    negative = np.copysign(gaps, -1) * np.array([[1, -1], [1, 1]])
    for same in (
        gaps.astype(np.float32),
        negative,
        pd.DataFrame(gaps),
        pd.DataFrame(gaps).astype("Float64"),
        pd.DataFrame(gaps).astype("double[pyarrow]"),
        np.array([[None, 1], [0, pd.NA]], dtype=object),
        [[None, 1], [0, float("nan")]],
        sparse.csr_array(gaps),
    ):
        assert chunks.row_keys(same) == chunks.row_keys(gaps)
    assert not set(chunks.row_keys(gaps)) & set(chunks.row_keys(np.nan_to_num(gaps)))


@pytest.mark.parametrize(
    "rows",
    [
        ["1", 1, "a", None, ""],
        [[1, 23], [12, 3], [1, 2, 3], [1], [1, 0]],
        [[[1, 2], [3]], [[1], [2, 3]], [[1, 2, 3]]],
        [[2**62], [2**62 + 1], [2**62 - 1]],
        np.array([2**62, 2**62 + 1, 2**62 - 1]),
        pd.DataFrame({"id": [2**62, 2**62 + 1, 2**62 - 1]}),
        np.array(["a", "ab", "b"]),
        np.array(["2020-01-01", "2020-01-02", "NaT"], dtype="M8[ns]"),
        pd.DataFrame({"a": ["x", "x", None], "b": [1.0, 2.0, 1.0]}),
        [{"text": "a"}, {"text": "b"}, {"name": "a"}],
        [b"a", b"b"],
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_of_other_values_have_other_keys(rows):
    assert len(set(chunks.row_keys(rows))) == len(rows)
    again = chunks.take_rows(rows, np.arange(len(rows)))
    assert chunks.row_keys(again) == chunks.row_keys(rows)


def test_texts_have_one_key_in_every_container():
    texts = ["a", "b", None]
    for same in (pd.Series(texts), pd.Series(texts, dtype=object), pd.Series(texts).array, tuple(texts)):
        assert chunks.row_keys(same) == chunks.row_keys(texts)


def test_rows_of_arrays_by_name_are_those_of_all_arrays():
    pool = SliceDict(ids=np.array([[1, 2], [1, 2], [1, 3]]), mask=np.array([[1, 1], [1, 0], [1, 1]]))
    assert len(set(chunks.row_keys(pool))) == 3
    assert chunks.row_keys(pool[np.array([2, 0])]) == [chunks.row_keys(pool)[i] for i in (2, 0)]
    both = chunks.join_rows(pool, pool)
    assert (type(both), chunks.row_keys(both)) == (SliceDict, 2 * chunks.row_keys(pool))


def test_a_list_of_texts_has_no_columns():
    assert chunks.count_columns(["a", "bc"]) is None


def test_dask_arrays_are_read_chunk_by_chunk():
    da = pytest.importorskip("dask.array", reason="dask is an extra")
    pool = chunks.prepare_pool(da.from_array(X, chunks=(2, 3)))
    np.testing.assert_array_equal(np.concatenate(list(chunks.iter_chunks(pool, None, 4))), X)
    unknown = chunks.prepare_pool(da.from_array(X, chunks=(2, 3))[da.from_array(X[:, 0] > 5, chunks=2)])
    assert chunks.is_open(unknown)
    assert chunks.count_rows(unknown) == 5


def test_a_pool_of_dask_is_not_changed():
    whole = dask.array.from_array(X, chunks=(2, 3))
    unknown = whole[dask.array.from_array(X[:, 0] > 5, chunks=2)]
    before = unknown.chunks
    query = StochasticBatchQuery("entropy", posterior="bootstrap", n_draws=2, beta=0, random_state=0)
    query.select(
        RandomForestClassifier(2).fit(X, X[:, 0] > 5), unknown, 2, X_training=unknown, y_training=np.arange(5) % 2
    )
    assert np.isnan(before[0]).all()
    np.testing.assert_array_equal(unknown.chunks[0], before[0])


def test_chunks_of_arrays_and_memory_maps_are_views():
    for part in chunks.iter_chunks(X, None, 3):
        assert np.shares_memory(part, X)


def test_rows_per_chunk_follow_working_memory_up_to_64_mib():
    wide = np.zeros((2, 128), dtype=np.float32)  # 512 bytes a row
    with config_context(working_memory=1):
        assert chunks.rows_per_chunk(wide, 192) == 2**20 // (8 * 192 + 512)
    with config_context(working_memory=10_000):
        assert chunks.rows_per_chunk(wide, 192) == 64 * 2**20 // (8 * 192 + 512)
    assert chunks.rows_per_chunk(wide, 10**9) == 1


TEXTS = [f"{i}.png" for i in range(5)]


@pytest.mark.parametrize(
    "pool",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        pd.Series(TEXTS),
        pd.DataFrame({"path": TEXTS}),
        [{"text": text} for text in TEXTS],
        [[text, text] for text in TEXTS],
    ],
    ids=lambda pool: type(pool).__name__,
)
def test_a_chunk_of_texts_or_objects_is_some_thousand_rows_whatever_they_become(pool):
    assert chunks.rows_per_chunk(pool, 200) == 2048
    with config_context(working_memory=1):
        assert chunks.rows_per_chunk(pool, 200) == 2**20 // (8 * 200 + 8)


@pytest.mark.parametrize(
    ("pool", "n_bytes"),
    [
        ([[1.0, 2.0]] * 3, 16),
        ([[1.0, "red"]] * 3, 16),
        ([np.zeros((3, 4), np.float32)] * 3, 48),
        (np.array([[1, "red"], [2, "blue"]], dtype=object), 16),
        (np.array([np.zeros(6), np.zeros(7)], dtype=object), 48),
        (pd.DataFrame({"a": [1.0, 2.0], "b": ["red", "blue"]}), 16),
        (pd.DataFrame({"a": pd.Categorical(["red", "blue"])}), 8),
        (torch.zeros(3, 5, dtype=torch.float16), 10),
        ([], 8),
    ],
)
def test_a_text_beside_numbers_is_a_column_of_a_table(pool, n_bytes):
    with config_context(working_memory=10):
        assert chunks.rows_per_chunk(pool, 100) == 10 * 2**20 // (800 + n_bytes)


def test_arrays_by_name_count_with_all_their_arrays():
    pool = SliceDict(ids=np.zeros((9, 100), np.int64), mask=np.zeros((9, 100), np.int8))
    with config_context(working_memory=10):
        assert chunks.rows_per_chunk(pool, 100) == 10 * 2**20 // (800 + 900)
        assert chunks.rows_per_chunk(SliceDict(text=np.array(TEXTS, dtype=object)), 1) == 2048


def test_a_pipeline_that_reads_files_reads_few_at_a_time():
    seen = []

    def read(names):
        seen.append(len(names))
        return np.array([[len(name), int(name)] for name in names], dtype=float)

    names = [str(i) for i in range(5000)]
    model = make_pipeline(FunctionTransformer(read), RandomForestClassifier(5, random_state=0))
    model.fit(names[:50], np.arange(50) % 3)
    seen.clear()
    StochasticBatchQuery(random_state=0).select(model, names, 3)
    assert seen == [1, 2, 1, 2048, 2048, 904]


@pytest.mark.parametrize("score", ["bald", "margin"])
@pytest.mark.parametrize("diversity", [0.0, 1.0])
def test_a_chunk_is_bounded_by_what_the_steps_of_a_pipeline_make_of_it(score, diversity):
    seen = []

    def read(names):
        seen.append(len(names))
        return np.zeros((len(names), 150_528), dtype=np.float32) + [[int(name) % 7] for name in names]

    def shrunk(images):
        return images[:, :3]

    names = [str(i) for i in range(400)]
    steps = [FunctionTransformer(read), FunctionTransformer(shrunk)]
    model = make_pipeline(*steps, RandomForestClassifier(5, random_state=0)).fit(names[:50], np.arange(50) % 3)
    seen.clear()
    query = StochasticBatchQuery(score, diversity=diversity, random_state=0)
    query.select(model, names, 3)
    assert max(seen) <= 2**26 / (4 * 150_528)  # 64 MiB of images


@pytest.mark.parametrize("size", [1, 3, 7, 20, 100])
def test_a_block_of_dask_is_computed_once_for_all_its_chunks(size):
    rows = np.arange(60.0).reshape(20, 3)
    computed = []

    def watched(block):
        computed.append(len(block))
        return block

    lazy = dask.array.from_array(rows, chunks=(8, 3)).map_blocks(watched, meta=np.empty((0, 3)))
    parts = list(chunks.iter_chunks(chunks.prepare_pool(lazy), None, size))
    np.testing.assert_array_equal(np.concatenate(parts), rows)
    assert [len(part) for part in parts] == [min(size, 20 - start) for start in range(0, 20, size)]
    assert sorted(n for n in computed if n) == [4, 8, 8]


def test_integers_that_float64_cannot_tell_apart_have_their_own_keys():
    frame = pd.DataFrame({"a": [2**53, 2**53 + 1]})
    assert len(set(chunks.row_keys(frame))) == len(set(chunks.row_keys(frame.to_numpy()))) == 2
