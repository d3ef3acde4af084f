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
from skactive._containers import KINDS, Dicts, Others, Streams

X = np.arange(21.0).reshape(7, 3)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
FOLDER = tempfile.TemporaryDirectory()


class Items(torch.utils.data.Dataset):
    """Rows that are read one by one, as from files of images."""

    def __init__(self, rows, labels=None):
        self.rows, self.labels = torch.from_numpy(np.asarray(rows)), labels

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i] if self.labels is None else (self.rows[i], self.labels[i])


class Stored:
    """Rows that are given in rising order, each once, as h5py gives them."""

    shape, ndim, dtype, __array__ = X.shape, 2, X.dtype, X.__array__

    def __len__(self):
        return len(X)

    def __getitem__(self, rows):
        assert isinstance(rows, slice) or (np.diff(rows) > 0).all()
        return X[rows]


def parquet(folder):
    for i, part in enumerate(np.array_split(X, 2)):
        table = pyarrow.table({name: part[:, j] for j, name in enumerate("abc")})
        pyarrow.parquet.write_table(table, f"{folder}/{i}.parquet", row_group_size=2)
    return pyarrow.dataset.dataset(str(folder))


CONTAINERS = {
    "array": X,
    "stored": Stored(),
    "list": X.tolist(),
    "tuple": tuple(map(tuple, X)),
    "frame": pd.DataFrame(X, index=[3, 1, 1, 0, 9, 9, 9]),
    "csc": sparse.csc_array(X),
    "dia": sparse.dia_matrix(X),
    "tensor": torch.from_numpy(X),
    "polars": polars.DataFrame(X, schema=["a", "b", "c"]),
    "Arrow": pyarrow.table(FRAME),
    "tensor dataset": torch.utils.data.TensorDataset(torch.from_numpy(X), torch.zeros(7)),
    "dask": dask.array.from_array(X, chunks=2),
    "dask of unknown chunks": dask.array.from_array(X, chunks=2)[dask.array.from_array(X[:, 0] > -1, chunks=2)],
    "dask frame": dask.dataframe.from_pandas(FRAME, npartitions=3),
    "Parquet": parquet(FOLDER.name),
    "filtered Parquet": pyarrow.dataset.dataset(FOLDER.name).filter(pyarrow.dataset.field("a") > -1),
    "dataset in memory": pyarrow.dataset.dataset(pyarrow.table(FRAME)),
    "lazy polars": polars.from_pandas(FRAME).lazy(),
    "blocks": skactive.blocks([X[:3], X[3:4], X[4:4], X[4:]]),
    "blocks of frames": skactive.blocks(lambda: (FRAME[i : i + 3] for i in range(0, 7, 3))),
    "blocks of sparse rows": skactive.blocks([sparse.csr_array(X[:5]), sparse.csr_array(X[5:])]),
    "torch dataset of pairs": Items(X, np.zeros(7)),
    "torch loader": torch.utils.data.DataLoader(Items(X), batch_size=3),
}


def dense(chunk):
    return chunk.toarray() if sparse.issparse(chunk) else np.asarray(chunk, dtype=float)


def test_every_kind_of_container_has_an_example_here():
    known = {chunks.kind_of(X) for X in CONTAINERS.values()}
    others = {kind for kind in KINDS if isinstance(kind, Others | Dicts | Streams)}
    assert known == set(KINDS) - others


@pytest.mark.parametrize("name", CONTAINERS)
def test_rows_go_by_position_in_chunks_of_any_size(name):
    pool = chunks.prepare_pool(CONTAINERS[name])
    for size in (1, 3, 100):
        parts = [dense(part) for part in chunks.iter_chunks(pool, None, size)]
        assert [len(p) for p in parts] == [min(size, 7 - start) for start in range(0, 7, size)]
        np.testing.assert_array_equal(np.concatenate(parts), X)
    assert (chunks.count_rows(pool), chunks.count_columns(pool)) == (7, 3)
    rows = np.array([6, 0, 3])
    np.testing.assert_array_equal(dense(chunks.take_rows(pool, rows)), X[rows])
    np.testing.assert_array_equal(np.concatenate([dense(c) for c in chunks.iter_chunks(pool, rows, 2)]), X[rows])


