"""One run of an experiment, a query in a trial: rounds of querying, labelling, fitting and scoring; and its plan.

The test rows and first labels of each trial, how many labels it acquires and every seed follow from the data and one
entropy, before the first run. A seed is a function of (trial, purpose, round), never of earlier random numbers. So
queries are compared on the same trials and models, and a round depends on the plan and the rows labelled before it
alone, and on the state of a query that is not of this package.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import train_test_split

from .. import _containers as containers
from .. import _modal as modal
from .._utils import randomness as global_random
from .._utils.devices import one_thread
from .._utils.randomness import seeded_clone
from .._utils.types import Floats, Indices
from .._utils.validation import (
    check_labels_of,
    check_positions,
    check_sample_weight,
    is_integer,
    is_number,
    shown,
    task,
)
from ..posterior._wrappers import labels_to_fit, weight_keyword
from ..query import BatchQuery
from ._checkpoint import Checkpoint
from ._results import Failure, Round

try:
    import cloudpickle  # type: ignore[import-untyped]
except ImportError:  # joblib before 1.6 brings its own
    from joblib.externals import cloudpickle

_SPLIT, _INITIAL, MODEL, QUERY = range(4)
_COLUMNS = ("trial", "query", "round", "n_labelled", "indices", "query_seconds", "fit_seconds")


@dataclass(frozen=True)
class Data:
    """Features, labels and weights of the caller, and data of a separate test set if there is one."""

    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: Any
    sample_weight: Floats | None = None

    @classmethod
    def checked(cls, estimator: Any, X: Any, y: Any, X_test: Any, y_test: Any, sample_weight: Any = None) -> Data:
        """Data of the user, with labels in the shape that the estimator takes."""
        X = containers.prepare_pool(X, "X")
        n_rows, sample_weight = containers.count_rows(X), containers.aligned(sample_weight, X, "sample_weight")
        sample_weight = check_sample_weight(sample_weight, n_rows)
        if sample_weight is not None and weight_keyword(estimator) is None:
            raise ValueError(f"`sample_weight` must be None: `fit` of {type(estimator).__name__} takes no weights.")
        y = labels_to_fit(estimator, check_labels_of(n_rows, containers.aligned(y, X, "y")))
        if X_test is not None:
            X_test = containers.prepare_pool(X_test, "X_test")
            y_test = containers.aligned(y_test, X_test, "y_test")
            y_test = labels_to_fit(estimator, check_labels_of(containers.count_rows(X_test), y_test, "_test"))
        return cls(X, y, X_test, y_test, sample_weight)

    def rows(self, rows: Indices) -> tuple[Any, NDArray[Any]]:
        return containers.take_rows(self.X, rows), self.y[rows]

    def test(self, rows: Indices | None) -> tuple[Any, NDArray[Any], Indices]:
        """Test set of a trial, and the positions of its rows in the caller's data."""
        if rows is None:
            return self.X_test, self.y_test, np.arange(len(self.y_test))
        return *self.rows(rows), rows

    def weights(self, estimator: Any, rows: Indices) -> dict[str, Any]:
        if self.sample_weight is None:
            return {}
        return {str(weight_keyword(estimator)): self.sample_weight[rows]}


@dataclass(frozen=True)
class Experiment:
    """What all runs share."""

    estimator: Any
    data: Data
    scorers: Mapping[str, Any]
    entropy: list[int]
    batch_size: int
    n_rounds: int | None
    budget: int | None
    checkpoint: Checkpoint | None


def do_run(
    experiment: Experiment, trial: Trial, name: str, query: Any, finished: Sequence[Round]
) -> tuple[list[Round], Failure | None]:
    """All rounds of a query in a trial, finished ones included; each is on the disk before the next starts."""
    run = _Run(experiment, trial, name, query)
    is_complete = len(finished) > 0 and not run.room(_labelled(finished), len(finished))
    rounds = list(finished) if isinstance(query, BatchQuery) or is_complete else []
    new_rounds = run.rounds(rounds)
    with one_thread():
        while True:
            try:
                new = next(new_rounds, None)
            except BatchError:
                raise  # the query is wrong, not the trial
            except Exception as error:
                return rounds, Failure.of(error, trial.number, name, len(rounds))
            if new is None:
                return rounds, None
            rounds.append(new)
            if experiment.checkpoint is not None:
                experiment.checkpoint.append(new)


