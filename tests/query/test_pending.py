"""Rows in flight count as chosen for BatchBALD and ACS-FW: a batch goes on from them, and does not repeat them."""

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