@pytest.mark.parametrize("name", CONTAINERS)
def test_columns_are_read_set_and_left_out_in_copies_of_a_chunk_and_equal_rows_have_equal_keys(name):
    chunk = chunks.take_rows(chunks.prepare_pool(CONTAINERS[name]), np.arange(7))
    before = dense(chunk).copy()
    np.testing.assert_array_equal(chunks.take_column(chunk, 1), X[:, 1])
    fives = np.column_stack([X[:, 0], np.full(7, 5), X[:, 2]])
    np.testing.assert_array_equal(dense(chunks.set_column(chunk, 1, 5)), fives)
    np.testing.assert_array_equal(dense(chunks.drop_column(chunk, 1)), X[:, [0, 2]])
    np.testing.assert_array_equal(dense(chunk), before)
    first, second, again, last = chunks.row_keys(chunks.take_rows(chunk, np.array([0, 1, 0, 6])))
    assert first == again
    assert len({first, second, last}) == 3


def test_chunks_of_an_array_are_views_and_a_list_of_texts_has_no_columns():
    assert all(np.shares_memory(part, X) for part in chunks.iter_chunks(X, None, 3))
    assert chunks.count_columns(["a", "bc"]) is None


VALUES = np.array([[0.0, 1.0, -3.0], [2.0**50, 0.0, 7.0], [5.0, 5.0, 0.0]])  # that integers have, too
WRITTEN_ZEROS = sparse.csr_array((VALUES.ravel()[::-1], np.tile([2, 1, 0], 3), [0, 3, 6, 9]), shape=(3, 3))[[2, 1, 0]]
OF_ANY_TYPE = {
    **{f"array of {dtype}": VALUES.astype(dtype) for dtype in ("f4", "i8", "g", "O", ">f8")},
    "-0.0": np.where(VALUES == 0, -0.0, VALUES),
    "list of arrays": [*VALUES.astype(np.float32)],
    "tuple of integers": tuple(tuple(int(v) for v in row) for row in VALUES),
    "list of nested lists": VALUES.reshape(3, 3, 1).tolist(),
    "tensor": torch.from_numpy(VALUES).float(),
    "sparse of integers": sparse.csr_matrix(VALUES.astype(np.int64)),
    "sparse with zeros that are written down": WRITTEN_ZEROS,
    **{f"frame of {d}": pd.DataFrame(VALUES).astype(d) for d in ("O", "Int64", "int64[pyarrow]", "category")},
    "frame of several types": pd.DataFrame(VALUES).astype({0: "i8", 1: "f4", 2: "Float64"}),
}


def test_rows_of_equal_values_have_equal_keys_in_any_type_and_container():
    for name, rows in OF_ANY_TYPE.items():
        assert chunks.row_keys(rows) == chunks.row_keys(VALUES), name
    texts = ["a", "b", None]
    for same in (pd.Series(texts), pd.Series(texts, dtype=object), pd.Series(texts).array, tuple(texts)):
        assert chunks.row_keys(same) == chunks.row_keys(texts)


def test_gaps_are_equal_to_one_another_and_to_nothing_else():
    gaps = np.array([[np.nan, 1.0], [0.0, np.nan]])
    for same in (
        np.copysign(gaps, [[-1, 1], [1, -1]]).astype(np.float32),
        pd.DataFrame(gaps).astype("Float64"),
        pd.DataFrame(gaps).astype("double[pyarrow]"),
        np.array([[None, 1], [0, pd.NA]], dtype=object),
        [[None, 1], [0, float("nan")]],
        sparse.csr_array(gaps),
    ):
        assert chunks.row_keys(same) == chunks.row_keys(gaps)
    assert not set(chunks.row_keys(gaps)) & set(chunks.row_keys(np.nan_to_num(gaps)))


