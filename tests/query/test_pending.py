"""Rows in flight count as chosen for BatchBALD and ACS-FW: a batch goes on from them, and does not repeat them."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from skactive import ACSFWQuery, BatchBALDQuery, Limits

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X @ [1.0, -1.0, 0.5] + 0.5 * RNG.normal(size=60) > 0).astype(int)
FOREST = RandomForestClassifier(30, max_depth=3, random_state=0).fit(X[:15], Y[:15])
POOL = X[15:]
PENDING = np.array([4, 11, 30])

QUERIES = [BatchBALDQuery, ACSFWQuery]


@pytest.mark.parametrize("query", QUERIES)
def test_a_batch_beside_rows_in_flight_is_the_rest_of_one_that_begins_with_them(query):
    whole = query(random_state=0).select(FOREST, POOL, 3 + 6, limits=Limits(must=PENDING))
    rest = query(random_state=0).select(FOREST, POOL, 6, pending=PENDING)
    assert whole[:3].tolist() == PENDING.tolist()
    assert rest.tolist() == whole[3:].tolist()


@pytest.mark.parametrize("query", QUERIES)
def test_the_twin_of_a_row_in_flight_is_not_the_first_choice(query):
    alone = int(query(random_state=0).select(FOREST, POOL, 1)[0])
    twins = np.concatenate([POOL, POOL[[alone]]])
    beside = query(random_state=0).select(FOREST, twins, 1, pending=[alone])
    assert beside[0] != len(POOL)


@pytest.mark.parametrize("query", QUERIES)
def test_limits_hold_beside_rows_in_flight(query):
    groups = np.arange(len(POOL)) % 5
    limits = Limits(groups, max_per_group=2, must=[7])
    batch = query(random_state=0).select(FOREST, POOL, 6, pending=PENDING, limits=limits)
    assert batch[0] == 7
    assert not set(batch) & set(PENDING)
    assert np.bincount(groups[batch]).max() <= 2


@pytest.mark.parametrize("query", QUERIES)
def test_the_same_batch_for_any_chunk_size(query):
    batches = [
        query(random_state=0, chunk_size=size).select(FOREST, POOL, 5, pending=PENDING).tolist()
        for size in (1, 7, None)
    ]
    assert batches[0] == batches[1] == batches[2]


@pytest.mark.parametrize("query", QUERIES)
def test_a_pool_that_is_all_in_flight_but_a_few_gives_these(query):
    pending = np.setdiff1d(np.arange(len(POOL)), [1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # little information may be left: then the batch is filled up
        batch = query(random_state=0).select(FOREST, POOL, 2, pending=pending)
    assert sorted(batch.tolist()) == [1, 2]
