"""The call of an experiment: everything is checked and planned before the first run starts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.parallel import Parallel, delayed

from .._utils.randomness import check_random_state
from .._utils.types import Scoring
from .._utils.validation import (
    FLAG,
    ParameterError,
    Rule,
    Rules,
    check_cloneable,
    check_parameters,
    integer,
    is_integer,
    is_number,
    progress,
    shown,
    task,
    warn,
)
from ..query._base import RULES as QUERY_RULES
from ._checkpoint import Checkpoint, versions
from ._results import ExperimentResult, Failure, Round
from ._run import Data, Experiment, Trial, copied, do_run, name_scorers, plan_trials, shares_among


def _is_by_trial(value: Any) -> bool:
    return value is None or (isinstance(value, Iterable) and not isinstance(value, str | bytes))


RULES: Rules = {
    "test_size": Rule(
        lambda v: v is None or (is_integer(v) and v >= 1) or (is_number(v) and 0 < v < 1),
        "None, a fraction between 0 and 1, or a number of rows",
    ),
    "splits": Rule(_is_by_trial, "None or a sequence with a pair (train, test) for each trial"),
    "n_initial": integer().or_none(),
    "initial": Rule(_is_by_trial, "None or a sequence with the positions of the first labels of each trial"),
    "stratify": FLAG,
    "batch_size": integer(),
    "n_rounds": integer().or_none(),
    "budget": integer().or_none(),
    "n_trials": integer(),
    "checkpoint": Rule(lambda v: v is None or isinstance(v, str | os.PathLike), "None or the path of a file"),
    **{name: QUERY_RULES[name] for name in ("random_state", "n_jobs", "verbose")},
}


def run_experiment(
    estimator: Any,
    queries: Mapping[str, Callable[..., Any]],
    X: Any,
    y: ArrayLike,
    *,
    X_test: Any = None,
    y_test: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    test_size: float | int | None = None,
    splits: Sequence[tuple[ArrayLike, ArrayLike]] | None = None,
    n_initial: int | None = None,
    initial: Sequence[ArrayLike] | None = None,
    stratify: bool = True,
    batch_size: int = 10,
    n_rounds: int | None = None,
    budget: int | None = None,
    n_trials: int = 8,
    scoring: Scoring | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: int = 0,
) -> ExperimentResult:
    """Compare queries that acquire labels for the same model on the same data, over paired trials.

    A trial is a split, initial labels and seeds, the same for all queries. Every round queries modAL's
    ``ActiveLearner``, adds the batch, and fits a new clone to all labels acquired so far. ``random_state`` sets every
    ``random_state`` in the estimator and the queries, and the global generators of Python, numpy and torch during the
    call. So the numbers depend neither on ``n_jobs`` nor on the other queries, and the objects passed in never change.

    Parameters
    ----------
    estimator : estimator
        Anything that scikit-learn can clone: a classifier or regressor, a pipeline, a search.
    queries : dict of str to query
        Queries of this package, or any callables ``query(learner, X_pool, n_instances=...)`` that return positions in
        the pool, as modAL's strategies do. Those of this package choose each batch by a clone with a seed of its own;
        any other callable is copied for each run, and called as it is.
    X : array-like of shape (n_points, ...)
        numpy array, sparse array, list, or DataFrame, which is passed to the estimator as it is.
    y : array-like of shape (n_points, ...)
        All labels; the model sees only those acquired. None may be missing. A Series is matched to the rows of a
        DataFrame by its index. A row may have several labels, one per pixel for example; then no split is stratified,
        and ``scoring`` has to accept such labels.
    X_test, y_test : array-like, optional
        A separate test set; then all rows of X can be labelled.
    sample_weight : array-like of shape (n_points,), optional
        Weights of the rows of X in every fit, and in the draws of queries. Scores on test rows are not weighted.
    test_size : float or int, optional
        Fraction or number of the rows of X to test on, chosen again in each trial. 0.25 by default.
    splits : sequence of (train, test), optional
        Positions of the training and test rows of each trial, such as the splits of any scikit-learn splitter, to keep
        related rows on one side.
    n_initial, initial : int, or sequence of array-like of int
        Number of initial labels, chosen at random, or their positions in each trial. Give one of them.
    stratify : bool, default=True
        For classifiers: keep the class proportions in the split, if each class has rows for both sides, and in the
        initial labels, which include each class at least once.
    batch_size : int, default=10
        Labels acquired in a round. The last batch is smaller if the pool or the budget ends.
    n_rounds, budget : int, optional
        Batches, or labels, to acquire in each run beyond the initial labels. Give one of them. A run also ends when the
        pool is empty.
    n_trials : int, default=8
        Paired trials. Eight is the least number with which each of six queries can be distinguished from a seventh.
    scoring : str, callable, list or dict of these, optional
        Names of scikit-learn's scorers, or callables ``scorer(estimator, X_test, y_test)``; larger is better. A
        callable with a keyword-only parameter ``rows`` gets the positions of the test rows in X (or ``X_test``), to
        look up groups with. By default the estimator's own ``score``.
    random_state : int, Generator, RandomState or None, default=None
        The source of all seeds.
    n_jobs : int, optional
        Number of runs at a time, in processes of one thread each.
    checkpoint : path, optional
        File to which each finished round is written before the next one starts, an SQLite database. After an
        interruption of any kind the same call continues from there, and gives the result of a run without interruption.
        Queries, trials and rounds can be added later; any other change is an error (see the user guide).
    verbose : int, default=0
        If not 0, show a progress bar over runs.

    Returns
    -------
    ExperimentResult
        Records of all rounds. Its ``failures`` are the runs in which the estimator, the query or a scorer raised an
        error, and a warning reports them. With a checkpoint they are tried again. If all runs fail, an error is raised.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import StochasticBatchQuery, run_experiment
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LogisticRegression(max_iter=200)
    >>> queries = {"default": StochasticBatchQuery(), "uniform": StochasticBatchQuery(sampler="uniform")}
    >>> sizes = {"n_initial": 20, "batch_size": 20, "n_rounds": 2, "n_trials": 2}
    >>> result = run_experiment(model, queries, X / 16, y, scoring="accuracy", random_state=0, **sizes)
    >>> result.to_frame().pivot_table("accuracy", "n_labelled", "query").round(2)
    query       default  uniform
    n_labelled
    20             0.74     0.74
    40             0.85     0.83
    60             0.88     0.88
    """
    check_parameters(RULES, locals())
    check_cloneable(estimator)
    _check_queries(queries)
    _check_one_of("n_initial", n_initial, "initial", initial)
    _check_one_of("n_rounds", n_rounds, "budget", budget)
    _check_test_set(X_test, y_test, test_size, splits)
    data = Data.checked(estimator, X, y, X_test, y_test, sample_weight)
    scorers = name_scorers(scoring, estimator)
    copies = {name: copied(name, query) for name, query in queries.items()}
    entropy = check_random_state(random_state).integers(2**32, size=4).tolist()

    by_trial = {name: None if rows is None else list(rows) for name, rows in (("splits", splits), ("initial", initial))}
    split = {"test_size": test_size, "n_initial": n_initial, **by_trial}
    strata = data.y.ravel() if stratify and data.y[:1].size == 1 and task(estimator) == "classifier" else None

    def planned(entropy: list[int]) -> list[Trial]:
        return plan_trials(len(data.y), strata, entropy, n_trials, batch_size, has_test_set=X_test is not None, **split)

    trials = planned(entropy)
    settings = {"estimator": estimator, "scoring": scorers, **split, "stratify": stratify, "batch_size": batch_size}
    settings["budget"] = budget  # a run with a larger one would not end its last batch where this one does
    saved = None
    if checkpoint is not None:
        fixed = {**settings, **vars(data)}
        saved = Checkpoint.begin(checkpoint, fixed, queries, entropy, any_seed=random_state is None)
        entropy, trials = saved.entropy, planned(saved.entropy)

    experiment = Experiment(estimator, data, scorers, entropy, batch_size, n_rounds, budget, saved)
    n_kept = None if n_rounds is None else n_rounds + 1
    runs = [
        (experiment, trial, name, query, [] if saved is None else saved.rounds(name, trial.number)[:n_kept])
        for trial in trials
        for name, query in copies.items()
    ]
    rounds, failures = _do_all(runs, n_jobs, verbose)
    as_text = _as_text({**settings, "n_rounds": n_rounds, "n_trials": n_trials, "queries": queries})
    facts = {"shares": shares_among(scorers, estimator), "random_state": entropy, "versions": versions()}
    return ExperimentResult(rounds, failures, {**as_text, **facts})


def _as_text(value: Any) -> Any:
    """A setting as plain JSON: objects by their ``repr``, without addresses."""
    if isinstance(value, dict):
        return {name: _as_text(part) for name, part in value.items()}
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | str) or is_number(value):
        return value
    return re.sub(r" at 0x\w+", "", shown(value))


def _check_queries(queries: Any) -> None:
    if not isinstance(queries, Mapping) or not queries or not all(isinstance(name, str) for name in queries):
        raise TypeError(f"`queries` must be a dict from names to queries, at least one. Got {queries!r} instead.")
    for name, query in queries.items():
        if isinstance(query, type) or not callable(query):
            raise TypeError(f"`queries`[{name!r}] must be a query or a callable. Got {query!r} instead.")
        if hasattr(query, "check_parameters"):
            try:
                query.check_parameters()
            except (ValueError, TypeError) as error:
                raise ParameterError(f"`queries`[{name!r}] has a parameter that is not valid: {error}") from error


def _check_test_set(X_test: Any, y_test: Any, test_size: Any, splits: Any) -> None:
    if (X_test is None) != (y_test is None) or sum(given is not None for given in (X_test, test_size, splits)) > 1:
        raise ValueError(
            "Only one of `X_test`, `test_size` and `splits` may define the test rows; `X_test` and `y_test` must be "
            "given together."
        )


def _do_all(runs: list[Any], n_jobs: int | None, verbose: int) -> tuple[tuple[Round, ...], tuple[Failure, ...]]:
    """Every run, in processes of one thread each."""
    rounds: list[Round] = []
    failures: list[Failure] = []
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        outcomes = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(do_run)(*run) for run in runs)
        for done, failure in progress(outcomes, total=len(runs), doing="queries x trials", unit="run", verbose=verbose):
            rounds += done
            failures += [failure] if failure else []
    if failures:
        _report_failures(failures, len(runs))
    return tuple(rounds), tuple(failures)


def _report_failures(failures: Sequence[Failure], n_runs: int) -> None:
    first = failures[0]
    if len(failures) == n_runs:
        raise RuntimeError(f"Every run failed. The first, query {first.query!r}: {first.message}\n{first.traceback}")
    warn(
        f"{len(failures)} of {n_runs} runs failed and are left out of summaries: see `failures` of the result for "
        f"their errors. The first, query {first.query!r} in trial {first.trial}, round {first.round}: "
        f"{first.type}: {first.message}"
    )


def _check_one_of(first: str, first_value: Any, second: str, second_value: Any) -> None:
    if (first_value is None) == (second_value is None):
        got = "neither" if first_value is None else "both"
        raise ValueError(f"Either `{first}` or `{second}` must be given. Got {got}.")
