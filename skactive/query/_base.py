"""What all queries share.

`BatchQuery` checks what it is asked for, finds the model and its training data in a modAL learner, keeps the random
state, and answers in modAL's form. A query itself is one method, `BatchQuery.choose`, that chooses among the candidates
of a `Pool`.

Every call runs on a copy of the query, with the parameters of that call, and answers from that copy. What the copy
learned is handed to the query at the end, in one step. So several threads may ask one query.
"""

from __future__ import annotations

import pickle
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _containers as containers
from .. import _modal as modal
from .._bases import BaseEstimator
from .._checks import (
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
from .._random import check_random_state, spawn
from .._types import PosteriorName, Size
from ..samplers._law import draw_batch
from ._batch import Batch
from ._limits import Limits
from ._memory import Memory
from ._model import check_fits, pool_for
from ._pool import Pool
from ._training import check_last_fit

modal.repair_modal()  # whoever uses a query may use it in modAL

_LOCK = threading.RLock()
"""Held for moments only: while a stream hands out seeds, and while a query is copied or takes over what a copy learned.

It is one for all queries, as an instance with a lock could not be pickled."""

_OF_SELECT = ("X_training", "y_training", "sample_weight", "fit_params", "candidates", "pending", "limits")
"""Keywords of `select`, which a call takes as well."""

_REPORTS = ("scores_", "score_", "indices_", "_batch")
"""What a query reports of its last call: as large as the pool, and made again by the next."""


def _is_random_state(value: Any) -> bool:
    if isinstance(value, np.random.RandomState):
        return True
    try:
        np.random.default_rng(value)  # takes no number from a Generator
    except (TypeError, ValueError):
        return False
    return True


def _is_posterior(value: Any) -> bool:
    return value in get_args(PosteriorName) if isinstance(value, str) else _can_be_cloned(value)


def _can_be_cloned(value: Any) -> bool:
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("fit", "get_params", "set_params"))


RULES: Rules = {
    "n_draws": integer().or_none(),
    "posterior": Rule(_is_posterior, '"auto", "bootstrap" or an estimator that scikit-learn can clone'),
    "chunk_size": integer().or_none(),
    "predict_batch_size": integer().or_none(),
    "max_candidates": integer().or_none(),
    "n_jobs": N_JOBS,
    "random_state": Rule(_is_random_state, "None, a non-negative integer, a numpy Generator or a RandomState"),
    "verbose": Rule(lambda v: isinstance(v, bool) or (is_integer(v) and v >= 0), "an integer, 0 or larger"),
}
"""Rules of the parameters that queries have in common."""


class Streams(NamedTuple):
    """Random numbers of one call: for draws, and for the batch, so that samplers can be compared on the same draws.

    See Also
    --------
    query.BatchQuery : Passes them to ``choose``.
    """

    draws: np.random.Generator
    batch: np.random.Generator


