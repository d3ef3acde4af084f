"""Every container at every entry point: what one takes, all take, with the same batch; what one refuses, all do."""

from __future__ import annotations

import functools

import dask.array
import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from skactive import StochasticBatchQuery, run_experiment
from skactive.causal import estimate_effects, predict_effects
from skactive.query import score_pool
from skactive.risk import ActiveTester
from skactive.stopping import StoppingReport

N, FIRST = 60, 20
rng = np.random.default_rng(0)
TABLE = rng.integers(-8, 8, (N, 3)) / 4  # numbers that every type of float has
TABLE[:, 2] = np.arange(N) % 2
LABELS = (TABLE[:, 0] + rng.normal(size=N) > 0).astype(int)
WORDS = ["ash", "elm", "oak", "fir"]
TEXTS = [" ".join(rng.choice(WORDS, 1 + i % 4)) + f" {i}" for i in range(N)]
NAMES = ["a", "b", "c"]
INDEX = np.arange(N)[::-1] * 7


def frame(X, dtype="float64"):
    return pd.DataFrame(X, columns=NAMES, index=INDEX[: len(X)]).astype(dtype)


def unknown_chunks(X):
    whole = dask.array.from_array(X, chunks=(7, 3))
    return whole[dask.array.from_array(np.ones(len(X), dtype=bool), chunks=7)]


def polars(X):
    return pytest.importorskip("polars").DataFrame(X, schema=NAMES)


TABLES = {
    "float32": lambda X: X.astype(np.float32),
    "object array": lambda X: X.astype(object),
    "list": lambda X: X.tolist(),
    "list of arrays": list,
    "frame": frame,
    "nullable frame": functools.partial(frame, dtype="Float64"),
    "arrow frame": functools.partial(frame, dtype="double[pyarrow]"),
    "polars": polars,
    "dask": lambda X: dask.array.from_array(X, chunks=(7, 3)),
    "dask of unknown chunks": unknown_chunks,
    "tensor": torch.from_numpy,
    **{name: getattr(sparse, f"{name}_matrix") for name in ("csc", "dia", "lil", "dok", "bsr")},
    "csr array": sparse.csr_array,
    "coo array": sparse.coo_array,
}


def series(texts, dtype=None):
    return pd.Series(texts, index=INDEX[: len(texts)], dtype=dtype)


OF_TEXT = {
    "list": list,
    "object array": lambda texts: np.array(texts, dtype=object),
    "Series": series,
    "Series of Arrow's texts": functools.partial(series, dtype=pd.ArrowDtype(pyarrow.string())),
    "polars": lambda texts: pytest.importorskip("polars").Series("text", texts),
}


def classifier():
    return RandomForestClassifier(5, random_state=0)


def text_classifier():
    return make_pipeline(CountVectorizer(), classifier())


def make(**parameters):
    return StochasticBatchQuery(random_state=0, **parameters)


# Entry points: (wrap, rows as an array or a list, a model not fitted) -> numbers that do not depend on the container


def loop(wrap, rows, model):
    """modAL's, with rows on their way by ``candidates``."""
    learner = ActiveLearner(model, make(), wrap(rows[:FIRST]), LABELS[:FIRST])
    pool, bought = wrap(rows[FIRST:]), []
    for _ in range(2):
        free = np.setdiff1d(np.arange(N - FIRST), bought)
        indices, batch = learner.query(pool, n_instances=4, candidates=free)
        learner.teach(batch, LABELS[FIRST:][indices])
        bought += indices.tolist()
    return bought


def experiment(wrap, rows, model):
    options = {"n_initial": FIRST, "n_rounds": 2, "n_trials": 1, "batch_size": 5, "random_state": 0}
    result = run_experiment(model, {"bald": make()}, wrap(rows), LABELS, **options)
    return [i for done in result.rounds for i in done.indices]


def stopping(wrap, rows, model):
    learner = ActiveLearner(model, make(), wrap(rows[:FIRST]), LABELS[:FIRST])
    first = StoppingReport.from_learner(learner, wrap(rows[FIRST:]), random_state=0)
    indices, batch = learner.query(wrap(rows[FIRST:]), n_instances=10)
    learner.teach(batch, LABELS[FIRST:][indices])
    left = np.setdiff1d(np.arange(FIRST, N), FIRST + indices)
    rest = rows[left] if isinstance(rows, np.ndarray) else [rows[i] for i in left]
    report = StoppingReport.from_learner(learner, wrap(rest), first, random_state=0)
    return [report.n_rows, report.n_pool, *report.gains, report.changed]


