"""From scores to a batch: sampling by one score per row.

Draws, streamed over the pool in chunks, are reduced to scores, and a sampler takes a batch. `ScoringQuery` is the base
of such queries, and `StochasticBatchQuery` the one for classifiers and regressors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .. import _containers as containers
from .._utils.types import Auto, Floats, Indices, Posterior, Reduce, Sampler, Score, Space
from .._utils.validation import (
    BETA,
    ParameterError,
    Rules,
    ScoreError,
    check_n_instances,
    check_scores,
    float64_array,
    look_up,
    name_or_callable,
    number,
    task,
)
from ..samplers import SAMPLERS
from ..samplers._distances import PointSet
from ..samplers._law import check_has_law, draw_batch
from ..scores import SCORES
from ._base import Batch, BatchQuery, Streams
from ._draws import SPACE_RULES, keeps_apart, options_of, places_for, points_alone
from ._limits import Limits
from ._pool import Pool, model_of, pool_for
from ._scoring import (
    IS_TARGET,
    RULES_OF_OUTPUTS,
    check_is_of_predictions,
    groups_for,
    name_of,
    score_groups,
)

_AUTO = 2.0  # the diversity that the study of spaces was about


class ScoringQuery(BatchQuery):
    """Base of the queries that sample a batch from one score per row.

    A subclass has the parameters ``sampler``, ``beta`` and ``epsilon``, and says in `score_candidates` what the scores
    are, and where the candidates lie if it has a ``diversity``.
    """

    rules: ClassVar[Rules] = BatchQuery.rules | {
        "sampler": name_or_callable(SAMPLERS),
        "beta": BETA,
        "epsilon": number(0, 1, text="a number from 0 (the sampler alone) to 1 (uniform)"),
    }

    sampler: Any
    beta: Any
    epsilon: float
    diversity: float | Auto = 0.0

    @abstractmethod
    def score_candidates(self, learner: Any, pool: Pool, rng: np.random.Generator) -> tuple[Floats, PointSet | None]:
        """Scores of the candidates, (n_candidates,); and these, with the rows in flight behind them, as points."""

    def reads_once(self, pool: Pool) -> bool:
        """Whether there is room for what is kept of each row: "auto" gives up where there is not."""
        return self.diversity in ("auto", 0) or not pool.is_open

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Score the candidates, and sample a batch from the scores."""
        if pool.limits is not None:
            check_has_law(look_up("sampler", self.sampler, SAMPLERS), "`limits`")
        scores, points = self.score_candidates(learner, pool, rngs.draws)
        k = check_n_instances(k, len(scores), pool.n_points)  # it may not have been known how many rows there are
        return self._sample(scores, pool, k, rngs.batch, points)

    def select_scored(
        self,
        scores: ArrayLike,
        n_instances: int = 1,
        *,
        candidates: ArrayLike | None = None,
        estimator: Any = None,
        X_pool: Any = None,
        pending: ArrayLike | None = None,
        limits: Limits | None = None,
    ) -> Indices:
        """Choose rows by scores that were computed elsewhere: the batch that `select` chooses from the same scores.

        Any engine can score a pool block by block with `skactive.query.score_pool`, with one ``random_state`` for all
        blocks: the draws are then the same functions. Pass the scores of all rows here.

        Parameters
        ----------
        scores : array-like of shape (n_points,)
            One real number for each row of the pool, larger for rows that are more worth a label. Rows that may not be
            chosen may have NaN. It is not changed.
        n_instances : int, default=1
            Rows to choose.
        candidates, pending, limits
            As in `select`.
        estimator : fitted estimator, or modAL learner, optional
            Needed with a ``diversity``; without it, "auto" is 0.
        X_pool : array-like of shape (n_points, ...), optional
            The rows that were scored, in the same order (a Series of scores goes by the index of a DataFrame), in any
            container that `select` takes. Needed with a ``diversity``.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first, as from `select` with the same scores and seed. Attributes are
            set as by `select`, except ``score_``: the parameter ``score`` is ignored.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> from skactive import StochasticBatchQuery
        >>> from skactive.query import score_pool
        >>> X, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(random_state=0).fit(X[::10], y[::10])
        >>> blocks = np.array_split(X, 4)  # on four machines, say
        >>> scores = np.concatenate([score_pool(forest, block, "bald")["bald"] for block in blocks])
        >>> query = StochasticBatchQuery("bald", random_state=0)
        >>> rows = query.select_scored(scores, n_instances=3)
        >>> again = StochasticBatchQuery("bald", random_state=0).select(forest, X, n_instances=3)
        >>> rows.tolist() == again.tolist()
        True
        """
        self.check_parameters()
        values = float64_array("scores", scores)
        if values.ndim != 1 or not len(values):
            raise ValueError(f"`scores` must be one number for each row, shape (n_points,). Got shape {values.shape}.")
        if self.diversity not in ("auto", 0) and (estimator is None or X_pool is None):
            raise ParameterError(
                f"`diversity`={self.diversity:g} needs the rows and the model: scores say nothing about distances "
                "between rows. Give `estimator` and `X_pool`, or set diversity=0."
            )
        bare = scores if hasattr(scores, "iloc") else values  # a Series has an index, which masks and groups go by
        rows = bare if X_pool is None else X_pool
        _, pool = pool_for(estimator, rows, candidates=candidates, pending=pending, limits=limits)
        if len(values) != pool.n_points:
            raise ValueError(
                f"`scores` must have shape ({pool.n_points},), one number for each row. Got {values.shape}."
            )
        values = float64_array("scores", containers.aligned(scores, pool.X, "scores"))
        of_candidates = values.copy() if pool.rows is None else values[pool.rows]

        def choose(k: int, rngs: Streams) -> Batch:
            is_alone = estimator is None or X_pool is None or self.diversity == 0
            points = None if is_alone else points_alone(self, pool, estimator, rngs.draws)
            return self._sample(of_candidates, pool, k, rngs.batch, points)

        return self._report(pool, self._batch_of(pool, n_instances, choose))[0].copy()

    def _sample(
        self, scores: Floats, pool: Pool, k: int, rng: np.random.Generator, points: PointSet | None = None
    ) -> Batch:
        """A batch from the scores of the candidates, whoever made them."""
        sampler, beta = look_up("sampler", self.sampler, SAMPLERS), float(self.beta)
        # Without limits samplers need not look at every row.
        allowance = None if pool.limits is None else pool.allowance(k)
        is_apart = points is not None and not points.are_equal()
        diversity = _AUTO * is_apart if self.diversity == "auto" else self.diversity
        how = {"beta": beta, "epsilon": self.epsilon, "diversity": diversity}
        try:
            scores = check_scores(scores, minus_inf=True)
            scores.flags.writeable = False  # the law is computed from them when it is asked for
            positions, law = draw_batch(sampler, scores, k, rng, allowance=allowance, points=points, **how)
        except ScoreError as error:
            raise error.of_rows(pool.rows) from None
        return Batch(positions, scores, law, {"diversity_": diversity})


