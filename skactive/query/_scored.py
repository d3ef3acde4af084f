"""A batch from scores that were made elsewhere: the second half of `select`, as a door of its own.

Scores are a map over the rows of a pool, which any engine can do, block by block, wherever the rows are. What comes
back is 8 bytes a row, and the batch is chosen once, here.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _containers as containers
from .._checks import ParameterError, check_n_instances, float64_array, warn
from ._base import BatchQuery
from ._limits import Limits
from ._model import check_fits, pool_for
from ._pool import Pool
from ._sampling import Apart, RowScorer, batch_by_scores, check_keeps_limits, kept_for_beta, measured_beta

Values = NDArray[np.float64]


class ScoringQuery(BatchQuery):
    """Base of the queries that sample a batch from one score a row: they have the `ScoringParameters`."""

    @abstractmethod
    def row_scorer(self, learner: Any, pool: Pool, rng: np.random.Generator) -> RowScorer:
        """Scores of the candidates of a pool, and of others like it, by draws that are made now."""

    def apart(self, learner: Any, pool: Pool, rng: np.random.Generator) -> Apart | None:
        """How rows of a batch keep apart, if they do."""
        return None

    @property
    def beta_history_(self) -> list[float]:
        """Those of all batches with ``beta="auto"``."""
        return list(self._known("beta_history_").betas)

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
        candidates, pending : array-like of int or bool, optional
            Rows that may be chosen, and rows in flight, as in `select`.
        estimator : fitted estimator, or modAL learner, optional
            Needed with ``beta="auto"``, which scores some rows of the last pool again, and with a ``diversity``.
        X_pool : array-like of shape (n_points, ...), optional
            The rows that were scored, in the same order, in any container that `select` takes. Needed with a
            ``diversity``; with ``beta="auto"`` some hundred rows are kept from it for the next batch. Else it is not
            looked at.
        limits : Limits, optional
            What the batch keeps to, as in `select`.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, most preferred first, as from `select` with the same scores and seed. ``scores_``,
            ``indices_``, ``log_proba_`` and the other attributes are those that `select` leaves; but ``score_`` is not
            set, as the parameter ``score`` is not looked at.

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
        given = {"candidates": candidates, "pending": pending, "limits": limits}
        with self.on_a_copy() as call:
            call._select_scored(scores, n_instances, estimator, X_pool, **given)
        return call.indices_.copy()

    def _select_scored(self, scores: Any, n_instances: Any, estimator: Any, X_pool: Any, **given: Any) -> None:
        self.check_parameters()
        values = _one_a_row(scores)
        X_pool = None if X_pool is None else containers.prepare_pool(X_pool)
        _check_has_what_it_needs(self, estimator, X_pool)
        X = np.broadcast_to(np.int8(0), values.shape) if X_pool is None else X_pool  # takes no memory
        _, pool = pool_for(estimator, X, **given)
        if pool.n_points != len(values):
            raise ValueError(
                f"`scores` must have shape ({pool.n_points},), one number for each row of `X_pool`. "
                f"Got {values.shape} instead."
            )
        if isinstance(n_instances, str):
            raise TypeError(
                f"`n_instances` must be an integer for scores that were made elsewhere. Got {n_instances!r}: "
                "`suggest_batch_size` finds a number."
            )
        k = check_n_instances(n_instances, len(pool), pool.n_points)
        pool.allowance(k)  # what cannot be met is said now
        rngs = self.streams()
        pool = self.limited(pool, k, rngs.batch)
        check_keeps_limits(self, pool)
        kept = None if X_pool is None else kept_for_beta(self, pool, k, rngs.batch)
        of_candidates = values.copy() if pool.rows is None else values[pool.rows]
        scorer = RowScorer(lambda rows: self.row_scorer(estimator, rows, rngs.draws)(rows))
        apart = None if estimator is None else self.apart(estimator, pool, rngs.draws)
        how: dict[str, Any] = {"apart": apart, "rule": measured_beta if X_pool is not None else _beta_of_kept_rows}
        self.keep_batch(pool, k, batch_by_scores(self, estimator, pool, of_candidates, k, rngs, scorer, kept, **how))


def _beta_of_kept_rows(query: Any, learner: Any, pool: Pool, *others: Any) -> float:
    """Without the rows of the pool, those that were kept from the last one are taken to be like them."""
    reference = query.memory_.reference
    return measured_beta(query, learner, pool if reference is None else Pool(reference.X), *others)


def _one_a_row(scores: Any) -> Values:
    values = float64_array("scores", scores)
    if values.ndim != 1:
        raise ValueError(f"`scores` must have shape (n_points,), one number a row. Got shape {values.shape} instead.")
    if not len(values):
        raise ValueError("`scores` must hold a number for each row of the pool. Got none.")
    return values


def _check_has_what_it_needs(query: Any, estimator: Any, X_pool: Any) -> None:
    is_auto, keeps_apart = isinstance(query.beta, str), getattr(query, "diversity", 0) > 0
    if keeps_apart and (estimator is None or X_pool is None):
        raise ParameterError(
            f"`diversity`={query.diversity:g} needs the rows and the model: distances between rows are none of their "
            "scores. Give `estimator` and `X_pool`, or set diversity=0."
        )
    if not is_auto:
        return
    if estimator is None:
        raise ParameterError(
            '`beta`="auto" needs the model, which scores some rows of the last pool again. Give `estimator`, and '
            "`X_pool` for the next batch; or set beta to a number."
        )
    if X_pool is not None:
        check_fits(*pool_for(estimator, X_pool))
    elif query.memory_.reference is None:
        warn(
            'There are no rows to measure beta="auto" by, so that it is 1. Give `X_pool`, of which some rows are kept '
            "for the next batch; or set beta to a number."
        )
