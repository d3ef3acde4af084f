"""Reported cases that need an estimator: each is what a user of a neighbouring package tripped over, made small."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skactive import MCDropoutClassifier, StochasticBatchQuery, sample_posterior


def in_any_order(draws):
    """The draws sorted, for comparison as a set: which member comes first is nobody's promise."""
    draws = np.asarray(draws, dtype=float)
    return draws[np.lexsort(draws.reshape(len(draws), -1).round(12).T[::-1])]


# ----------------------------------------------------------------- a forest fitted on a DataFrame with string labels
# src-d/style-analyzer PR #88: trees use codes, the forest a mapping on top. scikit-learn #26140, #21599, PR #34301:
# asked directly, every tree warns about feature names (warnings are errors here).

ROWS = [
    [5.1, 0.2],
    [4.9, 0.1],
    [4.7, 0.3],
    [7.0, 1.4],
    [6.4, 1.5],
    [6.9, 1.3],
    [6.3, 2.5],
    [5.8, 1.9],
    [7.1, 2.1],
]
COLORS = ["red"] * 3 + ["blue"] * 3 + ["grey"] * 3
COLUMNS = ["length", "width"]
FLOWERS = pd.DataFrame([[5.6, 0.9], [6.5, 1.7], [5.0, 2.4]], columns=COLUMNS, index=[30, 10, 10])


def wrappers(forest):
    grid = {"max_depth": [None]}
    return {
        "alone": forest,
        "in a pipeline": make_pipeline("passthrough", forest),
        "in a search": GridSearchCV(forest, grid, cv=3),
        "in a search in a pipeline": make_pipeline("passthrough", GridSearchCV(forest, grid, cv=3)),
    }


@pytest.mark.parametrize("wrapper", ["alone", "in a pipeline", "in a search", "in a search in a pipeline"])
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_draws_of_a_forest_are_its_trees_in_the_order_of_its_classes(kind, wrapper, rng):
    forest = kind(7, random_state=0)
    estimator = wrappers(forest)[wrapper].fit(pd.DataFrame(ROWS, columns=COLUMNS), COLORS)
    draws = np.asarray(sample_posterior(estimator, 7, rng)(FLOWERS), dtype=float)
    fitted = estimator
    while not hasattr(fitted, "estimators_"):
        fitted = fitted[-1] if hasattr(fitted, "steps") else fitted.best_estimator_
    assert estimator.classes_.tolist() == ["blue", "grey", "red"]
    trees = [tree.predict_proba(FLOWERS.to_numpy(np.float32)) for tree in fitted.estimators_]
    np.testing.assert_allclose(in_any_order(draws), in_any_order(trees), rtol=0, atol=1e-7)
    np.testing.assert_allclose(draws.mean(axis=0), estimator.predict_proba(FLOWERS), rtol=0, atol=1e-7)


def test_indices_are_positions_whatever_the_index_of_the_frame(rng):
    learner = ActiveLearner(
        RandomForestClassifier(7, random_state=0),
        StochasticBatchQuery(sampler="softmax", random_state=0),
        X_training=pd.DataFrame(ROWS, columns=COLUMNS),
        y_training=np.array(COLORS),
    )
    indices, X_batch = learner.query(FLOWERS, n_instances=3)
    assert sorted(indices.tolist()) == [0, 1, 2]
    pd.testing.assert_frame_equal(X_batch, FLOWERS.iloc[indices])
    learner.teach(X_batch, np.array(["red", "blue", "grey"]))
    assert learner.X_training.shape == (12, 2)
    assert learner.X_training.columns.tolist() == COLUMNS


# --------------------------------------------------------------------------------------- a pipeline with a text column
# modAL-python/modAL PR #105: distances on strings failed, np.asarray made an object array of the raw pool.

TRAVEL = pd.DataFrame({"city": ["rome", "rome", "bern", "bern", "kiel", "kiel"], "n": [1, 2, 30, 28, 14, 16]})
STAYS = np.array([0, 0, 1, 1, 2, 2])
TRIPS = pd.DataFrame({"city": ["oslo", "rome", "bern", "kiel"], "n": [15, 29, 2, 15]}, index=[7, 7, 1, 0])


