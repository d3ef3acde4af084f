"""What all queries share.

`BatchQuery` checks its input, finds the model and its training data in a modAL learner, keeps the stream of
random numbers, and answers in modAL's form. A query itself is one method, `BatchQuery.choose`, which chooses among the
candidates of a `Pool` and changes nothing on the query.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _containers as containers
from .. import _modal as modal
from .._utils.randomness import check_random_state, spawn
from .._utils.types import BaseEstimator, PosteriorName
from .._utils.validation import (
    N_JOBS,
    Rule,
    Rules,
    UnfittedError,
    check_n_instances,
    check_parameters,
    integer,
    is_integer,
    warn,
    whole_fit,
)
from ..samplers._law import draw_batch
from ._limits import Limits
from ._pool import Pool, check_fits, check_last_fit, pool_for

modal.repair_modal()  # whoever uses a query may use it in modAL

_OF_SELECT = ("X_training", "y_training", "candidates", "sample_weight", "fit_params", "pending", "limits")
"""Keywords of `select`, which a call takes as well."""


def _is_random_state(value: Any) -> bool:
    try:
        np.random.default_rng(value)  # takes no number from a Generator
    except (TypeError, ValueError):
        return isinstance(value, np.random.RandomState)
    return True


def _is_posterior(value: Any) -> bool:
    if isinstance(value, str):
        return value in get_args(PosteriorName)
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("fit", "get_params", "set_params"))


RULES: Rules = {
    "n_draws": integer().or_none(),
    "posterior": Rule(_is_posterior, '"auto", "bootstrap" or an estimator that scikit-learn can clone'),
    "chunk_size": integer().or_none(),
    "predict_batch_size": integer().or_none(),
    "n_jobs": N_JOBS,
    "random_state": Rule(_is_random_state, "None, a non-negative integer, a numpy Generator or a RandomState"),
    "verbose": Rule(lambda v: isinstance(v, bool) or (is_integer(v) and v >= 0), "an integer, 0 or larger"),
}
"""Rules of the parameters that queries have in common."""


class Streams(NamedTuple):
    """Two generators per call, one for posterior draws and one for the batch: samplers meet identical draws."""

    draws: np.random.Generator
    batch: np.random.Generator


@dataclass(frozen=True)
class Batch:
    """The candidates that a query chose, with their scores and sampling law.

    Attributes
    ----------
    positions : ndarray of shape (k,), int64
        Distinct positions among the candidates, most preferred first.
    scores : ndarray of shape (n_candidates,), float64
        The scores they were chosen by, larger being preferred; NaN where nothing was scored.
    law : object, optional
        The sampling law, if there is one: ``law.log_proba()`` is the natural logarithm of each pick's probability given
        those before it, shape (k,), and ``law.first_log_proba()`` that of each candidate to be the first pick, shape
        (n_candidates,). Both take a pass over the candidates, and are computed on request.
    attributes : dict, optional
        Further attributes that `BatchQuery.select` sets for this batch, such as ``{"radius_": 0.5}``.
    """

    positions: NDArray[np.int64]
    scores: NDArray[np.float64]
    law: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


class BatchQuery(BaseEstimator, ABC):
    """Base of all queries.

    A query is a subclass with a constructor as in scikit-learn, a parameter ``random_state``, the rules of its other
    parameters, and the choice of a batch. Parameters of `StochasticBatchQuery` have the same meaning as there.

    Attributes
    ----------
    rules : dict of str to Rule
        What each parameter must be, checked at every call; a subclass adds its own to ``BatchQuery.rules``.
    keeps_parts : bool
        Whether a subclass keeps what it needs of each row, so that one pass is enough where their number is known.
    rng_ : numpy.random.Generator
        The stream of random numbers. It starts at ``random_state`` with the first call and goes on from call to call,
        so that no two batches share their noise. A clone starts afresh, and so does the query when ``set_params`` sets
        a ``random_state``.
    scores_ : ndarray of shape (n_points,), float64, read-only
        Scores that the last batch was chosen by; NaN for rows that were not scored.
    indices_ : ndarray of shape (n_instances,), int64, read-only
        The last batch.

    See Also
    --------
    query.Pool : What ``choose`` gets.
    query.Batch : What it returns.
    query.draws_of : Draws for the rows of a pool.
    query.embeddings_of : Embeddings of these rows.

    Notes
    -----
    A query keeps its parameters and the stream. The attributes that report the last batch are set in one step at the
    end of a call: a call that fails leaves those of the call before, though it may have moved the stream. Threads
    should have a clone each; if they share a query, use what ``select`` returns.
    """

    rules: ClassVar[Rules] = RULES
    keeps_parts: ClassVar[bool] = False

    random_state: Any = None
    chunk_size: int | None = None
    predict_batch_size: int | None = None
    verbose: int = 0

    rng_: np.random.Generator
    scores_: NDArray[np.float64]
    indices_: NDArray[np.int64]
    _batch: Batch

    @abstractmethod
    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Choose k candidates of a pool, without changing the query: the one method that a query must have.

        Parameters
        ----------
        learner : fitted estimator, or modAL learner
            `model_of` gives the model; it was fitted to rows like those of the pool.
        pool : Pool
            Candidates, and the training data if known. `draws_of`, `embeddings_of` and `score_rows` stream it. Rows are
            taken by `Pool.allowance`, those that must be in the batch first.
        k : int
            From 1 to ``len(pool)``.
        rngs : Streams
            ``rngs.draws`` for whatever is drawn from the model, ``rngs.batch`` for the choice.
        """

    def check_parameters(self) -> None:
        """Check all parameters, those included that the next call will not use."""
        check_parameters(self.rules, self.get_params(deep=False))

    def reads_once(self, pool: Pool) -> bool:
        """Whether `choose` reads the pool in one pass, and asks for no number of rows that is not known before."""
        return self.keeps_parts and not pool.is_open

    def __call__(self, learner: Any, X_pool: Any, n_instances: int = 1, **overrides: Any) -> Any:
        """Choose rows for a modAL learner; this is modAL's calling convention for query strategies.

        Parameters
        ----------
        learner : modAL.models.ActiveLearner or estimator
            Brings the model and its training data. If it is not fitted yet, the batch is uniform, with a warning.
        X_pool : array-like of shape (n_points, ...)
        n_instances : int, default=1
            As in `select`.
        **overrides
            Parameters of the query, and keywords of `select`, for this call only. With a ``random_state`` among them
            the call has a stream of its own.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first; with their scores beside them where modAL asks for a pair.
        """
        X_pool = containers.prepare_pool(X_pool)
        if modal.unwrap(learner)[0] is not learner and containers.is_read_once(X_pool):
            raise ValueError(
                "`X_pool` can be read only once, but a learner reads the rows of the batch again. Call the query's "
                "`select` for their positions, or give `skactive.blocks` a function that starts again."
            )
        given = {name: overrides.pop(name) for name in _OF_SELECT if name in overrides}
        indices, scores = self._report(*self._with(overrides)._chosen(learner, X_pool, n_instances, given))
        return modal.answer(learner, indices.copy(), scores[indices])

    def select(
        self,
        estimator: Any,
        X_pool: Any,
        n_instances: int = 1,
        *,
        X_training: Any = None,
        y_training: Any = None,
        candidates: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        fit_params: Mapping[str, Any] | None = None,
        pending: ArrayLike | None = None,
        limits: Limits | None = None,
        **others: Any,
    ) -> NDArray[np.int64]:
        """Choose rows of the pool for a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            If it is not fitted, the batch is uniform at random, with a warning.
        X_pool : array-like of shape (n_points, ...)
            numpy array or memory map of any number of axes, torch tensor, DataFrame or Series of pandas or polars,
            table of Arrow, list, tuple, scipy sparse array, dict of arrays. Never copied as a whole, never changed. Or
            anything that is read in blocks: an Arrow dataset (Parquet files), a polars LazyFrame, a dask collection, a
            torch Dataset or DataLoader, or `skactive.blocks`.
        n_instances : int, default=1
            Rows to choose.
        X_training, y_training : array-like, optional
            What the estimator was fitted to; needed where draws come from refitting.
        candidates : array-like of int or bool, optional
            Positions of the rows that may be chosen, or a mask of shape (n_points,); others are not even scored.
        sample_weight : array-like of shape (n_labelled,), optional
            Weights of the training rows in the fit, for draws that come from the training data or from refits. A
            learner brings those it was fitted with.
        fit_params : dict, optional
            Further keywords for ``fit`` where models are refitted, such as ``eval_set``. Arrays with an entry for each
            training row (not lists) are resampled with the rows. A learner brings those it was fitted with.
        pending : array-like of int or bool, optional
            Rows in flight, whose labels have been asked for and are not there yet: positions, or a mask. None of them
            is chosen, and where rows of a batch depend on each other (with a ``diversity``, or in joint queries such as
            `BADGEQuery`) they count as chosen, so that the batch does not repeat them.
        limits : Limits, optional
            Constraints on the batch: the most or fewest rows per group, a budget, rows that must be in it.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first: every prefix is a batch of its own. Fewer than ``n_instances``
            only where ``limits`` have a budget.
        """
        if others:
            raise TypeError(
                f"`select` takes no keyword `{next(iter(others))}`. Parameters of a query are set when it is made; for "
                "a single batch they are keywords of `query(estimator, X_pool, n_instances)`."
            )
        given = (X_training, y_training, candidates, sample_weight, fit_params, pending, limits)
        by_name = dict(zip(_OF_SELECT, given, strict=True))
        return self._report(*self._chosen(estimator, X_pool, n_instances, by_name))[0].copy()

    def set_params(self, **params: Any) -> Self:
        """Set parameters. With a ``random_state`` among them the stream starts afresh, as in a clone."""
        super().set_params(**params)
        if "random_state" in params:
            self.__dict__.pop("rng_", None)
        return self

    @property
    def log_proba_(self) -> NDArray[np.float64]:
        """Log-probability of each pick given those before it, shape (n_instances,); computed when asked for.

        With `Limits` that is its probability among the rows still allowed: 0 for rows that must be in the batch.
        """
        law = self._batch.law
        if law is None:
            raise AttributeError(
                f"{type(self).__name__} has no `log_proba_`: its batches have no sampling law. "
                "StochasticBatchQuery has one, unless the sampler is a function of your own."
            )
        return law.log_proba()

    @property
    def concentration_(self) -> float:
        """Mean score of the last batch over that of all rows that were scored: near 1, the batch was nearly random.

        NaN where no scores were made, or some are negative.
        """
        mean = float(np.nanmean(self.scores_)) if np.isfinite(self.scores_).any() else np.nan
        is_ratio = mean > 0 and np.nanmin(self.scores_) >= 0
        return float(self.scores_[self.indices_].mean()) / mean if is_ratio else np.nan

    def _with(self, overrides: Mapping[str, Any]) -> Self:
        """A query with other parameters on the same stream; one of its own if a ``random_state`` is among them."""
        parameters = self.get_params(deep=False)
        unknown = sorted(set(overrides) - set(parameters))
        if unknown:
            known = ", ".join([*parameters, *_OF_SELECT])
            raise TypeError(f"{type(self).__name__} takes no keyword `{unknown[0]}`. It takes: n_instances, {known}.")
        if not overrides:
            return self
        self._stream()  # begins before it is shared
        return copy.copy(self).set_params(**overrides)

    def _stream(self) -> np.random.Generator:
        if "rng_" not in self.__dict__:
            self.__dict__.setdefault("rng_", check_random_state(self.random_state))  # one, of threads at once
        return self.rng_

    def _chosen(self, learner: Any, X_pool: Any, n_instances: int, given: Mapping[str, Any]) -> tuple[Pool, Batch]:
        """A pool as it was given, checked, and the batch chosen from it."""
        self.check_parameters()
        model, pool = pool_for(learner, containers.prepare_pool(X_pool), **given)

        def choose(k: int, rngs: Streams) -> Batch:
            try:
                check_last_fit(learner, pool.y_training)
                check_fits(model, pool)
                with whole_fit(model, lambda: pool.first_rows()[0], pool.y_training):
                    return self.choose(learner, pool, k, rngs)
            except UnfittedError as error:
                warn(f"{error.why}, so there are no scores: the batch is uniform at random.")
                return _uniform(pool, k, rngs.batch)

        return pool, self._batch_of(pool, n_instances, choose)

    def _batch_of(self, pool: Pool, n_instances: int, choose: Callable[[int, Streams], Batch]) -> Batch:
        """What ``choose(k, rngs)`` chooses, between the checks of what was asked for and of what was chosen."""
        if not self.reads_once(pool):
            pool.store(f"{type(self).__name__} looks at rows of the pool again")
        if pool.is_open:
            k = int(integer().check("n_instances", n_instances))
        else:
            k = check_n_instances(n_instances, len(pool), pool.n_points)
        if pool.limits is not None:
            pool.allowance(k)  # limits that no batch can keep are refused before anything is drawn
        batch = choose(k, Streams(*spawn(self._stream(), 2)))
        _check_keeps_to_limits(self, pool, k, batch.positions)
        return batch

    def _report(self, pool: Pool, batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Set all attributes that report a batch, in one step; they are a record, so that they are read-only."""
        indices, scores = pool.positions(batch.positions), pool.of_pool(batch.scores)
        for array in (indices, scores):
            array.flags.writeable = False
        results = {**batch.attributes, "_batch": batch, "indices_": indices, "scores_": scores}
        if pool.n_columns is not None:
            results["n_features_in_"] = pool.n_columns
        if "_batch" in self.__dict__:
            for name in self._batch.attributes.keys() - results.keys():
                self.__dict__.pop(name, None)
        self.__dict__.update(results)
        return indices, scores


def _uniform(pool: Pool, k: int, rng: np.random.Generator) -> Batch:
    """A batch without a model."""
    k = check_n_instances(k, len(pool), pool.n_points)  # counted by now, where rows are read in blocks
    positions, law = draw_batch(
        "uniform", np.zeros(len(pool)), k, rng, allowance=None if pool.limits is None else pool.allowance(k)
    )
    return Batch(positions, np.full(len(pool), np.nan), law)


def _check_keeps_to_limits(query: BatchQuery, pool: Pool, k: int, chosen: NDArray[np.int64]) -> None:
    if pool.limits is None:
        return
    allowance = pool.allowance(k)
    for row in chosen[len(allowance.must) :].tolist():
        if allowance.allows_row(row):
            allowance.take(row)
    if not np.array_equal(allowance.batch, chosen) or (allowance.n_left and allowance.allowed.any()):
        raise ValueError(
            f"`limits` need a query that obeys them, but {type(query).__name__} chose {len(chosen)} rows that do "
            "not. Its method `choose` must take rows by `pool.allowance(k)`."
        )
