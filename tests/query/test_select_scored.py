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
    limits = Limits(groups=np.arange(len(POOL)) % 3, max_per_group=4, must=[7])
    options = {"candidates": np.arange(200), "pending": [3, 5], "limits": limits}
    one, other = make(), make()
    scores = scored()
    scores[200:] = np.nan  # none of them may be chosen
    np.testing.assert_array_equal(one.select_scored(scores, 10, **options), other.select(FOREST, POOL, 10, **options))
    assert_same(one, other)


def test_a_series_of_scores_goes_by_the_index_of_the_rows_and_masks_and_groups_by_that_of_the_scores():
    ids = pd.Index(range(1000, 1270))
    scores, order = pd.Series(scored(), ids), np.random.default_rng(1).permutation(270)
    frame, may = pd.DataFrame(POOL, index=ids), pd.Series(np.arange(270) % 4 > 0, ids)
    limits = Limits(groups=pd.Series(np.arange(270) % 5, ids).iloc[order], max_per_group=2)
    plain = {"candidates": may.to_numpy(), "limits": Limits(groups=np.arange(270) % 5, max_per_group=2)}
    expected = make().select_scored(scored(), 8, **plain)
    for values, given in ((scores, {}), (scores.iloc[order], {"X_pool": frame})):
        found = make().select_scored(values, 8, candidates=may.iloc[order], limits=limits, **given)
        np.testing.assert_array_equal(found, expected)


def test_scores_are_not_changed_and_may_be_changed_later():
    for of in (list, torch.from_numpy, np.asarray):
        scores, query = of(scored()), make()
        query.select_scored(scores)
        np.testing.assert_array_equal(scores, scored())
        scores[0] = -1
        np.testing.assert_array_equal(query.scores_, scored())


@pytest.mark.parametrize(
    ("scores", "given", "message"),
    [
        (np.where(np.arange(270) == 9, np.nan, 1.0), {"candidates": [3, 9]}, "Got nan in row 9"),
        ([], {}, r"`scores` must.* Got shape \(0,\)"),
        (np.ones(269), {"X_pool": POOL}, r"shape \(270,\)"),
        (np.ones(270), {"diversity": 1}, "Give `estimator` and `X_pool`"),
    ],
)
def test_scores_that_do_not_do_are_refused(scores, given, message):
    query = make(diversity=given.pop("diversity", 0))
    with pytest.raises(ValueError, match=message):
        query.select_scored(scores, 1, **given)
