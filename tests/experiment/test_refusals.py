"""What an experiment says to bad input: before the first run, and of queries and scorers that misbehave in one."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from skactive import StochasticBatchQuery, run_experiment

X = np.random.default_rng(0).normal(size=(60, 4))
LABELS = np.array(["ash", "elm", "oak"])[np.clip(np.rint(X[:, 0] + 1), 0, 2).astype(int)]


class NeverToBeFitted(ClassifierMixin, BaseEstimator):
    """What is wrong must be said before anything runs."""

    def fit(self, X, y):
        raise NotImplementedError


def experiment(**changes):
    arguments = {"n_initial": 6, "batch_size": 4, "n_rounds": 2, "n_trials": 2, "random_state": 0, "X": X, "y": LABELS}
    queries = {"uniform": StochasticBatchQuery("entropy", "uniform")}
    return run_experiment(**{"estimator": NeverToBeFitted(), "queries": queries, **arguments, **changes})


GAP = pd.Series([*LABELS[:3], None, *LABELS[4:]], dtype="string")
SPLITS = [(range(40), range(40, 60))] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_initial": 2}, "`n_initial` must be at least the number of classes, 3.*stratify=False.*`initial`"),
        ({"n_initial": 46}, "`n_initial` must be at most the 45 rows"),
        ({"n_initial": None}, "`n_initial` or `initial` must be given. Got neither"),
        ({"budget": 10}, "`n_rounds` or `budget` must be given. Got both"),
        ({"n_initial": None, "initial": [[0, 1]]}, r"`initial` .* n_trials=2. Got 1"),
        ({"n_initial": None, "initial": [[0, 1], [2, 60]]}, r"`initial\[1\]` .* from 0 to 59 \(not index labels\)"),
        ({"batch_size": 40}, "`batch_size` must be at most the rows of the pool, 39.*Got 40"),
        ({"scoring": ["accuracy", "accuracy"]}, "`scoring` as a list .* differently"),
        ({"scoring": {"round": "accuracy"}}, "`scoring` must have .* none of trial"),
        ({"y": GAP}, "`y` must have a finite label for every row. Got .* in row 3, and 1 such"),
        ({"y": LABELS[1:]}, r"`y` must have shape \(60, \.\.\.\).*Got \(59,\)"),
        ({"X_test": X[:30]}, "`X_test` and `y_test` must be given"),
        ({"splits": SPLITS, "test_size": 0.5}, "Only one of `X_test`, `test_size` and `splits`"),
        ({"test_size": 60}, "`test_size` must leave rows to train on: .* below 60"),
        (
            {"splits": [(range(40), range(39, 60))] * 2},
            "`splits` must have no row in both parts. Got row 39",
        ),
        ({"splits": SPLITS, "n_initial": None, "initial": [[1], [50]]}, "`initial` must hold only training rows"),
        ({"sample_weight": np.arange(60.0), "estimator": KNeighborsClassifier()}, "`sample_weight` must be None"),
        ({"estimator": RandomForestClassifier}, "`estimator` must be .* Got the class RandomForestClassifier"),
        ({"queries": {"a": StochasticBatchQuery}}, r"`queries`\['a'\] must be a query or a callable"),
        ({"queries": {"a": StochasticBatchQuery(beta=-1)}}, r"`queries`\['a'\] has a parameter that is not valid"),
    ],
)
def test_what_is_wrong_with_an_experiment_is_said_before_anything_runs(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        experiment(**changes)


def test_a_checkpoint_that_cannot_be_a_file_is_refused_before_anything_runs():
    with pytest.raises(OSError, match=r"`checkpoint`=.* could not be written"):
        experiment(checkpoint="no_such_folder/run.sqlite")


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        ([0, 1, 2, 2], "3 distinct values"),
        ([0, 1, 2], r"shape \(3,\)"),
        ([0, 1, 2, 39], r"\[ 0  1  2 39\]"),
        ([0.0, 1.0, 2.0, 3.0], "float64"),
        (None, "object"),
    ],
)
def test_a_query_that_returns_no_batch_is_named_with_what_it_returned(answer, got):
    message = rf"`queries`\['mine'\] must return 4 distinct positions .* to 38. Got .*{got}"
    with pytest.raises(ValueError, match=message):
        experiment(estimator=KNeighborsClassifier(1), queries={"mine": lambda learner, X_pool, n_instances: answer})


@pytest.mark.parametrize("value", [math.nan, "accuracy"])
def test_a_scorer_that_returns_no_finite_number_is_named(value):
    with pytest.raises(RuntimeError, match=rf"`scoring`: 'mine' must return a finite number.* Got '?{value}"):
        experiment(estimator=KNeighborsClassifier(1), scoring={"mine": lambda estimator, X, y: value})


def test_a_level_or_reference_that_is_none_is_refused():
    result = experiment(estimator=KNeighborsClassifier(1))
    for compare in (result.summary, result.label_savings):
        for level in (math.nan, "0.9"):
            with pytest.raises((TypeError, ValueError), match="`level` must be None or a finite number"):
                compare(level=level)
        with pytest.raises(ValueError, match=r"`reference` must be one of \['uniform'\]. Got 'random'"):
            compare(reference="random")
