"""One run of an experiment, a query in a trial: rounds of querying, labelling, fitting and scoring.

A round depends on the plan and the rows labelled before it, and on the state of a query that is not of this package.
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

from .. import _containers as containers
from .. import _modal as modal
from .._utils import randomness as global_random
from .._utils.devices import one_thread
from .._utils.randomness import seeded_clone
from .._utils.validation import check_labels_of, check_sample_weight, is_number, shown, task
from ..posterior._wrappers import labels_to_fit, weight_keyword
from ..query import BatchQuery
from . import _plan as plan
from ._checkpoint import Checkpoint
from ._plan import Rows, Trial
from ._results import Failure, Round

try:
    import cloudpickle  # type: ignore[import-untyped]
except ImportError:  # joblib before 1.6 brings its own
    from joblib.externals import cloudpickle

_COLUMNS = ("trial", "query", "round", "n_labelled", "indices", "query_seconds", "fit_seconds")


@dataclass(frozen=True)
class Data:
    """Features, labels and weights of the caller, and data of a separate test set if there is one."""

    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: Any
    sample_weight: NDArray[np.float64] | None = None

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

    def rows(self, rows: Rows) -> tuple[Any, NDArray[Any]]:
        return containers.take_rows(self.X, rows), self.y[rows]

    def test(self, rows: Rows | None) -> tuple[Any, NDArray[Any], Rows]:
        """Test set of a trial, and the positions of its rows in the caller's data."""
        if rows is None:
            return self.X_test, self.y_test, np.arange(len(self.y_test))
        return *self.rows(rows), rows

    def weights(self, estimator: Any, rows: Rows) -> dict[str, Any]:
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
        seed = self._seed(plan.QUERY, number)
        twin = seeded_clone(self.query, np.random.default_rng(seed))
        return twin.set_params(random_state=seed) if "random_state" in twin.get_params(deep=False) else twin

    def room(self, labelled: Rows, number: int) -> int:
        """How many labels this round acquires."""
        experiment, n_left = self.experiment, len(self.trial.train) - len(labelled)
        if experiment.n_rounds is not None and number > experiment.n_rounds:
            return 0
        if experiment.budget is not None:
            n_left = min(n_left, experiment.budget - (len(labelled) - len(self.trial.initial)))
        return min(n_left, experiment.batch_size)

    def _seed(self, purpose: int, number: int) -> int:
        return plan.seed(self.experiment.entropy, purpose, self.trial.number, number)

    def _ask(self, query: Any, learner: Any, labelled: Rows, number: int) -> tuple[Rows, float]:
        """The next batch, as positions in the caller's X, and the seconds that the query took."""
        pool = np.setdiff1d(self.trial.train, labelled, assume_unique=True)
        X_pool, _ = self.experiment.data.rows(pool)

        def strategy(learner: Any, X_pool: Any, n_instances: int) -> Any:
            answer = query(learner, X_pool, n_instances=n_instances)
            indices = _checked_answer(answer, n_instances, len(pool), self.name)
            return modal.answer(learner, indices, np.full(n_instances, np.nan))

        learner.query_strategy = strategy
        with global_random.seeded(self._seed(plan.QUERY, number)):
            start = time.perf_counter()
            indices = learner.query(X_pool, n_instances=self.room(labelled, number))[0]
            seconds = time.perf_counter() - start
        return pool[indices], seconds

    def _fit(self, labelled: Rows, number: int) -> tuple[Any, float]:
        """A learner around a new model of the rows labelled so far, and the seconds its fit took."""
        seed = self._seed(plan.MODEL, number)
        model = seeded_clone(self.experiment.estimator, np.random.default_rng(seed))
        X, y = self.experiment.data.rows(labelled)
        weights = self.experiment.data.weights(model, labelled)
        with global_random.seeded(seed):
            start = time.perf_counter()
            learner = modal.fitted_learner(model, X, y, **weights)
            return learner, time.perf_counter() - start

    def _scores_of(self, model: Any, number: int) -> dict[str, float]:
        with global_random.seeded(self._seed(plan.MODEL, number)):
            return evaluate(self.experiment.scorers, model, *self.experiment.data.test(self.trial.test))


def _labelled(rounds: Sequence[Round]) -> Rows:
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
            f"`scoring` must have one name or more, and none of {', '.join(_COLUMNS)}. Got {list(scoring)!r} instead."
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


def _checked_answer(answer: Any, k: int, n_pool: int, name: str) -> NDArray[np.int64]:
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