def travel_pipeline():
    columns = ColumnTransformer(
        [("c", OneHotEncoder(handle_unknown="ignore"), ["city"]), ("n", StandardScaler(), ["n"])]
    )
    return make_pipeline(columns, RandomForestClassifier(9, random_state=0))


def test_draws_of_a_pipeline_are_those_of_its_last_step_on_the_transformed_pool(rng):
    pipeline = travel_pipeline().fit(TRAVEL, STAYS)
    draws = np.asarray(sample_posterior(pipeline, 9, rng)(TRIPS), dtype=float)
    transformed = pipeline[:-1].transform(TRIPS)
    dense = np.asarray(transformed.todense() if sparse.issparse(transformed) else transformed, dtype=np.float32)
    trees = [tree.predict_proba(dense) for tree in pipeline[-1].estimators_]
    np.testing.assert_allclose(in_any_order(draws), in_any_order(trees), rtol=0, atol=1e-7)
    np.testing.assert_allclose(draws.mean(axis=0), pipeline.predict_proba(TRIPS), rtol=0, atol=1e-7)


def test_rows_of_a_raw_frame_are_handed_back_as_they_were():
    learner = ActiveLearner(
        travel_pipeline(), StochasticBatchQuery("entropy", random_state=0), X_training=TRAVEL, y_training=STAYS
    )
    indices, X_batch = learner.query(TRIPS, n_instances=3)
    pd.testing.assert_frame_equal(X_batch, TRIPS.iloc[indices])
    assert X_batch["n"].dtype == TRIPS["n"].dtype
    learner.teach(X_batch, np.array([0, 1, 2]))
    assert learner.X_training["city"].tolist() == [*TRAVEL["city"], *TRIPS["city"].iloc[indices]]
    assert learner.X_training["n"].dtype == TRAVEL["n"].dtype
    assert learner.y_training.tolist() == [0, 0, 1, 1, 2, 2, 0, 1, 2]


# ------------------------------------------------------------------------------------------- shapes that people teach
# modAL-python/modAL #15, #71, #115: concatenation failed deep inside, or stored a column that the next fit warned of.


def taught_learner(kind):
    rng = np.random.default_rng(0)
    estimator = {
        "forest": lambda: RandomForestClassifier(3, random_state=0),
        "net": lambda: MCDropoutClassifier((4,), max_epochs=1, random_state=0, device="cpu"),
    }[kind]()
    return ActiveLearner(
        estimator, StochasticBatchQuery(), X_training=rng.normal(size=(5, 3)), y_training=np.array([0, 1, 0, 1, 0])
    )


@pytest.mark.parametrize("kind", ["forest", "net"])
@pytest.mark.parametrize(("x_shape", "n_stored"), [((1, 3), 6), ((2, 3), 7)])
def test_rows_with_one_label_each_are_stored(kind, x_shape, n_stored):
    learner = taught_learner(kind)
    learner.teach(np.ones(x_shape), np.ones(x_shape[0], dtype=int))
    assert learner.X_training.shape == (n_stored, 3)
    assert learner.y_training.shape == (n_stored,)


@pytest.mark.parametrize("kind", ["forest", "net"])
@pytest.mark.parametrize(
    ("x_shape", "y_shape"),
    [((1, 3), (1, 1)), ((3,), (1,)), ((2, 3), (3,)), ((1, 4), (1,)), ((0, 3), (0,))],
    ids=["a column of labels", "a row without its axis", "three labels for two rows", "a column too many", "nothing"],
)
def test_other_shapes_are_refused_and_leave_the_training_data_as_they_were(kind, x_shape, y_shape):
    # Flattening the column of labels, and taking the bare row for one row, would be right as well.
    learner = taught_learner(kind)
    X_before, y_before = learner.X_training.copy(), learner.y_training.copy()
    try:
        learner.teach(np.ones(x_shape), np.ones(y_shape, dtype=int))
    except ValueError:
        np.testing.assert_array_equal(learner.X_training, X_before)
        np.testing.assert_array_equal(learner.y_training, y_before)
    else:
        assert (x_shape, y_shape) in [((1, 3), (1, 1)), ((3,), (1,)), ((0, 3), (0,))]
        n_stored = 5 + (x_shape != (0, 3))
        assert learner.X_training.shape == (n_stored, 3)
        assert learner.y_training.shape == (n_stored,)


