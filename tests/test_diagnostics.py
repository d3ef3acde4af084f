"""How scores age: measures against scipy's and scikit-learn's, histories against models fitted by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from killed_experiment import keep_records
from modAL.models import ActiveLearner
from scipy import sparse
from scipy.special import entr
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skactive import StochasticBatchQuery, run_experiment
from skactive.diagnostics import MEASURES, FrozenQuery, auroc, moving_mean, rank_correlation, redundancy, score_history
from skactive.query import score_pool
from skactive.samplers import power

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.array(["ash", "elm", "oak"])[np.clip(np.rint(X[:, 0] + 1), 0, 2).astype(int)]
FIRST = np.array([np.flatnonzero(label == Y)[i] for label in ("ash", "elm", "oak") for i in (0, 1)])
REST = np.setdiff1d(np.arange(60), FIRST)
BATCHES = [FIRST, REST[:3], REST[[7, 5]]]

# Few values, so that many are tied, and gaps: rows that have no score at some steps.
histories = hnp.arrays(
    float,
    st.tuples(st.integers(1, 4), st.integers(1, 12)),
    elements=st.one_of(st.integers(-3, 3).map(float), st.just(math.nan)),
)
parts = st.sampled_from([0.01, 0.1, 0.25, 0.5, 0.9, 1.0])


def members_by_loop(today, part, side):
    """Rows of which fewer than so many are strictly ahead."""
    known = [i for i, score in enumerate(today) if not math.isnan(score)]
    n = max(1, round(part * len(known)))
    ahead = {i: sum(today[j] > today[i] if side == "top" else today[j] < today[i] for j in known) for i in known}
    return [i for i in known if ahead[i] < n]


# --- rank correlation -----------------------------------------------------------------------------


@given(histories, parts, st.sampled_from(["top", "bottom"]), st.data())
def test_rank_correlation_is_spearmans_of_the_part_asked_for(history, part, side, data):
    start = data.draw(st.integers(0, len(history) - 1))
    ours = rank_correlation(history, start, **{side: part})
    assert ours.shape == (len(history) - start,)
    members = members_by_loop(history[start], part, side)
    for value, later in zip(ours, history[start:], strict=True):
        pairs = np.array([(history[start][i], later[i]) for i in members if not math.isnan(later[i])]).reshape(-1, 2)
        if len(pairs) < 2 or np.ptp(pairs, axis=0).min() == 0:
            assert math.isnan(value)
        else:
            assert value == pytest.approx(spearmanr(*pairs.T).statistic, abs=1e-12)


def test_rank_correlation_of_all_is_that_of_the_whole_as_top_or_bottom(rng):
    history = rng.normal(size=(5, 30))
    everything = rank_correlation(history)
    np.testing.assert_array_equal(everything, rank_correlation(history, top=1.0))
    np.testing.assert_array_equal(everything, rank_correlation(history, bottom=1.0))
    np.testing.assert_allclose(everything, [spearmanr(history[0], later).statistic for later in history])


def test_rows_tied_with_the_last_of_the_top_belong_to_it():
    today, later = [5, 4, 4, 4, 1, 1, 1, 1, 1, 1], [1, 2, 3, 4, 9, 9, 9, 9, 9, 9]
    expected = spearmanr(today[:4], later[:4]).statistic
    assert rank_correlation([today, later], top=0.2)[1] == pytest.approx(expected)


def test_rounding_makes_ties_and_does_not_change_the_top(rng):
    history = rng.uniform(0, 0.1, size=(3, 40))
    rounded = rank_correlation(history, top=0.25, decimals=2)
    best = np.argsort(-history[0])[:10]
    expected = [spearmanr(history[0][best].round(2), later[best].round(2)).statistic for later in history]
    np.testing.assert_allclose(rounded, expected)
    assert not np.allclose(rounded, rank_correlation(history, top=0.25))


@pytest.mark.parametrize("measure", MEASURES.values())
def test_measures_look_at_the_order_alone(measure, rng):
    history = rng.uniform(0.1, 2.0, size=(4, 50))
    np.testing.assert_allclose(measure(history, top=0.2), measure(np.exp(3 * history), top=0.2))
    reorder = rng.permutation(50)
    np.testing.assert_allclose(measure(history, top=0.2), measure(history[:, reorder], top=0.2))


@pytest.mark.parametrize("measure", MEASURES.values())
def test_the_bottom_is_the_top_of_the_negative(measure, rng):
    history = rng.normal(size=(4, 50)).round(1)
    np.testing.assert_allclose(measure(history, bottom=0.2), measure(-history, top=0.2))


# --- AUROC ----------------------------------------------------------------------------------------


@given(histories, parts, st.sampled_from(["top", "bottom"]), st.data())
def test_auroc_is_that_of_having_been_of_the_part(history, part, side, data):
    start = data.draw(st.integers(0, len(history) - 1))
    ours = auroc(history, start, **{side: part})
    today, members = history[start], members_by_loop(history[start], part, side)
    for value, later in zip(ours, history[start:], strict=True):
        known = [i for i in range(len(today)) if not (math.isnan(today[i]) or math.isnan(later[i]))]
        was = [i in members for i in known]
        if len(set(was)) < 2:
            assert math.isnan(value)
        else:
            sign = 1 if side == "top" else -1
            assert value == pytest.approx(roc_auc_score(was, sign * later[known]), abs=1e-12)


def test_auroc_of_rounded_scores(rng):
    history = rng.uniform(0, 0.1, size=(3, 40))
    was = history[0] >= np.sort(history[0])[-10]
    expected = [roc_auc_score(was, later.round(2)) for later in history]
    np.testing.assert_allclose(auroc(history, top=0.25, decimals=2), expected)


def test_an_order_turned_round_has_no_area_and_no_order_has_half_of_it(rng):
    today = rng.normal(size=500)
    history = [today, -today, rng.normal(size=500)]
    first, turned, unrelated = auroc(history, top=0.5)
    assert (first, turned) == (1.0, 0.0)
    # The Mann-Whitney statistic of 250 and 250: variance (n + m + 1) / (12 n m).
    assert abs(unrelated - 0.5) < 5 * math.sqrt(501 / (12 * 250 * 250))


# --- smoothing ------------------------------------------------------------------------------------


@given(hnp.arrays(float, st.integers(0, 9), elements=st.floats(-5, 5)), st.integers(1, 12))
def test_moving_mean_is_the_mean_of_the_steps_around(values, window):
    ours = moving_mean(values, window)
    for i, value in enumerate(ours):
        around = [values[j] for j in range(len(values)) if i - window // 2 <= j < i - window // 2 + window]
        assert value == pytest.approx(sum(around) / len(around))


def test_moving_mean_leaves_out_gaps():
    np.testing.assert_array_equal(moving_mean([1.0, np.nan, 4.0], 3), [1.0, 2.5, 4.0])
    np.testing.assert_array_equal(moving_mean([1.0, np.nan, 4.0], 1), [1.0, np.nan, 4.0])


# --- histories ------------------------------------------------------------------------------------


def test_a_history_holds_the_scores_of_models_fitted_to_the_labels_so_far():
    model = GaussianNB()  # neither its fit nor a score of its one draw is random
    history = score_history(model, X, Y, BATCHES, score="margin")
    assert history.shape == (3, 60)
    for step, row in enumerate(history):
        labelled = np.concatenate(BATCHES[: step + 1])
        expected = score_pool(GaussianNB().fit(X[labelled], Y[labelled]), X, "margin")["margin"]
        assert np.flatnonzero(np.isnan(row)).tolist() == sorted(labelled)
        left = np.setdiff1d(np.arange(60), labelled)
        np.testing.assert_array_equal(row[left], expected[left])
    assert not hasattr(model, "classes_")


def test_rows_are_positions_in_the_whole_of_X():
    rows = REST[[9, 2, 30]]  # the second is bought in the second batch
    everything = score_history(GaussianNB(), X, Y, BATCHES, score="entropy")
    np.testing.assert_array_equal(
        score_history(GaussianNB(), X, Y, BATCHES, score="entropy", rows=rows), everything[:, rows]
    )
    assert np.isnan(everything[1:, rows[1]]).all()
    assert not np.isnan(everything[0, rows[1]])


def test_an_empty_batch_is_another_model_of_the_same_labels():
    forest = RandomForestClassifier(10)
    first, again, _ = score_history(forest, X, Y, [FIRST, [], REST[:3]], random_state=0)
    assert np.isnan(first).tolist() == np.isnan(again).tolist()
    assert not np.array_equal(first, again, equal_nan=True)


def test_a_history_follows_from_its_random_state(global_state_untouched):
    forest = RandomForestClassifier(10)
    one, two = (score_history(forest, X, Y, BATCHES, random_state=0) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, score_history(forest, X, Y, BATCHES, random_state=1), equal_nan=True)


def test_histories_of_frames_and_sparse_arrays():
    forest = RandomForestClassifier(10, random_state=0)
    dense = score_history(forest, X, Y, BATCHES, random_state=0)
    as_sparse = score_history(forest, sparse.csc_array(X), Y, BATCHES, random_state=0)
    np.testing.assert_array_equal(dense, as_sparse)
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(60)[::-1])
    frame["d"] = np.where(X[:, 1] > 0, "high", "low")
    pipeline = make_pipeline(make_column_transformer((OneHotEncoder(), ["d"]), remainder="passthrough"), forest)
    assert score_history(pipeline, frame, pd.Series(Y), BATCHES, random_state=0).shape == (3, 60)


def test_a_history_takes_any_score_and_posterior():
    def votes(draws):
        return 1.0 - np.asarray(draws).mean(axis=0).max(axis=-1)

    forest = RandomForestClassifier(10)
    own = score_history(forest, X, Y, BATCHES, score=votes, random_state=0)
    named = score_history(forest, X, Y, BATCHES, score="variation_ratio", random_state=0)
    np.testing.assert_allclose(own, named)
    bootstrapped = score_history(forest, X, Y, BATCHES, posterior="bootstrap", n_draws=3, random_state=0)
    assert bootstrapped.shape == (3, 60)


# --- frozen queries -------------------------------------------------------------------------------


class Calls:
    """A query that takes the rows with the largest first column, and counts how often it is asked."""

    def __init__(self):
        self.n_instances = []

    def __call__(self, learner, X_pool, n_instances=1):
        self.n_instances.append(n_instances)
        return np.argsort(-X_pool[:, 0])[:n_instances]


def buy(query, n_rounds, n_instances, pool=X):
    """Positions in the original pool that a query buys from what is left of it."""
    left, bought = np.arange(len(pool)), []
    for _ in range(n_rounds):
        batch = query(None, pool[left], n_instances=n_instances)
        bought.append(left[batch])
        left = np.delete(left, batch)
    return np.array(bought)


@pytest.mark.parametrize("n_instances", [1, 3])
def test_a_frozen_query_buys_one_large_batch_in_pieces(n_instances):
    calls = Calls()
    bought = buy(FrozenQuery(calls, 5), 5, n_instances)
    assert calls.n_instances == [5 * n_instances]
    np.testing.assert_array_equal(bought.ravel(), np.argsort(-X[:, 0])[: 5 * n_instances])


@given(st.permutations(range(12)), st.integers(1, 4))
def test_positions_follow_their_rows_whatever_was_bought_before(order, n_instances):
    pool = np.array(order, dtype=float)[:, None]
    n_rounds = 12 // n_instances
    bought = buy(FrozenQuery(Calls(), n_rounds), n_rounds, n_instances, pool)
    np.testing.assert_array_equal(pool[bought.ravel(), 0], np.arange(12)[::-1][: n_rounds * n_instances])


def test_it_asks_anew_once_its_batches_are_bought_and_for_no_more_than_there_is():
    calls = Calls()
    bought = buy(FrozenQuery(calls, 2), 5, 12)
    assert calls.n_instances == [24, 24, 12]
    assert sorted(bought.ravel()) == list(range(60))


def test_frozen_batches_have_the_law_of_sampling_without_replacement(rng):
    # Scores 1, 2, 3, 4 under power sampling: row 3 is first with chance 4/10, and row 2 follows it with chance 3/6.
    def sample(learner, X_pool, n_instances):
        return power(X_pool[:, 0], n_instances, rng)

    pool, n_runs = np.array([[1.0], [2.0], [3.0], [4.0]]), 1500
    runs = [tuple(buy(FrozenQuery(sample, 2), 2, 1, pool).ravel()) for _ in range(n_runs)]
    seconds = np.array([second for first, second in runs if first == 3])
    assert abs(len(seconds) / n_runs - 0.4) < 5 * math.sqrt(0.4 * 0.6 / n_runs)
    assert abs(np.mean(seconds == 2) - 0.5) < 5 * math.sqrt(0.25 / len(seconds))


def test_a_frozen_query_in_an_experiment_buys_what_the_first_scores_say():
    query = StochasticBatchQuery("margin", "topk")
    common = {"n_initial": 6, "n_trials": 2, "random_state": 0}
    in_pieces = run_experiment(GaussianNB(), {"q": FrozenQuery(query, 4)}, X, Y, batch_size=3, n_rounds=4, **common)
    at_once = run_experiment(GaussianNB(), {"q": query}, X, Y, batch_size=12, n_rounds=1, **common)
    for trial in range(2):
        pieces = [i for r in in_pieces.rounds if r.trial == trial for i in r.indices]
        whole = [i for r in at_once.rounds if r.trial == trial for i in r.indices]
        assert pieces == whole


def test_an_interrupted_experiment_goes_on_with_the_frozen_batches(tmp_path):
    queries = {"frozen": FrozenQuery(StochasticBatchQuery("bald", "power"), 3)}
    forest, path = RandomForestClassifier(5), tmp_path / "checkpoint"
    options = {"n_initial": 6, "batch_size": 2, "n_rounds": 7, "n_trials": 1, "random_state": 0, "checkpoint": path}
    whole = run_experiment(forest, queries, X, Y, **options)
    for n_kept in (8, 6, 4):  # records: at the end of the frozen batches, and in the middle
        keep_records(path, n_kept)
        again = run_experiment(forest, queries, X, Y, **options)
        assert [r.indices for r in again.rounds] == [r.indices for r in whole.rounds]


def test_a_frozen_query_works_in_a_modal_learner():
    learner = ActiveLearner(
        estimator=RandomForestClassifier(5, random_state=0),
        query_strategy=FrozenQuery(StochasticBatchQuery(), 2, random_state=0),
        X_training=X[FIRST],
        y_training=Y[FIRST],
    )
    pool = X[REST]
    for _ in range(3):
        indices, rows = learner.query(pool, n_instances=4)
        np.testing.assert_array_equal(rows, pool[indices])
        learner.teach(rows, Y[REST][indices])
        pool = np.delete(pool, indices, axis=0)


def test_clones_of_a_frozen_query_start_afresh():
    query = FrozenQuery(StochasticBatchQuery(), 3, random_state=0)
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)
    first = query(forest, X, n_instances=2)
    twin = clone(query)
    assert repr(twin) == "FrozenQuery(n_batches=3, query=StochasticBatchQuery(), random_state=0)"
    np.testing.assert_array_equal(twin(forest, X, n_instances=2), first)
    assert "rng_" not in vars(query.query)  # the query handed over has not been touched


def test_a_frozen_query_asks_with_other_seeds_each_time_and_follows_from_its_own():
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)
    query = FrozenQuery(StochasticBatchQuery(sampler="uniform", random_state=0), 1, random_state=0)
    first, second = query(forest, X, n_instances=5), query(forest, X, n_instances=5)  # of the same pool
    assert set(first) != set(second)  # alike by chance once in 5 million
    twin = clone(query)
    np.testing.assert_array_equal([twin(forest, X, n_instances=5) for _ in range(2)], [first, second])
    assert set(clone(query).set_params(random_state=1)(forest, X, n_instances=5)) != set(first)


# --- bad input ------------------------------------------------------------------------------------


HISTORY = np.arange(8.0).reshape(2, 4)


@pytest.mark.parametrize("measure", MEASURES.values())
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"scores": HISTORY[0]}, ValueError, r"`scores` must have shape \(n_steps, n_points\).*Got shape \(4,\)"),
        ({"scores": np.empty((0, 4))}, ValueError, r"`scores` must have shape.*Got shape \(0, 4\)"),
        ({"scores": np.full((2, 3), np.inf)}, ValueError, "`scores` must be finite, or NaN.*Got 6 infinite"),
        ({"start": 2}, ValueError, "`start` must be a step, from 0 to 1. Got 2"),
        ({"start": -1}, ValueError, "`start` must be a step"),
        ({"start": 0.5}, TypeError, "`start` must be a step"),
        ({"top": 0}, ValueError, "`top` must be a fraction of the rows.*Got 0"),
        ({"top": 10}, ValueError, "`top` must be a fraction of the rows.*Got 10 .*0.01 is one per cent"),
        ({"top": "10 %"}, TypeError, "`top` must be a fraction of the rows"),
        ({"top": None, "bottom": 1.5}, ValueError, "`bottom` must be a fraction of the rows"),
        ({"top": None, "bottom": math.nan}, ValueError, "`bottom` must be a fraction of the rows"),
        ({"decimals": 1.5}, TypeError, "`decimals` must be None or an integer"),
    ],
)
def test_bad_input_of_measures_is_named(measure, arguments, error, message):
    arguments = {"scores": HISTORY, "top": 0.5, **arguments}
    with pytest.raises(error, match=message):
        measure(**arguments)


def test_the_part_must_be_one():
    with pytest.raises(ValueError, match="Only one of `top` and `bottom` may be given"):
        rank_correlation(HISTORY, top=0.5, bottom=0.5)
    with pytest.raises(ValueError, match=r"Either `top` or `bottom` must be given. Got neither"):
        auroc(HISTORY)
    with pytest.raises(ValueError, match=r"Either `top` or `bottom` must be given. Got both"):
        auroc(HISTORY, top=0.5, bottom=0.5)


def test_the_window_must_be_positive():
    with pytest.raises(ValueError, match="`window` must be an integer, 1 or larger"):
        moving_mean([1.0], 0)
    with pytest.raises(TypeError, match="`window` must be an integer, 1 or larger"):
        moving_mean([1.0], 2.5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batches": []}, ValueError, "`batches` must start with the positions of the first labels"),
        ({"batches": [[], [1]]}, ValueError, "`batches` must start with the positions of the first labels"),
        ({"batches": [FIRST, FIRST[:1]]}, ValueError, "`batches` must be distinct positions from 0 to 59.*6 of them"),
        ({"batches": [FIRST, [60]]}, ValueError, "`batches` must be distinct positions from 0 to 59"),
        ({"batches": [FIRST, [-1]]}, ValueError, "`batches` must be distinct positions from 0 to 59"),
        ({"batches": [FIRST, [1.5]]}, ValueError, "`batches` must be positions of rows"),
        ({"rows": [0, 0]}, ValueError, "`rows` must be distinct positions"),
        (
            {"rows": FIRST[:2]},
            ValueError,
            "`rows` must hold a row without a label.*all of them labelled at step 0",
        ),
        ({"rows": REST[:3]}, ValueError, "`rows` must hold a row without a label.*all of them labelled at step 1"),
        ({"score": "bold"}, ValueError, "must be a callable or one of 'bald'"),
        ({"y": Y[:-1]}, ValueError, "`y`"),
        ({"estimator": RandomForestClassifier}, TypeError, "`estimator`.*the class RandomForestClassifier"),
        ({"random_state": "seed"}, (TypeError, ValueError), "`random_state`"),
    ],
)
def test_bad_input_of_histories_is_named(arguments, error, message):
    arguments = {"estimator": RandomForestClassifier(3), "X": X, "y": Y, "batches": BATCHES, **arguments}
    with pytest.raises(error, match=message):
        score_history(**arguments)


def test_a_frozen_query_refuses_another_pool():
    query = FrozenQuery(Calls(), 3)
    query(None, X, n_instances=2)
    with pytest.raises(ValueError, match=r"`X_pool` must be the previous pool without the rows bought, 58.*Got 60"):
        query(None, X, n_instances=2)


@pytest.mark.parametrize("n_batches", [0, 1.5, None])
def test_a_frozen_query_wants_a_number_of_batches(n_batches):
    with pytest.raises((TypeError, ValueError), match="`n_batches` must be"):
        FrozenQuery(Calls(), n_batches)(None, X)


def test_a_frozen_query_names_a_query_that_returns_no_batch():
    with pytest.raises(ValueError, match=r"FrozenQuery\.query.* must return 3 distinct positions.*Got duplicates"):
        FrozenQuery(lambda learner, X_pool, n_instances: np.zeros(n_instances, dtype=int), 3)(None, X)


@pytest.mark.parametrize("n_instances", ["auto", 0, 2.5, 41])
def test_a_frozen_query_names_a_batch_size_that_is_none(n_instances):
    model = GaussianNB().fit(X[:40], Y[:40])
    with pytest.raises((TypeError, ValueError), match="`n_instances`"):
        FrozenQuery(StochasticBatchQuery("entropy"), 2)(model, X[:40], n_instances)


# ----------------------------------------------------------------------------------------------------------- redundancy


def total_correlation(draws, rows):
    """By all joint labels: the sum of entropies less the joint one, and the same given each draw, which is 0."""
    p = np.asarray(draws)[:, rows]  # (n_draws, k, n_classes)
    joint = [
        np.mean([np.prod([p[d, i, c] for i, c in enumerate(labels)]) for d in range(len(p))])
        for labels in itertools.product(range(p.shape[2]), repeat=len(rows))
    ]
    mean = p.mean(axis=0)
    return entr(mean).sum() - entr(joint).sum()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("container", [np.asarray, torch.as_tensor], ids=["array", "tensor"])
def test_redundancy_is_the_total_correlation_of_the_labels(seed, container):
    draws = np.random.default_rng(seed).dirichlet(np.ones(3), (6, 8))
    rows = [4, 1, 6, 0]
    assert redundancy(container(draws), rows) == pytest.approx(total_correlation(draws, rows), abs=1e-10)
    assert redundancy(container(draws), rows[:1]) == pytest.approx(0, abs=1e-10)


def test_redundancy_of_sampled_outcomes_is_near_that_of_all():
    draws = np.random.default_rng(0).dirichlet(np.full(4, 0.5), (10, 12))
    rows = np.arange(7)
    exact = redundancy(draws, rows, max_outcomes=4**7)
    sampled = [redundancy(draws, rows, max_outcomes=500, random_state=seed) for seed in range(40)]
    assert abs(np.mean(sampled) - exact) < 5 * np.std(sampled) / np.sqrt(40) + 1e-3


@pytest.mark.parametrize("rows", [[0, 0], [8], [-1], [], [0.5], [[0, 1]], "0"])
def test_rows_of_redundancy_must_be_distinct_positions(rows):
    draws = np.random.default_rng(0).dirichlet(np.ones(3), (6, 8))
    with pytest.raises(ValueError, match=r"`rows` must be (distinct )?positions"):
        redundancy(draws, rows)
