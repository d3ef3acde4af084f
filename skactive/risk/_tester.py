"""Testing a model on labels that a query chooses for this."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _containers as containers
from .. import _modal as modal
from .._utils.types import Floats, Indices, Loss
from .._utils.validation import (
    as_array,
    check_positions,
    check_sample_weight,
    classes_of,
    float64_array,
    kind_of_labels,
    look_up,
    mixed_labels_error,
    plain_labels,
    warn,
)
from ._estimates import RiskDifference, RiskEstimate, bound_of, checked_losses, estimate_difference, estimate_risk
from ._parts import LARGEST, LOSSES, check_kind, largest_of, log_ratios

_OWN_LABEL = "A row that cannot be labelled should get a label of its own, which counts as an error."
_KEPT = 1000  # quantiles that a tester keeps of the law of an ask


class ActiveTester:
    """Estimate how good a model is on a pool from labels that a query chooses for this.

    `ask` chooses rows and `tell` takes their labels, in any number of rounds and in any order: rows that were asked for
    are not chosen again, and later rounds may use any model. Then `risk` and `accuracy` are unbiased for the whole
    pool, for any model that was not trained on these labels, with a standard error.

    Every row that was asked for counts as a pick, in the order of asking. An estimate needs the labels of all picks
    before the last one that has a label; while one of these is open, it is refused. Open rows at the end do no harm, as
    the estimate uses the picks before them.

    .. warning::
        A row that cannot be labelled must not be left out: such rows are rarely like the others, and without them the
        estimate is biased. Tell a separate label for them, such as "unclear" or -1, which counts as an error of the
        model; see :ref:`rows_without_a_label`.

    Parameters
    ----------
    query : StochasticBatchQuery
        Or another query with ``log_proba_``. Set ``epsilon`` above 0, so that it can pick any row; 0.5 bounds the
        weights of picks by 2. The variance is smallest if rows are picked in proportion to the root of their expected
        squared loss: for accuracy, "power" sampling of "variation_ratio" with beta 0.5, if the model's probabilities
        are right. For other losses, and a model that is nearly always right, "uniform" sampling is safe.
    X_pool : array-like of shape (n_points, ...)
        Rows over which the risk is a mean.
    row_weight : array-like of shape (n_points,), optional
        Weights in that mean, as in a survey: how many rows of the population each row stands for. All estimates use
        them; the query does not.

    Attributes
    ----------
    indices_, labels_, log_proba_ : ndarray of shape (n_labelled,)
        Positions in the pool of the rows with labels, in the order of asking, their labels, and the log-probability of
        each of these picks given those before it; an error while an earlier one is open.
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
    >>> tester = ActiveTester(StochasticBatchQuery("variation_ratio", beta=0.5, epsilon=0.5, random_state=0), X[100:])
    >>> tester.tell(y[100:][tester.ask(model, 150)])
    >>> print(tester.accuracy(model))
    0.8... (standard error 0.02...; 95 % interval 0.7... to 0.8...), from 150 labels, for a pool of 1697 rows
    """

    def __init__(self, query: Any, X_pool: Any, row_weight: ArrayLike | None = None) -> None:
        self.query = query
        self.X_pool = containers.prepare_pool(X_pool)
        row_weight = containers.aligned(row_weight, self.X_pool, "row_weight")
        self.row_weight = weight = check_sample_weight(row_weight, self.n_pool, "row_weight")
        self._scale = np.ones(self.n_pool) if weight is None else weight / weight.mean()
        self._picks = Picks()
        self._first_log_proba: list[Floats] = []
        self._classes: Any = None

    @property
    def n_pool(self) -> int:
        """Rows of the pool, with and without a label."""
        return containers.count_rows(self.X_pool)

    @property
    def indices_(self) -> Indices:
        return self._picks.rows[self._picks.is_told]

    @property
    def labels_(self) -> NDArray[Any]:
        if not self._picks.answers:
            raise ValueError("The tester has no labels yet: call `ask` for rows, then `tell` with their labels.")
        return self._picks.labels

    @property
    def log_proba_(self) -> Floats:
        return self._picks.log_proba[: self._picks.n_complete]

    @property
    def open_(self) -> Indices:
        return self._picks.rows[~self._picks.is_told]

    def ask(
        self,
        estimator: Any,
        n_instances: int = 1,
        *,
        X_training: Any = None,
        y_training: Any = None,
        sample_weight: Any = None,
        fit_params: Any = None,
    ) -> Indices:
        """Choose rows to label, among those that were not asked for yet.

        Parameters
        ----------
        estimator : fitted estimator
            The model that the query scores rows with: the one to be tested, or another.
        n_instances : int, default=1
        X_training, y_training, sample_weight, fit_params : optional
            As in `StochasticBatchQuery.select`. No rows can be left out: the estimate is that of the whole pool.

        Returns
        -------
        ndarray of shape (n_instances,), int64
            Positions in the pool, in the order of picking.
        """
        fit = {"X_training": X_training, "y_training": y_training}
        fit |= {"sample_weight": sample_weight, "fit_params": fit_params}
        given = {name: value for name, value in fit.items() if value is not None}
        query, left = self.query, np.ones(self.n_pool, dtype=bool)
        left[self._picks.rows] = False
        if getattr(query, "diversity", 0) == "auto":  # which would make copies of a pick improbable, or impossible
            query(estimator, self.X_pool, n_instances, candidates=left, diversity=0.0, **given)
            indices = query.indices_.copy()
        else:
            indices = query.select(estimator, self.X_pool, n_instances, candidates=left, **given)
        if not hasattr(query, "log_proba_"):
            raise TypeError(
                f"`query` must know the probability of its picks, but this {type(query).__name__} has no `log_proba_`. "
                "Use a StochasticBatchQuery with a sampler of skactive.samplers."
            )
        law = getattr(getattr(query, "_batch", None), "law", None)  # of a query that is not ours it is not known
        first = np.zeros(1) if law is None else law.first_log_proba()
        _warn_of_bias(query, int(np.count_nonzero(first == -np.inf)), int(left.sum()))
        picks = self._picks.asked(indices, query.log_proba_)
        laws, classes = [*self._first_log_proba, _some(first)], getattr(modal.unwrap(estimator)[0], "classes_", None)
        # in one step: an interrupt leaves no half of it
        vars(self).update({"_picks": picks, "_first_log_proba": laws, "_classes": classes})
        return indices

    def tell(self, labels: ArrayLike, rows: ArrayLike | None = None) -> None:
        """Add labels of rows that `ask` chose.

        Parameters
        ----------
        labels : array-like of shape (n_rows, ...)
            One label for each row, in their order, or those of its outputs. If the pool is a DataFrame or a Series,
            labels with an index are matched to the rows by it, in whatever order they come. None may be missing.
        rows : array-like of int, optional
            The positions in the pool that the labels belong to, from what `ask` returned: needed for part of the rows,
            and where the rows of several asks are open. By default the rows of the one ask that is open.
        """
        picks = self._picks.open_picks(rows, self.n_pool)
        asked = self._picks.rows[picks]
        labels = containers.aligned(_by_position(labels, self.X_pool, asked), self.X_pool, "labels", asked)
        remedy = f"Tell the labels you have with `rows`, and the others later. {_OWN_LABEL}"
        labels = plain_labels(labels, "labels", remedy)
        if len(labels) != len(picks):
            raise ValueError(
                f"`labels` must be the labels of the {len(picks)} rows that were asked for, in that order. Got shape "
                f"{labels.shape}. For some of them only, pass `rows`."
            )
        labels = labels.ravel() if labels[:1].size == 1 else labels
        if self._classes is not None and labels.ndim == 1:
            check_kind(np.asarray(self._classes), labels)
        self._picks = self._picks.told(picks, labels)

    def risk(self, estimator: Any, loss: Loss = "brier", *, largest_loss: ArrayLike | None = None) -> RiskEstimate:
        """Estimate the mean loss of a model over the pool.

        Parameters
        ----------
        estimator : fitted estimator
            Not trained on the labels of this tester. The same holds for all other estimates.
        loss : str or callable, default="brier"
            A name in `LOSSES`, or ``loss(estimator, X, y) -> (n_points,)``.
        largest_loss : float or array-like of shape (n_points,), optional
            The most that a row, or each row of the pool, can cost. By default 1 for "zero_one" and for losses that are
            all 0 or 1, 2 for "brier", and 36 for "log_loss", the cost of a label that the model does not know. For
            other losses it is unknown, and an interval has no upper end without it.
        """
        losses, known = self._losses(estimator, loss)
        options = self._options(known if largest_loss is None else largest_loss)
        return estimate_risk(losses, self.log_proba_, self.n_pool, **options)

    def difference(
        self, estimator: Any, other: Any, loss: Loss = "zero_one", *, largest_loss: ArrayLike | None = None
    ) -> RiskDifference:
        """Estimate how much larger the mean loss of a model over the pool is than that of another.

        Both are tested on the same labels, so that rows on which they agree cancel: the error is smaller than those of
        two estimates.

        Parameters
        ----------
        estimator, other : fitted estimators
        loss : str or callable, default="zero_one"
            As in `risk`. The value is below 0 where ``estimator`` is better; with "zero_one" it is the accuracy of
            ``other`` minus that of ``estimator``.
        largest_loss : float or array-like of shape (n_points,), optional
            As in `risk`. For "log_loss" the probabilities of both models bound the difference of their losses.
        """
        (losses, known), (of_other, of_other_known) = (self._losses(model, loss) for model in (estimator, other))
        if largest_loss is None and loss == "log_loss":
            largest_loss = self._log_ratios(estimator, other)
        options = self._options(max(known, of_other_known) if largest_loss is None else largest_loss)
        return estimate_difference((losses, of_other), self.log_proba_, self.n_pool, **options)

    def _losses(self, estimator: Any, loss: str | Callable[..., Any]) -> tuple[Floats, float]:
        """A model's losses, times weights of rows, and the most that one can be without; infinite if not known."""
        per_row = look_up("loss", loss, LOSSES)
        y, _ = self.labels_, self.log_proba_  # refused before the model is asked, while a pick is open
        found = as_array(per_row(modal.unwrap(estimator)[0], containers.take_rows(self.X_pool, self.indices_), y))
        known = LARGEST.get(loss, math.inf) if isinstance(loss, str) else bound_of(found)
        return checked_losses(found, len(y)) * self._scale[self.indices_], known

    def _log_ratios(self, *learners: Any) -> Floats:
        models = [modal.unwrap(learner)[0] for learner in learners]
        size = containers.rows_per_chunk(self.X_pool, sum(len(classes_of(model)) for model in models))
        found = np.concatenate([log_ratios(models, X) for X in containers.iter_chunks(self.X_pool, None, size)])
        found[self.indices_] = np.inf  # not needed, and off by rounding from the losses
        return found

    def _options(self, largest: Any) -> dict[str, Any]:
        """Of an estimate, if ``largest`` is the most that a row, or each row, can lose before it is weighted."""
        n_asks = int(self._picks.asks[self._picks.is_told].max(initial=-1)) + 1  # up to the last pick that has a label
        n_labelled = len(self.indices_)
        weights = [largest_of(of_ask, n_labelled) for of_ask in self._first_log_proba[:n_asks]]
        shape = np.shape(largest)
        if shape == (self.n_pool,) or (shape == () and self.row_weight is not None):
            largest = self._in_order(float64_array("largest_loss", largest))
        # after each `tell` somebody can look
        return {"largest_loss": largest, "largest_weight": max(weights), "n_looks": len(self._picks.answers)}

    def _in_order(self, largest: Floats) -> Floats:
        """The most that each row can cost, by its weight, those with a label first."""
        scale = self._scale
        weighted = np.multiply(largest, scale, where=scale > 0, out=np.zeros(len(scale)))  # 0 · infinity is 0 here
        return np.concatenate([weighted[self.indices_], np.delete(weighted, self.indices_)])

    def accuracy(self, estimator: Any) -> RiskEstimate:
        """Estimate the accuracy of a classifier on the pool, as one minus its "zero_one" loss."""
        errors = self.risk(estimator, "zero_one")
        limits = 1 - errors.limits[1], 1 - errors.limits[0]
        return dataclasses.replace(errors, value=1 - errors.value, greater_is_better=True, limits=limits)


