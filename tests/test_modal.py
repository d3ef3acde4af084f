"""The queries in modAL's own learner, on whatever versions of modAL, scikit-learn and pandas are installed."""

import inspect

import modAL.models
import numpy as np
import pandas as pd
import pytest
import torch
from modAL.models import ActiveLearner
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skactive import StochasticBatchQuery

X, y = load_digits(return_X_y=True)
X, y = X[:400] / 16, y[:400]
FIRST = 60
RETURNS_PAIRS = "return_metrics" in inspect.signature(modAL.models.ActiveLearner.query).parameters


def make_learner(**parameters):
    forest, query = RandomForestClassifier(20, random_state=0), StochasticBatchQuery(random_state=0, **parameters)
    return ActiveLearner(forest, query, X_training=X[:FIRST], y_training=y[:FIRST])


def test_a_frame_of_texts_numbers_and_gaps_keeps_its_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"city": rng.choice(["bern", "rome", None], 200), "n": rng.integers(9, size=200)})
    labels = np.where(rng.random(200) < 0.5, "yes", "no")
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["city"]), (StandardScaler(), ["n"]))
    pipe = make_pipeline(encode, RandomForestClassifier(20, random_state=0))
    learner = ActiveLearner(pipe, StochasticBatchQuery(random_state=0), frame[:40], labels[:40])
    indices, batch = learner.query(frame[40:], n_instances=5)
    pd.testing.assert_frame_equal(batch, frame[40:].iloc[indices])
    learner.teach(batch, labels[40:][indices])
    assert learner.X_training.dtypes.tolist() == frame.dtypes.tolist()


def test_modal_hands_back_as_many_rows_as_were_asked_for_in_one_call_of_the_strategy():
    calls = []

    class Counting(StochasticBatchQuery):
        def choose(self, learner, pool, k, rngs):
            calls.append(k)
            return super().choose(learner, pool, k, rngs)

    learner = make_learner()
    learner.query_strategy = Counting(random_state=0)
    for k in (1, 3):
        indices, batch = learner.query(X[FIRST:], k)
        assert (indices.shape, batch.shape) == ((k,), (k, 64))
    assert calls == [1, 3]


@pytest.mark.skipif(not RETURNS_PAIRS, reason="this modAL has no return_metrics (0.4.1)")
def test_return_metrics_gives_the_scores_of_the_batch():
    learner = make_learner()
    indices, _, metrics = learner.query(X[FIRST:], n_instances=3, return_metrics=True)
    np.testing.assert_array_equal(metrics, learner.query_strategy.scores_[indices])


def test_keywords_of_a_query_hold_for_that_call_only_and_an_unknown_one_is_named():
    learner = make_learner(sampler="power", beta=1.0)
    allowed = np.array([5, 17, 30, 31])
    indices, _ = learner.query(X[FIRST:], n_instances=2, sampler="topk", candidates=allowed)
    scores = learner.query_strategy.scores_
    assert set(indices) == set(allowed[np.argsort(-scores[allowed])[:2]])
    assert np.isnan(np.delete(scores, allowed)).all()
    assert learner.query_strategy.sampler == "power"
    with pytest.raises(TypeError, match="`temperature`"):
        learner.query(X[FIRST:], temperature=2)


@pytest.mark.parametrize(
    ("shape_X", "shape_y"), [((1, 3), (1, 1)), ((3,), (1,)), ((2, 3), (3,)), ((1, 4), (1,)), ((0, 3), (0,))], ids=str
)
def test_teach_stores_rows_with_their_labels_or_raises_and_stores_nothing(shape_X, shape_y):
    # modAL-python/modAL issues 15, 71 and 115: one row and its label come in many shapes.
    X0, y0 = np.arange(15.0).reshape(5, 3), np.array([0, 1, 0, 1, 1])
    learner = ActiveLearner(RandomForestClassifier(3, random_state=0), StochasticBatchQuery(), X0, y0)
    with pytest.raises(ValueError):
        learner.teach(np.ones(shape_X), np.zeros(shape_y, dtype=int))
    np.testing.assert_array_equal(learner.X_training, X0)
    np.testing.assert_array_equal(learner.y_training, y0)
    learner.teach(np.ones((1, 3)), [0])
    assert (learner.X_training.shape, learner.y_training.shape) == ((6, 3), (6,))


FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
TEXTS = [["1", "2"], ["3", "4"]]
UNLIKE = {  # rows that a learner has, and rows that it is taught
    "a frame and an array": (FRAME, FRAME.to_numpy(), "pandas.DataFrame.* Got numpy.ndarray of numbers"),
    "a frame and other columns": (FRAME, FRAME.rename(columns={"b": "c"}), r"\['a', 'b'\]. Got .* with \['a', 'c'\]"),
    "a tensor and an array": (torch.ones(2, 2), np.ones((2, 2)), "torch.Tensor.* Got numpy.ndarray"),
    "numbers and a list of texts": (np.ones((2, 2)), TEXTS, "of numbers. Got list"),
    "sparse rows and texts": (sparse.csr_array(np.eye(2)), TEXTS, "csr_array of numbers. Got list"),
}


@pytest.mark.parametrize("case", UNLIKE)
def test_rows_that_cannot_be_stored_together_are_refused_with_both_named_and_nothing_is_stored(case):
    known, new, message = UNLIKE[case]
    as_rows = FunctionTransformer(lambda X: np.zeros((X.shape[0] if hasattr(X, "shape") else len(X), 2)))
    learner = ActiveLearner(make_pipeline(as_rows, RandomForestClassifier(2)), StochasticBatchQuery(), known, [0, 1])
    with pytest.raises(TypeError, match="^`teach` must be given rows.*" + message):
        learner.teach(new, [1, 0])
    assert learner.X_training is known
    assert learner.y_training == [0, 1]


LIKE = {
    "an array and a list": (np.ones((2, 2)), [[2, 3], [4, 5]], np.ndarray),
    "an array and a frame": (np.ones((2, 2)), FRAME, np.ndarray),
    "an array and sparse rows": (np.ones((2, 2)), sparse.csr_matrix(FRAME.to_numpy()), sparse.csr_matrix),
    "frames with columns in another order": (FRAME, FRAME[["b", "a"]], pd.DataFrame),
}


@pytest.mark.parametrize("case", LIKE)
def test_rows_of_two_containers_are_stored_in_one_that_holds_both(case):
    known, new, kind = LIKE[case]
    learner = ActiveLearner(RandomForestClassifier(2), StochasticBatchQuery(), known, [0, 1])
    learner.teach(new, [1, 0])
    stored = learner.X_training
    assert type(stored) is kind
    below = new.toarray() if sparse.issparse(new) else FRAME.to_numpy() if "order" in case else np.asarray(new)
    stored = stored.toarray() if sparse.issparse(stored) else np.asarray(stored)
    np.testing.assert_array_equal(stored, np.concatenate([np.asarray(known), below]))


def test_numbers_stay_numbers_where_rows_of_objects_are_taught_as_lists():
    pipe = make_pipeline(OneHotEncoder(handle_unknown="ignore"), RandomForestClassifier(2))
    learner = ActiveLearner(pipe, StochasticBatchQuery(), np.array([[1, "a"], [2, "b"]], dtype=object), [0, 1])
    learner.teach([[2, "c"], [3, "a"]], [1, 0])
    assert learner.X_training.tolist() == [[1, "a"], [2, "b"], [2, "c"], [3, "a"]]
