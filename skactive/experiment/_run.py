"""One run of an experiment, a query in a trial: rounds of querying, labelling, fitting and scoring.

A round depends on the plan, the rows labelled before it, and the state of the query; on nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _containers as chunks
from .. import _fingerprint as fingerprint
from .. import _modal as modal
from .. import _random as global_random
from .._checks import BatchError, check_labels_of, check_query_answer, check_sample_weight, is_integer
from .._random import seeded_clone
from .._threads import one_thread
from ..posterior._bootstrap import weight_keyword
from ..posterior._wrappers import labels_to_fit
from . import _plan as plan
from . import _query_state as query_state
from ._checkpoint import Progress, save_round
from ._journal import Journal
from ._plan import Rows, Trial
from ._results import Failure, Round
from ._scoring import evaluate


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
        X = chunks.prepare_pool(X, "X")
        if sample_weight is not None:
            sample_weight = chunks.aligned(sample_weight, X, "sample_weight")
        sample_weight = check_sample_weight(sample_weight, chunks.count_rows(X))
        if sample_weight is not None and weight_keyword(estimator) is None:
            raise ValueError(
                f"`sample_weight` must be None for an estimator whose `fit` takes no weights, and that of "
                f"{type(estimator).__name__} takes none."
            )
        y = labels_to_fit(estimator, check_labels_of(chunks.count_rows(X), chunks.aligned(y, X, "y")))
        if X_test is not None:
            X_test = chunks.prepare_pool(X_test, "X_test")
            y_test = chunks.aligned(y_test, X_test, "y_test")
            y_test = check_labels_of(chunks.count_rows(X_test), y_test, "_test")
            y_test = labels_to_fit(estimator, y_test)
        return cls(X, y, X_test, y_test, sample_weight)

    def rows(self, rows: Rows) -> tuple[Any, NDArray[Any]]:
        """Features and labels of some rows."""
        return chunks.take_rows(self.X, rows), self.y[rows]

    def test(self, rows: Rows | None) -> tuple[Any, NDArray[Any], Rows]:
        """Test set of a trial, and the positions of its rows in the caller's data."""
        if rows is None:
            return self.X_test, self.y_test, np.arange(len(self.y_test))
        return *self.rows(rows), rows

    def hashes(self) -> dict[str, str]:
        """Checksums by name."""
        values = {name: value for name, value in vars(self).items() if name != "sample_weight" or value is not None}
        return {name: fingerprint.hash_data(value) for name, value in values.items()}

    def weights(self, estimator: Any, rows: Rows) -> dict[str, Any]:
        """Weights of some rows, as a keyword for the fit."""
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
    journal: Journal | None


def do_run(
    experiment: Experiment, trial: Trial, name: str, query: Any, progress: Progress
) -> tuple[list[Round], Failure | None]:
    """All rounds of a query in a trial, finished ones included; each is on the disk before the next starts."""
    rounds = list(progress.rounds)
    new_rounds = _Run(experiment, trial, name, query).rounds(progress)
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
            rounds.append(new[0])
            if experiment.journal is not None:
                save_round(experiment.journal, progress.part_of, *new)


@dataclass(frozen=True)
class _Run:
    experiment: Experiment
    trial: Trial
    name: str
    query: Any

    def rounds(self, progress: Progress) -> Iterator[tuple[Round, bytes | None]]:
        """The rounds that are left, each with what the query remembers after it, if that changed."""
        number, labelled = len(progress.rounds), _labelled(progress.rounds)
        learner: Any = None
        if number and self._room(labelled, number):  # from a checkpoint
            query = self._resumed_query(progress)
            learner = self._fit(labelled, number - 1)[0]
        else:
            query = query_state.fresh_copy(self.name, self.query, self._seed(plan.QUERY, 0))
        memory = query_state.memory_of(query) if self.experiment.journal else None
        while number == 0 or self._room(labelled, number):
            batch, query_seconds = self._ask(query, learner, labelled, number) if number else (self.trial.initial, None)
            labelled = np.concatenate([labelled, batch])
            learner, fit_seconds = self._fit(labelled, number)
            scores = self._scores_of(learner.estimator, number)
            before, memory = memory, query_state.memory_of(query) if self.experiment.journal else None
            yield (
                Round(
                    trial=self.trial.number,
                    query=self.name,
                    round=number,
                    n_labelled=len(labelled),
                    indices=tuple(batch.tolist()),
                    scores=scores,
                    query_seconds=query_seconds,
                    fit_seconds=fit_seconds,
                ),
                None if memory == before else memory,
            )
            number += 1

    def _resumed_query(self, progress: Progress) -> Any:
        """The query as it was after its finished rounds: as written down, or asked for them again."""
        query = query_state.fresh_copy(self.name, self.query, self._seed(plan.QUERY, 0))
        if progress.memory in (None, query_state.memory_of(query)) or query_state.remembers(query, progress.memory):
            return query
        for number, done in enumerate(progress.rounds[1:], start=1):
            labelled = _labelled(progress.rounds[:number])
            batch, _ = self._ask(query, self._fit(labelled, number - 1)[0], labelled, number)
            if tuple(batch.tolist()) != done.indices:
                raise BatchError(
                    f"`queries`[{self.name!r}] remembers what cannot be written to `checkpoint`, so it was asked for "
                    f"its finished rounds again, and chose other rows in round {number} of trial {done.trial}. Give "
                    "it methods get_state() and set_state(state) for a state of numbers, texts, lists, dicts, arrays "
                    "and random generators, or start with a new path."
                )
        return query

    def _room(self, labelled: Rows, number: int) -> int:
        """The largest number of labels that this round may acquire."""
        return self.trial.limits.room(number - 1, len(labelled) - len(self.trial.initial))

    def _seed(self, purpose: int, number: int) -> int:
        return plan.seed(self.experiment.entropy, purpose, self.trial.number, number)

    def _ask(self, query: Any, learner: Any, labelled: Rows, number: int) -> tuple[Rows, float]:
        """The next batch, as positions in the caller's X, and the seconds that the query took."""
        pool = np.setdiff1d(self.trial.train, labelled, assume_unique=True)
        X_pool, _ = self.experiment.data.rows(pool)

        def strategy(learner: Any, X_pool: Any, n_instances: int) -> Any:
            answer = query(learner, X_pool, n_instances=n_instances)
            indices = check_query_answer(answer, n_instances, len(pool), self.name)
            return modal.answer(learner, indices, np.full(n_instances, np.nan))

        learner.query_strategy = strategy
        with global_random.seeded(self._seed(plan.QUERY, number)):
            start = time.perf_counter()
            k = self._room(labelled, number)
            if self.trial.limits.batch_size is None:
                suggested = query.suggest_batch_size(learner, X_pool)
                k = min(k, _check_suggestion(suggested, len(pool), self.name))
            indices = learner.query(X_pool, n_instances=k)[0]
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


def _labelled(rounds: list[Round]) -> Rows:
    return np.array([i for done in rounds for i in done.indices], dtype=np.int64)


def _check_suggestion(size: Any, n_pool: int, name: str) -> int:
    if not is_integer(size) or not 1 <= size <= n_pool:
        raise BatchError(
            f"`queries`[{name!r}].suggest_batch_size must return an integer from 1 to the {n_pool} rows of the pool. "
            f"Got {size!r}."
        )
    return int(size)
