"""Experiments: paired trials, seeds, splits, records, failures, and what a result says over all trials."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.model_selection import GroupShuffleSplit
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from skorch import NeuralNetClassifier
from torch import nn

from skactive import ExperimentResult, LearningCurveDisplay, StochasticBatchQuery, run_experiment
from skactive._utils import randomness as global_random
from skactive._utils import statistics
from skactive.experiment._results import Failure, Round
from skactive.experiment._run import choose_initial, plan_trials

X, Y = load_iris(return_X_y=True)
LABELS = np.array(["ash", "elm", "oak"])[Y]


def uniform(learner, X_pool, n_instances=1):
    return np.random.choice(X_pool.shape[0], n_instances, replace=False)  # noqa: NPY002 - as users do


def first_rows(learner, X_pool, n_instances=1):
    return np.arange(n_instances)


def run(queries=None, estimator=None, X=X, y=LABELS, **arguments):
    """A small experiment; arguments change it."""
    arguments = {"n_initial": 6, "batch_size": 4, "n_rounds": 2, "n_trials": 2, "random_state": 0, **arguments}
    queries = {"uniform": uniform} if queries is None else queries
    return run_experiment(KNeighborsClassifier(1) if estimator is None else estimator, queries, X, y, **arguments)


def numbers(result):
    return [(r.trial, r.query, r.round, r.n_labelled, r.indices, r.scores) for r in result.rounds]


def by_run(result):
    """Rounds of each (query, trial)."""
    runs = {}
    for r in result.rounds:
        runs.setdefault((r.query, r.trial), []).append(r)
    return runs


# asreview/asreview #14, modAL-python/modAL #191: the last batch is smaller, and nothing breaks or is lost
@pytest.mark.parametrize(
    ("n_rows", "n_initial", "batch_size", "end", "n_labelled"),
    [
        (14, 4, 4, {"n_rounds": 10}, [4, 8, 12, 14]),
        (10, 2, 3, {"n_rounds": 2}, [2, 5, 8]),
        (5, 5, 2, {"n_rounds": 3}, [5]),
        (40, 10, 4, {"n_rounds": None, "budget": 10}, [10, 14, 18, 20]),
    ],
)
def test_rounds_end_with_the_pool_or_the_budget_and_the_last_batch_is_smaller(
    n_rows, n_initial, batch_size, end, n_labelled
):
    sizes = {"n_initial": n_initial, "batch_size": batch_size, **end, "X_test": X, "y_test": X[:, 0]}
    for rounds in by_run(run(estimator=KNeighborsRegressor(1), X=X[:n_rows], y=X[:n_rows, 0], **sizes)).values():
        assert [r.n_labelled for r in rounds] == n_labelled
        assert [len(r.indices) for r in rounds] == np.diff([0, *n_labelled]).tolist()


def test_a_round_is_what_its_record_says():
    seen = {"rows": lambda e, X, y: e.n_samples_fit_, "accuracy": "accuracy"}
    result = run({"uniform": uniform, "first": first_rows}, X_test=X, y_test=LABELS, scoring=seen)
    for rounds in by_run(result).values():
        labelled = []
        for number, r in enumerate(rounds):
            labelled += r.indices
            assert (r.round, r.n_labelled) == (number, len(labelled))
            model = KNeighborsClassifier(1).fit(X[labelled], LABELS[labelled])
            assert r.scores == {"rows": len(labelled), "accuracy": model.score(X, LABELS)}
            assert r.fit_seconds > 0
            assert (r.query_seconds is None) == (number == 0)
            assert number == 0 or r.query_seconds > 0
        assert len(set(labelled)) == len(labelled)


def test_queries_share_first_labels_and_the_seeds_of_a_trial_and_no_two_rounds_have_the_same():
    model = make_pipeline(BaggingClassifier(DecisionTreeClassifier(max_features=1), 2, random_state=7))
    parts = {"outer": lambda e, X, y: e[-1].random_state, "inner": lambda e, X, y: e[-1].estimator.random_state}
    result = run({"a": uniform, "b": first_rows}, model, scoring={**parts, "accuracy": "accuracy"})
    runs, seeds = by_run(result), {}
    for trial in range(2):
        a, b = runs["a", trial][0], runs["b", trial][0]
        assert (a.indices, a.scores) == (b.indices, b.scores)
    assert runs["a", 0][0].indices != runs["a", 1][0].indices
    for r in result.rounds:
        seeds.setdefault((r.trial, r.round), set()).add(r.scores["outer"])
        assert r.scores["outer"] != r.scores["inner"]  # of every part of a model
    assert all(len(of) == 1 for of in seeds.values())
    assert len(set.union(*seeds.values())) == 6


def test_equal_queries_find_the_same_under_any_name_and_with_other_queries_beside_them():
    def query(**params):
        return StochasticBatchQuery("entropy", "softmax", **params)

    forest = RandomForestClassifier(5)
    both = run({"a": query(random_state=1), "x": uniform, "b": query(random_state=2)}, forest)
    named_a = [n for n in numbers(both) if n[1] == "a"]
    assert [(t, "a", *rest) for t, q, *rest in numbers(both) if q == "b"] == named_a
    assert numbers(run({"a": query()}, forest)) == named_a


def test_a_seed_gives_the_same_numbers_again_and_another_gives_others():
    tree = DecisionTreeClassifier(max_features=1)
    first = numbers(run(estimator=tree, random_state=5))
    assert numbers(run(estimator=tree, random_state=5)) == first
    assert numbers(run(estimator=tree, random_state=6)) != first
    rng = np.random.default_rng(5)
    goes_on = [numbers(run(estimator=tree, random_state=rng)) for _ in range(2)]
    assert goes_on[0] != goes_on[1]
    assert numbers(run(random_state=None)) != numbers(run(random_state=None))


def test_a_strategy_keeps_its_state_within_a_run_and_starts_afresh_in_the_next():
    calls = []

    def strategy(learner, X_pool, n_instances=1):
        calls.append(1)
        return np.arange(n_instances) + len(calls)

    for initial, first, second in by_run(run({"counting": strategy}, X_test=X, y_test=LABELS)).values():
        left = np.setdiff1d(np.arange(len(X)), initial.indices)
        assert first.indices == tuple(left[1:5])
        assert second.indices == tuple(np.setdiff1d(left, first.indices)[2:6])
    assert calls == []


def test_each_batch_of_a_run_is_chosen_with_a_seed_of_its_own():
    # the same seed in every round would give the same positions, as pools differ by four rows only
    query = StochasticBatchQuery("entropy", "uniform")
    initial, first, second = by_run(run({"uniform": query}, X_test=X, y_test=LABELS))["uniform", 0]
    left = np.setdiff1d(np.arange(len(X)), initial.indices)
    after = np.setdiff1d(left, first.indices)
    assert [np.flatnonzero(left == i) for i in first.indices] != [np.flatnonzero(after == i) for i in second.indices]


class Net(nn.Sequential):
    """Its weights and its dropout come from torch's global generator."""

    def __init__(self):
        super().__init__(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))


