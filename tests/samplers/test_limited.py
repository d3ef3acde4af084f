"""Which rows a limited batch may take, against trying every batch; and the law of what is drawn from them, exactly."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skactive import Limits
from skactive.badge import _seed
from skactive.query import Pool
from skactive.samplers import SAMPLERS
from skactive.samplers._distances import PointSet, Vectors
from skactive.samplers._feasibility import LimitedLaw
from skactive.samplers._law import draw_batch
from skactive.samplers._plackett_luce import RankLaw
from skactive.samplers._repulsion import Repulsion

INF = math.inf
quietly = pytest.mark.filterwarnings("ignore:Only .* rows:UserWarning", "ignore:BADGE found:UserWarning")


def pool_of(n, **limits):
    return Pool.of(np.zeros((n, 1)), limits=Limits(**limits))


def allowance_of(n, k, **limits):
    return pool_of(n, **limits).allowance(k)


def draw_limited(name, scores, allowance, rng, beta=1.0, epsilon=0.0, points=None, diversity=1.0):
    """A batch of as many rows as an allowance says, and its law."""
    options = {"points": points, "diversity": diversity} if points is not None else {}
    k = len(allowance.must) + allowance.n_left
    scores = np.array(scores, dtype=float)
    return draw_batch(name, scores, k, rng, beta=beta, epsilon=epsilon, allowance=allowance, **options)


def draw_uniform(allowance, rng):
    return draw_limited("uniform", np.zeros(allowance.n_rows), allowance, rng)[0]


def oracle_of(n, k, *, max_per_group=None, at_least=None, **limits):
    return reference.Limited(n, k, most=max_per_group, least=at_least, **limits)


PAIRS = [0, 0, 1, 1, 2, 2]
COSTS = [0.1, 0.1, 0.1, 0.2, 0.3, 0.4]
LIMITS = {
    "none": {},
    "one of each group": {"groups": PAIRS, "max_per_group": 1},
    "some of one group": {"groups": PAIRS, "max_per_group": {0: 1, 1: 2}, "at_least": {2: 1}},
    "needs that leave one pick": {"groups": PAIRS, "at_least": {1: 1, 2: 1}},
    "needs that leave none": {"groups": list("aaabbb"), "at_least": {"a": 1, "b": 2}},
    "a budget": {"costs": COSTS, "budget": 0.3},
    "a budget and needs": {"groups": PAIRS, "at_least": {2: 1}, "costs": COSTS, "budget": 0.6},
    "a row that must be in": {"must": [4]},
    "all": {"groups": PAIRS, "max_per_group": {0: 1}, "at_least": {2: 1}, "costs": COSTS, "budget": 0.7, "must": [3]},
}
every_limit = pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)


@st.composite
def problems(draw):
    """A few rows in up to three groups, with costs in tenths, and limits of all kinds, met or not."""
    n = draw(st.integers(1, 6))
    k, limits = draw(st.integers(1, min(n, 4))), {}
    if draw(st.booleans()):
        limits["groups"] = draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
        known = sorted(set(limits["groups"]))
        numbers = st.dictionaries(st.sampled_from(known), st.integers(0, 3))
        limits["max_per_group"] = draw(st.none() | st.integers(1, 3) | numbers)
        limits["at_least"] = draw(st.dictionaries(st.sampled_from(known), st.integers(0, 2)))
    if draw(st.booleans()):
        limits["costs"] = [c / 10 for c in draw(st.lists(st.integers(0, 7), min_size=n, max_size=n))]
        limits["budget"] = draw(st.integers(0, 20)) / 10
    if draw(st.booleans()):
        limits["must"] = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=3))
    return n, k, limits


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_rows_are_allowed_if_and_only_if_some_batch_completes_them_or_there_is_one_error(problem, random):
    n, k, limits = problem
    oracle = oracle_of(n, k, **limits)
    has_rows = oracle.must or oracle.next(())
    if not (oracle.can_be_completed(oracle.must) and has_rows):
        with pytest.raises(ValueError, match=r"^(With )?`(max_per_group|at_least|budget)` .*\. "):
            allowance_of(n, k, **limits)
        return
    allowance = allowance_of(n, k, **limits)
    assert allowance.must.tolist() == list(oracle.must)
    batch, masks = oracle.must, []
    while True:
        allowed = np.flatnonzero(allowance.allowed).tolist()
        assert allowed == oracle.next(batch)
        if not allowed:
            break
        masks.append(allowance.allowed)
        assert not (masks[-1] & ~masks[0]).any()
        assert all(not (after & ~before).any() for before, after in itertools.pairwise(masks))
        row = random.choice(allowed)
        assert [allowance.allows_row(i) for i in range(n)] == masks[-1].tolist()
        allowance.take(row)
        batch = (*batch, row)
    assert oracle.keeps(batch)
    expected = np.sum(masks, axis=0) if masks else np.zeros(n)
    assert allowance.left_at().tolist() == expected.tolist()


def test_a_budget_pays_for_what_its_decimals_say():
    for cost, budget, n in [(0.1, 0.3, 3), (0.1, 0.7, 7), (1 / 3, 1.0, 3), (1e-9, 1e-7, 100)]:
        allowance = allowance_of(200, 150, costs=np.full(200, cost), budget=budget)
        assert len(draw_uniform(allowance, np.random.default_rng(0))) == n, (cost, budget)


def test_a_budget_of_integers_is_kept_to_the_last_one():
    rng = np.random.default_rng(0)
    for _ in range(20):
        costs = rng.integers(1, 10**9, size=100)
        budget = int(rng.choice(costs, 10, replace=False).sum())
        allowance = allowance_of(100, 50, costs=costs, budget=budget)
        assert costs[draw_uniform(allowance, rng)].sum() <= budget


def test_costs_near_the_largest_float_are_more_than_a_budget_pays_for():
    allowance = allowance_of(4, 3, costs=[1e308, 1e308, 1e308, 1.0], budget=1e300)
    assert draw_uniform(allowance, np.random.default_rng(0)).tolist() == [3]


SCORES = [0.1, 0.4, 0.2, 0.3, 0.6, 0.25]
TIED = [0.3, 0.9, 0.3, 0.9, 0.3, 0.1]
WITH_ZEROS = [0.0, 0.5, 0.0, 0.0, 0.0, 0.2]
WITHOUT_MASS = [-INF, 0.5, -INF, -INF, -INF, 0.2]
PLACES = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 0.0], [1.0, 1.0], [0.0, 3.0], [2.0, 2.0]])
COPIES = [0, 0, 2, 0, 0, 0]
N_TRIALS = 600


def assert_follows(draw, law, limits, n_trials=N_TRIALS):
    """Counts of ordered batches ``draw(allowance, rng)`` fit their law."""
    rng, pool = np.random.default_rng(0), pool_of(6, **limits)
    counts = Counter(tuple(draw(pool.allowance(3), rng).tolist()) for _ in range(n_trials))
    assert math.isclose(sum(law.values()), 1, abs_tol=1e-12)
    reference.assert_batches_fit(counts, law)


def law_of(name, scores, beta, limits, epsilon=0.0):
    oracle = oracle_of(6, 3, **limits)
    by_scores = {"power": reference.power_weights, "softmax": reference.softmax_weights}
    if name in (*by_scores, "uniform"):
        weights = by_scores[name](scores, beta) if name != "uniform" else [1] * 6
        return oracle.law(reference.step_of_weights(weights, epsilon))
    laws = []
    for ranks in reference.tied_ranks(scores):
        weights = reference.softrank_weights(ranks, beta)
        if name == "topk":
            weights = [10.0 ** (-40 * rank) for rank in ranks]
        laws.append(oracle.law(reference.step_of_weights(weights, epsilon)))
    return {batch: p for batch, p in reference.mixture(laws).items() if p > 1e-30}


@quietly
@pytest.mark.parametrize(
    ("name", "scores", "beta", "epsilon", "limit"),
    [
        ("power", SCORES, 0, 0.3, "some of one group"),
        ("softrank", SCORES, 1.5, 0.3, "needs that leave none"),
        ("topk", SCORES, 1, 0.3, "a budget"),
        ("power", SCORES, 1, 0.3, "all"),
        ("softrank", TIED, 1, 0.0, "one of each group"),
        ("topk", TIED, 1, 0.0, "a budget"),
        ("softmax", WITHOUT_MASS, 1, 0.3, "a budget and needs"),
        ("softmax", WITHOUT_MASS, 1, 0.0, "all"),
        ("power", WITH_ZEROS, 1, 0.0, "some of one group"),
        *[pytest.param(name, SCORES, 2, 0.2, limit, marks=pytest.mark.law) for name in SAMPLERS for limit in LIMITS],
    ],
)
def test_limited_batches_follow_the_law_of_the_sampler_among_the_rows_allowed(name, scores, beta, epsilon, limit):
    law = law_of(name, scores, beta, LIMITS[limit], epsilon)

    def draw(allowance, rng):
        return draw_limited(name, scores, allowance, rng, float(beta), epsilon)[0]

    assert_follows(draw, law, LIMITS[limit])


def points_at(rows, in_flight=()):
    return PointSet(Vectors(np.array([*PLACES[rows], *in_flight]), "points"))


def law_apart(limits, rows, diversity, epsilon, in_flight=()):
    rule = reference.Repulsion(SCORES, PLACES[rows].tolist(), 1, diversity, epsilon, in_flight)
    return oracle_of(6, 3, **limits).law(rule.next)


@quietly
@pytest.mark.parametrize(
    ("diversity", "epsilon", "rows", "in_flight", "limit"),
    [
        (0.5, 0.0, range(6), [], "one of each group"),
        (0.5, 0.3, range(6), [], "all"),
        pytest.param(2.0, 0.0, range(6), [], "a budget and needs", marks=pytest.mark.law),
        pytest.param(2.0, 0.3, range(6), [], "needs that leave none", marks=pytest.mark.law),
        (1.0, 0.2, range(6), [[0.0, 0.5], [3.0, 3.0]], "all"),
        (1.0, 0.0, COPIES, [], "all"),  # once no row that is allowed keeps apart, any that is allowed may come
        (1.0, 0.3, COPIES, [], "a budget"),
        *[pytest.param(1.0, 0.1, range(6), [[3.0, 3.0]], limit, marks=pytest.mark.law) for limit in LIMITS],
    ],
)
def test_limited_batches_that_keep_apart_follow_their_law(diversity, epsilon, rows, in_flight, limit):
    points, said = points_at(rows, in_flight), {}
    law = law_apart(LIMITS[limit], rows, diversity, epsilon, in_flight)

    def draw(allowance, rng):
        batch, of_batch = draw_limited("power", SCORES, allowance, rng, 1.0, epsilon, points, diversity)
        said.setdefault(tuple(batch.tolist()), of_batch)
        return batch

    assert_follows(draw, law, LIMITS[limit], 400)
    for batch, of_batch in [*said.items()][:20]:
        assert np.exp(of_batch.log_proba().sum()) == pytest.approx(float(law[batch]))


@quietly
@pytest.mark.parametrize(
    ("rows", "limit"),
    [(range(6), "all"), ([1, 1, 2, 1, 1, 2], "a budget and needs"), ([1, 1, 2, 1, 1, 2], "a row that must be in")],
)
def test_limited_batches_of_badge_follow_k_means_plus_plus_among_the_rows_allowed(rows, limit):
    step = functools.partial(reference.next_centre, reference.exactly(PLACES[rows]))
    law = oracle_of(6, 3, **LIMITS[limit]).law(step)
    points = points_at(rows)
    assert_follows(lambda allowance, rng: _seed(points, allowance, rng), law, LIMITS[limit], 400)


@pytest.mark.parametrize(
    ("name", "epsilon", "order"),
    [("softmax", 0.2, "sorted"), ("softrank", 0.0, "shuffled")],
)
def test_large_pools_follow_the_law_while_groups_fill_up(name, epsilon, order):
    """Picks of a class of rows less their conditional probabilities: a martingale, bounded by Freedman."""
    rng, n = np.random.default_rng(1), 20_000
    level = np.repeat(np.arange(4), [200, 1800, 5000, 13_000])
    if order == "shuffled":
        rng.shuffle(level)
    limits = {"groups": rng.integers(200, size=n), "max_per_group": 1, "at_least": {3: 1, 7: 1}}
    limits |= {"costs": rng.random(n), "budget": 20.0}
    scores = np.array([1.6, 0.8, 0.4, 0.1])[level] + 1e-9 * rng.random(n)
    by_rank = 1.0 / stats.rankdata(-scores)
    weights, beta = {"power": (scores**2, 2), "softmax": (np.exp(2 * scores), 2), "softrank": (by_rank, 1)}[name]
    classes = 2 * level + 2 * np.arange(n) // n
    picked, expected, variance = np.zeros((3, 8))
    for _ in range(15):
        batch = draw_limited(name, scores, allowance_of(n, 60, **limits), rng, beta, epsilon)[0]
        replay = allowance_of(n, 60, **limits)
        for row in batch.tolist():
            allowed = replay.allowed
            assert allowed[row]
            by_law = np.bincount(classes, weights * allowed, 8) / (weights @ allowed)
            proba = (1 - epsilon) * by_law + epsilon * np.bincount(classes[allowed], minlength=8) / allowed.sum()
            expected, variance = expected + proba, variance + proba * (1 - proba)
            picked[classes[row]] += 1
            replay.take(row)
    excess, bound = np.abs(picked - expected), np.array([reference.martingale_bound(v) for v in variance])
    assert (excess <= bound).all(), f"picked {picked}, expected {expected.round(1)}, allowed {bound.round(1)}"


def taken(limits, batch, k=3):
    """An allowance from which a batch was taken."""
    allowance = allowance_of(len(SCORES), k, **limits)
    for row in batch[len(allowance.must) :]:
        allowance.take(row)
    return allowance


def assert_knows_its_law(law_of_batch, law, limits, rtol):
    """Probabilities of all batches, which sum to one, and of the first pick are those of the law."""
    total, n_must = 0.0, len(limits.get("must", []))
    expected = np.zeros(6)
    for first, probability in reference.prefixes(law, n_must + 1).items():
        expected[first[-1]] += float(probability)
    for batch, probability in law.items():
        said = law_of_batch(taken(limits, batch))
        log_proba = said.log_proba()
        assert log_proba.shape == (len(batch),)
        assert not log_proba[:n_must].any()
        np.testing.assert_allclose(np.exp(log_proba.sum()), float(probability), rtol=rtol)
        total += np.exp(log_proba.sum())
    np.testing.assert_allclose(np.exp(said.first_log_proba()), expected, rtol=0, atol=1e-12)
    assert total == pytest.approx(1, abs=1e-9)


@every_limit
def test_log_probabilities_of_all_batches_are_those_of_the_law_and_sum_to_one(limits):
    for name, scores, beta, epsilon in [
        ("power", SCORES, 2, 0.3),
        ("power", WITH_ZEROS, 0, 0.0),
        ("softrank", SCORES, 1.5, 0.0),
        ("topk", SCORES, 1, 0.3),
        ("topk", SCORES, 1, 0.0),
        ("topk", TIED, 1, 0.0),
    ]:
        rng = np.random.default_rng(0)
        rows = SAMPLERS[name].law(np.array(scores), float(beta)).by_row(rng)
        rows = RankLaw(rows.scores, 1e12).by_row(rng) if epsilon and name == "topk" else rows
        law_of_batch = functools.partial(LimitedLaw, rows, epsilon=epsilon)
        assert_knows_its_law(law_of_batch, law_of(name, scores, beta, limits, epsilon), limits, 1e-12)


@every_limit
def test_log_probabilities_of_batches_that_keep_apart_sum_to_one(limits):
    for epsilon in (0.0, 0.3):
        law_of_batch = functools.partial(Repulsion, np.log(SCORES), points_at(range(6)), 2.0, epsilon=epsilon)
        assert_knows_its_law(law_of_batch, law_apart(limits, range(6), 2, epsilon), limits, 1e-9)


@pytest.mark.parametrize(("name", "beta"), [("power", 0.5), ("power", 1e12), ("softmax", 50.0), ("softmax", 1e6)])
def test_no_digits_are_lost_of_masses_of_any_size(name, beta):
    rng = np.random.default_rng(3)
    n, k = 80, 12
    scores = rng.random(n) ** 8 + 1e-3
    limits = {"groups": rng.integers(9, size=n), "max_per_group": 2, "costs": rng.random(n), "budget": 5.0}
    batch, law = draw_limited(name, scores, allowance_of(n, k, **limits), rng, beta)
    exact = reference.exact_log_weights(name, scores, beta)
    replay = allowance_of(n, k, **limits)
    for row, ours in zip(batch.tolist(), law.log_proba(), strict=True):
        allowed = np.flatnonzero(replay.allowed).tolist()
        expected = reference.log_proba([exact[i] for i in allowed], [allowed.index(row)])[0]
        assert ours == pytest.approx(expected, rel=1e-9, abs=1e-12)
        replay.take(row)


@pytest.mark.parametrize("points", [None, points_at(range(6))], ids=["by scores", "apart"])
def test_where_every_row_must_be_in_the_batch_its_first_is_certain(points):
    allowance, rng = allowance_of(6, 2, must=[4, 1]), np.random.default_rng(0)
    batch, law = draw_limited("power", SCORES, allowance, rng, 1.0, 0.1, points)
    assert batch.tolist() == [4, 1]
    assert law.log_proba().tolist() == [0, 0]
    assert np.exp(law.first_log_proba()).tolist() == [0, 0, 0, 0, 1, 0]
    # The last of all rows is certain; rounding would take the sum of law and chance above 1.
    law = draw_limited("power", SCORES, allowance_of(6, 6), rng, 1.0, 0.1, points)[1]
    assert (law.log_proba() <= 0).all()
