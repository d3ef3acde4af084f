"""What all queries share.

`BatchQuery` checks what it is asked for, finds the model and its training data in a modAL learner, keeps the random
state, streams the pool, and answers in modAL's form. A query itself is one method, ``_choose``, that turns a `Request`
into a `Batch`.

Every call runs on a copy of the query, with the parameters of that call, and answers from that copy. What the copy
learned is handed to the query at the end, in one step. So several threads may ask one query.
"""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from tqdm import tqdm

from .. import _containers as chunks
from .. import _modal as modal
from .._checks import check_n_instances, check_pool, check_positive_integers, is_fitted, not_fitted_error
from .._random import check_random_state, spawn
from ..samplers import Batch, uniform
from ._checks import (
    check_candidates,
    check_columns,
    check_max_candidates,
    check_overrides,
    check_training_pair,
    no_law_error,
    suggester,
    warn_cold_start,
)

__all__ = ["BatchQuery", "Request"]

modal.repair_modal()  # whoever uses a query may use it in modAL

_LOCK = threading.RLock()
"""Held for moments only: while a stream hands out seeds, and while a query is copied or takes over what a copy learned.

It is one for all queries, as an instance with a lock could not be pickled."""

_DRAWN = ("rng_", "_members")
"""What a query keeps between calls that its random state alone brought forth."""


