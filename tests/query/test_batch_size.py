"""n_instances="auto": sizes follow from how a ranking aged, asking leaves no trace, and history goes on."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pandas as pd
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from killed_experiment import keep_records
from modAL.models import ActiveLearner, Committee
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from skactive import (
    ACSFWQuery,
    BADGEQuery,
    BatchBALDQuery,
    CausalBALDQuery,
    LearningCurveDisplay,
    MCDropoutClassifier,
    StochasticBatchQuery,
    run_experiment,
)
from skactive.plotting import PairedDifferenceDisplay
from skactive.query import _ageing as ageing
from skactive.query import _batch_size
from skactive.query._ageing import Ageing, compare, labels_that_hold, measured_rate

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
POOL = X[200:500]
FOREST = RandomForestClassifier(10, random_state=0)


def learner_of(query=None, n_labelled=40, estimator=FOREST):
    return ActiveLearner(clone(estimator), query or made(), X_training=X[:n_labelled], y_training=y[:n_labelled])


def made(kind=StochasticBatchQuery, **parameters):
    return kind(**{"random_state": 0, **parameters})


def begun(kind=StochasticBatchQuery, **parameters):
    """A query that has chosen its first batch."""
    query = made(kind, **parameters)
    query.select(learner_of(), POOL[:50], 5)
    return query


FITTED = clone(FOREST).fit(X[:40], y[:40])


def rounds(query, n_rounds=3, estimator=FOREST, hold=np.asarray):
    """Rows bought in each round by a loop that asks for "auto"."""
    labelled, left, batches = list(range(30)), np.arange(100, 400), []
    for _ in range(n_rounds):
        model = clone(estimator).fit(hold(X[labelled]), y[labelled])
        given = {"X_training": hold(X[labelled]), "y_training": y[labelled]}
        batches.append(left[query.select(model, hold(X[left]), "auto", **given)].tolist())
        labelled, left = labelled + batches[-1], np.setdiff1d(left, batches[-1])
    return batches


# --- the estimate ---------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=12))
def test_an_area_is_the_part_of_pairs_in_order(rows):
    scores, positive = np.array([s for s, _ in rows], dtype=float), np.array([p for _, p in rows])
    found = ageing.area(scores, positive)
    if positive.all() or not positive.any():
        assert np.isnan(found)
    else:
        assert found == pytest.approx(reference.area(scores, positive))


def test_a_variance_is_that_of_areas_of_exponential_scores():
    # Hanley and McNeil's formula is exact for exponential scores: of 20 positive and 60 other rows, 2,000 times.
    rng = np.random.default_rng(0)
    positive = np.arange(80) < 20
    scores = rng.exponential(size=(2000, 80)) * np.where(positive, 3.0, 1.0)
    areas = [ageing.area(row, positive) for row in scores]
    expected = ageing.variance_of_area(0.75, 20, 60)
    # A sample variance of n values with light tails is off by sqrt(2 / n) of itself: 5 standard errors are 16 %.
    assert np.var(areas) == pytest.approx(expected, rel=0.16)


def test_areas_are_means_over_the_tops_of_both_models_of_now():
    rng = np.random.default_rng(0)
    now, refitted, older = rng.random((3, 40))
    tops = [np.isin(np.arange(40), np.argsort(-scores)[:4]) for scores in (now, refitted)]
    seen = compare(now, refitted, older, 2.0)
    assert seen.refitted == pytest.approx((reference.area(refitted, tops[0]) + reference.area(now, tops[1])) / 2)
    assert seen.older == pytest.approx((reference.area(older, tops[0]) + reference.area(older, tops[1])) / 2)
    assert seen.older_variance == ageing.variance_of_area(seen.older, 4, 36)


AREAS = st.floats(0.3, 1.0)
SEEN = st.builds(Ageing, st.floats(1.2, 2.0), AREAS, AREAS, st.just(0.001), st.just(0.002))


@settings(max_examples=20, deadline=None)
@given(st.lists(SEEN, max_size=4))
def test_the_measured_rate_is_the_posterior_mean_of_the_formula(seen):
    rows = [tuple(vars(of).values()) for of in seen]
    assert measured_rate(seen) == pytest.approx(reference.ageing_rate(rows, ageing._LOG_RATES), rel=1e-9)


@pytest.mark.parametrize("rate", [0.2, 0.5, 1.0, 2.0])
def test_much_evidence_finds_the_rate_that_made_it(rate):
    rng = np.random.default_rng(0)
    older = 0.5 + 0.4 * 2**-rate + 0.02 * rng.standard_normal(500)
    found = measured_rate([Ageing(2.0, 0.9, area, 0.0, 0.0) for area in older])
    # The standard error of the mean area is 0.0009; its derivative by log rate is 0.4 log 2 rate 2**-rate.
    assert np.log(found) == pytest.approx(np.log(rate), abs=0.02 + 5 * 0.0009 / (0.277 * rate * 2**-rate))


def test_without_evidence_the_rate_is_that_of_the_prior():
    nothing = Ageing(2.0, np.nan, np.nan, np.nan, np.nan)
    assert measured_rate([]) == measured_rate([nothing]) == pytest.approx(ageing.PRIOR[0])


def test_the_less_is_left_of_a_ranking_the_larger_is_the_rate():
    found = [measured_rate([Ageing(2.0, 0.9, older, 0.001, 0.001)]) for older in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3)]
    assert found == sorted(found)
    assert ageing.BOUNDS[0] < found[0] < 0.4
    assert 1 < found[-1] < ageing.BOUNDS[1]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 1000), st.floats(0.1, 5), st.floats(0.05, 0.95))
def test_labels_that_hold_leave_just_the_part_asked_for_and_are_no_more_than_there_are(n, rate, hold):
    b = labels_that_hold(n, rate, hold)
    assert b == n if 0.5**rate > hold else (n / (n + b)) ** rate == pytest.approx(hold)


def test_the_older_half_of_labels_has_a_row_of_every_class():
    labels = np.repeat(["a", "b", "c"], [4, 2, 3])
    assert ageing.older_labels(labels, by_class=False).tolist() == [0, 1, 2, 3, 4]
    assert ageing.older_labels(labels, by_class=True).tolist() == [0, 1, 2, 3, 4, 6]


# --- the suggestion -------------------------------------------------------------------------------


def test_the_first_batch_is_the_smallest_and_costs_no_fit():
    assert made().suggest_batch_size(learner_of(), POOL) == 5
    unfit = learner_of()
    unfit.estimator.set_params(criterion="none that there is")
    assert made().suggest_batch_size(unfit, POOL) == 5
    with pytest.raises(ValueError, match="criterion"):
        begun().suggest_batch_size(unfit, POOL)


def test_rankings_that_never_change_let_batches_grow_and_those_that_do_keep_them_small():
    def lasting(learner, rows):
        return rows[:, 20] + rows[:, 30]

    def new(learner, rows):  # another order for every number of labels, the same for any model of as many
        return np.random.default_rng(len(learner.y_training)).permutation(len(rows)).astype(float)

    sizes = [begun(score=score).suggest_batch_size(learner_of(n_labelled=100), POOL) for score in (lasting, new)]
    # Of a rate r so many labels leave 0.9 of a ranking; r is near its bounds, as far as one look can tell.
    assert sizes[0] > 100 * (0.9 ** (-1 / 0.3) - 1)
    assert 5 <= sizes[1] < 100 * (0.9 ** (-1 / 0.8) - 1)


def test_what_is_compared_are_models_of_all_labels_and_of_the_older_half():
    seen = []

    def spy(learner, rows):
        seen.append(
            (learner.X_training.copy(), len(learner.y_training), getattr(learner.estimator, "n_fits", 0), len(rows))
        )
        return rows.sum(axis=1)

    class Counting(DecisionTreeClassifier):
        n_fits = 0

        def fit(self, X, y):
            self.n_fits += 1
            return super().fit(X, y)

    learner = learner_of(estimator=Counting())
    begun_query = begun(score=spy)
    seen.clear()
    begun_query.suggest_batch_size(learner, POOL)
    assert [(n, n_fits, n_rows) for _, n, n_fits, n_rows in seen] == [(40, 1, 300), (40, 1, 300), (20, 1, 300)]
    np.testing.assert_array_equal(seen[2][0], X[:20])
    assert learner.estimator.n_fits == 1
    assert len(learner.X_training) == 40


@pytest.mark.parametrize(
    ("parameters", "candidates", "size"),
    [
        ({"batch_range": (7, 7)}, None, 7),
        ({"batch_range": (100, 400)}, None, 300),
        ({"batch_range": (100, 400)}, np.arange(20), 20),
        ({"batch_range": (100, 400), "max_candidates": 30}, None, 30),
    ],
)
def test_bounds_hold_and_the_rows_that_may_be_chosen_are_one(parameters, candidates, size):
    for query in (made(**parameters), begun(**parameters)):
        assert query.suggest_batch_size(learner_of(), POOL, candidates=candidates) <= size
        rows, _ = learner_of(query).query(POOL, n_instances="auto", candidates=candidates)
        assert len(rows) <= size
    assert made(**parameters).suggest_batch_size(learner_of(), POOL, candidates=candidates) == min(
        size, parameters["batch_range"][0]
    )


def test_the_more_must_hold_the_smaller_the_batch():
    sizes = [begun(hold=hold).suggest_batch_size(learner_of(n_labelled=150), POOL) for hold in (0.95, 0.9, 0.8)]
    assert sizes == sorted(set(sizes))


def test_batches_grow_with_the_labels_and_the_same_evidence(monkeypatch):
    monkeypatch.setattr(_batch_size, "_seen", lambda query, learner, pool: Ageing(2.0, 0.9, 0.75, 0.001, 0.001))
    query = begun()
    few, many = (query.suggest_batch_size(learner_of(n_labelled=n), POOL) for n in (50, 200))
    assert many == pytest.approx(4 * few, abs=4)


def test_asking_changes_neither_the_next_batch_nor_the_answer():
    asked, silent = begun(), begun()
    learner = learner_of()
    first, second = (asked.suggest_batch_size(learner, POOL) for _ in range(2))
    assert first == second
    for k in (first, 4):
        np.testing.assert_array_equal(asked(learner, POOL, k)[0], silent(learner, POOL, k)[0])
    assert asked.batch_size_history_ == silent.batch_size_history_ == [5, first, 4]


def test_a_bootstrap_is_that_of_a_query_that_was_not_asked():
    asked, silent = (made(posterior="bootstrap", n_draws=3) for _ in range(2))
    learner = learner_of(estimator=GaussianNB())
    for query in (asked, silent):
        query(learner, POOL, 5)
    learner.teach(X[40:45], y[40:45])
    asked.suggest_batch_size(learner, POOL)
    np.testing.assert_array_equal(asked(learner, POOL, 6)[0], silent(learner, POOL, 6)[0])
    np.testing.assert_array_equal(asked.scores_, silent.scores_)


def test_global_random_numbers_are_left_alone():
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    begun().suggest_batch_size(learner_of(), POOL)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_a_round_is_remembered_once_and_old_ones_are_forgotten():
    query = begun()
    for n in (40, 45, 50, 55, 60, 60):
        query.suggest_batch_size(learner_of(n_labelled=n), POOL)
    assert list(query.memory_.ageing) == [45, 50, 55, 60]


def test_no_chunk_size_changes_sizes():
    assert rounds(made(chunk_size=60)) == rounds(made())


@pytest.mark.parametrize("hold", [pd.DataFrame, sparse.csr_matrix, np.ndarray.tolist])
def test_whatever_holds_the_rows_sizes_are_the_same(hold):
    assert rounds(made(), hold=hold) == rounds(made())


def test_a_net_of_this_package_and_a_search_can_be_asked():
    net = MCDropoutClassifier((8,), max_epochs=3, n_draws=5, device="cpu")
    search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2, 4]}, cv=2)
    for estimator, query in ((net, begun()), (search, begun(posterior=FOREST))):
        assert query.suggest_batch_size(learner_of(estimator=estimator, n_labelled=60), POOL) >= 5


def test_regressors_and_causal_queries_suggest_sizes():
    rows, target = X[:60], X[:60, 30].astype(float)
    forest = RandomForestRegressor(5, random_state=0).fit(rows, target)
    query = made(score="std_dev")
    given = {"X_training": rows, "y_training": target}
    query.select(forest, POOL, 3)
    assert query.suggest_batch_size(forest, POOL, **given) >= 5
    treated = np.column_stack([X[:60, 20:24], np.arange(60) % 2])
    causal = CausalBALDQuery("tau", treatment=-1, random_state=0)
    model = RandomForestRegressor(5, random_state=0).fit(treated, target)
    causal.select(model, treated, 3)
    assert causal.suggest_batch_size(model, treated, X_training=treated, y_training=target) >= 5


# --- it goes on -----------------------------------------------------------------------------------


def test_a_modal_loop_runs_on_auto_and_keeps_its_sizes():
    query, left = made(), np.arange(40, 400)
    learner = learner_of(query)
    for _ in range(4):
        n_before = len(learner.y_training)
        expected = query.suggest_batch_size(learner, X[left])
        rows, X_batch = learner.query(X[left], n_instances="auto")
        learner.teach(X_batch, y[left[rows]])
        left = np.delete(left, rows)
        assert query.batch_size_history_[-1] == len(rows) == expected == len(learner.y_training) - n_before
    assert query.batch_size_history_[0] == 5
    assert len(query.batch_size_history_) == 4


def test_a_learner_without_data_gets_the_smallest_batch_and_goes_on():
    query = made(batch_range=(12, 50))
    learner = ActiveLearner(clone(FOREST), query)
    with pytest.warns(UserWarning, match="not fitted"):
        rows, _ = learner.query(POOL, n_instances="auto")
    assert len(rows) == 12
    learner.teach(POOL[rows], y[200:500][rows])
    assert len(learner.query(POOL, n_instances="auto")[0]) >= 12


def test_a_pickled_query_goes_on_and_a_clone_starts_afresh():
    query = made()
    batches = rounds(query)
    twin = pickle.loads(pickle.dumps(query))
    assert rounds(twin) == rounds(query)
    assert twin.batch_size_history_ == query.batch_size_history_
    assert len(twin.batch_size_history_) == 6
    fresh = clone(query)
    assert not hasattr(fresh, "batch_size_history_")
    assert rounds(fresh) == batches


# --- experiments ----------------------------------------------------------------------------------


def experiment(checkpoint=None, **more):
    queries = {"power": made(), "uniform": made(sampler="uniform")}
    options = {"n_initial": 20, "budget": 30, "n_trials": 2, "random_state": 1, "batch_size": "auto", **more}
    return run_experiment(FOREST, queries, X[:200], y[:200], checkpoint=checkpoint, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("auto") / "whole"
    return experiment(path), path


def runs_of(result):
    found = {}
    for r in result.rounds:
        found.setdefault((r.query, r.trial), []).append(r)
    return found


@pytest.mark.slow
def test_an_experiment_buys_suggested_batches_to_the_last_label(whole):
    for of in runs_of(whole[0]).values():
        sizes = [len(r.indices) for r in of]
        assert sizes[:2] == [20, 5]
        assert sum(sizes) == of[-1].n_labelled == 50
        assert min(sizes[:-1]) >= 5


@pytest.mark.parametrize("n_records", [5, 7])
@pytest.mark.slow
def test_an_experiment_that_was_interrupted_goes_on_with_the_same_sizes(whole, n_records, tmp_path):
    result, path = whole
    cut = tmp_path / "cut"
    shutil.copy(path, cut)
    keep_records(cut, n_records)
    resumed = experiment(cut)
    assert [(r.indices, r.scores) for r in resumed.rounds] == [(r.indices, r.scores) for r in result.rounds]


def test_rounds_can_be_counted_instead():
    result = experiment(budget=None, n_rounds=2, n_trials=1)
    assert {len(of) for of in runs_of(result).values()} == {3}


def test_means_weigh_labels_not_rounds_where_sizes_differ(whole):
    summary = whole[0].summary()
    assert summary.title == "mean over labels"
    expected = []
    for (query, _), of in runs_of(whole[0]).items():
        lines = np.interp(np.linspace(20, 50, 3001), [r.n_labelled for r in of], [r.scores["score"] for r in of])
        expected += [(lines[1:] + lines[:-1]).mean() / 2] if query == "power" else []
    assert summary.rows[0]["mean"].mean == pytest.approx(np.mean(expected), abs=1e-6)


def test_curves_of_differing_sizes_are_drawn_by_straight_lines(whole):
    display = LearningCurveDisplay.from_result(whole[0])
    of = runs_of(whole[0])[("power", 0)]
    numbers = display.n_labelled["power"]
    assert {r.n_labelled for r in of} <= set(numbers.tolist())
    expected = np.interp(numbers, [r.n_labelled for r in of], [r.scores["score"] for r in of])
    np.testing.assert_allclose(display.scores["power"][0], expected)
    differences = PairedDifferenceDisplay.from_result(whole[0])
    np.testing.assert_array_equal(differences.n_labelled["power"], numbers)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("queries_before", [0, 1])
def test_an_estimator_by_itself_needs_its_training_data(queries_before):
    query = begun() if queries_before else made()
    for ask in (lambda: query.suggest_batch_size(FITTED, POOL), lambda: query.select(FITTED, POOL, "auto")):
        with pytest.raises(ValueError, match=r"`X_training` and `y_training` must be known.*give `n_instances` a num"):
            ask()


@pytest.mark.parametrize("query", [BatchBALDQuery(), BADGEQuery(), ACSFWQuery()])
def test_queries_that_suggest_no_size_are_refused(query):
    with pytest.raises(ValueError, match=r'`n_instances`="auto" needs.*give a number'):
        query.select(FITTED, POOL, "auto")
    with pytest.raises(ValueError, match=r'`batch_size`="auto" needs.*`queries`\[\'other\'\].*give `batch_size` a num'):
        run_experiment(FOREST, {"p": made(), "other": query}, X, y, n_initial=20, batch_size="auto", n_rounds=1)


def test_other_words_are_no_sizes():
    with pytest.raises(TypeError, match="`n_instances`"):
        made().select(FITTED, POOL, "large")
    with pytest.raises(TypeError, match='`batch_size` must be "auto" or an integer, 1 or larger'):
        run_experiment(FOREST, {"p": made()}, X, y, n_initial=20, batch_size="large", n_rounds=1)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"batch_range": 5}, TypeError),
        ({"batch_range": (5, None)}, TypeError),
        ({"batch_range": (1.0, 5)}, TypeError),
        ({"batch_range": (0, 5)}, ValueError),
        ({"batch_range": (6, 5)}, ValueError),
        ({"hold": "0.8"}, TypeError),
        ({"hold": 0}, ValueError),
        ({"hold": 1}, ValueError),
        ({"hold": np.nan}, ValueError),
    ],
)
def test_bounds_and_parts_that_are_none_are_refused(parameters, error):
    with pytest.raises(error, match=f"`{next(iter(parameters))}`"):
        made(**parameters).suggest_batch_size(learner_of(), POOL)


def test_a_model_that_cannot_be_fitted_to_half_the_labels_says_so():
    class Hungry(LogisticRegression):
        def fit(self, X, y):
            if len(y) < 40:
                raise ValueError("not enough rows")
            return super().fit(X, y)

    query = begun(score="entropy")
    with pytest.raises(ValueError, match=r"Fitting Hungry again to 20 of the labels.*not enough rows.*a number until"):
        query.suggest_batch_size(learner_of(estimator=Hungry(max_iter=10, tol=1)), POOL)


@pytest.mark.parametrize("size", [0, 2.5, 10_000, None])
def test_an_experiment_refuses_a_suggestion_that_is_no_size(size):
    class Odd:
        def suggest_batch_size(self, learner, X_pool):
            return size

        def __call__(self, learner, X_pool, n_instances=1):
            return np.arange(n_instances)

    with pytest.raises(ValueError, match=r"suggest_batch_size must return an integer from 1 to the"):
        run_experiment(GaussianNB(), {"odd": Odd()}, X[:90], y[:90], n_initial=20, batch_size="auto", n_rounds=1)


def test_a_committee_is_told_to_give_a_number():
    forests = [ActiveLearner(RandomForestClassifier(3), X_training=X[:30], y_training=y[:30]) for _ in range(2)]
    query = StochasticBatchQuery(random_state=0)
    committee = Committee(forests, query)
    rows, _ = committee.query(POOL, n_instances=5)
    assert len(rows) == 5
    with pytest.raises(ValueError, match="cannot be done with a Committee"):
        committee.query(POOL, n_instances="auto")


def test_the_word_is_written_in_small_letters():
    with pytest.raises(TypeError, match='`n_instances` must be an integer or "auto"'):
        made().select(FITTED, POOL, "Auto")
