"""Testing a model on labels that a query chooses for this."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _containers as containers
from .. import _modal as modal
from .._checks import look_up
from ._checks import check_kind, check_labels, warn_unreachable
from ._estimates import RiskEstimate, estimate_risk
from ._losses import LOSSES
from ._picks import Picks
from ._weights import Weights


class ActiveTester:
    """Estimate how good a model is on a pool from labels that a query chooses for this.

    `ask` chooses rows and `tell` takes their labels, in any number of rounds and in any order: rows that were asked for
    are not chosen again, and later rounds may use any model. Then `risk` and `accuracy` are unbiased for the whole
    pool, for any model that was not trained on these labels, with a standard error.

    Every row that was asked for counts as a pick, in the order of asking. An estimate needs the labels of all picks
    before the last one that has a label; while one of these is open, it is refused. Open rows at the end are no
    obstacle, as the estimate is that of the picks before them.

    .. warning::
        A row that nobody can label must not be left out: such rows are seldom like the others, and without them the
        estimate is biased. Tell a label of its own for them, such as "unclear" or -1, which counts as an error of the
        model; see :ref:`rows_without_a_label`.

    Parameters
    ----------
    query : StochasticBatchQuery
        Or another query with ``log_proba_``. Set ``epsilon`` above 0, so that it can pick any row. The variance is
        smallest if rows are picked in proportion to the root of their expected squared loss: for accuracy, "power"
        sampling of "variation_ratio" with beta 0.5, if the model's probabilities are right.
    X_pool : array-like of shape (n_points, ...)
        Rows over which the risk is a mean.

    Attributes
    ----------
    indices_ : ndarray of shape (n_labelled,), int64
        Positions in the pool of the rows with labels, in the order of asking.
    labels_ : ndarray of shape (n_labelled,)
        Their labels.
    log_proba_ : ndarray of shape (n_labelled,), float64
        Log-probability of each of these picks given those before it. An error while one before them is open.
    open_ : ndarray of shape (n_open,), int64
        Positions in the pool of the rows that were asked for and have no label yet, in the order of asking.

    References
    ----------
    Kossen, Farquhar, Gal and Rainforth (2021), Active Testing: Sample-Efficient Model Evaluation.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skactive import StochasticBatchQuery
    >>> from skactive.risk import ActiveTester
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X[:100], y[:100])
    >>> tester = ActiveTester(StochasticBatchQuery("variation_ratio", beta=0.5, epsilon=0.1, random_state=0), X[100:])
    >>> tester.tell(y[100:][tester.ask(model, 150)])
    >>> print(tester.accuracy(model))
    0.8... ± 0.02... (95 % interval 0.7... to 0.8...), from 150 labels, for a pool of 1697 rows
    """

    def __init__(self, query: Any, X_pool: Any) -> None:
        if not hasattr(query, "select"):
            raise TypeError(
                "`query` must be a query with probabilities, such as a StochasticBatchQuery. "
                f"Got a {type(query).__name__}."
            )
        if getattr(query, "max_candidates", None) is not None:
            raise ValueError(
                f"`query` must be able to pick any row of the pool, and max_candidates={query.max_candidates} excludes "
                "rows. Set it to None."
            )
        self.query = query
        self.X_pool = containers.prepare_pool(X_pool)
        self._picks = Picks()
        self._classes: NDArray[Any] | None = None

    @property
    def n_pool(self) -> int:
        """Rows of the pool, with and without a label."""
        return containers.count_rows(self.X_pool)

    @property
    def indices_(self) -> NDArray[np.int64]:
        """Rows with labels, in the order of asking."""
        return self._picks.rows[self._picks.is_told]

    @property
    def labels_(self) -> NDArray[Any]:
        """Labels so far, in the order of asking."""
        if not self._picks.answers:
            raise ValueError("The tester has no labels yet: call `ask` for rows, then `tell` with their labels.")
        return self._picks.labels

    @property
    def log_proba_(self) -> Weights:
        """Log-probabilities of the picks with labels; an error while a pick before them is open."""
        return self._picks.log_proba[: self._picks.n_complete]

    @property
    def open_(self) -> NDArray[np.int64]:
        """Rows that were asked for and have no label yet, in the order of asking."""
        return self._picks.rows[~self._picks.is_told]

    def ask(self, estimator: Any, n_instances: int = 1, **training_data: Any) -> NDArray[np.int64]:
        """Choose rows to label, among those that were not asked for yet.

        Parameters
        ----------
        estimator : fitted estimator
            The model that the query scores rows with: the one to be tested, or another.
        n_instances : int, default=1
        **training_data
            ``X_training`` and ``y_training``, for queries that need them.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, in the order of picking.
        """
        left = np.ones(self.n_pool, dtype=bool)
        left[self._picks.rows] = False
        query = self.query
        if hasattr(query, "select_on_a_copy"):  # the query may be in use elsewhere at the same time
            query = query.select_on_a_copy(estimator, self.X_pool, n_instances, candidates=left, **training_data)
            indices = query.indices_.copy()
        else:
            indices = query.select(estimator, self.X_pool, n_instances, candidates=left, **training_data)
        if not hasattr(query, "log_proba_"):
            raise TypeError(
                f"`query` must know the probability of its picks, and this {type(query).__name__} has no `log_proba_`. "
                "Use a StochasticBatchQuery with a sampler of skactive.samplers."
            )
        warn_unreachable(getattr(query, "n_unreachable_", 0), int(left.sum()))
        classes = getattr(modal.unwrap(estimator)[0], "classes_", None)
        changed = {
            "_classes": None if classes is None else np.asarray(classes),
            "_picks": self._picks.asked(indices, query.log_proba_),
        }
        vars(self).update(changed)  # in one step: an interrupt leaves no half of it
        return indices

    def tell(self, labels: ArrayLike, rows: ArrayLike | None = None) -> None:
        """Add labels of rows that `ask` chose.

        Parameters
        ----------
        labels : array-like of shape (n_rows,)
            One label for each row, in their order. If the pool is a DataFrame or a Series, labels with an index are
            matched to the rows by it, in whatever order they come. None may be missing.
        rows : array-like of int, optional
            The positions in the pool that the labels belong to, from what `ask` returned: needed for part of the rows,
            and where the rows of several asks are open. By default the rows of the one ask that is open.

        Raises
        ------
        ValueError, TypeError
            If there is not one label for each row, one is missing, they are text where the model that asked knows
            numbers (or the other way about), or rows were not asked for, or have a label. The tester is then as it was.
        """
        picks = self._picks.open_picks(rows, self.n_pool)
        labels = containers.aligned(labels, self.X_pool, "labels", self._picks.rows[picks])
        labels = check_labels(labels, len(picks))
        if self._classes is not None:
            check_kind(self._classes, labels)
        self._picks = self._picks.told(picks, labels)

    def risk(self, estimator: Any, loss: str | Callable[..., Any] = "log_loss") -> RiskEstimate:
        """Estimate the mean loss of a model over the pool.

        Parameters
        ----------
        estimator : fitted estimator
            Not trained on the labels of this tester.
        loss : str or callable, default="log_loss"
            A name in `LOSSES`, or ``loss(estimator, X, y) -> (n_points,)``.

        Returns
        -------
        RiskEstimate

        Raises
        ------
        ValueError, TypeError
            If there are no labels, one of a row that was asked for before others is missing, or model and labels do not
            fit together: a regressor has no "zero_one" loss, and labels must be text if those of the model are.
        """
        per_row = look_up("loss", loss, LOSSES)
        y, log_proba = self.labels_, self.log_proba_
        losses = per_row(estimator, containers.take_rows(self.X_pool, self.indices_), y)
        return estimate_risk(losses, log_proba, self.n_pool)

    def accuracy(self, estimator: Any) -> RiskEstimate:
        """Estimate the accuracy of a classifier on the pool, as one minus its "zero_one" loss.

        Parameters
        ----------
        estimator : fitted classifier
            Not trained on the labels of this tester.

        Returns
        -------
        RiskEstimate

        Raises
        ------
        ValueError, TypeError
            As `risk` does.
        """
        errors = self.risk(estimator, "zero_one")
        return dataclasses.replace(errors, value=1 - errors.value, greater_is_better=True)
