"""Queries: which rows of a pool to label next.

`BatchQuery` is what all queries share: it checks what it is asked for, finds the model and its training data in a modAL
learner, keeps the random state, and answers in modAL's form. A query itself is one method, ``_choose``, that turns a
`Request` into a `Batch`. `StochasticBatchQuery` is the composition at the heart of the package: draws, streamed over
the pool in chunks, are reduced to scores, and a sampler takes a batch.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from tqdm import tqdm

from . import _chunks as chunks
from . import _modal as modal
from . import _validation as validation
from . import posterior as posteriors
from .samplers import SAMPLERS, Batch, uniform
from .scores import SCORES

__all__ = ["BatchQuery", "Request", "StochasticBatchQuery"]

modal.repair_modal()  # whoever uses a query may use it in modAL


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


class BatchQuery(BaseEstimator, ABC):
    """Base of all queries. A subclass has a parameter ``random_state`` and a method ``_choose(request) -> Batch``.

    ``_choose`` returns positions among the candidates, and may set further attributes ending in an underscore.
    """

    random_state: Any

    def __call__(self, learner: Any, X_pool: Any, n_instances: int = 1, **overrides: Any) -> Any:
        """Choose rows for a modAL learner; this is modAL's calling convention for query strategies.

        Parameters
        ----------
        learner : modAL.models.ActiveLearner or estimator
            Brings the model and its training data. If it is not fitted yet, the batch is uniform, with a warning.
        X_pool : array-like of shape (n_points, ...)
        n_instances : int, default=1
        **overrides
            Parameters of the query, and keywords of `select`, for this call only.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first; with their scores beside them where modAL asks for a pair.
        """
        given = {name: overrides.pop(name) for name in ("X_training", "y_training", "candidates") if name in overrides}
        with self._overridden(overrides):
            indices = self._select(learner, X_pool, n_instances, cold_start=True, **given)
        return modal.answer(learner, indices, self.scores_[indices])

    def select(
        self,
        estimator: Any,
        X_pool: Any,
        n_instances: int = 1,
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
        n_instances : int, default=1
            Rows to choose.
        X_training, y_training : array-like, optional
            What the estimator was fitted to; needed where draws come from refitting.
        candidates : array-like of int or bool, optional
            Positions of the rows that may be chosen, or a mask of shape (n_points,); others are not even scored.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first: every prefix is a batch of its own.

        Raises
        ------
        ValueError, TypeError
            If the pool is empty or does not fit the model, ``n_instances`` is not an integer from 1 to the number of
            rows that may be chosen, or a parameter of the query is not valid.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        """
        return self._select(
            estimator, X_pool, n_instances, X_training=X_training, y_training=y_training, candidates=candidates
        )

    def set_params(self, **params: Any) -> BatchQuery:
        """Set parameters; a new ``random_state`` starts its stream afresh."""
        if "random_state" in params:
            self.__dict__.pop("rng_", None)
        return super().set_params(**params)

    @property
    def log_proba_(self) -> NDArray[np.float64]:
        """Log-probability of each pick given those before it, shape (n_instances,); computed when asked for."""
        batch = vars(self).get("_batch")
        if batch is None or batch.log_proba is None:
            raise AttributeError(
                f"{type(self).__name__} has no `log_proba_`: no query yet, or a sampler without a law."
            )
        return batch.log_proba()

    @abstractmethod
    def _choose(self, request: Request) -> Batch:
        """Choose ``request.k`` of the candidates, by their positions among the candidates."""

    def _select(
        self, learner: Any, X_pool: Any, n_instances: int, *, cold_start: bool = False, **given: Any
    ) -> NDArray[np.int64]:
        request = self._request(learner, X_pool, n_instances, **given)
        if validation.is_fitted(request.estimator):
            n_axes = getattr(request.X_pool, "ndim", 2)
            validation.check_columns(request.estimator, chunks.count_columns(request.X_pool), n_axes)
            batch = self._choose(request)
        elif cold_start:
            validation.warn_cold_start(request.estimator)
            self._keep_scores(request, np.full(request.n_candidates, np.nan))
            batch = uniform.draw(np.zeros(request.n_candidates), request.k, request.batch_rng)  # type: ignore[attr-defined]
        else:
            raise validation.not_fitted_error(request.estimator)
        self._batch = batch
        self.indices_ = batch.indices if request.rows is None else request.rows[batch.indices]
        self._keep_n_features(request.X_pool)
        return self.indices_.copy()

    def _request(
        self,
        learner: Any,
        X_pool: Any,
        n_instances: int,
        *,
        X_training: Any = None,
        y_training: Any = None,
        candidates: ArrayLike | None = None,
    ) -> Request:
        estimator, known_X, known_y = modal.unwrap(learner)
        validation.check_pool(X_pool)
        X_pool = chunks.prepare_pool(X_pool)
        n_points = chunks.count_rows(X_pool)
        rows = None if candidates is None else validation.check_candidates(candidates, n_points)
        k = validation.check_n_instances(n_instances, n_points if rows is None else len(rows), n_points)
        draws_rng, batch_rng = validation.spawn(self._generator(), 2)
        rows = self._limited(rows, n_points, k, batch_rng)
        return Request(
            learner,
            estimator,
            X_pool,
            rows,
            n_points if rows is None else len(rows),
            k,
            known_X if X_training is None else X_training,
            known_y if y_training is None else y_training,
            draws_rng,
            batch_rng,
        )

    def _limited(
        self, rows: NDArray[np.int64] | None, n_points: int, k: int, rng: np.random.Generator
    ) -> NDArray[np.int64] | None:
        """At most ``max_candidates`` of the rows, at random, where the query has that parameter and it is set."""
        most = getattr(self, "max_candidates", None)
        validation.check_positive_integers(max_candidates=most)
        n = n_points if rows is None else len(rows)
        if most is None or most >= n:
            return rows
        validation.check_max_candidates(most, k)
        chosen = np.sort(rng.choice(n, most, replace=False))
        return chosen if rows is None else rows[chosen]

    def _generator(self) -> np.random.Generator:
        """Kept and advanced: seeding anew at every query would put the same noise on the pool again."""
        if "rng_" not in vars(self):
            self.rng_ = validation.check_random_state(self.random_state)
        return self.rng_

    def _keep_scores(self, request: Request, scores: NDArray[np.float64]) -> None:
        """One number a row of the pool; NaN for rows that were not scored."""
        if request.rows is not None:
            of_pool = np.full(chunks.count_rows(request.X_pool), np.nan)
            of_pool[request.rows] = scores
            scores = of_pool
        self.scores_ = scores

    def _keep_n_features(self, X_pool: Any) -> None:
        n_columns = chunks.count_columns(X_pool)
        if n_columns is not None:
            self.n_features_in_ = n_columns

    @contextmanager
    def _overridden(self, overrides: dict[str, Any]) -> Iterator[None]:
        """Other parameters for a while; the random state, unless it is among them, goes on."""
        kept = self.get_params(deep=False)
        validation.check_overrides(type(self), overrides, kept)
        rng = vars(self).get("rng_")
        try:
            self.set_params(**overrides)
            yield
        finally:
            self.set_params(**{name: kept[name] for name in overrides})
            if rng is not None and "random_state" in overrides:
                self.rng_ = rng