def copied(name: str, query: Any) -> Any:
    """A copy that shares nothing with the original, the closure of a function included."""
    try:
        return cloudpickle.loads(cloudpickle.dumps(query))
    except Exception as error:
        raise TypeError(
            f"`queries`[{name!r}] must be picklable, because each run uses a copy of it. "
            f"{type(error).__name__}: {error}"
        ) from error


@dataclass(frozen=True)
class _Run:
    experiment: Experiment
    trial: Trial
    name: str
    query: Any

    def rounds(self, finished: Sequence[Round]) -> Iterator[Round]:
        number, labelled = len(finished), _labelled(finished)
        query, learner = self._new_query(0), None
        if number and self.room(labelled, number):  # from a checkpoint
            learner = self._fit(labelled, number - 1)[0]
        while number == 0 or self.room(labelled, number):
            query = self._new_query(number) if isinstance(query, BatchQuery) else query
            batch, query_seconds = self._ask(query, learner, labelled, number) if number else (self.trial.initial, None)
            labelled = np.concatenate([labelled, batch])
            learner, fit_seconds = self._fit(labelled, number)
            yield Round(
                trial=self.trial.number,
                query=self.name,
                round=number,
                n_labelled=len(labelled),
                indices=tuple(batch.tolist()),
                scores=self._scores_of(learner.estimator, number),
                query_seconds=query_seconds,
                fit_seconds=fit_seconds,
            )
            number += 1

    def _new_query(self, number: int) -> Any:
        """A copy without a history. Its ``random_state`` is a seed of this round, and those of its parts follow."""
        if not hasattr(self.query, "get_params"):
            return copied(self.name, self.query)
        seed = self._seed(QUERY, number)
        twin = seeded_clone(self.query, np.random.default_rng(seed))
        return twin.set_params(random_state=seed) if "random_state" in twin.get_params(deep=False) else twin

    def room(self, labelled: Indices, number: int) -> int:
        """How many labels this round acquires."""
        experiment, n_left = self.experiment, len(self.trial.train) - len(labelled)
        if experiment.n_rounds is not None and number > experiment.n_rounds:
            return 0
        if experiment.budget is not None:
            n_left = min(n_left, experiment.budget - (len(labelled) - len(self.trial.initial)))
        return min(n_left, experiment.batch_size)

    def _seed(self, purpose: int, number: int) -> int:
        return seed(self.experiment.entropy, purpose, self.trial.number, number)

    def _ask(self, query: Any, learner: Any, labelled: Indices, number: int) -> tuple[Indices, float]:
        """The next batch, as positions in the caller's X, and the seconds that the query took."""
        pool = np.setdiff1d(self.trial.train, labelled, assume_unique=True)
        X_pool, _ = self.experiment.data.rows(pool)

        def strategy(learner: Any, X_pool: Any, n_instances: int) -> Any:
            answer = query(learner, X_pool, n_instances=n_instances)
            indices = _checked_answer(answer, n_instances, len(pool), self.name)
            return modal.answer(learner, indices, np.full(n_instances, np.nan))

        learner.query_strategy = strategy
        with global_random.seeded(self._seed(QUERY, number)):
            start = time.perf_counter()
            indices = learner.query(X_pool, n_instances=self.room(labelled, number))[0]
            seconds = time.perf_counter() - start
        return pool[indices], seconds

    def _fit(self, labelled: Indices, number: int) -> tuple[Any, float]:
        """A learner around a new model of the rows labelled so far, and the seconds its fit took."""
        seed = self._seed(MODEL, number)
        model = seeded_clone(self.experiment.estimator, np.random.default_rng(seed))
        X, y = self.experiment.data.rows(labelled)
        weights = self.experiment.data.weights(model, labelled)
        with global_random.seeded(seed):
            start = time.perf_counter()
            learner = modal.fitted_learner(model, X, y, **weights)
            return learner, time.perf_counter() - start

    def _scores_of(self, model: Any, number: int) -> dict[str, float]:
        with global_random.seeded(self._seed(MODEL, number)):
            return evaluate(self.experiment.scorers, model, *self.experiment.data.test(self.trial.test))


def _labelled(rounds: Sequence[Round]) -> Indices:
    return np.array([i for done in rounds for i in done.indices], dtype=np.int64)