@pytest.mark.usefixtures("global_state_untouched")
def test_global_generators_are_neither_a_source_nor_touched():
    net = NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, max_epochs=1, train_split=None, verbose=0)
    first = run(estimator=net, X=X.astype(np.float32), y=Y, n_trials=1)
    with global_random.seeded(9):
        assert numbers(run(estimator=net, X=X.astype(np.float32), y=Y, n_trials=1)) == numbers(first)


def test_what_was_passed_in_is_as_it_was():
    forest, query = RandomForestClassifier(3, random_state=1), StochasticBatchQuery("entropy", random_state=2)
    frame, labels = pd.DataFrame(X, columns=list("abcd")), pd.Series(LABELS)
    run({"query": query}, forest, X=frame, y=labels)
    assert vars(forest).keys() == vars(RandomForestClassifier()).keys()  # not fitted
    assert (forest.random_state, query.random_state) == (1, 2)
    assert vars(query).keys() == vars(StochasticBatchQuery()).keys()
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, columns=list("abcd")))
    pd.testing.assert_series_equal(labels, pd.Series(LABELS))


def test_labels_of_a_single_output_may_be_a_column():
    assert numbers(run(None, MultiOutputClassifier(KNeighborsClassifier(1)), y=Y[:, np.newaxis])) == numbers(run(y=Y))


def trials_of(n_points=100, strata=None, n_trials=3, **arguments):
    arguments = {"n_initial": 6} | arguments if "initial" not in arguments else arguments
    return plan_trials(n_points, strata, [1, 2], n_trials, 4, **arguments)


