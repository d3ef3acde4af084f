"""Limits in queries: every one keeps to them, in every container, and says before it draws what cannot be met."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import reference
from modAL.models import ActiveLearner
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from small_models import first_law, first_rows

import skactive
from skactive import Limits, StochasticBatchQuery
from skactive.query import Batch, BatchQuery, Pool

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4))
X[:, -1] = np.arange(90) % 2  # a treatment
Y = (X[:, 0] > 0).astype(int)
TRAIN, POOL = slice(0, 30), X[30:]
N = len(POOL)
GROUPS = RNG.integers(8, size=N)
COSTS = RNG.integers(1, 9, size=N) / 10
FOREST = RandomForestClassifier(12, max_depth=4, random_state=0).fit(X[TRAIN], Y[TRAIN])
EFFECTS = RandomForestRegressor(12, max_depth=4, random_state=0).fit(X[TRAIN], X[TRAIN, 0])
LINEAR = LogisticRegression().fit(X[TRAIN], Y[TRAIN])

QUERIES = {
    name: getattr(skactive, name)
    for name in skactive.__all__
    if isinstance(getattr(skactive, name), type) and issubclass(getattr(skactive, name), BatchQuery)
}
WAYS = {
    **{name: (name, {}) for name in QUERIES},
    **{name: ("StochasticBatchQuery", {"sampler": name}) for name in ("softrank", "topk", "uniform")},
    "epsilon": ("StochasticBatchQuery", {"epsilon": 0.3}),
    "diversity": ("StochasticBatchQuery", {"diversity": 2.0, "epsilon": 0.1}),
}
every_query = pytest.mark.parametrize("way", [*QUERIES, "diversity"])
quietly = pytest.mark.filterwarnings("ignore:.* rows:UserWarning")
K = 7
LIMITS = {
    "one of each group": {"groups": GROUPS, "max_per_group": 1},
    "at least": {"groups": GROUPS, "max_per_group": {0: 0, 1: 2}, "at_least": {2: 3, 5: 1}},
    "a budget": {"costs": COSTS, "budget": 1.3},
    "must": {"must": [40, 3, 17]},
    "all": {
        "groups": GROUPS,
        "max_per_group": 2,
        "at_least": {int(GROUPS[9]): 2, 6: 1},
        "costs": COSTS,
        "budget": 2.0,
        "must": [9],
    },
}


def make(way, **parameters):
    name, own = WAYS[way]
    needs = {"treatment": -1} if name == "CausalBALDQuery" else {}
    return QUERIES[name](**needs, **{"random_state": 0, **own, **parameters})


def model_for(way):
    return EFFECTS if way == "CausalBALDQuery" else FOREST


def assert_keeps(batch, k, groups=None, max_per_group=None, at_least=None, costs=None, budget=None, must=()):
    """Whether a batch keeps to limits, counted one by one."""
    batch = batch.tolist()
    assert len(set(batch)) == len(batch)
    assert batch[: len(must)] == list(must)
    if budget is None:
        assert len(batch) == k
    else:
        assert sum(costs[i] for i in batch) <= budget + 1e-9
    for group in set([] if groups is None else groups.tolist()):
        n = sum(groups[i] == group for i in batch)
        most = max_per_group.get(group, n) if isinstance(max_per_group, dict) else max_per_group or n
        assert (at_least or {}).get(group, 0) <= n <= most


# --- all queries


@quietly
@pytest.mark.parametrize(
    ("way", "case"),
    [*((way, "all") for way in WAYS), *((way, case) for case in LIMITS for way in ("epsilon", "BADGEQuery"))],
)
def test_every_query_keeps_to_every_limit(way, case):
    query = make(way)
    for _ in range(2):
        batch = query.select(model_for(way), POOL, K, limits=Limits(**LIMITS[case]))
        assert_keeps(batch, K, **LIMITS[case])
    np.testing.assert_array_equal(query.indices_, batch)


@quietly
@every_query
def test_a_batch_within_a_budget_ends_only_when_no_row_that_is_left_fits(way):
    limits = {"groups": GROUPS, "max_per_group": 1, "costs": COSTS, "budget": 0.8}
    query = make(way)
    batch = query.select(model_for(way), POOL, K, limits=Limits(**limits))
    left = [i for i in range(N) if i not in batch and GROUPS[i] not in GROUPS[batch]]
    assert len(batch) < K
    assert all(COSTS[batch].sum() + COSTS[i] > 0.8 + 1e-9 for i in left)


@quietly
@every_query
def test_candidates_and_rows_in_flight_are_left_out_and_count_for_nothing(way):
    pending = [i for i in range(N) if i % 11 == 0]
    candidates = [i for i in range(N) if i % 4 != 3]
    given = {"candidates": candidates[::-1], "pending": pending, "limits": Limits(**LIMITS["all"])}
    batch = make(way).select(model_for(way), POOL, K, **given)
    assert_keeps(batch, K, **LIMITS["all"])
    assert set(batch.tolist()) <= set(candidates) - set(pending)


@quietly
@pytest.mark.parametrize(("way", "case"), [("softrank", "all"), ("epsilon", "must"), ("CausalBALDQuery", "all")])
def test_log_probabilities_are_those_of_rows_left_and_rows_that_must_be_in_are_certain(way, case):
    query = make(way)
    batch = query.select(model_for(way), POOL, K, limits=Limits(**LIMITS[case]))
    assert query.log_proba_.shape == batch.shape
    assert not query.log_proba_[: len(LIMITS[case]["must"])].any()
    assert (query.log_proba_ <= 0).all()
    assert np.exp(first_law(query)).sum() == pytest.approx(1)
    np.testing.assert_array_equal(first_law(pickle.loads(pickle.dumps(query))), first_law(query))


def test_a_learner_that_is_not_fitted_gets_a_uniform_batch_within_the_limits():
    learner = ActiveLearner(RandomForestClassifier(5), make("KCenterQuery"))
    with pytest.warns(UserWarning, match="not fitted yet"):
        batch, _ = learner.query(POOL, n_instances=K, limits=Limits(**LIMITS["all"]))
    assert_keeps(batch, K, **LIMITS["all"])


# --- greedy, one by one


@pytest.mark.parametrize("way", ["BatchBALDQuery", "ACSFWQuery", "KCenterQuery"])
def test_a_batch_beside_rows_in_flight_is_the_rest_of_one_that_begins_with_them(way):
    training = {"X_training": X[TRAIN], "y_training": Y[TRAIN]}  # for draws that differ in every row
    whole = make(way).select(LINEAR, POOL, 3 + 3, limits=Limits(must=[4, 11, 30]), **training)
    rest = make(way).select(LINEAR, POOL, 3, pending=[4, 11, 30], **training)
    assert whole.tolist() == [4, 11, 30, *rest.tolist()]


def test_k_center_takes_the_farthest_of_the_rows_allowed():
    limits = LIMITS["all"]
    batch = make("KCenterQuery").select(LINEAR, POOL, K, limits=Limits(**limits)).tolist()
    replay = Pool.of(POOL, limits=Limits(**limits)).allowance(K)
    for i, row in enumerate(batch):
        if i:  # the first has to be in the batch
            distances = [min(math.dist(POOL[j], POOL[c]) for c in batch[:i]) for j in range(N)]
            allowed = np.flatnonzero(replay.allowed)
            assert distances[row] == pytest.approx(max(distances[j] for j in allowed))
            replay.take(row)


def test_batchbald_takes_the_row_of_the_largest_gain_of_those_allowed():
    limits = {**LIMITS["one of each group"], "must": [5, 8]}
    query = make("BatchBALDQuery", n_draws=12)
    batch = query.select(FOREST, POOL, 5, limits=Limits(**limits)).tolist()
    draws = np.stack([tree.predict_proba(POOL) for tree in FOREST.estimators_])
    replay = Pool.of(POOL, limits=Limits(**limits)).allowance(5)
    for i, row in enumerate(batch):
        gains = reference.next_gains(draws, batch[:i])
        if i >= 2:
            assert float(gains[row]) == pytest.approx(max(float(gains[j]) for j in np.flatnonzero(replay.allowed)))
            replay.take(row)


# --- containers


SHUFFLED = np.random.default_rng(1).permutation(N)
NAMES = np.array(["ash", "elm", "oak", "fir", "yew", "box", "bay", "fig"])[GROUPS]
MASK = np.isin(np.arange(N), [17, 40])
AS_ARRAYS = {"groups": NAMES, "costs": COSTS, "must": MASK}
FRAME = pd.DataFrame(POOL, columns=list("abcd"), index=np.arange(N) + 500)
CONTAINERS = {
    "tuples": (POOL, {"groups": [("a", name) for name in NAMES], "costs": tuple(COSTS), "must": (17, 40)}),
    "series in another order": (
        FRAME,
        {name: pd.Series(values, FRAME.index).iloc[SHUFFLED] for name, values in AS_ARRAYS.items()},
    ),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("container", CONTAINERS)
def test_limits_are_the_same_in_every_container(container):
    pool, given = CONTAINERS[container]
    options = {"max_per_group": 1, "budget": 2.5}
    expected = make("epsilon").select(FOREST, POOL, K, limits=Limits(**AS_ARRAYS, **options))
    batch = make("epsilon", chunk_size=7).select(FOREST, pool, K, limits=Limits(**given, **options))
    np.testing.assert_array_equal(batch, expected)


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "str"])
def test_integers_of_every_type_are_the_same_groups(dtype):
    def rows_of(groups, most):
        pool = Pool.of(np.zeros((len(groups), 1)), limits=Limits(groups, most))
        return pool.allowance(1).allowed.tolist()

    near = np.tile([-128, 127, 3, 100] if dtype[0] == "i" else [0, 255, 3, 100], 80)
    groups = near.astype(dtype)
    for row in range(4):
        for most in ({groups[row]: 0}, {groups[row : row + 1].tolist()[0]: 0}):
            assert rows_of(groups, most) == (near != near[row]).tolist()
    with pytest.raises(ValueError, match="`max_per_group` must name groups of the pool"):
        rows_of(groups, {"5" if dtype == "str" else 5: 0})
    if dtype == "uint64":
        assert rows_of(groups + np.uint64(2**63), {2**63 + 255: 0}) == (near != 255).tolist()


def test_days_are_named_by_any_of_their_types():
    days = np.datetime64("2020-01-01") + np.array([0, 1, 0, 2])
    for day in (days[0], pd.Timestamp(days[0])):
        allowed = Pool.of(np.zeros((4, 1)), limits=Limits(days, {day: 0})).allowance(1).allowed
        assert allowed.tolist() == [False, True, False, True]


def test_rows_that_must_be_in_come_in_the_order_given_or_of_a_mask_in_that_of_the_pool():
    for must, first in (([40, 3], [40, 3]), (np.isin(np.arange(N), [40, 3]), [3, 40])):
        assert make("epsilon").select(FOREST, POOL, 4, limits=Limits(must=must))[:2].tolist() == first


# --- what is reported


def test_the_cheapest_rows_of_a_group_are_kept_in_reserve_for_it():
    costs, groups = np.r_[np.random.default_rng(0).permutation(2000) + 1.0, 8], np.r_[np.zeros(2000), 1]
    limits = Limits(groups, at_least={0: 2}, costs=costs, budget=11.0)  # pays for the row of 8, and for 1 and 2
    rows = StochasticBatchQuery(sampler="topk").select_scored(groups, 3, limits=limits)
    assert sorted(costs[rows]) == [1, 2, 8]


def test_rows_that_the_limits_leave_and_that_have_no_score_are_told_of():
    with pytest.warns(UserWarning, match="Only 1 rows that the limits leave could be drawn by their scores, and 3"):
        StochasticBatchQuery().select_scored([1.0, 0.0, 0.0, 0.0], 3, limits=Limits(["a"] * 4, max_per_group=3))


# --- refusals


G2 = ["a", "b"] * (N // 2)
BAD = {
    "not limits": ({"max_per_group": 1}, r"`limits` must be None or `skactive.Limits`.*Got \{'max_per_group': 1\}"),
    "groups of another length": (Limits(G2[:-1], 1), r"`groups` must have shape \(60,\).*Got \(59,\)"),
    "NaT for a group": (
        Limits(np.array(["2020-01-01"] * 59 + ["NaT"], dtype="M8[ns]"), 1),
        r"`groups` must have a value for every row\. Got none in row 59",
    ),
    "too few of groups": (Limits(G2, 1), r"With `max_per_group` at most 2 of these candidates.*`n_instances`=7"),
    "an unknown group, at most": (Limits(G2, {"c": 1}), r"`max_per_group` must name groups of the pool\. Got 'c'"),
    "more needs than picks": (
        Limits(G2, at_least={"a": 4, "b": 4}),
        r"`at_least` and `must` ask for 8 rows.*`n_instances`=7",
    ),
    "more needs than the most": (
        Limits(G2, 1, at_least={"b": 2}),
        r"more rows of group 'b' than can be chosen. Got 2, but `max_per_group` .* allow 1",
    ),
    "a negative cost": (Limits(costs=-COSTS, budget=1), r"`costs` must be finite, 0 or larger.* numbers from -0\.\d"),
    "a budget for nothing": (Limits(costs=COSTS, budget=0.01), r"`budget` must cover .* 0.1. Got 0.01"),
    "a budget for needs": (
        Limits(G2, at_least={"a": 3}, costs=np.ones(N), budget=2.5),
        r"`budget` must cover .*`at_least`, 3\. Got 2.5",
    ),
    "must twice": (Limits(must=[3, 5, 3]), r"`must` must be distinct rows.* Got a row twice"),
    "must in flight": (Limits(must=[58]), r"`must` must be .* Got row 58, which is .*`pending`"),
    "must that is no candidate": (Limits(must=[59]), "`must` must be .* Got row 59, which is not among the `cand"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_met_is_said_before_anything_is_drawn_and_the_query_is_as_it_was(case, monkeypatch):
    limits, words = BAD[case]
    query = make("StochasticBatchQuery")
    query.select(FOREST, POOL, 2)
    state, before = copy.deepcopy(query.rng_.bit_generator.state), dict(vars(query))
    only = {"candidates": np.arange(N) < 59, "pending": [58]} if "must" in case else {}
    monkeypatch.setattr(StochasticBatchQuery, "choose", None)
    with pytest.raises((ValueError, TypeError), match=words):
        query.select(FOREST, POOL, 7, limits=limits, **only)
    assert query.rng_.bit_generator.state == state
    assert vars(query) == before


def test_limits_that_contradict_themselves_are_refused_when_they_are_stated():
    for given in ({"max_per_group": 1}, {"groups": G2}, {"budget": 1.0}, {"costs": COSTS}):
        with pytest.raises(ValueError, match="must be given along with"):
            Limits(**given)


@pytest.mark.parametrize(("name", "parameters"), [("limits", {}), ("epsilon", {"epsilon": 0.1})])
def test_a_sampler_without_a_law_is_refused_with_limits_and_with_an_epsilon(name, parameters):
    limits = Limits(must=[4]) if name == "limits" else None
    with pytest.raises(ValueError, match=rf"`{name}`.* needs a sampler whose law is known.*'first_rows' has no"):
        make("StochasticBatchQuery", sampler=first_rows, **parameters).select(FOREST, POOL, 3, limits=limits)


class FirstRows(BatchQuery):
    """A query that knows of no limits."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def choose(self, learner, pool, k, rngs):
        return Batch(np.arange(k), np.zeros(len(pool)))


class FirstAllowed(FirstRows):
    """One that goes by them, as the guide says."""

    def __init__(self, random_state=None, n_too_few=0):
        self.random_state, self.n_too_few = random_state, n_too_few

    def choose(self, learner, pool, k, rngs):
        allowance = pool.allowance(k)
        while allowance.allowed.any():
            allowance.take(int(np.argmax(allowance.allowed)))
        return Batch(allowance.batch[: len(allowance.batch) - self.n_too_few], np.zeros(len(pool)))


def test_a_query_of_the_users_own_that_does_not_go_by_limits_or_stops_early_is_refused():
    limits = Limits(**LIMITS["all"])
    with pytest.raises(ValueError, match=r"FirstRows chose 7 rows that do not.*`pool.allowance\(k\)`"):
        FirstRows().select(FOREST, POOL, K, limits=limits)
    with pytest.raises(ValueError, match=r"FirstAllowed chose .* rows that do not"):
        FirstAllowed(n_too_few=1).select(FOREST, POOL, K, limits=limits)
    assert_keeps(FirstAllowed().select(FOREST, POOL, K, limits=limits), K, **LIMITS["all"])
