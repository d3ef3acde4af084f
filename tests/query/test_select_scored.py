"""Scores that were made elsewhere: the batch, and all that is left of it, is that of `select`."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from skactive import Limits, StochasticBatchQuery
from skactive.query import score_pool

N, FIRST = 300, 30
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 4))
y = (X[:, 0] + rng.normal(size=N) > 0).astype(int)
FOREST = RandomForestClassifier(20, random_state=0).fit(X[:FIRST], y[:FIRST])
LATER = RandomForestClassifier(20, random_state=1).fit(X[: 2 * FIRST], y[: 2 * FIRST])
POOL = X[FIRST:]
LEFT = {"scores_", "indices_", "log_proba_", "concentration_"}


def scored(model=FOREST):
    return score_pool(model, POOL, "bald")["bald"]


def make(**parameters):
    return StochasticBatchQuery("bald", random_state=0, **parameters)


def assert_same(query, other):
    for name in LEFT:
        np.testing.assert_allclose(getattr(query, name), getattr(other, name), err_msg=name, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "parameters",
    [{}, {"epsilon": 0.3}, {"sampler": "softmax"}, {"sampler": "softrank", "beta": 0.0}, {"sampler": "topk"}],
    ids=repr,
)
def test_the_batch_and_the_attributes_are_those_of_select(parameters):
    one, other = make(**parameters), make(**parameters)
    for k in (10, 7):  # the stream goes on
        np.testing.assert_array_equal(one.select_scored(scored(), k), other.select(FOREST, POOL, k))
    assert_same(one, other)


def test_candidates_rows_in_flight_and_limits_are_those_of_select():
    options = {
        "candidates": np.arange(0, 200),
        "pending": [3, 5],
        "limits": Limits(groups=np.arange(len(POOL)) % 3, max_per_group=4, must=[7]),
    }
    one, other = make(), make()
    scores = scored()
    scores[200:] = np.nan  # none of them may be chosen
    np.testing.assert_array_equal(one.select_scored(scores, 10, **options), other.select(FOREST, POOL, 10, **options))
    assert_same(one, other)


def test_rows_that_keep_apart_are_those_of_select():
    one, other = make(diversity=2.0), make(diversity=2.0)
    rows = one.select_scored(scored(), 10, estimator=FOREST, X_pool=POOL)
    np.testing.assert_array_equal(rows, other.select(FOREST, POOL, 10))
    assert_same(one, other)


@pytest.mark.parametrize("of", [list, torch.from_numpy, pd.Series], ids=lambda f: f.__name__)
def test_scores_come_in_any_container_and_are_not_changed(of):
    scores = of(scored())
    before = np.asarray(scores).copy()
    query = make()
    assert len(query.select_scored(scores)) == 1
    np.testing.assert_array_equal(np.asarray(scores), before)
    assert not query.scores_.flags.writeable
    assert np.asarray(scores).flags.writeable or of is pd.Series  # pandas hands out read-only views


SCORES = scored()
BAD = {
    "two axes": (lambda: make().select_scored(np.ones((5, 2)), 1), ValueError, r"shape \(n_points,\)"),
    "a gap among candidates": (
        lambda: make().select_scored(np.where(np.arange(270) == 9, np.nan, SCORES), 1, candidates=[3, 9]),
        ValueError,
        "Got nan in row 9",
    ),
    "none": (lambda: make().select_scored([], 1), ValueError, r"`scores` must.* Got shape \(0,\)"),
    "another pool": (lambda: make().select_scored(SCORES[:-1], 1, X_pool=POOL), ValueError, r"shape \(270,\)"),
    "diversity": (lambda: make(diversity=1).select_scored(SCORES, 1), ValueError, "Give `estimator` and `X_pool`"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_clear_message(name):
    call, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        call()