@pytest.mark.parametrize(("test_size", "n_test"), [(None, 25), (0.301, 31), (40, 40)])
def test_every_trial_tests_on_other_rows_and_the_rest_can_be_labelled(test_size, n_test):
    trials = trials_of(test_size=test_size)
    for trial, of_more in zip(trials, trials_of(test_size=test_size, n_trials=5), strict=False):
        assert len(trial.test) == n_test
        np.testing.assert_array_equal(np.union1d(trial.train, trial.test), np.arange(100))
        assert not set(trial.train) & set(trial.test)
        assert set(trial.initial) <= set(trial.train)
        assert len(set(trial.initial)) == 6
        np.testing.assert_array_equal(trial.initial, of_more.initial)
    assert len({tuple(trial.test) for trial in trials}) == len({tuple(trial.initial) for trial in trials}) == 3
    (with_test_set,) = trials_of(has_test_set=True, n_trials=1)
    assert with_test_set.test is None
    np.testing.assert_array_equal(with_test_set.train, np.arange(100))


def test_given_splits_and_first_labels_are_taken_as_they_are():
    groups = np.arange(100) // 10
    splits = list(GroupShuffleSplit(3, random_state=0).split(groups, groups=groups))
    initial = [train[[5, 0, 3]] for train, _ in splits]
    for trial, (train, test), start in zip(trials_of(splits=splits, initial=initial), splits, initial, strict=True):
        np.testing.assert_array_equal(trial.train, train)
        np.testing.assert_array_equal(trial.test, test)
        np.testing.assert_array_equal(trial.initial, start)


def test_given_first_labels_are_never_tested_on_and_splits_have_the_proportions_of_the_classes():
    initial = [np.arange(t, 70 + t) for t in range(3)]
    for trial, start in zip(trials_of(initial=initial, test_size=25), initial, strict=True):
        assert len(trial.test) == 25
        assert not set(trial.test) & set(start)
    strata = np.repeat(["many", "few"], [80, 20])
    assert [(strata[trial.test] == "few").sum() for trial in trials_of(strata=strata)] == [5, 5, 5]


@given(st.data())
def test_stratified_first_labels_have_every_class_and_its_share(data):
    counts = np.array(data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=6)))
    n_initial = data.draw(st.integers(len(counts), counts.sum()))
    rows = np.random.default_rng(0).permutation(1000)[: counts.sum()]
    strata = np.zeros(1000, dtype=int)
    strata[rows] = np.repeat(np.arange(len(counts)), counts)
    initial = choose_initial(rows, strata, n_initial, np.random.default_rng(data.draw(st.integers(0, 100))))
    assert len(set(initial.tolist())) == len(initial) == n_initial
    assert set(initial) <= set(rows)
    chosen, share = np.bincount(strata[initial], minlength=len(counts)), n_initial * counts / counts.sum()
    assert (chosen >= 1).all()
    assert (chosen < np.maximum(share, 1) + 1).all()  # rounded up at most
    rare = np.maximum(0, 1 - share).sum()  # what the rows of rare classes take from the others
    assert (chosen > share - 1 - rare).all()


def test_a_scorer_that_asks_for_rows_gets_their_positions_in_the_callers_data():
    def agrees(estimator, X_test, y_test, *, rows):
        return float(np.array_equal(X[rows], X_test) and np.array_equal(LABELS[rows], y_test))

    assert {r.scores["agrees"] for r in run(scoring=agrees).rounds} == {1.0}
    assert {r.scores["agrees"] for r in run(scoring=agrees, X_test=X, y_test=LABELS).rounds} == {1.0}


class FailsWhenTold(KNeighborsClassifier):
    """Cannot be fitted with the first row of the data."""

    def fit(self, X, y):
        if (globals()["X"][0] == X).all(axis=1).any() and len(y) > 6:
            raise ArithmeticError("row 0")
        return super().fit(X, y)


def test_a_run_that_fails_is_marked_and_the_others_are_as_they_would_be():
    starts = [[1, 60, 120, 2, 61, 121], [0, 60, 120, 2, 61, 121]]
    arguments = {"n_initial": None, "initial": starts, "X_test": X[1:], "y_test": LABELS[1:]}
    queries = {
        "uniform": uniform,
        "last": lambda learner, X_pool, n_instances: len(X_pool) - 1 - np.arange(n_instances),
    }
    with pytest.warns(UserWarning, match=r"2 of 4 runs failed.*trial 1, round 1: ArithmeticError: row 0"):
        result = run(queries, FailsWhenTold(1), **arguments)
    undisturbed = run(queries, KNeighborsClassifier(1), **arguments)
    assert [(f.trial, f.query, f.round, f.message) for f in result.failures] == [
        (1, "uniform", 1, "row 0"),
        (1, "last", 1, "row 0"),
    ]
    assert numbers(result) == [n for n in numbers(undisturbed) if n[0] == 0 or n[2] == 0]
    assert [row["n_trials"] for row in result.summary().rows] == [1, 1]
    assert ExperimentResult.from_json(result.to_json()) == result