@pytest.mark.filterwarnings("ignore:.*positive score:UserWarning")  # so small a forest may be sure of all eight rows
def test_one_queried_row_can_be_taught_at_once():
    learner = taught_learner("forest")
    for _ in range(3):
        indices, X_batch = learner.query(np.random.default_rng(1).normal(size=(8, 3)), n_instances=1)
        learner.teach(X_batch, np.zeros(8, dtype=int)[indices])
    assert learner.X_training.shape == (8, 3)
    assert learner.y_training.shape == (8,)


# ------------------------------------------------------------------------------------ the same numbers in other dtypes
# skorch-dev/skorch #518, #758, #824: "expected Float but found Double". All are exactly representable in float16.

BASE = np.array([[0.5, -1.25, 2.0], [1.0, 0.0, -0.75], [3.5, 2.25, -2.0], [0.0, 4.0, 1.5]])
VARIANTS = {
    "float64": BASE,
    "float32": BASE.astype(np.float32),
    "float16": BASE.astype(np.float16),
    "object": BASE.astype(object),
    "Fortran order": np.asfortranarray(BASE),
    "strided": np.repeat(BASE, 2, axis=0)[::2],
    "negative strides": BASE[::-1].copy()[::-1],
    "list": BASE.tolist(),
    "big-endian": BASE.astype(">f8"),
    "frame": pd.DataFrame(BASE),
    "csr": sparse.csr_matrix(BASE),
}


@pytest.fixture(scope="module")
def small_net():
    X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    net = MCDropoutClassifier((16,), max_epochs=20, n_draws=10, random_state=0, device="cpu")
    return net.fit(X, np.where(X[:, 0] > 0, "right", "left"))


@pytest.mark.parametrize("variant", [key for key in VARIANTS if key not in ("frame", "csr")])
def test_a_net_answers_the_same_for_the_same_numbers(variant, small_net):
    np.testing.assert_allclose(
        small_net.predict_proba(VARIANTS[variant]), small_net.predict_proba(BASE.astype(np.float32)), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("variant", [key for key in VARIANTS if key not in ("frame", "csr")])
def test_a_query_scores_the_same_numbers_alike(variant, small_net):
    scores = []
    for X in (VARIANTS[variant], BASE.astype(np.float32)):
        query = StochasticBatchQuery(random_state=0)
        query.select(small_net, X, 2)
        scores.append(query.scores_)
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-6)


@pytest.mark.parametrize("variant", [key for key in VARIANTS if key != "frame"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_forest_answers_the_same_for_the_same_numbers_in_a_query(variant, wrapped):
    X = np.random.default_rng(0).normal(size=(30, 3))
    forest = RandomForestClassifier(10, random_state=0)
    scaler = StandardScaler(with_mean=False)
    estimator = (make_pipeline(scaler, forest) if wrapped else forest).fit(X, np.where(X[:, 0] > 0, "right", "left"))
    scores = []
    for pool in (VARIANTS[variant], BASE):
        query = StochasticBatchQuery(sampler="softrank", random_state=0)
        scores.append((query.select(estimator, pool, 2), query.scores_))
    np.testing.assert_array_equal(scores[0][0], scores[1][0])
    np.testing.assert_allclose(scores[0][1], scores[1][1], rtol=0, atol=1e-12)


def test_a_net_answers_the_same_for_integers(small_net):
    X = np.array([[1, -2, 3], [0, 4, 5]])
    np.testing.assert_allclose(
        small_net.predict_proba(X), small_net.predict_proba(X.astype(np.float32)), rtol=0, atol=1e-6
    )


def test_a_net_refuses_text(small_net):
    text = np.array([["1.0", "x", "2"]], dtype=object)
    with pytest.raises((ValueError, TypeError)):
        small_net.predict_proba(text)
    with pytest.raises((ValueError, TypeError)):
        StochasticBatchQuery().select(small_net, text, 1)


# --------------------------------------------------------------------------------------------------------- sparse pools
# modAL-python/modAL PR #105: len() of a csr matrix raises, so that strategies failed for sparse pools alone.


def bag_of_words():
    rng = np.random.RandomState(0)
    counts = rng.poisson(0.3, size=(40, 12)).astype(float)
    counts[5] = 0
    return counts, (counts[:, 0] + counts[:, 1] > counts[:, 2] + counts[:, 3]).astype(int)


@pytest.mark.parametrize(
    "container", [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_matrix]
)
@pytest.mark.parametrize("chunk_size", [None, 7])
def test_a_sparse_pool_gives_the_batch_of_the_dense_one(container, chunk_size):
    counts, y = bag_of_words()
    forest = RandomForestClassifier(6, random_state=0).fit(sparse.csr_matrix(counts), y)
    found = []
    for pool in (counts, container(counts)):
        query = StochasticBatchQuery(chunk_size=chunk_size, random_state=0)
        found.append((query.select(forest, pool, 5), query.scores_))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array])