def _by_position(labels: Any, X_pool: Any, rows: Indices) -> Any:
    """Labels in the order of the rows, if their index holds the positions of these in a pool without an index.

    A RangeIndex is what labels get that were given none: it says nothing.
    """
    has_index = hasattr(labels, "loc") and not hasattr(getattr(labels, "index", None), "step")
    if hasattr(X_pool, "index") or not has_index:
        return labels
    positions = np.asarray(labels.index)
    is_of_rows = positions.dtype.kind in "iu" and np.array_equal(np.sort(positions), np.sort(rows))
    return labels.loc[rows] if is_of_rows else labels


def _some(first_log_proba: Floats) -> Floats:
    """Quantiles of them, as of a smaller pool: what a tester keeps of an ask."""
    ordered = np.sort(first_log_proba[first_log_proba > -np.inf])
    kept = ordered[np.linspace(0, len(ordered) - 1, min(len(ordered), _KEPT)).round().astype(int)]
    return np.minimum(kept + np.log(len(ordered) / len(kept)), 0.0) if len(kept) else np.zeros(1)


def _warn_of_bias(query: Any, n_unreachable: int, n_left: int) -> None:
    remedy = "the estimate is not the risk on the whole pool. Set epsilon=0.1 in the query, for example."
    if getattr(query, "diversity_", 0) > 0 and getattr(query, "epsilon", 0) == 0:
        warn(f"With `diversity`, copies of a picked row can no longer be picked, and {remedy}")
    if n_unreachable:
        warn(
            f"{n_unreachable} of {n_left} rows could not be picked: their score, or their rank, gives them probability "
            f"0, and {remedy}"
        )