class StochasticBatchQuery(BatchQuery):
    """Buy a batch of labels by sampling from the scores of a pool.

    Draws from the posterior of the model are streamed over the pool, reduced to one score a row, and a batch is sampled
    with Gumbel noise on the log-scores ("power"), the scores ("softmax") or their ranks ("softrank"). Time is linear in
    the pool, memory is that of one chunk of draws and one float64 a row.

    Parameters
    ----------
    score : str or callable, default="bald"
        A name in `skactive.scores.SCORES`, or ``score(draws) -> (n_points,)``, larger being more informative. A
        callable may ask for more by keyword-only parameters: ``target_draws`` gets the draws at ``X_target``,
        ``noise_variance`` the noise of a regressor. One with two positional parameters is called as
        ``score(learner, X)``, chunk by chunk: modAL's own utilities, say, which need no draws.
    sampler : str or callable, default="power"
        A name in `skactive.samplers.SAMPLERS`, or ``sampler(scores, k, rng, *, beta) -> (k,)`` distinct positions.
    beta : float, default=1.0
        Coldness: 0 is uniform over all rows, large values take the top of the ranking.
    n_draws : int, optional
        Posterior draws. By default all members of an ensemble (which cannot give more), 20 of a bootstrap, else 100.
    posterior : {"auto", "bootstrap"} or estimator, default="auto"
        Where draws come from. "auto": the estimator's own (see `sample_posterior`); without any, its ``predict_proba``
        serves the scores that need one draw only, and for the others the estimator is bootstrapped on the training
        data, which is said in a warning. "bootstrap": asks for just that. An estimator: it is fitted to the training
        data, and its draws are used. Members of a bootstrap are kept until the training data change.
    X_target : array-like of shape (n_targets, ...), optional
        Rows that predictions matter for, for scores that ask for ``target_draws``.
    chunk_size : int, optional
        Rows drawn at once. By default what fits scikit-learn's ``working_memory``, 64 MiB at most.
    max_candidates : int, optional
        Score no more than this many rows, chosen uniformly at random.
    n_jobs : int, optional
        Members of a bootstrap fitted at once.
    random_state : None, int, numpy Generator or RandomState
        One stream for all queries made: each draws anew. Set it again, or clone the query, to start afresh.
    verbose : int, default=0
        Whether to show a progress bar over the pool.

    Attributes
    ----------
    scores_ : ndarray of shape (n_points,), float64, read-only
        Scores of the last pool; NaN for rows that were not scored.
    indices_ : ndarray of shape (n_instances,), int64
        The last batch.
    log_proba_ : ndarray of shape (n_instances,), float64
        Natural logarithm of the probability of each pick given those before it, among the rows that were scored; not
        there for samplers of your own.
    n_features_in_ : int
        Columns of the last pool.

    References
    ----------
    Kirsch, Farquhar, Atighehchian, Jesson, Branchaud-Charron and Gal (2023), Stochastic Batch Acquisition: A Simple
    Baseline for Deep Active Learning, TMLR.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive import StochasticBatchQuery
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X[::10], y[::10])
    >>> query = StochasticBatchQuery(score="bald", sampler="power", beta=4, random_state=0)
    >>> query.select(forest, X, n_instances=3).shape
    (3,)
    """

    def __init__(
        self,
        score: str | Callable[..., Any] = "bald",
        sampler: str | Callable[..., Any] = "power",
        beta: float = 1.0,
        *,
        n_draws: int | None = None,
        posterior: Any = "auto",
        X_target: Any = None,
        chunk_size: int | None = None,
        max_candidates: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.score = score
        self.sampler = sampler
        self.beta = beta
        self.n_draws = n_draws
        self.posterior = posterior
        self.X_target = X_target
        self.chunk_size = chunk_size
        self.max_candidates = max_candidates
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _choose(self, request: Request) -> Batch:
        score = validation.look_up("score", self.score, SCORES)
        sampler = validation.look_up("sampler", self.sampler, SAMPLERS)
        beta = validation.check_beta(self.beta)
        validation.check_positive_integers(chunk_size=self.chunk_size)
        has_source = posteriors.has_source(posteriors.innermost(request.estimator))
        validation.check_task(request.estimator, self.score, score, has_source)
        scores = self._score_rows(request, score)
        try:
            scores = validation.check_scores(scores, minus_inf=True)
            scores.flags.writeable = False  # log-probabilities may be asked of them later
            batch = _draw(sampler, scores, request.k, request.batch_rng, beta)
        except validation.ScoreError as error:
            raise error.of_rows(request.rows) from None
        self._keep_scores(request, scores)
        return batch

    def _score_rows(self, request: Request, score: Callable[..., Any]) -> NDArray[np.float64]:
        """Stream the candidates through the draws, one chunk of draws alive at a time."""
        score_chunk, n_values = self._chunk_scorer(request, score)
        size = self.chunk_size or chunks.rows_per_chunk(request.X_pool, n_values)
        scores = np.empty(request.n_candidates)
        done = 0
        with tqdm(total=len(scores), desc="scoring", unit="row", disable=not self.verbose) as bar:
            for chunk in chunks.iter_chunks(request.X_pool, request.rows, size):
                n = chunks.count_rows(chunk)
                with validation.failure_explained(f"Scoring rows {done} to {done + n - 1}"):
                    scores[done : done + n] = validation.check_score_output(score_chunk(chunk), n)
                done += n
                bar.update(n)
        return scores

    def _chunk_scorer(self, request: Request, score: Callable[..., Any]) -> tuple[Callable[[Any], Any], int]:
        """Scores of a chunk of rows as a function, and how many numbers it makes of a row on the way."""
        if modal.is_score_of_certainty(score):
            raise validation.certainty_error()
        if _is_score_of_learner(score):
            return functools.partial(score, request.learner), 1
        predict_draws = self._predict_draws(request, getattr(score, "one_draw", False))
        first = chunks.take_rows(request.X_pool, np.array([0]) if request.rows is None else request.rows[:1])
        with validation.failure_explained("Drawing predictions for one row of the pool"):
            draws = predict_draws(first)
            validation.check_draws_of(draws, 1)
            if self.verbose:
                again = validation.as_array(predict_draws(first))
                validation.check_same_functions(validation.as_array(draws), again, "a second call")
        validation.check_enough_draws(len(draws), self.score, score)
        score = self._with_what_it_asks_for(score, request, predict_draws)
        return (lambda chunk: score(predict_draws(chunk))), int(np.prod(draws.shape))

    def _predict_draws(self, request: Request, one_draw: bool) -> posteriors.PredictDraws:
        estimator, rng = request.estimator, request.draws_rng
        if isinstance(self.posterior, str):
            if validation.check_posterior(self.posterior) == "bootstrap":
                return self._bootstrap(estimator, request)
        else:
            estimator = self._fitted_surrogate(request)
        training = {"X_training": request.X_training, "y_training": request.y_training}
        try:
            return posteriors.sample_posterior(estimator, self.n_draws, rng, **training)
        except (validation.NoPosteriorError, validation.NoTrainingDataError) as error:
            if one_draw and hasattr(estimator, "predict_proba"):
                return posteriors.one_draw(estimator)
            if request.X_training is None:
                raise validation.no_draws_error(posteriors.innermost(estimator), one_draw) from error
            self._tell_of_bootstrap(error)
        return self._bootstrap(estimator, request)

    def _tell_of_bootstrap(self, error: Exception) -> None:
        if not vars(self).get("_told_of_bootstrap"):
            validation.warn_bootstrap(error)
            self._told_of_bootstrap = True

    def _fitted_surrogate(self, request: Request) -> Any:
        X, y = validation.check_training_data(request.X_training, request.y_training)
        surrogate = posteriors.seeded_clone(self.posterior, request.draws_rng)
        with validation.failure_explained(f"Fitting {type(surrogate).__name__}, the `posterior`, to the training data"):
            surrogate.fit(X, y)
        validation.check_surrogate_classes(surrogate, request.estimator)
        return surrogate

    def _bootstrap(self, estimator: Any, request: Request) -> posteriors.PredictDraws:
        """Refitted members, those of the last query again if nothing has been taught since."""
        X, y = validation.check_training_data(request.X_training, request.y_training)
        data = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in (X, y)]  # strides are no data
        fitted_to = type(estimator), str(estimator.get_params()), self.n_draws, joblib.hash(data)
        known, predict_draws = vars(self).get("_members", (None, None))
        if known != fitted_to:
            with validation.failure_explained(f"Refitting {type(estimator).__name__} to resampled training data"):
                predict_draws = posteriors.bootstrap(
                    estimator, X, y, self.n_draws, request.draws_rng, n_jobs=self.n_jobs
                )
            self._members = fitted_to, predict_draws
        return predict_draws

    def _with_what_it_asks_for(
        self, score: Callable[..., Any], request: Request, predict_draws: posteriors.PredictDraws
    ) -> Callable[..., Any]:
        """The score with what its keyword-only parameters without a default name."""
        asked = {p.name for p in _parameters(score) if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
        given: dict[str, Any] = {}
        if "target_draws" in asked:
            given["target_draws"] = predict_draws(validation.check_target(self.X_target, self.score))
        if "noise_variance" in asked:
            given["noise_variance"] = posteriors.noise_variance(request.estimator)
        return functools.partial(score, **given) if given else score


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _is_score_of_learner(score: Callable[..., Any]) -> bool:
    """Whether it is called as ``score(learner, X)``: two positional parameters, or (as modAL's combinations) any."""
    positional = [p for p in _parameters(score) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not positional:
        return any(p.kind is p.VAR_POSITIONAL for p in _parameters(score))
    return len([p for p in positional if p.default is p.empty]) == 2


def _draw(
    sampler: Callable[..., Any], scores: NDArray[np.float64], k: int, rng: np.random.Generator, beta: float
) -> Batch:
    if hasattr(sampler, "draw"):
        return sampler.draw(scores, k, rng, beta=beta)
    return Batch(validation.check_batch(sampler(scores, k, rng, beta=beta), k, len(scores)))