def active_tester(wrap, rows, model):
    model.fit(wrap(rows[:FIRST]), LABELS[:FIRST])
    test = ActiveTester(make(score="entropy", epsilon=0.2), wrap(rows[FIRST:]))
    test.tell(LABELS[FIRST:][test.ask(model, 10)])
    return [test.accuracy(model).value, *test.indices_]


def effects(wrap, rows, model):
    model = RandomForestRegressor(5, random_state=0).fit(wrap(rows[:FIRST]), LABELS[:FIRST])
    found = predict_effects(model, wrap(rows), treatment=2)
    np.testing.assert_allclose(found, estimate_effects(model, wrap(rows), treatment=2).mean, atol=1e-12)
    return found


OF_ANY_ROWS = [loop, experiment, stopping, active_tester]


@functools.cache
def of_arrays(entry):
    return entry(np.asarray, TABLE, classifier())


@functools.cache
def of_lists(entry):
    return entry(list, TEXTS, text_classifier())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("container", "entry"),
    [*((container, loop) for container in TABLES), *(("coo array", entry) for entry in [*OF_ANY_ROWS, effects])],
)
def test_every_container_of_a_table_gives_the_same_rows_at_every_entry_point(container, entry):
    np.testing.assert_allclose(entry(TABLES[container], TABLE, classifier()), of_arrays(entry), rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("container", "entry"),
    [*((container, loop) for container in OF_TEXT), *(("Series", entry) for entry in OF_ANY_ROWS)],
)
def test_every_container_of_texts_gives_the_same_rows_at_every_entry_point(container, entry):
    np.testing.assert_allclose(entry(OF_TEXT[container], TEXTS, text_classifier()), of_lists(entry), rtol=1e-9)


# --- what is no pool ------------------------------------------------------------------------------

NO_POOLS = {
    "a text": lambda: "abc",
    "a set": lambda: {1, 2},
    "a dict": lambda: {"a": [1, 2], "b": [1, 2]},
    "an array without axes": lambda: np.array(1.0),
    "a class": lambda: pd.DataFrame,
    "a dask array without axes": lambda: dask.array.sum(dask.array.ones(3)),
}


@pytest.fixture(scope="module")
def forest():
    return classifier().fit(TABLE[:FIRST], LABELS[:FIRST])


def learner_of(forest):
    return ActiveLearner(forest, make(), TABLE[:FIRST], LABELS[:FIRST])


TRAINING = {"X_training": TABLE[:FIRST], "y_training": LABELS[:FIRST]}
OPTIONS = {"n_initial": 10, "n_rounds": 1, "n_trials": 1, "batch_size": 5}
TAKE = {
    "learner.query": ("X_pool", lambda model, X: learner_of(model).query(X, n_instances=1)),
    "score_pool": ("X_pool", lambda model, X: score_pool(model, X, "bald")),
    "StoppingReport": ("X_pool", lambda model, X: StoppingReport.from_learner(learner_of(model), X)),
    "ActiveTester": ("X_pool", lambda model, X: ActiveTester(make(), X)),
    "run_experiment": ("X", lambda model, X: run_experiment(model, {"a": make()}, X, LABELS, **OPTIONS)),
    "predict_effects": ("X", lambda model, X: predict_effects(model, X, treatment=0)),
    "training data": ("X_training", lambda model, X: make().select(model, TABLE, 1, **{**TRAINING, "X_training": X})),
    "test rows": (
        "X_test",
        lambda model, X: run_experiment(model, {"a": make()}, TABLE, LABELS, X_test=X, y_test=LABELS, **OPTIONS),
    ),
}


@pytest.mark.parametrize("what", NO_POOLS)
def test_what_is_no_pool_is_refused_in_one_sentence(what, forest):
    with pytest.raises(TypeError, match=r"^`X_pool` must (not be|hold)"):
        make().select(forest, NO_POOLS[what](), 1)


@pytest.mark.parametrize("entry", TAKE)
def test_a_generator_is_no_pool_at_any_entry_point_and_none_is_no_pool(entry, forest):
    parameter, give = TAKE[entry]
    for value in ((row for row in TABLE), None):
        if value is not None or parameter not in {"X_training", "X_test"}:  # where None is leave to go without
            with pytest.raises(TypeError, match=rf"^`{parameter}` must (not be|hold)"):
                give(forest, value)