@dataclass(frozen=True)
class Picks:
    """Rows that were asked for, in the order of asking, and what was told of them.

    A pick is a position in this order. ``asks`` says which call chose it; ``answers`` are picks with their labels.
    """

    rows: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    log_proba: Floats = field(default_factory=lambda: np.empty(0))
    asks: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    answers: tuple[tuple[Indices, NDArray[Any]], ...] = ()

    @property
    def is_told(self) -> NDArray[np.bool_]:
        is_told = np.zeros(len(self.rows), dtype=bool)
        for picks, _ in self.answers:
            is_told[picks] = True
        return is_told

    @property
    def labels(self) -> NDArray[Any]:
        order = np.argsort(np.concatenate([picks for picks, _ in self.answers]))
        return np.concatenate([labels for _, labels in self.answers])[order]

    @property
    def n_complete(self) -> int:
        """How many picks have labels, where these are the first ones."""
        is_told = self.is_told
        n_told = int(is_told.sum())
        gaps = self.rows[:n_told][~is_told[:n_told]]
        if len(gaps):
            raise ValueError(
                f"An estimate needs the labels of all rows in the order of asking, but row {gaps[0]} was asked for "
                f"before others that have one; {len(self.rows) - n_told} rows are open in all (`open_`). {_OWN_LABEL}"
            )
        return n_told

    def asked(self, rows: Indices, log_proba: Floats) -> Picks:
        number = self.asks.max(initial=-1) + 1
        return dataclasses.replace(
            self,
            rows=np.concatenate([self.rows, rows]),
            log_proba=np.concatenate([self.log_proba, log_proba]),
            asks=np.concatenate([self.asks, np.full(len(rows), number)]),
        )

    def told(self, picks: Indices, labels: NDArray[Any]) -> Picks:
        if self.answers and kind_of_labels(self.answers[0][1]) != kind_of_labels(labels):
            raise mixed_labels_error("labels", [self.answers[0][1].item(0), labels.item(0)])
        return dataclasses.replace(self, answers=(*self.answers, (picks, labels)))

    def open_picks(self, rows: Any, n_pool: int) -> Indices:
        """Picks without a label: those of some rows, or of the one ask that is open."""
        picks = np.flatnonzero(~self.is_told)
        if len(picks) == 0:
            raise ValueError("`labels` must be those of rows that `ask` chose. It was not called after the last ones.")
        if rows is None and len(asks := np.unique(self.asks[picks])) > 1:
            raise ValueError(f"`rows` must say which rows these labels belong to, as {len(asks)} asks are open.")
        if rows is None:
            return picks
        pick_of = dict(zip(self.rows[picks].tolist(), picks.tolist(), strict=True))
        given = check_positions("rows", rows, n_pool).tolist()
        wrong = [row for row in given if row not in pick_of]
        if wrong:
            raise ValueError(
                f"`rows` must be positions in the pool that `ask` returned and that have no label yet. Got {wrong[0]}; "
                f"{len(wrong)} such rows in all."
            )
        return np.array([pick_of[row] for row in given], dtype=np.int64)
