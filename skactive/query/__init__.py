"""Sampling a batch from the scores of a pool: which rows to label next.

`StochasticBatchQuery` is the composition at the heart of the package: draws, streamed over the pool in chunks, are
reduced to scores, and a sampler takes a batch. `score_pool` is its first half: any number of scores in one pass over
the draws.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _containers as chunks
from .. import _modal as modal
from .. import _random as global_random
from .. import posterior as posteriors
from .._checks import (
    ScoreError,
    check_cloneable,
    check_enough_draws,
    check_positive_integers,
    check_scores,
    failure_explained,
    is_fitted,
    labels_to_fit,
    look_up,
    probabilities_of,
    task,
)
from ..samplers import SAMPLERS, Batch
from ..samplers._mixture import draw_mixture
from ..scores import SCORES
from . import _ageing as ageing
from . import _coldness as coldness
from ._base import BatchQuery, Request
from ._checks import (
    certainty_error,
    check_batch,
    check_batch_range,
    check_epsilon,
    check_hold,
    check_named_once,
    check_score_output,
    check_target,
    check_target_rows,
    check_task,
    refit_explained,
    unknown_training_data_error,
)
from ._draws import DrawsQuery, PoolDraws
from ._reference import rows_at, some_candidates

__all__ = ["BatchQuery", "DrawsQuery", "PoolDraws", "Request", "StochasticBatchQuery", "score_pool"]


_APART = 1  # tells the random numbers of suggestions from those of batches

Score = Callable[..., Any]
RowScorer = Callable[[Request], NDArray[np.float64]]


class StochasticBatchQuery(DrawsQuery):
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
    beta : float or "auto", default=1.0
        Coldness: 0 is uniform over all rows, large values take the top of the ranking. "auto" measures it: at most 500
        rows of the last pool are kept with the scores they had; the new model scores them again, and beta is fitted to
        how well the old scores told the rows that are the best now. The first batch, and what no evidence speaks
        against, has beta = 1; a measured beta lies between 0.5 and 4,096.
    n_draws : int, optional
        Posterior draws. By default all members of an ensemble (which cannot give more), 20 of a bootstrap, else 100.
    posterior : {"auto", "bootstrap"} or estimator, default="auto"
        Where draws come from. "auto": the estimator's own (see `sample_posterior`); without any, its ``predict_proba``
        serves the scores that need one draw only, and for the others the estimator is bootstrapped on the training
        data, which is said in a warning. "bootstrap": asks for just that. An estimator: it is fitted to the training
        data, and its draws are used. Members of a bootstrap are kept until the training data change.
    X_target : array-like of shape (n_targets, ...), optional
        Rows that predictions matter for, for "epig" and other scores that ask for ``target_draws``. All are drawn at
        once: some hundred, chosen at random, stand for many.
    chunk_size : int, optional
        Rows drawn at once. By default what fits scikit-learn's ``working_memory``, 64 MiB at most, and 2,048 where rows
        are texts or objects, whose size once they are read is not known. Rounded up to whole blocks of a net's batch
        size.
    predict_batch_size : int, optional
        Rows that a net is asked for at once. By default its own batch size: that of a skorch net or of
        `MCDropoutClassifier`, 256 of a bare module. Fewer take less memory; when it runs out, the number is halved,
        with a warning. Models that are no nets do not look at it.
    max_candidates : int, optional
        Score no more than this many rows, chosen uniformly at random.
    epsilon : float, default=0.0
        Probability with which each pick is uniform over the rows left. Above 0 no row is impossible, which
        `skactive.risk` needs.
    batch_range : tuple of two int, default=(5, 500)
        The smallest and the largest batch that `suggest_batch_size` may say, and so ``n_instances="auto"``.
    hold : float, default=0.9
        And the part of today's ranking that must still hold when the batch is labelled: smaller values make larger
        batches.
    n_jobs : int, optional
        Members of a bootstrap fitted at once.
    random_state : None, int, numpy Generator or RandomState
        One stream for all queries made: each draws anew. Set it again, or clone the query, to start afresh: members of
        a bootstrap, histories and all else that it knows of earlier calls are forgotten. Given to a single call, it is
        that of the call, and the query's stream stays where it is.
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
    beta_ : float
        The coldness of the last batch, with ``beta="auto"``.
    beta_history_ : list of float
        Those of all batches with ``beta="auto"``.
    batch_size_history_ : list of int
        Sizes of all batches.
    n_unreachable_ : int
        How many of those rows had probability 0 of being the first pick; not there for samplers of your own.
    n_features_in_ : int
        Columns of the last pool.

    Notes
    -----
    Several threads may share a query, and the model they ask about, as far as its ``predict`` allows that. Each call
    goes by the parameters that it found, and was given; its results are its own. The attributes above are those of the
    call that ended last: go by what a call returns. Histories are those of all calls. A call that fails or is
    interrupted changes none of them; only the numbers that it took from the random stream are spent.

    Draws must be functions. A call draws the first row of the pool a second time, beside another, and refuses draws
    that then differ. Forests and bootstraps, which can give no others, are spared this.

    References
    ----------
    Kirsch, Farquhar, Atighehchian, Jesson, Branchaud-Charron and Gal (2023), Stochastic Batch Acquisition: A Simple
    Baseline for Deep Active Learning, TMLR. Plackett (1975), The Analysis of Permutations, for the likelihood of beta.

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
        beta: float | str = 1.0,
        *,
        n_draws: int | None = None,
        posterior: Any = "auto",
        X_target: Any = None,
        chunk_size: int | None = None,
        predict_batch_size: int | None = None,
        max_candidates: int | None = None,
        epsilon: float = 0.0,
        batch_range: tuple[int, int] = (5, 500),
        hold: float = 0.9,
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
        self.predict_batch_size = predict_batch_size
        self.max_candidates = max_candidates
        self.epsilon = epsilon
        self.batch_range = batch_range
        self.hold = hold
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def suggest_batch_size(
        self,
        learner: Any,
        X_pool: Any,
        *,
        X_training: Any = None,
        y_training: Any = None,
        candidates: ArrayLike | None = None,
    ) -> int:
        """Say how large the next batch should be: for how many labels today's ranking is expected to hold.

        The past is asked. A model that is fitted anew to the older half of the labels ranks at most 500 rows of the
        pool, and so does one that is fitted anew to all labels, from another seed. How much less well the first tells
        the rows that are the top tenth now is what the younger half of the labels changed. Rankings age by the relative
        growth of the labels; the batch is the largest that leaves a part ``hold`` of the ranking. So batches grow with
        the labels, and first ones are small. The first batch of a query is the smallest allowed: nothing that a query
        has chosen can be looked back to yet.

        Parameters
        ----------
        learner : modAL learner, or fitted estimator
            Not changed. One that is not fitted yet gets the smallest batch.
        X_pool : array-like of shape (n_points, ...)
        X_training, y_training : array-like, optional
            What the estimator was fitted to, in the order in which labels came in. A learner brings its own.
        candidates : array-like of int or bool, optional
            Rows that may be chosen, as in `select`.

        Returns
        -------
        int
            Within ``batch_range``, no more than there are labels (the smallest batch excepted), and no more than the
            rows that may be chosen. The same whenever it is asked for, as long as the query has chosen no other batch;
            and asking changes no batch.

        Raises
        ------
        ValueError, TypeError
            If the training data of a fitted estimator are not known, the estimator cannot be fitted to a part of them,
            or as `select` does.

        Notes
        -----
        Estimators that draw from the global generators of Python, numpy or torch (skorch nets, classes of your own)
        find them seeded for the fit, and they are put back afterwards: they belong to the process, so that other
        threads should not draw from them meanwhile. They are left alone for estimators of scikit-learn and this
        package.

        References
        ----------
        Kirsch et al. (2023), Stochastic Batch Acquisition, sec. 5, for rankings that age; Hanley and McNeil (1982), The
        Meaning and Use of the Area under a ROC Curve.

        Examples
        --------
        >>> from modAL.models import ActiveLearner
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> from skactive import StochasticBatchQuery
        >>> X, y = load_digits(return_X_y=True)
        >>> query = StochasticBatchQuery(batch_range=(5, 200), random_state=0)
        >>> learner = ActiveLearner(RandomForestClassifier(random_state=0), query, X[:30], y[:30])
        >>> query.suggest_batch_size(learner, X[30:])
        5
        >>> rows, X_batch = learner.query(X[30:], n_instances="auto")
        """
        least, most = check_batch_range(self.batch_range)
        hold = check_hold(self.hold)
        given = {"X_training": X_training, "y_training": y_training, "candidates": candidates}
        with self._on_a_copy({}) as call:
            return call._suggested(learner, X_pool, least, most, hold, given)

    def _suggested(self, learner: Any, X_pool: Any, least: int, most: int, hold: float, given: dict[str, Any]) -> int:
        apart = self._apart()
        request = apart._request(learner, X_pool, 1, **given)
        size = float(least)
        if is_fitted(request.estimator):
            self._check_fits(request)
            if request.X_training is None:
                raise unknown_training_data_error(request.learner)
            if vars(self).get("batch_size_history_"):
                n = chunks.count_rows(request.X_training)
                self._keep_ageing(n, apart._measured_ageing(request))
                size = ageing.labels_that_hold(n, ageing.measured_rate(self._ageing.values()), hold)
        return int(min(max(size, least), most, request.n_candidates))

    def _apart(self) -> StochasticBatchQuery:
        """A copy that has random numbers of its own, and leaves no trace: what it keeps, this query does not."""
        twin = copy.copy(self)
        twin.__dict__.pop("_members", None)
        twin._told_of_bootstrap = True
        seeds = self._copied_generator().integers(2**32, size=4)
        twin.rng_ = np.random.default_rng([*seeds.tolist(), _APART])
        return twin

    def _keep_ageing(self, n_labelled: int, seen: ageing.Ageing) -> None:
        """One record for each number of labels: asking twice is no more evidence."""
        others = {n: of for n, of in vars(self).get("_ageing", {}).items() if n != n_labelled}
        latest = [*others.items()][1 - ageing.MOST_ROUNDS :]
        self._ageing = {**dict(latest), n_labelled: seen}

    def _measured_ageing(self, request: Request) -> ageing.Ageing:
        """What the younger half of the labels did to the ranking of some rows."""
        X, y = chunks.prepare_pool(request.X_training), labels_to_fit(request.estimator, request.y_training)
        older = ageing.older_labels(y, by_class=task(request.estimator) == "classifier")
        rows = rows_at(request, some_candidates(request, request.batch_rng))
        now = replace(request, X_pool=rows, rows=None, n_candidates=chunks.count_rows(rows), X_training=X, y_training=y)
        past = replace(now, X_training=chunks.take_rows(X, older), y_training=y[older])
        return ageing.compare(
            self._reference_scores(now),
            self._reference_scores(self._refitted(now)),
            self._reference_scores(self._refitted(past)),
            growth=len(y) / len(older),
        )

    def _refitted(self, request: Request) -> Request:
        """The request of a model that is fitted anew to the training data of this one."""
        estimator = getattr(request.estimator, "best_estimator_", request.estimator)
        check_cloneable(estimator)
        X, y = request.X_training, request.y_training
        with (
            global_random.seeded_for(estimator, int(request.batch_rng.integers(2**31))),
            refit_explained(estimator, len(y)),
        ):
            model = posteriors.seeded_clone(estimator, request.batch_rng).fit(X, y)
        return replace(request, estimator=model, learner=modal.with_estimator(request.learner, model, X, y))

    def _reference_scores(self, request: Request) -> NDArray[np.float64]:
        score = look_up("score", self.score, SCORES)
        return self._score_rows(request, {_name(self.score): score})[0]

    def _choose(self, request: Request) -> Batch:
        score = look_up("score", self.score, SCORES)
        sampler = look_up("sampler", self.sampler, SAMPLERS)
        given_beta = coldness.given_beta(self.beta, sampler)
        epsilon = check_epsilon(self.epsilon)
        score_rows = self._row_scorer(request, {_name(self.score): score})
        (scores,) = score_rows(request)
        beta = self._measured_beta(request, sampler, score_rows) if given_beta is None else given_beta
        try:
            scores = check_scores(scores, minus_inf=True)
            scores.flags.writeable = False  # log-probabilities may be asked of them later
            batch = _draw(sampler, scores, request.k, request.batch_rng, beta, epsilon)
        except ScoreError as error:
            raise error.of_rows(request.rows) from None
        self.scores_ = request.of_pool(scores)
        self._reference = None
        if given_beta is None:
            self._reference = coldness.reference_rows(request, scores, batch, _name(self.score))
            self.beta_, self.beta_history_ = beta, [*vars(self).get("beta_history_", ()), beta]
        return batch

    def _measured_beta(self, request: Request, sampler: Any, score_rows: RowScorer) -> float:
        """How well the scores before this round told the best rows of now; 1 if there are none to tell."""
        reference = vars(self).get("_reference")
        if reference is None or not reference.fits(request.X_pool, _name(self.score)):
            return 1.0
        n = chunks.count_rows(reference.X)
        (new_scores,) = score_rows(replace(request, X_pool=reference.X, rows=None, n_candidates=n))
        return coldness.measured_coldness(sampler.log_weights(reference.scores, 1.0), new_scores)

    def _score_rows(self, request: Request, scores: Mapping[str, Score]) -> NDArray[np.float64]:
        """Scores of the candidates, (n_scores, n_candidates)."""
        return self._row_scorer(request, scores)(request)

    def _row_scorer(self, request: Request, scores: Mapping[str, Score]) -> RowScorer:
        """A function that scores candidates, always by the draws that are made here."""
        self._check_scores(request, scores)
        return functools.partial(self._columns, *self._chunk_scorer(request, scores), len(scores))

    def _check_scores(self, request: Request, scores: Mapping[str, Score]) -> None:
        """Check that scores and estimator are made for each other."""
        has_source = posteriors.has_source(posteriors.innermost(request.estimator))
        for name, score in scores.items():
            check_task(request.estimator, name, score, has_source)

    def _columns(
        self, score_chunk: Callable[[Any], list[Any]], n_values: int, block: int | None, n_scores: int, request: Request
    ) -> NDArray[np.float64]:
        """Scores of the candidates, (n_scores, n_candidates): one pass, one chunk of draws alive at a time."""
        columns = np.empty((n_scores, request.n_candidates))
        for rows, chunk in self._chunks(request, n_values, "scoring", block):
            with failure_explained(f"Scoring rows {rows.start} to {rows.stop - 1}"):
                for column, values in zip(columns, score_chunk(chunk), strict=True):
                    column[rows] = check_score_output(values, rows.stop - rows.start)
        return columns

    def _chunk_scorer(
        self, request: Request, scores: Mapping[str, Score]
    ) -> tuple[Callable[[Any], list[Any]], int, int | None]:
        """The scores of a chunk of rows as a function, how many numbers it makes of a row, and a net's batch size."""
        check_positive_integers(chunk_size=self.chunk_size)
        if any(modal.is_score_of_certainty(score) for score in scores.values()):
            raise certainty_error()
        of_draws = {name: score for name, score in scores.items() if not _is_score_of_learner(score)}
        if not of_draws:
            return (lambda chunk: [score(request.learner, chunk) for score in scores.values()]), 1, None
        one_draw = all(getattr(score, "one_draw", False) for score in of_draws.values())
        draws = self._draws(request, one_draw=one_draw)
        for name, score in of_draws.items():
            check_enough_draws(draws.n_draws, name, score)
        ready = self._with_what_they_ask_for(of_draws, request, draws)

        def score_chunk(chunk: Any) -> list[Any]:
            of_chunk = draws.predict(chunk)
            with probabilities_of(draws.model):
                return [
                    ready[name](of_chunk) if name in ready else score(request.learner, chunk)
                    for name, score in scores.items()
                ]

        return score_chunk, draws.n_values, draws.batch_size

    def _with_what_they_ask_for(
        self, scores: Mapping[str, Score], request: Request, draws: PoolDraws
    ) -> dict[str, Score]:
        """Scores with what their keyword-only parameters without a default name."""
        sources = {
            "target_draws": lambda name: self._target_draws(request, draws, name),
            "noise_variance": lambda name: posteriors.noise_variance(request.estimator),
        }
        asked = {name: _keywords_asked(score) & set(sources) for name, score in scores.items()}
        given = {keyword: sources[keyword](name) for name, keywords in asked.items() for keyword in keywords}
        return {
            name: functools.partial(score, **{keyword: given[keyword] for keyword in asked[name]})
            for name, score in scores.items()
        }

    def _target_draws(self, request: Request, draws: PoolDraws, name: str) -> Any:
        X_target = chunks.prepare_pool(check_target(self.X_target, name))
        n_columns = chunks.count_columns(request.X_pool)
        check_target_rows(chunks.count_rows(X_target), chunks.count_columns(X_target), n_columns)
        with failure_explained("Drawing predictions for `X_target`"):
            return draws.predict(chunks.take_rows(X_target, np.arange(chunks.count_rows(X_target))))


