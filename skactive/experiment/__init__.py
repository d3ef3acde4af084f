"""Experiments: whether a query is better than random on some data, by how many labels, and how sure that is.

`run_experiment` makes a plan (`_plan`: splits, first labels, every seed), and does one run (`_run`) for each trial and
query: a loop of rounds, each of which chooses a batch, fits a new model to all labels so far, and scores it on the test
rows. The records of all rounds are an `ExperimentResult` (`_results`). They and what a query remembers, line by line in
a `_checkpoint`, are what a run that was killed goes on from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import joblib
from numpy.typing import ArrayLike
from sklearn.utils.parallel import Parallel, delayed
from tqdm import tqdm

from .._checks import check_cloneable
from .._random import check_random_state
from ..query import _fingerprint as fingerprint
from . import _plan as plan
from . import _query_state as query_state
from ._checkpoint import Checkpoint, Progress, checkpoint_to_json
from ._checks import (
    all_failed_error,
    as_list,
    check_queries,
    check_suggest,
    check_test_set,
    check_word_or_count,
    is_a_classifier,
    warn_failed_runs,
)
from ._results import ExperimentResult, Failure, Round, Summary
from ._run import Data, Experiment, do_run
from ._scoring import name_scorers

__all__ = ["ExperimentResult", "Failure", "Round", "Summary", "checkpoint_to_json", "run_experiment"]


def run_experiment(
    estimator: Any,
    queries: Mapping[str, Any],
    X: Any,
    y: ArrayLike,
    *,
    X_test: Any = None,
    y_test: ArrayLike | None = None,
    test_size: float | int | None = None,
    splits: Sequence[tuple[ArrayLike, ArrayLike]] | None = None,
    n_initial: int | None = None,
    initial: Sequence[ArrayLike] | None = None,
    stratify: bool = True,
    batch_size: int | str = 10,
    n_rounds: int | None = None,
    budget: int | None = None,
    n_trials: int = 5,
    scoring: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    checkpoint: Any = None,
    verbose: int = 0,
) -> ExperimentResult:
    """Let queries buy labels for the same model on the same data, over paired trials.

    A trial is a split, first labels and seeds, the same for all queries: models of equal rounds are fitted from equal
    seeds, and queries start from equal seeds. Every round queries modAL's ``ActiveLearner``, adds the batch, and fits a
    new clone to all labels so far. This is what ``teach`` does, save that no clone goes on from another's weights
    (``warm_start``) or has the seed of another round. Every ``random_state`` in the estimator and the queries is set
    from ``random_state`` here; where there is none (skorch nets, ``np.random.choice``), Python's, numpy's and torch's
    global generators are seeded for the call and put back afterwards. So the numbers depend neither on ``n_jobs`` nor
    on the other queries, and the objects passed in never change.

    Parameters
    ----------
    estimator : estimator
        Anything that scikit-learn can clone: a classifier or regressor, a pipeline, a search.
    queries : dict of str to query
        Queries of this package, or any callables ``query(learner, X_pool, n_instances=...)`` that return positions in
        the pool, as modAL's strategies do. Each run has its own copy, which keeps its state from round to round.
    X : array-like of shape (n_points, ...)
        numpy array, DataFrame (strings and gaps are the estimator's business), sparse array or list.
    y : array-like of shape (n_points,) or (n_points, 1)
        All labels; only those bought are shown to the model. Labels of shape (n_points, 1) are fitted, and scored, with
        these axes, as regression nets of one output want them; classifiers, and estimators of scikit-learn and of this
        package, get (n_points,).
    X_test, y_test : array-like, optional
        A test set of its own; all rows of X can then be bought.
    test_size : float or int, optional
        Part or number of the rows of X held out for the test, chosen anew in each trial. 0.25 by default.
    splits : sequence of (train, test), optional
        Positions of the rows in each trial, where rows belong together, say: the splits of any scikit-learn splitter.
    n_initial : int, optional
        First labels, chosen at random. Give this or ``initial``.
    initial : sequence of array-like of int, optional
        Positions of the first labels in each trial.
    stratify : bool, default=True
        For classifiers: split in the proportions of the classes where each has rows for both sides, and start with the
        proportions too, but with one row of each class at least.
    batch_size : int or "auto", default=10
        Labels bought in a round. The last batch is smaller if the pool or the budget ends. "auto": as many as the query
        says, each time anew, by its `~StochasticBatchQuery.suggest_batch_size`; other queries are refused.
    n_rounds, budget : int, optional
        Batches, or labels, to buy in each run beyond the first labels. Give one of them. A pool that is used up ends
        the run.
    n_trials : int, default=5
        How many trials.
    scoring : str, callable, list or dict of these, optional
        Names of scikit-learn's scorers, or callables ``scorer(estimator, X_test, y_test)``; larger is better. A
        callable with a keyword-only parameter ``rows`` gets the positions of the test rows in X (or ``X_test``), to
        look up groups with. By default the estimator's own ``score``.
    random_state : int, Generator, RandomState or None, default=None
        The one source of all seeds.
    n_jobs : int, optional
        Runs at once, in processes of one thread each. One thread is what a run in this process takes as well.
    checkpoint : path, optional
        File to write each finished round to before the next starts. Called again after an interruption of any kind, the
        experiment goes on from there, and the result is that of an undisturbed one. Queries and trials may be added
        later; anything else that changes is an error. It holds pickles: read none that you do not trust.
    verbose : int, default=0
        Whether to show a progress bar over runs.

    Returns
    -------
    ExperimentResult
        Records of all rounds, with `~ExperimentResult.summary`, `~ExperimentResult.label_savings`,
        `~ExperimentResult.to_frame` and `~ExperimentResult.to_json`. Runs that an error in the estimator, the query or
        a scorer ended are in its ``failures``, and a warning says so; they are tried again from a checkpoint.

    Raises
    ------
    ValueError, TypeError
        Before anything runs: if parameters, data or checkpoint do not fit together. Later: if a query returns other
        than distinct positions in the pool, as many as asked for.
    RuntimeError
        If no run came to its end.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive import StochasticBatchQuery, run_experiment
    >>> X, y = load_digits(return_X_y=True)
    >>> queries = {"power": StochasticBatchQuery(), "uniform": StochasticBatchQuery(sampler="uniform")}
    >>> result = run_experiment(
    ...     RandomForestClassifier(20), queries, X[:600], y[:600], n_initial=20, n_rounds=2, n_trials=2, random_state=0
    ... )
    >>> result.to_frame()[["trial", "query", "round", "n_labelled"]].tail(3).to_string(index=False).split()[4:]
    ['1', 'uniform', '0', '20', '1', 'uniform', '1', '30', '1', 'uniform', '2', '40']
    >>> print(result.summary())  # doctest: +SKIP
    """
    check_cloneable(estimator)
    check_queries(queries)
    if check_word_or_count(batch_size) == "auto":
        check_suggest(queries)
    check_test_set(X_test, y_test, test_size, splits)
    data = Data.checked(estimator, X, y, X_test, y_test)
    scorers = name_scorers(scoring, estimator)
    copies = {name: query_state.copied(name, query) for name, query in queries.items()}
    saved = None if checkpoint is None else Checkpoint(checkpoint)
    entropy = _entropy(random_state, saved)

    sizes = {"batch_size": batch_size, "n_rounds": n_rounds, "budget": budget}
    split = {
        "test_size": test_size,
        "splits": as_list("splits", splits),
        "n_initial": n_initial,
        "initial": as_list("initial", initial),
    }
    strata = data.y if stratify and is_a_classifier(estimator) else None
    trials = plan.plan_trials(len(data.y), strata, entropy, n_trials, sizes, has_test_set=X_test is not None, **split)

    settings = {"estimator": estimator, "scoring": scorers, **split, "stratify": stratify, **sizes}
    settings = {**fingerprint.describe(settings), "random_state": entropy}
    described = {name: fingerprint.describe(query) for name, query in copies.items()}
    if saved is not None:
        saved.begin({**settings, **data.hashes()}, described, fingerprint.versions())

    experiment = Experiment(estimator, data, scorers, entropy, saved.journal if saved else None)
    runs = [
        (experiment, trial, name, query, saved.progress_of(name, trial.number) if saved else Progress())
        for trial in trials
        for name, query in copies.items()
    ]
    rounds, failures = _do_all(runs, n_jobs, verbose)
    settings |= {"n_trials": n_trials, "queries": described, "versions": fingerprint.versions()}
    return ExperimentResult(rounds, failures, settings)


def _entropy(random_state: Any, saved: Checkpoint | None) -> list[int]:
    """What all seeds are made of; that of the checkpoint, if the caller does not mind."""
    if random_state is None and saved is not None and saved.settings is not None:
        return saved.settings["random_state"]
    return check_random_state(random_state).integers(2**32, size=4).tolist()


def _do_all(runs: list[Any], n_jobs: int | None, verbose: int) -> tuple[tuple[Round, ...], tuple[Failure, ...]]:
    """Every run, in processes of one thread each."""
    rounds: list[Round] = []
    failures: list[Failure] = []
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        outcomes = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(do_run)(*run) for run in runs)
        for done, failure in tqdm(outcomes, total=len(runs), desc="queries x trials", unit="run", disable=not verbose):
            rounds += done
            failures += [failure] if failure else []
    if len(failures) == len(runs):
        raise all_failed_error(failures)
    warn_failed_runs(failures, len(runs))
    return tuple(rounds), tuple(failures)
