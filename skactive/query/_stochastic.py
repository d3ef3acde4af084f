"""Sampling a batch from the scores of a pool: which rows to label next.

`StochasticBatchQuery` is the composition at the heart of the package: draws, streamed over the pool in chunks, are
reduced to scores, and a sampler takes a batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._checks import ParameterError, Rules, look_up, name_or_callable, task
from .._types import Auto, Posterior, Sampler, Score, Space
from ..samplers import SAMPLERS
from ..samplers._distances import PointSet
from ..scores import SCORES
from ._base import Batch, Streams
from ._draws import PoolDraws, draws_of, options_of
from ._embeddings import RULES as SPACE_RULES
from ._embeddings import is_drawn, points_of
from ._pool import Pool, model_of
from ._sampling import ScoringQuery
from ._scoring import (
    IS_TARGET,
    check_is_of_predictions,
    check_task,
    draws_for,
    name_of,
    ready_scores,
    score_rows,
    sources_of,
)

Values = NDArray[np.float64]


class StochasticBatchQuery(ScoringQuery):
    """Buy a batch of labels by sampling from the scores of a pool.

    Draws from the posterior of the model are streamed over the pool, reduced to one score a row, and a batch is sampled
    with Gumbel noise on the log-scores ("power"), the scores ("softmax") or their ranks ("softrank"). Time is linear in
    the pool, memory is that of one chunk of draws and one float64 a row.

    Parameters
    ----------
    score : str or callable, default="auto"
        A name in `skactive.scores.SCORES`, or ``score(draws) -> (n_points,)``, larger being more informative. "auto" is
        "margin" for a classifier, and "std_dev" for a regressor; ``score_`` says which it was. For a
        regressor "bald" is "std_dev": BALD with noise of any fixed variance ranks rows in the same order. A callable
        may ask for more by keyword-only parameters: ``target_draws`` gets the draws at ``X_target``,
        ``noise_variance`` the noise of a regressor. One with two positional parameters is called as
        ``score(learner, X)``, chunk by chunk: modAL's own utilities, say, which need no draws.
    sampler : str or callable, default="power"
        A name in `skactive.samplers.SAMPLERS`, or ``sampler(scores, k, rng, *, beta) -> (k,)`` distinct positions.
    beta : float, default=4.0
        Coldness: 0 is uniform over all rows, large values take the top of the ranking.
    n_draws : int, optional
        Posterior draws. By default all members of an ensemble (which cannot give more), 20 of a bootstrap, else 100.
        Scores that need one draw only ("entropy", "margin", "variation_ratio") are made of the estimator's own
        ``predict_proba``, unless this or ``posterior`` asks for draws.
    posterior : {"auto", "bootstrap"} or estimator, default="auto"
        Where draws come from. "auto": the estimator's own (see `sample_posterior`); without any, the estimator is
        bootstrapped on the training data, which is said in a warning. "bootstrap": asks for just that. An estimator: it
        is fitted to the training data, and its draws are used.
    X_target : array-like of shape (n_targets, ...), optional
        Rows that predictions matter for, for "epig" and other scores that ask for ``target_draws``. All are drawn at
        once: some hundred, chosen at random, stand for many.
    chunk_size : int, optional
        Rows drawn at once. By default what fits scikit-learn's ``working_memory``, 64 MiB at most, with their draws and
        with what the steps of a Pipeline make of them, as seen by the first row; of texts and objects 2,048 at most.
        Rounded up to whole blocks of a net's batch size.
    predict_batch_size : int, optional
        Rows that a net is asked for at once. By default its own batch size: that of a skorch net or of
        `MCDropoutClassifier`, 256 of a bare module. Fewer take less memory; when it runs out, the number is halved,
        with a warning. Models that are no nets do not look at it.
    epsilon : float, default=0.0
        Probability with which each pick is uniform over the rows left. Above 0 no row is impossible, which
        `skactive.risk` needs.
    diversity : float, default=0.0
        How strongly rows of a batch keep apart. Above 0 each pick after the first weighs what it weighs by its score,
        times its squared distance from the nearest row chosen so far, or in flight, to this power: see
        `skactive.samplers.repulsive`. 0 is the sampler alone.
    space : {"auto", "embeddings", "gradients"} or callable, default="auto"
        Where these distances are. "embeddings", which "auto" takes: between what enters the last layer of a net,
        features of a linear model as its last step gets them, shares of trees whose leaves two rows do not have in
        common, draws of any other model. "gradients": between gradients of the last layer, as of `BADGEQuery`; of
        trees, with shared leaves in the place of inner products. Or a function ``space(X)`` or ``space(estimator, X)``
        that returns an array (n_rows, n_columns) for a chunk of the pool.
    n_jobs : int, optional
        Members of a bootstrap fitted at once.
    random_state : None, int, numpy Generator or RandomState
        Seeds one stream, which goes on from call to call. Set it again, or clone the query, to begin it anew. Given to
        a single call, it seeds that call alone, and the query's stream stays where it is.
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
    concentration_ : float
        Mean score of the batch over that of all rows that were scored. Near 1, the batch was nearly random: a larger
        beta makes it colder.
    score_ : str or callable
        The score of the last batch: what ``score="auto"`` was.
    rng_ : numpy.random.Generator
        The stream of random numbers.
    n_features_in_ : int
        Columns of the last pool.

    See Also
    --------
    BatchBALDQuery : Chooses the rows of a batch jointly, by their information.
    BADGEQuery : Keeps rows apart by their gradients.
    query.score_pool : The scores alone, several at once.
    Limits : What a batch must keep to.

    Notes
    -----
    Members of a bootstrap are fitted anew at every call. The attributes above are set in one step at the end of a call:
    one that fails leaves those of the last. Threads should have a clone each; where they share a query, go by what a
    call returns.

    Draws must be functions. A call draws the first row of the pool a second time, beside another, and refuses draws
    that then differ. Forests and bootstraps, which can give no others, are spared this.

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

    rules: ClassVar[Rules] = (
        ScoringQuery.rules | SPACE_RULES | {"score": name_or_callable([*SCORES, "auto"]), "X_target": IS_TARGET}
    )

    def __init__(
        self,
        score: Score | Auto = "auto",
        sampler: Sampler = "power",
        beta: float = 4.0,
        *,
        n_draws: int | None = None,
        posterior: Posterior = "auto",
        X_target: Any = None,
        chunk_size: int | None = None,
        predict_batch_size: int | None = None,
        epsilon: float = 0.0,
        diversity: float = 0.0,
        space: Space = "auto",
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
        self.epsilon = epsilon
        self.diversity = diversity
        self.space = space
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def check_parameters(self) -> None:
        """Check all parameters, those included that the next call will not use."""
        super().check_parameters()
        if self.diversity > 0 and look_up("sampler", self.sampler, SAMPLERS) is SAMPLERS["topk"]:
            raise ParameterError(
                '`diversity` above 0 needs a sampler that weighs rows. Got `sampler`="topk", which leaves distances '
                'nothing to choose: use "power" with a large `beta`, 16 say.'
            )
        if not _is_auto(self.score):
            check_is_of_predictions(self.score, look_up("score", self.score, SCORES))

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Score the candidates, and sample a batch from the scores."""
        batch = super().choose(learner, pool, k, rngs)
        return replace(batch, attributes={"score_": _score_for(model_of(learner), self.score)})

    def score_candidates(self, learner: Any, pool: Pool, rng: np.random.Generator) -> tuple[Values, PoolDraws | None]:
        """Scores of the candidates, and the draws that they are made of, if there are any."""
        model = model_of(learner)
        found = _score_for(model, self.score)
        name, score = name_of(found if _is_auto(self.score) else self.score), look_up("score", found, SCORES)
        check_task(model, name, score)
        draws = draws_for({name: score}, pool, learner, rng, **options_of(self))
        ready = ready_scores({name: score}, learner, sources_of(pool, learner, draws, self.X_target))
        return score_rows(pool, draws, ready, chunk_size=self.chunk_size, verbose=self.verbose)[0], draws

    def points(self, learner: Any, pool: Pool, draws: PoolDraws | None, rng: np.random.Generator) -> PointSet | None:
        """The candidates in ``space``, and after them the rows in flight; None where ``diversity`` is 0."""
        if self.diversity == 0:
            return None
        if (draws is None or draws.n_draws == 1) and is_drawn(model_of(learner), self.space):
            draws = draws_of(pool, learner, rng, **options_of(self))
        options = {name: getattr(self, name) for name in ("space", "chunk_size", "predict_batch_size", "verbose")}
        return points_of(pool, learner, draws, **options)


def _is_auto(score: Any) -> bool:
    return isinstance(score, str) and score == "auto"


def _score_for(model: Any, score: Any) -> Any:
    """The score that is meant: "bald" of a regressor is "std_dev", in whose order the BALD of any fixed noise is.

    "auto" is what the study of queries found best for classifiers of all families.
    """
    is_bald, is_regressor = isinstance(score, str) and score == "bald", task(model) == "regressor"
    if _is_auto(score):
        return "std_dev" if is_regressor else "margin"
    return "std_dev" if is_bald and is_regressor else score