def test_an_experiment_of_which_nothing_is_left_raises_the_first_error():
    def fails(learner, X_pool, n_instances):
        raise LookupError("no idea")

    with pytest.raises(RuntimeError, match=r"(?s)Every run failed.*LookupError: no idea"):
        run({"fails": fails})


def made_up(curves, n_labelled=(10, 20, 30)):
    """A result of given scores: curves[query] has shape (n_trials, n_rounds + 1)."""
    rounds = [
        Round(t, query, i, n_labelled[i], (i,), {"accuracy": float(value)}, None if i == 0 else 0.5, 0.1)
        for query, of in curves.items()
        for t, curve in enumerate(of)
        for i, value in enumerate(curve)
    ]
    return ExperimentResult(tuple(rounds))


def test_json_gives_the_same_result_back_to_the_last_bit():
    result = run({"a": uniform}, scoring=["accuracy", "neg_log_loss"])
    assert result.to_frame()["accuracy"].tolist() == [r.scores["accuracy"] for r in result.rounds]
    failed = ExperimentResult(result.rounds, (Failure(0, "a", 1, "E", "m", "t"),), {"x": [1]})
    for one in (result, failed, made_up({"a": [[0.1, np.inf, -np.inf]]})):
        assert ExperimentResult.from_json(one.to_json()) == one


def test_a_summary_leaves_the_first_labels_out_and_has_students_numbers():
    rng = np.random.default_rng(0)
    curves = {name: rng.random((8, 3)) for name in ("power", "uniform", "topk")}
    rows = {row["query"]: row for row in made_up(curves).summary().rows}
    means = {name: curve[:, 1:].mean(axis=1) for name, curve in curves.items()}
    for name, row in rows.items():
        low, high = stats.t.interval(0.95, 7, means[name].mean(), stats.sem(means[name]))
        np.testing.assert_allclose(
            [row["mean"].mean, row["mean"].low, row["mean"].high], [means[name].mean(), low, high]
        )
        assert row["n_trials"] == 8
    for name in ("power", "topk"):
        test = stats.ttest_rel(means[name], means["uniform"])
        interval = test.confidence_interval(0.95)
        difference = rows[name]["difference"]
        np.testing.assert_allclose([difference.low, difference.high], interval)
        d = means[name] - means["uniform"]
        flips = [abs(np.dot(signs, d)) for signs in itertools.product((-1, 1), repeat=8)]
        assert rows[name]["p_value"] == np.mean(np.array(flips) >= abs(d.sum()) - 1e-12)
    p = [rows["power"]["p_value"], rows["topk"]["p_value"]]
    assert [rows["power"]["p_holm"], rows["topk"]["p_holm"]] == pytest.approx(reference.holm(p))
    assert np.isnan(rows["uniform"]["p_holm"])


def test_labels_to_a_level_are_where_the_lines_between_evaluations_reach_it():
    curves = {"a": [[0.1, 0.8, 0.7], [0.5, 0.4, 0.9]], "b": [[0.7, 0.2, 0.2], [0.1, 0.2, 0.3]]}
    a, b = made_up(curves).summary(level=0.7, reference="a").rows
    assert a["labels"].mean == pytest.approx(((10 + 10 * 0.6 / 0.7) + (20 + 10 * 0.3 / 0.5)) / 2)
    assert a["reached"] == 2
    assert (b["labels"].mean, b["reached"], b["n_trials"]) == (10.0, 1, 2)
    a, b = made_up(curves).summary().rows
    assert a["level"] == b["level"] == 0.3  # the highest that every run reaches
    assert a["reached"] == b["reached"] == 2


def test_label_savings_compare_at_the_highest_level_that_both_reach_in_a_trial():
    curves = {"a": [[0.1, 0.8, 0.9], [0.5, 0.6, 0.6]], "uniform": [[0.1, 0.2, 0.8], [0.6, 0.7, 0.8]]}
    (row,) = made_up(curves).label_savings().rows
    assert row["saved"].mean == ((30 - 20) + (10 - 20)) / 2
    assert row["n_trials"] == 2
    (row,) = made_up(curves).label_savings(level=0.75).rows
    assert row["saved"].mean == pytest.approx((20 + 10 * 0.55 / 0.6) - (10 + 10 * 0.65 / 0.7))
    assert row["n_trials"] == 1  # in the second trial "a" never gets there