def score_pool(
    estimator: Any,
    X_pool: Any,
    scores: Any = ("bald", "entropy"),
    *,
    n_draws: int | None = None,
    posterior: Any = "auto",
    X_target: Any = None,
    X_training: Any = None,
    y_training: Any = None,
    candidates: ArrayLike | None = None,
    chunk_size: int | None = None,
    predict_batch_size: int | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> dict[str, NDArray[np.float64]]:
    """Score a pool by any number of scores at once: they share one pass over the draws.

    Parameters
    ----------
    estimator : fitted estimator, or modAL learner
    X_pool : array-like of shape (n_points, ...)
        Any container that `StochasticBatchQuery.select` takes.
    scores : str, callable, list of these, or dict of name to either, default=("bald", "entropy")
        Names in `skactive.scores.SCORES`, or functions of draws or of (learner, X), as `StochasticBatchQuery` takes.
    n_draws, posterior, X_target, chunk_size, predict_batch_size, n_jobs, random_state, verbose
        As in `StochasticBatchQuery`.
    X_training, y_training : array-like, optional
        What the estimator was fitted to; needed where draws come from refitting. A learner brings its own.
    candidates : array-like of int or bool, optional
        Rows to score; the others get NaN.

    Returns
    -------
    dict of str to ndarray of shape (n_points,), float64
        A column for each score, in the order asked for; ``pandas.DataFrame`` takes it as it is.

    Raises
    ------
    ValueError, TypeError
        As `StochasticBatchQuery.select` does; or if no score is given, or two have the same name.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive.query import score_pool
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(random_state=0).fit(X[::10], y[::10])
    >>> columns = score_pool(forest, X, ["bald", "entropy"])
    >>> {name: column.shape for name, column in columns.items()}
    {'bald': (150,), 'entropy': (150,)}
    """
    query = StochasticBatchQuery(
        n_draws=n_draws,
        posterior=posterior,
        X_target=X_target,
        chunk_size=chunk_size,
        predict_batch_size=predict_batch_size,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=verbose,
    )
    named = _named_scores(scores)
    request = query._request(estimator, X_pool, 1, X_training=X_training, y_training=y_training, candidates=candidates)
    query._check_fits(request)
    return {
        name: request.of_pool(column) for name, column in zip(named, query._score_rows(request, named), strict=True)
    }


def _named_scores(scores: Any) -> dict[str, Score]:
    """Scores by name: of a mapping, or of one name or callable or a list of either."""
    if not isinstance(scores, Mapping):
        listed = list(scores) if isinstance(scores, list | tuple) else [scores]
        scores = check_named_once({_name(score): score for score in listed}, len(listed))
    return {name: look_up("scores", score, SCORES) for name, score in scores.items()}


def _name(score: Any) -> str:
    return score if isinstance(score, str) else getattr(score, "__name__", type(score).__name__)


def _keywords_asked(function: Score) -> set[str]:
    """Keyword-only parameters without a default."""
    return {p.name for p in _parameters(function) if p.kind is p.KEYWORD_ONLY and p.default is p.empty}


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _is_score_of_learner(score: Callable[..., Any]) -> bool:
    """Whether it is called as ``score(learner, X)``: two positional parameters, or (as modAL's combinations) any."""
    positional = [p for p in _parameters(score) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not positional:
        return any(p.kind is p.VAR_POSITIONAL for p in _parameters(score))
    return len([p for p in positional if p.default is p.empty]) == 2


def _draw(
    sampler: Callable[..., Any],
    scores: NDArray[np.float64],
    k: int,
    rng: np.random.Generator,
    beta: float,
    epsilon: float,
) -> Batch:
    if epsilon > 0:
        return draw_mixture(sampler, scores, k, rng, beta, epsilon)
    if hasattr(sampler, "draw"):
        return sampler.draw(scores, k, rng, beta=beta)
    return Batch(check_batch(sampler(scores, k, rng, beta=beta), k, len(scores)))
