"""What an experiment says to bad input: before the first run, and of queries and scorers that misbehave in one."""

from __future__ import annotations

import functools
import math
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score
from sklearn.neighbors import KNeighborsClassifier

from skactive import StochasticBatchQuery, run_experiment
from skactive.experiment._experiment import RULES


def table(n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).astype(np.float32)
    y = np.clip(np.rint(X[:, 0] + 1 + rng.normal(scale=0.3, size=n_rows)), 0, 2).astype(np.int64)
    return X, y


X_TRAIN, Y_TRAIN = table()
LABELS = np.array(["ash", "elm", "oak"])[Y_TRAIN]
X_POOL, _ = table(30, seed=1)


class NeverToBeFitted(ClassifierMixin, BaseEstimator):
    """What is wrong must be said before anything runs."""

    def fit(self, X, y):
        raise NotImplementedError


def experiment(**changes):
    arguments = {"n_initial": 6, "batch_size": 4, "n_rounds": 2, "n_trials": 2, "random_state": 0, **changes}
    queries = arguments.pop("queries", {"uniform": StochasticBatchQuery("entropy", "uniform")})
    estimator = arguments.pop("estimator", NeverToBeFitted())
    X, y = arguments.pop("X", X_TRAIN), arguments.pop("y", LABELS)
    return run_experiment(estimator, queries, X, y, **arguments)


def with_gap(gap, dtype=object):
    labels = LABELS.astype(object)
    labels[3] = gap
    return labels if dtype is object else pd.Series(labels, dtype=dtype)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_initial": 2}, "`n_initial` must be at least the number of classes, 3.*stratify=False.*`initial`"),
        ({"n_initial": 46}, "`n_initial` must be at most the 45 rows"),
        ({"n_initial": 0}, "`n_initial` must be None or an integer, 1 or larger. Got 0"),
        ({"n_initial": None}, "`n_initial` or `initial` must be given. Got neither"),
        ({"initial": [[0, 1]] * 2}, "`n_initial` or `initial` must be given. Got both"),
        ({"n_initial": None, "initial": [[0, 1]]}, r"`initial` .* n_trials=2. Got 1"),
        ({"n_initial": None, "initial": [[0, 1], [2, 2]]}, r"`initial\[1\]` must be distinct positions"),
        ({"n_initial": None, "initial": [[0, 1], [2, 60]]}, r"`initial\[1\]` .* from 0 to 59 \(not index labels\)"),
        ({"n_initial": None, "initial": [["a"], ["b"]]}, r"`initial\[0\]` must be positions"),
        ({"batch_size": 40}, "`batch_size` must be at most the rows of the pool, 39.*Got 40"),
        ({"batch_size": 0}, "`batch_size` must be an integer, 1 or larger. Got 0"),
        ({"n_rounds": -1}, "`n_rounds` must be None or an integer, 1 or larger. Got -1"),
        ({"n_trials": 0}, "`n_trials` must be an integer, 1 or larger. Got 0"),
        ({"scoring": "accurate"}, "'accurate' is not a valid scoring value"),
        ({"scoring": ["accuracy", "accuracy"]}, "`scoring` as a list .* differently"),
        ({"scoring": {"round": "accuracy"}}, "`scoring` must have .* none of trial"),
        ({"scoring": {}}, "`scoring` must have one name or more"),
        ({"scoring": accuracy_score}, "looks like it is a metric function"),
        ({"y": with_gap(None)}, "`y` must have a finite label for every row. Got None in row 3, and 1 such"),
        ({"y": with_gap(math.nan)}, "`y` must have a finite label for every row. Got nan in row 3"),
        ({"y": with_gap(None, "string")}, "`y` must have a finite label for every row. Got .* in row 3"),
        ({"y": np.where(Y_TRAIN == 0, np.nan, Y_TRAIN)}, "`y` must have a finite label for every row"),
        ({"y": np.where(Y_TRAIN == 0, np.inf, Y_TRAIN)}, "`y` must have a finite label for every row. Got .*inf"),
        ({"y": LABELS[1:]}, r"`y` must have shape \(60,\).*Got \(59,\)"),
        ({"y": np.stack([LABELS, LABELS], axis=1)}, r"`y` must have shape \(60,\).*Got \(60, 2\)"),
        ({"X_test": X_POOL}, "`X_test` and `y_test` must be given"),
        ({"X_test": X_POOL, "y_test": LABELS}, r"`y_test` must have shape \(30,\)"),
        ({"X_test": X_POOL, "y_test": LABELS[:30], "test_size": 0.5}, "Only one of `X_test`, `test_size` and `splits`"),
        ({"test_size": 0.0}, "`test_size` must be None, a fraction between 0 and 1, or"),
        ({"test_size": 1.0}, "`test_size` must be None, a fraction between 0 and 1, or"),
        ({"test_size": 60}, "`test_size` must leave rows to train on: .* below 60"),
        (
            {"splits": [(range(40), range(39, 60))] * 2},
            "`splits` must have no row on both sides. Got row 39 in trial 0",
        ),
        ({"splits": [(range(40), range(40, 60))]}, r"`splits` .* n_trials=2. Got 1"),
        (
            {"splits": [(range(40), range(40, 60))] * 2, "n_initial": None, "initial": [[1, 2], [3, 50]]},
            "`initial` must hold only training rows. Got row 50 in trial 1",
        ),
        ({"random_state": -1}, "`random_state` must be"),
    ],
)
def test_what_is_wrong_with_an_experiment_is_said_before_anything_runs(changes, message):
    with pytest.raises(ValueError, match=message):
        experiment(**changes)