def name_scorers(scoring: Any, estimator: Any) -> dict[str, Any]:
    """Scorers by name, from a name, a callable, a list or a dict of them, or None for the estimator's own score."""
    if scoring is None:
        scoring = {"score": own_score}
    elif isinstance(scoring, str) or callable(scoring):
        scoring = {_name(scoring) or "score": scoring}
    elif isinstance(scoring, list | tuple):
        scoring = _by_name(scoring)
    elif not isinstance(scoring, Mapping):
        raise TypeError(f"`scoring` must be a name, a callable, or a list or dict of these. Got {shown(scoring)}.")
    if not scoring or not all(isinstance(name, str) and name not in _COLUMNS for name in scoring):
        raise ValueError(
            f"`scoring` must have at least one name, and none of {', '.join(_COLUMNS)}. Got {list(scoring)!r} instead."
        )
    check_scoring(estimator, scoring=dict(scoring))  # scikit-learn's own error for a name that it does not know
    return dict(scoring)


_SHARES = ("accuracy", "f1", "jaccard", "precision", "recall", "roc_auc")
"""Parts of scikit-learn's names of scores between 0 and 1, and of no others."""


def shares_among(scorers: Mapping[str, Any], estimator: Any) -> list[str]:
    known: list[Any] = [own_score] if task(estimator) == "classifier" else []
    known += [name for name in get_scorer_names() if any(part in name for part in _SHARES)]
    return [name for name, scorer in scorers.items() if scorer in known]


def evaluate(scorers: Mapping[str, Any], estimator: Any, X: Any, y: Any, rows: NDArray[Any]) -> dict[str, float]:
    """All scores of a fitted estimator; scikit-learn's scorers share its predictions."""
    bound = {name: functools.partial(f, rows=rows) if _asks_for_rows(f) else f for name, f in scorers.items()}
    scores = check_scoring(estimator, scoring=bound)(estimator, X, y)
    return {name: _checked_score(name, value) for name, value in scores.items()}


def own_score(estimator: Any, X: Any, y: Any) -> float:
    return estimator.score(X, y)


def _asks_for_rows(scorer: Any) -> bool:
    if isinstance(scorer, str):
        return False
    try:
        parameter = inspect.signature(scorer).parameters.get("rows")
    except (TypeError, ValueError):  # compiled functions without a signature
        return False
    return parameter is not None and parameter.kind is parameter.KEYWORD_ONLY


def _by_name(scorers: Any) -> dict[str, Any]:
    names = [_name(scorer) for scorer in scorers]
    if None in names or len(set(names)) < len(names):
        raise ValueError(f"`scoring` as a list must hold names or functions, all named differently. Got {scorers!r}.")
    return {str(name): scorer for name, scorer in zip(names, scorers, strict=True)}


def _checked_score(name: str, value: Any) -> float:
    if not (is_number(value) or isinstance(value, bool | np.bool_)) or not np.isfinite(value):
        raise ValueError(f"`scoring`: {name!r} must return a finite number. Got {value!r}; do test rows lack a class?")
    return float(value)


def _name(scorer: Any) -> str | None:
    return scorer if isinstance(scorer, str) else getattr(scorer, "__name__", None)


class BatchError(ValueError):
    """A query returned what is no batch."""


def _checked_answer(answer: Any, k: int, n_pool: int, name: str) -> Indices:
    """What a query of an experiment returned: bare positions, or a pair with positions first."""
    if isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[0]) > 0:
        answer = answer[0]
    indices = np.atleast_1d(np.asarray(answer))
    is_batch = indices.shape == (k,) and indices.dtype.kind in "iu" and len(np.unique(indices)) == k
    if not is_batch or indices.min() < 0 or indices.max() >= n_pool:
        raise BatchError(
            f"`queries`[{name!r}] must return {k} distinct positions in the pool, from 0 to {n_pool - 1}. Got "
            f"{len(np.unique(indices))} distinct values, {indices.dtype} of shape {indices.shape}: {indices[:10]}."
        )
    return indices.astype(np.int64)


@dataclass(frozen=True)
class Trial:
    """One trial: positions of rows in the caller's X; ``test`` is None where there is a separate test set."""

    number: int
    train: Indices
    test: Indices | None
    initial: Indices


def seed(entropy: Sequence[int], purpose: int, trial: int, round_: int = 0) -> int:
    """A seed of 31 bits, which every library accepts."""
    return int(np.random.SeedSequence(entropy, spawn_key=(purpose, trial, round_)).generate_state(1)[0] >> 1)