class BatchQuery(BaseEstimator, ABC):
    """Base of all queries.

    A query is a subclass with a constructor as scikit-learn wants it, which has a parameter ``random_state``, and two
    members of its own: the rules of its parameters, and the choice of a batch. If it has the parameters ``chunk_size``,
    ``max_candidates``, ``predict_batch_size`` or ``verbose``, they mean what they mean in `StochasticBatchQuery`.

    Attributes
    ----------
    rules : dict of str to Rule
        What each parameter must be; a subclass adds its own to ``BatchQuery.rules``. They are checked at the start of
        every call, that of an unfitted learner included.
    memory_ : Memory
        What it knows of earlier calls.
    scores_ : ndarray of shape (n_points,), float64, read-only
        What `choose` set; NaN for rows that were not scored.
    indices_ : ndarray of shape (n_instances,), int64
        The last batch.

    See Also
    --------
    query.Pool : What ``choose`` gets.
    query.draws_of : Draws for its rows.
    query.embeddings_of : Embeddings of its rows.

    Notes
    -----
    Several threads may use one query at once. A call works on a copy of the query, so the parameters it was given by
    keyword, and the results it returns, are its own. When it ends, the attributes of the query become those of that
    call, all in one step: after calls side by side they are those of the call that ended last, where two attributes
    that are read one after the other may be from two calls. Lists whose name ends in ``_history_`` get what each call
    added. There is one stream of
    random numbers, from which each call takes its own part when it begins, so that the calls of all threads differ;
    which thread gets which part is up to the threads. A call that fails or is interrupted leaves the query as it was;
    its part of the stream is put back, unless another call has taken the next one meanwhile.

    Parameters should be set before threads begin: a call goes by those that it found when it began.
    """

    rules: ClassVar[Rules] = RULES

    random_state: Any = None
    chunk_size: int | None = None
    predict_batch_size: int | None = None
    max_candidates: int | None = None
    verbose: int = 0

    memory_: Memory
    scores_: NDArray[np.float64]
    indices_: NDArray[np.int64]

    @abstractmethod
    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Choose k candidates of a pool: the one method that a query must have.

        Parameters
        ----------
        learner : fitted estimator, or modAL learner
            `model_of` gives the model; it was fitted to rows like those of the pool.
        pool : Pool
            Candidates, and the training data if known. `draws_of`, `embeddings_of` and `score_rows` stream it. Where
            `Pool.allowance` is not None, rows are taken by that, first those that it has to have.
        k : int
            From 1 to ``len(pool)``.
        rngs : Streams
            ``rngs.draws`` for whatever is drawn from the model, ``rngs.batch`` for the choice.

        Returns
        -------
        Batch
            Positions among the candidates, most preferred first, and the scores of all candidates. The method sets
            nothing on the query.
        """

    def check_parameters(self) -> None:
        """Check all parameters, those included that the next call will not use.

        Raises
        ------
        ValueError, TypeError
            If one breaks its rule. The message names it and says what to do.
        """
        check_parameters(self.rules, self.get_params(deep=False))

    def __call__(self, learner: Any, X_pool: Any, n_instances: Size = 1, **overrides: Any) -> Any:
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
        X_pool = containers.prepare_pool(X_pool)
        if modal.unwrap(learner)[0] is not learner and containers.is_read_once(X_pool):
            raise ValueError(
                "`X_pool` can be read once, and a learner takes the rows of the batch after they are chosen. Ask "
                "`select` of the query for their positions, or give `skactive.blocks` a function that begins anew."
            )
        given = {name: overrides.pop(name) for name in _OF_SELECT if name in overrides}
        call = self.select_on_a_copy(learner, X_pool, n_instances, overrides, **given)
        return modal.answer(learner, call.indices_.copy(), call.scores_[call.indices_])

    def select(
        self,
        estimator: Any,
        X_pool: Any,
        n_instances: Size = 1,
        *,
        X_training: Any = None,
        y_training: Any = None,
        candidates: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        fit_params: Mapping[str, Any] | None = None,
        pending: ArrayLike | None = None,
        limits: Limits | None = None,
    ) -> NDArray[np.int64]:
        """Choose rows of the pool for a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            If it is not fitted, the batch is uniform at random, with a warning.
        X_pool : array-like of shape (n_points, ...)
            numpy array or memory map of any number of axes, torch tensor, DataFrame or Series of pandas or polars,
            table of Arrow, list, tuple, scipy sparse array, dict of arrays. Never copied as a whole, never changed. Or
            what is read in blocks: a dataset, reader or scanner of Arrow (Parquet files), a lazy frame of polars, a
            collection of dask, a dataset or loader of torch, or `skactive.blocks` of anything.
        n_instances : int or "auto", default=1
            Rows to choose. "auto": as many as `StochasticBatchQuery.suggest_batch_size` says, or with ``limits`` the
            number next to it that they leave to a batch.
        X_training, y_training : array-like, optional
            What the estimator was fitted to; needed where draws come from refitting.
        candidates : array-like of int or bool, optional
            Positions of the rows that may be chosen, or a mask of shape (n_points,); others are not even scored.
        sample_weight : array-like of shape (n_labelled,), optional
            Weights of the training rows in the fit, for draws that come from the training data or from refits. A
            learner brings those it was fitted with.
        fit_params : dict, optional
            Further keywords for ``fit`` where models are refitted: ``eval_set``, say. Arrays with an entry for each
            training row (not lists) are resampled with the rows. A learner brings those it was fitted with.
        pending : array-like of int or bool, optional
            Rows in flight, whose labels have been asked for and are not there yet: positions, or a mask. None of them
            is chosen. They count as chosen where rows of a batch go by each other (`StochasticBatchQuery` with a
            ``diversity``, `BatchBALDQuery`, `BADGEQuery`, `ACSFWQuery`, `KCenterQuery`), so that it does not repeat
            them.
        limits : Limits, optional
            What the batch keeps to: so many rows of a group at most or at least, a budget, rows that must be in it.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first: every prefix is a batch of its own. Fewer than ``n_instances``
            only where ``limits`` have a budget. The scores that they were chosen by are in ``scores_``, which is
            read-only: copy it to change it.

        Raises
        ------
        ValueError, TypeError
            If the pool is empty or does not fit the model, ``n_instances`` is not an integer from 1 to the number of
            rows that may be chosen (or "auto", where the query suggests sizes and the training data are known),
            ``X_training``, ``y_training`` and ``sample_weight`` are not of one length, no batch can keep to ``limits``,
            or a parameter of the query is not valid.
        """
        given = {"X_training": X_training, "y_training": y_training, "candidates": candidates}
        given |= {"sample_weight": sample_weight, "fit_params": fit_params, "pending": pending, "limits": limits}
        return self.select_on_a_copy(estimator, X_pool, n_instances, **given).indices_.copy()

    def set_params(self, **params: Any) -> Self:
        """Set parameters. With a ``random_state`` the query starts afresh: like a clone, it knows of no call before."""
        try:
            return super().set_params(**params)
        finally:
            if "random_state" in params:
                self._start_afresh()

    def get_state(self) -> dict[str, Any]:
        """What the query knows besides its parameters, for `set_state`; without what the next call makes again.

        Experiments write it down between rounds, if it is plain data, as that of the queries of this package is:
        numbers, texts, None, lists, tuples, dicts, sets, arrays, tensors, tables and random generators.
        """
        params = self.get_params(deep=False)
        state = {name: value for name, value in self.__dict__.items() if name not in params and name not in _REPORTS}
        if "memory_" in state:
            state["memory_"] = state["memory_"].to_plain()
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on where a query with the same parameters was when `get_state` was called."""
        memory = {"memory_": Memory.from_plain(state["memory_"])} if "memory_" in state else {}
        self.__dict__.update({**state, **memory})

    @property
    def rng_(self) -> np.random.Generator:
        """The stream of random numbers, which goes on from call to call."""
        return self._known("rng_").rng

    @property
    def batch_size_history_(self) -> list[int]:
        """Sizes of all batches."""
        return list(self._known("batch_size_history_").batch_sizes)

    @property
    def log_proba_(self) -> NDArray[np.float64]:
        """Log-probability of each pick given those before it, shape (n_instances,); computed when asked for.

        With `Limits` that is its probability among the rows still allowed: 0 for rows that must be in the batch.
        """
        law = self._last_batch("log_proba_").law
        if law is None:
            raise AttributeError(_no_law(self, "log_proba_"))
        return law.log_proba()

    @property
    def n_unreachable_(self) -> int:
        """How many of the rows that might be chosen had probability 0 of being the first pick.

        With `Limits`, of being the first after the rows that must be in the batch: those not allowed then are counted.
        """
        law = self._last_batch("n_unreachable_").law
        if law is None:
            raise AttributeError(_no_law(self, "n_unreachable_"))
        return int(np.count_nonzero(law.first_log_proba() == -np.inf))

    @property
    def concentration_(self) -> float:
        """Mean score of the last batch over that of all rows that were scored: near 1, the batch was nearly random.

        NaN where no scores were made, or some are negative.
        """
        self._last_batch("concentration_")
        mean = float(np.nanmean(self.scores_)) if np.isfinite(self.scores_).any() else np.nan
        is_ratio = mean > 0 and np.nanmin(self.scores_) >= 0
        return float(self.scores_[self.indices_].mean()) / mean if is_ratio else np.nan

    @property
    def first_log_proba_(self) -> NDArray[np.float64]:
        """Log-probability that each row that might be chosen had of being the first pick, shape (n_candidates,)."""
        law = self._last_batch("first_log_proba_").law
        if law is None:
            raise AttributeError(_no_law(self, "first_log_proba_"))
        return law.first_log_proba()

    def _known(self, name: str) -> Memory:
        if "memory_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no `{name}`: no query yet.")
        return self.memory_

    def _last_batch(self, name: str) -> Batch:
        if "_batch" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no `{name}`: no query yet.")
        return self._batch

    def select_on_a_copy(
        self,
        learner: Any,
        X_pool: Any,
        n_instances: Size,
        overrides: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> BatchQuery:
        """`select`, on a copy of the query with other parameters if need be. Its attributes are the results."""
        with self.on_a_copy(overrides) as call:
            call._select(learner, X_pool, n_instances, **options)
        return call

    def _select(self, learner: Any, X_pool: Any, n_instances: Size, **given: Any) -> None:
        self.check_parameters()
        X_pool = containers.prepare_pool(X_pool)  # once, also where a size is suggested first
        is_auto = isinstance(n_instances, str) and n_instances.lower() == "auto"
        if is_auto:
            if n_instances != "auto":
                raise TypeError(f'`n_instances` must be an integer or "auto". Got {n_instances!r} instead.')
            containers.store(X_pool, None, 'n_instances="auto" looks at rows of the pool before it chooses a batch')
            n_instances = self._suggested(learner, X_pool, **{k: v for k, v in given.items() if k != "limits"})
        model, pool = pool_for(learner, X_pool, **given)
        if pool.is_open and not self.counts_rows():
            pool.store(f"{type(self).__name__} has to know the number of rows before it reads them")
        k = _checked_size(n_instances, pool)
        if is_auto and pool.limits is not None:
            k = pool.limits.nearest_size(pool.rows, k)
        pool.allowance(k)  # what cannot be met is said now
        rngs = self.streams()
        pool = self.limited(pool, k, rngs.batch)
        if self.takes_rows_again() or (pool.is_read_once and not self.counts_rows()):
            pool.store(f"{type(self).__name__} looks at rows of the pool again")
        self.keep_batch(pool, k, self._choice(learner, model, pool, k, rngs))
        if pool.n_columns is not None:
            self.n_features_in_ = pool.n_columns

    def counts_rows(self) -> bool:
        """Whether `choose` goes over the pool once, and asks for no number of rows before that."""
        return False

    def takes_rows_again(self) -> bool:
        """Whether `choose` looks at rows of the pool beside one pass over it, so that these must be at hand."""
        return True

    def keep_batch(self, pool: Pool, k: int, batch: Batch) -> None:
        """Take over a batch of a pool as the last one, once it is seen to keep to the limits."""
        _check_keeps_to_limits(self, pool, k, batch.positions)
        self.scores_ = pool.of_pool(batch.scores)
        self.scores_.flags.writeable = False  # they are a record of the batch
        self._batch = batch
        self.indices_ = pool.positions(batch.positions)
        self.indices_.flags.writeable = False
        self.memory_ = self.memory_.with_batch(len(batch.positions))

    def _choice(self, learner: Any, model: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """What `choose` chooses; a uniform batch where the model is not fitted, or its fit has failed."""
        try:
            check_last_fit(learner, pool.y_training)
            check_fits(model, pool)
            with whole_fit(model, pool.y_training):
                return self.choose(learner, pool, k, rngs)
        except UnfittedError as error:
            warn(f"{error.why}, so there are no scores: the batch is uniform at random.")
        positions, law = draw_batch("uniform", np.zeros(len(pool)), k, rngs.batch, allowance=pool.allowance(k))
        return Batch(positions, np.full(len(pool), np.nan), law)

    def _suggested(self, learner: Any, X_pool: Any, **given: Any) -> int:
        if not hasattr(self, "suggest_batch_size"):
            raise ValueError(
                '`n_instances`="auto" needs a query that suggests batch sizes, as StochasticBatchQuery does. '
                f"{type(self).__name__} does not: give a number."
            )
        return self.suggest_batch_size(learner, X_pool, **given)

    def limited(self, pool: Pool, k: int, rng: np.random.Generator) -> Pool:
        """At most ``max_candidates`` of the candidates, at random; a batch that keeps to the limits is among them."""
        most = self.max_candidates
        if most is not None and most < k:
            raise ValueError(f"`max_candidates` must be `n_instances` or more. Got {most} for n_instances={k}.")
        allowance = pool.allowance(k)
        if allowance is None or most is None or most >= len(pool):
            return pool.at_most(most, rng)
        return pool.at_most(most, rng, kept=draw_batch("uniform", np.zeros(len(pool)), k, rng, allowance=allowance)[0])

    def streams(self) -> Streams:
        """Random numbers for one call: the next of the query's stream."""
        with _LOCK:
            rng = self._memory().rng
            before = pickle.dumps(rng.bit_generator.state)
            streams = Streams(*spawn(rng, 2))
            self._taken = before, pickle.dumps(rng.bit_generator.state)
            return streams

    def _put_back(self) -> None:
        """Put the stream back where it was before this call, unless another call has taken its part since."""
        before, after = self.__dict__.get("_taken", (None, None))
        bits = self._memory().rng.bit_generator
        if before is not None and pickle.dumps(bits.state) == after:
            bits.state = pickle.loads(before)

    def _memory(self) -> Memory:
        with _LOCK:
            if "memory_" not in self.__dict__:
                self.memory_ = Memory(check_random_state(self.random_state))
            return self.memory_

    @contextmanager
    def on_a_copy(self, overrides: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """A copy with other parameters, to make a call on; unless that fails, the query learns what it left there.

        The copy shares the query's stream. With a random state among the overrides it has a stream and a bootstrap of
        its own, of which the query learns nothing.
        """
        overrides = {} if overrides is None else overrides
        self._check_overrides(overrides)
        with _LOCK:
            self._memory()
            before = dict(self.__dict__)
        call = object.__new__(type(self))
        call.__dict__.update(before)
        call.__dict__.pop("_taken", None)  # of `streams` asked for outside of a call: not this call's to put back
        super(BatchQuery, call).set_params(**overrides)
        if "random_state" in overrides:
            call.memory_ = call.memory_.restarted(check_random_state(call.random_state))
        try:
            yield call
        except BaseException:
            with _LOCK:
                call._put_back()
            raise
        call.__dict__.pop("_taken", None)
        with _LOCK:
            self._learn(before, call.__dict__, frozenset(overrides))

    def _check_overrides(self, overrides: Mapping[str, Any]) -> None:
        parameters = self.get_params(deep=False)
        unknown = sorted(set(overrides) - set(parameters))
        if unknown:
            known = ", ".join([*parameters, *_OF_SELECT])
            raise TypeError(f"{type(self).__name__} takes no keyword `{unknown[0]}`. It takes: n_instances, {known}.")

    def _learn(self, before: dict[str, Any], after: dict[str, Any], own: frozenset[str]) -> None:
        """Take over what is different after a call, but for the parameters that were the call's own."""
        now = self.__dict__
        if self._memory().rng is not before["memory_"].rng:
            return  # the query was started afresh meanwhile
        not_ours = frozenset({"rng", "refits"}) if "random_state" in own else frozenset()
        memory = self.memory_.learned(before["memory_"], after["memory_"], not_ours)
        changed = {
            name: new for name, new in after.items() if name not in own and before.get(name, _NOTHING) is not new
        }
        for name in changed.keys() & now.keys():
            if name.endswith("_history_"):  # a list of a subclass: others may have ended since this call began
                changed[name] = [*now[name], *changed[name][len(before.get(name, ())) :]]
        now.update(changed)
        for name in before.keys() - after.keys() - own:
            now.pop(name, None)
        self.memory_ = memory

    def _start_afresh(self) -> None:
        """Forget all that is no parameter, by the names that such attributes have, and is not there from the start."""
        new = type(self)(**self.get_params(deep=False))
        with _LOCK:
            for name in [name for name in self.__dict__ if name.startswith("_") or name.endswith("_")]:
                del self.__dict__[name]
            self.__dict__.update(new.__dict__)


_NOTHING = object()


def _no_law(query: BatchQuery, name: str) -> str:
    return (
        f"{type(query).__name__} has no `{name}`: its batches have no sampling law. Those of StochasticBatchQuery "
        "have one, unless the sampler is a function of your own."
    )


def _check_keeps_to_limits(query: BatchQuery, pool: Pool, k: int, indices: NDArray[np.int64]) -> None:
    """Check that a query went by the allowance of its pool."""
    allowance = pool.allowance(k)
    if allowance is None:
        return
    n_must = len(allowance.must)
    keeps = np.array_equal(indices[:n_must], allowance.must)
    for row in indices[n_must:].tolist():
        keeps = keeps and allowance.allows_row(row)
        if keeps:
            allowance.take(row)
    if not keeps or (allowance.n_left and allowance.allowed.any()):
        raise ValueError(
            f"`limits` need a query that goes by them, and {type(query).__name__} chose {len(indices)} rows that do "
            "not keep to them. Its method `choose` must take rows by `pool.allowance(k)`."
        )


def _checked_size(n_instances: Any, pool: Pool) -> int:
    """The size of a batch; the most that it can be is checked later where it is not known yet."""
    if pool.is_open:
        pool.n_near  # noqa: B018 - the first rows are read: it may be that these are all
    if not pool.is_open:
        return check_n_instances(n_instances, len(pool), pool.n_points)
    return int(integer().check("n_instances", n_instances))