def test_rows_of_other_values_have_other_keys():
    for rows in [
        ["1", 1, "a", None, ""],
        [[1, 23], [12, 3], [1, 2, 3], [1], [1, 0]],
        [[[1, 2], [3]], [[1], [2, 3]], [[1, 2, 3]]],
        [[2**62], [2**62 + 1], [2**62 - 1]],
        np.array([2**62, 2**62 + 1, 2**62 - 1]),
        pd.DataFrame({"a": [2**53, 2**53 + 1]}),
        np.array(["2020-01-01", "2020-01-02", "NaT"], dtype="M8[ns]"),
        pd.DataFrame({"a": ["x", "x", None], "b": [1.0, 2.0, 1.0]}),
        [{"text": "a"}, {"text": "b"}, {"name": "a"}],
        [b"a", b"b"],
    ]:
        assert len(set(chunks.row_keys(rows))) == len(rows), rows
        assert chunks.row_keys(chunks.take_rows(rows, np.arange(len(rows)))) == chunks.row_keys(rows), rows


def test_rows_of_arrays_by_name_are_those_of_all_arrays():
    pool = SliceDict(ids=np.array([[1, 2], [1, 2], [1, 3]]), mask=np.array([[1, 1], [1, 0], [1, 1]]))
    assert len(set(chunks.row_keys(pool))) == 3
    assert chunks.row_keys(pool[np.array([2, 0])]) == [chunks.row_keys(pool)[i] for i in (2, 0)]
    both = chunks.join_rows(pool, pool)
    assert (type(both), chunks.row_keys(both)) == (SliceDict, 2 * chunks.row_keys(pool))


def test_rows_per_chunk_follow_working_memory_up_to_64_mib_and_texts_are_some_thousand():
    wide = np.zeros((2, 128), dtype=np.float32)  # 512 bytes a row
    for working_memory, mib in [(1, 1), (10_000, 64)]:
        with config_context(working_memory=working_memory):
            assert chunks.rows_per_chunk(wide, 192) == mib * 2**20 // (8 * 192 + 512)
            assert chunks.rows_per_chunk([[1.0, "red"]] * 3, 192) == mib * 2**20 // (8 * 192 + 16)
    assert chunks.rows_per_chunk(wide, 10**9) == 1
    for texts in (["a.png"], np.array(["a.png"]), pd.DataFrame({"path": ["a.png"]}), [{"text": "a"}]):
        assert chunks.rows_per_chunk(texts, 200) == 2048, texts


def test_a_chunk_is_bounded_by_what_the_steps_of_a_pipeline_make_of_it():
    seen = []

    def read(names):
        seen.append(len(names))
        return np.zeros((len(names), 150_528), dtype=np.float32) + [[int(name) % 7] for name in names]

    names = [str(i) for i in range(200)]
    steps = [FunctionTransformer(read), FunctionTransformer(lambda images: images[:, :3])]
    model = make_pipeline(*steps, RandomForestClassifier(5, random_state=0)).fit(names[:50], np.arange(50) % 3)
    seen.clear()
    StochasticBatchQuery("margin", diversity=1.0, random_state=0).select(model, names, 3)
    assert max(seen) <= 2**26 / (4 * 150_528)  # 64 MiB of images


def test_a_pool_of_dask_is_not_changed():
    whole = dask.array.from_array(X, chunks=(2, 3))
    unknown = whole[dask.array.from_array(X[:, 0] > 5, chunks=2)]
    query = StochasticBatchQuery("entropy", posterior="bootstrap", n_draws=2, beta=0, random_state=0)
    forest = RandomForestClassifier(2).fit(X, X[:, 0] > 5)
    query.select(forest, unknown, 2, X_training=unknown, y_training=np.arange(5) % 2)
    assert np.isnan(unknown.chunks[0]).all()
