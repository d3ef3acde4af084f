"""From scores to a batch: what the queries that score rows one by one have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _containers as containers
from .._checks import (
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
    warn,
)
from ..samplers import SAMPLERS
from ..samplers._distances import PointSet
from ..samplers._law import check_has_law, draw_batch
from ._base import Batch, BatchQuery, Streams
from ._draws import PoolDraws
from ._limits import Limits
from ._pool import Pool, pool_for

Values = NDArray[np.float64]

NEARLY_RANDOM = 1.1
"""Mean score of a pick, over that of the pool, below which a batch is nearly uniform."""

_SOME_ROWS = 100_000
"""Rows of a large pool that show that a batch is far from random."""


class ScoringQuery(BatchQuery):
    """Base of the queries that sample a batch from one score a row.

    A subclass has the parameters ``sampler``, ``beta`` and ``epsilon``, and says in `score_candidates` what the scores
    are. If it has a ``diversity``, it says in `points` where the candidates lie.

    See Also
    --------
    StochasticBatchQuery : The query of this kind for classifiers and regressors.
    """

    rules: ClassVar[Rules] = BatchQuery.rules | {
        "sampler": name_or_callable(SAMPLERS),
        "beta": BETA,
        "epsilon": number(0, 1, text="a number from 0 (the sampler alone) to 1 (uniform)"),
    }

    sampler: Any
    beta: Any
    epsilon: float
    diversity: float = 0.0

    @abstractmethod
    def score_candidates(self, learner: Any, pool: Pool, rng: np.random.Generator) -> tuple[Values, PoolDraws | None]:
        """Scores of the candidates, (n_candidates,), and the draws that they are made of, if there are any."""

    def points(self, learner: Any, pool: Pool, draws: PoolDraws | None, rng: np.random.Generator) -> PointSet | None:
        """The candidates, and after them the rows in flight, as points; None without a ``diversity``."""
        return None

    def reads_once(self) -> bool:
        """Whether the pool is read in one pass: a ``diversity`` takes another."""
        return self.diversity == 0

    def choose(self, learner: Any, pool: Pool, k: int, rngs: Streams) -> Batch:
        """Score the candidates, and sample a batch from the scores."""
        self._check_takes_limits(pool)
        scores, draws = self.score_candidates(learner, pool, rngs.draws)
        k = check_n_instances(k, len(scores), pool.n_points)  # it may not have been known how many rows there are
        return self._sample(scores, pool, k, rngs.batch, self.points(learner, pool, draws, rngs.draws))

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
    ) -> NDArray[np.int64]:
        """Choose rows by scores that were made elsewhere: the batch that `select` chooses from the same scores.

        Any engine can score a pool, block by block, by `skactive.query.score_pool` with one ``random_state`` for all
        blocks: the draws are then the same functions. The scores of all rows come together here.

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
            Needed with a ``diversity``.
        X_pool : array-like of shape (n_points, ...), optional
            The rows that were scored, in the same order, in any container that `select` takes. Needed with a
            ``diversity``; else it is not looked at.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first, as from `select` with the same scores and seed. ``scores_``,
            ``indices_``, ``log_proba_`` and ``concentration_`` are those that `select` sets; ``score_`` is not set, as
            the parameter ``score`` is not looked at.

        Raises
        ------
        ValueError, TypeError
            If scores of rows that may be chosen are not real numbers, or not of one axis, ``X_pool`` has another
            number of rows, ``estimator`` or ``X_pool`` are missing where they are needed, or as `select` does.

        See Also
        --------
        query.score_pool : Makes the scores of a block.

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
        values = _one_a_row(scores)
        if self.diversity > 0 and (estimator is None or X_pool is None):
            raise ParameterError(
                f"`diversity`={self.diversity:g} needs the rows and the model: distances between rows are none of "
                "their scores. Give `estimator` and `X_pool`, or set diversity=0."
            )
        # Rows that are not looked at take no memory: zeros of stride 0.
        rows = np.broadcast_to(np.int8(0), values.shape) if X_pool is None else containers.prepare_pool(X_pool)
        _, pool = pool_for(estimator, rows, candidates=candidates, pending=pending, limits=limits)
        if pool.n_points != len(values):
            raise ValueError(
                f"`scores` must have shape ({pool.n_points},), one number for each row of `X_pool`. "
                f"Got {values.shape} instead."
            )
        self._check_takes_limits(pool)
        of_candidates = values.copy() if pool.rows is None else values[pool.rows]

        def choose(k: int, rngs: Streams) -> Batch:
            points = None if estimator is None else self.points(estimator, pool, None, rngs.draws)
            return self._sample(of_candidates, pool, k, rngs.batch, points)

        return self._report(pool, self._batch_of(pool, n_instances, choose))[0].copy()

    def _check_takes_limits(self, pool: Pool) -> None:
        if pool.limits is not None:
            check_has_law(look_up("sampler", self.sampler, SAMPLERS), "`limits`")

    def _sample(
        self, scores: Values, pool: Pool, k: int, rng: np.random.Generator, points: PointSet | None = None
    ) -> Batch:
        """A batch from the scores of the candidates, whoever made them."""
        sampler, beta = look_up("sampler", self.sampler, SAMPLERS), float(self.beta)
        # Without limits samplers need not look at every row.
        allowance = None if pool.limits is None else pool.allowance(k)
        is_allowed = None if allowance is None else allowance.allowed.copy()
        how: dict[str, Any] = {"epsilon": self.epsilon, "diversity": self.diversity}
        try:
            scores = check_scores(scores, minus_inf=True)
            scores.flags.writeable = False  # the law is computed from them when it is asked for
            positions, law = draw_batch(sampler, scores, k, rng, beta=beta, allowance=allowance, points=points, **how)
        except ScoreError as error:
            raise error.of_rows(pool.rows) from None
        _warn_if_nearly_random(sampler, scores, beta, k, is_allowed)
        return Batch(positions, scores, law)