def test_rows_of_a_sparse_pool_are_handed_back_sparse(container):
    counts, y = bag_of_words()
    learner = ActiveLearner(
        RandomForestClassifier(6, random_state=0),
        StochasticBatchQuery(random_state=0),
        X_training=container(counts),
        y_training=y,
    )
    indices, X_batch = learner.query(container(counts), n_instances=5)
    assert sparse.issparse(X_batch)
    np.testing.assert_array_equal(X_batch.toarray(), counts[indices])


def test_a_large_sparse_pool_is_never_made_dense():
    # 100,000 × 5,000 would take 4 GB as float64; the csr matrix takes 2 MB.
    rng = np.random.default_rng(0)
    columns = rng.integers(5000, size=100_000).astype(np.int32)
    pool = sparse.csr_matrix((rng.random(100_000), columns, np.arange(100_001)), shape=(100_000, 5000))
    forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(pool[:100], np.arange(100) % 2)
    tracemalloc.start()
    indices = StochasticBatchQuery("entropy", "softmax", random_state=0).select(forest, pool, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(set(indices.tolist())) == 4
    assert peak < 200e6


# ------------------------------------------------------------------------------------------------------ multi-output
# modAL-python/modAL #193, #185: predict_proba is a list of arrays; np.asarray of it has the targets for rows.


@pytest.mark.parametrize("n_rows", [7, 2])
def test_a_forest_of_two_targets_is_refused_by_its_outputs(n_rows, rng):
    random = np.random.RandomState(0)
    X = random.rand(20, 3)
    forest = RandomForestClassifier(5, random_state=0).fit(X, (X[:, :2] > 0.5).astype(int))
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=r"(?i)output"):
        StochasticBatchQuery().select(forest, X[:n_rows], 1)
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=r"(?i)output"):
        sample_posterior(forest, 5, rng)(X[:n_rows])


# ------------------------------------------------------------------------------------------- a read-only memory map
# scikit-learn #5956; joblib #1627; modAL-python/modAL #145. Torch warns about arrays it may not write to: warnings are
# errors here.


@pytest.fixture
def memory_map(tmp_path):
    path = tmp_path / "pool.f32"
    np.random.default_rng(0).normal(size=(5000, 20)).astype(np.float32).tofile(path)
    return np.memmap(path, dtype=np.float32, mode="r", shape=(5000, 20))


@pytest.mark.parametrize("kind", ["forest", "net"])
def test_a_memory_map_gives_the_batch_of_the_array(kind, memory_map):
    X = np.array(memory_map[:60])
    y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
    estimator = {
        "forest": RandomForestClassifier(10, random_state=0),
        "net": MCDropoutClassifier((8,), max_epochs=2, random_state=0, device="cpu"),
    }[kind].fit(X, y)
    found = []
    for pool in (memory_map, np.array(memory_map)):
        query = StochasticBatchQuery(n_draws=10, random_state=0)
        found.append((query.select(estimator, pool, 20), query.scores_))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=0, atol=1e-7)


def test_rows_of_a_memory_map_are_handed_back_as_ordinary_arrays(memory_map):
    X = np.array(memory_map[:60])
    learner = ActiveLearner(
        RandomForestClassifier(10, random_state=0),
        StochasticBatchQuery(random_state=0),
        X_training=X,
        y_training=np.where(X[:, 0] > 0, 1, 0),
    )
    indices, X_batch = learner.query(memory_map, n_instances=4)
    assert type(X_batch) is np.ndarray
    X_batch[:] = 0
    np.testing.assert_array_equal(memory_map[:60], X)
    assert indices.shape == (4,)