@dataclass(eq=False, repr=False)
class StochasticBatchQuery(ScoringQuery):
    """Choose a batch of rows to label by sampling from their scores.

    The model's predictions or posterior draws for the pool become one score per row, and a batch is sampled with Gumbel
    noise on the log-scores ("power"), the scores ("softmax") or their ranks ("softrank"). Time is linear in the size of
    the pool. Memory is that of one chunk of predictions, and one float64 per row.

    Parameters
    ----------
    score : str or callable, default="auto"
        A name in `skactive.scores.SCORES`, or ``score(draws) -> (n_points,)``, larger being more informative. "auto" is
        "margin" for a classifier, and "std_dev" for a regressor; ``score_`` says which it was. For a
        regressor "bald" is "std_dev": BALD with noise of any fixed variance ranks rows in the same order. A callable
        may ask for more by keyword-only parameters: ``target_draws`` gets the draws at ``X_target``,
        ``noise_variance`` the noise of a regressor. One with two positional parameters is called as
        ``score(learner, X)``, chunk by chunk, such as modAL's own utilities, which need no draws.
    sampler : str or callable, default="power"
        A name in `skactive.samplers.SAMPLERS`, or ``sampler(scores, k, rng, *, beta) -> (k,)`` distinct positions.
    beta : float, default=4.0
        Coldness: 0 is uniform over all rows, large values take the top of the ranking. When to change it: hardly ever.
        On 29 tables accuracy was 0.5 points lower with 1, and the same with 16. Raise it for a score of your own whose
        batches have a ``concentration_`` near 1.
    epsilon : float, default=0.0
        Probability with which each pick is uniform over the remaining rows. When to change it: set 0.1 where
        `skactive.risk` is to estimate the accuracy from the labels, which needs every row to be possible.
    diversity : "auto" or float, default="auto"
        How strongly rows of a batch repel each other. Above 0 the weight of each pick after the first is that of its
        score, times its squared distance from the nearest row chosen so far, or in flight, to this power: see
        `skactive.samplers.repulsive`. 0 is the sampler alone. "auto" is 2 where distances come with the scores: for
        linear models, nets scored by ``predict_proba``, forests that predict numbers, and models whose space is draws,
        if the score uses several. Otherwise it is 0: without weights to change ("topk", "uniform"),
        if distances would take more than 256 MiB, in an `ActiveTester` or a campaign, and for all others. When to
        change it: set 2 with a forest of classes where the pool holds near-duplicates.
    space : {"auto", "embeddings", "gradients"} or callable, default="auto"
        Space of these distances. "embeddings", which "auto" takes: the input of the last layer of a net,
        features of a linear model (of a mixture, ``VotingClassifier``, those of its first linear member) as its last
        step gets them, shares of trees whose leaves two rows do not have in common, draws of any other model.
        "gradients": gradients by the weights of the last layer, as in `BADGEQuery`; for trees, with shared leaves in
        place of inner products. Or a function ``space(X)`` or ``space(estimator, X)`` that returns an
        array (n_rows, n_columns) for a chunk of the pool.
    n_draws : int, optional
        Posterior draws. By default all members of an ensemble (which has no more), 20 for a bootstrap, otherwise 100.
        Scores that need only one draw ("entropy", "margin", "variation_ratio") are computed from the estimator's own
        ``predict_proba``, unless this or ``posterior`` asks for draws. When to change it: set 20 where a query with
        draws of a net takes longer than fitting it.
    posterior : {"auto", "bootstrap"} or estimator, default="auto"
        Where draws come from. "auto": the estimator's own (see `sample_posterior`); without any, the estimator is
        bootstrapped on the training data at every call, with a warning. "bootstrap": always this, without a warning. An
        estimator: it is fitted to the training data, and its draws are used.
    X_target : array-like of shape (n_targets, ...), optional
        Rows that predictions matter for, for "epig" and other scores that ask for ``target_draws``. All are drawn at
        once: a few hundred, chosen at random, stand for many. By default a thousand candidates, or all if there are
        fewer, chosen by ``random_state``: if a pool is scored in parts, pass the same rows for each. For linear models
        "epig" needs no draws: see `scores.epig`.
    reduce : {"mean", "max", "sum"} or callable, default="mean"
        How the scores of several outputs (labels, targets, pixels, tokens) become the score of their row. A function
        gets scores (n_rows, n_outputs), NaN where an output does not count, and returns (n_rows,).
    mask : array-like of shape (n_points, ...) or callable, optional
        Which outputs of each row of the pool count, True where they do: padding, or pixels without a class, do not. A
        function gets chunks of rows. By default all outputs, or those that the draws mark.
    chunk_size : int, optional
        Rows drawn at once. By default what fits scikit-learn's ``working_memory``, 64 MiB at most, with their draws and
        the output of Pipeline steps, judged by the first row; of texts and objects 2,048 at most.
        Taken in whole blocks of a net's batch size, one at least, and of 256 rows where "epig" needs no draws.
    predict_batch_size : int, optional
        Rows in one forward pass of a net. By default its own batch size: that of a skorch net or of
        `MCDropoutClassifier`, 256 of a bare module. Fewer take less memory; when it runs out, the number is halved,
        with a warning. Other models ignore it.
    n_jobs : int, optional
        Members of a bootstrap fitted at once.
    random_state : None, int, numpy Generator or RandomState
        Seeds one stream, which goes on from call to call. Set it again, or clone the query, to restart the stream.
        Passed to a single call, it seeds only that call, and the query's stream stays where it is.
    verbose : int, default=0
        Whether to show a progress bar over the pool.

    Attributes
    ----------
    scores_, indices_, rng_, log_proba_, concentration_
        As in `query.BatchQuery`. Samplers of your own leave no ``log_proba_``.
    score_, diversity_ : str or callable; float
        The score and the diversity of the last batch, after "auto" was resolved.
    n_features_in_ : int
        Columns of the last pool.

    See Also
    --------
    BatchBALDQuery : Chooses the rows of a batch jointly, by their information.
    BADGEQuery : Keeps rows apart by their gradients.
    query.score_pool : The scores alone, several at once.
    Limits : Constraints on a batch.

    Notes
    -----
    Draws must be functions. A call draws the first row of the pool a second time, next to another, and refuses draws
    that then differ. Forests and bootstraps, whose draws cannot differ, skip this check.

    References
    ----------
    Kirsch, Farquhar, Atighehchian, Jesson, Branchaud-Charron and Gal (2023), Stochastic Batch Acquisition: A Simple
    Baseline for Deep Active Learning, TMLR.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skactive import StochasticBatchQuery
    >>> X, y = load_iris(return_X_y=True)  # three species; the last two are hard to tell apart
    >>> forest = RandomForestClassifier(random_state=0).fit(X[::10], y[::10])
    >>> query = StochasticBatchQuery(random_state=0)
    >>> rows = query.select(forest, X, n_instances=10)
    >>> sorted(y[rows].tolist())  # no row of the easy species is chosen
    [1, 1, 2, 2, 2, 2, 2, 2, 2, 2]
    >>> round(query.concentration_, 1)  # mean score of the batch over that of the pool
    3.2
    """

    rules: ClassVar[Rules] = (
        ScoringQuery.rules
        | SPACE_RULES
        | RULES_OF_OUTPUTS
        | {"score": name_or_callable([*SCORES, "auto"]), "X_target": IS_TARGET}
    )

    score: Score | Auto = "auto"
    sampler: Sampler = "power"
    beta: float = 4.0
    _: KW_ONLY
    epsilon: float = 0.0
    diversity: float | Auto = "auto"
    space: Space = "auto"
    n_draws: int | None = None
    posterior: Posterior = "auto"
    X_target: Any = None
    reduce: Reduce = "mean"
    mask: Callable[[Any], ArrayLike] | ArrayLike | None = None
    chunk_size: int | None = None
    predict_batch_size: int | None = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def check_parameters(self) -> None:
        """Check all parameters, those included that the next call will not use."""
        super().check_parameters()
        if self.diversity not in ("auto", 0) and look_up("sampler", self.sampler, SAMPLERS) is SAMPLERS["topk"]:
            raise ParameterError(
                '`diversity` above 0 needs a sampler that weighs rows. Got `sampler`="topk", which leaves distances '
                'nothing to choose: use "power" with a large `beta`, such as 16.'
            )
        if self.score != "auto":
            check_is_of_predictions(self.score, look_up("score", self.score, SCORES))

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Score the candidates, and sample a batch from the scores."""
        batch = super().choose(learner, pool, k, rngs)
        found = {"score_": _score_for(model_of(learner), self.score)}
        return replace(batch, attributes={**batch.attributes, **found})

    def score_candidates(self, learner: Any, pool: Pool, rng: np.random.Generator) -> tuple[Floats, PointSet | None]:
        """Scores of the candidates; and these, with the rows in flight behind them, as points."""
        model = model_of(learner)
        found = _score_for(model, self.score)
        name, score = name_of(found), look_up("score", found, SCORES)
        reduced = self.reduce, self.mask
        options = options_of(self) | {"is_apart": keeps_apart(self)}
        groups = groups_for({name: score}, pool, learner, rng, self.X_target, reduced, **options)
        places = places_for(self, pool, learner, groups[0][0], rng)
        scores = score_groups(pool, groups, self.chunk_size, self.verbose, places)[0]
        return scores, None if places is None else places.points(chunk_size=self.chunk_size)


def _score_for(model: Any, score: Any) -> Any:
    """The score that is meant: "bald" of a regressor is "std_dev", in whose order the BALD of any fixed noise is.

    "auto" is what the study of queries found best for classifiers of all families.
    """
    is_regressor = task(model) == "regressor"
    if score == "auto":
        return "std_dev" if is_regressor else "margin"
    return "std_dev" if is_regressor and score == "bald" else score