def _one_a_row(scores: Any) -> Values:
    values = float64_array("scores", scores)
    if values.ndim != 1:
        raise ValueError(f"`scores` must have shape (n_points,), one number a row. Got shape {values.shape} instead.")
    if not len(values):
        raise ValueError("`scores` must hold a number for each row of the pool. Got none.")
    return values


def _warn_if_nearly_random(
    sampler: Any, scores: Values, beta: float, k: int, is_allowed: NDArray[np.bool_] | None = None
) -> None:
    """Say that the law of a pick hardly prefers rows of large scores, where another beta could."""
    if is_allowed is not None and not is_allowed.any():
        return  # every row has to be in the batch
    every = slice(None) if is_allowed is None else is_allowed
    all_scores, scores = scores, scores[every]
    mean = scores.mean()
    if not (hasattr(sampler, "log_weights") and getattr(sampler, "uses_beta", True) and beta > 0 and 0 < mean < np.inf):
        return
    if scores.max() < NEARLY_RANDOM * mean or 2 * k > len(scores):  # all alike, or most of them: no beta would help
        return
    if len(scores) > 2 * _SOME_ROWS:  # some rows show at less cost what is far from random
        some = scores[np.random.default_rng(0).integers(len(scores), size=_SOME_ROWS)]
        if some.max() > 0 and _preference(sampler.log_weights(some, beta), some) >= 2 * NEARLY_RANDOM:
            return
    times = _preference(sampler.log_weights(all_scores, beta)[every], scores)
    if times < NEARLY_RANDOM:
        warn(
            f"This batch is nearly random: a pick scores {times:.3g} times the mean of the "
            f"{'pool' if is_allowed is None else 'rows that `limits` leave'}. Raise `beta` above {beta:g}, to "
            f"{4 * beta:g} say."
        )


def _preference(log_weights: Values, scores: Values) -> float:
    """The mean score of a pick, over that of the rows."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights @ scores / weights.sum() / scores.mean())