def plan_trials(
    n_points: int,
    strata: NDArray[Any] | None,
    entropy: Sequence[int],
    n_trials: int,
    batch_size: int,
    *,
    has_test_set: bool = False,
    test_size: Any = None,
    splits: Any = None,
    n_initial: Any = None,
    initial: Any = None,
) -> list[Trial]:
    """Trials with the given splits and first labels, or with random ones, in the proportions of ``strata``.

    Parameters are those of `run_experiment`, each by itself valid.
    """
    sides = None if splits is None else _checked_splits(splits, n_points, n_trials)
    starts = None if initial is None else _check_by_trial("initial", initial, n_trials)
    n_test = 0 if has_test_set else _number_of_test_rows(0.25 if test_size is None else test_size, n_points)
    trials = []
    for t in range(n_trials):
        start = None if starts is None else check_positions(f"initial[{t}]", starts[t], n_points)
        train, test = sides[t] if sides else _split(n_points, start, strata, n_test, seed(entropy, _SPLIT, t))
        if start is None:
            _check_n_initial(n_initial, len(train), None if strata is None else np.unique(strata[train]))
            start = choose_initial(train, strata, n_initial, np.random.default_rng(seed(entropy, _INITIAL, t)))
        if len(outside := np.setdiff1d(start, train)):
            raise ValueError(f"`initial` must hold only training rows. Got row {outside[0]} in trial {t}.")
        if batch_size > len(train) - len(start) > 0:
            raise ValueError(
                f"`batch_size` must be at most the rows of the pool, {len(train) - len(start)} without the test rows "
                f"and the first labels. Got {batch_size}."
            )
        trials.append(Trial(t, train, test, start))
    return trials


def _checked_splits(splits: Any, n_points: int, n_trials: int) -> list[tuple[Indices, Indices]]:
    pairs = []
    for t, pair in enumerate(_check_by_trial("splits", splits, n_trials)):
        train, test = (np.sort(check_positions(f"splits[{t}]", rows, n_points)) for rows in pair)
        if len(common := np.intersect1d(train, test)):
            raise ValueError(f"`splits` must have no row in both parts. Got row {common[0]} in trial {t}.")
        pairs.append((train, test))
    return pairs


def _split(
    n_points: int, start: Indices | None, strata: NDArray[Any] | None, n_test: int, seed: int
) -> tuple[Indices, Indices | None]:
    """Training and test rows, stratified if every class can be on both sides; first labels are training rows."""
    rows: Indices = np.arange(n_points)
    if n_test == 0:
        return rows, None
    free = rows if start is None else np.setdiff1d(rows, start)
    _number_of_test_rows(n_test, len(free))
    by = None if strata is None else strata[free]
    if by is not None:
        counts = np.unique(by, return_counts=True)[1]
        if counts.min() < 2 or len(counts) > min(n_test, len(free) - n_test):
            by = None
    _, test = train_test_split(free, test_size=n_test, stratify=by, random_state=seed)
    return np.setdiff1d(rows, test), np.sort(test)


def choose_initial(train: Indices, strata: NDArray[Any] | None, n_initial: int, rng: np.random.Generator) -> Indices:
    """First labels at random, in random order. With strata, each class has its share, but at least one."""
    if strata is None:
        return rng.choice(train, n_initial, replace=False)
    _, class_of, available = np.unique(strata[train], return_inverse=True, return_counts=True)
    share = n_initial * available / len(train) + 1e-6 * rng.random(len(available))  # ties broken at random
    counts = np.ones(len(available), dtype=int)
    for _ in range(n_initial - len(available)):
        counts[np.argmax(share - counts)] += 1
    return rng.permutation(
        np.concatenate([rng.choice(train[class_of == c], k, replace=False) for c, k in enumerate(counts)])
    )


def _number_of_test_rows(test_size: float, n_points: int) -> int:
    n_test = int(test_size) if is_integer(test_size) else int(np.ceil(test_size * n_points))
    if n_test >= n_points:
        raise ValueError(
            f"`test_size` must leave rows to train on: it must be a number of rows below {n_points}, or a smaller "
            f"fraction. Got {test_size!r} instead."
        )
    return n_test


def _check_by_trial(name: str, values: list[Any], n_trials: int) -> list[Any]:
    if len(values) != n_trials:
        raise ValueError(f"`{name}` must have one entry for each of the n_trials={n_trials}. Got {len(values)}.")
    return values


def _check_n_initial(n_initial: int, n_train: int, classes: NDArray[Any] | None) -> None:
    if n_initial > n_train:
        raise ValueError(f"`n_initial` must be at most the {n_train} rows that are not test rows. Got {n_initial}.")
    if classes is not None and n_initial < len(classes):
        raise ValueError(
            f"`n_initial` must be at least the number of classes, {len(classes)}, to start with a row of each. Got "
            f"{n_initial}. With stratify=False, or positions as `initial`, classes may be missing, if the estimator "
            "accepts that."
        )
