"""Sampling a batch from the scores of a pool: which rows to label next.

`StochasticBatchQuery` is the composition at the heart of the package: draws, streamed over the pool in chunks, are
reduced to scores, and a sampler takes a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._checks import Rules, look_up, name_or_callable, task
from .._types import Auto, Beta, Posterior, Sampler, Score, Space
from ..samplers._distances import PointSet
from ..scores import SCORES
from ._base import BatchQuery, Streams
from ._batch import Batch
from ._batch_size import suggested_batch_size
from ._draws import PoolDraws, draws_of, options_of
from ._model import model_of
from ._pool import Pool
from ._sampling import RULES as SAMPLING_RULES
from ._sampling import Apart, RowScorer, check_coldness, check_keeps_apart, choose_by_scores
from ._scored import ScoringQuery
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
from ._spaces import RULES as SPACE_RULES
from ._spaces import is_drawn, points_of


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
    beta : float or "auto", default=4.0
        Coldness: 0 is uniform over all rows, large values take the top of the ranking. "auto" measures it: at most 500
        rows of the last pool are kept with the scores they had; the new model scores them again, and beta is fitted to
        how well the old scores identify the rows that are the best now. The first batch uses beta = 1, and so does any
        batch for which there is no evidence for another value; a measured beta lies between 0.5 and 4,096.
    n_draws : int, optional
        Posterior draws. By default all members of an ensemble (which cannot give more), 20 of a bootstrap, else 100.
        Scores that need one draw only ("entropy", "margin", "variation_ratio") are made of the estimator's own
        ``predict_proba``, unless this or ``posterior`` asks for draws.
    posterior : {"auto", "bootstrap"} or estimator, default="auto"
        Where draws come from. "auto": the estimator's own (see `sample_posterior`); without any, the estimator is
        bootstrapped on the training data, which is said in a warning. "bootstrap": asks for just that. An estimator: it
        is fitted to the training data, and its draws are used. Members of a bootstrap are kept until the training data
        change.
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
    max_candidates : int, optional
        Score no more than this many rows, chosen uniformly at random.
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
    batch_range : tuple of two int, default=(5, 500)
        The smallest and the largest batch that `suggest_batch_size`, and so ``n_instances="auto"``, may return.
    hold : float, default=0.9
        Fraction of today's ranking quality that must remain once the batch is labelled; smaller values allow larger
        batches. Used only with ``n_instances="auto"`` and by `suggest_batch_size`.
    n_jobs : int, optional
        Members of a bootstrap fitted at once.
    random_state : None, int, numpy Generator or RandomState
        Seeds one stream, which goes on from call to call. Set it again, or clone the query, to start afresh: the query
        forgets members of a bootstrap, histories and everything else from earlier calls. Given to a single call, it
        seeds that call alone, and the query's stream stays where it is.
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
    first_log_proba_ : ndarray of shape (n_candidates,), float64
        Natural logarithm of the probability that each row that might be chosen had of being the first pick; not there
        for samplers of your own.
    beta_ : float
        The coldness of the last batch, with ``beta="auto"``.
    score_ : str or callable
        The score of the last batch: what ``score="auto"`` was.
    beta_history_ : list of float
        Those of all batches with ``beta="auto"``.
    batch_size_history_ : list of int
        Sizes of all batches.
    n_unreachable_ : int
        How many of those rows had probability 0 of being the first pick; not there for samplers of your own.
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
    Several threads may share a query, and the model they ask about, as far as its ``predict`` allows that. Each call
    goes by the parameters that it found, and was given; its results are its own. The attributes above are those of the
    call that ended last: go by what a call returns. Histories are those of all calls. A call that fails or is
    interrupted changes none of them, nor the random stream, unless another thread has taken from it since.

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

    rules: ClassVar[Rules] = (
        BatchQuery.rules
        | SAMPLING_RULES
        | SPACE_RULES
        | {"score": name_or_callable([*SCORES, "auto"]), "X_target": IS_TARGET}
    )

    def __init__(
        self,
        score: Score | Auto = "auto",
        sampler: Sampler = "power",
        beta: Beta = 4.0,
        *,
        n_draws: int | None = None,
        posterior: Posterior = "auto",
        X_target: Any = None,
        chunk_size: int | None = None,
        predict_batch_size: int | None = None,
        max_candidates: int | None = None,
        epsilon: float = 0.0,
        diversity: float = 0.0,
        space: Space = "auto",
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
        self.diversity = diversity
        self.space = space
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
        sample_weight: ArrayLike | None = None,
        fit_params: Mapping[str, Any] | None = None,
        pending: ArrayLike | None = None,
    ) -> int:
        """Say how large the next batch should be: for how many labels today's ranking is expected to hold.

        The estimate looks back at the labels so far. One model is fitted to the older half of them and another, from a
        new seed, to all of them; both rank at most 500 rows of the pool. The difference in how well they identify
        today's top tenth measures what the newer half of the labels changed. Rankings age with the relative growth of
        the labels; the batch is the largest that keeps a fraction ``hold`` of the ranking quality. So batches grow with
        the labels, and the first ones are small. The first batch of a query is the smallest allowed, because there is
        no earlier batch to learn from.

        Parameters
        ----------
        learner : modAL learner, or fitted estimator
            Not changed. One that is not fitted yet gets the smallest batch.
        X_pool : array-like of shape (n_points, ...)
        X_training, y_training : array-like, optional
            What the estimator was fitted to, in the order in which labels came in. A learner brings its own.
        candidates, pending : array-like of int or bool, optional
            Rows that may be chosen, and rows in flight, as in `select`.
        sample_weight, fit_params : optional
            Weights of the training rows, and further keywords for the fits, as in `select`.

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
        given = {"X_training": X_training, "y_training": y_training, "candidates": candidates}
        given |= {"sample_weight": sample_weight, "fit_params": fit_params, "pending": pending}
        return suggested_batch_size(self, learner, X_pool, **given)

    def check_parameters(self) -> None:
        """Check all parameters, those included that the next call will not use."""
        super().check_parameters()
        check_coldness(self.beta, self.sampler)
        check_keeps_apart(self.diversity, self.sampler)
        if not _is_auto(self.score):
            check_is_of_predictions(self.score, look_up("score", self.score, SCORES))

    def takes_rows_again(self) -> bool:
        """Whether rows are looked at after they are scored: only to keep those of a batch apart."""
        return self.diversity > 0

    def counts_rows(self) -> bool:
        """Whether rows can be counted while they are scored: unless some are drawn by their number before that."""
        return self.max_candidates is None and not isinstance(self.beta, str)

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Score the candidates, and sample a batch from the scores."""
        return choose_by_scores(self, learner, pool, k, rngs, apart=self.apart(learner, pool, rngs.draws))

    def apart(self, learner: Any, pool: Pool, rng: np.random.Generator) -> Apart | None:
        """How rows of a batch keep apart: by their distances to the power ``diversity``, if that is not 0."""
        if self.diversity == 0:
            return None
        options = {name: getattr(self, name) for name in ("space", "chunk_size", "predict_batch_size", "verbose")}

        def points(draws: PoolDraws | None) -> PointSet:
            if (draws is None or draws.n_draws == 1) and is_drawn(model_of(learner), self.space):
                draws = draws_of(pool, learner, rng, **options_of(self))
            return points_of(pool, learner, draws, **options)

        return Apart(float(self.diversity), points)

    def row_scorer(self, learner: Any, pool: Pool, rng: np.random.Generator) -> RowScorer:
        """Scores of the candidates of this pool, and of others like it, by the draws that are made here."""
        model = model_of(learner)
        self.score_ = _score_for(model, self.score)
        name, score = (
            name_of(self.score_ if _is_auto(self.score) else self.score),
            look_up("score", self.score_, SCORES),
        )
        check_task(model, name, score)
        scores = {name: score}
        draws = draws_for(
            scores,
            pool,
            learner,
            rng,
            **options_of(self),
        )
        if draws is not None:
            self.memory_ = replace(self.memory_, refits=draws.refits)
        ready = ready_scores(scores, learner, sources_of(pool, learner, draws, self.X_target))
        options: dict[str, Any] = {"chunk_size": self.chunk_size, "verbose": self.verbose}
        return RowScorer(lambda rows: score_rows(rows, draws, ready, **options)[0], draws)


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