def test_a_trial_in_which_one_run_failed_is_left_out_for_all_and_a_query_that_always_fails_by_itself():
    curves = {"a": [[0.1, 0.9], [0.1, 0.2]], "b": [[0.1, 0.7], [0.1, 0.8]], "c": [[0.1, 0.5], [0.1, 0.6]]}
    whole = made_up(curves)
    failures = tuple(Failure(trial, query, 1, "E", "m", "t") for trial, query in [(1, "a"), (0, "c"), (1, "c")])
    rows = {row["query"]: row for row in ExperimentResult(whole.rounds, failures, whole.settings).summary("b").rows}
    assert (rows["a"]["n_trials"], rows["b"]["n_trials"], rows["c"]["n_trials"]) == (1, 1, 0)
    assert rows["b"]["mean"].mean == pytest.approx(0.7)  # without 0.8, that of the trial in which "a" failed


@pytest.mark.parametrize(
    ("mean", "spread", "verdict"),
    [
        (0.002, 0.0001, "better, within the margin"),
        (0.0005, 0.001, "within the margin"),
        (0.05, 0.0, "better"),  # with a p of 2 / 2**8
        (0.0, 0.0, "within the margin"),
    ],
)
def test_verdicts_say_whether_a_difference_matters_if_there_is_a_scale(mean, spread, verdict):
    curves = {"a": [[0.5, 0.7 + mean + spread * x] for x in np.linspace(-1, 1, 8)], "uniform": [[0.5, 0.7]] * 8}
    found = made_up(curves)
    assert found.summary(margin=0.01).rows[0]["verdict"] == verdict
    shares = ExperimentResult(found.rounds, settings={"shares": ["accuracy"]})
    assert shares.summary().rows[0]["verdict"] == verdict
    without = verdict if spread == 0 else "better" if mean > spread else "cannot be told"
    assert found.summary().rows[0]["verdict"] == without  # in units of its own, nothing is small


@given(st.integers(3, 10), st.integers(1, 4), st.integers(0, 10_000))
def test_a_verdict_and_its_p_agree_and_what_cannot_be_told_takes_more_trials(n_trials, n_queries, seed):
    rng = np.random.default_rng(seed)
    gains = rng.choice([0, 0.5, 2]) + rng.standard_exponential((n_queries, n_trials)) - 1  # skewed: t and p part
    curves = {str(q): [[20, 20 + gain] for gain in of] for q, of in enumerate(gains)}
    result = made_up({"uniform": [[20, 20]] * n_trials, **curves}, (1, 2))
    rows, fewest = result.summary().rows[1:], statistics.fewest_trials(n_queries)
    for row in rows:
        assert np.isnan(row["p_value"]) == np.isnan(row["p_holm"]) == (n_trials < fewest)
        sure = row["p_holm"] <= 0.05
        assert ("better" in row["verdict"]) == (sure and row["difference"].low > 0)
        assert ("worse" in row["verdict"]) == (sure and row["difference"].high < 0)
        assert np.isnan(row["trials_to_tell"]) == (row["verdict"] != "cannot be told")
        assert not row["trials_to_tell"] < max(fewest, n_trials + 1)
    text = str(result.summary())
    assert ("over 1,000" in text) == any(row["trials_to_tell"] == np.inf for row in rows)
    assert (f"p and verdicts need {fewest} trials or more (comparisons: {n_queries})" in text) == (n_trials < fewest)


def test_the_fewest_trials_are_those_whose_smallest_p_is_significant_for_all_comparisons():
    smallest = {n: statistics.paired_p_value(np.arange(1, n + 1)) for n in range(2, 12)}
    for n_comparisons in range(1, 30):
        significant = [n for n, p in smallest.items() if statistics.holm([p] * n_comparisons)[0] <= 0.05]
        assert statistics.fewest_trials(n_comparisons) == min(significant)