@pytest.mark.parametrize("path", ["no_such_folder/run.sqlite", "."])
def test_a_checkpoint_that_cannot_be_a_file_is_refused_before_anything_runs(path):
    with pytest.raises(OSError, match=r"`checkpoint`=.* could not be written"):
        experiment(checkpoint=path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimator": RandomForestClassifier}, "`estimator` must be .* Got the class RandomForestClassifier"),
        ({"estimator": "forest"}, "`estimator` must be .* Got a str"),
        ({"queries": {}}, "`queries` must be a dict from names to queries, one or more"),
        ({"queries": [StochasticBatchQuery()]}, "`queries` must be a dict"),
        ({"queries": {1: StochasticBatchQuery()}}, "`queries` must be a dict"),
        ({"queries": {"a": StochasticBatchQuery}}, r"`queries`\['a'\] must be a query or a callable"),
        ({"queries": {"a": "power"}}, r"`queries`\['a'\] must be a query or a callable"),
        (
            {"queries": {"a": functools.partial(print, file=sys.stdout)}},
            r"`queries`\['a'\] must be picklable",
        ),
        ({"batch_size": None}, "`batch_size` must be an integer"),
        ({"batch_size": "all"}, "`batch_size` must be an integer"),
        ({"n_trials": 2.5}, "`n_trials` must be an integer"),
        ({"test_size": "half"}, "`test_size` must be None, a fraction"),
        ({"splits": 3}, r"`splits` must be None or a sequence with a pair \(train, test\) for each trial. Got 3"),
        ({"initial": "first"}, "`initial` must be None or a sequence"),
        ({"stratify": "yes"}, "`stratify` must be True or False"),
        ({"n_jobs": 0}, "`n_jobs` must be None or an integer other than 0"),
        ({"verbose": "much"}, "`verbose` must be an integer"),
        ({"checkpoint": 3}, "`checkpoint` must be None or the path of a file. Got 3"),
    ],
)
def test_what_is_of_the_wrong_kind_for_an_experiment_is_a_type_error(changes, message):
    with pytest.raises(TypeError, match=message):
        experiment(**changes)


def test_every_plain_parameter_has_a_rule():
    apart = {"estimator", "queries", "X", "y", "X_test", "y_test", "sample_weight", "scoring"}
    assert RULES.keys() == run_experiment.__annotations__.keys() - apart - {"return"}


def test_a_parameter_that_the_call_would_not_use_is_checked_too():
    with pytest.raises(ValueError, match="`stratify` must be True or False"):
        experiment(X_test=X_POOL, y_test=LABELS[:30], initial=[[0, 1, 2]] * 2, n_initial=None, stratify=None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"score": "balld"}, "`score` must be"), ({"beta": -1}, "`beta` must be"), ({"n_draws": 0}, "`n_draws` must be")],
)
def test_a_parameter_of_a_query_is_refused_before_anything_runs_with_the_name_of_the_query(changes, message):
    queries = {"uniform": StochasticBatchQuery("entropy"), "mine": StochasticBatchQuery().set_params(**changes)}
    for error in (ValueError, TypeError):
        with pytest.raises(error, match=rf"`queries`\['mine'\] has a parameter that is not valid: {message}"):
            experiment(queries=queries)


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        ([0, 1, 2, 2], "3 distinct values"),
        ([0, 1, 2], r"shape \(3,\)"),
        ([0, 1, 2, 3, 4], r"shape \(5,\)"),
        ([0, 1, 2, 39], r"\[ 0  1  2 39\]"),
        ([-1, 1, 2, 3], r"\[-1  1  2  3\]"),
        ([0.0, 1.0, 2.0, 3.0], "float64"),
        (np.ones(39, dtype=bool), "bool"),
        (None, "object"),
        (3, r"shape \(1,\)"),
        ([[0, 1], [2, 3]], r"shape \(2, 2\)"),
    ],
)
def test_a_query_that_returns_no_batch_is_named_with_what_it_returned(answer, got):
    def mine(learner, X_pool, n_instances):
        return answer

    queries = {"uniform": StochasticBatchQuery(sampler="uniform"), "mine": mine}
    with pytest.raises(
        ValueError, match=rf"`queries`\['mine'\] must return 4 distinct positions .* to 38. Got .*{got}"
    ):
        experiment(estimator=KNeighborsClassifier(1), queries=queries)


def test_a_scorer_that_returns_no_number_is_named():
    with pytest.raises(RuntimeError, match=r"`scoring`: 'names' must return a finite number. Got 'accuracy'"):
        experiment(estimator=KNeighborsClassifier(1), scoring={"names": lambda estimator, X, y: "accuracy"})


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_scorer_that_returns_no_finite_number_is_named(value):
    with pytest.raises(RuntimeError, match=rf"`scoring`: 'mine' must return a finite number.* Got {value}"):
        experiment(estimator=KNeighborsClassifier(1), scoring={"mine": lambda estimator, X, y: value})


@pytest.mark.parametrize("level", [math.nan, math.inf, "0.9", True, [0.9]])
def test_a_level_that_is_no_score_is_refused(level):
    result = experiment(estimator=KNeighborsClassifier(1))
    for compare in (result.summary, result.label_savings):
        with pytest.raises((TypeError, ValueError), match="`level` must be None or a finite number"):
            compare(level=level)


def test_an_unknown_reference_of_a_summary_is_refused_with_the_names_there_are():
    result = experiment(estimator=KNeighborsClassifier(1))
    for compare in (result.summary, result.label_savings):
        with pytest.raises(ValueError, match=r"`reference` must be one of \['uniform'\]. Got 'random'"):
            compare(reference="random")