@dataclass(frozen=True)
class Request:
    """What a query has to go on.

    Attributes
    ----------
    learner, estimator : object
        Who asks (a modAL learner, or the estimator itself), and the fitted model.
    X_pool : array-like
        The whole pool, as `_chunks.prepare_pool` leaves it.
    rows : ndarray of shape (n_candidates,), int64, or None
        Positions of the rows that may be chosen; None is all of them.
    n_candidates, k : int
        How many may be, and how many must be, chosen.
    X_training, y_training : array-like or None
        What the model was fitted to, if known.
    draws_rng, batch_rng : numpy.random.Generator
        Separate streams, so that samplers can be compared on the same draws.
    """

    learner: Any
    estimator: Any
    X_pool: Any
    rows: NDArray[np.int64] | None
    n_candidates: int
    k: int
    X_training: Any
    y_training: Any
    draws_rng: np.random.Generator
    batch_rng: np.random.Generator

    def of_pool(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """One number a candidate as one number a row of the pool, NaN for rows that are no candidates."""
        if self.rows is None:
            return values
        of_pool = np.full(chunks.count_rows(self.X_pool), np.nan)
        of_pool[self.rows] = values
        return of_pool


class BatchQuery(BaseEstimator, ABC):
    """Base of all queries. A subclass has a parameter ``random_state`` and a method ``_choose(request) -> Batch``.

    ``_choose`` returns positions among the candidates, sets ``scores_`` (one float64 a row of the pool; see
    `Request.of_pool`), and may set further attributes ending in an underscore. ``scores_`` is made read-only. The
    candidates can be streamed by `_chunks` if there are parameters ``chunk_size`` and ``verbose``, too.

    Notes
    -----
    Several threads may use one query at once. A call works on a copy of the query, so the parameters it was given by
    keyword, and the results it returns, are its own. When it ends, the attributes of the query become those of that
    call, all in one step: after calls side by side they are those of the call that ended last, where two attributes
    that are read one after the other may be from two calls. Lists whose name ends in ``_history_`` get what each call
    added. There is one stream of random numbers, from which each call takes its own part when it begins, so that the
    calls of all threads differ; which thread gets which part is up to the threads. A call that fails or is interrupted
    leaves the query as it was, but for its part of the stream, which is spent.

    Parameters should be set before threads begin: a call goes by those that it found when it began.
    """

    scores_: NDArray[np.float64]
    random_state: Any
    chunk_size: int | None
    verbose: int

    def __call__(self, learner: Any, X_pool: Any, n_instances: int | str = 1, **overrides: Any) -> Any:
        """Choose rows for a modAL learner; this is modAL's calling convention for query strategies.

        Parameters
        ----------
        learner : modAL.models.ActiveLearner or estimator
            Brings the model and its training data. If it is not fitted yet, the batch is uniform, with a warning.
        X_pool : array-like of shape (n_points, ...)
        n_instances : int or "auto", default=1
            As in `select`.
        **overrides
            Parameters of the query, and keywords of `select`, for this call only.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first; with their scores beside them where modAL asks for a pair.
        """
        given = {name: overrides.pop(name) for name in ("X_training", "y_training", "candidates") if name in overrides}
        call = self._run_on_a_copy(learner, X_pool, n_instances, overrides, cold_start=True, **given)
        return modal.answer(learner, call.indices_.copy(), call.scores_[call.indices_])

    def select(
        self,
        estimator: Any,
        X_pool: Any,
        n_instances: int | str = 1,
        *,
        X_training: Any = None,
        y_training: Any = None,
        candidates: ArrayLike | None = None,
    ) -> NDArray[np.int64]:
        """Choose rows of the pool for a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
        X_pool : array-like of shape (n_points, ...)
            numpy array or memory map of any number of axes, torch tensor, DataFrame, list, scipy sparse or dask array.
            Never copied as a whole, never changed.
        n_instances : int or "auto", default=1
            Rows to choose. "auto": as many as `StochasticBatchQuery.suggest_batch_size` says.
        X_training, y_training : array-like, optional
            What the estimator was fitted to; needed where draws come from refitting.
        candidates : array-like of int or bool, optional
            Positions of the rows that may be chosen, or a mask of shape (n_points,); others are not even scored.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first: every prefix is a batch of its own. The scores that they were
            chosen by are in ``scores_``, which is read-only: copy it to change it.

        Raises
        ------
        ValueError, TypeError
            If the pool is empty or does not fit the model, ``n_instances`` is not an integer from 1 to the number of
            rows that may be chosen (or "auto", where the query suggests sizes and the training data are known),
            ``X_training`` and ``y_training`` are not of one length, or a parameter of the query is not valid.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        """
        given = {"X_training": X_training, "y_training": y_training, "candidates": candidates}
        return self._run_on_a_copy(estimator, X_pool, n_instances, **given).indices_.copy()

    def set_params(self, **params: Any) -> BatchQuery:
        """Set parameters. With a ``random_state`` the query starts afresh: like a clone, it knows of no call before."""
        try:
            return super().set_params(**params)
        finally:
            if "random_state" in params:
                self._start_afresh()

    @property
    def log_proba_(self) -> NDArray[np.float64]:
        """Log-probability of each pick given those before it, shape (n_instances,); computed when asked for."""
        batch = vars(self).get("_batch")
        if batch is None or batch.log_proba is None:
            raise no_law_error(self, "log_proba_", batch is not None)
        return batch.log_proba()

    @property
    def n_unreachable_(self) -> int:
        """How many of the rows that might be chosen had probability 0 of being the first pick."""
        batch = vars(self).get("_batch")
        if batch is None or batch.log_weights is None:
            raise no_law_error(self, "n_unreachable_", batch is not None)
        return int(np.count_nonzero(batch.log_weights() == -np.inf))

    @abstractmethod
    def _choose(self, request: Request) -> Batch:
        """Choose ``request.k`` of the candidates, by their positions among the candidates."""

    def _run_on_a_copy(
        self,
        learner: Any,
        X_pool: Any,
        n_instances: int | str,
        overrides: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> BatchQuery:
        """A call, with other parameters maybe: the copy that it was made on, whose attributes are its results."""
        with self._on_a_copy(overrides or {}) as call:
            call._select(learner, X_pool, n_instances, **options)
        return call

    def _select(
        self, learner: Any, X_pool: Any, n_instances: int | str, *, cold_start: bool = False, **given: Any
    ) -> None:
        if isinstance(n_instances, str) and n_instances.lower() == "auto":
            n_instances = suggester(self, n_instances)(learner, X_pool, **given)
        request = self._request(learner, X_pool, n_instances, **given)
        if cold_start and not is_fitted(request.estimator):
            warn_cold_start(request.estimator)
            self.scores_ = np.full(chunks.count_rows(request.X_pool), np.nan)
            batch = uniform.draw(np.zeros(request.n_candidates), request.k, request.batch_rng)  # type: ignore[attr-defined]
        else:
            self._check_fits(request)
            batch = self._choose(request)
        self.scores_.flags.writeable = False  # they are a record of the batch
        self._batch = batch
        self.indices_ = batch.indices if request.rows is None else request.rows[batch.indices]
        self.batch_size_history_ = [*vars(self).get("batch_size_history_", ()), request.k]
        self._keep_n_features(request.X_pool)

    def _check_fits(self, request: Request) -> None:
        """Check that the estimator is fitted, and to rows like those of the pool."""
        if not is_fitted(request.estimator):
            raise not_fitted_error(request.estimator)
        n_axes = getattr(request.X_pool, "ndim", 2)
        check_columns(request.estimator, chunks.count_columns(request.X_pool), n_axes)

    def _request(
        self,
        learner: Any,
        X_pool: Any,
        n_instances: int | str,
        *,
        X_training: Any = None,
        y_training: Any = None,
        candidates: ArrayLike | None = None,
    ) -> Request:
        estimator, X_training, y_training = modal.unwrap(learner, X_training, y_training)
        check_pool(X_pool)
        X_pool = chunks.prepare_pool(X_pool)
        n_points = chunks.count_rows(X_pool)
        rows = None if candidates is None else check_candidates(candidates, n_points)
        k = check_n_instances(n_instances, n_points if rows is None else len(rows), n_points)
        with _LOCK:
            draws_rng, batch_rng = spawn(self._generator(), 2)
        rows = self._limited(rows, n_points, k, batch_rng)
        lengths = (None if data is None else chunks.count_rows(data) for data in (X_training, y_training))
        check_training_pair(*lengths)
        return Request(
            learner,
            estimator,
            X_pool,
            rows,
            n_points if rows is None else len(rows),
            k,
            X_training,
            y_training,
            draws_rng,
            batch_rng,
        )

    def _limited(
        self, rows: NDArray[np.int64] | None, n_points: int, k: int, rng: np.random.Generator
    ) -> NDArray[np.int64] | None:
        """At most ``max_candidates`` of the rows, at random, where the query has that parameter and it is set."""
        most = getattr(self, "max_candidates", None)
        check_positive_integers(max_candidates=most)
        n = n_points if rows is None else len(rows)
        if most is None or most >= n:
            return rows
        check_max_candidates(most, k)
        chosen = np.sort(rng.choice(n, most, replace=False))
        return chosen if rows is None else rows[chosen]

    def _generator(self) -> np.random.Generator:
        """Kept and advanced: seeding anew at every query would put the same noise on the pool again."""
        with _LOCK:
            if "rng_" not in vars(self):
                self.rng_ = check_random_state(self.random_state)
            return self.rng_

    def _copied_generator(self) -> np.random.Generator:
        with _LOCK:
            return copy.deepcopy(self._generator())

    def _chunks(
        self, request: Request, n_values: int, doing: str, block: int | None = None
    ) -> Iterator[tuple[slice, Any]]:
        """Stream the candidates: their positions, and a chunk of the pool with these rows, under a progress bar.

        ``n_values`` is how many float64 a row takes on the way. Chunks are whole blocks of as many rows as a net is
        asked for at once: then it sees the same blocks for every size of the chunks.
        """
        size = chunks.whole_blocks(self.chunk_size or chunks.rows_per_chunk(request.X_pool, n_values), block)
        done = 0
        with tqdm(total=request.n_candidates, desc=doing, unit="row", disable=not self.verbose) as bar:
            for chunk in chunks.iter_chunks(request.X_pool, request.rows, size):
                n = chunks.count_rows(chunk)
                yield slice(done, done + n), chunk
                done += n
                bar.update(n)

    def _keep_n_features(self, X_pool: Any) -> None:
        n_columns = chunks.count_columns(X_pool)
        if n_columns is not None:
            self.n_features_in_ = n_columns

    @contextmanager
    def _on_a_copy(self, overrides: Mapping[str, Any]) -> Iterator[Any]:
        """A copy with other parameters, to make a call on; unless that fails, the query learns what it left there.

        The copy shares the query's stream. With a random state among the overrides it has a stream and a bootstrap of
        its own, of which the query learns nothing.
        """
        check_overrides(type(self), overrides, self.get_params(deep=False))
        drawn = _DRAWN if "random_state" in overrides else ()
        with _LOCK:
            if not drawn:
                self._generator()
            before = dict(self.__dict__)
        call = object.__new__(type(self))
        call.__dict__.update({name: value for name, value in before.items() if name not in drawn})
        call.set_params(**{name: value for name, value in overrides.items() if name != "random_state"})
        if drawn:
            call.random_state = overrides["random_state"]
        yield call
        with _LOCK:
            self._learn(before, call.__dict__, {*overrides, *drawn})

    def _learn(self, before: dict[str, Any], after: dict[str, Any], own: set[str]) -> None:
        """Take over what is different after a call, but for what is the call's own."""
        now = self.__dict__
        if "rng_" in before and "rng_" not in own and now.get("rng_") is not before["rng_"]:
            return  # the query was started afresh meanwhile
        others = [name for name in after if name not in own]
        changed = {name: after[name] for name in others if name not in before or before[name] is not after[name]}
        for name in changed.keys() & now.keys():
            if name.endswith("_history_"):  # others may have ended since this call began: it adds what it added
                changed[name] = [*now[name], *changed[name][len(before.get(name, ())) :]]
        now.update(changed)
        for name in before.keys() - after.keys() - own:
            now.pop(name, None)

    def _start_afresh(self) -> None:
        """Forget all that is no parameter, by the names that such attributes have, and is not there from the start."""
        new = type(self)(**self.get_params(deep=False))
        with _LOCK:
            for name in [name for name in self.__dict__ if name.startswith("_") or name.endswith("_")]:
                del self.__dict__[name]
            self.__dict__.update(new.__dict__)