@pytest.mark.parametrize("differences", [(1.0, 0.5, 0.2), (1, 1.4, 0.2, 1.9), (1, 0.2, 1.9), (1, -1, 0.6, 2, -0.3)])
@pytest.mark.parametrize("n_comparisons", [1, 3])
def test_trials_to_tell_give_students_test_a_power_of_four_fifths_and_no_fewer_do(differences, n_comparisons):
    d, rng, repetitions = np.array(differences), np.random.default_rng(0), 20_000
    n = int(statistics.trials_to_tell(d, n_comparisons))

    def n_told(n):
        found = stats.ttest_1samp(rng.normal(d.mean(), d.std(ddof=1), (repetitions, n)), 0, axis=1)
        return np.sum((found.pvalue <= 0.05 / n_comparisons) & (found.statistic > 0))

    assert stats.binom.cdf(n_told(n), repetitions, 0.8) > 1e-6
    if n > max(statistics.fewest_trials(n_comparisons), len(d) + 1):
        assert stats.binom.sf(n_told(n - 1), repetitions, 0.8) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("law", "skew"), [("normal", False), ("exponential", True), ("lognormal", True)])
@pytest.mark.parametrize("n_trials", [3, 5, 8, 10])
def test_intervals_of_few_trials_hold_as_often_as_the_guide_says(law, skew, n_trials):
    rng, n = np.random.default_rng(0), 4_000
    mean = {"normal": 0, "exponential": 1, "lognormal": math.exp(0.5)}[law]
    found = [statistics.estimate(values) for values in getattr(rng, law)(size=(n, n_trials))]
    held = sum(one.low <= mean <= one.high for one in found)
    low, high = (0.82, 0.90) if skew else (0.95, 0.95)
    assert stats.binom.sf(held - 1, n, high + 0.005) > 1e-6  # the guide rounds
    assert stats.binom.cdf(held, n, low - 0.005) > 1e-6


def test_intervals_of_accuracies_end_at_0_and_1_and_those_of_other_scores_do_not():
    names = ["accuracy", "f1_macro", "neg_log_loss"]
    result = run({"a": first_rows, "uniform": uniform}, n_initial=30, stratify=False, scoring=names)
    own = run({"a": first_rows, "uniform": uniform}, n_initial=30, stratify=False)
    frame = pd.concat([result.summary().to_frame(), own.summary().to_frame()]).set_index("score")
    shares = frame.drop("neg_log_loss")
    assert (shares["mean_high"] == 1.0).any()  # cut there
    assert (shares["mean"] < 1).all()
    assert min(shares["difference_low"].min() + 1, shares["labels_low"].min()) >= 0
    assert frame.loc["neg_log_loss", "mean_high"].max() > 1
    of_r2 = run({"a": first_rows}, KNeighborsRegressor(1), y=X[:, 3], n_initial=30).limits_of("score")
    assert of_r2 == made_up({"a": [[0.5, 0.6]]}).limits_of("accuracy") == (-np.inf, np.inf)
    bands = LearningCurveDisplay.from_result(result).bands_
    assert max(band.get_paths()[0].vertices[:, 1].max() for band in bands.values()) == 1.0


def test_one_trial_has_means_and_no_intervals():
    result = made_up({"a": [[0.1, 0.2, 0.3]], "uniform": [[0.1, 0.2, 0.2]]})
    row = result.summary().rows[0]
    assert (row["mean"].mean, row["difference"].mean) == (0.25, pytest.approx(0.05))
    assert np.isnan([row["mean"].low, row["difference"].high, row["p_value"], row["p_holm"]]).all()
    assert "nan" not in str(result.summary()) + str(result.label_savings())
    assert np.isnan(made_up({"a": [[0.1]]}).summary().rows[0]["mean"].mean)  # of first labels alone


@given(st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=8))
def test_p_values_of_few_pairs_count_all_sign_flips(differences):
    seen, as_far, all_flips = abs(math.fsum(differences)), 0, 0
    for signs in itertools.product((-1, 1), repeat=len(differences)):
        all_flips += 1
        as_far += abs(math.fsum(s * d for s, d in zip(signs, differences, strict=True))) >= seen
    assert statistics.paired_p_value(differences) == as_far / all_flips


def test_p_values_of_many_pairs_are_near_those_of_all_sign_flips():
    rng = np.random.default_rng(0)
    differences = rng.normal(0.5, 1, 16)
    signs = np.array([*itertools.product((-1, 1), repeat=16)])
    exact = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12)
    assert abs(statistics.paired_p_value(differences) - exact) < 5 * math.sqrt(exact / 20_000)
    assert statistics.paired_p_value(differences) == statistics.paired_p_value(differences)
